"""What the posterior itself could reach: chains on data whose law is a network, from that network and from our start.

    python -m chefs.experiments.teacher --out FOLDER --datasets ring,moons --seeds 5

A network fitted to a toy, the teacher, stands for its law: points from it are data for which the model is right, and a
chain that starts at the teacher has nothing to search. What its fantasies have above 1 is what the posterior takes from
the noise of its training points, and not a fault of the search. One JSON file a fit, as in `mixing`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, cast

import joblib
import numpy as np

from chefs import ChefsProcess, Dag, datasets, metrics
from chefs._files import write_whole
from chefs.dag import FloatArray
from chefs.draws import Draw
from chefs.experiments.mixing import N_FRESH, N_SETS, follow, walks
from chefs.experiments.mixing_report import grouped, spread
from chefs.network.estimator import have_compiled
from chefs.network.kernel import NetworkKernel
from chefs.network.start import GradientStart, Start

N_POINTS = 2000
UNITS = {"ring": 8, "moons": 8, "pinwheel": 40}  # of a teacher: what starts have, nearly always
N_STEPS = 500  # of the chain that gives the teacher, after its start
VARIANTS = ("from the teacher", "ours", "truth", "bootstrap")


def main(arguments: list[str] | None = None) -> None:
    """Run the fits that are not there yet, and print a table of all that are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--datasets", default="ring,moons,pinwheel")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=40.0, help="of processor time, each chain, its start included")
    parser.add_argument("--baselines", type=int, default=200, help="pairs of samples whose distance ratios are to")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    if unknown := [variant for variant in given.variants.split(",") if variant not in VARIANTS]:
        parser.error(f"there is no variant {unknown[0]!r}: choose from {', '.join(VARIANTS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.datasets.split(","):
        wanted = [(seed, variant) for seed in range(given.seeds) for variant in given.variants.split(",")]
        asked = {key: getattr(given, key) for key in ("chains", "seconds", "baselines")}
        asked |= {"n_sets": N_SETS, "n_fresh": N_FRESH}
        missing = [which for which in wanted if not is_there(path_of(given.out, name, *which), asked)]
        if not missing:
            continue
        teacher = taught(name)
        expected = float(np.mean([baseline(teacher, number) for number in range(given.baselines)]))
        for seed, variant in missing:
            result = fit(teacher, variant, seed, given.chains, given.seconds, given.jobs)
            result |= {"fresh_ratio": result["distance"] / expected, "expected_baseline": expected, "asked": asked}
            path = path_of(given.out, name, seed, variant)
            write_whole(path, json.dumps({"data": name, "variant": variant, "seed": seed} | result) + "\n")
            print(path.name, round(result["fresh_ratio"], 3), flush=True)
    print(summary([json.loads(path.read_text()) for path in sorted(given.out.glob("*.json"))]))


def path_of(folder: Path, name: str, seed: int, variant: str) -> Path:
    """Where a fit is kept."""
    return folder / f"{name}-{variant.replace(' ', '-')}-{seed}.json"


def is_there(path: Path, asked: dict[str, float]) -> bool:
    """Whether a fit has been made; says so if it was asked for in another way."""
    first = {"n_sets": 10, "n_fresh": 40}  # of the first results, which do not say so
    if path.exists() and (found := first | json.loads(path.read_text())["asked"]) != asked:
        print(f"{path.name} was made with {found} and stays as it is")
    return path.exists()


def taught(name: str) -> Draw:
    """The teacher of a toy: one draw of a chain on its first split."""
    data = datasets.load(name, 0).standardised()[0]
    have_compiled()
    rng = np.random.default_rng(61)
    kernel = NetworkKernel(ChefsProcess(), np.zeros(data.shape[1]), data, start=GradientStart(UNITS[name]))
    state = kernel.init(rng)
    for _ in range(N_STEPS):
        state, _ = kernel.step(rng, state)
    return kernel.draw(state)


def drawn(rng: np.random.Generator, teacher: Draw) -> FloatArray:
    """Pre-activations (nodes, points) of all nodes of the teacher: as many points as a toy has."""
    return walks(rng, teacher, np.ones(len(teacher.order), dtype=np.bool_), N_POINTS)


def split(teacher: Draw, *seed: int) -> tuple[datasets.Table, Start]:
    """Training and test points from the teacher, and where a chain on the first, standardised, would be if it knew all.

    The start has the teacher's graph, activations and precisions on the new scale; weights follow from these.
    """
    rng, n = np.random.default_rng([67, *seed]), int(np.count_nonzero(teacher.order == 0.0))
    a, test = drawn(rng, teacher), drawn(rng, teacher)
    table = datasets.Table("teacher", a[:n].T, test[:n].T, tuple(f"x{i}" for i in range(n)), (), "a network")
    edges = np.zeros((len(a), len(a)), dtype=np.bool_)
    edges[teacher.parent, teacher.child] = True
    rho = teacher.node["precision"].copy()
    rho[:n] *= table.sd**2
    return table, Start(Dag(edges, teacher.order, n), np.concatenate([table.standardised()[0].T, a[n:]]), rho)


def baseline(teacher: Draw, number: int) -> float:
    """Distance of training from test points, in one pair of samples that no fit has."""
    table, _ = split(teacher, 1, number)
    return from_sets(table, [table.test], [table.train])


def from_sets(table: datasets.Table, tests: list[FloatArray], sets: list[FloatArray]) -> float:
    """Mean distance of test sets from sets of points, each used in turn."""
    rng, found = np.random.default_rng(71), []
    for number, test in enumerate(tests):
        points = table.to_unit(sets[number % len(sets)])
        found.append(metrics.hellinger(points, table.to_unit(test), n_resplits=0, rng=rng).distance)
    return float(np.mean(found))


def fit(teacher: Draw, variant: str, seed: int, n_chains: int, seconds: float, n_jobs: int) -> dict[str, Any]:
    """Fantasies of pooled chains on points of the teacher: their distance from many test sets of it."""
    table, start = split(teacher, 0, seed)
    data, test = table.standardised()
    rng = np.random.default_rng([seed, 73])
    runs: list[dict[str, Any]] = []
    if variant == "truth":
        sets = [split(teacher, 2, seed, s)[0].train for s in range(N_SETS)]
    elif variant == "bootstrap":
        sets = [rng.choice(table.train, len(table.train)) for _ in range(N_SETS)]
    else:
        begin = start if variant == "from the teacher" else GradientStart()
        kernel = NetworkKernel(ChefsProcess(), np.zeros(data.shape[1]), data, start=begin)
        generators = rng.spawn(n_chains)
        work = joblib.Parallel(n_jobs=n_jobs)(joblib.delayed(follow)(kernel, g, seconds, test) for g in generators)
        runs = cast(list[dict[str, Any]], work)
        pooled = rng.permutation(np.concatenate([run.pop("points")[-1] for run in runs]))
        sets = [
            table.mean + table.sd * pooled[s : s + N_POINTS] for s in range(0, len(pooled) - N_POINTS + 1, N_POINTS)
        ]
    if not sets:
        raise ValueError(f"{seconds:g} s were not enough for the start of any chain: give more --seconds")
    tests = [split(teacher, 3, seed, s)[0].test for s in range(N_FRESH)]
    return {"distance": from_sets(table, tests, sets[:N_SETS]), "runs": runs}


def summary(results: list[dict[str, Any]]) -> str:
    """A table with a line for each data set and variant."""
    lines = ["| teacher of | variant | seeds | ratio, many test sets and baselines ± sd | each | units | edges |"]
    lines.append("|---|---|---|---|---|---|---|")
    for (name, variant), group in grouped(results).items():
        ratios = [result["fresh_ratio"] for result in group]
        ends = [run["curve"][-1][1:3] for result in group for run in result["runs"]]
        size = "{:.0f} | {:.0f}".format(*np.median(ends, axis=0)) if ends else "- | -"
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        lines.append(f"| {name} | {variant} | {len(group)} | {spread(ratios)} | {each} | {size} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
