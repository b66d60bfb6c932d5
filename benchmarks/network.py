"""The belief network: sweeps a second against NumPy, cost of a sweep, mixing, chains side by side, memory.

The twin is NumPy vectorised over the points: the same moves on the same sizes, in calls that take all points at once.
"""

import math
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import about, one_thread, report, seconds
from benchmarks.chain import machine
from chefs import ChefsProcess, Dag, sample
from chefs.network.kernel import HYPER, MOVES, NetworkKernel
from chefs.network.start import Start

SEED = 0
N_OBSERVED, N_HIDDEN, N_EDGES, N_POINTS = 8, 8, 30, 2000
N_CANDIDATES, N_TRAJECTORIES, N_LEAPFROGS, STEP_SIZE = 5, 2, 10, 0.1
POINTS, EDGES = (2_000, 20_000, 200_000), (15, 30, 60)
STILL = tuple(name for name in MOVES if name not in ("birth", "weighted birth", "order", HYPER))
MASS_SPREAD = 0.3


def sigmoid(a):
    """NumPy's own exponential, the quickest way there; no activation here is so large that it overflows."""
    return 1.0 / (1.0 + np.exp(-a))


def kernel_of(rng, n_points=N_POINTS, n_edges=N_EDGES, **options):
    """A kernel that starts at a network of this size and at the activations its data were made from.

    Every edge has a weight that the data show clearly, so the graph stays about as large as it is.
    """
    n = N_OBSERVED + N_HIDDEN
    order = np.concatenate([np.zeros(N_OBSERVED), np.arange(1, N_HIDDEN + 1) / (N_HIDDEN + 1)])
    edges = np.zeros((n, n), dtype=bool)
    edges[np.arange(N_OBSERVED, n), rng.permutation(N_OBSERVED)[:N_HIDDEN]] = True
    free = np.argwhere((order[:, None] > order[None, :]) & ~edges)
    edges[tuple(rng.permutation(free)[: n_edges - N_HIDDEN].T)] = True
    weights = np.where(edges.T, rng.uniform(1.5, 3.0, (n, n)) * rng.choice([-1, 1], (n, n)), 0.0)
    rho = np.concatenate([np.full(N_OBSERVED, 10.0), np.full(N_HIDDEN, 0.5)])
    a = rng.standard_normal((n, n_points)) / np.sqrt(rho)[:, None]
    for i in range(n - 1, -1, -1):  # nodes are numbered from the bottom
        for k in np.flatnonzero(edges[:, i]):
            a[i] += weights[i, k] * (sigmoid(a[k]) - 0.5)
    start = Start(Dag(edges, order, N_OBSERVED), a, rho)
    return NetworkKernel(ChefsProcess(), np.zeros(N_OBSERVED), a[:N_OBSERVED].T, start=start, **options)


def blocks():
    """One sweep of ours: what each block does to a network, with its number of leapfrog steps fixed."""
    from chefs._core.ancestral import resample_points
    from chefs._core.hamiltonian import hamiltonian_move
    from chefs._core.learn import edge_moves
    from chefs._core.network import draw_precisions, gram_of

    def trajectories(rng, network):
        for _ in range(N_TRAJECTORIES):
            hamiltonian_move(rng, network, STEP_SIZE, N_LEAPFROGS, 0.0)

    return {
        "edge": lambda rng, network: edge_moves(rng, network, 1),
        "precision": lambda rng, network: draw_precisions(rng, network, gram_of(network)),
        "resample": lambda rng, network: resample_points(rng, network, gram_of(network), N_CANDIDATES),
        "hamiltonian": trajectories,
    }


class Twin(NamedTuple):
    """The state of the twin, all arrays; no entry is missing."""

    parents: np.ndarray  # bool (n, n): [i, k], k is a parent of i
    above: list  # for each node, those that may be its parents
    n_below: np.ndarray
    ranking: np.ndarray
    n_observed: int
    alpha: float
    a: np.ndarray
    rho: np.ndarray


def twin_of(network):
    """The same network for the twin; nothing is shared."""
    graph, n = network.graph, int(network.graph.size[0])
    order = graph.order[:n]
    above = [np.flatnonzero(order > order[i]) for i in range(n)]
    counts = graph.n_below[:n].copy(), graph.ranking[:n].copy(), int(graph.size[1]), float(graph.hyper[0])
    return Twin(graph.parents[:n, :n].copy(), above, *counts, network.a[:n].copy(), network.rho[:n].copy())


def twin_gram(net):
    """Inner products of outputs below a row of ones, of them with the pre-activations, and squares of these."""
    u = np.concatenate([np.ones((1, net.a.shape[1])), sigmoid(net.a)])
    return u @ u.T, u @ net.a.T, np.einsum("it,it->i", net.a, net.a)


def twin_rows(net, i):
    return np.concatenate([[0], np.flatnonzero(net.parents[i]) + 1])


def twin_marginal(net, gram, i, rows):
    uu, ua, aa = gram
    rho, c = net.rho[i], ua[rows, i]
    m = rho * uu[np.ix_(rows, rows)]
    m.flat[:: rows.size + 1] += 1.0
    factor = np.linalg.cholesky(m)
    half = np.linalg.solve(factor, c)
    log_det = 2.0 * np.log(factor.diagonal()).sum()
    return 0.5 * net.a.shape[1] * math.log(rho) - 0.5 * rho * (aa[i] - rho * (half @ half)) - 0.5 * log_det


def twin_edges(rng, net):
    """As many flips as there are pairs, weights integrated out."""
    n, gram = len(net.a), twin_gram(net)
    n_flips, current = n * (n - 1) // 2, {}
    nodes, u = rng.integers(n, size=n_flips), rng.random(n_flips)
    thresholds = np.log1p(-rng.random(n_flips))
    n_children = net.parents.sum(axis=0)
    for i, v, threshold in zip(nodes.tolist(), u.tolist(), thresholds.tolist(), strict=True):
        if not net.above[i].size:
            continue
        k = net.above[i][int(v * net.above[i].size)]
        present = net.parents[i, k]
        others = n_children[k] - present
        if others == 0:
            continue
        odds = math.log(others / (net.alpha + net.n_below[k] - 1 - others))
        if i not in current:
            current[i] = twin_marginal(net, gram, i, twin_rows(net, i))
        net.parents[i, k] = not present
        new = twin_marginal(net, gram, i, twin_rows(net, i))
        if threshold < (-odds if present else odds) + new - current[i]:
            current[i] = new
            n_children[k] += 1 - 2 * int(present)
        else:
            net.parents[i, k] = present


def twin_weights(rng, net, gram, i, rows):
    uu, ua, _ = gram
    rho = net.rho[i]
    m = rho * uu[np.ix_(rows, rows)]
    m.flat[:: rows.size + 1] += 1.0
    factor = np.linalg.cholesky(m)
    half = np.linalg.solve(factor, rho * ua[rows, i])
    return np.linalg.solve(factor.T, half + rng.standard_normal(rows.size))


def twin_precisions(rng, net):
    gram = uu, ua, aa = twin_gram(net)
    for i in range(len(net.a)):
        rows = twin_rows(net, i)
        w = twin_weights(rng, net, gram, i, rows)
        square = aa[i] - 2.0 * (w @ ua[rows, i]) + w @ uu[np.ix_(rows, rows)] @ w
        net.rho[i] = rng.standard_gamma(0.5 + 0.5 * net.a.shape[1]) / (0.5 + 0.5 * max(square, 0.0))


def twin_resample(rng, net):
    """All points and all candidates at once: ancestries, their weights, and a choice for every point."""
    gram, (n, n_points) = twin_gram(net), net.a.shape
    a, u = np.empty((n, N_CANDIDATES + 1, n_points)), np.empty((n, N_CANDIDATES + 1, n_points))
    log_weight = np.zeros((N_CANDIDATES + 1, n_points))
    for i in net.ranking[::-1]:
        rows = twin_rows(net, i)
        w = twin_weights(rng, net, gram, i, rows)
        mean = w[0] + np.tensordot(w[1:], u[rows[1:] - 1], 1)
        if i < net.n_observed:
            log_weight -= 0.5 * net.rho[i] * (net.a[i] - mean) ** 2
            continue
        a[i, 0] = net.a[i]
        a[i, 1:] = mean[1:] + rng.standard_normal((N_CANDIDATES, n_points)) / math.sqrt(net.rho[i])
        u[i] = sigmoid(a[i])
    total = np.cumsum(np.exp(log_weight - log_weight.max(axis=0)), axis=0)
    chosen = (total < rng.random(n_points) * total[-1]).sum(axis=0)
    net.a[net.n_observed :] = a[net.n_observed :, chosen, np.arange(n_points)]
    return int(np.count_nonzero(chosen))


def twin_slope(net):
    """The log density, its gradient and the sizes of the masses: what `slope_of` returns."""
    n, n_points = net.a.shape
    u = np.concatenate([np.ones((1, n_points)), sigmoid(net.a)])
    uu, ua, aa = u @ u.T, u @ net.a.T, np.einsum("it,it->i", net.a, net.a)
    weights, spread = np.zeros((n, n + 1)), np.zeros((n + 1, n + 1))
    value, trace = 0.0, np.empty(n)
    for c in range(n):
        rho, rows = net.rho[c], twin_rows(net, c)
        cells = np.ix_(rows, rows)
        gram = uu[cells]
        s = np.linalg.inv(rho * gram + np.eye(rows.size))
        w = rho * (s @ ua[rows, c])
        weights[c, rows] = w
        spread[cells] += rho * s
        trace[c] = (s * gram).sum()
        value += 0.5 * (n_points + 1) * math.log(rho) - 0.5 * rho * (aa[c] - w @ ua[rows, c]) - 0.5 * rho
        value += 0.5 * np.linalg.slogdet(s)[1]
    r = net.a - weights @ u
    by_rho = 0.5 * n_points + 0.5 - 0.5 * net.rho * (1.0 + np.einsum("it,it->i", r, r) + trace)
    scaled = net.rho[:, None] * weights[:, 1:]
    by_u = scaled.T @ r - spread[1:] @ u
    by_a = by_u * u[1:] * (1.0 - u[1:]) - net.rho[:, None] * r
    by_a[: net.n_observed] = 0.0
    mass = net.rho + 0.04 * (scaled * weights[:, 1:]).sum(axis=0)
    mass[: net.n_observed] = 1.0
    return value, by_a, by_rho, np.log(mass)


def twin_trajectory(rng, net):
    n_observed, (n, n_points) = net.n_observed, net.a.shape
    start = slope = twin_slope(net)
    log_mass = start[3] + MASS_SPREAD * rng.standard_normal(n)
    old_a, old_rho = net.a.copy(), net.rho.copy()
    scale = np.exp(-log_mass)[:, None]
    p = np.zeros((n, n_points))
    p[n_observed:] = rng.standard_normal((n - n_observed, n_points)) * np.exp(0.5 * log_mass[n_observed:])[:, None]
    rho_mass = 0.5 * n_points + 0.5
    p_rho = rng.standard_normal(n) * math.sqrt(rho_mass)

    def energy(slope):
        kinetic = 0.5 * (p_rho @ p_rho) / rho_mass + 0.5 * (np.einsum("it,it->i", p, p) @ scale[:, 0])
        return slope[0] - kinetic

    begin = energy(start)
    for _ in range(N_LEAPFROGS):
        p += 0.5 * STEP_SIZE * slope[1]
        p_rho += 0.5 * STEP_SIZE * slope[2]
        net.a[...] += STEP_SIZE * scale * p
        net.rho[...] *= np.exp(STEP_SIZE * p_rho / rho_mass)
        slope = twin_slope(net)
        p += 0.5 * STEP_SIZE * slope[1]
        p_rho += 0.5 * STEP_SIZE * slope[2]
    accepted = math.log1p(-rng.random()) < energy(slope) - begin
    if not accepted:
        net.a[...], net.rho[...] = old_a, old_rho
    return accepted


def twin_trajectories(rng, net):
    for _ in range(N_TRAJECTORIES):
        twin_trajectory(rng, net)


TWIN = {"edge": twin_edges, "precision": twin_precisions, "resample": twin_resample, "hamiltonian": twin_trajectories}


def sweeps():
    """Each block from the same network, ours and the twin's in turn; nothing moves on from one repeat to the next."""
    rng, ours = np.random.default_rng(SEED), blocks()
    kernel = kernel_of(rng)
    best = {name: [math.inf, math.inf] for name in ours}
    for name, block in ours.items():
        block(rng, kernel.init(rng).network)  # compiled here
        for _ in range(15):
            network = kernel.init(rng).network
            net = twin_of(network)
            best[name][0] = min(best[name][0], seconds(lambda b=block, at=network: b(rng, at)))
            best[name][1] = min(best[name][1], seconds(lambda b=TWIN[name], at=net: b(rng, at)))
    best["the sweep"] = [sum(times[side] for times in best.values()) for side in (0, 1)]
    rows = [[name, 1e3 * mine, 1e3 * other, 1 / mine, other / mine] for name, (mine, other) in best.items()]
    sentence = (
        f"{N_POINTS} points, {N_OBSERVED} observed nodes at order 0, {N_HIDDEN} hidden units, {N_EDGES} edges; "
        f"{N_CANDIDATES} candidates, {N_TRAJECTORIES} trajectories of {N_LEAPFROGS} leapfrog steps. One core, one "
        "thread of BLAS; best of 15. The twin is NumPy, vectorised over points and candidates, with dense products in "
        "its gradient. The sweep is these four blocks, without births and orders; those are in the sweeps under Mixing."
    )
    return "Sweeps a second", sentence, ["", "ms", "ms, NumPy", "a second", "ratio to NumPy"], rows


def sweep_seconds(rng, kernel, repeats):
    """Seconds of a sweep from the start, best of several, block by block."""
    total = 0.0
    for block in blocks().values():
        block(rng, kernel.init(rng).network)
        networks = [kernel.init(rng).network for _ in range(repeats)]
        total += min(seconds(lambda b=block, at=network: b(rng, at)) for network in networks)
    return total


def cost():
    """Time of a sweep against the number of points and the number of edges."""
    rng, rows = np.random.default_rng(SEED), []
    sweep_seconds(rng, kernel_of(rng, 100), 1)
    points, edges = [], []
    for n_points in POINTS:
        points.append(sweep_seconds(rng, kernel_of(rng, n_points), 3 if n_points > 50_000 else 7))
        rows.append([f"{n_points:,} points, {N_EDGES} edges", 1e3 * points[-1], 1e9 * points[-1] / n_points])
    for n_edges in EDGES:
        edges.append(sweep_seconds(rng, kernel_of(rng, N_POINTS, n_edges), 15))
        rows.append([f"{N_POINTS:,} points, {n_edges} edges", 1e3 * edges[-1], 1e9 * edges[-1] / N_POINTS])
    by_points, by_edges = (float(np.polyfit(np.log(x), np.log(y), 1)[0]) for x, y in ((POINTS, points), (EDGES, edges)))
    sentence = (
        f"The same sweep. Time grows like points to the power {by_points:.2f}, and like edges, at {N_HIDDEN} hidden "
        f"units, to the power {by_edges:.2f}: 1 is linear."
    )
    return "Cost of a sweep", sentence, ["", "ms a sweep", "ns a point"], rows


def effective(moves, seed, warmup, draws):
    """Effective samples a second of what a trace follows, in one chain; nan for what never changed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.x announces its successor
        import arviz
    from chefs._core.network import log_likelihood

    kernel = kernel_of(np.random.default_rng(SEED), moves=moves)
    rng = np.random.default_rng(seed)
    state = kernel.init(rng)
    for _ in range(warmup):
        state, _ = kernel.step(rng, state)
    state, seen, taken = kernel.freeze(state), np.empty((3, draws)), 0.0
    for draw in range(draws):
        begin = time.perf_counter()
        state, _ = kernel.step(rng, state)
        taken += time.perf_counter() - begin
        size, graph = state.network.graph.size, state.network.graph
        seen[:, draw] = size[0] - size[1], graph.n_parents[: size[0]].sum(), log_likelihood(state.network)
    return [float(arviz.ess(x)) / taken if np.ptp(x) > 0 else math.nan for x in seen] + [draws / taken]


def mixing(chains=3, warmup=50, draws=300):
    """Effective samples a second from the network that the data were made from."""
    rows = []
    for name, moves in (("ours", MOVES), ("the paper's", "paper")):
        effective(moves, SEED, 2, 5)
        found = np.array([effective(moves, [SEED, chain], warmup, draws) for chain in range(chains)])
        rows.append([name, *found.mean(axis=0).tolist()])
    sentence = (
        f"Effective samples a second (ArviZ) of hidden units, edges and log-likelihood: the mean of {chains} chains of "
        f"{draws} sweeps with all moves, after {warmup}; nan where a chain never changed it. Few draws: orders of size."
    )
    return "Mixing", sentence, ["moves", "hidden units", "edges", "log-likelihood", "sweeps a second"], rows


def side_by_side(draws=150):
    """The same two chains one after the other, and on two cores."""
    kernel = kernel_of(np.random.default_rng(SEED), moves=STILL)

    def run(n_jobs, n=draws):
        sample(np.random.default_rng(SEED), kernel, draws=n, chains=2, n_jobs=n_jobs, progress=False)

    times = {1: math.inf, 2: math.inf}
    run(1, 2)
    run(2, 2)  # workers are started here
    for _ in range(4):
        for n_jobs in times:
            times[n_jobs] = min(times[n_jobs], seconds(lambda n=n_jobs: run(n)))
    plain = machine()
    rows = [[plain[0], 2 * plain[1], plain[2], plain[3]]]
    rows.append(["NetworkKernel, processes (its choice)", times[1], times[2], times[1] / times[2]])
    sentence = (
        f"Two chains of {draws} sweeps without births, best of 4. 2 would be perfect; the first row is the machine."
    )
    return "Two chains on two cores", sentence, ["", "s, one core", "s, two cores", "ratio"], rows


def peak(n_points):
    """Print the most memory, in bytes, that a process has held in which a chain made two full sweeps."""
    rng = np.random.default_rng(SEED)
    kernel = kernel_of(rng, n_points)
    state = kernel.init(rng)
    for _ in range(2):
        state, _ = kernel.step(rng, state)
    print(most_resident())


def most_resident():
    """Bytes. Linux lets a process begin with the peak of its parent in `getrusage`, but not in /proc."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def memory(sizes=(200_000, 400_000)):
    """Memory in copies of points × nodes: the difference between two sizes, so that the program itself drops out."""
    code = "import sys; from benchmarks.network import peak; peak(int(sys.argv[1]))"
    most = [int(subprocess.check_output([sys.executable, "-c", code, str(n)])) for n in sizes]
    copies = (most[1] - most[0]) / ((sizes[1] - sizes[0]) * (N_OBSERVED + N_HIDDEN) * 8)
    rows = [[f"{n:,} points", peak_bytes / 2**20, copies] for n, peak_bytes in zip(sizes, most, strict=True)]
    sentence = (
        f"The most that a process of its own held: data, start, state (with room for twice the nodes) and all work "
        f"arrays, two sweeps with all moves. It grows by {copies:.1f} × points × nodes × 8 bytes."
    )
    return "Memory", sentence, ["", "MiB in all", "copies of points × nodes"], rows


if __name__ == "__main__":
    one_thread("network")
    report("network", about("network", SEED), [sweeps(), cost(), mixing(), side_by_side(), memory()])
