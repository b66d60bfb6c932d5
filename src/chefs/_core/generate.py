"""Exact draws in bulk: the sweep, the finite model, the buffet (section 2)."""

from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit


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
def draw_orders(rng, given, orders, ranking):
    """Fill `orders`, uniform where `given` is nan, and `ranking`: the nodes sorted by order, equal ones by number."""
    for i in range(given.size):
        orders[i] = rng.random() if np.isnan(given[i]) else given[i]
    if given.size > 32:
        ranking[:] = np.argsort(orders[: given.size], kind="mergesort")
        return
    for i in range(given.size):  # few: sort by insertion, without a new array
        at = i
        while at > 0 and orders[ranking[at - 1]] > orders[i]:
            ranking[at] = ranking[at - 1]
            at -= 1
        ranking[at] = i


@jit
def sweep(rng, observed, alpha, gamma, phi, size):
    """`size` independent draws of the infinite model, in time linear in their nodes and edges.

    With n active nodes below, hidden nodes appear at rate αγ [ψ(α+n) − ψ(α)] as the order runs from 0 to 1.
    """
    n_observed = observed.size
    node_start = np.zeros(size + 1, dtype=np.int64)
    edge_start = np.zeros(size + 1, dtype=np.int64)
    room = size * (n_observed + 6)
    order = np.empty(room)
    parent = np.empty(room, dtype=np.int32)
    child = np.empty(room, dtype=np.int32)
    stars = np.zeros(n_observed, dtype=np.int64)
    placed = np.zeros(n_observed + 64, dtype=np.int32)
    chosen = np.zeros(n_observed + 64, dtype=np.bool_)
    harmonic = np.zeros(n_observed + 64)  # harmonic[n] = ψ(α+n) − ψ(α)
    silent = np.ones(n_observed + 64)  # silent[n] = P(an observed node has no child among n)
    known = 0  # both tables are filled up to this n
    at = 0
    for g in range(size):
        start = node_start[g]
        if start + n_observed > order.size:
            order = fitted(order, start + n_observed)
        draw_orders(rng, observed, order[start : start + n_observed], stars)
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
                if start + last == order.size:
                    order = fitted(order, start + last + 1)
                if last == placed.size:
                    placed = fitted(placed, last + 1)
                    chosen = fitted(chosen, last + 1)
                if at + m > parent.size:
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
                if at + m > parent.size:
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
        draw_orders(rng, everyone, heights, ranking)
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
