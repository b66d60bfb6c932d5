"""The laws again over many seeds: are their p-values uniform, as those of a correct program are?

    python -m tests.evidence --out docs/results/laws.md --seeds 25

The suite asks each law once, at a fixed seed. Here every seed gives fresh p-values of the sweep, the restaurant and the
chain against the exact distribution of the number of nodes, and of the hyperparameters against their own.
"""

import argparse
import math
import platform
import time
from pathlib import Path

import numpy as np
from scipy import stats

import chefs
from chefs import ChefsProcess, Moves
from chefs._core import propose
from tests.laws.graphs import OBSERVED, empty_graphs, evolve
from tests.laws.test_chain import chain, joint_law
from tests.stats import pmf_p_value

PRIOR = ChefsProcess(1.3, 1.2, 0.8)


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
        yield "hyperparameters", name, p


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
        "Kolmogorov-Smirnov test of uniformity, is not small.",
        "",
        "| law | p-values | mean | below 0.01 | smallest | uniform? p = |",
        "|---|---|---|---|---|---|",
    ]
    for law in laws:
        p = np.array([value for name, _, value in rows if name == law])
        uniform = stats.kstest(p, "uniform").pvalue
        lines.append(f"| {law} | {p.size} | {p.mean():.3f} | {(p < 0.01).mean():.3f} | {p.min():.2g} | {uniform:.2g} |")
    everything = np.array([value for _, _, value in rows])
    error = math.sqrt(1 / 12 / everything.size)
    lines += ["", f"All together: {everything.size} p-values, mean {everything.mean():.3f} (½ ± {error:.3f})."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=25)
    arguments = parser.parse_args()
    begin, rows = time.monotonic(), []
    for seed in range(arguments.seeds):
        rows += list(p_values(seed))
        print(f"seed {seed}: {len(rows)} p-values, smallest {min(p for _, _, p in rows):.2g}", flush=True)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(report(rows, seed + 1, time.monotonic() - begin))


if __name__ == "__main__":
    main()
