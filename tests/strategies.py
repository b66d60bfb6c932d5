"""Hypothesis strategies: any graph, any hyperparameters."""

import numpy as np
from hypothesis import strategies as st

from chefs import Dag

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)


def orders(above=None):
    """An order in [0, 1], often one of a few, so that ties happen; strictly greater than `above` if that is given."""
    if above is None:
        return st.sampled_from(GRID) | st.floats(0.0, 1.0)
    return st.sampled_from([x for x in GRID if x > above]) | st.floats(above, 1.0, exclude_min=True)


@st.composite
def dags(draw, max_observed=5, max_hidden=6, ties=True, grid=False, hidden_apart=False):
    """Any `Dag` with that many nodes at most; with `grid`, all orders are multiples of 1/4, so that many are equal.

    A hidden node needs a child and the lowest of them can only have observed ones: hidden nodes are strictly above
    the lowest observed node, and nothing else is asked of the orders. Given the orders, each node may take any set of
    the nodes strictly below it as its children, a hidden node any set but the empty one. With `hidden_apart`, all is as
    it is in a chain with probability one: no hidden node shares its order with another node, or comes very close.
    """
    order = draw(st.lists(orders(), min_size=1, max_size=max_observed, unique=not ties))
    if hidden_apart:
        order = [round(100 * x) / 100 for x in order]
    if grid:
        order = [round(4 * x) / 4 for x in order]
    n_observed, lowest = len(order), min(order)
    n_hidden = draw(st.integers(0, max_hidden)) if lowest < 1 else 0
    for _ in range(n_hidden):
        allowed = st.sampled_from([x for x in GRID if x > lowest]) if grid else orders(above=lowest)
        if hidden_apart:
            apart = [x / 1009 for x in range(1, 1009) if x / 1009 > lowest and x / 1009 not in order]
            if not apart:
                break
            allowed = st.sampled_from(apart)
        elif ties:
            allowed |= st.sampled_from([1.0, *(x for x in order if x > lowest)])
        else:
            allowed = allowed.filter(lambda x: x not in order)
        order.append(draw(allowed))
    n = len(order)
    edges = np.zeros((n, n), dtype=bool)
    for k in range(n):
        below = [i for i in range(n) if order[i] < order[k]]
        chosen = draw(st.integers(int(k >= n_observed), 2 ** len(below) - 1))
        for bit, i in enumerate(below):
            edges[k, i] = chosen >> bit & 1
    return Dag(edges, order, n_observed)


def positive_numbers(low=1e-3, high=1e3):
    return st.floats(np.log10(low), np.log10(high)).map(lambda x: float(10**x)) | st.sampled_from([low, high])


def hyperparameters(low=1e-3, high=1e3):
    """(alpha, gamma, phi)."""
    return st.tuples(*[positive_numbers(low, high)] * 3)
