import json

import pytest

from chefs.cli import main
from chefs.experiments import fantasy, table


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run `chefs reproduce` in an empty folder; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main(["reproduce", *map(str, arguments)])
        out, err = capsys.readouterr()
        return leaving.value.code, out, err

    return call


def test_the_table_of_a_cheap_model(run, tmp_path):
    options = ("--datasets", "geyser, iris", "--priors", "none", "--alternatives", "mixture", "--jobs", 1)
    code, out, err = run("table", "--out", "t", *options, "--seeds", 1)
    assert (code, err) == (0, "")
    assert "2 of 2: iris-mixture-0.json: ratio" in out and out.splitlines()[-1] == "t/table1.png"
    for name, minutes in (("iris", 4.0), ("geyser", 2.0)):
        found = json.loads((tmp_path / "t" / f"{name}-mixture-0.json").read_text())
        assert (found["minutes"], found["sets"]) == (minutes, 50)
    assert (table.default_minutes("wine"), table.default_sets("wine")) == (4.0, 10)
    code, out, err = run("table", "--out", "t", *options, "--seeds", 1)
    assert (code, err) == (0, "") and "of" not in out.replace("Markdown", "").split()


def test_what_the_commands_pass_on(run, monkeypatch):
    seen = {}

    def instead(out, *lists, **options):
        seen.update(options, lists=lists, out=out)
        return []

    monkeypatch.setattr(table, "run", instead)
    code, _, err = run("table", "--out", "t", "--minutes-per-fit", 0.5, "--rival-seeds", 2, "--start", "empty")
    assert (code, err) == (0, "")
    assert seen["lists"] == (table.DATASETS, table.PRIORS, ("mixture", "kernel", "flow", "bootstrap"))
    assert (seen["minutes"], seen["seeds"], seen["rival_seeds"], seen["start"]) == (0.5, 5, 2, "empty")
    monkeypatch.setattr(fantasy, "run", instead)
    assert run("fantasy", "--out", "f", "--datasets", "ring", "--seed", 3)[0] == 0
    assert (seen["lists"], seen["seed"], seen["chains"]) == ((["ring"],), 3, 4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("table", "--out", "t", "--datasets", "rung"), "datasets has 'rung': choose among ring,"),
        (("table", "--out", "t", "--priors", "ibp"), "priors has 'ibp': choose among icp,"),
        (("table", "--out", "t", "--minutes-per-fit", "0"), "minutes"),
        (("table", "--out", "t", "--jobs", "0"), "--jobs must not be 0"),
        (("table",), "--out"),
        (("fantasy", "--out", "f", "--datasets", "rung"), "datasets has 'rung'"),
    ],
)
def test_bad_input_ends_with_two_and_one_sentence(run, arguments, sentence):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "") and sentence in err and err.count("\n") == 1


def test_a_broken_result_ends_with_two(run, tmp_path):
    (tmp_path / "ring-icp-0.json").write_text("{")
    code, _, err = run("table", "--out", ".", "--datasets", "ring")
    assert code == 2 and "ring-icp-0.json is not the result of a fit" in err


def test_help_without_a_command(run):
    code, out, _ = run()
    assert code == 0 and all(name in out for name in ("prior", "architectures", "table", "fantasy"))
