"""chefs fantasy, impute and score: the answers are those of the model, with its columns by name."""

import csv
import json
import time

import numpy as np
import pandas as pd
import pytest

import chefs
from chefs import SigmoidNetwork, cli_shared, datasets, tabular
from chefs.network import predictive
from tests.commands import SHORT, TABLE, contents


@pytest.fixture(autouse=True)
def _brief(monkeypatch):
    monkeypatch.setitem(predictive.DENSITY, "walks", predictive.Effort(4, 20, 1))
    monkeypatch.setitem(predictive.CONDITIONAL, "walks", predictive.Effort(4, 20, 1))


@pytest.fixture
def model(run, tmp_path):
    (tmp_path / "data.csv").write_text(TABLE)
    assert run("fit", "data.csv", "--out", "run", *SHORT, "--orders", "1,0")[0] == 0
    return SigmoidNetwork.load("run")


@pytest.mark.parametrize("ending", ["csv", "npy", "parquet"])
def test_fantasies(run, model, ending):
    output = f"out.{ending}"
    code, out, err = run("fantasy", "run", "-n", 7, "-o", output, "--seed", 5)
    assert (code, out, err) == (0, f"7 points: {output}\n", "")
    points, names = tabular.read(output)
    assert names == (None if ending == "npy" else ("dose", "effect"))
    np.testing.assert_array_equal(points, model.sample(7, random_state=5))
    facts = json.loads(run("fantasy", "run", "-o", f"more.{ending}", "--json")[1])
    assert facts == {"output": f"more.{ending}", "columns": ["dose", "effect"], "points": 2000}


def test_columns_without_names_stay_without(run, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(9, 2)))
    run("fit", "x.npy", "--out", "run", *SHORT)
    run("fantasy", "run", "-n", 3, "-o", "out.csv")
    assert tabular.read("out.csv").values.shape == (3, 2) and tabular.read("out.csv").names is None
    assert run("score", "run", "out.csv")[0] == 0
    (tmp_path / "named.csv").write_text("a,b\n1,2\n")
    assert run("score", "run", "named.csv")[1].startswith("log density of 1 row: mean ")


def test_the_training_table_is_imputed(run, model):
    code, out, err = run("impute", "run", "-o", "filled.csv", "--draws", 20, "--seed", 2)
    assert (code, out, err) == (0, "1 missing number in 1 of 4 rows: filled.csv\n", "")
    with open("filled.csv", newline="") as file:
        names, *rows = csv.reader(file)
    assert names == ["dose", "effect"]
    filled = np.array(rows, dtype=float)
    table = tabular.read("data.csv").values
    np.testing.assert_array_equal(filled[~np.isnan(table)], table[~np.isnan(table)])  # to the last digit
    np.testing.assert_array_equal(filled, model.impute(draws=20, random_state=2).mean)
    assert json.loads(run("impute", "run", "-o", "again.npy", "--draws", 2, "--json")[1]) == {
        "output": "again.npy",
        "columns": ["dose", "effect"],
        "rows": 4,
        "filled": 1,
    }


def test_other_rows_are_imputed_whatever_the_order_of_their_columns(run, model, tmp_path):
    (tmp_path / "new.csv").write_text("effect,dose\n,1\n5,\n2,3\n")
    assert run("impute", "run", "-o", "filled.csv", "--data", "new.csv", "--seed", 1)[0] == 0
    values, names = tabular.read("filled.csv")
    assert names == ("dose", "effect")
    rows = pd.DataFrame({"dose": [1, np.nan, 3], "effect": [np.nan, 5, 2]})
    np.testing.assert_array_equal(values, model.impute(rows, random_state=1).mean)


def test_scores(run, model, tmp_path):
    (tmp_path / "new.csv").write_text("effect,dose\n1,1\n5,2\n2,\n")
    rows = pd.DataFrame({"dose": [1, 2, np.nan], "effect": [1, 5, 2]})
    logs = model.score_samples(rows, seed=3)
    code, out, err = run("score", "run", "new.csv", "--seed", 3, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    facts = json.loads(out)
    assert facts["log_density"] == logs.tolist() and facts["rows"] == 3
    assert facts["mean"] == pytest.approx(logs.mean()) and facts["median"] == pytest.approx(np.median(logs))
    assert facts["standard_error"] == pytest.approx(logs.std(ddof=1) / np.sqrt(3))
    code, out, err = run("score", "run", "new.csv", "--seed", 3)
    assert (code, err) == (0, "")
    assert out == (
        f"log density of 3 rows: mean {logs.mean():.4f} ± {facts['standard_error']:.4f}, median {np.median(logs):.4f}\n"
    )
    harder = model.score_samples(rows, effort=2)
    assert json.loads(run("score", "run", "new.csv", "--effort", 2, "--json")[1])["log_density"] == harder.tolist()


def test_a_data_set_is_scored_by_its_test_half(run):
    run("fit", "geyser", "--out", "run", *SHORT)
    geyser = datasets.load("geyser")
    expected = SigmoidNetwork.load("run").score_samples(pd.DataFrame(geyser.test, columns=geyser.names))
    assert json.loads(run("score", "run", "geyser", "--json")[1])["log_density"] == expected.tolist()


@pytest.mark.parametrize(
    ("call", "method"),
    [
        ("score run data.csv", "score_samples"),
        ("impute run -o new.csv", "impute"),
        ("report run --test data.csv", "score_samples"),
    ],
)
def test_compiling_is_announced_where_it_takes_a_while(run, model, monkeypatch, call, method):
    called = []
    real = getattr(SigmoidNetwork, method)

    def slow(model, rows, **options):
        called.append(0 if rows is None else len(rows))
        time.sleep(0.2 if len(called) == 1 else 0.0)
        return real(model, rows, **options)

    monkeypatch.setattr(SigmoidNetwork, method, slow)
    monkeypatch.setattr(cli_shared, "notice", lambda _, words, notice=cli_shared.notice: notice(0.01, words))
    code, _, err = run(*call.split())
    assert (code, err, called[0]) == (0, "compiling, this once: about twenty seconds ...\n", 1)


def test_what_is_no_number_is_null_in_json(capsys):
    from chefs.cli_shared import print_json

    print_json({"a": [float("nan"), {"b": (float("-inf"), 1.5)}], "c": "é"})
    assert capsys.readouterr().out == '{"a": [null, {"b": [null, 1.5]}], "c": "é"}\n'


BAD = {
    "fantasy nowhere -o out.csv": "there is no folder nowhere: name the folder of a run of chefs fit",
    "fantasy data.csv -o out.csv": "there is no folder data.csv",
    "fantasy full -o out.csv": "full is not a run of chefs",
    "fantasy other -o out.csv": "does not hold a SigmoidNetwork",
    "fantasy run -o data.csv": "data.csv is already there and is not replaced",
    "fantasy run -o out.xls": "must end in .csv, .parquet or .npy",
    "fantasy run -o away/out.csv": "there is no folder away",
    "fantasy run -o out.csv -n 0": "'--number'",
    "fantasy run": "'--output'",
    "impute run -o data.csv": "data.csv is already there and is not replaced",
    "impute run -o out.csv --data full.csv": "no number is missing in full.csv",
    "impute whole -o out.csv": "no number is missing in the table that the run has learnt from",
    "impute run -o out.csv --data extra.csv": "the data have the column 'cost'; those of the run are dose, effect",
    "impute run -o out.csv --draws 0": "'--draws'",
    "score run lacking.csv": "the data lack the column 'effect'; those of the run are dose, effect",
    "score run extra.csv": "the data have the column 'cost'; those of the run are dose, effect",
    "score run wide.csv": "the data have 3 columns where the run has 2",
    "score run nothing.csv": "nothing.csv is neither a file nor one of",
    "score run infinite.csv": "column effect of X has an infinite value",
    "score run iris": "the data lack the column 'dose'",
    "score run": "Missing argument",
    "score run full.csv --effort 0": "'--effort'",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing(run, model, tmp_path, arguments):
    for name, text in {
        "full": "dose,effect\n1,2\n",
        "extra": "dose,effect,cost\n1,,3\n",
        "lacking": "dose\n1\n",
        "wide": "1,2,3\n",
        "infinite": "dose,effect\n1,inf\n",
    }.items():
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "full").mkdir()
    if arguments.startswith("impute whole"):
        (tmp_path / "two.csv").write_text("dose,effect\n1,2\n2,1\n")
        run("fit", "two.csv", "--out", "whole", *SHORT)
    if "other" in arguments:
        kernel = chefs.PriorKernel(chefs.ChefsProcess(), 2)
        options = {"draws": 1, "chains": 1, "n_jobs": 1, "progress": False}
        chefs.sample(np.random.default_rng(0), kernel, checkpoint=tmp_path / "other", **options)
    before = contents(tmp_path)
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert BAD[arguments] in err and err.startswith("chefs: ") and err.count("\n") == 1
    assert contents(tmp_path) == before


def test_a_run_from_before_tables_were_kept(run, model, tmp_path):
    (tmp_path / "run" / "kept").unlink()
    code, _, err = run("impute", "run", "-o", "out.csv")
    assert code == 2
    assert err == "chefs: run does not hold the table that it has learnt from: give the rows with --data\n"
    with pytest.raises(ValueError, match="the training table was not kept with this run: give the rows to impute as X"):
        SigmoidNetwork.load("run").impute()
