"""The Hellinger distance between two samples, against the same estimate by libraries' kernel densities."""

import math

import numpy as np
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

from benchmarks import about, one_thread, report, seconds
from chefs import metrics

SEED = 0
N_POINTS = 4000  # that the densities are compared at, as `hellinger` does


def scipy_kernels(x):
    """Log density with kernels shaped like the sample's covariance, by SciPy."""
    return gaussian_kde(x.T).logpdf


def scikit_learn_kernels(x):
    """Log density with one bandwidth a column, by scikit-learn."""
    sd, width = x.std(axis=0, ddof=1), len(x) ** (-1 / (x.shape[1] + 4))
    kernels = KernelDensity(bandwidth=width).fit(x / sd)
    return lambda at: kernels.score_samples(at.T / sd) - np.log(sd).sum()


def twin(rng, x, y, kernels, covariance):
    """The distance as `hellinger` defines it, from a library's densities."""
    samples, overlaps = (x, y), []
    log_p, log_q = kernels(x), kernels(y)
    for sample in samples:
        n, d = sample.shape
        spread = np.cov(sample.T) if covariance == "full" else np.diag(sample.var(axis=0, ddof=1))
        noise = rng.standard_normal((N_POINTS // 2, d)) @ np.linalg.cholesky(spread).T * n ** (-1 / (d + 4))
        at = (sample[rng.integers(n, size=len(noise))] + noise).T
        small = np.exp(-0.5 * np.abs(log_p(at) - log_q(at)))
        overlaps.append((2 * small / (1 + small**2)).mean())
    return math.sqrt(1 - np.mean(overlaps))


def distance():
    """`hellinger` of 2000 points against 2000 others, without re-splits in both, so that the work is the same."""
    rng, rows = np.random.default_rng(SEED), []
    for d in (2, 12):
        mixing = np.eye(d) + 0.3
        x, y = rng.normal(size=(2000, d)) @ mixing, rng.standard_t(8, size=(2000, d)) @ mixing
        for covariance, kernels in (("diagonal", scikit_learn_kernels), ("full", scipy_kernels)):
            whole, ours, theirs, found = math.inf, math.inf, math.inf, []
            for _ in range(5):
                whole = min(whole, seconds(lambda x=x, y=y, c=covariance: metrics.hellinger(x, y, covariance=c)))
                ours = min(
                    ours,
                    seconds(
                        lambda x=x, y=y, c=covariance, into=found: into.append(
                            metrics.hellinger(x, y, covariance=c, n_resplits=0).distance
                        )
                    ),
                )
                theirs = min(
                    theirs,
                    seconds(lambda x=x, y=y, k=kernels, c=covariance, into=found: into.append(twin(rng, x, y, k, c))),
                )
            rows.append([d, covariance, whole, ours, theirs, theirs / ours, found[0], float(np.mean(found[1::2]))])
    sentence = (
        "2000 points against 2000, with five re-splits (the default) and without; beside scikit-learn's tree (diagonal)"
        " and SciPy's `gaussian_kde` (full), both exact and without re-splits; one thread each, best of 5. Distances"
        " (a library's is a mean over five) are the same but for the points drawn."
    )
    names = ["columns", "kernels", "s, default", "s", "s, library", "ratio", "distance", "distance, library"]
    return "Hellinger distance", sentence, names, rows


if __name__ == "__main__":
    one_thread("metrics")
    report("metrics", about("metrics", SEED), [distance()])
