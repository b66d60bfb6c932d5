"""What the documents name exists: tests, functions, files."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MISPRINTS, PAPER = ROOT / "docs" / "misprints.md", ROOT / "docs" / "paper.md"
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
EXAMPLES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))]


def quoted(path, pattern):
    """What stands between backticks in a page and matches the pattern as a whole, each once."""
    found = re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))
    return sorted({text for text in found if re.fullmatch(pattern, text)})


def resolved(name):
    """The object with this dotted name; the longest part of it that is a module is imported."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def is_defined(name):
    """Whether a test is defined and, where a case is given in brackets, the same file has its id."""
    function, _, case = name.removesuffix("]").partition("[")
    return any(f"def {function}(" in source and (not case or f'"{case}"' in source) for source in SOURCES)


def rows(path):
    """The rows of the tables of a page, without their heads: lists of cells."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    heads = {at - 1 for at, row in enumerate(cells) if set("".join(row)) <= set("-|: ")}
    return [row for at, row in enumerate(cells) if at not in heads and at - 1 not in heads]


def named_tests(cell):
    """The tests that a cell names, each with the file whose link comes before it."""
    found, file = [], None
    for link, name in re.findall(r"\]\(([^)]+)\)|`(test_\w+)`", cell):
        file = link or file
        if name:
            found.append((file, name))
    return found


@pytest.mark.parametrize("name", quoted(MISPRINTS, r"test_\w+(\[.+\])?"))
def test_tests_that_catch_misprints_exist(name):
    assert is_defined(name)


@pytest.mark.parametrize("row", rows(PAPER), ids=lambda row: row[0])
def test_functions_and_tests_beside_the_equations_exist(row):
    what, functions, tests = row
    named = re.findall(r"`(chefs\.[\w.]+)`", functions)
    assert what and named and named_tests(tests)
    for name in named:
        assert resolved(name) is not None
    for file, name in named_tests(tests):
        assert f"def {name}(" in (PAPER.parent / file).read_text(encoding="utf-8")


def test_names_that_do_not_exist_are_seen():
    assert not is_defined("test_errors_of_the_chain_are_caught[no such case]")
    assert not is_defined("test_that_nobody_wrote")
    with pytest.raises(AttributeError):
        resolved("chefs.ChefsProcess.no_such_method")
    assert len(quoted(MISPRINTS, r"test_\w+(\[.+\])?")) > 12
    assert len(rows(PAPER)) > 50
    assert named_tests("[a](a.py): `test_x`, `test_y`; [b](b.py): `test_z`") == [
        ("a.py", "test_x"), ("a.py", "test_y"), ("b.py", "test_z")
    ]  # fmt: skip


@pytest.mark.parametrize("page", EXAMPLES, ids=[str(page.relative_to(ROOT)) for page in EXAMPLES])
def test_every_block_of_python_is_run(page):
    """An example is run where it is written as one of an interpreter."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert not [block for block in blocks if not block.startswith(">>> ") or not block.endswith("\n\n")]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_relative_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    inside = [link.partition("#")[0] for link in links if "://" not in link and not link.startswith("#")]
    missing = [link for link in inside if not (page.parent / link).exists()]
    assert not missing
