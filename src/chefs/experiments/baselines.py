"""How much luck is in a baseline: distances of training from test halves over many splits, and ratios to their mean.

    python -m chefs.experiments.baselines --table docs/results/table --splits 400 --out docs/results/baselines.md

The table divides each distance by the baseline of its own split, which is itself one draw of a noisy number. And what
could be reached: by the training half with a little noise, and on Wine, whose rows repeat, by other wines.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path

import joblib
import numpy as np

from chefs import datasets, metrics
from chefs._files import write_whole
from chefs.dag import FloatArray
from chefs.experiments import table
from chefs.experiments.table_report import grid
from chefs.experiments.table_values import (
    MODELS,
    PAPER,
    PAPER_BASELINE,
    Results,
    baseline,
    baselines,
    distance,
    in_table,
    title_of,
    values,
)

FIRST = 2 * 10**6  # seeds from here on, which are those of no fit
N_SPLITS = 400
N_COMPARED = 40  # splits whose test halves are compared with other wines, or with training points that have noise
WIDTHS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45)  # of that noise, in standard deviations of the training half


@lru_cache
def over_splits(name: str, n_splits: int = N_SPLITS) -> FloatArray:
    """Distances of the training from the test half, one for each of many splits."""
    found = np.array([_of_split(name, FIRST + s) for s in range(n_splits)])
    found.flags.writeable = False  # it is kept
    return found


def _of_split(name: str, seed: int) -> float:
    """The baseline of one split."""
    data, rng = table.load(name, seed), np.random.default_rng([seed, 53])
    return metrics.hellinger(data.to_unit(data.train), data.to_unit(data.test), n_resplits=0, rng=rng).distance


def from_other_wines(seed: int) -> tuple[float, float]:
    """Distances of the test half of Wine from 2000 rows of wines that are not in it, and from 2000 such wines."""
    data, rows, rng = datasets.load("wine", seed), datasets.whole("wine")[1], np.random.default_rng([seed, 59])
    tested = {tuple(row) for row in data.test}
    others = np.array([row for row in rows if tuple(row) not in tested])
    as_they_come, once = (rng.permutation(some)[: len(data.test)] for some in (others, np.unique(others, axis=0)))
    unit = data.to_unit(data.test)
    first, second = (
        metrics.hellinger(data.to_unit(some), unit, n_resplits=0, rng=rng).distance for some in (as_they_come, once)
    )
    return first, second


def smoothed(rng: np.random.Generator, points: FloatArray, width: float, n: int) -> FloatArray:
    """Points drawn again with noise, μ + (x − μ + w ε)/√(1 + w²), ε ~ N(0, Σ): mean μ and covariance Σ stay the same.

    Reference: B. W. Silverman and G. A. Young, The bootstrap: to smooth or not to smooth?, Biometrika 1987.
    """
    mean, centred = points.mean(axis=0), points - points.mean(axis=0)
    noise = rng.standard_normal((n, len(points))) @ centred / len(points) ** 0.5  # with the covariance of the points
    return mean + (rng.choice(centred, n) + width * noise) / (1 + width**2) ** 0.5


def from_smoothed(name: str, seed: int) -> FloatArray:
    """Distances of the test half from training points with noise of every width."""
    data, rng = table.load(name, seed), np.random.default_rng([seed, 61])
    z, unit = data.standardised()[0], data.to_unit(data.test)
    sets = [data.to_unit(data.mean + data.sd * smoothed(rng, z, width, len(unit))) for width in WIDTHS]
    return np.array([metrics.hellinger(some, unit, n_resplits=0, rng=rng).distance for some in sets])


def main(arguments: list[str] | None = None) -> None:
    """Measure the baselines and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, required=True, help="folder with the results of chefs reproduce table")
    parser.add_argument("--out", type=Path, required=True, help="the page")
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    results = [result for _, result in table.results_in(given.table)]
    names = [name for name in table.DATASETS if any(result["data"] == name for result in results)]
    if not names:
        parser.error(f"{given.table} has no results: make some with chefs reproduce table --out {given.table}")
    parallel, splits = joblib.Parallel(n_jobs=given.jobs), range(FIRST, FIRST + given.splits)
    seeds = splits[:N_COMPARED]
    found = {name: np.array(parallel(joblib.delayed(_of_split)(name, seed) for seed in splits)) for name in names}
    noisy = {name: np.array(parallel(joblib.delayed(from_smoothed)(name, seed) for seed in seeds)) for name in names}
    wines = np.array(parallel(joblib.delayed(from_other_wines)(seed) for seed in seeds)) if "wine" in names else None
    write_whole(given.out, page(results, found, noisy, wines))


def page(
    results: Results, found: dict[str, FloatArray], noisy: dict[str, FloatArray], wines: FloatArray | None = None
) -> str:
    """Baselines over many splits beside those of the table, and the table's distances as ratios to their means.

    `noisy` (splits, widths) and `wines` (splits, 2) are distances as `from_smoothed` and `from_other_wines` give them.
    """
    expected = {name: float(each.mean()) for name, each in found.items()}
    rows = [
        ["mean of all", *("{:.4f} ± {:.4f}".format(*mean_and_error(each)) for each in found.values())],
        [
            "standard deviation of one, in per cent",
            *(f"{100 * one.std(ddof=1) / one.mean():.0f}" for one in found.values()),
        ],
        ["mean of the table's", *(f"{np.mean(baselines(results, n, baseline('diagonal'))):.4f}" for n in found)],
    ]
    head = ["", *map(title_of, found)]
    ours = {model: mean_ratios(results, model, expected) for model in in_table(results)}
    ratios = [["ICP, paper", *(f"{printed()[n]:.2f}" if n in printed() else "" for n in found)]]
    ratios += [[MODELS[m], *(f"{by[n]:.2f}" if n in by else "" for n in found)] for m, by in ours.items()]
    n_splits = len(next(iter(found.values())))
    text = PAGE.format(
        splits=n_splits, baselines=grid(head, rows), ratios=grid(head, ratios), against=against(ours.get("icp", {}))
    )
    text += of_smoothed({name: each / expected[name] for name, each in noisy.items()})
    return text if wines is None else text + of_wines(wines / expected["wine"])


def of_smoothed(ratios: dict[str, FloatArray]) -> str:
    """What training points with noise reach, as a section of the page."""
    found = {name: mean_and_error(each) for name, each in ratios.items()}
    rows = [
        [f"{width:g}", *(f"{mean[i]:.3f} ± {error[i]:.3f}" for mean, error in found.values())]
        for i, width in enumerate(WIDTHS)
    ]
    above = []
    for name, wanted in printed().items():
        mean, error = (each[found[name][0].argmin()] for each in found[name]) if name in found else (0.0, 0.0)
        if mean >= wanted:
            doubt = "" if mean - 2 * error > wanted else ", not clearly"
            above.append(f"{title_of(name)} ({mean:.3f} ± {error:.3f}, paper {wanted:.2f}{doubt})")
    return SMOOTHED.format(
        splits=len(next(iter(ratios.values()))),
        grid=grid(["width", *map(title_of, ratios)], rows),
        verdict=", ".join(above) or "none",
    )


def of_wines(ratios: FloatArray) -> str:
    """What other wines than those of the test half reach, as a section of the page."""
    means, errors = mean_and_error(ratios)
    wanted, clearly = printed()["wine"], (means - 2 * errors > printed()["wine"]).all()
    return WINES.format(
        splits=len(ratios),
        each=" and ".join(f"**{m:.3f}** (standard error {e:.3f})" for m, e in zip(means, errors, strict=True)),
        verdict=f"{'Both are' if clearly else 'Not both are clearly'} above the paper's {wanted:.2f}",
        paper=PAPER_BASELINE[datasets.list().index("wine")],
    )


def mean_and_error(each: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means over splits and their standard errors."""
    return each.mean(axis=0), each.std(axis=0, ddof=1) / len(each) ** 0.5


def mean_ratios(results: Results, model: str, expected: dict[str, float]) -> dict[str, float]:
    """Mean distance of a model over its splits, over the mean baseline of many."""
    each = {name: list(values(results, name, model, distance("diagonal")).values()) for name in expected}
    return {name: float(np.mean(some)) / expected[name] for name, some in each.items() if some}


def printed() -> dict[str, float]:
    """Ratios of the paper's ICP."""
    return dict(zip(datasets.list(), PAPER["icp"], strict=True))


def against(ours: dict[str, float]) -> str:
    """Where the ICP is below the paper's by these ratios."""
    known = {name: value for name, value in ours.items() if name in printed()}
    above = [f"{title_of(n)} ({r:.2f}, paper {printed()[n]:.2f})" for n, r in known.items() if r >= printed()[n]]
    line = f"By these, the ICP is below the paper's on {len(known) - len(above)} of {len(known)}"
    return line + (f"; not on {', '.join(above)}." if above else ".")


PAGE = """# How much luck is in a baseline

The table divides a distance by the baseline of its own split: the distance of that training half from that test half.
Both are noisy. Here are baselines over {splits} splits (fresh draws for the toys), none of them that of a fit, with the
diagonal kernel. Made by `chefs.experiments.baselines` from the table's results.

{baselines}
The table's distances, in the mean over its splits, as ratios to the mean of all baselines:

{ratios}
{against} The paper's ratios are to its own baselines. Neither way is free of luck: distances keep that of the
table's few splits, whose test halves may be far from their training halves or near; the ratio to the split's own
baseline may take part of that out, and brings in the noise of one more sample.
"""

SMOOTHED = """
## What the training half with a little noise reaches

A model that knew the training half by heart and smoothed it a little: its points drawn again, with normal noise of
their covariance, and shrunk so that this covariance stays. Ratios to the mean baseline above (± standard error) over
{splits} splits, by the width of the noise in standard deviations; 0 is the training points drawn again.

{grid}
Splits are others than the table's. The smallest ratio of a column, chosen by test halves as no model could, is above
the paper's on: {verdict}.
"""

WINES = """
## What other wines reach

Wine's table has 4898 rows and 3961 different ones, so that one test row in six stands in the training half too, and
that makes its baseline small. Here wines that are not in the test half, 2000 of their rows as they come and 2000 with
each wine once, stand for the fantasies of a model that knows what wines are like and has none of those of the test half
by heart. (More of them than of others stand only once in the table.) Their distances from the test half, as ratios to
the mean baseline above, over {splits} splits: {each}.
{verdict}, whose baseline is {paper}: its estimator or its rows were others, and where no row is repeated halves of
one law have about 1. The training points drawn again, above, have no less; probably only what has
both the law of the wines and many training rows by heart could. Without repeated rows, "wine-unique" above, a ratio
says more.
"""


if __name__ == "__main__":
    main()
