"""Fits in which every point has walks of its own: for columns that are parents, of units or of each other.

A walk keeps to what is seen of its point and draws the rest, from the top down. The mean over walks of the product of
the densities of what is seen, each given the walk above it, estimates the density of the point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from chefs.dag import FloatArray
from chefs.network.layout import Floats, Layers, Layout, Pace, Stage, add_prior, choice
from chefs.patience import patient

MOST_WALKS, LEAST_WALKS, MOST_PAIRS = 1000, 20, 2_000_000  # to choose activations from; a second or two in all
MOST_NUMBERS = 4_000_000  # in one array


def gradient(
    layers: Layers, layout: Layout, noise: Floats, x: Floats, seen: Floats, n_points: int
) -> tuple[Layers, float]:
    """Gradient of n_points × (mean estimated log density of the rows of x) + log prior; and that mean."""
    from chefs._core.fitting_own import gradient_through_own_walks

    scale = x.dtype.type(n_points / len(x))
    *slope, value = gradient_through_own_walks(*layers, layout.column, layout.possible, noise, x, seen, scale)
    return add_prior(layers, Layers(*slope)), value


def noise_for(rng: np.random.Generator, layout: Layout, seen: Floats, n_walks: int, like: type) -> Floats:
    """Standard normal noise (n, points × walks), the walks of a point side by side; 0 for columns that are all seen."""
    noise = np.zeros((layout.column.size, len(seen) * n_walks), dtype=like)
    for j, column in enumerate(layout.column):
        if column < 0 or not seen[:, column].all():
            rng.standard_normal(out=noise[j], dtype=like)
    return noise


class OwnWalks(NamedTuple):
    """The estimates that a fit needs, by walks that each point has for itself."""

    layout: Layout

    @property
    def pace(self) -> Pace:
        """Few walks for a regression of one column; more for several, all of which a walk must come near."""
        n_walks, batch = (16, 100) if self.layout.n_below == 1 else (128, 25)
        return Pace((Stage(1.0, n_walks, batch),), 8 if self.layout.hidden.sum() <= 16 else 4)

    def slope(
        self, rng: np.random.Generator, layers: Layers, x: Floats, seen: Floats, n_points: int, n_walks: int
    ) -> tuple[Layers, float]:
        """`gradient` with noise of its own."""
        noise = noise_for(rng, self.layout, seen, n_walks, np.float32)
        return gradient(layers, self.layout, noise, x, seen, n_points)

    def log_densities(
        self, rng: np.random.Generator, layers: Layers, x: Floats, seen: Floats, n_walks: int = 200
    ) -> FloatArray:
        """Estimated log density of each point, its log 2π left out."""
        parts = [logs for _, logs in self._walked(rng, layers, x, seen, n_walks)]
        return special.logsumexp(np.concatenate(parts), axis=1) - math.log(n_walks)

    def chosen(self, rng: np.random.Generator, layers: Layers, x: Floats, seen: Floats) -> FloatArray:
        """Pre-activations (n, points) of a walk for each point, in proportion to the density that it gives the point.

        Columns that are seen have the means of the walk, others what it drew.
        """
        chosen, n_walks = [], min(max(MOST_PAIRS // len(x), LEAST_WALKS), MOST_WALKS)
        for a, logs in self._walked(rng, layers, x, seen, n_walks):
            chosen.append(a[:, np.arange(len(logs)), choice(rng, logs)])
        return np.concatenate(chosen, axis=1)

    def _walked(
        self, rng: np.random.Generator, layers: Layers, x: Floats, seen: Floats, n_walks: int
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Pre-activations (n, points, walks) and log weights (points, walks), of some points after the other."""
        from chefs._core.fitting_own import walk_past

        n_rows = max(MOST_NUMBERS // (n_walks * self.layout.column.size), 1)
        for begin in range(0, len(x), n_rows):
            some, there = x[begin : begin + n_rows].astype(np.float64), seen[begin : begin + n_rows].astype(np.float64)
            noise = noise_for(rng, self.layout, there, n_walks, np.float64)
            with patient():
                a, _, logs = walk_past(*layers, self.layout.column, self.layout.possible, noise, some, there)
            yield a.reshape(len(a), -1, n_walks), logs.reshape(-1, n_walks)
