"""Tables in files: what is read is what was written, and what cannot be read is explained."""

import sys

import numpy as np
import pandas as pd
import pytest

from chefs import datasets
from chefs.tabular import Numbers, matched, read, read_csv, read_npy, read_parquet, write
from tests.helpers import refused

VALUES = np.array([[1.0, np.nan, -0.0], [np.pi, 1e-300, 2.0**60 + 2.0**10]])


def put(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "npy", "CSV", "Parquet"])
@pytest.mark.parametrize("names", [None, ("höhe", "a,b", "c->d")])
def test_numbers_and_names_survive(tmp_path, ending, names):
    path = tmp_path / f"table.{ending}"
    write(path, VALUES, names)
    table = read(str(path))
    np.testing.assert_array_equal(table.values, VALUES)
    numbered = ("0", "1", "2")
    assert table.names == (None if ending == "npy" else names or (numbered if "arquet" in ending else None))
    assert table.columns == (names if names and ending != "npy" else numbered)
    with pytest.raises(FileExistsError):
        write(path, VALUES, names)


def test_csv_with_and_without_names(tmp_path):
    values, names = read_csv(put(tmp_path / "a.csv", "\ufeffheight, weight\n1, NA\n\n2,?\n"))
    assert names == ("height", "weight")
    np.testing.assert_array_equal(values, [[1, np.nan], [2, np.nan]])
    values, names = read_csv(put(tmp_path / "b.csv", "1,2\n,4\n"))
    assert names is None
    np.testing.assert_array_equal(values, [[1, 2], [np.nan, 4]])


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_csv_with_other_marks_between_cells(tmp_path, mark):
    values, names = read_csv(put(tmp_path / "a.csv", f"a{mark}b\r\n1{mark}2.5\r\n{mark}null\r\n"))
    assert names == ("a", "b")
    np.testing.assert_array_equal(values, [[1, 2.5], [np.nan, np.nan]])


def test_parquet_as_pandas_writes_it(tmp_path):
    frame = pd.DataFrame({"a": [1, None, 3], "b": [True, False, True], "c": [0.5, np.nan, 1]}, index=["x", "y", "z"])
    frame.to_parquet(tmp_path / "a.parquet")
    values, names = read_parquet(tmp_path / "a.parquet")
    assert names == ("a", "b", "c")
    np.testing.assert_array_equal(values, [[1, 1, 0.5], [np.nan, 0, np.nan], [3, 1, 1]])


def test_whole_numbers_and_other_layouts_of_npy(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)))
    values, names = read_npy(tmp_path / "a.npy")
    assert names is None and values.dtype == np.float64
    np.testing.assert_array_equal(values, [[0, 1, 2], [3, 4, 5]])


def test_halves_of_data_sets():
    for half in ("train", "test"):
        table = read("iris", half)
        assert table.names == datasets.load("iris").names
        np.testing.assert_array_equal(table.values, getattr(datasets.load("iris"), half))


def test_columns_are_matched_by_name():
    table = Numbers(np.array([[1.0, 2.0], [3.0, 4.0]]), ("b", "a"))
    np.testing.assert_array_equal(matched(table, ["a", "b"], 2), [[2, 1], [4, 3]])
    for names, own in ((None, ("b", "a")), (["a", "b"], None)):  # without names on either side, as they stand
        np.testing.assert_array_equal(matched(table._replace(names=own), names, 2), table.values)
    with refused("the data lack the column 'c'; those of the run are a, b, c"):
        matched(table, ["a", "b", "c"], 3)
    with refused("the data have the column 'b'; those of the run are a"):
        matched(table, ["a"], 1)
    with refused("the data have 2 columns where the run has 3"):
        matched(table._replace(names=None), ["a", "b", "c"], 3)


BAD = {
    "nothing.csv": (None, "neither a file nor one of ring"),
    "folder.csv": (..., "is a folder: give a table as .csv, .parquet or .npy"),
    "table.txt": ("a\n1\n", "cannot be read: give a table as .csv, .parquet or .npy"),
    "empty.csv": ("", "is empty"),
    "blank.csv": ("\n\n", "is empty"),
    "names.csv": ("a,b\n", "has no rows"),
    "text.csv": ("a,b\n1,2\n2,low\n", "text.csv, line 3, column b: 'low' is not a number: encode or drop it"),
    "lines.csv": ('a,"b\nc"\n\n1,2\n\n2,low\n', "lines.csv, line 6, column b c: 'low' is not a number"),
    "numbered.csv": ("1,2\n2,low\n", "line 2, column 2: 'low' is not a number"),
    "score.csv": ("a\n1_0\n", "line 2, column a: '1_0' is not a number"),
    "ragged.csv": ("1,2\n1,2,3\n", "line 2 has 3 cells where the first has 2"),
    "twice.csv": ("a,b, a\n1,2,3\n", "has two columns named 'a': rename one"),
    "unnamed.csv": (",a\n0,1\n", "column 1 has no name: name it or drop it"),
    "latin.csv": ("höhe\n1\n".encode("latin-1"), "is not a text in UTF-8: save it again with that encoding"),
    "huge.csv": ('"' + 200_000 * "1" + '"\n', "is not a table with commas (field larger"),
    "hollow.npy": (b"", "is not a table of numbers"),
    "noise.npy": (b"\x93NUMPY\x01\x00v\x00{'descr'", "is not a table of numbers"),
    "noise.parquet": (b"PAR1 or so", "is not a Parquet file, or it is damaged"),
    "hollow.parquet": (b"", "is not a Parquet file, or it is damaged"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_table_is_explained(tmp_path, name):
    content, sentence = BAD[name]
    if content is ...:
        (tmp_path / name).mkdir()
    elif content is not None:
        put(tmp_path / name, content)
    with pytest.raises((ValueError, FileNotFoundError, IsADirectoryError)) as found:
        read(str(tmp_path / name))
    assert sentence in str(found.value) and "\n" not in str(found.value)


@pytest.mark.parametrize(
    "array", [np.arange(4.0), np.array([["a", "b"]]), np.array([[1.0, None]], dtype=object), np.ones((1, 2), complex)]
)
def test_arrays_that_are_no_table(tmp_path, array):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with refused("is not a table of numbers: write an array of floats, a row a point, with np.save"):
        read(str(tmp_path / "a.npy"))


def test_columns_of_parquet_that_are_no_numbers(tmp_path):
    for values, kind in ((["low"], "string"), (pd.to_datetime(["2020"]), "timestamp"), ([[1, 2]], "list")):
        frame = pd.DataFrame({"a": [1.0], "b": values})
        path = tmp_path / f"{kind}.parquet"
        frame.to_parquet(path)
        with refused("column b holds", kind, "not numbers: encode or drop it"):
            read(str(path))


def test_without_pyarrow_a_sentence_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    put(tmp_path / "a.parquet", "x")
    with pytest.raises(ImportError, match=r"pip install 'chefs\[parquet\]', or use .csv or .npy"):
        read(str(tmp_path / "a.parquet"))
