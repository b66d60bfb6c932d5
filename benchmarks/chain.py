"""The chain: moves per second, cost of a move against the size of the graph, mixing, and chains side by side."""

import math
import random
import statistics
import warnings

import joblib
import numpy as np
from tests import naive

from benchmarks import about, best_of, curve, report, seconds
from chefs import ChefsProcess, LikelihoodKernel, Moves, PriorKernel, sample

SEED = 0
CHAINS = 8
SIZES = (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
TWIN = Moves(edge=0.25, birth=0.5, order=0.25, depth=0.0, order_rule="uniform")  # the moves of the naive chain
PRIORS = {
    "(1, 2, 1), three at order 0": (ChefsProcess(1.0, 2.0, 1.0), [0.0, 0.0, 0.0]),
    "(1.3, 1.5, 1), four free": (ChefsProcess(1.3, 1.5, 1.0), 4),
}
MIXES = {
    "`Moves.paper()`": Moves.paper(),
    "`Moves()`": Moves(),
    "no depth": Moves(edge=0.4, birth=0.5, order=0.1, depth=0.0),
    "more births": Moves(edge=0.2, birth=0.6, order=0.1, depth=0.1),
    "more edges": Moves(edge=0.6, birth=0.2, order=0.1, depth=0.1),
}


def stepped(kernel, rng, state, steps):
    """The state after `steps` steps, and the mean number of nodes on the way."""
    nodes = 0
    for _ in range(steps):
        state, _ = kernel.step(rng, state)
        nodes += int(state.size[0])
    return state, nodes / steps


def moves():
    """Elementary moves per second where K⁺ is about 10, against the naive chain, which is timed in between."""
    prior, observed = ChefsProcess.with_expected_nodes(10, observed=3, alpha=1.0), [math.nan] * 3
    kernels = {
        "default moves, n_moves=1000": (PriorKernel(prior, 3, n_moves=1000), 300),
        "default moves, n_moves=100": (PriorKernel(prior, 3, n_moves=100), 3000),
        "the twin's moves, n_moves=1000": (PriorKernel(prior, 3, n_moves=1000, moves=TWIN), 300),
    }
    rng, plain = np.random.default_rng(SEED), random.Random(SEED)
    states = {name: stepped(kernel, rng, kernel.init(rng), 20)[0] for name, (kernel, _) in kernels.items()}
    best, nodes = dict.fromkeys([*kernels, "twin"], math.inf), {name: [] for name in [*kernels, "twin"]}
    graph = (*naive.sweep(plain, observed, prior.alpha, prior.gamma, prior.phi), [False] * 3)
    for _ in range(5):
        for name, (kernel, steps) in kernels.items():

            def run(name=name, kernel=kernel, steps=steps):
                states[name], mean = stepped(kernel, rng, states[name], steps)
                nodes[name].append(mean)

            best[name] = min(best[name], seconds(run) / (steps * kernel.n_moves))
        spent = 0.0
        for _ in range(8):  # in pieces, so that the size of its graph is seen on the way
            begun = len(graph[1])
            kept = []
            spent += seconds(
                lambda g=graph, k=kept: k.append(naive.chain(plain, g, prior.alpha, prior.gamma, prior.phi, 250))
            )
            graph = (*kept[0], [False] * 3)
            nodes["twin"].append((begun + len(graph[1])) / 2)
        best["twin"] = min(best["twin"], spent / 2000)
    rows = [[name, statistics.mean(nodes[name]), 1 / best[name], best["twin"] / best[name]] for name in best]
    sentence = f"Three free observed nodes, α = φ = 1, γ = {prior.gamma:.3f}: E[K⁺] = 10. One core; best of 5."
    return "Moves per second", sentence, ["", "mean K⁺", "moves a second", "ratio to the twin"], rows


def cost():
    """Time of a move against the size of the graph, from graphs of the prior at which such sizes are usual."""
    rng, rows = np.random.default_rng(SEED), []
    for size in SIZES:
        prior = ChefsProcess.with_expected_nodes(size, observed=[0.0], alpha=1.0)
        start = min(prior.sample(rng, [0.0], size=50), key=lambda dag: abs(dag.n_nodes - size))
        kernel = PriorKernel(prior, [0.0], n_moves=1000, start=start)
        at, nodes = [stepped(kernel, rng, kernel.init(rng), 3)[0]], []

        def run(kernel=kernel, at=at, nodes=nodes):
            at[0], mean = stepped(kernel, rng, at[0], 20)  # a step takes its state over: never use one twice
            nodes.append(mean)

        taken = best_of(run, 3) / 20_000
        rows.append([size, statistics.mean(nodes), start.n_edges, taken * 1e9])
    x, y = np.array([row[1] for row in rows]), np.array([row[3] for row in rows])
    slope = float(np.polyfit(np.log(x[x > 150]), np.log(y[x > 150]), 1)[0])
    curve("chain_cost.png", "nodes K⁺", "nanoseconds a move", [("default moves, α = 1", x, y)])
    sentence = (
        f"One observed node at order 0, α = 1, the mass chosen so that E[K⁺] is the size; starts are exact draws, and "
        f"they are dense. From 200 nodes on, time grows like K⁺ to the power {slope:.2f}; best of 3."
    )
    return "Cost of a move", sentence, ["size", "mean K⁺", "edges at the start", "ns a move"], rows


def effective(prior, observed, mix, seed, draws=7_500, n_moves=200):
    """Effective samples of K⁺ per second and per thousand moves, in one chain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.x announces its successor
        import arviz
    rng = np.random.default_rng(seed)
    kernel = PriorKernel(prior, observed, n_moves=n_moves, moves=mix)
    state, _ = stepped(kernel, rng, kernel.init(rng), 200)
    nodes = np.empty(draws)

    def run(state=state):
        for draw in range(draws):
            state, _ = kernel.step(rng, state)
            nodes[draw] = state.size[0]

    taken = seconds(run)
    n_effective = float(arviz.ess(nodes))
    return n_effective / taken, 1000 * n_effective / (draws * n_moves)


def mixing():
    """Which mix of moves mixes best. Chains are many, because one effective sample size says little."""
    rows = []
    for place, (prior, observed) in PRIORS.items():
        effective(prior, observed, Moves(), SEED, draws=100)
        found = {
            name: np.array([effective(prior, observed, mix, [SEED, chain]) for chain in range(CHAINS)])
            for name, mix in MIXES.items()
        }
        paper = found["`Moves.paper()`"][:, 0].mean()
        for name, rates in found.items():
            mean, error = rates.mean(axis=0), rates.std(axis=0, ddof=1) / math.sqrt(CHAINS)
            rows.append([place, name, *(float(x) for x in (mean[0], error[0], mean[1], error[1], mean[0] / paper))])
    headings = ["prior", "moves", "a second", "± s.e.", "per 1000 moves", "± s.e. ", "ratio to the paper's"]
    sentence = (
        f"Effective samples of K⁺ (ArviZ), the mean of {CHAINS} chains of 1.5 million moves; one core. A difference "
        "of less than two standard errors is none."
    )
    return "Mixing", sentence, headings, rows


def busy(_):
    """Work that has nothing to do with us."""
    return sum(range(10_000_000))


def python_likelihood(dag):
    """Something that takes a little Python."""
    return -0.5 * sum(abs(int(i) - 2) for i in dag.edges.sum(axis=0))


def machine():
    """The same with a plain loop: what the machine had to give at the time."""
    times = {}
    for n in (1, 2):
        with joblib.Parallel(n_jobs=n, backend="loky" if n > 1 else "sequential") as parallel:
            parallel(joblib.delayed(len)([]) for _ in range(n))
            times[n] = best_of(lambda p=parallel, n=n: p(joblib.delayed(busy)(i) for i in range(n)), 4)
    return ["a plain loop, processes: the machine itself", times[1], times[2], 2 * times[1] / times[2]]


def side_by_side():
    """Two chains on two cores against one on one."""
    prior = ChefsProcess.with_expected_nodes(10, observed=3, alpha=1.0)
    compiled = PriorKernel(prior, 3, n_moves=10_000)
    python = LikelihoodKernel(prior, 3, python_likelihood, n_moves=100, cache=1)
    cases = (
        ("PriorKernel, threads (its choice)", compiled, 150, {}),
        ("PriorKernel, processes", compiled, 150, {"backend": "loky"}),
        ("LikelihoodKernel, processes (its choice)", python, 200, {}),
    )
    rows = [machine()]
    for name, kernel, draws, backend in cases:

        def run(chains, n=draws, kernel=kernel):
            sample(np.random.default_rng(SEED), kernel, draws=n, chains=chains, n_jobs=chains, progress=False)

        times = {1: math.inf, 2: math.inf}
        with joblib.parallel_config(**backend):
            run(1, 2)
            run(2, 2)  # workers are started here
            for _ in range(4):
                for chains in times:
                    times[chains] = min(times[chains], seconds(lambda c=chains, r=run: r(c)))
        rows.append([name, times[1], times[2], 2 * times[1] / times[2]])
    sentence = "As many draws in each chain, best of 4. 2 would be perfect; the first row is what the machine allowed."
    return "Two chains on two cores", sentence, ["", "s, one chain", "s, two chains", "throughput ratio"], rows


if __name__ == "__main__":
    report("chain", about("chain", SEED), [moves(), cost(), mixing(), side_by_side()])
