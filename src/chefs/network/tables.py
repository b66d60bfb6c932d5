"""Tables of numbers that a network can be fitted to: what is wrong with others, and the scale of each column."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np

from chefs.dag import FloatArray, shown

DATES = (np.datetime64, np.timedelta64)
CLIP = 8.0  # standard deviations: farther off, a training value counts as that far


class Scale(NamedTuple):
    """Mean and standard deviation of every column, by the training data."""

    mean: FloatArray
    sd: FloatArray

    @classmethod
    def of(cls, x: FloatArray, names: Sequence[str]) -> Scale:
        """The scale of a training table, whose columns must vary; a column of zeros and ones gives a warning."""
        for values, name in zip(x.T, names, strict=True):
            seen = values[~np.isnan(values)]
            if not seen.size:
                raise ValueError(f"column {name} of X has no values at all: drop it")
            if seen.min() == seen.max():
                raise ValueError(f"column {name} of X has one value in all rows, so it has no scale: drop it")
            if set(np.unique(seen)) == {0.0, 1.0}:
                warnings.warn(
                    f"column {name} of X holds only 0 and 1, but the model is continuous: do not trust densities there",
                    stacklevel=4,
                )
        with np.errstate(over="ignore", invalid="ignore"):
            scale = cls(np.nanmean(x, axis=0), np.nanstd(x, axis=0))
        wrong = np.flatnonzero(~np.isfinite(scale.mean) | ~np.isfinite(scale.sd) | (scale.sd < 1e-300))
        if wrong.size:
            raise ValueError(f"column {names[wrong[0]]} of X has numbers too large or too close together: rescale it")
        return scale

    def to_z(self, x: FloatArray) -> FloatArray:
        """(x − mean)/sd."""
        with np.errstate(over="ignore"):  # a row that is scored may be as far off as it likes
            return (x - self.mean) / self.sd

    def to_x(self, z: FloatArray) -> FloatArray:
        """Back: mean + sd z."""
        return self.mean + self.sd * z

    def log_jacobian(self, x: FloatArray) -> FloatArray:
        """Log |dz/dx| of each row, over the entries that are there: −Σ log sd."""
        return -np.where(np.isnan(x), 0.0, np.log(self.sd)).sum(axis=1)


def check_finite(x: FloatArray, names: Sequence[str]) -> None:
    """Raise where a number is infinite."""
    infinite = np.flatnonzero(np.isinf(x).any(axis=0))
    if infinite.size:
        raise ValueError(f"column {names[infinite[0]]} of X has an infinite value: correct it, or put nan if unknown")


def check_numbers(X: Any) -> None:
    """Raise where a column of a table or frame holds text or dates; what is not a table at all is for others to say."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        columns = [(name, np.asarray(X.iloc[:, j])) for j, name in enumerate(X.columns)]
    elif isinstance(X, np.ndarray | list | tuple) and np.ndim(X) == 2:
        table = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)  # numbers beside text stay numbers
        columns = list(enumerate(table.T))
    else:
        return
    for name, values in columns:
        for kind, codes, types in (("text", "US", (str, bytes)), ("dates", "Mm", (date, timedelta, *DATES))):
            if values.dtype.kind in codes or (values.dtype.kind == "O" and any(isinstance(v, types) for v in values)):
                raise ValueError(
                    f"column {name} of X holds {kind}, and X must be a table of numbers: encode or drop it"
                )


def orders_of(orders: Any, names: Sequence[str] | None, n: int) -> FloatArray:
    """Orders of the columns from one number, one for each column, or a mapping from names; others are at 0."""
    if isinstance(orders, Mapping):
        unknown = [name for name in orders if names is None or name not in names]
        if unknown:
            where = "X has no column names" if names is None else f"X has the columns {', '.join(names)}"
            raise ValueError(f"orders names the column {unknown[0]!r}, but {where}")
        orders = [orders.get(name, 0.0) for name in names or ()]
    try:
        if any(order is None or isinstance(order, str) for order in np.asarray(orders, dtype=object).flat):
            raise TypeError  # NumPy would make them numbers
        values = np.asarray(orders, dtype=np.float64)
        values = np.broadcast_to(values, n) if values.ndim == 0 else values
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (n,):
        raise ValueError(
            f"orders must be a number, or one for each of the {n} columns of X, nan where free; found {shown(orders)}"
        )
    return values.copy()
