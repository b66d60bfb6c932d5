"""The prior: draws per second, cost of a draw against its size, the density, and how soon the program starts."""

import math
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
from tests import naive

from benchmarks import about, best_of, curve, report, seconds
from chefs import ChefsProcess

SEED = 0
FREE = [math.nan] * 4
# Masses that make about 10 to 5000 nodes above one observed node at order 0.
MASSES = {1.0: (4, 14, 50, 160, 640), 20.0: (3, 5, 10, 22, 62)}


def draws():
    """`sample(size=100_000)` against the naive sweep, which is timed in between."""
    prior, size, naive_size = ChefsProcess(1.3, 1.5, 1.0), 100_000, 1000
    rng, plain = np.random.default_rng(SEED), random.Random(SEED)
    prior.sample(rng, 4, size=size)
    ours, twin = math.inf, math.inf
    for _ in range(7):
        ours = min(ours, seconds(lambda: prior.sample(rng, 4, size=size)) / size)
        twin = min(
            twin, seconds(lambda: [naive.sweep(plain, FREE, 1.3, 1.5, 1.0) for _ in range(naive_size)]) / naive_size
        )
    rows = [["chefs", 1 / ours, twin / ours], ["naive twin", 1 / twin, 1.0]]
    sentence = "Four free observed nodes at (α, γ, φ) = (1.3, 1.5, 1), `sample(size=100_000)`; best of 7."
    return "Draws", sentence, ["", "draws a second", "ratio to the twin"], rows


def generator():
    """Time of a draw against its nodes and edges."""
    rng, rows, lines = np.random.default_rng(SEED), [], []
    for alpha, masses in MASSES.items():
        mine = []
        for gamma in masses:
            prior = ChefsProcess(alpha, gamma, 1.0)
            size = max(1, int(1e6 / prior.sample(rng, [0.0], size=3).n_edges.mean()))
            fastest, nodes, edges = math.inf, 0.0, 0.0
            for _ in range(5):
                kept = []
                taken = seconds(lambda p=prior, n=size, into=kept: into.append(p.sample(rng, [0.0], size=n)))
                graphs = kept[0]
                cost = taken / (graphs.order.size + graphs.parent.size)
                if cost < fastest:
                    fastest, nodes, edges = cost, float(graphs.n_nodes.mean()), float(graphs.n_edges.mean())
            mine.append([f"{alpha:g}, {gamma:g}", nodes, edges, fastest * (nodes + edges) * 1e6, fastest * 1e9])
        rows += mine
        lines.append((f"α = {alpha:g}", [row[1] + row[2] for row in mine], [row[3] for row in mine]))
    curve("generator.png", "nodes + edges of a draw", "microseconds a draw", lines)
    sentence = "One observed node at order 0, φ = 1. Linear means that the last column stands still; best of 5."
    return "Cost of a draw", sentence, ["α, γ", "nodes", "edges", "µs a draw", "ns per node or edge"], rows


def density():
    """`log_prob` of a large graph."""
    rng, rows = np.random.default_rng(SEED), []
    for alpha, gamma in ((1.0, 160), (20.0, 22)):
        prior = ChefsProcess(alpha, gamma, 1.0)
        dag = min(prior.sample(rng, [0.0], size=20), key=lambda d: abs(d.n_nodes - 1000))
        prior.log_prob(dag)
        taken = best_of(lambda p=prior, d=dag: p.log_prob(d), 20)
        rows.append([f"{alpha:g}, {gamma:g}", dag.n_nodes, dag.n_edges, taken * 1e3])
    return "Density of a large graph", "`log_prob(dag)`, best of 20.", ["α, γ", "nodes", "edges", "ms"], rows


def program(*arguments, repeats=5, **variables):
    """Seconds of a command in a process of its own."""
    environment = {**os.environ, **variables}

    def call():
        subprocess.run(arguments, env=environment, check=True, capture_output=True)

    return best_of(call, repeats)


def start():
    """How long the program takes to start, and the first use after an installation."""
    chefs = [sys.executable, "-c", "from chefs.cli import main; main()"]
    rows = [
        ["python alone", program(sys.executable, "-c", "pass")],
        ["`import chefs`", program(sys.executable, "-c", "import chefs")],
        ["`chefs --help`", program(*chefs, "--help")],
    ]
    with tempfile.TemporaryDirectory() as folder:
        rows.append(["`chefs prior`, first time", program(*chefs, "prior", repeats=1, NUMBA_CACHE_DIR=folder)])
        rows.append(["`chefs prior`, after that", program(*chefs, "prior", repeats=3, NUMBA_CACHE_DIR=folder)])
    sentence = "Whole processes; best of 5, but 1 for the first `chefs prior`, which compiles, and 3 for the next."
    return "Start", sentence, ["command", "seconds"], rows


if __name__ == "__main__":
    report("prior", about("prior", SEED), [draws(), generator(), density(), start()])
