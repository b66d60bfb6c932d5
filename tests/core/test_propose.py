"""Moves against the naive density, their reverses, and what they leave of the state."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chefs._core import propose as moves
from chefs._core.density import chefs_insertion, log_reorder
from chefs._core.state import N_ACTIVE, N_OBSERVED, copy, unpack, with_room
from tests import naive
from tests.helpers import state_of
from tests.strategies import dags, hyperparameters

FORWARD = {
    moves.EDGE: moves.propose_edge,
    moves.BIRTH: moves.propose_birth,
    moves.DEATH: moves.propose_death,
    moves.DEEPEN: moves.propose_deepen,
    moves.FLATTEN: moves.propose_flatten,
}
REVERSE = {
    moves.EDGE: moves.EDGE,
    moves.BIRTH: moves.DEATH,
    moves.DEATH: moves.BIRTH,
    moves.DEEPEN: moves.FLATTEN,
    moves.FLATTEN: moves.DEEPEN,
}
names = pytest.mark.parametrize("kind", FORWARD, ids=[moves.KINDS[kind] for kind in FORWARD])
states = given(
    dag=dags(max_observed=4, max_hidden=5, hidden_apart=True), hyper=hyperparameters(), seed=st.integers(0, 2**32 - 1)
)


def density(state):
    order, parents, children = unpack(state)
    edges = set(zip(parents.tolist(), children.tolist(), strict=True))
    return naive.log_prob(edges, order.tolist(), int(state.size[N_OBSERVED]), *state.hyper.tolist())


def first_possible(rng, state, kind, tries=200):
    """A proposal of this kind that is not impossible, or None."""
    for _ in range(tries):
        proposal = FORWARD[kind](rng, state)
        if proposal.log_ratio > -math.inf:
            return proposal
    return None


def applied(state, proposal):
    new = copy(with_room(state))
    moves.apply(new, proposal)
    return new


def consistent(state):
    """Counts, ranking and positions are what they would be if computed from scratch."""
    n = int(state.size[N_ACTIVE])
    order, parents = state.order[:n], state.parents[:n, :n]
    assert (state.n_parents[:n] == parents.sum(axis=1)).all()
    assert (state.n_children[:n] == parents.sum(axis=0)).all()
    assert (state.n_below[:n] == (order[None, :] < order[:, None]).sum(axis=1)).all()
    assert (np.diff(order[state.ranking[:n]]) >= 0).all()
    assert (state.ranking[state.position[:n]] == np.arange(n)).all()
    assert not state.parents[n:].any()
    assert not state.parents[:, n:].any()


def selection_log_prob(state, proposal):
    """log of the probability (density, where there is a new order) with which `propose_…` picks this proposal.

    Written down independently of the kernels, from the graph alone.
    """
    n, d = int(state.size[N_ACTIVE]), int(state.size[N_OBSERVED])
    order, parents = state.order[:n], state.parents[:n, :n]
    i, k = proposal.node, proposal.other
    above = np.sort(order[order > order[i]])
    if proposal.kind == moves.EDGE:
        return -math.log(n) - math.log(above.size)
    if proposal.kind == moves.BIRTH:
        cuts = np.array([order[i], *above, 1.0])
        piece = np.searchsorted(cuts, proposal.height) - 1
        return -math.log(n) - math.log(above.size + 1) - math.log(cuts[piece + 1] - cuts[piece])
    if proposal.kind == moves.DEATH:
        orphans = [h for h in range(d, n) if parents[i, h] and parents[:, h].sum() == 1 and not parents[h].any()]
        return -math.log(n) - math.log(len(orphans))
    if proposal.kind == moves.DEEPEN:
        return -math.log(n) - math.log(parents[i].sum()) - math.log(order[k] - order[i])
    return -math.log(n - d)


@names
@states
def test_ratio_is_density_times_proposals(kind, dag, hyper, seed):
    """log_ratio = log f'/f + log q(back) − log q(there), with the naive density and our own count of choices."""
    rng, state = np.random.default_rng(seed), state_of(dag, hyper)
    proposal = first_possible(rng, state, kind)
    assume(proposal is not None)
    new = applied(state, proposal)
    back = find_reverse(rng, new, proposal, state)
    expected = density(new) - density(state) + selection_log_prob(new, back) - selection_log_prob(state, proposal)
    assert proposal.log_ratio == pytest.approx(expected, rel=1e-7, abs=1e-7)


def find_reverse(rng, new, proposal, old, tries=5_000):
    """The proposal that leads from `new` back to `old`, made by the kernels themselves.

    A reverse birth or deepening draws another order, a birth in the same interval: the old one is put in its place, and
    the ratio corrected by the difference of the insertions, the only term that depends on it.
    """
    kind = REVERSE[proposal.kind]
    n = int(new.size[N_ACTIVE])
    for _ in range(tries):
        back = FORWARD[kind](rng, new)
        if back.log_ratio == -math.inf:
            continue
        if kind == moves.EDGE and (back.node, back.other) == (proposal.node, proposal.other):
            return back
        if kind in (moves.DEATH, moves.FLATTEN) and back.other == n - 1:
            return back
        if kind in (moves.BIRTH, moves.DEEPEN):
            height = float(old.order[proposal.other])
            again = applied(new, back)
            there = kind == moves.DEEPEN or same_interval(new, back.height, height)  # the interval is part of a birth
            if there and same_but_for_order(again, old, n, proposal.other):
                shift = chefs_insertion(new, height) - chefs_insertion(new, back.height)
                return back._replace(height=height, log_ratio=back.log_ratio + shift)
    raise AssertionError("the reverse move was never proposed")


def same_but_for_order(a, b, new_node, old_node):
    """Whether two states have the same edges when `new_node` of a plays the part of `old_node` of b."""
    n = int(b.size[N_ACTIVE])
    place = list(range(n))
    place[old_node], place[n - 1] = new_node, old_node
    if old_node == n - 1:
        place[n - 1] = new_node
    return (a.parents[np.ix_(place, place)] == b.parents[:n, :n]).all()


def same_interval(state, a, b):
    order = state.order[: state.size[N_ACTIVE]]
    return ((order < a) == (order < b)).all()


@names
@settings(max_examples=600)
@states
def test_a_move_and_its_reverse_cancel(kind, dag, hyper, seed):
    """The log-ratios of a move and of its reverse, both from the kernels, sum to zero."""
    rng, state = np.random.default_rng(seed), state_of(dag, hyper)
    proposal = first_possible(rng, state, kind)
    assume(proposal is not None)
    new = applied(state, proposal)
    back = find_reverse(rng, new, proposal, state)
    assert proposal.log_ratio + back.log_ratio == pytest.approx(0.0, abs=1e-7 * (1 + abs(back.log_ratio)))
    assert density(applied(new, back)) == pytest.approx(density(state), rel=1e-9, abs=1e-9)


@states
def test_uniform_order_move_and_its_reverse_cancel(dag, hyper, seed):
    rng, state = np.random.default_rng(seed), state_of(dag, hyper)
    proposal = moves.propose_order(rng, state, False)
    assume(proposal.log_ratio > -math.inf)
    new = applied(state, proposal)
    assert proposal.log_ratio == pytest.approx(density(new) - density(state), rel=1e-7, abs=1e-7)
    back = log_reorder(new, proposal.node, state.order[proposal.node])
    assert proposal.log_ratio + back == pytest.approx(0.0, abs=1e-7 * (1 + abs(back)))


@states
def test_gibbs_order_has_the_conditional_density(dag, hyper, seed):
    """Probability integral transform: the share of the conditional density below a draw is uniform; here on average."""
    rng, state = np.random.default_rng(seed), state_of(dag, hyper)
    node = int(rng.integers(dag.n_nodes))
    first, last, low, high = moves.order_range(state, node)
    assume(low + 1e-6 < high)
    drawn = moves.draw_order(rng, state, node, first, last, low, high)
    assert low <= drawn <= high
    log_total = log_integral(state, node, low, high)
    log_below = log_integral(state, node, low, drawn)
    u = math.exp(log_below - log_total)
    assert -1e-6 <= u <= 1 + 1e-6


def log_integral(state, node, low, high):
    """log ∫ of the conditional density of the node's order, by Gauss-Legendre between the other orders."""
    n = int(state.size[N_ACTIVE])
    cuts = np.unique(np.clip([low, high, *np.delete(state.order[:n], node)], low, high))
    x, w = np.polynomial.legendre.leggauss(20)
    logs = [-math.inf]
    for a, b in zip(cuts[:-1], cuts[1:], strict=True):
        for point, weight in zip(x, w, strict=True):
            height = a + (b - a) * (point + 1) / 2
            if a < height < b:
                logs.append(math.log(weight * (b - a) / 2) + log_reorder(state, node, height))
    return float(np.logaddexp.reduce(logs))


def test_gibbs_order_is_uniform_under_its_own_distribution_function():
    """The same transform over many draws in one graph: a Kolmogorov-Smirnov test."""
    from scipy.stats import kstest

    from chefs import ChefsProcess
    from tests.stats import check

    rng = np.random.default_rng(50)
    prior = ChefsProcess(1.5, 4.0, 2.0)
    p_values = {}
    for case in range(6):
        dag = prior.sample(rng, [0.0, math.nan, 0.3, 0.3])
        state = state_of(dag, (prior.alpha, prior.gamma, prior.phi))
        node = int(rng.integers(1, dag.n_nodes))
        first, last, low, high = moves.order_range(state, node)
        if not low < high:
            continue
        total = log_integral(state, node, low, high)
        draws = [moves.draw_order(rng, state, node, first, last, low, high) for _ in range(300)]
        u = [math.exp(log_integral(state, node, low, x) - total) for x in draws]
        p_values[f"graph {case}"] = kstest(u, "uniform").pvalue
    assert len(p_values) >= 4
    check(p_values)


@states
def test_state_stays_consistent_under_many_moves(dag, hyper, seed):
    rng, state = np.random.default_rng(seed), state_of(dag, hyper)
    mix = np.array([0.4, 0.7, 0.9, 1.0, 1.0, 0.0])
    tally = np.zeros((6, 2), dtype=np.int64)
    hyper_none = np.zeros((3, 2))
    for _ in range(10):
        state = moves.run(rng, state, mix, hyper_none, 7, tally)
        consistent(state)
        assert density(state) > -math.inf
    assert tally[:, 0].sum() == 70
    assert (tally[:, 1] <= tally[:, 0]).all()
