"""The laws again, over many seeds or with many more draws.

    python -m tests.evidence --out docs/results/laws.md --seeds 25 --times 5

The suite asks each law once, at a fixed seed. Here every seed gives fresh p-values of the sweep, the restaurant and the
chain against the exact distribution of the number of nodes, and of the hyperparameters against their own: are they
uniform, as those of a correct program are? The laws of the belief network are asked once more, with several times the
draws of the suite and another seed.
"""

import argparse
import math
import platform
import sys
import time
from pathlib import Path

import joblib
import numpy as np
from scipy import stats

import chefs
from chefs import ChefsProcess, Moves
from chefs._core import propose
from chefs.network.kernel import MOVES
from tests.laws import test_network
from tests.laws.graphs import OBSERVED, empty_graphs, evolve
from tests.laws.joint import CASES, twice
from tests.laws.test_chain import chain, joint_law
from tests.laws.test_network import invariance
from tests.laws.test_network_joint import JOINTLY, calibration, geweke
from tests.stats import FAILURE_RATE, pmf_p_value, smallest

PRIOR = ChefsProcess(1.3, 1.2, 0.8)
BOUNDED = "hyperparameters"  # the law whose p-values are not uniform but larger


def p_values(seed):
    """One row a law and case: (law, case, p)."""
    rng = np.random.default_rng([seed, 2020])
    for case, observed in OBSERVED.items():
        pmf = PRIOR.n_active_pmf(observed)
        yield "sweep", case, pmf_p_value(PRIOR.sample(rng, observed, size=200_000).n_nodes, pmf)
        nodes = [PRIOR.restaurant(rng, observed).n_nodes for _ in range(5_000)]
        yield "restaurant", case, pmf_p_value(nodes, pmf)
        for name, moves in (("chain", Moves()), ("paper's chain", Moves.paper())):
            start = PRIOR.sample(rng, observed, size=10_000)
            moved = evolve(rng, start, PRIOR, observed, moves.as_array(), 100, propose.run)
            yield f"{name} from the prior", case, pmf_p_value(moved.n_nodes, pmf)
        start = empty_graphs(rng, observed, 2_000)
        moved = evolve(rng, start, PRIOR, observed, Moves().as_array(), 4_000, propose.run)
        yield "chain from empty graphs", case, pmf_p_value(moved.n_nodes, pmf)
    for name, p in joint_law(chain, seed=1_000 + seed).items():
        yield BOUNDED, name, p


def laws_of_the_network(times):
    """One row a law and case: (law, case, draws, what gives its p-values)."""
    for case in CASES:
        for move in test_network.MOVES:
            yield move.__name__.replace("_", " "), case, 2_000 * times, (invariance, move, case, 1_060)
        for name, preset in (("all moves", MOVES), ("all of the paper's", "paper")):
            yield name, case, 2_000 * times, (invariance, twice(ChefsProcess(), case, preset), case, 1_061)
    for case in JOINTLY:
        yield "Geweke's joint test", case, 1_000 * times, (geweke, case, 1_070)
        yield "calibration", case, 200 * times, (calibration, case, 1_073)


def asked(law, case, draws, how):
    """(law, case, draws, number of comparisons, the smallest p-value times that number)."""
    function, *arguments = how
    p_values = function(*arguments, size=draws)
    return law, case, draws, len(p_values), smallest(p_values)[0]


def report_of_the_network(rows, times, seconds):
    """The results for the belief network as Markdown."""
    lines = [
        "",
        f"## The belief network with {times} times the draws",
        "",
        f"`--times {times}`, {seconds / 60:.0f} minutes of two cores. Each move alone, and all together, from exact",
        "draws of the joint law of everything; Geweke's joint test; ranks of the truth among posterior draws. A row",
        "has several comparisons: of nodes, edges, hyperparameters, precisions, activations, orders, likelihoods, and",
        "where they are drawn of weights. The last column is the smallest of their p-values times their number; a law",
        f"has failed where that is below {FAILURE_RATE:g}.",
        "",
        "| law | case | draws | comparisons | smallest p × comparisons |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {law} | {case} | {draws} | {n} | {p:.2g} |" for law, case, draws, n, p in rows]
    return "\n".join(lines) + "\n"


def report(rows, seeds, seconds):
    """The results as Markdown."""
    laws = dict.fromkeys(law for law, _, _ in rows)
    lines = [
        "# The laws over many seeds",
        "",
        f"`python -m tests.evidence --seeds {seeds}`, seeds 0 to {seeds - 1}, {seconds / 60:.0f} minutes; "
        f"chefs {chefs.__version__}, NumPy {np.__version__}, Python {platform.python_version()}.",
        "",
        "Each row pools the p-values of one law over all seeds and cases (fixed, tied, free and mixed orders). If the",
        "law holds they are uniform: the mean is near ½, one in a hundred is below 0.01, and the last column, a",
        "Kolmogorov-Smirnov test of uniformity, is not small. Those of the hyperparameters are bounds, each the",
        "smallest of fifteen times their number: they are larger than uniform ones, and not pooled with the others.",
        "",
        "| law | p-values | mean | below 0.01 | smallest | uniform? p = |",
        "|---|---|---|---|---|---|",
    ]
    for law in laws:
        p = np.array([value for name, _, value in rows if name == law])
        uniform = "bounds" if law == BOUNDED else f"{stats.kstest(p, 'uniform').pvalue:.2g}"
        lines.append(f"| {law} | {p.size} | {p.mean():.3f} | {(p < 0.01).mean():.3f} | {p.min():.2g} | {uniform} |")
    everything = np.array([value for law, _, value in rows if law != BOUNDED])
    error = math.sqrt(1 / 12 / everything.size)
    lines += ["", f"The others together: {everything.size} p-values, mean {everything.mean():.3f} (½ ± {error:.3f})."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    begin, rows, text = time.monotonic(), [], ""
    for seed in range(arguments.seeds):
        rows += list(p_values(seed))
        print(f"seed {seed}: {len(rows)} p-values, smallest {min(p for _, _, p in rows):.2g}", flush=True)
        arguments.out.write_text(text := report(rows, seed + 1, time.monotonic() - begin))
    begin, found = time.monotonic(), []
    tasks = (joblib.delayed(asked)(*law) for law in laws_of_the_network(arguments.times))
    for row in joblib.Parallel(n_jobs=2, return_as="generator")(tasks):
        found.append(row)
        print(*row, flush=True)
        arguments.out.write_text(text + report_of_the_network(found, arguments.times, time.monotonic() - begin))
    failed = [f"{law}, {case}: p = {p:.2g}" for law, case, *_, p in found if p < FAILURE_RATE]
    failed += [f"{law}, {case}: p = {p:.2g}" for law, case, p in rows if p * len(rows) < FAILURE_RATE]
    sys.exit("\n".join(failed) or None)


if __name__ == "__main__":
    main()
