"""Ensembles: label probabilities averaged over the networks of a run, and how good they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chefs.cnn.plan import Plan
from chefs.cnn.training import Trained
from chefs.images import scaled, scaled_pixels
from chefs.trace import Trace

if TYPE_CHECKING:
    from chefs.cnn.search import ArchitectureSearch

N_BINS = 15
AT_ONCE = 64  # networks that are trained again


class Score(NamedTuple):
    """Share of labels that are right, and the expected calibration error."""

    accuracy: float
    calibration_error: float


class Assessment(NamedTuple):
    """The ensemble, its members in the mean over draws, and the member with the highest test accuracy."""

    ensemble: Score
    mean: Score
    best: Score


def score(probabilities: np.ndarray, labels: np.ndarray) -> Score:
    """Accuracy, and Σ_b (share of bin b) |accuracy − mean confidence| over 15 equal bins of the highest probability.

    >>> score(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))
    Score(accuracy=0.5, calibration_error=0.4)
    """
    confidence = probabilities.max(axis=1).astype(np.float64)
    hits = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, hits - confidence, minlength=N_BINS)
    return Score(float(hits.mean()), float(np.abs(gaps).sum() / len(labels)))


def members(search: ArchitectureSearch, trace: Trace) -> Counter[tuple[Plan, float]]:
    """How many draws each network has, by its plan and evidence."""
    found: Counter[tuple[Plan, float]] = Counter()
    for chain in filter(len, trace.chains):
        dags = chain.dags
        for d, evidence in enumerate(chain.scalars["log_likelihood"]):
            nodes = slice(dags.node_start[d], dags.node_start[d + 1])
            edges = slice(dags.edge_start[d], dags.edge_start[d + 1])
            found[search.plan(dags.order[nodes], dags.parent[edges], dags.child[edges]), float(evidence)] += 1
    if not found:
        raise ValueError("the trace has no draws yet")
    return found


def predict_proba(search: ArchitectureSearch, trace: Trace, images: np.ndarray | None = None) -> NDArray[np.float64]:
    """Probabilities of the labels, averaged over draws; see `ArchitectureSearch.predict_proba`."""
    total, n_draws = None, 0
    for probabilities, count in _member_probabilities(search, trace, images):
        total = count * probabilities if total is None else total + count * probabilities
        n_draws += count
    assert total is not None
    return total / n_draws


def assess(search: ArchitectureSearch, trace: Trace) -> Assessment:
    """Scores on the test images; see `ArchitectureSearch.assess`."""
    labels, scores, counts = search.data.test_y, [], []
    total = np.zeros(())
    for probabilities, count in _member_probabilities(search, trace, None):
        scores.append(score(probabilities, labels))
        counts.append(count)
        total = total + count * probabilities
    mean = Score(*np.average(np.array(scores), axis=0, weights=counts).tolist())
    best = max(scores, key=lambda found: (found.accuracy, -found.calibration_error))
    return Assessment(score(total / sum(counts), labels), mean, best)


def _member_probabilities(
    search: ArchitectureSearch, trace: Trace, images: np.ndarray | None
) -> Iterator[tuple[NDArray[np.float64], int]]:
    fresh = None if images is None else _checked_new(search, images)
    found = members(search, trace)
    if fresh is not None:
        plans = list(found)
        for first in range(0, len(plans), AT_ONCE):
            portion = plans[first : first + AT_ONCE]
            again = _trained_again(search, [plan for plan, _ in portion], fresh)
            for member, trained in zip(portion, again, strict=True):
                yield trained.probabilities.astype(np.float64), found[member]
        return
    for (plan, evidence), count in found.items():
        kept = search.archive.find(plan, evidence)
        if kept is None:
            _check_optimum(search)
            kept = search.networks.get(plan).probabilities
        yield kept.astype(np.float64), count


def _trained_again(search: ArchitectureSearch, plans: list[Plan], images: np.ndarray) -> list[Trained]:
    """By a trainer like the search's, which comes to the same weights, with the new images to test on."""
    _check_optimum(search)
    if search.trainer is not None:
        raise ValueError("images other than the test images cannot be predicted where the trainer is your own")
    none = np.zeros(len(images), np.int64)
    trainer = search.make_trainer(scaled(search.data)._replace(test_x=images, test_y=none))
    return trainer.train(plans, [plan.seed(search.seed) for plan in plans])


def _check_optimum(search: ArchitectureSearch) -> None:
    if search.weights != "optimum":
        raise ValueError(
            f"weights={search.weights!r} leaves no way to make a network again: only test images of draws that "
            "the archive has kept can be predicted"
        )


def _checked_new(search: ArchitectureSearch, images: np.ndarray) -> np.ndarray:
    """New images as float32, where they are of the size of those that networks were trained on."""
    new = np.asarray(images)
    new = new[:, None] if new.ndim == 3 else new
    size = search.data.train_x.shape[1:]
    if new.ndim != 4 or new.shape[1:] != size or not len(new) or new.dtype.kind not in "iuf":
        wanted = ", ".join(map(str, size))
        raise ValueError(f"images must hold numbers, as (images, {wanted}); found shape {np.shape(images)}")
    if new.dtype.kind == "f" and not np.isfinite(new).all():
        raise ValueError("images has pixels that are not finite")
    return scaled_pixels(new)
