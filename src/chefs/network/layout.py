"""Where the nodes of a start lie, the edges that it begins with, and the numbers that are fitted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chefs._limits import Prior
from chefs.buffets import ExtendedBuffet, IndianBuffet
from chefs.dag import BoolArray, FloatArray
from chefs.prior import ChefsProcess

Floats = NDArray[np.floating]  # single precision while fitting, double in a start
TRIAL = (0.1, 0.2, 0.3)  # shares of the steps after which half of the tries goes on, half of these, the best one alone


class Layout(NamedTuple):
    """Nodes from the top down, and all edges that there may be between them."""

    order: FloatArray  # (n,)
    column: NDArray[np.int64]  # (n,): the column of the data that a node is; −1 for a hidden unit
    possible: BoolArray  # (n, m): to node, from one of the first m: the others have no child

    @property
    def hidden(self) -> BoolArray:
        """Which nodes are hidden units."""
        return self.column < 0

    @property
    def columns_end(self) -> bool:
        """Whether no column has a child: then all are at one order, below all units."""
        return bool(self.hidden[: self.possible.shape[1]].all())

    @property
    def n_below(self) -> int:
        """Number of columns below a unit."""
        return int(self.possible[~self.hidden][:, self.hidden[: self.possible.shape[1]]].any(axis=1).sum())


class Layers(NamedTuple):
    """Parameters of the nodes of a layout, in its order."""

    weights: Floats  # (n, m): to node, from node
    bias: Floats  # (n,)
    log_rho: Floats  # (n,)


def orders_for(prior: Prior, n_hidden: int, low: float = 0.0, high: float = 1.0) -> FloatArray:
    """Orders of the units of a start, the first on top: one above the other; for a cascade in two layers.

    >>> from chefs.buffets import CascadingBuffet
    >>> orders_for(ChefsProcess(), 3).tolist(), orders_for(CascadingBuffet(), 4).tolist()
    ([0.75, 0.5, 0.25], [0.8125, 0.6875, 0.625, 0.5625])
    """
    if isinstance(prior, ChefsProcess):
        return _between(low, high, n_hidden)
    if isinstance(prior, IndianBuffet):
        return np.ones(n_hidden)  # its one layer
    n_upper = n_hidden // 4
    return np.concatenate([_between(0.75, 0.875, n_upper), _between(0.5, 0.75, n_hidden - n_upper)])


def _between(low: float, high: float, n: int) -> FloatArray:
    return high - (high - low) * np.arange(1, n + 1) / (n + 1)


def layout_for(prior: Prior, n_hidden: int, orders: FloatArray, forbidden: BoolArray | None = None) -> Layout:
    """Units above the lowest columns and below the highest, or below 1; all edges that the prior lets nodes have.

    Args:
        prior: The prior over graphs.
        n_hidden: Number of hidden units.
        orders: Orders of the columns.
        forbidden: Edges among columns that there must not be, from column, to column.
    """
    lowest, highest = float(orders.min()), float(orders.max())
    if lowest >= 1.0:
        raise ValueError(
            "columns that are all at order 1 leave no place for a hidden unit: begin with none, start=None"
        )
    if orders.any() and not isinstance(prior, ChefsProcess):
        raise ValueError(f"{type(prior).__name__} has all columns at order 0: begin with no other orders")
    units = orders_for(prior, n_hidden, lowest, highest if highest > lowest else 1.0)
    for tied in np.flatnonzero(np.isin(units, orders) & (units < 1.0)):  # to halfway between it and what is above it
        others = np.concatenate([units, orders, [1.0]])
        units[tied] = 0.5 * (units[tied] + others[others > units[tied]].min())
    order, column = np.concatenate([units, orders]), np.concatenate([np.full(n_hidden, -1), np.arange(orders.size)])
    down = np.argsort(-order, kind="stable")
    order, column = order[down], column[down]
    possible = _possible(prior, order)
    if forbidden is not None:
        columns = np.flatnonzero(column >= 0)
        possible[np.ix_(columns, columns)] &= ~forbidden[np.ix_(column[columns], column[columns])].T
    return Layout(order, column, possible[:, : 1 + np.flatnonzero(possible.any(axis=0)).max(initial=0)])


def _possible(prior: Prior, order: FloatArray) -> BoolArray:
    """(n, n): whether a node, at these orders, may have an edge to node, from node."""
    if isinstance(prior, ChefsProcess | IndianBuffet):
        return order[None, :] > order[:, None]
    layer = np.floor(-np.log2(1.0 - order))
    steps = layer[None, :] - layer[:, None]
    return steps >= 1 if isinstance(prior, ExtendedBuffet) else steps == 1


def random_layers(rng: np.random.Generator, layout: Layout) -> Layers:
    """Weights like those of the prior where edges are possible, means in the middle, units noisy and columns precise.

    In a regression of one column, where what is above it hardly leaves the middle, weights are three times as large
    and units more precise: else a fit to some hundred points seldom finds that the others matter.
    """
    scale, of_units = (3.0, 2.0) if layout.n_below == 1 and not layout.columns_end else (1.0, -1.0)
    weights = scale * rng.standard_normal(layout.possible.shape) * layout.possible
    log_rho = np.where(layout.hidden, of_units, 3.0)
    return Layers(*(x.astype(np.float32) for x in (weights, -0.5 * weights.sum(axis=1), log_rho)))


def add_prior(layers: Layers, slope: Layers) -> Layers:
    """A gradient with that of the log prior of weights, biases and log precisions added to it."""
    slope.weights[:] -= layers.weights
    slope.bias[:] -= layers.bias
    slope.log_rho[:] += 0.5 - 0.5 * np.exp(layers.log_rho)
    return slope


class Stage(NamedTuple):
    """What a step is worth for a while: walks, and points, up to a share of all steps."""

    until: float
    n_walks: int
    batch: int


class Pace(NamedTuple):
    """What fits of a size are worth: the stages of a fit, and how many fits are begun."""

    stages: tuple[Stage, ...]
    n_tries: int

    def at(self, progress: float) -> Stage:
        """The stage at a share of all steps."""
        return next((stage for stage in self.stages if progress < stage.until), self.stages[-1])


def choice(rng: np.random.Generator, logs: Floats) -> NDArray[np.int64]:
    """For each row one of its columns, in proportion to their exponentials."""
    return (logs + rng.gumbel(size=logs.shape)).argmax(axis=1)
