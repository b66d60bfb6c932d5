"""What pooling chains averages out: the parts of the squared distance of fantasies from the law of a toy.

Densities are smoothed as the Hellinger distance smooths them, and d is the difference of the square root of one from
that of the law, so that ½ Σ d² is the squared distance of endless points. Its unit is what a sample as large as the
training half has in the mean. Of a pool of chains, d = β e + rest, where e is the d of the training half: β is the
share of the training half's error that the chains took over, and `rest`, which is at right angles to e, is theirs.
Errors of the chains' own lie along e by chance too, so that β says something in the mean over splits only. With a test
set and fantasies of that size, which have a unit of noise each, the ratio of distance to baseline is about
√(1 + total / 2): here each chain counts alike, in `mixing` each point, which is nearly the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import ndimage

from chefs import datasets
from chefs.dag import FloatArray

N_CELLS = 160  # a side of the unit square
LAW, SAMPLES = range(7 * 10**6, 7 * 10**6 + 150), range(8 * 10**6, 8 * 10**6 + 40)  # seeds, which no fit has
N_POOLS = 60  # of a size; all of them where there are no more


class Parts(NamedTuple):
    """Means over pools of so many chains, in units of the squared error of a sample."""

    n_chains: int
    total: float  # β² · (training half's) + rest
    taken: float  # β
    rest: float


class Lens(NamedTuple):
    """How points of a toy look once smoothed: where they differ from its law."""

    smoothed: Callable[[FloatArray], FloatArray]  # density of points on a grid
    root: FloatArray  # of the law's density
    unit: float  # mean of ½ Σ d² of samples as large as the training half
    error: FloatArray  # d of the training half

    def difference(self, density: FloatArray) -> FloatArray:
        """√density − √law, on the grid."""
        return np.sqrt(density.clip(0.0)) - self.root

    def square(self, difference: FloatArray) -> float:
        """½ Σ d², in units."""
        return 0.5 * float((difference**2).sum()) / self.unit


def lens(table: datasets.Table) -> Lens:
    """That of a toy, with the scaling and the bandwidth of its training half."""
    unit_scale = table.to_unit(table.train)
    width = N_CELLS * unit_scale.std(axis=0) * len(unit_scale) ** (-1 / 6)  # Scott's, in two dimensions

    def smoothed(points: FloatArray) -> FloatArray:
        u = table.to_unit(points)
        counts = np.histogram2d(*u.T, bins=N_CELLS, range=[[0.0, 1.0]] * 2)[0]
        return ndimage.gaussian_filter(counts / len(u), width, mode="constant")

    root = np.sqrt(smoothed(np.concatenate([datasets.load(table.name, seed).train for seed in LAW])))
    samples = [np.sqrt(smoothed(datasets.load(table.name, seed).train)) - root for seed in SAMPLES]
    unit = float(np.mean([0.5 * (d**2).sum() for d in samples]))
    return Lens(smoothed, root, unit, np.sqrt(smoothed(table.train)) - root)


def of_ring(table: datasets.Table, points: FloatArray) -> dict[str, float]:
    """Squared errors of the Ring's law with the radii of some points in place of its own, and with their angles."""
    seen, rng = lens(table), np.random.default_rng(0)
    law = np.concatenate([datasets.load(table.name, seed).train for seed in LAW])

    def drawn(radii: FloatArray, angles: FloatArray) -> FloatArray:
        radius, angle = (rng.choice(of, 10**6) for of in (radii, angles))
        return 0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    (radii, angles), (of_law, around) = (
        (np.hypot(*(of - 0.5).T), np.arctan2(*(of - 0.5).T[::-1])) for of in (points, law)
    )
    swapped = {"radii": drawn(radii, around), "angles": drawn(of_law, angles)}
    return {name: seen.square(seen.difference(seen.smoothed(of))) for name, of in swapped.items()}


def parts(table: datasets.Table, chains: Sequence[FloatArray]) -> tuple[float, list[Parts]]:
    """Squared error of the training half, and the parts of pools of 1, 2, 3, 6, 12 … chains, as far as there are.

    Args:
        table: A toy.
        chains: Fantasies of each chain, on the scale of the data; each chain counts alike.
    """
    seen, rng = lens(table), np.random.default_rng(0)
    e, n_points = seen.error, len(table.train)
    densities = [seen.smoothed(points) for points in chains]
    sizes = [n for n in (1, 2, *(3 * 2**j for j in range(len(chains)))) if n <= len(chains)]
    found = []
    for n in sorted({*sizes, len(chains)}):
        values, every = [], range(len(chains))
        few = math.comb(len(chains), n) <= N_POOLS
        pools = itertools.combinations(every, n) if few else (rng.permutation(every)[:n] for _ in range(N_POOLS))
        for pool in pools:
            d = seen.difference(np.mean([densities[c] for c in pool], axis=0))
            share = float((d * e).sum() / (e * e).sum())
            noise = sum(n_points / len(chains[c]) for c in pool) / n**2  # of fantasies, which are not endless
            rest = seen.square(d - share * e) - noise
            values.append((share**2 * seen.square(e) + rest, share, rest))
        found.append(Parts(n, *map(float, np.mean(values, axis=0))))
    return seen.square(e), found
