"""The pages make one site, without a warning, in which everything public can be looked up."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

import chefs
from chefs import cnn, report

ROOT = Path(__file__).parent.parent


def built(folder, *options, source=ROOT):
    """Build a site with warnings as errors, in a process of its own: conf.py switches off the compiler."""
    command = ["-m", "sphinx", "-W", "--keep-going", "-q", "-c", ROOT / "docs", *options, source, folder]
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = built(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def known(site):
    """The names that the reference explains."""
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    return {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}


def public_names():
    """What chefs and its public modules offer: what `__all__` names or, without it, all that is defined there."""
    for name in chefs.__all__:
        yield f"chefs.{name}"
    for module in (cnn, report):
        yield from (f"{module.__name__}.{name}" for name in module.__all__)
    for module in (getattr(chefs, name) for name in chefs.__all__):
        if inspect.ismodule(module) and not hasattr(module, "__all__"):
            yield from (
                f"{module.__name__}.{name}"
                for name, found in vars(module).items()
                if not name.startswith("_") and getattr(found, "__module__", None) == module.__name__
            )


def test_every_public_name_is_in_the_reference(known):
    names = {name for name in public_names() if name != "chefs.cnn.ArchitectureSearch"}  # it is there as chefs.…
    assert {"chefs.Dag", "chefs.datasets.load", "chefs.cnn.plan_of", "chefs.report.write"} <= names
    assert not names - known
    assert {"chefs.NoSuchName"} - known


def test_methods_are_explained_too(known):
    assert {"chefs.ChefsProcess.log_prob", "chefs.Trace.consensus", "chefs.SigmoidNetwork.impute"} <= known


def test_the_site_opens_at_its_first_page(site):
    target = re.search(r"url=([\w/.]+)", (site / "index.html").read_text())
    assert (site / target[1]).is_file()


def test_functions_beside_equations_are_links(site):
    """Of the names in the tables, all lead to the place where they are explained."""
    page = (site / "docs" / "paper.html").read_text(encoding="utf-8")
    cells = "".join(re.findall(r"<td>.*?</td>", page, re.DOTALL))
    codes = re.findall(r"(<a [^>]*>)?<code[^>]*>(.*?)</code>", cells)
    named = {re.sub("<.*?>", "", code): bool(link) for link, code in codes}
    ours = {name: linked for name, linked in named.items() if name.startswith("chefs.")}
    assert len(ours) > 50
    assert all(ours.values()), ours


def test_every_page_is_in_the_site(site):
    pages = [page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 15
    assert not [page for page in pages if not (site / page).with_suffix(".html").is_file()]


@pytest.mark.parametrize(
    "text, code",
    [
        ("[here](index.md)", 0),
        ("[nowhere](nowhere.md)", 1),
        ("```{eval-rst}\n.. autoclass:: chefs.Nothing\n```", 1),
    ],
    ids=["right", "link", "name"],
)
def test_a_warning_is_an_error(text, code, tmp_path):
    page = tmp_path / "pages" / "docs" / "index.md"
    page.parent.mkdir(parents=True)
    page.write_text(f"# A page\n\n{text}\n")
    assert built(tmp_path / "site", "-D", "html_theme=basic", source=tmp_path / "pages").returncode == code
