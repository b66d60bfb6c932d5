"""How probable rows are that the chains have not seen, and what the usual density estimates make of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from chefs.dag import FloatArray
from chefs.metrics import hellinger
from chefs.network.predictive import checked_method, fantasies, log_density
from chefs.network.tables import Scale
from chefs.report.run import Run, some_of
from chefs.report.words import listed, percent

MOST_WALKED, MOST_ANNEALED = 500, 30  # rows: annealing takes a third of a second for each
MOST_FITTED = 2000  # rows for mixtures and kernels
MOST_VALIDATED = 1000  # of them, to choose the bandwidth with
LEAST_FITTED = 20
N_COMPONENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
BANDWIDTHS = np.geomspace(0.04, 1.0, 10)  # standard deviations
ATOM = 0.05  # share of the rows with one and the same value that makes a column suspect
N_SETS = 5  # of fantasies


@dataclass(frozen=True)
class HeldOut:
    """Log densities of test rows under the network (first) and its rivals, and what is to be said about them."""

    logs: dict[str, FloatArray]
    n_rows: int  # of the test table
    notes: list[str]


def scores(run: Run) -> HeldOut:
    """Log densities of the test rows, as many as there is time for, on the scale of the data."""
    assert run.test is not None
    rows = some_of(run.test, MOST_WALKED if checked_method("auto", run.trace) == "walks" else MOST_ANNEALED)
    logs = log_density(run.trace, run.scale.to_z(rows), "auto", 1, 0, None) + run.scale.log_jacobian(rows)
    found, notes = {"the belief networks": logs}, _atoms(run)
    complete = ~np.isnan(rows).any(axis=1)
    train = None if run.data is None else run.data[~np.isnan(run.data).any(axis=1)]
    if train is None or len(train) < LEAST_FITTED:
        lacks = run.lacking if train is None else f"fewer than {LEAST_FITTED} training rows have no gaps"
        return HeldOut(found, len(run.test), [*notes, f"No other method is shown: {lacks}."])
    if not complete.any():
        return HeldOut(found, len(run.test), [*notes, "No other method is shown: every test row has gaps."])
    if not complete.all():
        notes.append(f"Other methods cannot do with gaps: all are compared on {complete.sum()} rows without any.")
    found = {name: values[complete] for name, values in found.items()}
    z, at = (run.scale.to_z(table) for table in (some_of(train, MOST_FITTED), rows[complete]))
    jacobian = run.scale.log_jacobian(rows[complete])
    for name, density in _rivals(z):
        found[name] = density(at) + jacobian
    return HeldOut(found, len(run.test), notes)


def _rivals(z: FloatArray) -> list[tuple[str, Callable[[FloatArray], FloatArray]]]:
    """A Gaussian, the mixture of Gaussians with the best BIC, and a kernel density with a cross-validated bandwidth."""
    from sklearn.mixture import GaussianMixture
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KernelDensity

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mixture that has not settled has a worse BIC, and is not taken
        counts = [k for k in N_COMPONENTS if k == 1 or 5 * k <= len(z)]
        mixtures = [GaussianMixture(k, random_state=0, reg_covar=1e-5).fit(z) for k in counts]
        best = min(mixtures, key=lambda mixture: mixture.bic(z))
        shuffled = np.random.default_rng(0).permutation(z)[:MOST_VALIDATED]
        search = GridSearchCV(KernelDensity(), {"bandwidth": BANDWIDTHS}, refit=False).fit(shuffled)
    width = search.best_params_["bandwidth"]
    return [
        (f"mixture of {best.n_components} Gaussians", best.score_samples),
        (f"kernel density, bandwidth {width:.2g}", KernelDensity(bandwidth=width).fit(z).score_samples),
        ("one Gaussian", mixtures[0].score_samples),
    ]


def _atoms(run: Run) -> list[str]:
    """A warning about columns in which one value is frequent."""
    if run.data is None:
        return []
    found = []
    for name, column in zip(run.names, run.data.T, strict=True):
        seen = column[~np.isnan(column)]
        share = np.unique(seen, return_counts=True)[1].max() / seen.size if seen.size else 0.0
        if share >= ATOM:
            found.append(f"{name} ({percent(float(share))} of the rows have one value)")
    if not found:
        return []
    return [f"Take care where values repeat: there a density can be as high as one likes. Such are {listed(found, 6)}."]


def distances(run: Run) -> tuple[float, float, int] | str:
    """Hellinger distances from the test rows: of fantasies (mean of five sets), of training rows; and at what size.

    Where they cannot be had, the reason.
    """
    assert run.test is not None
    if run.data is None:
        return run.lacking
    n = min(len(run.test), len(run.data), MOST_FITTED)
    test, train = (_unit(run.scale, some_of(table, n)) for table in (run.test, run.data))
    rng = np.random.default_rng(0)
    try:
        sets = [expit(np.clip(fantasies(rng, run.trace, n), -8, 8)) for _ in range(N_SETS)]
        ours = [hellinger(points, test, n_resplits=0).distance for points in sets]
        return float(np.mean(ours)), hellinger(train, test, n_resplits=0).distance, n
    except ValueError as error:  # gaps, too few rows, a column that does not vary
        return str(error)


def _unit(scale: Scale, x: FloatArray) -> FloatArray:
    return expit(np.clip(scale.to_z(x), -8, 8))
