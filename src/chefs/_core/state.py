"""GraphState: one graph that moves can change, in plain arrays.

The symbols of the paper and their names here and everywhere in the project:

| paper | name                                                                        |
|-------|-----------------------------------------------------------------------------|
| Z     | `edges[k, i]`: k is a parent of i; here transposed, `parents[i, k]`           |
| θ     | `order`                                                                     |
| m     | `n_children`                                                                |
| ↓     | `n_below`: active nodes with a strictly smaller order                       |
| ↑     | `n_above`: active nodes with a strictly greater order                       |
| K⁺    | `n_active`, the number of nodes in the graph; D of them observed              |
| one θ | `height`, a value that an order may take                                      |
| π     | popularity: the probability that a node below becomes a child               |
"""

from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit

ALPHA, GAMMA, PHI = 0, 1, 2
N_ACTIVE, N_OBSERVED, MAX_HIDDEN, FAMILY = 0, 1, 2, 3
CHEFS, BUFFET, CASCADING, EXTENDED = 0, 1, 2, 3
NO_LIMIT = np.iinfo(np.int64).max


class GraphState(NamedTuple):
    """Nodes 0 … D−1 are observed, the rest hidden; arrays have room for more nodes than there are."""

    parents: np.ndarray  # bool (C, C): parents[i, k], k is a parent of i; rows, because scans run over parents
    order: np.ndarray  # float (C,)
    n_children: np.ndarray  # int (C,)
    n_parents: np.ndarray  # int (C,)
    n_below: np.ndarray  # int (C,)
    ranking: np.ndarray  # int (C,): the nodes, sorted by order
    position: np.ndarray  # int (C,): where a node stands in the ranking
    low: np.ndarray  # float (C,): the smallest order a node may take; low = high where it is fixed
    high: np.ndarray  # float (C,)
    locked: np.ndarray  # bool (D, D): locked[i, k], no move may add or remove the edge k → i
    hyper: np.ndarray  # float (3,): alpha, gamma, phi
    # int (4,): n_active, n_observed, the largest number of hidden nodes allowed; and the family of the prior that moves
    # and densities are of, CHEFS unless it is set to another (here, because one more array would slow every call)
    size: np.ndarray


@jit
def empty(orders, low, high, locked, hyper, max_hidden, capacity):
    """A state that holds only observed nodes, at `orders`, without edges."""
    n = orders.size
    capacity = max(capacity, n + 1, 8)
    state = GraphState(
        np.zeros((capacity, capacity), dtype=np.bool_),
        np.zeros(capacity),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity),
        np.ones(capacity),
        locked.copy(),
        hyper.copy(),
        np.array([0, n, max_hidden, CHEFS]),
    )
    for i in range(n):
        insert(state, orders[i])
    state.low[:n] = low
    state.high[:n] = high
    return state


@jit
def grow(state):
    """A copy with twice the capacity: the only place where capacity changes."""
    n = state.size[N_ACTIVE]
    capacity = 2 * state.order.size
    parents = np.zeros((capacity, capacity), dtype=np.bool_)
    parents[:n, :n] = state.parents[:n, :n]
    high = np.ones(capacity)
    high[:n] = state.high[:n]
    return GraphState(
        parents,
        _doubled(state.order),
        _doubled(state.n_children),
        _doubled(state.n_parents),
        _doubled(state.n_below),
        _doubled(state.ranking),
        _doubled(state.position),
        _doubled(state.low),
        high,
        state.locked.copy(),
        state.hyper.copy(),
        state.size.copy(),
    )


@jit
def _doubled(array):
    longer = np.zeros(2 * array.size, dtype=array.dtype)
    longer[: array.size] = array
    return longer


@jit
def with_room(state):
    """The state itself while one more node fits, else the grown one."""
    if state.size[N_ACTIVE] < state.order.size:
        return state
    return grow(state)


@jit
def copy(state):
    """An independent copy."""
    return GraphState(
        state.parents.copy(),
        state.order.copy(),
        state.n_children.copy(),
        state.n_parents.copy(),
        state.n_below.copy(),
        state.ranking.copy(),
        state.position.copy(),
        state.low.copy(),
        state.high.copy(),
        state.locked.copy(),
        state.hyper.copy(),
        state.size.copy(),
    )


@jit
def n_at_or_below(state, height):
    """Number of nodes whose order is at most `height`: where a node at `height` would enter the ranking."""
    first, last = 0, state.size[N_ACTIVE]
    while first < last:
        middle = (first + last) // 2
        if state.order[state.ranking[middle]] <= height:
            first = middle + 1
        else:
            last = middle
    return first


@jit
def first_above(state, node):
    """Position of the lowest node strictly above `node` (n_active where there is none)."""
    at = state.position[node] + 1
    while at < state.size[N_ACTIVE] and state.order[state.ranking[at]] == state.order[node]:
        at += 1
    return at


@jit
def insert(state, height):
    """Add a node without edges at `height` and return its number; there must be room."""
    node = state.size[N_ACTIVE]
    at = n_at_or_below(state, height)
    for p in range(node, at, -1):
        other = state.ranking[p - 1]
        state.ranking[p] = other
        state.position[other] = p
        state.n_below[other] += 1
    state.order[node] = height
    state.ranking[at] = node
    state.position[node] = at
    state.n_below[node] = _strictly_below(state, node)
    state.n_children[node] = 0
    state.n_parents[node] = 0
    state.low[node] = 0.0
    state.high[node] = 1.0
    state.size[N_ACTIVE] = node + 1
    return node


@jit
def _strictly_below(state, node):
    below = state.position[node]
    while below > 0 and state.order[state.ranking[below - 1]] == state.order[node]:
        below -= 1
    return below


@jit
def remove(state, node):
    """Take a hidden node without children or parents out; the last node takes over its number."""
    last = state.size[N_ACTIVE] - 1
    for p in range(state.position[node], last):
        other = state.ranking[p + 1]
        state.ranking[p] = other
        state.position[other] = p
        if state.order[other] > state.order[node]:
            state.n_below[other] -= 1
    if node != last:
        for other in range(last):
            state.parents[node, other] = state.parents[last, other]
            state.parents[other, node] = state.parents[other, last]
        state.parents[node, node] = False
        state.order[node] = state.order[last]
        state.n_children[node] = state.n_children[last]
        state.n_parents[node] = state.n_parents[last]
        state.n_below[node] = state.n_below[last]
        state.position[node] = state.position[last]
        state.ranking[state.position[last]] = node
    for other in range(last):
        state.parents[last, other] = False
        state.parents[other, last] = False
    state.size[N_ACTIVE] = last


@jit
def set_order(state, node, height):
    """Give `node` another order; only nodes between the old and the new one are touched."""
    n = state.size[N_ACTIVE]
    old = state.order[node]
    at = state.position[node]
    if height < old:
        for p in range(at + 1, first_above(state, node)):  # those it was tied with now have it below them
            state.n_below[state.ranking[p]] += 1
    while at + 1 < n and state.order[state.ranking[at + 1]] <= height:
        other = state.ranking[at + 1]
        if state.order[other] > old:
            state.n_below[other] -= 1
        state.ranking[at] = other
        state.position[other] = at
        at += 1
    while at > 0 and state.order[state.ranking[at - 1]] > height:
        other = state.ranking[at - 1]
        state.n_below[other] += 1
        state.ranking[at] = other
        state.position[other] = at
        at -= 1
    state.order[node] = height
    state.ranking[at] = node
    state.position[node] = at
    state.n_below[node] = _strictly_below(state, node)


@jit
def add_edge(state, parent, child):
    """Connect parent → child."""
    state.parents[child, parent] = True
    state.n_children[parent] += 1
    state.n_parents[child] += 1


@jit
def remove_edge(state, parent, child):
    """Disconnect parent → child."""
    state.parents[child, parent] = False
    state.n_children[parent] -= 1
    state.n_parents[child] -= 1


@jit
def unpack(state):
    """The graph alone, as (orders, parents, children): node i's order; edge e runs from parents[e] to children[e]."""
    n = state.size[N_ACTIVE]
    n_edges = 0
    for i in range(n):
        n_edges += state.n_parents[i]
    parents = np.empty(n_edges, dtype=np.int32)
    children = np.empty(n_edges, dtype=np.int32)
    at = 0
    for i in range(n):
        left = state.n_parents[i]
        k = 0
        while left > 0:
            if state.parents[i, k]:
                parents[at] = k
                children[at] = i
                at += 1
                left -= 1
            k += 1
    return state.order[:n].copy(), parents, children


@jit
def pack(orders, parents, children, low, high, locked, hyper, max_hidden):
    """The state of a graph given as `unpack` returns it; `low`, `high` and `locked` speak of the observed nodes."""
    n_observed = low.size
    state = empty(orders[:n_observed], low, high, locked, hyper, max_hidden, 2 * orders.size)
    for i in range(n_observed, orders.size):
        insert(state, orders[i])
    for e in range(parents.size):
        add_edge(state, parents[e], children[e])
    return state
