"""What the laws compare about graphs, and ways to make many of them."""

import itertools
import math

import numpy as np

from chefs import Dag, Dags
from chefs._core.state import NO_LIMIT, pack, unpack
from chefs.dags import starts

# Observed nodes at fixed, tied, free and mixed orders; nan is free.
FREE = math.nan
OBSERVED = {
    "fixed": [0.0, 0.35, 1.0],
    "tied": [0.0, 0.0, 0.6, 0.6],
    "free": [FREE, FREE, FREE],
    "mixed": [0.0, FREE, 0.5, FREE],
}


def statistics(dags: Dags) -> dict[str, np.ndarray]:
    """Numbers of each graph to compare: sizes, squared degrees, kinds of edges, depth-like counts, orders."""
    n_graphs, d = len(dags), dags.n_observed
    graph_of_node = np.repeat(np.arange(n_graphs), dags.n_nodes)
    graph_of_edge = np.repeat(np.arange(n_graphs), dags.n_edges)
    number = np.arange(dags.order.size) - dags.node_start[graph_of_node]
    out_degree = np.bincount(dags.node_start[graph_of_edge] + dags.parent, minlength=dags.order.size)
    in_degree = np.bincount(dags.node_start[graph_of_edge] + dags.child, minlength=dags.order.size)
    star = number < d

    def per_graph(weights):
        return np.bincount(graph_of_node, weights, minlength=n_graphs)

    hidden_pair = (dags.parent >= d) & (dags.child >= d)
    star_pair = (dags.parent < d) & (dags.child < d)
    orders = per_graph(np.where(star, 0.0, dags.order))
    return {
        "nodes": dags.n_nodes,
        "edges": dags.n_edges,
        "squared out-degrees of observed": per_graph(np.where(star, out_degree**2, 0)).astype(int),
        "squared out-degrees of hidden": per_graph(np.where(star, 0, out_degree**2)).astype(int),
        "squared in-degrees": per_graph(in_degree**2).astype(int),
        "orphans": per_graph(in_degree == 0).astype(int),
        "singletons": per_graph((out_degree == 1) & ~star).astype(int),
        "hidden to hidden": np.bincount(graph_of_edge[hidden_pair], minlength=n_graphs),
        "observed to observed": np.bincount(graph_of_edge[star_pair], minlength=n_graphs),
        "mean hidden order": orders / np.maximum(dags.n_hidden, 1),
        "mean observed order": per_graph(np.where(star, dags.order, 0.0)) / d,
        "largest order": np.maximum.reduceat(dags.order, dags.node_start[:-1]),
    }


def together(graphs: list[Dag]) -> Dags:
    """Graphs as a `Dags` sequence."""
    pairs = [np.argwhere(dag.edges) for dag in graphs]
    flat = np.concatenate(pairs)
    return Dags(
        graphs[0].n_observed,
        starts(np.array([dag.n_nodes for dag in graphs])),
        starts(np.array([len(p) for p in pairs])),
        np.concatenate([dag.order for dag in graphs]),
        flat[:, 0],
        flat[:, 1],
    )


def from_naive(graph) -> Dag:
    """A `Dag` from what the naive twins return."""
    edges, order, n_observed = graph
    matrix = np.zeros((len(order), len(order)), dtype=bool)
    for k, i in edges:
        matrix[k, i] = True
    return Dag(matrix, order, n_observed)


def state_of(dag: Dag, prior, observed, max_hidden=NO_LIMIT):
    """A compiled state; orders given in `observed` are fixed."""
    given = np.array(observed, float)
    free = np.isnan(given)
    parents, children = np.ascontiguousarray(np.argwhere(dag.edges).T)
    locked = np.zeros((given.size, given.size), dtype=bool)
    hyper = np.array([prior.alpha, prior.gamma, prior.phi])
    low, high = np.where(free, 0.0, given), np.where(free, 1.0, given)
    return pack(dag.order.copy(), parents, children, low, high, locked, hyper, max_hidden)


def empty_graphs(rng, observed, size) -> list[Dag]:
    """Graphs of observed nodes alone, free orders drawn."""
    given = np.array(observed, float)
    n = given.size
    return [Dag(np.zeros((n, n), bool), np.where(np.isnan(given), rng.random(n), given), n) for _ in range(size)]


def evolve(rng, dags, prior, observed, mix, n_moves, run) -> Dags:
    """Every graph after `n_moves` moves of the compiled (or mutated) function `run`."""
    none, tally = np.zeros((3, 2)), np.zeros((6, 2), dtype=np.int64)
    orders, parents, children = [], [], []
    for dag in dags:
        order, parent, child = unpack(run(rng, state_of(dag, prior, observed), mix, none, n_moves, tally))
        orders.append(order)
        parents.append(parent)
        children.append(child)
    return Dags(
        len(observed),
        starts(np.array([order.size for order in orders])),
        starts(np.array([parent.size for parent in parents])),
        np.concatenate(orders),
        np.concatenate(parents),
        np.concatenate(children),
    )


def subsets(items):
    """All subsets."""
    return itertools.chain.from_iterable(itertools.combinations(items, size) for size in range(len(items) + 1))


def graphs_over(orders, n_observed):
    """Every graph with these orders: all edges that respect them, every hidden node with a child."""
    n = len(orders)
    pairs = [(k, i) for k in range(n) for i in range(n) if orders[k] > orders[i]]
    for chosen in subsets(pairs):
        if all(any(k == h for k, _ in chosen) for h in range(n_observed, n)):
            edges = np.zeros((n, n), dtype=bool)
            for k, i in chosen:
                edges[k, i] = True
            yield Dag(edges, orders, n_observed)


def one_hidden_cells(observed, n_points=8):
    """Every structure with at most one hidden node over observed nodes at fixed orders, with a quadrature over its order.

    Yields (key, [(graph, weight), …]); the key is the edges and the interval that holds the hidden order.
    """
    for dag in graphs_over(observed, len(observed)):
        yield (dag.edges.tobytes(), -1), [(dag, 1.0)]
    nodes, weights = np.polynomial.legendre.leggauss(n_points)
    cuts = sorted({0.0, 1.0, *observed})
    for piece, (low, high) in enumerate(itertools.pairwise(cuts)):
        middle = (low + high) / 2
        for dag in graphs_over([*observed, middle], len(observed)):
            points = [
                (Dag(dag.edges, [*observed, middle + (high - low) / 2 * x], len(observed)), w * (high - low) / 2)
                for x, w in zip(nodes, weights, strict=True)
            ]
            yield (dag.edges.tobytes(), piece), points


def cell_of(dag, observed):
    """The key of `one_hidden_cells` that a graph with at most one hidden node falls into."""
    if dag.n_hidden == 0:
        return dag.edges.tobytes(), -1
    cuts = sorted({0.0, 1.0, *observed})
    return dag.edges.tobytes(), int(np.searchsorted(cuts, dag.order[-1])) - 1


def simplex_rule(n, n_points=8):
    """Points 0 < t_1 < … < t_n < 1 and weights that integrate smooth functions over the sorted simplex."""
    x, w = np.polynomial.legendre.leggauss(n_points)
    x, w = (x + 1) / 2, w / 2
    for index in itertools.product(range(n_points), repeat=n):
        top, weight, points = 1.0, 1.0, []
        for j in index:  # the largest first, each a fraction of the one above it
            weight *= w[j] * top
            top *= x[j]
            points.append(top)
        yield points[::-1], weight
