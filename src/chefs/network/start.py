"""Where a chain may start: a network fitted to the data by stochastic gradient.

A chain converges to the same law from anywhere; from here, sooner. All units are connected to all that the prior lets
them: to all below, or, in layers, to those of the layers below. Walks from the top of the network to the bottom, shared
by all points, estimate the density of a point, p(x) ≈ mean over walks of N(x; mean of the walk, 1/ρ), and its gradient
flows back through the walks. Good in few dimensions; in many, few walks pass near a point and the fit stays coarse.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from chefs._limits import Prior
from chefs.buffets import ExtendedBuffet, IndianBuffet
from chefs.dag import BoolArray, Dag, FloatArray, shown
from chefs.patience import patient
from chefs.prior import ChefsProcess

Floats = NDArray[np.floating]  # single precision while fitting, double in a start

RATE, FIRST_DECAY, SECOND_DECAY = 0.02, 0.9, 0.99  # Adam; the rate falls to a tenth
TRIAL = (0.1, 0.2, 0.3)  # shares of the steps after which half of the tries goes on, half of these, the best one alone
TRIAL_TIME = 0.6  # share of the seconds that all trials together may take
WORTH = 0.1  # nats a point that more units must bring
N_SCORED, SCORE_WALKS = 2000, 2000  # points and walks by which sizes are compared
N_ROWS = 200  # points whose densities under all walks are in memory at once
MOST_WALKS, LEAST_WALKS, MOST_PAIRS = 10_000, 1000, 20_000_000  # to choose activations from; a second of point × walk
MEMORY = 0.99  # of the running mean of the density
SHARP = 0.4  # share of the steps after which units may become switches with a standard deviation above 20
MOST_LOG_RHO, CALM_LOG_RHO = 8.0, -6.0


class Start(NamedTuple):
    """A network to start from: a graph, the pre-activations of all its nodes, and their precisions."""

    dag: Dag
    a: FloatArray  # (nodes, points)
    rho: FloatArray  # (nodes,)


class Effort(NamedTuple):
    """What fits of a size are worth: walks and points of a step, and how many are begun."""

    n_walks: int
    batch: int
    n_tries: int


def effort_for(n_hidden: int) -> Effort:
    """Small networks need fewer walks, and collapse more often: many cheap tries."""
    return Effort(400, 100, 16) if n_hidden <= 16 else Effort(1000, 250, 4)


class Points(NamedTuple):
    """Data in single precision: 0 where an entry is missing, and 1 or 0 for whether it is there."""

    x: Floats  # (points, D)
    seen: Floats  # (points, D)

    @classmethod
    def of(cls, data: FloatArray) -> Points:
        """From pre-activations of the observed nodes, a row a point, nan where missing."""
        return cls(np.nan_to_num(data).astype(np.float32), (~np.isnan(data)).astype(np.float32))


class Layers(NamedTuple):
    """Parameters of H hidden units, the first on top, and below them D observed nodes."""

    weights: Floats  # (H + D, H): to unit or observed node, from unit
    bias: Floats  # (H + D,)
    log_rho: Floats  # (H + D,)


def orders_for(prior: Prior, n_hidden: int) -> FloatArray:
    """Orders of the units of a start, the first on top: one above the other; for a cascade in two layers.

    >>> from chefs.buffets import CascadingBuffet
    >>> orders_for(ChefsProcess(), 3).tolist(), orders_for(CascadingBuffet(), 4).tolist()
    ([0.75, 0.5, 0.25], [0.8125, 0.6875, 0.625, 0.5625])
    """
    if isinstance(prior, ChefsProcess):
        return _between(0.0, 1.0, n_hidden)
    if isinstance(prior, IndianBuffet):
        return np.ones(n_hidden)  # its one layer
    n_upper = n_hidden // 4
    return np.concatenate([_between(0.75, 0.875, n_upper), _between(0.5, 0.75, n_hidden - n_upper)])


def _between(low: float, high: float, n: int) -> FloatArray:
    return high - (high - low) * np.arange(1, n + 1) / (n + 1)


def possible_edges(prior: Prior, order: FloatArray, n_observed: int) -> BoolArray:
    """(H + D, H): whether units, at these orders, may have an edge to unit or observed node, from unit."""
    below = np.concatenate([order, np.zeros(n_observed)])
    if isinstance(prior, ChefsProcess | IndianBuffet):
        return order[None, :] > below[:, None]
    layer, layer_below = (np.floor(-np.log2(1.0 - x)) for x in (order, below))
    steps = layer[None, :] - layer_below[:, None]
    return steps >= 1 if isinstance(prior, ExtendedBuffet) else steps == 1


def random_layers(rng: np.random.Generator, possible: BoolArray) -> Layers:
    """Weights from the prior where edges are possible, means in the middle, units noisy and observed nodes precise."""
    n, n_hidden = possible.shape
    n_observed = n - n_hidden
    weights = rng.standard_normal((n, n_hidden)) * possible
    log_rho = np.concatenate([np.full(n_hidden, -1.0), np.full(n_observed, 3.0)])
    return Layers(*(x.astype(np.float32) for x in (weights, -0.5 * weights.sum(axis=1), log_rho)))


def walk(layers: Layers, noise: Floats) -> tuple[Floats, Floats]:
    """Pre-activations (H, S) of walks made from standard normal noise (H, S), and the means (D, S) they end in."""
    n_hidden = len(noise)
    spread = np.exp(-0.5 * layers.log_rho)
    a, u = np.empty_like(noise), np.empty_like(noise)
    for j in range(n_hidden):
        a[j] = layers.bias[j] + layers.weights[j, :j] @ u[:j] + spread[j] * noise[j]
        u[j] = sigmoid(a[j])
    return a, layers.bias[n_hidden:, None] + layers.weights[n_hidden:] @ u


def sigmoid(a: Floats) -> Floats:
    """1 / (1 + exp(−a)) without overflow."""
    return 0.5 * np.tanh(0.5 * a) + 0.5


def log_weights(log_rho: Floats, means: Floats, x: Floats, seen: Floats) -> Floats:
    """Log N(x_t; mean of walk s, 1/ρ) over the entries of point t that were seen, its log 2π left out."""
    scale = np.exp(0.5 * log_rho)
    points, centres = x * seen * scale, means * scale[:, None]
    logs = points @ centres
    logs -= 0.5 * (seen @ centres**2)
    return logs + (0.5 * (seen @ log_rho) - 0.5 * (points**2).sum(axis=1))[:, None]


def by_rows(log_rho: Floats, means: Floats, x: Floats, seen: Floats) -> Iterator[Floats]:
    """`log_weights` of some rows after the other: of all at once they would need much memory."""
    for begin in range(0, len(x), N_ROWS):
        part = slice(begin, begin + N_ROWS)
        yield log_weights(log_rho, means, x[part], seen[part])


def gradient(layers: Layers, noise: Floats, x: Floats, seen: Floats, n_points: int) -> tuple[Layers, float]:
    """Gradient of n_points × (mean estimated log density of the rows of x) + log prior; and that mean."""
    from chefs._core.fitting import gradient_through_walks

    *slope, value = gradient_through_walks(*layers, noise, x, seen, x.dtype.type(n_points / len(x)))
    by_weights, by_bias, by_log_rho = slope
    by_weights -= layers.weights
    by_bias -= layers.bias
    by_log_rho += 0.5 - 0.5 * np.exp(layers.log_rho)
    return Layers(by_weights, by_bias, by_log_rho), value


def paired_noise(rng: np.random.Generator, n_hidden: int, n_walks: int) -> Floats:
    """Standard normal noise of the walks, half of it the other half with its sign changed."""
    half = rng.standard_normal((n_hidden, n_walks // 2), dtype=np.float32)
    return np.concatenate([half, -half], axis=1)


class Fit:
    """One run of Adam over the parameters, which can be stopped and gone on with."""

    def __init__(self, rng: np.random.Generator, points: Points, possible: BoolArray) -> None:
        self.rng, (self.x, self.seen) = rng, points
        self.possible, self.layers = possible, random_layers(rng, possible)
        self.first, self.second = ([np.zeros_like(p) for p in self.layers] for _ in range(2))
        self.n_done, self.running = 0, 0.0

    def run(self, of: int, first: float, last: float, seconds: float = math.inf) -> None:
        """From a share of `of` steps to another, or as far as the seconds allow; the rate keeps pace."""
        n_points, n_hidden = len(self.x), self.layers.weights.shape[1]
        effort, begin = effort_for(n_hidden), time.monotonic()
        while self.n_done < int(last * of) and (spent := (time.monotonic() - begin) / seconds) < 1:
            progress = max(self.n_done / of, first + (last - first) * spent)
            self.n_done += 1
            chosen = self.rng.integers(n_points, size=min(effort.batch, n_points))
            noise = paired_noise(self.rng, n_hidden, effort.n_walks)
            with patient():  # Ctrl-C in the midst of compiled code would crash it
                slope, value = gradient(self.layers, noise, self.x[chosen], self.seen[chosen], n_points)
            slope.weights[~self.possible] = 0.0
            self.running = MEMORY * self.running + (1 - MEMORY) * value
            rate = RATE * 0.1**progress
            for p, g, m, v in zip(self.layers, slope, self.first, self.second, strict=True):
                m += (1 - FIRST_DECAY) * (g - m)
                v += (1 - SECOND_DECAY) * (g * g - v)
                size = np.sqrt(v / (1 - SECOND_DECAY**self.n_done)) + 1e-8
                p += np.float32(rate / (1 - FIRST_DECAY**self.n_done)) * m / size
            # Switches that are sharp from the beginning never find what to switch.
            least = CALM_LOG_RHO - 16.0 * max(0.0, progress - SHARP)
            self.layers.log_rho[:n_hidden].clip(least, MOST_LOG_RHO, out=self.layers.log_rho[:n_hidden])

    @property
    def value(self) -> float:
        """Running mean of the estimated log density of the points, its log 2π left out; −∞ before it is a number."""
        value = self.running / (1 - MEMORY**self.n_done) if self.n_done else -math.inf
        return -math.inf if math.isnan(value) else value

    def density(self, n_walks: int = SCORE_WALKS) -> float:
        """Mean log density of the points, or of every so many, its log 2π left out, with walks of its own."""
        every = -(-len(self.x) // N_SCORED)
        layers, x, seen = self.in_double, self.x[::every], self.seen[::every]
        n_hidden = layers.weights.shape[1]
        means = walk(layers, self.rng.standard_normal((n_hidden, n_walks)))[1]
        logs = [special.logsumexp(part, axis=1) for part in by_rows(layers.log_rho[n_hidden:], means, x, seen)]
        mean = float(np.concatenate(logs).mean() - math.log(n_walks))
        return -math.inf if math.isnan(mean) else mean

    @property
    def in_double(self) -> Layers:
        """The parameters in double precision."""
        return Layers(*(p.astype(np.float64) for p in self.layers))


@dataclass(frozen=True, slots=True)
class GradientStart:
    """A start for observed nodes at order 0: the best of several fits, and activations that fit the points.

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

    def __call__(self, rng: np.random.Generator, data: FloatArray, prior: Prior | None = None) -> Start:
        """A start from pre-activations of the observed nodes, a row a point, nan where missing."""
        begin, prior, points = time.monotonic(), prior or ChefsProcess(), Points.of(data)
        chosen = smallest_worth([self._best_trial(rng, points, prior, size) for size in self.sizes])
        chosen.run(self.n_steps, TRIAL[-1], 1.0, max(self.seconds - (time.monotonic() - begin), 1e-9))
        order = orders_for(prior, chosen.layers.weights.shape[1])
        return as_start(rng, chosen.in_double, data, order, chosen.possible)

    def _best_trial(self, rng: np.random.Generator, points: Points, prior: Prior, size: int) -> Fit:
        """Of several fits, of which half goes on and half again, the one with the largest density."""
        possible = possible_edges(prior, orders_for(prior, size), points.x.shape[1])
        fits = [Fit(rng, points, possible) for _ in range(self.n_tries or effort_for(size).n_tries)]
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


def as_start(
    rng: np.random.Generator,
    layers: Layers,
    data: FloatArray,
    order: FloatArray,
    possible: BoolArray,
) -> Start:
    """The fitted network with, for every point, a walk chosen in proportion to the density that it gives the point."""
    n_observed, n_hidden = data.shape[1], layers.weights.shape[1]
    n_walks = min(max(MOST_PAIRS // len(data), LEAST_WALKS), MOST_WALKS)
    a, means = walk(layers, rng.standard_normal((n_hidden, n_walks)))
    seen, x = (~np.isnan(data)).astype(np.float64), np.nan_to_num(data)
    logs_of_parts = by_rows(layers.log_rho[n_hidden:], means, x, seen)
    chosen = np.concatenate([(logs + rng.gumbel(size=logs.shape)).argmax(axis=1) for logs in logs_of_parts])
    edges = np.zeros((n_observed + n_hidden, n_observed + n_hidden), dtype=bool)
    edges[n_observed:, :n_observed] = possible[n_hidden:].T
    edges[n_observed:, n_observed:] = possible[:n_hidden].T
    orders = np.concatenate([np.zeros(n_observed), order])
    rho = np.exp(np.concatenate([layers.log_rho[n_hidden:], layers.log_rho[:n_hidden]]))
    filled = np.where(np.isnan(data).T, means[:, chosen], data.T)
    return Start(Dag(edges, orders, n_observed), np.concatenate([filled, a[:, chosen]], dtype=np.float64), rho)
