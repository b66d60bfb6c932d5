"""Whatever is done to a state, its counts are those of the graph that it holds."""

import random

import numpy as np
import pytest
from hypothesis import given

from chefs._core import state as core
from chefs._core.state import N_ACTIVE, N_OBSERVED
from tests import naive
from tests.helpers import edge_set, packed, state_of
from tests.strategies import GRID, dags, hyperparameters


def check(state, edges, order):
    """Every array of the state, recomputed from the graph."""
    n = len(order)
    assert state.size[N_ACTIVE] == n
    assert state.order[:n].tolist() == order
    assert {(int(k), int(i)) for i, k in np.argwhere(state.parents)} == edges
    assert state.n_children[:n].tolist() == [naive.n_children(edges, k) for k in range(n)]
    assert state.n_parents[:n].tolist() == [sum(child == i for _, child in edges) for i in range(n)]
    assert state.n_below[:n].tolist() == [naive.n_below(order, k) for k in range(n)]
    ranking = state.ranking[:n].tolist()
    assert sorted(ranking) == list(range(n))
    assert [order[k] for k in ranking] == sorted(order)
    assert [ranking[p] for p in state.position[:n]] == list(range(n))
    hidden = slice(state.size[N_OBSERVED], n)
    assert (state.low[hidden] == 0).all()
    assert (state.high[hidden] == 1).all()


@given(dags(), hyperparameters())
def test_pack_counts_what_is_there(dag, hyper):
    state = state_of(dag, hyper)
    check(state, edge_set(dag), dag.order.tolist())
    assert state.hyper.tolist() == list(hyper)
    assert state.size[N_OBSERVED] == dag.n_observed


@given(dags())
def test_unpack_is_the_inverse_of_pack(dag):
    order, parents, children = core.unpack(state_of(dag, (1.0, 1.0, 1.0)))
    assert order.tolist() == dag.order.tolist()
    assert len(parents) == dag.n_edges
    assert set(zip(parents.tolist(), children.tolist(), strict=True)) == edge_set(dag)


def a_height(rng, edges, order, node):
    """An order for `node` that its edges respect, tied with others as often as not; None where there is no room."""
    low = max([order[i] for k, i in edges if k == node], default=-1.0)
    high = min([order[k] for k, i in edges if i == node], default=2.0)
    allowed = [x for x in (*GRID, rng.random()) if low < x < high]
    return rng.choice(allowed) if allowed else None


def change(rng, state, edges, order, n_observed):
    """One random change to the state and, independently, to the graph."""
    n = len(order)
    kind = rng.choice(["insert", "remove", "order", "order", "add", "add", "cut", "cut"])
    if kind == "insert":
        height = rng.choice([*GRID, *order, rng.random()])
        state = core.with_room(state)
        assert core.insert(state, height) == n
        order.append(height)
    elif kind == "remove":
        alone = [k for k in range(n_observed, n) if not any(k in edge for edge in edges)]
        if alone:
            node = rng.choice(alone)
            core.remove(state, node)
            order[node] = order[-1]
            order.pop()
            renamed = {(node if k == n - 1 else k, node if i == n - 1 else i) for k, i in edges}
            edges.clear()
            edges.update(renamed)
    elif kind == "order":
        node = rng.randrange(n)
        height = a_height(rng, edges, order, node)
        if height is not None:
            core.set_order(state, node, height)
            order[node] = height
    elif kind == "add":
        absent = [(k, i) for k in range(n) for i in range(n) if order[k] > order[i] and (k, i) not in edges]
        if absent:
            edge = rng.choice(absent)
            core.add_edge(state, *edge)
            edges.add(edge)
    elif edges:
        edge = rng.choice(sorted(edges))
        core.remove_edge(state, *edge)
        edges.remove(edge)
    return state


@pytest.mark.parametrize("seed", range(12))
def test_counts_after_any_sequence_of_changes(seed):
    rng = random.Random(seed)
    n_observed = 1 + seed % 4
    edges, order = set(), [rng.choice([*GRID, rng.random()]) for _ in range(n_observed)]
    state = packed(edges, order, n_observed, (1.0, 1.0, 1.0))
    capacity = state.order.size
    for _ in range(150):
        state = change(rng, state, edges, order, n_observed)
        check(state, edges, order)
    for _ in range(capacity):
        state = core.with_room(state)
        core.insert(state, 0.5)
        order.append(0.5)
    check(state, edges, order)
    assert state.order.size > capacity


def test_a_tied_node_that_leaves_downwards_is_counted_below_the_others():
    state = packed(set(), [0.5, 0.5, 0.5], 3, (1.0, 1.0, 1.0))
    for node, expected in ((1, [1, 0, 1]), (0, [0, 0, 2])):
        core.set_order(state, node, 0.25)
        assert state.n_below[:3].tolist() == expected


@given(dags(), hyperparameters())
def test_grow_keeps_everything(dag, hyper):
    state = state_of(dag, hyper, max_hidden=17)
    state.low[0], state.high[0] = 0.125, 0.875
    state.locked[0, 0] = True
    n, grown = dag.n_nodes, core.grow(state)
    for name, old, new in zip(state._fields, state, grown, strict=True):
        if name == "parents":
            assert (new[:n, :n] == old[:n, :n]).all()
            assert new.shape == (2 * old.shape[0], 2 * old.shape[1])
            assert new.sum() == old.sum()
        elif name in ("locked", "hyper", "size"):
            assert (new == old).all()
        else:
            assert (new[:n] == old[:n]).all()
            assert new.size == 2 * old.size
    check(grown, edge_set(dag), dag.order.tolist())


@given(dags())
def test_with_room_grows_only_a_full_state(dag):
    state = state_of(dag, (1.0, 1.0, 1.0))
    capacity = state.order.size
    assert core.with_room(state).order.size == capacity
    while state.size[N_ACTIVE] < capacity:
        core.insert(state, 0.5)
    assert core.with_room(state).order.size == 2 * capacity


@given(dags())
def test_a_copy_is_independent(dag):
    state = state_of(dag, (1.0, 2.0, 3.0))
    copy = core.copy(state)
    for array in copy:
        array[...] = 1
    check(state, edge_set(dag), dag.order.tolist())
    assert state.hyper.tolist() == [1.0, 2.0, 3.0]


@given(dags())
def test_positions_in_the_ranking(dag):
    state = state_of(dag, (1.0, 1.0, 1.0))
    for height in (*GRID, *dag.order):
        assert core.n_at_or_below(state, height) == (dag.order <= height).sum()
    for node in range(dag.n_nodes):
        assert core.first_above(state, node) == (dag.order <= dag.order[node]).sum()
