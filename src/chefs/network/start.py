"""Where a chain may start: a network fitted to the data by stochastic gradient.

A chain converges to the same law from anywhere; from here, sooner. All units are connected to all that the prior lets
them: to all below, or, in layers, to those of the layers below; and so are columns that are not at the bottom. Walks
from the top of the network to the bottom estimate the density of a point: walks that all points share where no column
is a parent (`shared_walks`), and else walks that each point has for itself (`own_walks`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from chefs._limits import Prior
from chefs.dag import BoolArray, Dag, FloatArray, shown
from chefs.network.layout import TRIAL, Floats, Layers, Layout, layout_for, random_layers
from chefs.network.own_walks import OwnWalks
from chefs.network.shared_walks import SharedWalks
from chefs.patience import patient
from chefs.prior import ChefsProcess

RATE, FIRST_DECAY, SECOND_DECAY = 0.02, 0.9, 0.99  # Adam; the rate falls to a tenth
TRIAL_TIME = 0.6  # share of the seconds that all trials together may take
WORTH = 0.1  # nats a point that more units must bring
N_SCORED = 2000  # points by which sizes are compared
MEMORY = 0.99  # of the running mean of the density
SHARP = 0.4  # share of the steps after which units may become switches with a standard deviation above 20
MOST_LOG_RHO, CALM_LOG_RHO = 8.0, -6.0


class Start(NamedTuple):
    """A network to start from: a graph, the pre-activations of all its nodes, and their precisions."""

    dag: Dag
    a: FloatArray  # (nodes, points)
    rho: FloatArray  # (nodes,)


class Points(NamedTuple):
    """Data in single precision: 0 where an entry is missing, and 1 or 0 for whether it is there."""

    x: Floats  # (points, D)
    seen: Floats  # (points, D)

    @classmethod
    def of(cls, data: FloatArray) -> Points:
        """From pre-activations of the observed nodes, a row a point, nan where missing."""
        return cls(np.nan_to_num(data).astype(np.float32), (~np.isnan(data)).astype(np.float32))


def walks_for(layout: Layout) -> SharedWalks | OwnWalks:
    """How densities are estimated under a layout."""
    return SharedWalks(layout) if layout.columns_end else OwnWalks(layout)


class Fit:
    """One run of Adam over the parameters, which can be stopped and gone on with."""

    def __init__(self, rng: np.random.Generator, points: Points, layout: Layout) -> None:
        self.rng, (self.x, self.seen) = rng, points
        self.layout, self.walks = layout, walks_for(layout)
        self.pace = self.walks.pace
        begin = random_layers(rng, layout)
        self.numbers = np.concatenate([part.ravel() for part in begin])  # that are fitted; `layers` are views of them
        ends = np.cumsum([part.size for part in begin])
        pieces = np.split(self.numbers, ends[:-1])
        self.layers = Layers(*(piece.reshape(part.shape) for piece, part in zip(pieces, begin, strict=True)))
        self.first, self.second = np.zeros_like(self.numbers), np.zeros_like(self.numbers)
        self.n_done, self.running = 0, 0.0

    def run(self, of: int, first: float, last: float, seconds: float = math.inf) -> None:
        """From a share of `of` steps to another, or as far as the seconds allow; the rate keeps pace."""
        begin = time.monotonic()
        with patient() as interrupted:  # Ctrl-C in the midst of compiled code would crash it
            while self.n_done < int(last * of) and not interrupted:
                if (spent := (time.monotonic() - begin) / seconds) >= 1:
                    break
                self._step(max(self.n_done / of, first + (last - first) * spent))

    def _step(self, progress: float) -> None:
        """One step of Adam, at a share of all of them."""
        n_points, stage = len(self.x), self.pace.at(progress)
        self.n_done += 1
        chosen = self.rng.integers(n_points, size=min(stage.batch, n_points))
        x, seen = self.x[chosen], self.seen[chosen]
        slope, value = self.walks.slope(self.rng, self.layers, x, seen, n_points, stage.n_walks)
        slope.weights[~self.layout.possible] = 0.0
        self.running = MEMORY * self.running + (1 - MEMORY) * value
        g = np.concatenate([part.ravel() for part in slope])
        self.first += (1 - FIRST_DECAY) * (g - self.first)
        self.second += (1 - SECOND_DECAY) * (g * g - self.second)
        size = np.sqrt(self.second / (1 - SECOND_DECAY**self.n_done)) + 1e-8
        self.numbers += np.float32(RATE * 0.1**progress / (1 - FIRST_DECAY**self.n_done)) * self.first / size
        # Switches that are sharp from the beginning never find what to switch.
        least, hidden = CALM_LOG_RHO - 16.0 * max(0.0, progress - SHARP), self.layout.hidden
        self.layers.log_rho[hidden] = self.layers.log_rho[hidden].clip(least, MOST_LOG_RHO)

    @property
    def value(self) -> float:
        """Running mean of the estimated log density of the points, its log 2π left out; −∞ before it is a number."""
        value = self.running / (1 - MEMORY**self.n_done) if self.n_done else -math.inf
        return -math.inf if math.isnan(value) else value

    def density(self) -> float:
        """Mean log density of the points, or of every so many, its log 2π left out, with walks of its own."""
        every = -(-len(self.x) // N_SCORED)
        mean = float(self.walks.log_densities(self.rng, self.in_double, self.x[::every], self.seen[::every]).mean())
        return -math.inf if math.isnan(mean) else mean

    @property
    def in_double(self) -> Layers:
        """The parameters in double precision."""
        return Layers(*(p.astype(np.float64) for p in self.layers))


@dataclass(frozen=True, slots=True)
class GradientStart:
    """A start that is fitted to the data: the best of several fits, and activations that fit the points.

    Networks no larger than they need be are easier to read, and chains over them are faster: the smallest is taken,
    unless a larger one gives the points more density by a tenth of a nat each, when the fits are at three tenths.

    Args:
        n_hidden: Number of hidden units; or several, the smallest first, of which each start takes what the data need.
        n_steps: Gradient steps of the fit that is kept.
        n_tries: Fits of each size that are begun, for some collapse early; those with the largest density of the data
            go on, fewer and fewer. None: more of small ones than of large ones.
        seconds: The longest that the fits may take; activations for all points come after them.

    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 2 * np.pi, 300)
    >>> start = GradientStart(n_hidden=5, n_steps=50)(rng, np.stack([np.cos(angle), np.sin(angle)], axis=1))
    >>> start.dag.n_hidden, start.a.shape
    (5, (7, 300))
    """

    n_hidden: int | tuple[int, ...] = (8, 40)
    n_steps: int = 12_000
    n_tries: int | None = None
    seconds: float = math.inf

    def __post_init__(self) -> None:
        n_tries = 1 if self.n_tries is None else self.n_tries
        asked = [("n_hidden", size) for size in self.sizes]
        for name, value in [*asked, ("n_steps", self.n_steps), ("n_tries", n_tries)]:
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} of the start must be a whole number, at least 1; found {shown(value)}")
        if not self.sizes or any(b <= a for a, b in pairwise(self.sizes)):
            raise ValueError(f"n_hidden of the start must grow from one to the next; found {shown(self.n_hidden)}")
        if not isinstance(self.seconds, int | float) or not self.seconds > 0:
            raise ValueError(f"seconds of the start must be positive; found {shown(self.seconds)}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of hidden units that are tried, in order."""
        return tuple(self.n_hidden) if isinstance(self.n_hidden, list | tuple) else (self.n_hidden,)

    def __call__(
        self,
        rng: np.random.Generator,
        data: FloatArray,
        prior: Prior | None = None,
        orders: FloatArray | None = None,
        forbidden: BoolArray | None = None,
    ) -> Start:
        """A start from pre-activations of the observed nodes, a row a point, nan where missing.

        Args:
            rng: A generator.
            data: Pre-activations.
            prior: The prior over graphs; None for `ChefsProcess()`.
            orders: Orders of the observed nodes; None for 0.
            forbidden: Edges among observed nodes that there must not be, from node, to node.
        """
        begin, points, n = time.monotonic(), Points.of(data), data.shape[1]
        orders = np.zeros(n) if orders is None else np.asarray(orders, dtype=np.float64)
        if orders.shape != (n,) or not ((orders >= 0) & (orders <= 1)).all():
            raise ValueError(f"orders must be a number from 0 to 1 for each of the {n} columns; found {shown(orders)}")
        forbidden = None if forbidden is None else np.asarray(forbidden, dtype=bool)
        if forbidden is not None and forbidden.shape != (n, n):
            raise ValueError(f"forbidden must be a matrix of {n} × {n}, from column, to column")
        layouts = [layout_for(prior or ChefsProcess(), size, orders, forbidden) for size in self.sizes]
        chosen = smallest_worth([self._best_trial(rng, points, layout) for layout in layouts])
        chosen.run(self.n_steps, TRIAL[-1], 1.0, max(self.seconds - (time.monotonic() - begin), 1e-9))
        return as_start(rng, chosen.in_double, data, chosen.layout)

    def _best_trial(self, rng: np.random.Generator, points: Points, layout: Layout) -> Fit:
        """Of several fits, of which half goes on and half again, the one with the largest density."""
        n_tries = self.n_tries or walks_for(layout).pace.n_tries
        fits = [Fit(rng, points, layout) for _ in range(n_tries)]
        n_going_on = [-(-len(fits) // 2**round_) for round_ in range(len(TRIAL))]
        seconds = TRIAL_TIME * self.seconds / len(self.sizes) / sum(n_going_on)
        for (first, last), n in zip(pairwise((0.0, *TRIAL)), n_going_on, strict=True):
            fits = sorted(fits, key=lambda fit: fit.value, reverse=True)[:n]
            for fit in fits:
                fit.run(self.n_steps, first, last, seconds)
        return max(fits, key=lambda fit: fit.value)


def smallest_worth(trials: Sequence[Fit]) -> Fit:
    """Of fits in order of size the first, unless a larger one is worth its size."""
    chosen, best = trials[0], trials[0].density() if len(trials) > 1 else 0.0
    for larger in trials[1:]:
        if (density := larger.density()) > best + WORTH:
            chosen, best = larger, density
    return chosen


def as_start(rng: np.random.Generator, layers: Layers, data: FloatArray, layout: Layout) -> Start:
    """The fitted network with, for every point, a walk chosen in proportion to the density that it gives the point."""
    seen = ~np.isnan(data)
    a = walks_for(layout).chosen(rng, layers, np.nan_to_num(data), seen.astype(np.float64))
    n_observed, (n, m) = data.shape[1], layout.possible.shape
    node = np.empty(n, dtype=np.int64)  # in the graph: columns first, then units from the top
    node[layout.hidden] = np.arange(n_observed, n)
    node[~layout.hidden] = layout.column[~layout.hidden]
    edges = np.zeros((n, n), dtype=bool)
    edges[np.ix_(node[:m], node)] = layout.possible.T
    back = np.argsort(node)
    a, order, rho = a[back], layout.order[back], np.exp(layers.log_rho[back])
    a[:n_observed] = np.where(seen.T, data.T, a[:n_observed])
    return Start(Dag(edges, order, n_observed), a, rho)
