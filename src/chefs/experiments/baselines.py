"""How much luck is in a baseline: distances of training from test halves over many splits, and ratios to their mean.

    python -m chefs.experiments.baselines --table docs/results/table --splits 400 --out docs/results/baselines.md

The table divides each distance by the baseline of its own split, which is itself one draw of a noisy number.
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
N_WINES = 40  # splits of Wine whose test halves are compared with other wines


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
    work = joblib.Parallel(n_jobs=given.jobs)(joblib.delayed(over_splits)(name, given.splits) for name in names)
    found = dict(zip(names, map(np.asarray, work), strict=True))
    n_wines = min(N_WINES, given.splits) if "wine" in names else 0
    each = joblib.Parallel(n_jobs=given.jobs)(joblib.delayed(from_other_wines)(FIRST + s) for s in range(n_wines))
    wines = np.array(each) if n_wines else None
    write_whole(given.out, page(results, found, wines))


def page(results: Results, found: dict[str, FloatArray], wines: FloatArray | None = None) -> str:
    """Baselines over many splits beside those of the table, and the table's distances as ratios to their means.

    `wines` (splits, 2) are distances as `from_other_wines` gives them.
    """
    expected = {name: float(each.mean()) for name, each in found.items()}
    rows = [
        ["mean of all", *(f"{each.mean():.4f} ± {each.std(ddof=1) / len(each) ** 0.5:.4f}" for each in found.values())],
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
    return text if wines is None else text + of_wines(wines / expected["wine"])


def of_wines(ratios: FloatArray) -> str:
    """What other wines than those of the test half reach, as a section of the page."""
    means, errors = ratios.mean(axis=0), ratios.std(axis=0, ddof=1) / len(ratios) ** 0.5
    wanted, clearly = printed()["wine"], (means - 2 * errors > printed()["wine"]).all()
    return WINES.format(
        splits=len(ratios),
        each=" and ".join(f"**{m:.3f}** (standard error {e:.3f})" for m, e in zip(means, errors, strict=True)),
        verdict=f"{'Both are' if clearly else 'Not both are clearly'} above the paper's {wanted:.2f}",
        paper=PAPER_BASELINE[datasets.list().index("wine")],
    )


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

WINES = """
## What other wines reach

Wine's table has 4898 rows and 3961 different ones, so that one test row in six stands in the training half too, and
that makes its baseline small. Here wines that are not in the test half, 2000 of their rows as they come and 2000 with
each wine once, stand for the fantasies of a model that knows what wines are like and has none of those of the test half
by heart. (More of them than of others stand only once in the table.) Their distances from the test half, as ratios to
the mean baseline above, over {splits} splits: {each}.
{verdict}, whose baseline is {paper}: its estimator or its rows were others, and where no row is repeated halves of
one law have about 1. The training points drawn again, above, have more; only what has both the law of the wines and
many training rows by heart could have less. Without repeated rows, "wine-unique" above, a ratio says more.
"""


if __name__ == "__main__":
    main()
