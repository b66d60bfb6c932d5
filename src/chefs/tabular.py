"""Tables of numbers in files: CSV, Parquet and NumPy, with the names of their columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chefs import datasets

if TYPE_CHECKING:
    from chefs.datasets import FloatArray

ENDINGS = (".csv", ".parquet", ".npy")
MISSING = ("", "nan", "na", "n/a", "null", "none", "?")


class Numbers(NamedTuple):
    """A table, nan where a number is missing, and the names of its columns, if it has any."""

    values: FloatArray
    names: tuple[str, ...] | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names, or else the numbers of the columns."""
        return self.names or tuple(map(str, range(self.values.shape[1])))


def read(data: str, half: str = "train") -> Numbers:
    """The table in a file; or, given the name of a data set of chefs, its training or its test half.

    >>> table = read("geyser", "test")
    >>> table.values.shape, table.names
    ((136, 2), ('eruptions', 'waiting'))
    """
    if data in datasets.list():
        known = datasets.load(data)
        return Numbers(getattr(known, half), known.names)
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"{data} is neither a file nor one of {', '.join(datasets.list())}")
    if path.is_dir():
        raise IsADirectoryError(f"{data} is a folder: give a table as {ending_words()}")
    readers = {".csv": read_csv, ".parquet": read_parquet, ".npy": read_npy}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{data} cannot be read: give a table as {ending_words()}")
    table = readers[path.suffix.lower()](path)
    if not table.values.size:
        raise ValueError(f"{data} has no rows: give a table of numbers")
    return table


def ending_words() -> str:
    """The endings that names of files may have, as part of a sentence."""
    return f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"


def read_csv(path: Path) -> Numbers:
    """Numbers between commas, semicolons or tabs; where the first line is not numbers it names the columns."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            begin = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=next((mark for mark in ",;\t" if mark in begin), ","))
            lines = [(reader.line_num, line) for line in reader if line]
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text in UTF-8: save it again with that encoding") from None
    except csv.Error as error:
        raise ValueError(f"{path} is not a table with commas ({error}): save it again") from None
    if not lines:
        raise ValueError(f"{path} is empty: give a table of numbers")
    first = lines[0][1]
    named = any(_number(cell) is None for cell in first)
    rows = []
    for number, line in lines[named:]:
        cells = [_number(cell) for cell in line]
        if len(cells) != len(first):
            raise ValueError(f"{path}, line {number} has {len(cells)} cells where the first has {len(first)}")
        if None in cells:
            at = cells.index(None)
            where = f"{path}, line {number}, column {' '.join(first[at].split()) if named else at + 1}"
            raise ValueError(f"{where}: {line[at]!r} is not a number: encode or drop it")
        rows.append(cells)
    values = np.array(rows, dtype=np.float64).reshape(len(rows), len(first))
    return Numbers(values, _checked_names(path, first) if named else None)


def _number(cell: str) -> float | None:
    """The number in a cell, nan for a missing one, None for text."""
    if cell.strip().lower() in MISSING:
        return float("nan")
    try:
        return None if "_" in cell else float(cell)  # Python would read 1_0 as ten
    except ValueError:
        return None


def read_parquet(path: Path) -> Numbers:
    """The columns of a Parquet file; an index that pandas has put there is left out."""
    parquet = _pyarrow(path)
    import pyarrow

    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError):
        raise ValueError(f"{path} is not a Parquet file, or it is damaged: write it again") from None
    table = table.drop_columns([name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)])
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kinds = pyarrow.types
        if not any(test(column.type) for test in (kinds.is_integer, kinds.is_floating, kinds.is_boolean)):
            raise ValueError(f"{path}: column {name} holds {column.type}, not numbers: encode or drop it")
        columns.append(column.cast(pyarrow.float64(), safe=False).to_numpy())  # nan where it has nothing
    values = np.array(columns, dtype=np.float64).reshape(len(columns), table.num_rows).T.copy()
    return Numbers(values, _checked_names(path, table.column_names))


def _pyarrow(path: Path):
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(f"{path.name} needs pyarrow: pip install 'chefs[parquet]', or use .csv or .npy") from None
    return parquet


def _checked_names(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    stripped = tuple(name.strip() for name in names)
    if "" in stripped:
        raise ValueError(f"{path}: column {stripped.index('') + 1} has no name: name it or drop it")
    if len(set(stripped)) < len(stripped):
        twice = next(name for name in stripped if stripped.count(name) > 1)
        raise ValueError(f"{path} has two columns named {twice!r}: rename one")
    return stripped


def read_npy(path: Path) -> Numbers:
    """A table of numbers as NumPy saves it; its columns have no names."""
    try:
        table = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError):
        table = None
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "fiub":
        raise ValueError(f"{path} is not a table of numbers: write an array of floats, a row a point, with np.save")
    return Numbers(table.astype(np.float64), None)


def matched(table: Numbers, names: Sequence[str] | None, n_columns: int) -> FloatArray:
    """The columns that a model knows by these names, in its order; where either has no names, as they stand.

    >>> matched(Numbers(np.array([[1.0, 2.0]]), ("b", "a")), ("a", "b"), 2)
    array([[2., 1.]])
    """
    found = table.values.shape[1]
    if names is None or table.names is None:
        if found != n_columns:
            raise ValueError(f"the data have {found} columns where the run has {n_columns}: give the same columns")
        return table.values
    for wanted, there, word in ((names, table.names, "lack"), (table.names, names, "have")):
        for name in wanted:
            if name not in there:
                raise ValueError(f"the data {word} the column {name!r}; those of the run are {', '.join(names)}")
    return table.values[:, [table.names.index(name) for name in names]]


def check_writable(path: Path) -> None:
    """Raise unless `write` knows how to write a file with this name."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"--output cannot write {path.name}: the name must end in {ending_words()}")
    if path.suffix.lower() == ".parquet":
        _pyarrow(path)


def write(path: Path, values: FloatArray, names: Sequence[str] | None) -> None:
    """Write a table to a new file; numbers are written in full, so that `read` gives the same ones."""
    match path.suffix.lower():
        case ".npy":
            with path.open("xb") as binary:
                np.save(binary, values)
        case ".parquet":
            parquet = _pyarrow(path)
            import pyarrow

            columns = names or list(map(str, range(values.shape[1])))
            with path.open("xb") as binary:
                parquet.write_table(pyarrow.table(dict(zip(columns, values.T, strict=True))), binary)
        case _:
            with path.open("x", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerows([*([names] if names else []), *values.tolist()])
