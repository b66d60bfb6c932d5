"""chefs search in parts: interrupted, continued with chefs resume, and its page."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import chefs
import chefs.storage
from chefs import cli_search
from chefs.cnn import Settings
from chefs.experiments import architectures
from tests.commands import contents
from tests.runs import same_draws

OPTIONS = ("--seed", 1, "--device", "cpu", "--chains", 2)
PROGRAM = """
from chefs.cli import main
from chefs.cnn import Settings
from chefs.experiments import architectures
architectures.QUICK = Settings(n_steps=4, rate=0.02)
main()
"""


@pytest.fixture(autouse=True)
def _brief(monkeypatch):
    monkeypatch.setattr(architectures, "QUICK", Settings(n_steps=4, rate=0.02))


def test_resume_goes_on_as_was_asked_for(run, tmp_path):
    assert run("search", "--out", "whole", *OPTIONS, "--draws", 5)[0] == 0
    assert run("search", "--out", "parts", *OPTIONS, "--draws", 2)[0] == 0
    page = (tmp_path / "parts" / "report.html").read_text(encoding="utf-8")
    code, out, err = run("resume", "parts", "--draws", 5)
    assert (code, err) == (0, "")
    assert "10 of 10 draws in 2 chains, seed 1" in out and out.endswith("parts/report.html\n")
    assert same_draws(*(chefs.Trace.load(f"{name}/run") for name in ("whole", "parts")))
    assert (tmp_path / "parts" / "report.html").read_text(encoding="utf-8") != page
    assert run("report", "parts", "-o", "page.html") == (0, "page.html\n", "")
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert run("resume", "parts", "--draws", 4)[2] == (
        "chefs: --draws must be at least 5, what the search was started with; found 4\n"
    )


def test_a_script_gets_its_answer_in_one_line(run, tmp_path):
    begun = run("search", "--out", "run", *OPTIONS, "--draws", 2, "--json")
    (tmp_path / "run" / "report.html").unlink()
    longer = run("resume", "run", "--draws", 3, "--no-report", "--json")
    for (code, out, err), draws, page in ((begun, 2, "run/report.html"), (longer, 3, None)):
        assert (code, err, out.count("\n")) == (0, "", 1)
        facts = json.loads(out)
        assert (facts["run"], facts["data"], facts["draws"]) == ("run", "digits", [draws, draws])
        assert 0 <= facts["scores"]["ensemble"]["accuracy"] <= 1 and facts["trainings"] >= facts["networks"] > 0
        assert facts["report"] == page and facts["pictures"] == ["run/architectures.png", "run/architectures.svg"]
    assert not (tmp_path / "run" / "report.html").exists()
    assert json.loads(run("search", "--out", "none", *OPTIONS, "--minutes", 0, "--json")[1])["scores"] is None


def test_compiling_comes_after_checking_and_is_announced(run, tmp_path, monkeypatch):
    asked = []

    def have_compiled(device):
        asked.append((device, (tmp_path / "run").exists()))
        time.sleep(0.2)

    monkeypatch.setattr(architectures, "have_compiled", have_compiled)
    monkeypatch.setattr(cli_search, "notice", lambda _, words, notice=cli_search.notice: notice(0.01, words))
    assert run("search", "--out", "run", "--preset", "none")[0] == 2 and asked == []
    code, _, err = run("search", "--out", "run", *OPTIONS, "--minutes", 0)
    assert (code, err) == (0, "compiling, this once: about half a minute ...\n")
    assert asked == [("cpu", False)]


def test_what_cannot_be_continued(run, tmp_path):
    for name, asked in (("broken", "{"), ("other", "{}"), ("early", json.dumps({"data": "digits"}))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "asked.json").write_text(asked)
        before = contents(tmp_path)
        code, out, err = run("resume", name)
        assert (code, out) == (2, "")
        assert err == f"chefs: {name} cannot be continued: begin again with chefs search in another folder\n"
        assert contents(tmp_path) == before


@pytest.mark.parametrize("everyone", [True, False])
def test_ctrl_c_then_resume_equals_the_uninterrupted_search(run, tmp_path, everyone):
    command = [sys.executable, "-c", PROGRAM, "search", "--out", "run", *map(str, OPTIONS), "--draws", "1000000"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    state = tmp_path / "run" / "run" / "chain-0" / "state"
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        try:
            patience = time.monotonic() + 600
            while not (state.exists() and state.stat().st_size > 1000):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < patience
                time.sleep(0.02)
            (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
            found = process.wait(timeout=120), *process.communicate()
        finally:
            process.kill()
    assert found == (1, "", "chefs: interrupted: it goes on with chefs resume run\n")
    store, header, body = chefs.storage.Store.open(tmp_path / "run" / "run")
    n = max(len(chain) for chain in chefs.Trace.load("run/run").chains) + 2
    store.write("run", {**header, "draws": n}, body)
    assert run("resume", "run")[0] == 0
    assert run("search", "--out", "whole", *OPTIONS, "--draws", n)[0] == 0
    assert same_draws(*(chefs.Trace.load(f"{name}/run") for name in ("whole", "run")))
