"""Exact draws in bulk: the sweep, the finite model, the buffet and its cascades (section 2)."""

from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit
from chefs._core.layers import MOST_LAYERS, cascade_floor, height_between


class Ragged(NamedTuple):
    """Many graphs end to end: graph g has nodes node_start[g] … node_start[g+1]−1, and likewise edges."""

    node_start: np.ndarray  # int (G+1,)
    edge_start: np.ndarray  # int (G+1,)
    order: np.ndarray  # float (nodes,)
    parent: np.ndarray  # int (edges,), numbered within the graph
    child: np.ndarray  # int (edges,)


@jit
def n_children_hidden(rng, n, alpha, harmonic):
    """M ≥ 1 with P(m) ∝ C(n, m) B(m, α+n−m), whose sum is `harmonic` = ψ(α+n) − ψ(α). O(m)."""
    if n == 1:
        return 1
    u = rng.random() * harmonic
    m, weight = 1, n / (alpha + (n - 1))
    while u >= weight and m < n:
        u -= weight
        weight *= (n - m) * m / ((m + 1) * (alpha + (n - m - 1)))
        m += 1
    return m


@jit
def n_children_binomial(rng, n, head, tail, none):
    """M ~ Beta-Binomial(n, head, tail), where `none` = P(m = 0). O(m), or O(n) where `none` is next to nothing."""
    m = 0
    if n == 0:
        return m
    if none < 1e-280:
        for j in range(n):
            m += rng.random() < (head + m) / (head + tail + j)
        return m
    u, weight = rng.random(), none
    while u >= weight and m < n:
        u -= weight
        weight *= (n - m) * (head + m) / ((m + 1) * (tail + (n - m - 1)))
        m += 1
    return m


@jit
def connect(rng, node, m, n, placed, chosen, parent, child, at):
    """Write edges from `node` to m of the first n placed nodes, chosen uniformly (Floyd's method). O(m)."""
    if m == n:
        for j in range(n):
            parent[at] = node
            child[at] = placed[j]
            at += 1
        return at
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
def draw_orders(rng, given, orders, start, ranking):
    """Fill `orders` from `start` on, uniform where `given` is nan, and rank the nodes: equal orders by number."""
    for i in range(given.size):
        orders[start + i] = rng.random() if np.isnan(given[i]) else given[i]
    if given.size > 32:
        ranking[:] = np.argsort(orders[start : start + given.size], kind="mergesort")
        return
    for i in range(given.size):  # few: sort by insertion, without a new array
        at = i
        while at > 0 and orders[start + ranking[at - 1]] > orders[start + i]:
            ranking[at] = ranking[at - 1]
            at -= 1
        ranking[at] = i


STEP, PLACED, NODES, EDGES, BELOW = 0, 1, 2, 3, 4
HEIGHT, WAIT, LEVEL = 0, 1, 2


@jit
def tables(n, alpha, phi):
    """For j = 0 … n−1: ψ(α+j) − ψ(α), and P(an observed node has no child among j)."""
    harmonic, silent = np.zeros(n), np.ones(n)
    for j in range(n - 1):
        harmonic[j + 1] = harmonic[j] + 1.0 / (alpha + j)
        silent[j + 1] = silent[j] * (alpha + j) / (alpha + phi + j)
    return harmonic, silent


@jit
def climb(rng, alpha, gamma, phi, stars, start, order, parent, child, placed, chosen, harmonic, silent, counts, clock):
    """Go on with one draw until it is whole (True) or has no room for one more node and its edges (False).

    `counts` and `clock` hold where it stands, so that it can go on in larger arrays. Growing them here, in the loop,
    would cost as much as all the rest.
    """
    n_observed = stars.size
    room = min(placed.size, order.size - start)
    n, last, at, below = counts[PLACED], counts[NODES], counts[EDGES], counts[BELOW]
    height, wait, level = clock[HEIGHT], clock[WAIT], clock[LEVEL]
    for step in range(counts[STEP], n_observed + 1):
        top = order[start + stars[step]] if step < n_observed else 1.0
        while n > 0:
            if last >= room - 1 or at + n > parent.size:
                counts[STEP], counts[PLACED], counts[NODES], counts[EDGES], counts[BELOW] = step, n, last, at, below
                clock[HEIGHT], clock[WAIT], clock[LEVEL] = height, wait, level
                return False
            rate = alpha * gamma * harmonic[n]
            if wait >= rate * (top - height):
                wait -= rate * (top - height)  # what is left of it goes on above
                break
            height += wait / rate
            wait = rng.standard_exponential()
            m = n_children_hidden(rng, n, alpha, harmonic[n])
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
            at = connect(rng, stars[step], m, below, placed, chosen, parent, child, at)
            placed[n] = stars[step]
            n += 1
    counts[NODES], counts[EDGES] = last, at
    return True


@jit
def sweep(rng, observed, alpha, gamma, phi, size):
    """`size` independent draws of the infinite model, in time linear in their nodes and edges.

    With n active nodes below, hidden nodes appear at rate αγ [ψ(α+n) − ψ(α)] as the order runs from 0 to 1.
    """
    n_observed = observed.size
    node_start = np.zeros(size + 1, dtype=np.int64)
    edge_start = np.zeros(size + 1, dtype=np.int64)
    order = np.empty(size * (n_observed + 6) + 64)
    parent = np.empty(order.size, dtype=np.int32)
    child = np.empty(order.size, dtype=np.int32)
    stars = np.zeros(n_observed, dtype=np.int64)
    placed = np.zeros(n_observed + 64, dtype=np.int32)
    chosen = np.zeros(placed.size, dtype=np.bool_)
    harmonic, silent = tables(placed.size, alpha, phi)
    counts, clock = np.zeros(5, dtype=np.int64), np.zeros(3)
    for g in range(size):
        start = node_start[g]
        order = fitted(order, start + n_observed + 2)
        draw_orders(rng, observed, order, start, stars)
        counts[STEP], counts[PLACED], counts[NODES], counts[BELOW] = 0, 0, n_observed, 0
        clock[HEIGHT], clock[WAIT], clock[LEVEL] = 0.0, rng.standard_exponential(), -1.0
        while not climb(
            rng, alpha, gamma, phi, stars, start, order, parent, child, placed, chosen, harmonic, silent, counts, clock
        ):
            order = fitted(order, start + counts[NODES] + 2)
            parent = fitted(parent, counts[EDGES] + counts[PLACED])
            child = fitted(child, counts[EDGES] + counts[PLACED])
            if counts[NODES] + 2 > placed.size:
                placed = fitted(placed, counts[NODES] + 2)
                chosen = fitted(chosen, placed.size)
                harmonic, silent = tables(placed.size, alpha, phi)
        node_start[g + 1] = start + counts[NODES]
        edge_start[g + 1] = counts[EDGES]
    return Ragged(node_start, edge_start, order[: node_start[size]], parent[: counts[EDGES]], child[: counts[EDGES]])


@jit
def finite(rng, observed, alpha, gamma, phi, n_nodes, size):
    """`size` draws of the finite model with `n_nodes` nodes: its active part, found from the bottom upwards."""
    n_observed = observed.size
    mass = alpha * gamma / n_nodes
    node_start = np.zeros(size + 1, dtype=np.int64)
    edge_start = np.zeros(size + 1, dtype=np.int64)
    room = size * (n_observed + 6)
    order = np.empty(room)
    parent = np.empty(room, dtype=np.int32)
    child = np.empty(room, dtype=np.int32)
    placed = np.zeros(n_nodes, dtype=np.int32)
    chosen = np.zeros(n_nodes, dtype=np.bool_)
    silent = np.ones((2, n_nodes + 1))  # silent[star, n] = P(no child among n)
    for j in range(n_nodes):
        silent[0, j + 1] = silent[0, j] * (alpha - mass + j) / (alpha + j)
        silent[1, j + 1] = silent[1, j] * (alpha - mass + j) / (alpha + phi + j)
    everyone = np.full(n_nodes, np.nan)
    everyone[:n_observed] = observed
    heights = np.zeros(n_nodes)
    ranking = np.zeros(n_nodes, dtype=np.int64)
    at = 0
    for g in range(size):
        start = node_start[g]
        order = fitted(order, start + n_observed)
        n, last = 0, n_observed
        level, below = -1.0, 0
        draw_orders(rng, everyone, heights, 0, ranking)
        for node in ranking:
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
def cascade(rng, n_customers, alpha, gamma, extended, size):
    """`size` draws of a cascade of buffets: the dishes of a layer are the customers of the next, until there are none.

    Where `extended`, a dish with m of the K customers below also takes children in the layers further down, as many
    as Beta-Binomial(m, α+K−m) says: each with its popularity, of which these m are what is known.
    """
    node_start = np.zeros(size + 1, dtype=np.int64)
    edge_start = np.zeros(size + 1, dtype=np.int64)
    order = np.zeros(size * (n_customers + 6))
    parent = np.zeros(order.size, dtype=np.int32)
    child = np.zeros(order.size, dtype=np.int32)
    names = np.arange(n_customers + 64).astype(np.int32)
    chosen = np.zeros(names.size, dtype=np.bool_)
    at = 0
    for g in range(size):
        start, first, last = node_start[g], 0, n_customers
        order = fitted(order, start + last)
        order[start : start + last] = 0.0
        for level in range(1, MOST_LAYERS + 1):
            n, harmonic = last - first, 0.0
            for j in range(n):
                harmonic += 1.0 / (alpha + j)
            n_dishes = rng.poisson(alpha * gamma * harmonic)
            if n_dishes == 0:
                break
            order = fitted(order, start + last + n_dishes)
            if last > names.size:
                names = np.arange(2 * last).astype(np.int32)
                chosen = np.zeros(names.size, dtype=np.bool_)
            for dish in range(last, last + n_dishes):
                order[start + dish] = height_between(rng, cascade_floor(level), cascade_floor(level + 1))
                parent = fitted(parent, at + last)
                child = fitted(child, at + last)
                m = n_children_hidden(rng, n, alpha, harmonic)
                at = connect(rng, dish, m, n, names[first:last], chosen, parent, child, at)
                if extended and first > 0:
                    silent = 1.0
                    for j in range(first):
                        silent *= (alpha + (n - m) + j) / (alpha + n + j)
                    further = n_children_binomial(rng, first, float(m), alpha + (n - m), silent)
                    at = connect(rng, dish, further, first, names, chosen, parent, child, at)
            first, last = last, last + n_dishes
        node_start[g + 1] = start + last
        edge_start[g + 1] = at
    return Ragged(node_start, edge_start, order[: node_start[size]], parent[:at], child[:at])
