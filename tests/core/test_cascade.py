"""Buffets in the kernels: layers, densities, their increments and the moves, against the twins of `tests.layers`."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chefs._core import density
from chefs._core import layers as core
from chefs._core import propose as moves
from chefs._core.state import MAX_HIDDEN, N_ACTIVE, N_OBSERVED, unpack, with_room
from chefs.buffets import ExtendedBuffet, IndianBuffet
from tests.core.test_propose import applied, consistent
from tests.helpers import edge_set
from tests.layers import FAMILIES, dag_of, floor, layers_of, log_density, state_of
from tests.strategies import positive_numbers

MOVES = {moves.EDGE: moves.propose_edge, moves.BIRTH: moves.propose_birth, moves.DEATH: moves.propose_death}
families = pytest.mark.parametrize("kind", FAMILIES.values(), ids=FAMILIES)


@st.composite
def layered(draw, kind, most=4):
    """Any graph of this family with few nodes in each of a few layers."""
    sizes = draw(st.lists(st.integers(1, most), min_size=1, max_size=2 if kind is IndianBuffet else 5))
    layers = [level for level, size in enumerate(sizes) for _ in range(size)]
    edges = set()
    for k in range(sizes[0], len(layers)):
        near = [i for i in range(k) if layers[i] == layers[k] - 1]
        far = [i for i in range(k) if layers[i] < layers[k] - 1] if kind is ExtendedBuffet else []
        children = draw(st.sets(st.sampled_from(near), min_size=1))
        children |= draw(st.sets(st.sampled_from(far))) if far else set()
        edges |= {(k, i) for i in children}
    shuffled = draw(st.permutations([x / 101 for x in range(1, len(layers) + 1)]))
    return dag_of(edges, layers, sizes[0], kind, shuffled)


def marked(state, kind):
    """The twin's density of what the state holds, hyperparameters included."""
    order, parents, children = unpack(state)
    edges = set(zip(parents.tolist(), children.tolist(), strict=True))
    alpha, gamma, _ = state.hyper.tolist()
    return log_density(kind, edges, layers_of(order), int(state.size[N_OBSERVED]), alpha, gamma)


def log_lengths(order, n_observed):
    """Σ log of the lengths of the layers of all hidden nodes."""
    return sum(-math.log(2) * (level + 1) for level in layers_of(order[n_observed:]))


def close(a, b):
    assert a == pytest.approx(b, rel=1e-9, abs=1e-8)


class TestLayers:
    @pytest.mark.parametrize("level", [1, 2, 3, 17, 39, 40])
    def test_both_ends_of_a_layer(self, level):
        state = state_of(dag_of(set(), [0], 1, None), ExtendedBuffet())
        low, high = floor(level), floor(level + 1)
        assert core.floor_of(state, level) == low
        for height in (low, np.nextafter(low, 1), (low + high) / 2, np.nextafter(high, 0)):
            assert core.layer_at(state, height) == level

    @pytest.mark.parametrize("level", [1, 2, 20, 40])
    def test_orders_are_drawn_within_a_layer(self, level):
        state, rng = state_of(dag_of(set(), [0], 1, None), ExtendedBuffet()), np.random.default_rng(0)
        drawn = np.array([core.height_in(rng, state, level) for _ in range(5_000)])
        assert (drawn >= floor(level)).all() and (drawn < floor(level + 1)).all()
        fractions = (drawn - floor(level)) * 2.0 ** (level + 1)
        np.testing.assert_allclose(np.quantile(fractions, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.03)

    @families
    @given(st.data())
    def test_counts(self, kind, data):
        dag = data.draw(layered(kind))
        state, layers = state_of(dag, kind()), layers_of(dag.order)
        for level in range(1, max(layers) + 3):
            below = [at for at in layers if at < level]
            assert core.n_under(state, level) == len(below)
            possible = below if kind is ExtendedBuffet else [at for at in below if at == level - 1]
            if level <= core.n_layers(state):
                assert core.n_customers(state, level) == len(possible)

    @families
    @given(st.data())
    def test_candidates_are_edges_whose_flip_leaves_a_possible_graph(self, kind, data):
        dag = data.draw(layered(kind))
        state, edges, layers = state_of(dag, kind()), edge_set(dag), layers_of(dag.order)
        for k, i in itertools.product(range(dag.n_nodes), repeat=2):
            if dag.order[k] > dag.order[i]:
                flipped = log_density(kind, edges ^ {(k, i)}, layers, dag.n_observed, 1.0, 1.0)
                assert core.fits_layers(state, k, i) == (flipped > -math.inf)

    @families
    @given(st.data())
    def test_parents_that_a_node_may_have(self, kind, data):
        dag = data.draw(layered(kind))
        state, layers = state_of(dag, kind()), layers_of(dag.order)
        for i in range(dag.n_nodes):
            first, last = core.parents_between(state, i)
            expected = [
                k
                for k in range(dag.n_nodes)
                if (layers[k] > layers[i] if kind is ExtendedBuffet else layers[k] == layers[i] + 1)
            ]
            assert sorted(state.ranking[first:last].tolist()) == expected


class TestDensity:
    @families
    @given(st.data(), positive_numbers(), positive_numbers())
    def test_log_prob(self, kind, data, alpha, gamma):
        """Of the state and of the `Dag`, which are the same number."""
        dag = data.draw(layered(kind))
        expected = log_density(kind, edge_set(dag), layers_of(dag.order), dag.n_observed, alpha, gamma)
        if kind is IndianBuffet:
            rows = [row.tobytes() for row in dag.edges[dag.n_observed :]]
            expected -= sum(math.lgamma(rows.count(row) + 1) for row in set(rows))
        else:
            expected -= log_lengths(dag.order, dag.n_observed)
        close(density.log_prob_of_state(state_of(dag, kind()), alpha, gamma, 1.0), expected)
        close(kind(alpha, gamma).log_prob(dag), expected)

    @families
    @given(st.data(), positive_numbers(), positive_numbers())
    def test_edge_odds(self, kind, data, alpha, gamma):
        dag = data.draw(layered(kind))
        state, edges, layers = state_of(dag, kind(alpha, gamma)), edge_set(dag), layers_of(dag.order)
        pairs = [
            (k, i)
            for k, i in itertools.product(range(dag.n_nodes), repeat=2)
            if dag.order[k] > dag.order[i] and core.fits_layers(state, k, i)
        ]
        assume(pairs)
        k, i = data.draw(st.sampled_from(pairs))
        with_edge, without = (
            log_density(kind, some, layers, dag.n_observed, alpha, gamma)
            for some in (edges | {(k, i)}, edges - {(k, i)})
        )
        close(density.layer_odds(state, k, i), with_edge - without)

    @families
    @given(st.data(), positive_numbers())
    def test_exposure_is_what_gamma_multiplies(self, kind, data, alpha):
        dag = data.draw(layered(kind))
        state = state_of(dag, kind(alpha, 1.0))
        one, two = (density.log_prob_of_state(state, alpha, gamma, 1.0) for gamma in (1.0, 2.0))
        close(alpha * density.layer_exposure(state, alpha), one - two + dag.n_hidden * math.log(2))


def first_possible(rng, state, kind, tries=200):
    for _ in range(tries):
        proposal = MOVES[kind](rng, state)
        if proposal.log_ratio > -math.inf:
            return proposal
    return None


def selection_log_prob(state, proposal, kind):
    """Log probability with which this proposal is picked, orders within a layer left out, from the graph alone."""
    n, d = int(state.size[N_ACTIVE]), int(state.size[N_OBSERVED])
    layers, parents = np.array(layers_of(state.order[:n])), state.parents[:n, :n]
    i = proposal.node
    if proposal.kind == moves.EDGE:
        above = layers > layers[i] if kind is ExtendedBuffet else layers == layers[i] + 1
        return -math.log(n) - math.log(above.sum())
    if proposal.kind == moves.BIRTH:
        return -math.log(n)
    orphans = [h for h in range(d, n) if parents[i, h] and parents[:, h].sum() == 1 and not parents[h].any()]
    return -math.log(n) - math.log(len(orphans))


def reverse_of(rng, new, proposal, tries=5_000):
    """The proposal that leads back, made by the kernels themselves."""
    last = int(new.size[N_ACTIVE])  # whose number the dead unit's was, if it was not the dead unit itself
    for _ in range(tries):
        if proposal.kind == moves.EDGE:
            back = moves.propose_edge(rng, new)
            found = (back.node, back.other) == (proposal.node, proposal.other)
        elif proposal.kind == moves.BIRTH:
            back = moves.propose_death(rng, new)
            found = back.other == last - 1
        else:
            back = moves.propose_birth(rng, new)
            found = back.node == (proposal.other if proposal.node == last else proposal.node)
        if found:
            return back
    raise AssertionError("the reverse move was never proposed")


class TestMoves:
    @families
    @pytest.mark.parametrize("move", MOVES, ids=[moves.KINDS[move] for move in MOVES])
    @given(st.data(), positive_numbers(), positive_numbers(), st.integers(0, 2**32 - 1))
    def test_ratio_is_density_times_proposals(self, kind, move, data, alpha, gamma, seed):
        """Also there and back: the log ratios of a move and of its reverse sum to zero."""
        rng, state = np.random.default_rng(seed), state_of(data.draw(layered(kind)), kind(alpha, gamma))
        proposal = first_possible(rng, state, move)
        assume(proposal is not None)
        new = applied(state, proposal)
        consistent(new)
        back = reverse_of(rng, new, proposal)
        expected = marked(new, kind) - marked(state, kind)
        expected += selection_log_prob(new, back, kind) - selection_log_prob(state, proposal, kind)
        close(proposal.log_ratio, expected)
        close(proposal.log_ratio, -back.log_ratio)

    @families
    @given(st.data(), st.integers(0, 2**32 - 1))
    def test_a_newborn_is_in_the_layer_above_its_child(self, kind, data, seed):
        rng, state = np.random.default_rng(seed), state_of(data.draw(layered(kind)), kind())
        proposal = first_possible(rng, state, moves.BIRTH)
        assert proposal is not None
        assert layers_of([proposal.height])[0] == layers_of([state.order[proposal.node]])[0] + 1
        state.size[MAX_HIDDEN] = state.size[N_ACTIVE] - state.size[N_OBSERVED]
        assert first_possible(rng, state, moves.BIRTH) is None

    @families
    @given(st.data(), st.integers(0, 2**32 - 1))
    def test_orders_stay_in_their_layers(self, kind, data, seed):
        rng, state = np.random.default_rng(seed), state_of(data.draw(layered(kind)), kind())
        before = layers_of(state.order[: state.size[N_ACTIVE]])
        for _ in range(30):
            proposal = moves.propose_order(rng, state, bool(seed % 2))
            assert proposal.log_ratio in (0.0, -math.inf)
            if proposal.log_ratio == 0.0:
                assert kind is not IndianBuffet and proposal.node >= state.size[N_OBSERVED]
                moves.apply(state, proposal)
        assert layers_of(state.order[: state.size[N_ACTIVE]]) == before
        consistent(state)

    @families
    def test_there_are_no_depth_moves(self, kind):
        rng, state = np.random.default_rng(0), state_of(dag_of({(1, 0)}, [0, 1], 1, kind), kind())
        mix = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
        assert all(moves.propose(rng, state, mix).log_ratio == -math.inf for _ in range(50))

    @families
    def test_a_long_run_never_leaves_what_is_possible(self, kind):
        rng, prior = np.random.default_rng(1), kind(1.5, 1.4)
        state = state_of(dag_of(set(), [0, 0, 0], 3, kind), prior, max_hidden=40)
        mix, none = np.array([0.5, 0.9, 1.0, 1.0, 1.0, 0.0]), np.zeros((3, 2))
        for _ in range(300):
            state = moves.run(rng, state, mix, none, 100, np.zeros((6, 2), dtype=np.int64))
            assert marked(state, kind) > -math.inf
        consistent(state)
        assert state.size[N_ACTIVE] <= 43

    @pytest.mark.parametrize("name", ["cascading", "extended"])
    def test_no_unit_is_born_above_the_last_layer(self, name):
        kind, n = FAMILIES[name], core.MOST_LAYERS
        tower = dag_of({(k + 1, k) for k in range(n)}, list(range(n + 1)), 1, kind)
        rng, state = np.random.default_rng(2), with_room(state_of(tower, kind(1.0, 3.0)))
        born = [moves.propose_birth(rng, state) for _ in range(2_000)]
        assert {p.node for p in born if p.log_ratio == -math.inf} == {n}
        assert {p.node for p in born if p.log_ratio > -math.inf} == set(range(n))
