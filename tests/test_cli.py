import json
import re
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest

import chefs
from chefs import ChefsProcess, Dag, cli_prior


def numbers(out, name):
    line = next(line for line in out.splitlines() if name in line)
    return [float(x) for x in re.findall(r"\d+\.\d+|\d+(?= )", line.split(name)[1])]


def test_version_and_help(run):
    assert run("--version") == (0, f"chefs {chefs.__version__}\n", "")
    for arguments in ([], ["--help"], ["prior", "--help"], ["reproduce"], ["reproduce", "prior", "--help"]):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        assert "Usage: chefs" in out


def test_prior_prints_exact_and_simulated_sizes(run):
    options = ("--alpha", 1.3, "--gamma", 1.5, "--phi", 0.7, "--observed", 3, "--orders", "0,nan,1")
    code, out, err = run("prior", *options, "--draws", 500, "--seed", 4)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    prior, orders = ChefsProcess(1.3, 1.5, 0.7), [0.0, np.nan, 1.0]
    draws = prior.sample(np.random.default_rng(4), orders, size=500)
    for name, exact, counts in (
        ("mean nodes", prior.expected_nodes(orders), draws.n_nodes),
        ("mean hidden nodes", prior.expected_nodes(orders) - 3, draws.n_hidden),
        ("mean edges", prior.expected_edges(orders), draws.n_edges),
    ):
        error = counts.std(ddof=1) / np.sqrt(500)
        assert numbers(out, name) == pytest.approx([exact, counts.mean(), error], abs=6e-4)
    cumulative = np.cumsum(prior.n_active_pmf(orders))
    median = int(np.flatnonzero(cumulative >= 0.5)[0])
    assert numbers(out, " 50% quantile of nodes") == [median, np.median(draws.n_nodes)]


def test_prior_for_scripts(run):
    code, out, err = run("prior", "--gamma", 1.5, "--orders", "0,nan", "--draws", 300, "--seed", 2, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    facts, prior = json.loads(out), ChefsProcess(1.0, 1.5, 1.0)
    draws = prior.sample(np.random.default_rng(2), [0.0, np.nan], size=300)
    assert [facts[name] for name in ("alpha", "gamma", "phi", "observed", "draws", "seed")] == [
        1.0,
        1.5,
        1.0,
        2,
        300,
        2,
    ]
    assert facts["exact"]["mean"]["edges"] == pytest.approx(prior.expected_edges([0.0, np.nan]))
    assert facts["simulated"]["mean"]["hidden_nodes"] == pytest.approx(draws.n_hidden.mean())
    assert facts["simulated"]["quantiles_of_nodes"]["50%"] == np.quantile(draws.n_nodes, 0.5, method="inverted_cdf")
    one = json.loads(run("prior", "--draws", 1, "--json")[1])
    assert one["simulated"]["standard_error"]["nodes"] is None


def test_prior_with_one_draw_and_defaults(run):
    code, out, _ = run("prior", "--draws", 1)
    assert code == 0
    assert "3 observed, 1 draw" in out
    assert "nan" not in out
    assert "2 observed" in run("prior", "--orders", "0,nan", "--draws", 2)[1]


def test_prior_writes_graphs_and_a_picture(run, tmp_path):
    code, *_ = run("prior", "--draws", 20, "--seed", 1, "--graphs", "out.jsonl", "--plot", "out.png")
    assert code == 0
    graphs = [Dag.from_json(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert graphs == list(ChefsProcess(1.0, 2.0, 1.0).sample(np.random.default_rng(1), 3, size=20))
    picture = (tmp_path / "out.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (2400, 800)
    assert run("prior", "--draws", 1, "--plot", "one.svg")[0] == 0
    assert "<svg" in (tmp_path / "one.svg").read_text()
    assert run("prior", "--draws", 2, "--plot", "two.PDF")[0] == 0
    assert (tmp_path / "two.PDF").read_bytes().startswith(b"%PDF")


BAD = {
    "--alpha 0": "alpha must be positive and finite",
    "--gamma -1": "gamma must be positive and finite",
    "--phi nan": "phi must be positive and finite",
    "--alpha one": "'--alpha'",
    "--observed 0": "observed must be at least 1",
    "--observed 2.5": "'--observed'",
    "--orders 0,x": "--orders must be numbers",
    "--orders 0,,1": "--orders must be numbers",
    "--orders 0,2": "every order in observed must lie in [0, 1]",
    "--observed 2 --orders 0,0,0": "--observed is 2 but --orders has 3",
    "--draws 0": "'--draws'",
    "--seed -1": "'--seed'",
    "--gamma 1e9": "choose a smaller gamma",
    "--nothing": "--nothing",
    "surplus": "surplus",
    "--plot there.png": "there.png is already there and is not replaced",
    "--graphs there.png": "there.png is already there and is not replaced",
    "--plot away/new.png": "there is no folder away",
    "--graphs away/new.jsonl": "there is no folder away",
    "--plot new.gif": "must end in .png, .svg, .pdf",
    "--plot new": "must end in .png, .svg, .pdf",
    "--plot new.png --graphs new.png": "are the same file",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_gets_one_sentence_and_changes_nothing(run, tmp_path, arguments):
    (tmp_path / "there.png").write_text("mine")
    code, out, err = run("prior", *arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("chefs: ")
    assert err.count("\n") == 1
    assert BAD[arguments] in err
    assert [path.name for path in tmp_path.iterdir()] == ["there.png"]
    assert (tmp_path / "there.png").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments", ["cook", "reproduce cook", "reproduce prior", "--nothing", "reproduce prior --out there"]
)
def test_bad_commands(run, tmp_path, arguments):
    (tmp_path / "there").write_text("mine")
    code, out, err = run(*arguments.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (tmp_path / "there").read_text() == "mine"


def test_reproduce_prior(run, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "notes.txt").write_text("mine")
    code, out, err = run("reproduce", "prior", "--out", "results", "--seed", 5)
    assert (code, err) == (0, "")
    folder = tmp_path / "results"
    assert out.split() == [f"results/prior_properties.{end}" for end in ("png", "svg", "json")]
    assert (folder / "notes.txt").read_text() == "mine"
    picture = (folder / "prior_properties.png").read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (2100, 680)
    assert "<svg" in (folder / "prior_properties.svg").read_text()
    data = json.loads((folder / "prior_properties.json").read_text())
    assert (data["version"], data["seed"], len(data["levels"]), len(data["growth"])) == (chefs.__version__, 5, 6, 4)
    code, _, err = run("reproduce", "prior", "--out", "results")
    assert (code, err.count("\n")) == (2, 1)
    assert (folder / "prior_properties.png").read_bytes() == picture


def test_a_run_that_fails_exits_with_1(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "chefs.plots", None)
    code, out, err = run("prior", "--plot", "new.png")
    assert (code, out, err.count("\n")) == (1, "", 1)

    def no_memory(*_):
        raise MemoryError

    monkeypatch.setattr(ChefsProcess, "n_active_pmf", no_memory)
    assert run("prior") == (1, "", "chefs: out of memory: choose a smaller gamma or fewer draws\n")


def test_ctrl_c_waits_for_compiled_code(run, monkeypatch):
    reached = []

    def interrupted(*_, **__):
        signal.raise_signal(signal.SIGINT)
        reached.append(True)

    monkeypatch.setattr(cli_prior, "compile_sampler", lambda: None)
    monkeypatch.setattr(ChefsProcess, "sample", interrupted)
    assert run("prior") == (1, "", "chefs: interrupted\n")
    assert reached


def test_the_installed_command_and_its_exit_codes(tmp_path):
    command = [sys.executable, "-m", "chefs", "prior", "--draws", "5"]
    good = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert good.returncode == 0
    assert "mean edges" in good.stdout
    bad = subprocess.run([*command, "--alpha", "0"], capture_output=True, text=True, cwd=tmp_path)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "chefs: alpha must be positive and finite; found 0\n"


def test_import_and_help_load_nothing_heavy():
    code = """
import sys, chefs
assert not {"numpy", "numba", "scipy", "matplotlib"} & set(sys.modules)
from chefs.cli import main
try: main(["--help"])
except SystemExit as leaving: assert leaving.code == 0
assert not {"numba", "scipy", "matplotlib"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
