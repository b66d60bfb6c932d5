"""chefs report, and the page that fit and resume leave: where it is, what it is made from, what is not replaced."""

import numpy as np
import pytest

import chefs.report
from chefs import datasets
from tests.commands import SHORT, TABLE, contents

BRIEF = SHORT[:-1]  # with a report


@pytest.fixture
def fitted(run, tmp_path):
    (tmp_path / "data.csv").write_text(TABLE)
    assert run("fit", "data.csv", "--out", "run", *SHORT)[0] == 0


@pytest.fixture
def written(monkeypatch):
    """What pages were asked for, in place of the pages."""
    asked = []

    def write(source, path, **facts):
        asked.append({"source": str(source), **facts})
        with path.open("x") as file:
            file.write(f"page {len(asked)}")
        return path

    monkeypatch.setattr(chefs.report, "write", write)
    return asked


def test_fit_and_resume_leave_a_page(run, tmp_path):
    (tmp_path / "data.csv").write_text(TABLE)
    code, out, err = run("fit", "data.csv", "--out", "run", *BRIEF)
    assert (code, err) == (0, "") and out.endswith("\nrun\nrun/report.html\n")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<html" in page and "effect" in page
    code, out, err = run("resume", "run", "--draws", 5)
    assert (code, err) == (0, "") and out.endswith("\nrun/report.html\n")
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8") != page
    assert not [path for path in (tmp_path / "run").glob(".*") if path.name != ".lock"]


def test_a_page_is_written_beside_the_run_or_where_it_is_wanted(run, fitted, written, tmp_path):
    for number in (1, 2):  # in the folder of the run it is ours to renew
        assert run("report", "run") == (0, "run/report.html\n", "")
        assert (tmp_path / "run" / "report.html").read_text() == f"page {number}"
    assert run("report", "run", "-o", "page.HTML") == (0, "page.HTML\n", "")
    assert (tmp_path / "page.HTML").read_text() == "page 3"
    assert [asked["test"] for asked in written] == [None] * 3


def test_rows_to_judge_by_are_matched_by_name(run, fitted, written, tmp_path):
    (tmp_path / "new.csv").write_text("effect,dose\n1,2\n")
    assert run("report", "run", "--test", "new.csv")[0] == 0
    np.testing.assert_array_equal(written[0]["test"], [[2, 1]])


def test_a_data_set_has_rows_to_judge_by(run, written):
    assert run("fit", "geyser", "--out", "run", *BRIEF)[0] == 0
    np.testing.assert_array_equal(written[0]["test"], datasets.load("geyser").test)


BAD = {
    "nowhere": "there is no folder nowhere",
    "run -o data.csv": "data.csv is already there and is not replaced",
    "run -o page.pdf": "must end in .html or .htm",
    "run -o away/page.html": "there is no folder away",
    "run --test nothing.csv": "neither a file nor one of",
    "run --test iris": "the data lack the column 'dose'",
    "search": "search has no results yet: go on with chefs resume search",
    "search --test iris": "--test is for runs of chefs fit",
    "broken": "is damaged: chefs resume broken writes it again",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing(run, fitted, written, tmp_path, arguments):
    for name in ("search", "broken"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "asked.json").write_text("{}")
    (tmp_path / "broken" / "architectures.json").write_text("{")
    before = contents(tmp_path)
    code, out, err = run("report", *arguments.split())
    assert (code, out) == (2, "")
    assert BAD[arguments] in err and err.count("\n") == 1
    assert contents(tmp_path) == before and not written


def test_a_page_that_fails_leaves_the_old_one(run, fitted, monkeypatch, tmp_path):
    (tmp_path / "run" / "report.html").write_text("old")

    def fails(source, path, **_):
        path.write_text("half")
        raise OSError("the disk is full")

    monkeypatch.setattr(chefs.report, "write", fails)
    before = contents(tmp_path)
    assert run("report", "run") == (1, "", "chefs: the disk is full\n")
    assert contents(tmp_path) == before
