"""The table of the paper's first experiment from the results of fits: Markdown, CSV, a picture, and what it says."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chefs import datasets
from chefs.experiments import rendered
from chefs.experiments.table import DATASETS, N_DOUBLED, N_SCORED, write_whole

Results = list[dict[str, Any]]

PAPER = {  # distance as a ratio to the baseline, in the order of datasets.list(); computed from the paper's Table 1
    "icp": (1.29, 2.48, 1.25, 3.14, 1.38, 1.25, 1.28, 1.15, 1.07),
    "cibp": (1.58, 3.40, 1.59, 5.32, 1.38, 1.33, 1.39, 1.32, 1.20),
    "ecibp": (1.34, 3.26, 1.57, 5.00, 1.36, 1.26, 1.36, 1.16, 1.14),
}
PAPER_BASELINE = (0.0312, 0.0138, 0.0436, 0.0234, 0.1930, 0.3059, 0.1079, 0.1299, 0.3387)
MODELS = {
    "icp": "ICP",
    "ecibp": "ECIBP",
    "cibp": "CIBP",
    "mixture": "Gaussian mixture",
    "kernel": "kernel density",
    "flow": "spline flow",
}
TITLES = {"moons": "two moons"}


def write_table(out: Path, results: Results) -> list[Path]:
    """Write table1.md, table1.csv and table1.png from the results, in the place of older ones."""
    from chefs.experiments.table_picture import picture

    if not results:
        raise ValueError("there are no results to make a table of: name data sets and models to fit")
    contents = {"md": markdown(results), "csv": as_csv(results), "png": rendered(picture(results), ".png")}
    for suffix, content in contents.items():
        write_whole(out / f"table1.{suffix}", content)
    return [out / f"table1.{suffix}" for suffix in contents]


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
            found[result["seed"]] = math.nan if value is None else value
    return found


def ratio(kernel: str) -> Callable[[dict[str, Any]], float]:
    """Distance over baseline."""
    return lambda measures: measures[kernel]["ratio"]


def distance(kernel: str) -> Callable[[dict[str, Any]], float]:
    """Distance as it is."""
    return lambda measures: measures[kernel]["distance"][0]


def corrected(kernel: str) -> Callable[[dict[str, Any]], float]:
    """Corrected distance."""
    return lambda measures: measures[kernel]["corrected"][0]


def baseline(kernel: str) -> Callable[[dict[str, Any]], float]:
    """Distance of the training from the test half."""
    return lambda measures: measures[kernel]["baseline_distance"][0]


def score(name: str) -> Callable[[dict[str, Any]], float]:
    """A log-likelihood."""
    return lambda measures: measures["log_likelihood"][name]


def doubled(measures: dict[str, Any]) -> float | None:
    """How much the mean log-likelihood gains by twice the effort."""
    once, twice = measures["log_likelihood"]["doubled"]["mean"]
    return None if once is None or twice is None else twice - once


def in_table(results: Results, parts: Sequence[str] | None = None) -> list[str]:
    """Models that there are results of, for some data sets or at all, in the order of rows."""
    found = {r["model"] for r in results if parts is None or not r["measures"].keys().isdisjoint(parts)}
    return [model for model in MODELS if model in found]


def cell(numbers: Iterable[float], digits: int = 2) -> str:
    """Mean ± standard deviation over splits."""
    some = np.array([number for number in numbers if not math.isnan(number)])
    if not some.size:
        return ""
    spread = f" ± {some.std(ddof=1):.{digits}f}" if some.size > 1 else ""
    return f"{some.mean():.{digits}f}{spread}"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def model_grid(
    results: Results, parts: list[str], of: Callable[[dict[str, Any]], float | None], digits: int = 2
) -> str:
    """A row for each model, a column for each data set."""
    models = [model for model in in_table(results, parts) if of is not doubled or model in PAPER]
    rows = [[MODELS[m], *(cell(values(results, p, m, of).values(), digits) for p in parts)] for m in models]
    return grid(["", *map(title_of, parts)], rows)


def _printed(numbers: Sequence[float], part: str, digits: int = 2) -> str:
    """What the paper has for a data set, if anything."""
    return f"{numbers[datasets.list().index(part)]:.{digits}f}" if part in datasets.list() else ""


def title_of(part: str) -> str:
    """What a data set is called in the table."""
    return TITLES.get(part, part)


def ratio_grid(results: Results, parts: list[str]) -> str:
    """Ratios with the diagonal kernel beside the paper's."""
    head, rule, *ours = model_grid(results, parts, ratio("diagonal")).splitlines(keepends=True)
    if not any(part in datasets.list() for part in parts):
        return "".join([head, rule, *ours])
    rows = [[f"{MODELS[m]}, paper", *(_printed(PAPER[m], part) for part in parts)] for m in ("icp", "ecibp", "cibp")]
    return grid(["", *map(title_of, parts)], rows) + "".join(ours)


def distance_grid(results: Results, parts: list[str], kernel: str) -> str:
    """Distances and baselines as they are."""
    rows = [["baseline", *(cell(_baselines(results, part, kernel), 4) for part in parts)]]
    if kernel == "diagonal" and any(part in datasets.list() for part in parts):
        rows.append(["baseline, paper", *(_printed(PAPER_BASELINE, part, 4) for part in parts)])
    table = model_grid(results, parts, distance(kernel), 4)
    return table + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _baselines(results: Results, part: str, kernel: str) -> list[float]:
    """The baseline of every split, which is the same for all models."""
    found: dict[int, float] = {}
    for model in in_table(results):
        found |= values(results, part, model, baseline(kernel))
    return list(found.values())


def markdown(results: Results) -> str:
    """The whole page."""
    every = columns(results)
    plain = [part for part in every if part in datasets.list()]
    rest = [part for part in every if part not in plain]
    text = [
        INTRODUCTION.format(
            floor=results[0].get("floor", ""), sets=results[0].get("sets", ""), scored=N_SCORED, doubled=N_DOUBLED
        )
    ]
    for title, parts in (("", plain), (", without the columns named as traps, and Wine without repeated rows", rest)):
        if not parts:
            continue
        text += [
            f"## Hellinger distance as a ratio to the baseline{title}\n",
            ratio_grid(results, parts),
            "The same with kernels of full covariance:\n",
            model_grid(results, parts, ratio("full")),
            "Distances and baselines themselves, diagonal kernel:\n",
            distance_grid(results, parts, "diagonal"),
            "And with full covariance:\n",
            distance_grid(results, parts, "full"),
            "Distance corrected for the size of the samples, diagonal kernel:\n",
            model_grid(results, parts, corrected("diagonal"), 3),
            "And with full covariance:\n",
            model_grid(results, parts, corrected("full"), 3),
            f"## Held-out log-likelihood{title}\n",
            "Mean over test points, in nats:\n",
            model_grid(results, parts, score("mean")),
            "Median:\n",
            model_grid(results, parts, score("median")),
            "What doubling the effort added to the mean (a network's density is estimated, from below):\n",
            model_grid(results, parts, doubled, 3),
        ]
    text += [
        "## What this says\n",
        "".join(f"- {line}\n" for line in statements(results)),
        "## The fits\n",
        fits(results),
    ]
    text += [f"\nVersions: {versions(results)}.\n"]
    return "\n".join(text).replace("\n\n\n", "\n\n")


INTRODUCTION = """# The paper's first experiment, again

Three priors of one belief network, and what people would use instead, on nine data sets. Made by
`chefs reproduce table` from JSON files, one a fit. Each figure is the mean ± standard deviation over splits of the data
(fresh draws for the toys).

- Distance: the mean over {sets} sets of fantasy points, as many as test points, of their Hellinger distance from the
  test half, by the estimator of `chefs.metrics`. Baseline: that of the training half. The paper names no estimator, so
  only ratios to its own baseline can be compared.
- Log-likelihood: of standardised test points with noise of standard deviation {floor} in every column, the same for all
  models, all of which are densities of points with that noise: it is added to a network's observed variances and to the
  mixture's covariances, it is the least bandwidth of the kernels, and the flow is trained on such points. Of all test
  points up to four dimensions; beyond, of {scored}, and {doubled} of them once more at twice the effort.
- The rivals may have fewer splits: what is said below is over the splits that all models compared have.
- Without traps: of the networks the other columns were integrated out; the alternatives were fitted again.
"""


def statements(results: Results) -> list[str]:
    """Who wins where, computed from the results."""
    return [*_against_paper(results), *_in_order(results), *_winners(results)]


def _against_paper(results: Results) -> list[str]:
    """Whether the networks are closer to the data than the paper's, on each data set."""
    lines = []
    for model in ("icp", "ecibp", "cibp"):
        printed = dict(zip(datasets.list(), PAPER[model], strict=True))
        found = {part: values(results, part, model, ratio("diagonal")) for part in datasets.list()}
        ours = {part: float(np.mean(list(by_seed.values()))) for part, by_seed in found.items() if by_seed}
        if ours:
            below = [part for part, value in ours.items() if value < printed[part]]
            above = [
                f"{title_of(part)} ({ours[part]:.2f}, paper {printed[part]:.2f})" for part in ours if part not in below
            ]
            line = f"{MODELS[model]}: ratio below the paper's on {len(below)} of {len(ours)} data sets"
            lines.append(line + (f"; not on {', '.join(above)}." if above else "."))
    return lines


def _in_order(results: Results) -> list[str]:
    """Whether ICP ≤ ECIBP ≤ CIBP, over the splits that all three have."""
    holds, fails = [], []
    for part in columns(results):
        found = {model: values(results, part, model, ratio("diagonal")) for model in ("icp", "ecibp", "cibp")}
        means = list(over_common_splits(found).values())
        if len(means) == 3:
            text = f"{title_of(part)} ({', '.join(f'{mean:.2f}' for mean in means)})"
            (holds if means[0] <= means[1] <= means[2] else fails).append(text)
    if not holds and not fails:
        return []
    return [
        "The order ICP ≤ ECIBP ≤ CIBP of ratios, over splits that all three have, "
        f"holds on {', '.join(holds) or 'none'}; it does not on {', '.join(fails) or 'none'}."
    ]


def _winners(results: Results) -> list[str]:
    """For each data set the best model by every measure, and where the ICP stands."""
    measures = (
        ("ratio, diagonal", ratio("diagonal"), 1),
        ("ratio, full", ratio("full"), 1),
        ("mean log-likelihood", score("mean"), -1),
        ("median log-likelihood", score("median"), -1),
    )
    lines = []
    for part in columns(results):
        models, texts = in_table(results, [part]), []
        for title, of, sign in measures:
            known = over_common_splits({model: values(results, part, model, of) for model in models})
            ranked = sorted(known, key=lambda model: sign * known[model])
            if len(ranked) > 1:
                behind = "icp" in known and ranked[0] != "icp"
                place = f", ICP is number {ranked.index('icp') + 1} ({known['icp']:.2f})" if behind else ""
                texts.append(f"{title}: {MODELS[ranked[0]]} ({known[ranked[0]]:.2f}){place}")
        if texts:
            lines.append(f"{title_of(part)}: best of {len(models)} by {'; '.join(texts)}.")
    return lines


def over_common_splits(found: dict[str, dict[int, float]]) -> dict[str, float]:
    """The mean for each model over the splits that all of them have; nothing where there is none such."""
    seeds = set.intersection(*(set(by_seed) for by_seed in found.values()))
    means = {model: float(np.mean([by_seed[seed] for seed in seeds])) for model, by_seed in found.items() if seeds}
    return {model: mean for model, mean in means.items() if not math.isnan(mean)}


def fits(results: Results) -> str:
    """How the fits were made: seeds, minutes, and sizes and agreement of the networks."""
    head = [
        "data",
        "model",
        "seeds",
        "minutes",
        "processor minutes",
        "chains",
        "hidden units",
        "edges",
        "largest R-hat",
    ]
    rows = []
    for data in dict.fromkeys(r["data"] for r in sorted(results, key=lambda r: _place(r["data"]))):
        for model in in_table(results):
            group = [r for r in results if (r["data"], r["model"]) == (data, model)]
            if group:
                networks = [r["network"] for r in group if "network" in r]
                rows.append(
                    [
                        title_of(data),
                        MODELS[model],
                        ", ".join(str(seed) for seed in sorted(r["seed"] for r in group)),
                        _span(r["minutes"] for r in group),
                        _span(r["processor_seconds"] / 60 for r in group),
                        _span(r["chains"] for r in group if "chains" in r),
                        _span(n["hidden"][0] for n in networks),
                        _span(n["edges"][0] for n in networks),
                        _span(max(_known(n["rhat"].values()), default=math.nan) for n in networks if "rhat" in n),
                    ]
                )
    return grid(head, rows)


def _place(data: str) -> int:
    return DATASETS.index(data) if data in DATASETS else len(DATASETS)


def _known(numbers: Iterable[float | None]) -> list[float]:
    return [number for number in numbers if number is not None]


def _span(numbers: Iterable[float]) -> str:
    """From the smallest to the largest, or the one that there is."""
    some = sorted({f"{number:.3g}" for number in numbers if not math.isnan(number)}, key=float)
    return "" if not some else some[0] if len(some) == 1 else f"{some[0]} to {some[-1]}"


def versions(results: Results) -> str:
    """All versions that the fits were made with."""
    found: dict[str, set[str]] = {}
    for result in results:
        for name, number in result.get("versions", {}).items():
            found.setdefault(name, set()).add(number)
    return ", ".join(f"{name} {' and '.join(sorted(numbers))}" for name, numbers in sorted(found.items()))


def as_csv(results: Results) -> str:
    """A line for each data set and model: means and standard deviations over splits."""
    measures: dict[str, Callable[[dict[str, Any]], float | None]] = {}
    for kernel in ("diagonal", "full"):
        measures[f"ratio_{kernel}"] = ratio(kernel)
        measures[f"distance_{kernel}"] = distance(kernel)
        measures[f"corrected_{kernel}"] = corrected(kernel)
        measures[f"baseline_{kernel}"] = baseline(kernel)
    for name in ("mean", "median"):
        measures[f"log_likelihood_{name}"] = score(name)
    measures["log_likelihood_gain_by_doubling"] = doubled
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    titles = [f"{name}{suffix}" for name in measures for suffix in ("", "_sd")]
    writer.writerow(["data", "model", "seeds", "paper_ratio", *titles])
    for part in columns(results):
        for model in in_table(results):
            found = [values(results, part, model, of) for of in measures.values()]
            if found[0]:
                numbers = [number for by_seed in found for number in _two(list(by_seed.values()))]
                paper = _printed(PAPER[model], part) if model in PAPER else ""
                writer.writerow([part, model, len(found[0]), paper, *numbers])
    return buffer.getvalue()


def _two(numbers: list[float]) -> list[str]:
    return [f"{np.mean(numbers):.6g}", f"{np.std(numbers, ddof=1):.6g}" if len(numbers) > 1 else ""]
