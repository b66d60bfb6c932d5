"""Distances between samples: the Hellinger distance of the paper's Table 1, by kernel density estimates.

The paper names no estimator; this one comes closest to the figures that it prints for its baselines.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

FloatArray = NDArray[np.float64]

BLOCK = 64  # points at a time: their kernels with 2000 others stay in the processor's cache
MOST_RESPLITS = 1000  # tries for a random re-split whose halves both vary


class Hellinger(NamedTuple):
    """A Hellinger distance and what is needed to judge it.

    `standard_error` is the Monte Carlo error of `distance` for these two samples; how far it varies from sample to
    sample is seen only with several of them. `floor` is F, the mean HD² over random re-splits of the pooled sample
    (nan without re-splits): what two samples of one law are apart at this size.

    >>> result = Hellinger(distance=0.5, standard_error=0.01, floor=0.05)
    >>> round(result.corrected_square, 4), round(result.corrected, 4)
    (0.2105, 0.4588)
    """

    distance: float
    standard_error: float
    floor: float

    @property
    def corrected_square(self) -> float:
        """(HD² − F)/(1 − F): zero on average for samples of one law, so negative as often as not."""
        return (self.distance**2 - self.floor) / (1 - self.floor)

    @property
    def corrected(self) -> float:
        """The distance less what the size of the samples explains: the root of `corrected_square`, cut at zero."""
        return self.corrected_square**0.5 if not self.corrected_square < 0 else 0.0


class _NoSpreadError(ValueError):
    """A sample that has no kernel density estimate, because it lies in a subspace."""


def hellinger(
    x: ArrayLike,
    y: ArrayLike,
    *,
    covariance: str = "diagonal",
    n_points: int = 4000,
    n_resplits: int = 5,
    rng: np.random.Generator | None = None,
) -> Hellinger:
    """The Hellinger distance HD = √(1 − ∫ √(p q)) between the densities behind two samples.

    Both densities are Gaussian kernel estimates p̂, q̂ with Scott's bandwidth, n^(−1/(d+4)) standard deviations. The
    integral is the mean of √(p̂ q̂) / ((p̂ + q̂)/2) at points drawn half from each: it is bounded, so the distance is
    never imaginary. The distance depends on the sizes of the samples: compare like with like, or the corrected values.
    One bandwidth a column hides differences in dependence when columns are many: look at "full" too.

    Args:
        x: One sample, a row a point, a column a variable.
        y: The other, of as many columns. The order of the two does not matter.
        covariance: "diagonal" for one bandwidth a column, "full" for kernels shaped like the sample's covariance.
        n_points: How many points the densities are compared at.
        n_resplits: How many random re-splits of the pooled sample the floor is the mean of; 0 for no correction.
        rng: A generator; by default one with a fixed seed, so that the same samples give the same number.

    Raises:
        ValueError: Samples of different variables, with missing values, with too few points or without spread.

    >>> rng = np.random.default_rng(1)
    >>> a, b, c = rng.normal(size=(3, 1000, 2))
    >>> same, apart = hellinger(a, b), hellinger(a, c + 1)  # two unit Gaussians √2 apart: √(1 − exp(−1/4)) = 0.470
    >>> [round(value, 2) for value in (same.distance, same.corrected, apart.distance, apart.corrected)]
    [0.09, 0.0, 0.48, 0.47]
    """
    if covariance not in ("diagonal", "full"):
        raise ValueError(f"covariance must be 'diagonal' or 'full'; found {covariance!r}")
    _check_count("n_points", n_points, 4)
    _check_count("n_resplits", n_resplits, 0)
    if rng is None:
        rng = np.random.default_rng(0)
    elif not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a NumPy generator such as numpy.random.default_rng(0); found {rng!r}")
    a, b = _checked_pair(x, y, covariance)
    square, error = _square(rng, a, b, covariance, n_points)
    floors = [_square(rng, *_resplit(rng, a, b, covariance), covariance, n_points)[0] for _ in range(n_resplits)]
    distance = math.sqrt(square)
    return Hellinger(
        distance=distance,
        standard_error=error / (2 * distance) if distance > 0 else 0.0,
        floor=float(np.mean(floors)) if floors else math.nan,
    )


def _square(
    rng: np.random.Generator, a: FloatArray, b: FloatArray, covariance: str, n_points: int
) -> tuple[float, float]:
    """HD² and its Monte Carlo standard error, from as many points of one density estimate as of the other."""
    factors = _bandwidth(a, covariance), _bandwidth(b, covariance)
    variances, means, n = [], [], n_points // 2
    for points, factor in zip((a, b), factors, strict=True):
        noise = rng.standard_normal((n, points.shape[1]))
        at = points[rng.integers(len(points), size=n)] + noise @ factor.T
        log_ratio = _log_density(a, factors[0], at) - _log_density(b, factors[1], at)
        small = np.exp(-0.5 * np.abs(log_ratio))  # √(p q) / ((p+q)/2) = 2 s / (1 + s²), without overflow
        overlap = 2 * small / (1 + small**2)
        means.append(overlap.mean())
        variances.append(overlap.var(ddof=1) / n)
    return max(0.0, 1 - float(np.mean(means))), 0.5 * math.sqrt(sum(variances))


def _bandwidth(x: FloatArray, covariance: str) -> FloatArray:
    """Lower triangular factor of Scott's bandwidth matrix: n^(−2/(d+4)) times the covariance, or its diagonal."""
    n, d = x.shape
    sd = x.std(axis=0, ddof=1)
    flat = np.flatnonzero(np.ptp(x, axis=0) == 0)
    if flat.size:
        raise _NoSpreadError(
            f"does not vary in column {flat[0]}: drop that column, or give a sample in which it varies"
        )
    factor = np.eye(d)
    if covariance == "full":
        try:
            factor = np.linalg.cholesky(np.corrcoef(x, rowvar=False).reshape(d, d))
        except np.linalg.LinAlgError:
            factor[-1, -1] = 0.0
        if np.diag(factor).min() < 1e-6:
            raise _NoSpreadError(
                "has columns that determine one another: drop one of them, or take covariance='diagonal'"
            )
    return n ** (-1 / (d + 4)) * sd[:, None] * factor


def _log_density(points: FloatArray, factor: FloatArray, at: FloatArray) -> FloatArray:
    """Logarithm of the kernel density estimate, less d log √(2π), which cancels.

    −½ |u − v|² is one product, of (u, −½|u|², 1) with (v, 1, −½|v|²).
    """
    n = len(points)
    u, v = (solve_triangular(factor, z.T, lower=True) for z in (points, at))
    left = np.vstack([u, -0.5 * (u**2).sum(axis=0), np.ones(n)])
    right = np.vstack([v, np.ones(len(at)), -0.5 * (v**2).sum(axis=0)]).T
    result = np.empty(len(at))
    for start in range(0, len(at), BLOCK):
        block = slice(start, start + BLOCK)
        exponent = right[block] @ left
        top = exponent.max(axis=1)
        exponent -= top[:, None]
        result[block] = top + np.log(np.exp(exponent, out=exponent).sum(axis=1))
    return result - math.log(n) - np.log(np.diag(factor)).sum()


def _resplit(rng: np.random.Generator, a: FloatArray, b: FloatArray, covariance: str) -> tuple[FloatArray, FloatArray]:
    """Two samples of the same sizes from the pooled one; they vary in every column, as the two given ones do."""
    pool = np.concatenate([a, b])
    for _ in range(MOST_RESPLITS):
        mixed = rng.permutation(pool)
        halves = mixed[: len(a)], mixed[len(a) :]
        try:
            for half in halves:
                _bandwidth(half, covariance)
        except _NoSpreadError:  # a column that is one value but for a few rows
            continue
        return halves
    raise ValueError("x and y pooled have no re-split in which both halves vary: drop nearly constant columns")


def _checked_pair(x: ArrayLike, y: ArrayLike, covariance: str) -> tuple[FloatArray, FloatArray]:
    """Both samples, in an order that does not depend on which was given first, with columns between 0 and 1."""
    samples = {"x": _checked("x", x), "y": _checked("y", y)}
    a, b = samples.values()
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"x has {a.shape[1]} columns and y {b.shape[1]}: they must be samples of the same variables")
    low, high = (np.stack([extreme(a, axis=0), extreme(b, axis=0)]) / 2 for extreme in (np.min, np.max))
    low, high = low.min(axis=0), high.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    for name in samples:
        samples[name] = (samples[name] / 2 - low) / width
        try:
            _bandwidth(samples[name], covariance)
        except _NoSpreadError as problem:
            raise ValueError(f"{name} {problem}") from None
    first, second = sorted(samples.values(), key=lambda sample: sample.tolist())
    return first, second


def _checked(name: str, sample: ArrayLike) -> FloatArray:
    try:
        array = np.asarray(sample)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{name} must be a table of numbers, a row a point, with rows of one length") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be a table of numbers; its entries are of type {array.dtype}")
    array = array.astype(np.float64)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must have two dimensions, a row a point and a column a variable; it is {array.shape}")
    n, d = array.shape
    if n < d + 2:
        raise ValueError(f"{name} has {n} points, too few for {d} columns: give at least {d + 2}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has missing or infinite values: fill or drop them first")
    return array


def _check_count(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; found {value!r}")
