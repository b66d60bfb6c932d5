"""What the results of the table's fits hold: the numbers of each model on each split, and those of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from chefs.experiments.table import DATASETS

Results = list[dict[str, Any]]

PAPER_DISTANCE = {  # Table 1 of the paper, in the order of datasets.list()
    "icp": (0.0402, 0.0342, 0.0547, 0.0734, 0.2666, 0.3817, 0.1379, 0.1495, 0.3629),
    "cibp": (0.0493, 0.0469, 0.0692, 0.1246, 0.2667, 0.4056, 0.1502, 0.1713, 0.4079),
    "ecibp": (0.0419, 0.0450, 0.0685, 0.1171, 0.2632, 0.3840, 0.1470, 0.1501, 0.3855),
}
PAPER_BASELINE = (0.0312, 0.0138, 0.0436, 0.0234, 0.1930, 0.3059, 0.1079, 0.1299, 0.3387)
PAPER = {  # ratios to the baseline
    model: tuple(one / base for one, base in zip(distances, PAPER_BASELINE, strict=True))
    for model, distances in PAPER_DISTANCE.items()
}
MODELS = {
    "icp": "ICP",
    "ecibp": "ECIBP",
    "cibp": "CIBP",
    "mixture": "Gaussian mixture",
    "kernel": "kernel density",
    "flow": "spline flow",
    "bootstrap": "training points drawn again",
}
BY_HEART = "bootstrap"  # no model: beside distances, not among densities and winners
TITLES = {"moons": "two moons"}


def columns(results: Results) -> list[str]:
    """What was measured: data sets in the order of the paper, then those with fewer columns or rows."""
    found = {part for result in results for part in result["measures"]}
    known = [*DATASETS[:-1], *(f"{name} without traps" for name in DATASETS), DATASETS[-1]]
    return sorted(found, key=lambda name: (known.index(name) if name in known else len(known), name))


def values(results: Results, part: str, model: str, of: Callable[[dict[str, Any]], float | None]) -> dict[int, float]:
    """One number of every split for a model, by seed."""
    found = {}
    for result in results:
        if result["model"] == model and part in result["measures"]:
            value = of(result["measures"][part])
            found[result["seed"]] = math.nan if value is None else float(value)  # "-inf" is one
    return found


def ratio(kernel: str) -> Callable[[dict[str, Any]], float]:
    """Distance over baseline."""
    return lambda measures: measures[kernel]["ratio"]


def distance(kernel: str) -> Callable[[dict[str, Any]], float]:
    """Distance as it is."""
    return lambda measures: measures[kernel]["distance"][0]


def corrected(kernel: str, of: str = "") -> Callable[[dict[str, Any]], float]:
    """Corrected distance, of the model or ("baseline_") of the training half."""
    return lambda measures: measures[kernel][f"{of}corrected"][0]


def baseline(kernel: str) -> Callable[[dict[str, Any]], float]:
    """Distance of the training from the test half."""
    return lambda measures: measures[kernel]["baseline_distance"][0]


def score(name: str) -> Callable[[dict[str, Any]], float]:
    """A log-likelihood."""
    return lambda measures: measures["log_likelihood"][name]


def doubled(name: str) -> Callable[[dict[str, Any]], float | None]:
    """How much the mean or median log-likelihood gains by twice the effort."""

    def gain(measures: dict[str, Any]) -> float | None:
        once, twice = (math.nan if one is None else float(one) for one in measures["log_likelihood"]["doubled"][name])
        return twice - once

    return gain


def in_table(results: Results, parts: Sequence[str] | None = None) -> list[str]:
    """Models that there are results of, for some data sets or at all, in the order of rows."""
    found = {r["model"] for r in results if parts is None or not r["measures"].keys().isdisjoint(parts)}
    return [model for model in MODELS if model in found]


def title_of(part: str) -> str:
    """What a data set is called in the table."""
    return TITLES.get(part, part)


def baselines(results: Results, part: str, of: Callable[[dict[str, Any]], float | None]) -> list[float]:
    """A number of every split that is the same for all models."""
    found: dict[int, float] = {}
    for model in in_table(results):
        found |= values(results, part, model, of)
    return list(found.values())
