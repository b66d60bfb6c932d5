"""What the documents name exists: tests, functions, files."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MISPRINTS = ROOT / "docs" / "misprints.md"
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
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


@pytest.mark.parametrize("name", quoted(MISPRINTS, r"test_\w+(\[.+\])?"))
def test_tests_named_beside_the_equations_exist(name):
    assert is_defined(name)


@pytest.mark.parametrize("name", quoted(MISPRINTS, r"chefs\.[\w.]+"))
def test_functions_named_beside_the_equations_exist(name):
    assert resolved(name) is not None


def test_names_that_do_not_exist_are_seen():
    assert not is_defined("test_errors_of_the_chain_are_caught[no such case]")
    assert not is_defined("test_that_nobody_wrote")
    with pytest.raises(AttributeError):
        resolved("chefs.ChefsProcess.no_such_method")
    assert len(quoted(MISPRINTS, r"test_\w+(\[.+\])?")) > 20
    assert len(quoted(MISPRINTS, r"chefs\.[\w.]+")) > 20


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_relative_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    inside = [link.partition("#")[0] for link in links if "://" not in link and not link.startswith("#")]
    missing = [link for link in inside if not (page.parent / link).exists()]
    assert not missing
