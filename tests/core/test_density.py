"""The compiled density and its increments against the whole density of the naive twin, before and after."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chefs import ChefsProcess
from chefs._core import density
from chefs._core import state as core
from tests import naive
from tests.helpers import naive_graph, packed, state_of
from tests.strategies import dags, hyperparameters, orders


def agree(found, after, before):
    """`found` is after − before, to the rounding of the two."""
    assert math.isfinite(found)
    assert found == pytest.approx(after - before, rel=1e-9, abs=1e-11 * (abs(after) + abs(before)) + 1e-10)


@given(dags(), hyperparameters())
def test_log_prob(dag, hyper):
    expected = naive.log_prob(*naive_graph(dag), *hyper)
    assert math.isfinite(expected)
    assert ChefsProcess(*hyper).log_prob(dag) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    state = state_of(dag, (5.0, 5.0, 5.0))
    assert density.log_prob_of_state(state, *hyper) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_hidden_node_without_children_has_no_density():
    state = packed(set(), [0.0, 0.5], 1, (1.0, 1.0, 1.0))
    assert density.log_prob_of_state(state, 1.0, 1.0, 1.0) == -math.inf


@given(dags(), hyperparameters())
def test_exposure(dag, hyper):
    alpha, gamma, phi = hyper
    doubled = naive.log_prob(*naive_graph(dag), alpha, 2 * gamma, phi)
    change = dag.n_hidden * math.log(2) - (doubled - naive.log_prob(*naive_graph(dag), alpha, gamma, phi))
    exposure = density.exposure(np.sort(dag.order), alpha)
    assert alpha * gamma * exposure == pytest.approx(change, rel=1e-7, abs=1e-10 * (1 + abs(doubled)))


@given(st.data(), dags(), hyperparameters())
def test_chefs_insertion(data, dag, hyper):
    assume(dag.order.min() < 1)
    edges, order, n_observed = naive_graph(dag)
    height = data.draw(orders(above=min(order)) | st.sampled_from([1.0, *(x for x in order if x > min(order))]))
    child = data.draw(st.sampled_from([i for i, x in enumerate(order) if x < height]))
    after = naive.log_prob(edges | {(len(order), child)}, [*order, height], n_observed, *hyper)
    agree(density.chefs_insertion(state_of(dag, hyper), height), after, naive.log_prob(*naive_graph(dag), *hyper))


@given(st.data(), dags(), hyperparameters())
def test_chefs_removal(data, dag, hyper):
    """A removal undoes an insertion, wherever the node stands and whatever number it has."""
    assume(dag.order.min() < 1)
    edges, order, n_observed = naive_graph(dag)
    height = data.draw(orders(above=min(order)) | st.sampled_from([1.0, *(x for x in order if x > min(order))]))
    child = data.draw(st.sampled_from([i for i, x in enumerate(order) if x < height]))
    number = data.draw(st.integers(n_observed, len(order)))
    larger = [*order[:number], height, *order[number:]]
    shifted = {(k + (k >= number), i + (i >= number)) for k, i in edges}
    shifted.add((number, child + (child >= number)))
    state = packed(shifted, larger, n_observed, hyper)
    after = naive.log_prob(edges, order, n_observed, *hyper)
    agree(density.chefs_removal(state, number), after, naive.log_prob(shifted, larger, n_observed, *hyper))


@given(st.data(), dags(), hyperparameters())
def test_log_reorder(data, dag, hyper):
    edges, order, n_observed = naive_graph(dag)
    node = data.draw(st.integers(0, dag.n_nodes - 1))
    low = max([order[i] for k, i in edges if k == node], default=-1.0)
    high = min([order[k] for k, i in edges if i == node], default=2.0)
    height = data.draw((st.sampled_from(order) | orders()).filter(lambda x: low < x < high))
    moved = [*order[:node], height, *order[node + 1 :]]
    after = naive.log_prob(edges, moved, n_observed, *hyper)
    agree(density.log_reorder(state_of(dag, hyper), node, height), after, naive.log_prob(*naive_graph(dag), *hyper))


@given(st.data(), dags(ties=False), hyperparameters())
def test_log_jump(data, dag, hyper):
    """Passing the next node above. With next to no mass the gaps between orders do not matter."""
    edges, order, n_observed = naive_graph(dag)
    ranking = sorted(range(len(order)), key=lambda k: order[k])
    steps = [(a, b) for a, b in itertools.pairwise(ranking) if (b, a) not in edges]
    assume(steps)
    node, other = data.draw(st.sampled_from(steps))
    swapped = list(order)
    swapped[node], swapped[other] = order[other], order[node]
    alpha, _, phi = hyper
    after = naive.log_prob(edges, swapped, n_observed, alpha, 1e-15, phi)
    before = naive.log_prob(edges, order, n_observed, alpha, 1e-15, phi)
    at = ranking.index(node)
    agree(density.log_jump(state_of(dag, hyper), node, at, other, at), after, before)


@given(st.data(), dags(), hyperparameters())
def test_chefs_odds(data, dag, hyper):
    edges, order, n_observed = naive_graph(dag)
    pairs = [
        (k, i)
        for k in range(len(order))
        for i in range(len(order))
        if order[k] > order[i] and (k < n_observed or naive.n_children(edges - {(k, i)}, k))
    ]
    assume(pairs)
    edge = data.draw(st.sampled_from(pairs))
    present = naive.log_prob(edges | {edge}, order, n_observed, *hyper)
    absent = naive.log_prob(edges - {edge}, order, n_observed, *hyper)
    agree(density.chefs_odds(state_of(dag, hyper), *edge), present, absent)


@given(st.data(), dags(max_observed=3, max_hidden=3), hyperparameters())
def test_one_more_and_one_less_below(data, dag, hyper):
    """The factor of one node as the density writes it, with ↓ one larger and one smaller."""
    edges, order, n_observed = naive_graph(dag)
    node = data.draw(st.integers(0, dag.n_nodes - 1))
    alpha, _, phi = hyper
    own_phi = phi if node < n_observed else 0.0
    m, below = naive.n_children(edges, node), naive.n_below(order, node)

    def factor(below):
        head = naive.log_rising(own_phi, m) if own_phi else math.lgamma(m)
        return head + naive.log_rising(alpha, below - m) - naive.log_rising(alpha + own_phi, below)

    state = state_of(dag, hyper)
    agree(math.log(density.one_more_below(state, node)), factor(below + 1), factor(below))
    if below > m:
        agree(math.log(density.one_less_below(state, node)), factor(below - 1), factor(below))


@given(st.data(), dags(), hyperparameters())
def test_increments_are_of_the_graph_that_results(data, dag, hyper):
    """After the state has changed, its density is the old one plus the increment."""
    assume(dag.order.min() < 1)
    state = core.with_room(state_of(dag, hyper))
    before = density.log_prob_of_state(state, *hyper)
    height = data.draw(orders(above=float(dag.order.min())))
    child = int(np.argmin(dag.order))
    gain = density.chefs_insertion(state, height)
    node = core.insert(state, height)
    core.add_edge(state, node, child)
    agree(gain, density.log_prob_of_state(state, *hyper), before)
    agree(density.chefs_removal(state, node), before, density.log_prob_of_state(state, *hyper))
