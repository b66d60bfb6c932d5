"""Whether the chain finds the network that data were made from: hidden units, their children, over several draws.

    python -m chefs.experiments.recovery --out FOLDER --seconds 20 --jobs 1

One JSON file a fit, written when it is done; fits that are there already are not made again. `summary` reads them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from chefs import ChefsProcess, Dag, Trace, resume, sample
from chefs._files import write_whole
from chefs.network.kernel import ALL_BUT, MOVES, WITH_JOINT, NetworkKernel
from chefs.network.start import Start

TRUTH = "from the truth"  # starts at the true network: what the posterior has there, found or not
VARIANTS: dict[str, tuple[str, ...]] = {  # moves
    "ours": MOVES,
    "with joint": WITH_JOINT,
    TRUTH: MOVES,
    **{f"without {name}": moves for name, moves in ALL_BUT.items()},
}
SIZES = (1, 2, 3, 4)
HIDDEN_SD, NOISE_SD = 2.5, 0.35
UNBOUNDED = 10**9  # draws and steps of warm-up of a run that only its time ends
THIN = 2


def main(arguments: list[str] | None = None) -> None:
    """Run the fits that are not there yet, and print the summary of all that are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--variants", default=f"ours,{TRUTH}")
    parser.add_argument("--hidden", default=",".join(map(str, SIZES)), help="true numbers of hidden units")
    parser.add_argument("--draws", type=int, default=5, help="networks of each size")
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of processor time, each fit")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    wanted = [
        (variant, int(n_hidden), number)
        for number in range(given.draws)
        for n_hidden in given.hidden.split(",")
        for variant in given.variants.split(",")
    ]
    joblib.Parallel(n_jobs=given.jobs)(
        joblib.delayed(_kept)(given.out, *which, given.points, given.seconds) for which in wanted
    )
    print(summary(given.out))


def _kept(folder: Path, variant: str, n_hidden: int, number: int, n_points: int, seconds: float) -> None:
    """Make one fit and keep it, unless it is there."""
    path = folder / f"{variant.replace(' ', '-')}-{n_hidden}-{number}.json"
    if path.exists():
        there = json.loads(path.read_text())
        points, time_given = there["n_points"], there.get("asked_seconds", seconds)
        if (points, time_given) != (n_points, seconds):
            print(f"{path.name} was made with {points} points in {time_given:g} s and stays as it is", flush=True)
        return
    result = fit(variant, n_hidden, number, n_points, seconds)
    write_whole(path, json.dumps(result) + "\n")
    print(path.name, {key: result[key] for key in ("mode_sharing", "p_right", "p_sharing_right", "p_sets")}, flush=True)


def truth(rng: np.random.Generator, n_hidden: int) -> Dag:
    """A network: each hidden unit has two or three children of its own; half of the time two units share one more."""
    own = rng.integers(2, 4, size=n_hidden)
    shared = int(n_hidden > 1 and rng.random() < 0.5)
    d = int(own.sum()) + shared
    edges = np.zeros((d + n_hidden, d + n_hidden), dtype=np.bool_)
    for k, (begin, end) in enumerate(zip(np.cumsum(own) - own, np.cumsum(own), strict=True)):
        edges[d + k, begin:end] = True
    if shared:
        edges[d + rng.choice(n_hidden, 2, replace=False), d - 1] = True
    return Dag(edges, np.concatenate([np.zeros(d), np.arange(1, n_hidden + 1) / (n_hidden + 1)]), d)


def data_of(rng: np.random.Generator, dag: Dag, n_points: int) -> Start:
    """The network with standardised points: weights between 2 and 4 in size, with random signs."""
    n = dag.n_observed
    size = (dag.n_hidden, n)
    weights = dag.edges[n:, :n] * rng.uniform(2.0, 4.0, size) * rng.choice([-1.0, 1.0], size)
    hidden = HIDDEN_SD * rng.standard_normal((n_points, dag.n_hidden))
    points = 1.0 / (1.0 + np.exp(-hidden)) @ weights + NOISE_SD * rng.standard_normal((n_points, n))
    sd = points.std(axis=0)
    rho = np.concatenate([(sd / NOISE_SD) ** 2, np.full(dag.n_hidden, HIDDEN_SD**-2)])
    return Start(dag, np.concatenate([((points - points.mean(axis=0)) / sd).T, hidden.T]), rho)


def fit(variant: str, n_hidden: int, number: int, n_points: int, seconds: float) -> dict[str, Any]:
    """One chain on data from one network, from the empty graph but for `TRUTH`, and what it found of it."""
    rng = np.random.default_rng([n_hidden, number])  # the same data for all variants
    dag = truth(rng, n_hidden)
    made = data_of(rng, dag, n_points)
    kernel = NetworkKernel(
        ChefsProcess(1.0, 1.0, 1.0),
        np.zeros(dag.n_observed),
        np.ascontiguousarray(made.a[: dag.n_observed].T),
        moves=VARIANTS[variant],
        start=made if variant == TRUTH else None,
    )
    trace, used = run(np.random.default_rng([n_hidden, number, 1]), kernel, seconds)
    about = {"variant": variant, "n_hidden": n_hidden, "number": number, "n_points": n_points, "asked_seconds": seconds}
    moves = trace.stats[0]["moves"]
    return {**about, "seconds": used, "n_draws": len(trace), **compared(dag, trace), "moves": moves}


def run(rng: np.random.Generator, kernel: NetworkKernel, seconds: float) -> tuple[Trace, float]:
    """Draws of the second half of a chain's steps after so many seconds of processor time, and the seconds.

    `sample` stops by the clock on the wall; where others have the processor too, the run is continued.
    """
    few = NetworkKernel(kernel.prior, kernel.observed, kernel.data[:50])
    sample(rng, few, draws=3, chains=1, n_jobs=1, progress=False)  # so that compilation does not count
    begin, wall = time.process_time(), seconds / 60
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        trace = sample(
            rng,
            kernel,
            draws=UNBOUNDED,
            warmup=UNBOUNDED,
            thin=THIN,
            chains=1,
            n_jobs=1,
            checkpoint=path,
            progress=False,
            minutes=wall,
        )
        while (left := seconds - (time.process_time() - begin)) > 0.05 * seconds:
            wall += left / 60
            trace = resume(path, minutes=wall, n_jobs=1, progress=False)
    n_kept = (trace.stats[0]["warmup"] + len(trace) * THIN) // (2 * THIN)
    return trace[:, max(0, len(trace) - n_kept) :], time.process_time() - begin


def compared(dag: Dag, trace: Trace) -> dict[str, Any]:
    """The posterior of the number of hidden units, and how the consensus agrees with the true network.

    A unit with a single child adds noise to it and nothing else, so the data cannot tell whether it is there: units
    that share, those with two children at least, are counted on their own.
    """
    n_hidden = dag.n_hidden
    sharing = np.array([np.count_nonzero(g.edges[g.n_observed :].sum(axis=1) > 1) for g in trace])
    posterior, posterior_sharing = trace.n_hidden_pmf(), np.bincount(sharing) / len(sharing)
    sets = child_sets(dag)
    return {
        "true_sets": sets,
        "posterior": posterior.tolist(),
        "posterior_sharing": posterior_sharing.tolist(),
        "mode": int(posterior.argmax()),
        "mode_sharing": int(posterior_sharing.argmax()),
        "p_right": float(np.mean(trace.n_hidden == n_hidden)),
        "p_sharing_right": float(np.mean(sharing == n_hidden)),
        "p_edges_right": float(np.mean(trace.n_edges == dag.n_edges)),
        "p_sets": float(np.mean([child_sets(g) == sets for g in trace])),
        **agreement(dag, trace.consensus()),
    }


def child_sets(dag: Dag) -> list[list[int]]:
    """The children of every unit that has two at least, sorted; hidden ones are all written as −1.

    >>> child_sets(Dag([[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]], [0, 0, 0.5, 0.6], n_observed=2))
    [[0, 1]]
    """
    n = dag.n_observed
    children = [np.flatnonzero(row) for row in dag.edges[n:]]
    return sorted(sorted(np.where(c < n, c, -1).tolist()) for c in children if len(c) > 1)


def agreement(dag: Dag, found: Dag) -> dict[str, int]:
    """True edges that `found` has, and false ones, hidden units matched so that most are found, then fewest false.

    >>> dag = Dag([[0, 0, 0], [0, 0, 0], [1, 1, 0]], [0, 0, 0.5], n_observed=2)
    >>> agreement(dag, dag)
    {'true_edges': 2, 'edges_found': 2, 'false_edges': 0, 'false_sharing_edges': 0, 'sets_found': 1}
    """
    from scipy.optimize import linear_sum_assignment

    n = dag.n_observed
    ours, theirs = dag.edges[n:, :n].astype(np.int64), found.edges[n:, :n].astype(np.int64)
    shared = ours @ theirs.T
    rows, columns = linear_sum_assignment((n + 1) * len(ours) * shared - theirs.sum(axis=1), maximize=True)
    n_children = found.edges[n:].sum(axis=1)
    n_shared = np.zeros(found.n_hidden, dtype=np.int64)
    n_shared[columns] = shared[rows, columns]
    false = n_children - n_shared
    return {
        "true_edges": dag.n_edges,
        "edges_found": int(n_shared.sum()),
        "false_edges": int(false.sum()),
        "false_sharing_edges": int(false[n_children > 1].sum()),
        "sets_found": int(np.count_nonzero((false[columns] == 0) & (n_shared[columns] == ours[rows].sum(axis=1)))),
    }


def summary(folder: Path) -> str:
    """All fits of a folder as a Markdown table: a row for each true number of hidden units, and one for all."""
    fits = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
    headings = (
        "variant",
        "hidden units",
        "fits",
        "mode right",
        "mode right, units that share",
        "P(right)",
        "P(right), units that share",
        "P(right sets of children)",
        "P(right number of edges)",
        "true sets in the consensus",
        "true edges found",
        "false edges a fit",
        "of units that share",
    )
    lines = [list(headings), ["---"] * len(headings)]
    for variant in VARIANTS:
        of_variant = [f for f in fits if f["variant"] == variant]
        for n in sorted({f["n_hidden"] for f in of_variant}):
            lines.append([variant, str(n), *_cells([f for f in of_variant if f["n_hidden"] == n])])
        if of_variant:
            lines.append([variant, "all", *_cells(of_variant)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(fits: Sequence[dict[str, Any]]) -> list[str]:
    """The last eleven columns of a row of the summary."""

    def total(key: str) -> float:
        return sum(f[key] for f in fits)

    return [
        str(len(fits)),
        *(str(sum(f[key] == f["n_hidden"] for f in fits)) for key in ("mode", "mode_sharing")),
        *(f"{total(key) / len(fits):.2f}" for key in ("p_right", "p_sharing_right", "p_sets", "p_edges_right")),
        f"{total('sets_found')} of {total('n_hidden')}",
        f"{total('edges_found')} of {total('true_edges')}",
        *(f"{total(key) / len(fits):.1f}" for key in ("false_edges", "false_sharing_edges")),
    ]


if __name__ == "__main__":
    main()
