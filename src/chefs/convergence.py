"""Have the chains come together? Rank-normalised split R-hat and effective sample sizes of one number of every draw.

A. Vehtari et al., Rank-normalization, folding, and localization: an improved R-hat, Bayesian Analysis 16 (2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from chefs.dag import FloatArray

LEAST_DRAWS = 4  # of a chain, to say anything: two in each half


class Diagnosis(NamedTuple):
    """What is known of one number that every draw has."""

    r_hat: float  # 1 where chains agree; inf where they stand still in different places; nan where nothing varies
    bulk: float  # effective draws for means and medians
    tail: float  # the same for the 5 % and 95 % quantiles

    @property
    def n_effective(self) -> float:
        """The smaller of both sizes."""
        return min(self.bulk, self.tail)


def diagnose(chains: Sequence[FloatArray]) -> Diagnosis:
    """R-hat and effective sample sizes; of chains of different lengths the first draws, as many as the shortest has.

    >>> rng = np.random.default_rng(0)
    >>> good = diagnose(rng.normal(size=(4, 1000)))
    >>> good.r_hat < 1.01, 3000 < good.bulk < 5000
    (True, True)
    >>> diagnose(rng.normal(size=(2, 1000)) + [[0.0], [5.0]]).r_hat > 1.5
    True
    """
    n = min(len(chain) for chain in chains)
    x = np.array([chain[:n] for chain in chains], dtype=np.float64)
    if n < LEAST_DRAWS or np.ptp(x) == 0:
        return Diagnosis(math.nan, math.nan, math.nan)
    halves = _halved(x)
    folded = np.abs(halves - np.median(halves))
    r_hat = max(_r_hat(_normal_scores(halves)), _r_hat(_normal_scores(folded)))
    tails = [_effective(_halved((x <= np.quantile(x, q)).astype(np.float64))) for q in (0.05, 0.95)]
    return Diagnosis(r_hat, _effective(_normal_scores(halves)), min(tails))


def ranks(chains: Sequence[FloatArray]) -> list[FloatArray]:
    """Of every draw its rank among all draws of all chains, between 0 and 1; ties share the mean of their ranks."""
    together = (rankdata(np.concatenate(chains)) - 0.5) / sum(map(len, chains))
    return np.split(together, np.cumsum([len(chain) for chain in chains])[:-1])


def _halved(x: FloatArray) -> FloatArray:
    """Each chain as two, so that one that drifts disagrees with itself; the middle of an odd number is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normal_scores(x: FloatArray) -> FloatArray:
    """Quantiles of the normal distribution in the places of the ranks."""
    return ndtri((rankdata(x).reshape(x.shape) - 0.375) / (x.size + 0.25))


def _r_hat(x: FloatArray) -> float:
    """√((W (n−1)/n + B)/W), with W the mean variance within chains and B the variance of their means."""
    n = x.shape[1]
    within, between = x.var(axis=1, ddof=1).mean(), x.mean(axis=1).var(ddof=1)
    if within < 1e-12:
        return math.inf if between > 1e-12 else math.nan
    return math.sqrt((n - 1) / n + between / within)


def _effective(x: FloatArray) -> float:
    """N/τ, with τ from autocorrelations summed in pairs for as long as these are positive, none above an earlier one.

    τ has a floor, because draws that avoid one another must not count as any number of independent ones.
    """
    n_chains, n = x.shape
    if np.ptp(x) == 0:
        return float(x.size)
    covariance = np.mean([_autocovariance(chain) for chain in x], axis=0)
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + (x.mean(axis=1).var(ddof=1) if n_chains > 1 else 0.0)
    correlation = 1 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(-1, 2).sum(axis=1)
    usable = pairs[: max(1, (n - 2) // 2)]  # those at the very end are noise
    end = int(np.argmax(usable <= 0)) if (usable <= 0).any() else len(usable) - 1
    tau = -1 + 2 * np.minimum.accumulate(pairs[:end]).sum() + max(0.0, float(correlation[2 * end]))
    return float(x.size / max(tau, 1 / math.log10(x.size)))


def _autocovariance(x: FloatArray) -> FloatArray:
    """Σ_t (x_t − x̄)(x_{t+k} − x̄)/n for every lag k."""
    n = len(x)
    spectrum = np.fft.rfft(x - x.mean(), 2 * n)
    return np.fft.irfft(np.abs(spectrum) ** 2, 2 * n)[:n] / n
