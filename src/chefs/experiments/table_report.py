"""The table of the paper's first experiment from the results of fits: Markdown, CSV, and a picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chefs import datasets
from chefs._files import write_whole
from chefs.experiments import rendered
from chefs.experiments.table import DATASETS, N_DOUBLED, N_SCORED, PRIORS
from chefs.experiments.table_statements import statements
from chefs.experiments.table_values import (
    BY_HEART,
    MODELS,
    PAPER,
    PAPER_BASELINE,
    Results,
    baseline,
    baselines,
    columns,
    corrected,
    distance,
    doubled,
    in_table,
    ratio,
    score,
    title_of,
    values,
)


def write_table(out: Path, results: Results) -> list[Path]:
    """Write table1.md, table1.csv and table1.png from the results, in the place of older ones."""
    from chefs.experiments.table_picture import picture

    if not results:
        raise ValueError("there are no results to make a table of: name data sets and models to fit")
    contents = {"md": markdown(results), "csv": as_csv(results), "png": rendered(picture(results), ".png")}
    for suffix, content in contents.items():
        write_whole(out / f"table1.{suffix}", content)
    return [out / f"table1.{suffix}" for suffix in contents]


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
    results: Results,
    parts: list[str],
    of: Callable[[dict[str, Any]], float | None],
    digits: int = 2,
    among: Iterable[str] = MODELS,
) -> str:
    """A row for each model, a column for each data set."""
    models = [model for model in in_table(results, parts) if model in among]
    rows = [[MODELS[m], *(cell(values(results, p, m, of).values(), digits) for p in parts)] for m in models]
    return grid(["", *map(title_of, parts)], rows)


def _printed(numbers: Sequence[float], part: str, digits: int = 2) -> str:
    """What the paper has for a data set, if anything."""
    return f"{numbers[datasets.list().index(part)]:.{digits}f}" if part in datasets.list() else ""


def ratio_grid(results: Results, parts: list[str]) -> str:
    """Ratios with the diagonal kernel beside the paper's."""
    head, rule, *ours = model_grid(results, parts, ratio("diagonal")).splitlines(keepends=True)
    if not any(part in datasets.list() for part in parts):
        return "".join([head, rule, *ours])
    rows = [[f"{MODELS[m]}, paper", *(_printed(PAPER[m], part) for part in parts)] for m in ("icp", "ecibp", "cibp")]
    return grid(["", *map(title_of, parts)], rows) + "".join(ours)


def distance_grid(results: Results, parts: list[str], kernel: str) -> str:
    """Distances and baselines as they are."""
    rows = [["baseline", *(cell(baselines(results, part, baseline(kernel)), 4) for part in parts)]]
    if kernel == "diagonal" and any(part in datasets.list() for part in parts):
        rows.append(["baseline, paper", *(_printed(PAPER_BASELINE, part, 4) for part in parts)])
    table = model_grid(results, parts, distance(kernel), 4)
    return table + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def corrected_grid(results: Results, parts: list[str], kernel: str) -> str:
    """Corrected distances, and those of the training half: a mean of what is cut at zero is above it for equal laws."""
    row = ["training half", *(cell(baselines(results, part, corrected(kernel, "baseline_")), 3) for part in parts)]
    return model_grid(results, parts, corrected(kernel), 3) + "| " + " | ".join(row) + " |\n"


def markdown(results: Results) -> str:
    """The whole page."""
    every = columns(results)
    plain = [part for part in every if part in datasets.list()]
    rest = [part for part in every if part not in plain]
    text = [
        INTRODUCTION.format(
            floor=results[0].get("floor", ""),
            sets=_span(float(result.get("sets", "nan")) for result in results),
            scored=N_SCORED,
            doubled=N_DOUBLED,
        )
    ]
    unique = ", and Wine without repeated rows" if any(part.startswith("wine-unique") for part in rest) else ""
    for title, parts in (("", plain), (f", without the columns named as traps{unique}", rest)):
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
            corrected_grid(results, parts, "diagonal"),
            "And with full covariance:\n",
            corrected_grid(results, parts, "full"),
            f"## Held-out log-likelihood{title}\n",
            "Mean over test points, in nats:\n",
            model_grid(results, parts, score("mean"), among=DENSITIES),
            "Median:\n",
            model_grid(results, parts, score("median"), among=DENSITIES),
            "What doubling the effort added to the mean (a network's density is estimated, from below; twice the\n"
            "effort takes other draws too, so the difference also has the noise of that choice):\n",
            model_grid(results, parts, doubled("mean"), 3, PRIORS),
            "And to the median:\n",
            model_grid(results, parts, doubled("median"), 3, PRIORS),
        ]
    text += [
        "## What this says\n",
        "".join(f"- {line}\n" for line in statements(results)),
        "## The fits\n",
        fits(results),
    ]
    text += [f"\nVersions: {versions(results)}.\n"]
    return "\n".join(text).replace("\n\n\n", "\n\n")


DENSITIES = [model for model in MODELS if model != BY_HEART]
INTRODUCTION = """# The paper's first experiment, again

Three priors of one belief network, and what people would use instead, on nine data sets. Made by
`chefs reproduce table` from JSON files, one a fit. Each figure is the mean ± standard deviation over splits of the data
(fresh draws for the toys).

![Ratios to the baseline of all models, beside the paper's](table1.png)

- Distance: the mean over {sets} sets of fantasy points (more where test points are few), as many as test points, of
  their Hellinger distance from the test half, by the estimator of `chefs.metrics`. Baseline: that of the training half.
  The paper names no estimator, so only ratios to its own baseline can be compared. Points of the mixture and of the
  kernels are drawn without the noise that follows; the flow's have it.
- Log-likelihood: of standardised test points with noise of standard deviation {floor} in every column, the same for all
  models, all of which are densities of points with that noise: it is added to a network's observed variances and to the
  mixture's covariances, it is the least bandwidth of the kernels, and the flow is trained on such points: on four
  fifths of them, the rest says when to stop. Of all test points up to four dimensions; beyond, of {scored}, and
  {doubled} of them once more at twice the effort.
- Networks: chains that take turns on one core, each, where its start is "gradient", from a network that it fits in 35 %
  of its time at most; half of the time is warm-up, and all chains count alike. Minutes are those of a clock.
- ECIBP is our understanding of a paper that we have not read (`docs/rivals.md`).
- The rivals may have fewer splits: what is said below is over the splits that all models compared have.
- Training points drawn again, with replacement, are no model: they are what a model has that knows the training half by
  heart, and nothing else.
- Without traps: of the networks the other columns were integrated out; the alternatives were fitted again.
"""


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
        "options",
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
                        "; ".join(sorted({_told(r["options"]) for r in group if r.get("options")})),
                    ]
                )
    return grid(head, rows)


def _place(data: str) -> int:
    return DATASETS.index(data) if data in DATASETS else len(DATASETS)


def _told(options: dict[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(options.items()))


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
    measures["log_likelihood_gain_by_doubling"] = doubled("mean")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    titles = [f"{name}{suffix}" for name in measures for suffix in ("", "_sd")]
    writer.writerow(["data", "model", "seeds", "paper_ratio", *titles])
    for part in columns(results):
        for model in in_table(results):
            found = {name: values(results, part, model, of) for name, of in measures.items()}
            splits = len(found["ratio_diagonal"])
            if splits:
                if model == BY_HEART:
                    found = {name: {} if "likelihood" in name else some for name, some in found.items()}
                numbers = [number for by_seed in found.values() for number in _two(list(by_seed.values()))]
                paper = _printed(PAPER[model], part) if model in PAPER else ""
                writer.writerow([part, model, splits, paper, *numbers])
    return buffer.getvalue()


def _two(numbers: list[float]) -> list[str]:
    if not numbers:
        return ["", ""]
    return [f"{np.mean(numbers):.6g}", f"{np.std(numbers, ddof=1):.6g}" if len(numbers) > 1 else ""]
