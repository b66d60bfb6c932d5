"""The median-probability graph of many draws whose hidden nodes have no names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chefs.dag import Dag, FloatArray

N_STEPS = 4  # how far apart a hidden node and an observed one may be to tell the former from others at first
N_ROUNDS = 5


def consensus(dags: Sequence[Dag], reference: Dag, threshold: float) -> Dag:
    """Edges in more than `threshold` of the draws, hidden nodes matched to those of `reference`."""
    share, order = matched_means(dags, reference)
    edges = _without_cycles(np.where(share > threshold, share, 0.0))
    kept = _active(edges, reference.n_observed)
    edges, order = edges[np.ix_(kept, kept)], order[kept]
    return Dag(edges, _respecting(edges, order), reference.n_observed)


def matched_means(dags: Sequence[Dag], reference: Dag) -> tuple[FloatArray, FloatArray]:
    """Share of the draws with each edge, and the mean order of each node, in the numbering of `reference`.

    Each hidden node of a draw is matched to at most one of the reference, so that matched nodes share as many parents
    and children as possible: first by the observed nodes around them, then by all that are matched, until that settles.
    """
    n, n_observed = reference.n_nodes, reference.n_observed
    share = np.zeros((n, n))
    order_sum, order_count = np.zeros(n), np.zeros(n)
    for dag in dags:
        place = match(dag, reference)
        ours, theirs = np.flatnonzero(place >= 0), place[place >= 0]
        share[np.ix_(theirs, theirs)] += dag.edges[np.ix_(ours, ours)]
        order_sum[theirs] += dag.order[ours]
        order_count[theirs] += 1
    assert (order_count[:n_observed] == len(dags)).all()
    return share / len(dags), np.where(order_count > 0, order_sum / np.maximum(order_count, 1), reference.order)


def match(dag: Dag, reference: Dag) -> np.ndarray:
    """For each node of `dag` its counterpart in `reference`, or −1."""
    from scipy.optimize import linear_sum_assignment

    n = reference.n_observed
    place = np.concatenate([np.arange(n), np.full(dag.n_hidden, -1)])
    if not dag.n_hidden or not reference.n_hidden:
        return place
    closeness = 1e-3 * (1 - np.abs(dag.order[n:, None] - reference.order[None, n:]))
    agreement = _agreement(_walks(dag), _walks(reference))
    for _ in range(N_ROUNDS):
        rows, columns = linear_sum_assignment(agreement + closeness, maximize=True)
        before = place.copy()
        place[n:] = -1
        place[n + rows] = n + columns
        if (place == before).all():
            break
        ours, theirs = np.flatnonzero(place >= 0), place[place >= 0]
        agreement = _agreement(_neighbours(dag, ours), _neighbours(reference, theirs))
    return place


def _walks(dag: Dag) -> FloatArray:
    """For each hidden node, the observed nodes that it reaches, and that reach it, in one, two, … steps."""
    n = dag.n_observed
    columns, walks = [], np.eye(dag.n_nodes)
    for weight in 0.5 ** np.arange(N_STEPS):
        walks = (walks @ dag.edges > 0).astype(np.float64)
        columns += [weight * walks[n:, :n], weight * walks[:n, n:].T]
    return np.hstack(columns)


def _neighbours(dag: Dag, nodes: np.ndarray) -> FloatArray:
    n = dag.n_observed
    return np.hstack([dag.edges[n:, nodes], dag.edges[nodes, n:].T]).astype(np.float64)


def _agreement(a: FloatArray, b: FloatArray) -> FloatArray:
    """Minus the distance of each row of `a` from each row of `b`."""
    return -np.abs(a[:, None, :] - b[None, :, :]).sum(axis=2)


def _without_cycles(weights: FloatArray) -> np.ndarray:
    """The edges of positive weight, the weakest of every cycle left out."""
    import networkx

    edges = weights > 0
    while True:
        try:
            cycle = networkx.find_cycle(networkx.from_numpy_array(edges, create_using=networkx.DiGraph))
        except networkx.NetworkXNoCycle:
            return edges
        k, i = min((edge[:2] for edge in cycle), key=lambda edge: weights[edge])
        edges[k, i] = False


def _active(edges: np.ndarray, n_observed: int) -> np.ndarray:
    """The observed nodes and those with a directed path to one."""
    active = np.arange(len(edges)) < n_observed
    while True:
        more = active | edges[:, active].any(axis=1)
        if (more == active).all():
            return np.flatnonzero(active)
        active = more


def _respecting(edges: np.ndarray, order: FloatArray) -> FloatArray:
    """`order` itself where every parent is strictly above its children, else evenly spaced levels."""
    if not (edges & ~(order[:, None] > order[None, :])).any():
        return order
    level = np.zeros(len(order), dtype=np.int64)
    for _ in range(len(order)):
        for k in range(len(order)):
            if edges[k].any():
                level[k] = max(level[k], level[edges[k]].max() + 1)
    return level / (level.max() + 1)
