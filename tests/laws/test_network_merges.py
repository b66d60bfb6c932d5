"""Splits and merges keep the joint law: with proposals so wide that they are often accepted, and errors are caught.

What the library draws pairs from is fitted to those that chains get stuck in, and hardly ever meets one of the prior.
Only those constants are other here.
"""

import functools
import itertools

import numpy as np
import pytest
from scipy.special import expit

from chefs import CascadingBuffet, ChefsProcess, Dag
from chefs._core.network import NEWBORN_LOG_MASS, NetworkState, gram_of
from chefs._core.state import N_ACTIVE
from chefs.network import merge_draws, merges
from chefs.network.kernel import NetworkKernel
from chefs.network.start import Start
from tests.laws.graphs import state_of
from tests.laws.joint import CASES, forward
from tests.laws.test_network import invariance
from tests.laws.test_network_tempered import tempered
from tests.stats import check, check_caught

ZERO, MIXED, FREED = CASES
N_TRIES = 12


@pytest.fixture
def wide(monkeypatch):
    """Pairs like those of the prior."""
    constants = {"SHARE_SD": 0.3, "SHIFT_SD": 0.3, "OWN_SD": 0.8, "OWN_BIAS_SD": 0.8}
    constants |= {"EDGE": 0.4, "EDGE_SD": 1.1, "BIAS_SD": 1.1}
    for name, value in constants.items():
        monkeypatch.setattr(merge_draws, name, value)


def with_something_to_do(draw):
    """Joint draws whose graph has a unit to split or a pair to merge: as it has after any split or merge."""

    def drawn(rng, observed, missing):
        while True:
            joint = draw(rng, observed, missing)
            if len(merges.units_to_split(joint.state.graph)) or merges.pairs_to_merge(joint.state.graph):
                return joint

    return drawn


def p_values(case, draw, seed=90, size=1_000):
    """Of what splits and merges leave of the joint law, and how many of either there were."""
    changes = np.zeros(2, dtype=int)

    def move(rng, state):
        for _ in range(N_TRIES):
            before = state.graph.size[N_ACTIVE]
            state, tried, accepted = merges.merge_moves(rng, state, 1)
            assert tried == 1 and accepted == abs(state.graph.size[N_ACTIVE] - before)
            changes[0] += state.graph.size[N_ACTIVE] > before
            changes[1] += state.graph.size[N_ACTIVE] < before
        return state

    return invariance(move, case, seed, size, with_something_to_do(draw)), changes


@pytest.mark.parametrize(
    ("case", "draw", "size"),
    [
        pytest.param(ZERO, functools.partial(forward, n_points=4), 1_000, id="observed at 0"),
        pytest.param(FREED, functools.partial(forward, n_points=4), 1_000, id="free orders, missing entries"),
        pytest.param(MIXED, functools.partial(forward, n_points=4), 4_000, id="mixed", marks=pytest.mark.evidence),
        pytest.param(MIXED, tempered(0.4), 4_000, id="power 0.4", marks=pytest.mark.evidence),
    ],
)
def test_splits_and_merges_keep_the_joint_law(case, draw, size, wide):
    found, changes = p_values(case, draw, size=size)
    check(found)
    assert changes.min() > 25, changes


ERRORS = {
    "splits without a density of the pair's numbers": (merges, "log_draw_pair", lambda *given: 0.0),
    "a merge without a density of the unit's numbers": (merges, "log_draw_unit", lambda *given: 0.0),
    "a choice of orders by nobody": (merges, "log_choice", lambda *given: 3.0),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_splits_and_merges_are_caught(name, wide, monkeypatch):
    monkeypatch.setattr(*ERRORS[name])
    check_caught(p_values(ZERO, functools.partial(forward, n_points=4))[0])


def network_of(rng, dag, weight, bias, rho, n_points):
    """A state of the model with these numbers, its observed rows the data."""
    a = np.zeros((dag.n_nodes, n_points))
    for i in np.argsort(-dag.order):
        a[i] = bias[i] + weight[:, i] @ expit(a) + rng.normal(size=n_points) / np.sqrt(rho[i])
    return Start(dag, a, rho)


def pair_in_place_of_one(rng, n_points=1000):
    """Three children of one unit, and a chain that explains them by a pair."""
    one = Dag([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]], [0, 0, 0, 0.5], 3)
    weight = np.zeros((4, 4))
    weight[3, :3] = 2.7, -2.6, 2.8
    data = network_of(rng, one, weight, np.zeros(4), np.array([8.0, 8.0, 8.0, 0.16]), n_points).a[:3]
    edges = np.zeros((5, 5), dtype=bool)
    edges[3, :3], edges[4, :4] = True, True
    pair = Dag(edges, [0, 0, 0, 0.5, 0.8], 3)
    switch = 10.0 * rng.normal(size=n_points)
    hidden = np.stack([1.5 - 3.0 * expit(switch) + 1.7 * rng.normal(size=n_points), switch])
    return data, Start(pair, np.concatenate([data, hidden]), np.array([8.0, 8.0, 8.0, 0.35, 0.01]))


def test_a_pair_that_does_the_work_of_one_is_merged(monkeypatch):
    """Trajectories let the pair explain the data first; with merges there is one unit then, and without them there are two."""
    monkeypatch.setattr(merges, "RATE", 0.05)  # some fifty attempts
    rng = np.random.default_rng(91)
    data, start = pair_in_place_of_one(rng)
    for moves, n_left in (
        (("resample", "hamiltonian", "precision"), 2),
        (("resample", "hamiltonian", "precision", "merge"), 1),
    ):
        kernel = NetworkKernel(ChefsProcess(1, 1, 1), np.zeros(3), data.T.copy(), start=start, moves=moves)
        chain = kernel.init(rng)
        for _ in range(1000):
            chain, _ = kernel.step(rng, chain)
        assert chain.network.graph.size[N_ACTIVE] - 3 == n_left


@pytest.mark.parametrize(("h", "k", "other"), list(itertools.permutations((3, 4, 5))))
def test_a_merge_leaves_everything_else_as_it_is(h, k, other, monkeypatch):
    """A merge that is always accepted, whichever numbers its nodes have: the last takes that of k."""
    monkeypatch.setattr(merges, "log_draw_unit", lambda *given: -1e9)
    edges, order = np.zeros((6, 6), dtype=bool), np.zeros(6)
    edges[h, [0, 1]], edges[k, [0, 1, h]], edges[other, 2] = True, True, True
    order[[h, k, other]] = 0.4, 0.6, 0.5
    graph = state_of(Dag(edges, order, 3), ChefsProcess(), [0.0] * 3, 9)
    rng, size = np.random.default_rng(93), len(graph.order)
    state = NetworkState(
        graph, rng.normal(size=(size, 6)), np.arange(1.0, size + 1), np.zeros((3, 6), bool), np.ones(size)
    )
    state.log_mass[:] = np.arange(size)
    before = state.a.copy()
    assert merges.try_merge(rng, state, gram_of(state), h, k)
    place = {node: k if node == 5 else node for node in (h, other)}  # the last takes the number of k
    assert graph.size[N_ACTIVE] == 5 and graph.order[place[h]] == 0.4 and graph.order[place[other]] == 0.5
    assert np.flatnonzero(graph.parents[:5, place[h]]).tolist() == [0, 1] and graph.n_parents[place[h]] == 0
    assert np.flatnonzero(graph.parents[:5, place[other]]).tolist() == [2]
    assert np.array_equal(state.a[:3], before[:3]) and np.array_equal(state.a[place[other]], before[other])
    assert not np.array_equal(state.a[place[h]], before[h])
    assert state.rho[place[other]] == other + 1 and state.rho[place[h]] not in (h + 1, k + 1)
    assert [state.log_mass[place[node]] for node in (h, other)] == [h, other]


def test_which_units_may_be_split_and_which_pairs_merged():
    edges = np.zeros((6, 6), dtype=bool)
    edges[3, [0, 1]], edges[4, [0, 1, 3]], edges[5, [2]] = True, True, True
    graph = state_of(Dag(edges, [0, 0, 0, 0.4, 0.6, 0.5], 3), ChefsProcess(), [0.0] * 3, 9)
    assert merges.pairs_to_merge(graph) == [(3, 4)] and merges.units_to_split(graph).tolist() == [4]
    for parent, child in ((4, 2), (5, 3), (3, 2)):  # another child of k, another parent of h, another child of h
        more = edges.copy()
        more[parent, child] = True
        graph = state_of(Dag(more, [0, 0, 0, 0.4, 0.6, 0.5], 3), ChefsProcess(), [0.0] * 3, 9)
        assert not merges.pairs_to_merge(graph)


def test_nothing_is_split_beyond_the_limit_or_under_another_prior():
    rng = np.random.default_rng(92)
    dag = Dag([[0, 0, 0], [0, 0, 0], [1, 1, 0]], [0, 0, 0.5], 2)
    graph = state_of(dag, ChefsProcess(), [0.0, 0.0], 1)
    a = rng.normal(size=(graph.order.size, 5))
    rho = np.ones(len(a))
    state = NetworkState(graph, a, rho, np.zeros((2, 5), bool), np.full(len(a), NEWBORN_LOG_MASS))
    assert merges.merge_moves(rng, state, 300)[1:] == (300, 0)
    kernel = NetworkKernel(CascadingBuffet(), np.zeros(2), rng.normal(size=(5, 2)), moves=("birth", "merge"))
    chain, accepted = kernel.init(rng), np.zeros(2, dtype=int)
    for _ in range(50):
        chain, info = kernel.step(rng, chain)
        accepted += info.tally[:, 1]
    assert kernel.move_names == ("birth", "merge") and accepted[0] > 0 and accepted[1] == 0
