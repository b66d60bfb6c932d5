"""chefs fit, resume and demo: what they leave behind, what they refuse, and Ctrl-C."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

import chefs
from chefs import SigmoidNetwork, Trace, datasets
from chefs.network import estimator
from chefs.sampling import kept
from tests.commands import SHORT, TABLE, contents
from tests.runs import same_draws

TWO = ("--chains", 2, "--start", "empty", "--warmup", 20, "--no-report")


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data.csv").write_text(TABLE)


def test_fit_keeps_names_orders_scale_and_table(run, data):
    code, out, err = run("fit", "data.csv", "--out", "run", *SHORT, "--orders", "1,0", "--seed", 3)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"1 chain, 3 draws in \d+ s: \d+\.\d hidden units \(.*\), .* in the mean\nrun\n", out)
    model = SigmoidNetwork.load("run")
    assert model.trace_.names == ["dose", "effect"] and model.trace_[0, 0].order.tolist()[:2] == [1.0, 0.0]
    np.testing.assert_allclose(model.mean_, [1.5, 12.5 / 3])
    np.testing.assert_array_equal(kept("run")["table"], [[1, 2], [2, np.nan], [3, 0.5], [0, 10]])


def test_fit_for_scripts(run, data):
    options = ("--orders", "1,0", "--require", "dose -> effect", "--json")
    code, out, err = run("fit", "data.csv", "--out", "a/run", *SHORT, *options)
    assert (code, err, out.count("\n")) == (0, "", 1)
    facts = json.loads(out)
    trace = Trace.load("a/run")
    assert (facts["run"], facts["columns"], facts["draws"]) == ("a/run", ["dose", "effect"], [3])
    assert facts["hidden"]["mean"] == pytest.approx(trace.n_hidden.mean())
    assert facts["edge_probabilities"] == [{"parent": "dose", "child": "effect", "probability": 1.0}]
    assert facts["report"] is None


def test_fit_takes_arrays_and_data_sets_by_name(run, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 3)))
    assert run("fit", "x.npy", "--out", "a", *SHORT, "--orders", "nan", "--forbid", "0->2")[0] == 0
    assert SigmoidNetwork.load("a").trace_.names == ["0", "1", "2"]
    assert run("fit", "geyser", "--out", "b", *SHORT)[0] == 0
    geyser = datasets.load("geyser")
    assert SigmoidNetwork.load("b").trace_.names == list(geyser.names)
    np.testing.assert_allclose(SigmoidNetwork.load("b").mean_, geyser.mean)


def test_the_options_are_those_of_the_estimator(run, data, monkeypatch):
    seen = {}

    def fit_table(model, x, names, compiled):
        seen.update(model.get_params(), names=names)
        raise ValueError("enough")

    monkeypatch.setattr(SigmoidNetwork, "fit_table", fit_table)
    words = "--prior icp --chains 3 --draws 5 --warmup 7 --minutes 0.5 --seed 9 --orders nan --start empty"
    edges = ("--forbid", "dose->effect", "--require", "effect->dose")
    assert run("fit", "data.csv", "--out", "run", *words.split(), *edges)[2] == "chefs: enough\n"
    given = {name: seen[name] for name in ("prior", "chains", "draws", "warmup", "minutes", "random_state", "start")}
    assert list(given.values()) == ["icp", 3, 5, 7, 0.5, 9, "empty"]
    assert np.isnan(seen["orders"]) and str(seen["checkpoint"]) == "run"
    assert (seen["required"], seen["forbidden"]) == ([(1, 0)], [(0, 1)])
    assert seen["names"] == ("dose", "effect")


def test_arrows_in_names(run, tmp_path):
    (tmp_path / "data.csv").write_text("a->b,c,a\n1,2,3\n2,3,1\n4,1,1\n")
    options = ("--orders", "1,0,0", "--require", "a->b->c", "--json")
    _, out, _ = run("fit", "data.csv", "--out", "run", *SHORT, *options)
    assert {"parent": "a->b", "child": "c", "probability": 1.0} in json.loads(out)["edge_probabilities"]


def test_minutes(run, data):
    options = ("--minutes", 0.01, "--chains", 1, "--start", "empty", "--no-report")
    assert run("fit", "data.csv", "--out", "run", *options)[0] == 0
    assert len(SigmoidNetwork.load("run").trace_) >= 1


def test_a_warning_is_one_line(run, tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n0,2\n1,4\n0,1\n1,5\n")
    code, _, err = run("fit", "data.csv", "--out", "run", *SHORT)
    assert code == 0
    assert err == "chefs: column a of X holds only 0 and 1, but the model is continuous: do not trust densities there\n"


BAD = {
    "nothing.csv --out run": "neither a file nor one of ring, moons",
    "single.csv --out run": "single.csv has one row, of which nothing can be learnt: give at least two",
    "data.csv --out full": "full exists and is not empty: choose another folder, or go on",
    "data.csv --out data.csv": "data.csv is a file: choose a folder",
    "data.csv --out data.csv/run": "data.csv is a file: choose a folder",
    "data.csv --out run --orders up,0": "--orders must be numbers",
    "data.csv --out run --orders 0,0,0": "one for each of the 2 columns",
    "data.csv --out run --orders 2": "[0, 1]",
    "data.csv --out run --forbid dose": "--forbid must be two columns with an arrow between them, 'A->B'; found 'dose'",
    "data.csv --out run --forbid dose->cost": "--forbid names the column 'cost'; those of the data are dose, effect",
    "data.csv --out run --require cost->dose": "--require names the column 'cost'",
    "data.csv --out run --require dose->effect": "--require dose->effect needs a greater order for dose",
    "data.csv --out run --orders 0,1 --require dose->effect": "needs a greater order for dose",
    "data.csv --out run --orders nan --require dose->dose": "--require dose->dose leads from a column to itself",
    "data.csv --out run --prior crp": "'crp' is not one of 'icp', 'cibp', 'ecibp', 'ibp'",
    "data.csv --out run --prior cibp --orders 1": "order",
    "data.csv --out run --minutes 0": "minutes must be positive",
    "data.csv --out run --start warm": "start must be",
    "data.csv --out run --chains 0": "'--chains'",
    "infinite.csv --out run": "column b of X has an infinite value",
    "constant.csv --out run": "column b of X has one value in all rows, so it has no scale: drop it",
    "hollow.csv --out run": "column b of X has no values at all: drop it",
    "twice.csv --out run": "twice.csv has two columns named 'a': rename one",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing(run, data, tmp_path, monkeypatch, arguments):
    for name, text in {
        "infinite": "a,b\n1,2\n2,inf\n",
        "constant": "a,b\n1,2\n2,2\n",
        "hollow": "a,b\n1,\n2,nan\n",
        "single": "a,b\n1,2\n",
        "twice": "a,b, a\n1,2,3\n2,3,4\n",
    }.items():
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    before = contents(tmp_path)
    monkeypatch.setattr(estimator, "have_compiled", lambda: pytest.fail("compiled before the input was checked"))
    code, out, err = run("fit", *arguments.split())
    assert (code, out) == (2, "")
    assert BAD[arguments] in err and err.startswith("chefs: ") and err.count("\n") == 1
    assert contents(tmp_path) == before


def test_resume_makes_a_run_longer(run, data):
    options = (*TWO, "--seed", 4)
    assert run("fit", "data.csv", "--out", "short", *options, "--draws", 4)[0] == 0
    assert run("fit", "data.csv", "--out", "long", *options, "--draws", 9)[0] == 0
    code, out, err = run("resume", "short", "--draws", 9, "--no-report", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["draws"] == [9, 9]
    assert same_draws(Trace.load("short"), Trace.load("long"))
    code, out, _ = run("resume", "short", "--no-report")  # there is nothing to do
    assert code == 0 and out.startswith("2 chains, 18 draws")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("nowhere", "nowhere is not a run of chefs"),
        ("data.csv", "data.csv is not a run of chefs"),
        ("run --draws 2", "draws must be at least 3, what the run was started with"),
        ("run --minutes 1", "minutes must be left out, for the run has no such end"),
        ("other", "holds another run than one of chefs fit"),
        ("saved", "holds a trace that was saved, not a run that can be continued"),
    ],
)
def test_what_cannot_be_resumed(run, data, tmp_path, monkeypatch, arguments, sentence):
    run("fit", "data.csv", "--out", "run", *SHORT)
    kernel = chefs.PriorKernel(chefs.ChefsProcess(), 2)
    options = {"draws": 1, "chains": 1, "n_jobs": 1, "progress": False}
    chefs.sample(np.random.default_rng(0), kernel, checkpoint=tmp_path / "other", **options).save(tmp_path / "saved")
    before = contents(tmp_path)
    monkeypatch.setattr(estimator, "have_compiled", lambda: pytest.fail("compiled before the input was checked"))
    code, out, err = run("resume", *arguments.split())
    assert (code, out) == (2, "")
    assert sentence in err and err.count("\n") == 1
    assert contents(tmp_path) == before


def test_a_damaged_run_is_a_failure(run, data, tmp_path):
    run("fit", "data.csv", "--out", "run", *SHORT)
    state = tmp_path / "run" / "chain-0" / "state"
    state.write_bytes(state.read_bytes()[:-1])
    code, _, err = run("resume", "run", "--draws", 9)
    assert (code, err.count("\n")) == (1, 1) and "damaged or cut short" in err


@contextmanager
def started(folder, *arguments):
    """The command in a process of its own, in a group of its own: what a terminal interrupts."""
    command = [sys.executable, "-c", "from chefs.cli import main; main()", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, text=True, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process, found):
    """Wait until something is found; a process that has ended finds nothing more."""
    patience = time.monotonic() + 600
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < patience
        time.sleep(0.02)


def interrupted(process, everyone):
    """Ctrl-C, to the whole group as from a terminal or to the process alone; its exit code, output and errors."""
    (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
    return process.wait(timeout=120), *process.communicate()


@pytest.mark.parametrize("everyone", [True, False])
@pytest.mark.parametrize("cores", [1, 2])
def test_ctrl_c_then_resume_equals_the_uninterrupted_run(run, tmp_path, monkeypatch, cores, everyone):
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", str(cores))  # one: chains run in the process that is interrupted
    options = ("--chains", 2, "--start", "empty", "--warmup", 0, "--seed", 1, "--no-report")
    state = tmp_path / "a run" / "chain-0" / "state"
    with started(tmp_path, "fit", "ring", "--out", "a run", *options, "--draws", 1_000_000) as process:
        wait_for(process, lambda: state.exists() and state.stat().st_size > 1000)  # some steps are made, and written
        code, out, err = interrupted(process, everyone)
    assert (code, out) == (1, "")
    *before, last = err.splitlines()
    assert last == "chefs: interrupted: it goes on with chefs resume 'a run'"
    assert all(line.startswith("compiling") for line in before)  # on a slow machine it may have said that it does
    part = Trace.load(tmp_path / "a run")
    n = max(len(chain) for chain in part.chains) + 2
    _end_at(tmp_path / "a run", n)
    assert run("resume", "a run", "--no-report")[0] == 0
    assert run("fit", "ring", "--out", "whole", *options, "--draws", n)[0] == 0
    assert same_draws(Trace.load("a run"), Trace.load("whole"))


def _end_at(folder, draws):
    """Have a run that was to go on for ever end after so many draws."""
    from chefs.storage import Store

    store, header, body = Store.open(folder)
    store.write("run", {**header, "draws": draws}, body)


def test_ctrl_c_before_anything_was_begun(run, data, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(estimator, "have_compiled", interrupt)
    assert run("fit", "data.csv", "--out", "run", *SHORT) == (1, "", "chefs: interrupted: nothing was begun\n")
    monkeypatch.setattr(chefs.ChefsProcess, "n_active_pmf", lambda *_: interrupt())
    assert run("prior") == (1, "", "chefs: interrupted\n")


def test_demo(run, tmp_path):
    code, out, err = run("demo", "--out", "new/folder", "--minutes", 0.03, "--seed", 1)
    assert (code, err) == (0, "")
    distance, baseline, ratio = map(float, re.search(r"fantasy: (\S+); .*: (\S+); ratio (\S+)\n", out).groups())
    assert baseline == pytest.approx(0.035, abs=0.012)
    assert ratio == pytest.approx(distance / baseline, abs=0.1)
    folder = tmp_path / "new" / "folder"
    picture = (folder / "ring.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and struct.unpack(">II", picture[16:24]) == (2200, 1800)
    assert "<html" in (folder / "ring.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in folder.iterdir()) == ["ring.html", "ring.png"]
    assert out.splitlines()[-2:] == ["new/folder/ring.png", "new/folder/ring.html"]


@pytest.mark.parametrize("taken", ["ring.png", "ring.html"])
def test_demo_replaces_nothing(run, tmp_path, taken):
    (tmp_path / taken).write_text("mine")
    code, out, err = run("demo")
    assert (code, out, err.count("\n")) == (2, "", 1) and f"{taken} is already there and is not replaced" in err
    assert contents(tmp_path) == {tmp_path / taken: b"mine"}


def test_demo_refuses_before_it_begins(run, tmp_path):
    (tmp_path / "file").write_text("mine")
    for arguments, sentence in (
        (("--minutes", -1, "--out", "new"), "minutes must be positive"),
        (("--out", "file"), "file is a file: choose a folder"),
        (("--out", "file/new"), "file is a file: choose a folder"),
    ):
        code, out, err = run("demo", *arguments)
        assert (code, out) == (2, "") and sentence in err
    assert contents(tmp_path) == {tmp_path / "file": b"mine"}
