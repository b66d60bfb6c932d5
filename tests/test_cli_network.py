import csv
import re
import struct

import numpy as np
import pytest

from chefs import SigmoidNetwork, datasets
from chefs.cli import main
from chefs.cli_network import read_csv
from chefs.network import estimator
from chefs.network.estimator import have_compiled


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    have_compiled()  # else the first command would say that it compiles


SHORT = ("--draws", 3, "--warmup", 2, "--chains", 1, "--start", "empty")


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run `chefs` in an empty folder; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return leaving.value.code, out, err

    return call


def table(path, text="a,b\n1,2\n2,\n3,0.5\n0,1e1\n"):
    path.write_text(text)
    return path


def test_fit_then_fantasy(run, tmp_path):
    table(tmp_path / "data.csv")
    code, out, err = run("fit", "data.csv", "--out", "run", *SHORT, "--orders", "1,0", "--seed", 3)
    assert (code, err) == (0, "")
    assert re.search(r"1 chains, 3 draws in \d+ s: \d+\.\d hidden units", out) and out.endswith("run\n")
    model = SigmoidNetwork.load(tmp_path / "run")
    assert model.trace_.names == ["a", "b"] and model.trace_[0, 0].order.tolist()[:2] == [1.0, 0.0]
    np.testing.assert_allclose(model.mean_, [1.5, 12.5 / 3])
    assert run("fantasy", "run", "-n", 7, "-o", "out.csv", "--seed", 5)[0] == 0
    with open("out.csv", newline="") as file:
        names, *rows = csv.reader(file)
    assert names == ["a", "b"]
    np.testing.assert_array_equal(np.array(rows, dtype=float), model.sample(7, random_state=5))
    assert run("fantasy", "run", "-n", 7, "-o", "out.npy", "--seed", 5)[0] == 0
    np.testing.assert_array_equal(np.load("out.npy"), model.sample(7, random_state=5))


def test_fit_takes_arrays_and_data_sets_by_name(run, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 3)))
    assert run("fit", "x.npy", "--out", "a", *SHORT)[0] == 0
    assert SigmoidNetwork.load("a").trace_.names == ["0", "1", "2"]
    assert run("fit", "geyser", "--out", "b", *SHORT)[0] == 0
    geyser = datasets.load("geyser")
    assert SigmoidNetwork.load("b").trace_.names == list(geyser.names)
    np.testing.assert_allclose(SigmoidNetwork.load("b").mean_, geyser.mean)


def test_minutes(run, tmp_path):
    table(tmp_path / "data.csv")
    code, *_ = run("fit", "data.csv", "--out", "run", "--minutes", 0.01, "--chains", 1, "--start", "empty")
    assert code == 0 and len(SigmoidNetwork.load("run").trace_) >= 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fit", "nothing.csv", "--out", "run"), "neither a file nor one of ring, moons"),
        (("fit", "data.csv", "--out", "full"), "exists and is not empty"),
        (("fit", "data.csv", "--out", "run", "--orders", "up,0"), "--orders must be numbers"),
        (("fit", "data.csv", "--out", "run", "--orders", "0,0,0"), "one for each of the 2 columns"),
        (("fit", "text.csv", "--out", "run"), "text.csv, line 3: 'low' is not a number"),
        (("fit", "ragged.csv", "--out", "run"), "ragged.csv, line 2 has 3 cells where the first has 2"),
        (("fit", "blank.csv", "--out", "run"), "blank.csv, line 6: 'low' is not a number"),
        (("fit", "infinite.csv", "--out", "run"), "column b of X has an infinite value"),
        (("fit", "constant.csv", "--out", "run"), "column b of X has one value in all rows"),
        (("fit", "latin.csv", "--out", "run"), "latin.csv is not a text in UTF-8: save it again with that encoding"),
        (("fit", "twice.csv", "--out", "run"), "twice.csv has two columns named 'a': rename one"),
        (("fit", "objects.npy", "--out", "run"), "objects.npy is not a table of numbers: write an array of floats"),
        (("fit", "flat.npy", "--out", "run"), "flat.npy is not a table of numbers: write an array of floats"),
        (("fit", "hollow.npy", "--out", "run"), "hollow.npy is not a table of numbers: write an array of floats"),
        (("fit", "empty.csv", "--out", "run"), "empty.csv is empty"),
        (("fit", "data.txt", "--out", "run"), "give a table as .csv or .npy"),
        (("fit", "data.csv", "--out", "run", "--minutes", "0"), "minutes must be positive"),
        (("fit", "data.csv", "--out", "run", "--start", "warm"), "start must be"),
        (("fantasy", "run", "-o", "out.csv"), "is not a run of chefs"),
        (("fantasy", "run", "-o", "data.csv"), "is not replaced"),
        (("fantasy", "run", "-o", "out.xls"), "must end in .csv or .npy"),
        (("demo", "--out", "full"), "is not replaced"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(run, tmp_path, monkeypatch, arguments, sentence):
    table(tmp_path / "data.csv")
    table(tmp_path / "text.csv", "a,b\n1,2\n2,low\n")
    table(tmp_path / "ragged.csv", "1,2\n1,2,3\n")
    table(tmp_path / "empty.csv", "")
    table(tmp_path / "blank.csv", 'a,"b\nc"\n\n1,2\n\n2,low\n')
    table(tmp_path / "infinite.csv", "a,b\n1,2\n2,inf\n")
    table(tmp_path / "constant.csv", "a,b\n1,2\n2,2\n")
    (tmp_path / "latin.csv").write_bytes("höhe,b\n1,2\n2,3\n".encode("latin-1"))
    table(tmp_path / "twice.csv", "a,b, a\n1,2,3\n2,3,4\n")
    np.save(tmp_path / "objects.npy", np.array([[1.0, None], [2.0, 3.0]], dtype=object))
    np.save(tmp_path / "flat.npy", np.arange(4.0))
    (tmp_path / "hollow.npy").touch()
    table(tmp_path / "data.txt")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "ring.png").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    if "full" not in arguments:  # that a folder is taken is seen when the run begins
        monkeypatch.setattr(estimator, "have_compiled", lambda: pytest.fail("compiled before the input was checked"))
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err and err.startswith("chefs: ") and err.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_csv_with_and_without_names(tmp_path):
    values, names = read_csv(table(tmp_path / "a.csv", "\ufeffheight, weight\n1, NA\n\n2,?\n"))
    assert names == ("height", "weight")
    np.testing.assert_array_equal(values, [[1, np.nan], [2, np.nan]])
    values, names = read_csv(table(tmp_path / "b.csv", "1,2\n,4\n"))
    assert names is None
    np.testing.assert_array_equal(values, [[1, 2], [np.nan, 4]])


def test_demo(run, tmp_path):
    code, out, err = run("demo", "--out", "new/folder", "--minutes", 0.03, "--seed", 1)
    assert (code, err) == (0, "")
    distance, baseline, ratio = map(float, re.search(r"fantasy: (\S+); .*: (\S+); ratio (\S+)\n", out).groups())
    assert baseline == pytest.approx(0.035, abs=0.012)
    assert ratio == pytest.approx(distance / baseline, abs=0.1)
    picture = (tmp_path / "new" / "folder" / "ring.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and struct.unpack(">II", picture[16:24]) == (2200, 1800)
