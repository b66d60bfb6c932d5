"""The whole experiment, small: from the command to the report, interrupted and continued."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import chefs
from chefs.cli import main
from chefs.cnn import Settings
from chefs.cnn.plan import reached
from chefs.experiments import architectures
from tests.helpers import refused
from tests.runs import same_draws

BRIEF = {"settings": Settings(n_steps=4, rate=0.02), "data": "digits", "chains": 2, "device": "cpu"}


@pytest.fixture
def brief(monkeypatch):
    monkeypatch.setattr(architectures, "QUICK", BRIEF["settings"])


def test_a_run_is_continued_and_its_numbers_are_those_of_its_trace(tmp_path):
    whole = architectures.run(tmp_path / "whole", draws=9, preset="default", **BRIEF)
    architectures.run(tmp_path / "parts", draws=4, preset="default", **BRIEF)
    parts = architectures.run(tmp_path / "parts", draws=9, preset="default", **BRIEF)
    traces = [chefs.Trace.load(tmp_path / name / "run") for name in ("whole", "parts")]
    assert same_draws(*traces)
    for name in ("scores", "columns", "orders", "examples", "picked", "n_draws"):
        assert whole[name] == parts[name]
    assert json.loads((tmp_path / "parts" / "architectures.json").read_text()) == json.loads(json.dumps(parts))
    trace = traces[0]
    assert whole["n_draws"] == [9, 9]
    assert whole["scores"]["mean"]["accuracy"] == pytest.approx(trace.scalar("accuracy").mean(), abs=1e-3)
    assert whole["columns"]["depth"] == trace.scalar("depth").tolist()
    assert [one["draw"] for one in whole["picked"]] == list(range(18))  # all there are, where they are few
    for example in [*whole["examples"], *whole["picked"]]:
        dag = architectures.trace_dag(trace, example["draw"])
        assert chefs.Dag.from_json(example["dag"]).n_hidden + 2 == whole["columns"]["nodes"][example["draw"]]
        assert reached(dag) == chefs.Dag.from_json(example["dag"])
    assert parts["minutes"] > 0 and parts["trainings"] >= whole["trainings"]


def test_a_run_stops_in_time_and_goes_on(tmp_path):
    numbers = architectures.run(tmp_path / "run", draws=10, preset="default", minutes=0.0, **BRIEF)
    assert sum(numbers["n_draws"]) == 0
    assert "No draws yet" in (tmp_path / "run" / "report.md").read_text()
    assert architectures.write_pictures(tmp_path / "run", numbers) == []
    assert architectures.run(tmp_path / "run", draws=10, preset="default", **BRIEF)["n_draws"] == [10, 10]


def test_a_folder_with_another_run_or_other_things_is_left_alone(tmp_path):
    architectures.run(tmp_path / "run", draws=1, preset="default", **BRIEF)
    with refused("preset default"):
        architectures.run(tmp_path / "run", draws=1, preset="paper", **BRIEF)
    for name, options in (
        ("settings", {"settings": Settings(n_steps=5, rate=0.02)}),
        ("power", {"power": 0.5}),
        ("bins", {"n_bins": 4}),
    ):
        with refused(f"started with {name}"):
            architectures.run(tmp_path / "run", draws=1, preset="default", **{**BRIEF, **options})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with refused("not empty", error=FileExistsError):
        architectures.run(tmp_path / "other", draws=1, **BRIEF)
    with refused("is a file", error=NotADirectoryError):
        architectures.run(tmp_path / "other" / "letter.txt", draws=1, **BRIEF)
    with refused("preset must be"):
        architectures.run(tmp_path / "new", preset="best", **BRIEF)


def test_a_summary_that_cannot_be_read_does_not_stop_a_run(tmp_path):
    architectures.run(tmp_path / "run", draws=1, preset="default", **BRIEF)
    (tmp_path / "run" / "architectures.json").write_text('{"minutes": 1')
    numbers = architectures.run(tmp_path / "run", draws=2, preset="default", **BRIEF)
    assert numbers["n_draws"] == [2, 2]
    assert numbers["settings"] == BRIEF["settings"]._asdict()
    assert (numbers["prefetch"], numbers["torch"]) == (0, torch.__version__)
    assert not list((tmp_path / "run").glob(".*"))
    (tmp_path / "run" / "asked.json").write_text("[1")
    with refused("asked.json", "cannot be read"):
        architectures.run(tmp_path / "run", draws=2, preset="default", **BRIEF)


@pytest.mark.parametrize(("device", "module", "words"), [("tpu", "x", "device must be"), ("cpu", "chefs.plots", "")])
def test_what_is_missing_is_said_before_anything_is_downloaded(tmp_path, monkeypatch, capsys, device, module, words):
    def never(*_):
        raise AssertionError("too early")

    monkeypatch.setattr(architectures, "load", never)
    monkeypatch.delattr(chefs, "plots_architectures", raising=False)
    monkeypatch.delitem(sys.modules, "chefs.plots_architectures", raising=False)
    monkeypatch.delattr(chefs, "plots", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as leaving:
        main(["search", "--out", str(tmp_path / "a"), "--dataset", "mnist", "--device", device])
    _, err = capsys.readouterr()
    assert leaving.value.code == (1 if module == "chefs.plots" else 2)
    assert words in err and err.count("\n") == 1
    assert not (tmp_path / "a").exists()


def test_a_driver_that_refuses_is_one_sentence(tmp_path, monkeypatch, capsys):
    def refuses(*_, **__):
        raise RuntimeError("the GPU's driver refused: out of memory (2)\nand much more")

    monkeypatch.setattr(architectures, "run", refuses)
    with pytest.raises(SystemExit) as leaving:
        main(["search", "--out", str(tmp_path / "a")])
    assert (leaving.value.code, capsys.readouterr().err) == (
        1,
        "chefs: the GPU's driver refused: out of memory (2)\n",
    )


def test_three_examples_are_few_middling_and_many():
    nodes = np.array([2, 3, 3, 4, 4, 4, 9, 9.0])
    accuracy = np.array([0.1, 0.2, 0.3, 0.5, 0.4, 0.4, 0.7, 0.8])
    assert architectures._three({"nodes": nodes, "accuracy": accuracy}) == [0, 3, 7]


def test_reached_leaves_out_what_the_input_does_not_reach():
    edges = np.zeros((4, 4), dtype=bool)
    for k, i in ((0, 2), (2, 1), (3, 2), (3, 1)):
        edges[k, i] = True
    part = reached(chefs.Dag(edges, [1.0, 0.0, 0.4, 0.8], 2))
    assert part == chefs.Dag([[0, 0, 1], [0, 0, 0], [0, 1, 0]], [1.0, 0.0, 0.4], 2)


def test_the_command_writes_report_and_picture(tmp_path, capsys, brief):
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as leaving:
        main(["search", "--out", str(folder), "--draws", "6", "--seed", "1", "--device", "cpu"])
    out, err = capsys.readouterr()
    assert (leaving.value.code, err) == (0, "")
    assert "12 of 12 draws in 2 chains" in out
    assert "paper" not in out
    assert (folder / "architectures.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "report.md").read_text() in out


def test_the_command_refuses_in_one_sentence(tmp_path, capsys):
    for arguments, code, words in (
        (["search", "--out", str(tmp_path / "a"), "--dataset", "cats"], 2, "one of digits"),
        (["search", "--out", str(tmp_path / "b"), "--device", "tpu"], 2, "device must be"),
        (
            ["reproduce", "architectures", "--out", str(tmp_path / "c"), "--preset", "mine", "--dataset", "digits"],
            2,
            "preset",
        ),
    ):
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        _, err = capsys.readouterr()
        assert leaving.value.code == code
        assert words in err and err.count("\n") == 1


def test_the_script_needs_neither_numba_nor_typer_nor_scipy_nor_matplotlib(tmp_path):
    """A machine with a GPU may have little else."""
    program = (
        "import sys\n"
        "for name in ('numba', 'typer', 'rich', 'scipy', 'networkx', 'matplotlib', 'sklearn'):\n"
        "    sys.modules[name] = None\n"
        "from chefs.experiments.architectures import main\n"
        f"sys.exit(main(['--out', {str(tmp_path / 'run')!r}, '--data', 'digits', '--preset', 'default', '--draws', '2',"
        " '--chains', '2', '--device', 'cpu', '--minutes', '5']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 draws" in done.stdout
