"""Exact draws: the sweep, the finite model, and the restaurant of the paper's section 2."""

from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit
from chefs._core.state import (
    ALPHA,
    GAMMA,
    N_ACTIVE,
    N_OBSERVED,
    NO_LIMIT,
    PHI,
    add_edge,
    first_above,
    insert,
    pack,
    unpack,
    with_room,
)


class Ragged(NamedTuple):
    """Many graphs end to end: graph g has nodes node_start[g] … node_start[g+1]−1, and likewise edges."""

    node_start: np.ndarray  # int (G+1,)
    edge_start: np.ndarray  # int (G+1,)
    order: np.ndarray  # float (nodes,)
    parent: np.ndarray  # int (edges,), numbered within the graph
    child: np.ndarray  # int (edges,)


@jit
def n_children_hidden(rng, n, alpha, harmonic):
    """m ≥ 1 with P(m) ∝ C(n, m) B(m, α+n−m), whose sum is `harmonic` = ψ(α+n) − ψ(α). O(m)."""
    u = rng.random() * harmonic
    m, weight = 1, n / (alpha + n - 1)
    while u >= weight and m < n:
        u -= weight
        weight *= (n - m) * m / ((m + 1) * (alpha + n - m - 1))
        m += 1
    return m


@jit
def n_children_binomial(rng, n, head, tail, none):
    """m ~ Beta-Binomial(n, head, tail), where `none` = P(m = 0). O(m), or O(n) where `none` is next to nothing."""
    m = 0
    if none < 1e-280:
        for j in range(n):
            m += rng.random() < (head + m) / (head + tail + j)
        return m
    u, weight = rng.random(), none
    while u >= weight and m < n:
        u -= weight
        weight *= (n - m) * (head + m) / ((m + 1) * (tail + n - m - 1))
        m += 1
    return m


@jit
def connect(rng, node, m, n, placed, chosen, parent, child, at):
    """Write edges from `node` to m of the first n placed nodes, chosen uniformly (Floyd's method). O(m)."""
    for j in range(n - m, n):
        pick = placed[int(rng.random() * (j + 1))]
        if chosen[pick]:
            pick = placed[j]
        chosen[pick] = True
        parent[at] = node
        child[at] = pick
        at += 1
    for e in range(at - m, at):
        chosen[child[e]] = False
    return at


@jit
def fitted(array, needed):
    """The array itself if it has `needed` entries, else a copy with at least twice as many."""
    if array.size >= needed:
        return array
    longer = np.zeros(max(2 * array.size, needed), dtype=array.dtype)
    longer[: array.size] = array
    return longer


@jit
def draw_orders(rng, given, orders):
    """Fill `orders`: uniform where `given` is nan. Returns the nodes sorted by order, equal ones by number."""
    for i in range(given.size):
        orders[i] = rng.random() if np.isnan(given[i]) else given[i]
    return np.argsort(orders[: given.size], kind="mergesort")


@jit
def sweep(rng, observed, alpha, gamma, phi, size):
    """`size` independent draws of the infinite model, in time linear in their nodes and edges.

    With n active nodes below, hidden nodes appear at rate αγ [ψ(α+n) − ψ(α)] as the order runs from 0 to 1.
    """
    n_observed = observed.size
    node_start = np.zeros(size + 1, dtype=np.int64)
    edge_start = np.zeros(size + 1, dtype=np.int64)
    order = np.zeros(size * (n_observed + 4))
    parent = np.zeros(size * (n_observed + 4), dtype=np.int32)
    child = np.zeros(size * (n_observed + 4), dtype=np.int32)
    placed = np.zeros(n_observed + 64, dtype=np.int32)
    chosen = np.zeros(n_observed + 64, dtype=np.bool_)
    harmonic = np.zeros(n_observed + 64)  # harmonic[n] = ψ(α+n) − ψ(α)
    silent = np.ones(n_observed + 64)  # silent[n] = P(an observed node has no child among n)
    known = 0  # both tables are filled up to this n
    at = 0
    for g in range(size):
        start = node_start[g]
        order = fitted(order, start + n_observed)
        stars = draw_orders(rng, observed, order[start : start + n_observed])
        n, last = 0, n_observed  # nodes placed so far; nodes that exist
        height, level, below = 0.0, -1.0, 0
        for step in range(n_observed + 1):
            top = order[start + stars[step]] if step < n_observed else 1.0
            while n > 0:
                if known < n:
                    harmonic = fitted(harmonic, n + 1)
                    silent = fitted(silent, n + 1)
                    for j in range(known, n):
                        harmonic[j + 1] = harmonic[j] + 1.0 / (alpha + j)
                        silent[j + 1] = silent[j] * (alpha + j) / (alpha + phi + j)
                    known = n
                height += rng.standard_exponential() / (alpha * gamma * harmonic[n])
                if height >= top:
                    break
                m = n_children_hidden(rng, n, alpha, harmonic[n])
                order = fitted(order, start + last + 1)
                placed = fitted(placed, last + 1)
                chosen = fitted(chosen, last + 1)
                parent = fitted(parent, at + m)
                child = fitted(child, at + m)
                order[start + last] = height
                at = connect(rng, last, m, n, placed, chosen, parent, child, at)
                placed[n] = last
                n += 1
                last += 1
            height = top
            if step < n_observed:
                if top > level:  # equal orders do not connect: count what was there before the first of them
                    level, below = top, n
                m = n_children_binomial(rng, below, phi, alpha, silent[below])
                parent = fitted(parent, at + m)
                child = fitted(child, at + m)
                at = connect(rng, stars[step], m, below, placed, chosen, parent, child, at)
                placed[n] = stars[step]
                n += 1
        node_start[g + 1] = start + last
        edge_start[g + 1] = at
    return Ragged(node_start, edge_start, order[: node_start[size]], parent[:at], child[:at])


@jit
def finite(rng, observed, alpha, gamma, phi, n_nodes, size):
    """`size` draws of the finite model with `n_nodes` nodes: its active part, found from the bottom upwards."""
    n_observed = observed.size
    mass = alpha * gamma / n_nodes
    node_start = np.zeros(size + 1, dtype=np.int64)
    edge_start = np.zeros(size + 1, dtype=np.int64)
    order = np.zeros(size * (n_observed + 4))
    parent = np.zeros(size * (n_observed + 4), dtype=np.int32)
    child = np.zeros(size * (n_observed + 4), dtype=np.int32)
    placed = np.zeros(n_nodes, dtype=np.int32)
    chosen = np.zeros(n_nodes, dtype=np.bool_)
    silent = np.ones((2, n_nodes + 1))  # silent[star, n] = P(no child among n)
    for j in range(n_nodes):
        silent[0, j + 1] = silent[0, j] * (alpha - mass + j) / (alpha + j)
        silent[1, j + 1] = silent[1, j] * (alpha - mass + j) / (alpha + phi + j)
    everyone = np.full(n_nodes, np.nan)
    everyone[:n_observed] = observed
    heights = np.zeros(n_nodes)
    at = 0
    for g in range(size):
        start = node_start[g]
        order = fitted(order, start + n_observed)
        n, last = 0, n_observed
        level, below = -1.0, 0
        for node in draw_orders(rng, everyone, heights):
            if heights[node] > level:
                level, below = heights[node], n
            star = node < n_observed
            none = silent[int(star), below]
            m = n_children_binomial(rng, below, mass + phi * star, alpha - mass, none)
            if m == 0 and not star:
                continue  # an inactive node: nothing observed descends from it
            if star:
                name = node
            else:
                name = last
                last += 1
                order = fitted(order, start + last)
            order[start + name] = heights[node]
            parent = fitted(parent, at + m)
            child = fitted(child, at + m)
            at = connect(rng, name, m, below, placed, chosen, parent, child, at)
            placed[n] = name
            n += 1
        node_start[g + 1] = start + last
        edge_start[g + 1] = at
    return Ragged(node_start, edge_start, order[: node_start[size]], parent[:at], child[:at])


@jit
def buffet(rng, n_customers, alpha, gamma, size):
    """`size` draws of the two-parameter Indian buffet: customers at order 0, dishes at order 1."""
    harmonic = 0.0
    for j in range(n_customers):
        harmonic += 1.0 / (alpha + j)
    node_start = np.zeros(size + 1, dtype=np.int64)
    edge_start = np.zeros(size + 1, dtype=np.int64)
    parent = np.zeros(size * n_customers, dtype=np.int32)
    child = np.zeros(size * n_customers, dtype=np.int32)
    placed = np.arange(n_customers).astype(np.int32)
    chosen = np.zeros(n_customers, dtype=np.bool_)
    at = 0
    for g in range(size):
        n_dishes = rng.poisson(alpha * gamma * harmonic)
        for dish in range(n_customers, n_customers + n_dishes):
            m = n_children_hidden(rng, n_customers, alpha, harmonic)
            parent = fitted(parent, at + m)
            child = fitted(child, at + m)
            at = connect(rng, dish, m, n_customers, placed, chosen, parent, child, at)
        node_start[g + 1] = node_start[g] + n_customers + n_dishes
        edge_start[g + 1] = at
    order = np.ones(node_start[size])
    for g in range(size):
        order[node_start[g] : node_start[g] + n_customers] = 0.0
    return Ragged(node_start, edge_start, order, parent[:at], child[:at])


@jit
def one_more_star(rng, orders, parents, children, n_observed, height, hyper):
    """One round of the restaurant: a star chef at `height` enters a finished map; it becomes node `n_observed`.

    Returns the new map as (orders, parents, children).
    """
    n = orders.size
    new_orders = np.empty(n + 1)
    new_orders[:n_observed] = orders[:n_observed]
    new_orders[n_observed] = height
    new_orders[n_observed + 1 :] = orders[n_observed:]
    low, locked = np.zeros(n_observed + 1), np.zeros((n_observed + 1, n_observed + 1), dtype=np.bool_)
    shifted_parents = parents + (parents >= n_observed)
    shifted_children = children + (children >= n_observed)
    state = pack(new_orders, shifted_parents, shifted_children, low, low + 1.0, locked, hyper, NO_LIMIT)
    served = np.zeros(state.order.size, dtype=np.bool_)
    served[: n + 1] = True
    served[n_observed] = False
    return unpack(seat_star(rng, state, served, n_observed))


@jit
def seat_star(rng, state, served, star):
    """One round of the restaurant: star chef `star`, already in the room, and every chef it brings along.

    `served[k]` says whether chef k has already chosen its inspirations; only those count below a chef. Returns
    the state, which may have grown.
    """
    alpha, phi = state.hyper[ALPHA], state.hyper[PHI]
    asked = 0
    for i in range(state.size[N_ACTIVE]):  # step one, backward: the star is proposed to all chefs below it
        if served[i] and state.order[i] < state.order[star]:
            if rng.random() < (phi + state.n_children[star]) / (
                alpha + phi + asked
            ):  # Beta-Binomial, one by one
                add_edge(state, star, i)
            asked += 1
    waiting = star
    while waiting >= 0:
        served = fitted(served, state.order.size)
        choose_existing(rng, state, served, waiting)
        state = choose_new(rng, state, served, waiting)
        served = fitted(served, state.order.size)
        served[waiting] = True
        waiting = -1
        for k in range(state.size[N_OBSERVED], state.size[N_ACTIVE]):
            if not served[k]:
                waiting = k
                break
    return state


@jit
def n_served_below(state, served, height):
    """Chefs strictly below `height` that have chosen their inspirations."""
    count = 0
    for i in range(state.size[N_ACTIVE]):
        if served[i] and state.order[i] < height:
            count += 1
    return count


@jit
def choose_existing(rng, state, served, i):
    """Step two: chef i considers each chef k above it, with probability (m_k + φ) / (α + ↓_k − 1 + φ)."""
    alpha = state.hyper[ALPHA]
    for p in range(first_above(state, i), state.size[N_ACTIVE]):
        k = state.ranking[p]
        phi = state.hyper[PHI] if k < state.size[N_OBSERVED] else 0.0
        below = n_served_below(state, served, state.order[k])  # ↓_k − 1: chef i is not served yet
        if rng.random() < (state.n_children[k] + phi) / (alpha + below + phi):
            add_edge(state, k, i)


@jit
def choose_new(rng, state, served, i):
    """Step three: Poisson((θ_(j+1) − θ_(j)) αγ / (α + ↓ − 1)) new chefs in each interval above chef i."""
    alpha, gamma = state.hyper[ALPHA], state.hyper[GAMMA]
    n_before = state.size[N_ACTIVE]
    below = 0  # served chefs at or below the interval
    for p in range(first_above(state, i)):
        below += served[state.ranking[p]]
    cuts = np.empty(n_before - first_above(state, i) + 2)
    rates = np.empty(cuts.size - 1)
    cuts[0] = state.order[i]
    for j in range(rates.size):
        rates[j] = alpha * gamma / (alpha + below)
        p = first_above(state, i) + j
        cuts[j + 1] = 1.0
        if p < n_before:
            cuts[j + 1] = state.order[state.ranking[p]]
            below += served[state.ranking[p]]
    for j in range(rates.size):
        for _ in range(rng.poisson((cuts[j + 1] - cuts[j]) * rates[j])):
            state = with_room(state)
            k = insert(state, cuts[j] + (cuts[j + 1] - cuts[j]) * rng.random())
            add_edge(state, k, i)
    return state
