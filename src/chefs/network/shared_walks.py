"""Fits whose walks are shared by all points: for columns that have no child.

Walks from the top of the network to the bottom estimate the density of a point, p(x) ≈ mean over walks of N(x; mean of
the walk, 1/ρ), and its gradient flows back through the walks. Good in few dimensions; in many, few walks pass near a
point and the fit stays coarse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from chefs.dag import FloatArray
from chefs.network.layout import TRIAL, Floats, Layers, Layout, Pace, Stage, add_prior, choice

N_ROWS = 200  # points whose densities under all walks are in memory at once
MOST_WALKS, LEAST_WALKS, MOST_PAIRS = 10_000, 1000, 20_000_000  # to choose activations from; a second of point × walk
# Where walks are few, densities come out too low, and lower where the network is sharp: in the end that matters.
CHEAP, FIRST, LAST = Stage(TRIAL[-1], 400, 100), Stage(0.7, 1000, 250), Stage(1.0, 4000, 250)


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
    return add_prior(layers, Layers(*slope)), value


@cache
def normals() -> Floats:
    """A row of a million standard normal numbers."""
    return np.random.default_rng(0).standard_normal(2**20, dtype=np.float32)


@cache
def pieces_of_noise(length: int) -> Floats:
    """All pieces (pieces, length) of `normals`, which take no memory of their own."""
    return np.lib.stride_tricks.sliding_window_view(normals(), length)


def paired_noise(rng: np.random.Generator, n_hidden: int, n_walks: int) -> Floats:
    """Standard normal noise of the walks, half of it the other half with its sign changed.

    Units have pieces of one row, from random places; to draw new numbers would take longer than to walk. Two pieces of
    a step may overlap, other numbers of theirs side by side: that is no harm to a gradient.
    """
    pieces = pieces_of_noise(n_walks // 2)
    half = pieces[rng.integers(len(pieces), size=n_hidden)]
    return np.concatenate([half, -half], axis=1)


class SharedWalks(NamedTuple):
    """The estimates that a fit needs, by walks that all points share: units come first, and columns as in the data."""

    layout: Layout

    @property
    def pace(self) -> Pace:
        """Small networks collapse more often: many cheap tries."""
        return Pace((CHEAP, FIRST, LAST), 16) if self.layout.hidden.sum() <= 16 else Pace((FIRST, LAST), 4)

    def slope(
        self, rng: np.random.Generator, layers: Layers, x: Floats, seen: Floats, n_points: int, n_walks: int
    ) -> tuple[Layers, float]:
        """`gradient` with noise of its own."""
        noise = paired_noise(rng, layers.weights.shape[1], n_walks)
        return gradient(layers, noise, x, seen, n_points)

    def log_densities(
        self, rng: np.random.Generator, layers: Layers, x: Floats, seen: Floats, n_walks: int = 2000
    ) -> FloatArray:
        """Estimated log density of each point, its log 2π left out."""
        n_hidden = layers.weights.shape[1]
        means = walk(layers, rng.standard_normal((n_hidden, n_walks)))[1]
        logs = [special.logsumexp(part, axis=1) for part in by_rows(layers.log_rho[n_hidden:], means, x, seen)]
        return np.concatenate(logs) - math.log(n_walks)

    def chosen(self, rng: np.random.Generator, layers: Layers, x: Floats, seen: Floats) -> FloatArray:
        """Pre-activations (n, points) of a walk for each point, in proportion to the density that it gives the point.

        Columns, seen or not, have the means of the walk.
        """
        n_hidden = layers.weights.shape[1]
        n_walks = min(max(MOST_PAIRS // len(x), LEAST_WALKS), MOST_WALKS)
        a, means = walk(layers, rng.standard_normal((n_hidden, n_walks)))
        logs_of_parts = by_rows(layers.log_rho[n_hidden:], means, x, seen)
        chosen = np.concatenate([choice(rng, logs) for logs in logs_of_parts])
        return np.concatenate([a, means], dtype=np.float64)[:, chosen]
