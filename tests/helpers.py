"""What several tests need: checks of error messages, and graphs in the form of the naive twin and of the kernels."""

from contextlib import contextmanager

import numpy as np
import pytest

from chefs._core.state import NO_LIMIT, pack


@contextmanager
def refused(*names, error=ValueError):
    """The block raises `error`, in one short sentence that contains every one of `names`."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert type(caught.value) is error
    assert "\n" not in message
    assert 10 < len(message) < 250
    assert all(name in message for name in names), message


def edge_set(dag):
    return {(int(k), int(i)) for k, i in np.argwhere(dag.edges)}


def naive_graph(dag):
    """(edges, order, n_observed) as `tests.naive` takes them."""
    return edge_set(dag), dag.order.tolist(), dag.n_observed


def state_of(dag, hyper, max_hidden=NO_LIMIT):
    """A `GraphState` of the graph whose observed nodes may move anywhere."""
    return packed(edge_set(dag), dag.order, dag.n_observed, hyper, max_hidden)


def packed(edges, order, n_observed, hyper, max_hidden=NO_LIMIT):
    pairs = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)
    low = np.zeros(n_observed)
    return pack(
        np.array(order, dtype=np.float64),
        np.ascontiguousarray(pairs[:, 0]),
        np.ascontiguousarray(pairs[:, 1]),
        low,
        low + 1.0,
        np.zeros((n_observed, n_observed), dtype=bool),
        np.array(hyper, dtype=np.float64),
        max_hidden,
    )
