"""How soon the belief network's chain describes data: Hellinger distance against seconds, move by move.

    python -m chefs.experiments.mixing --out FOLDER --datasets ring,moons,pinwheel --variants ours,paper --seeds 5

One JSON file a fit, written when it is done; fits that are there already are not made again. At the end `summary.md`
and `curves.png` are made from all files that are there.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any, cast

import joblib
import numpy as np
from scipy import spatial, special

from chefs import ChefsProcess, datasets, metrics
from chefs._files import write_whole
from chefs.dag import BoolArray, FloatArray
from chefs.draws import Draw
from chefs.experiments import baselines, pooling, rendered
from chefs.experiments.mixing_report import curves, summary
from chefs.network.estimator import have_compiled
from chefs.network.kernel import ALL_BUT, WITH_JOINT, NetworkKernel
from chefs.network.start import GradientStart

VARIANTS: dict[str, dict[str, Any]] = {
    "ours": {"start": GradientStart()},
    "from forty units": {"start": GradientStart(40)},
    "from forty units with joint": {"start": GradientStart(40), "moves": WITH_JOINT},
    "with joint": {"start": GradientStart(), "moves": WITH_JOINT},
    "paper": {"moves": "paper"},
    "empty": {},
    "paper from our start": {"moves": "paper", "start": GradientStart()},
    **{f"without {name}": {"start": GradientStart(), "moves": moves} for name, moves in ALL_BUT.items()},
    **{f"empty without {name}": {"moves": moves} for name, moves in ALL_BUT.items()},
}
MARKS = (0.25, 0.5, 0.75, 1.0)  # shares of the time at which the distance is measured
N_SETS = 40  # of fantasies, each as large as the test set, if the chains have as many points
N_FRESH = 120  # test sets of a toy's law, beside the one of the split
FRESH = 10**6  # seeds from here on are those of fresh test sets, and of no fit
STRAY = (5 * 10**6, 6 * 10**6)  # seeds of a law's points, and of fresh ones, for the share of stray fantasies
N_WALKS, N_SCORED = 2000, 500  # for the held-out log-likelihood of a draw


def main(arguments: list[str] | None = None) -> None:
    """Run the fits that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--datasets", default="ring,moons,pinwheel")
    parser.add_argument("--variants", default="ours")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--chains", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=40.0, help="of processor time, each chain, its start included")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    for seed in range(given.seeds):
        for name in given.datasets.split(","):
            for variant in given.variants.split(","):
                path = given.out / f"{name}-{variant.replace(' ', '-')}-{seed}.json"
                if path.exists():
                    found = how_made(json.loads(path.read_text()))
                    if found not in (how(given.chains, given.seconds), how(0, 0.0)):
                        print(f"{path.name} was made with {found} and stays as it is")
                else:
                    result = (
                        without_chains(name, variant, seed)
                        if variant in ("truth", "bootstrap")
                        else fit(name, variant, seed, given.chains, given.seconds, given.jobs)
                    )
                    write_whole(path, json.dumps(result) + "\n")
                    print(path.name, [round(r, 2) for r in result["ratio"]], flush=True)
    results = [json.loads(path.read_text()) for path in sorted(given.out.glob("*.json"))]
    (given.out / "summary.md").write_text(summary(results))
    (given.out / "curves.png").write_bytes(rendered(curves(results), ".png"))


def how(n_chains: int, seconds: float, n_sets: int = N_SETS, n_fresh: int = N_FRESH) -> str:
    """What a result depends on beside data, variant and seed, in words."""
    chains = f"{n_chains} chains of {seconds:g} s, " if n_chains else ""
    return f"{chains}{n_sets} sets of fantasies and {n_fresh} fresh test sets"


def how_made(result: dict[str, Any]) -> str:
    """`how` of a result; the first ones, which do not say so, had 10 sets of fantasies and 40 fresh test sets."""
    return how(result["chains"], result["seconds"][-1], result.get("n_sets", 10), result.get("n_fresh", 40))


def fit(name: str, variant: str, seed: int, n_chains: int, seconds: float, n_jobs: int) -> dict[str, Any]:
    """Pooled chains on one data set: distances at the marks, and how the chains went."""
    table = datasets.load(name, seed)
    data, test = table.standardised()[:2]
    kernel = NetworkKernel(ChefsProcess(), np.zeros(data.shape[1]), data, **VARIANTS[variant])
    have_compiled()
    generators = np.random.default_rng([seed, 41]).spawn(n_chains)
    work = joblib.Parallel(n_jobs=n_jobs)(joblib.delayed(follow)(kernel, g, seconds, test) for g in generators)
    runs = cast(list[dict[str, Any]], work)
    rng = np.random.default_rng([seed, 43])
    baseline = distances(rng, table, [table.train] * N_SETS)
    by_mark, fresh_by_mark = [], []
    for mark in range(len(MARKS)):
        pooled = rng.permutation(np.concatenate([run["points"][mark] for run in runs]))
        n = len(table.test)  # the distance depends on it: sets of any other size could not be compared
        sets = [table.mean + table.sd * pooled[s * n : (s + 1) * n] for s in range(min(N_SETS, len(pooled) // n))]
        by_mark.append(distances(rng, table, sets) if sets else math.nan)  # no chain had a network yet
        n_fresh = N_FRESH if mark == len(MARKS) - 1 else N_FRESH // 4  # for the curve, fewer will do
        fresh_by_mark.append(from_fresh(table, seed, sets, n_fresh) if sets else math.nan)
    ends = [table.mean + table.sd * run["points"][-1] for run in runs]
    return {
        "data": name,
        "variant": variant,
        "seed": seed,
        "chains": n_chains,
        "n_sets": N_SETS,
        "n_fresh": N_FRESH,
        "seconds": [seconds * mark for mark in MARKS],
        "distance": by_mark,
        "baseline": baseline,
        "ratio": [d / baseline for d in by_mark],
        **without_luck(table, fresh_by_mark),
        **({"arms": arms(np.concatenate(ends))} if name == "pinwheel" else {}),
        **(of_toy(table, ends) if name in datasets.TOYS else {}),
        "runs": [{key: value for key, value in run.items() if key != "points"} for run in runs],
    }


def without_chains(name: str, variant: str, seed: int) -> dict[str, Any]:
    """What the law of the data itself reaches, with fresh points for fantasies; or the training points, drawn again.

    What the first has above or below 1 is luck; the second is what a model has that knows the training points by heart.
    """
    table, rng = datasets.load(name, seed), np.random.default_rng([seed, 43])
    baseline = distances(rng, table, [table.train] * N_SETS)
    sets = (
        [datasets.load(name, 4 * FRESH + N_SETS * seed + s).train for s in range(N_SETS)]
        if variant == "truth"
        else [rng.choice(table.train, len(table.train)) for _ in range(N_SETS)]
    )
    distance = distances(rng, table, sets)
    return {
        "data": name,
        "variant": variant,
        "seed": seed,
        "chains": 0,
        "n_sets": N_SETS,
        "n_fresh": N_FRESH,
        "seconds": [0.0],
        "distance": [distance],
        "baseline": baseline,
        "ratio": [distance / baseline],
        **without_luck(table, [from_fresh(table, seed, sets, N_FRESH)]),
        **({"arms": arms(np.concatenate(sets))} if name == "pinwheel" else {}),
        "runs": [],
    }


def distances(rng: np.random.Generator, table: datasets.Table, sets: list[FloatArray]) -> float:
    """Mean Hellinger distance of sets of points, on the scale of the data, from the test set."""
    test = table.to_unit(table.test)
    return float(np.mean([metrics.hellinger(table.to_unit(s), test, n_resplits=0, rng=rng).distance for s in sets]))


def from_fresh(table: datasets.Table, seed: int, sets: list[FloatArray], n_fresh: int) -> float:
    """`distances` from fresh test sets of a toy's law: the luck of one test set averages out. nan for other data."""
    if table.name not in datasets.TOYS:
        return math.nan
    rng, found = np.random.default_rng([seed, 47]), []
    for s in range(n_fresh):
        test = table.to_unit(datasets.load(table.name, FRESH + N_FRESH * seed + s).test)
        found.append(metrics.hellinger(table.to_unit(sets[s % len(sets)]), test, n_resplits=0, rng=rng).distance)
    return float(np.mean(found))


def without_luck(table: datasets.Table, fresh: list[float]) -> dict[str, Any]:
    """For a toy: what `ratio` is of one test set and one baseline, of many."""
    if table.name not in datasets.TOYS:
        return {}
    expected = float(baselines.over_splits(table.name).mean())
    return {"expected_baseline": expected, "fresh_ratio": [distance / expected for distance in fresh]}


def arms(points: FloatArray) -> list[float]:
    """Of points of the Pinwheel: the masses of its five arms, and the share that lies between them."""
    x = (points - 0.5) / 0.2
    turn = (np.arctan2(x[:, 1], x[:, 0]) - 0.25 * np.exp(np.hypot(x[:, 0], x[:, 1]))) * 5 / (2 * np.pi)
    off = np.abs(turn - np.round(turn)) > 0.35
    return [*(np.bincount(np.round(turn).astype(int) % 5, minlength=5) / len(x)).tolist(), float(off.mean())]


def of_toy(table: datasets.Table, ends: list[FloatArray]) -> dict[str, Any]:
    """What is known where the law is: stray fantasies of each chain, and what pooling chains averages out.

    Of chains that have points: one whose start took all of its time has none.
    """
    ends = [points for points in ends if len(points)]
    if not ends:
        return {}
    error, pools = pooling.parts(table, ends)
    found = [pool._asdict() for pool in pools]
    return {
        "stray": [stray(table.name, points) for points in ends],
        "training_error": error,
        "pools": found,
        **(pooling.of_ring(table, np.concatenate(ends)) if table.name == "ring" else {}),
    }


def stray(name: str, points: FloatArray) -> float:
    """Share of points that are farther from 40 000 points of a toy's law than one fresh point in a thousand is."""
    law, fresh = (np.concatenate([datasets.load(name, first + s).train for s in range(20)]) for first in STRAY)
    tree = spatial.KDTree(law)
    return float((tree.query(points)[0] > np.quantile(tree.query(fresh)[0], 0.999)).mean())


def held_out(rng: np.random.Generator, draw: Draw, test: FloatArray) -> float:
    """Mean log density of standardised test points given one network, estimated by walks that all points share."""
    n_observed = test.shape[1]
    means = walks(rng, draw, np.arange(len(draw.order)) >= n_observed, N_WALKS)[:n_observed]
    rho = draw.node["precision"][:n_observed]
    logs = -0.5 * sum(rho[d] * (test[:N_SCORED, d, None] - means[d]) ** 2 for d in range(n_observed))
    return float(np.mean(special.logsumexp(logs, axis=1)) - np.log(N_WALKS) + 0.5 * np.log(rho / (2 * np.pi)).sum())


def follow(kernel: NetworkKernel, rng: np.random.Generator, seconds: float, test: FloatArray) -> dict[str, Any]:
    """One chain for some seconds of processor time, and fantasies from the second half of the time up to each mark."""
    short = None if kernel.start is None else GradientStart(2, 1)
    warm = NetworkKernel(kernel.prior, kernel.observed, kernel.data[:50], moves=kernel.moves, start=short)
    state = warm.init(rng)
    for _ in range(3):  # so that compilation does not count
        state, _ = warm.step(rng, state)
    fantasy(rng, kernel, state, 2)
    begin = time.process_time()
    state = kernel.init(rng)
    start = time.process_time() - begin
    made: list[tuple[float, FloatArray]] = [(start, fantasy(rng, kernel, state, 4000))]
    names = kernel.move_names
    tally, spent, curve, measured = np.zeros((len(names), 2), np.int64), np.zeros(len(names)), [], 0.0
    while (now := time.process_time() - begin - measured) < seconds or len(made) < 2:
        if state.adapting and now > (start + seconds) / 2:
            state = kernel.freeze(state)
        state, info = kernel.step(rng, state)
        assert info.seconds is not None
        tally += info.tally
        spent += info.seconds
        if time.process_time() - begin - measured > made[-1][0] + seconds / 100:
            pause = time.process_time()
            made.append((now, fantasy(rng, kernel, state, 400)))
            draw = kernel.draw(state)
            size = (len(draw.order) - kernel.n_observed, len(draw.parent))
            curve.append((now, *size, held_out(rng, draw, test)))
            measured += time.process_time() - pause
    return {
        "start_seconds": start,
        "points": [pooled_up_to(made, seconds * mark) for mark in MARKS],
        "moves": dict(zip(names, tally.tolist(), strict=True)),
        "move_seconds": dict(zip(names, spent.tolist(), strict=True)),
        "curve": curve,  # seconds, hidden units, edges, held-out log-likelihood
    }


def pooled_up_to(made: list[tuple[float, FloatArray]], end: float) -> FloatArray:
    """Fantasies of the second half of the time from the start to `end`; of the start where there are no others."""
    begin = made[0][0]
    kept = [points for when, points in made[1:] if (begin + end) / 2 <= when <= end]
    if not kept and begin <= end:
        kept = [made[0][1]]
    return np.concatenate([np.empty((0, made[0][1].shape[1])), *kept])


def fantasy(rng: np.random.Generator, kernel: NetworkKernel, state: Any, n: int) -> FloatArray:
    """Points from the network of one state, on the scale of its data."""
    draw = kernel.draw(state)
    return walks(rng, draw, np.ones(len(draw.order), dtype=bool), n)[: kernel.n_observed].T


def walks(rng: np.random.Generator, draw: Draw, noisy: BoolArray, n: int) -> FloatArray:
    """Pre-activations (nodes, n) of walks down a network; nodes that are not noisy get their means."""
    sd = np.where(noisy, 1.0 / np.sqrt(draw.node["precision"]), 0.0)
    a = rng.standard_normal((len(draw.order), n)) * sd[:, None]
    for i in np.argsort(-draw.order, kind="stable"):
        into = draw.child == i
        a[i] += draw.node["bias"][i] + draw.edge["weight"][into] @ special.expit(a[draw.parent[into]])
    return a


if __name__ == "__main__":
    main()
