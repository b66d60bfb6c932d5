"""The belief network at other powers of the likelihood: every move, and all of them, keep the tempered law."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from chefs import ChefsProcess
from chefs._core import hamiltonian, joint
from chefs._core.network import (
    NEWBORN_LOG_MASS,
    NEWBORN_SPREAD,
    NetworkState,
    gram_of,
    log_marginal,
    outputs,
    rows_of_parents,
)
from chefs._core.state import N_ACTIVE
from chefs.network.kernel import MOVES as OURS
from chefs.network.kernel import NetworkKernel
from tests.laws.graphs import state_of
from tests.laws.joint import CASES, MOST_HIDDEN, N_POINTS, Joint, twice
from tests.laws.test_network import (
    MOVES,
    edges,
    hyperparameters,
    invariance,
    joint_moves,
    orders,
    precisions,
    uniform_orders,
)
from tests.mutants import mutant
from tests.stats import check, check_caught

ZERO, MIXED, FREED = CASES
FEW = {3.0: N_POINTS, 0.4: 1, 0.0: N_POINTS}  # points of which there is an exact draw at each power


def tempered(power):
    """Exact draws of a joint law in which, given the data, all else has its law at that power.

    p(a | ρ)^β is that of a normal variable of precision βρ times ρ^(−(1−β)/2), up to a constant: so ρ of an observed node
    with s seen entries is Gamma(½ − s (1−β)/2, rate ½), which there is as long as that is positive. At power 0 the data may
    be anything.
    """

    def draw(rng, observed, missing):
        while True:
            prior = ChefsProcess(1 / rng.gamma(5.0, 0.2), rng.gamma(5.0, 0.2), rng.gamma(5.0, 0.2))
            dag = prior.sample(rng, observed)
            if dag.n_hidden <= MOST_HIDDEN:
                break
        graph, n, d, n_points = state_of(dag, prior, observed, MOST_HIDDEN), dag.n_nodes, len(observed), FEW[power]
        gone = rng.random((d, n_points)) < missing
        a, rho, shape, count = (
            np.zeros((graph.order.size, n_points)),
            np.ones(graph.order.size),
            np.full(n, 0.5),
            np.ones((n, n_points)),
        )
        if power > 0:
            shape[:d] -= (~gone).sum(axis=1) * (1 - power) / 2
            count[:d][~gone] = power
        rho[:n] = np.maximum(rng.gamma(shape, 2.0), 1e-12)
        bias, weight = rng.normal(size=n), rng.normal(size=(n, n)) * dag.edges.T
        for i in np.argsort(-dag.order):
            a[i] = bias[i] + weight[i] @ expit(a[:n]) + rng.normal(size=n_points) / np.sqrt(rho[i] * count[i])
            if power == 0 and i < d:
                a[i] = np.where(gone[i], a[i], 3 * rng.normal(size=n_points))
        masses = NEWBORN_LOG_MASS + NEWBORN_SPREAD * rng.normal(size=rho.size)
        return Joint(NetworkState(graph, a, rho, gone, masses, power), bias, weight)

    return draw


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_each_move_keeps_the_tempered_law(move):
    check(invariance(move, MIXED, seed=80, draw=tempered(3.0)))


@pytest.mark.parametrize("power", FEW)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("preset", [OURS, "paper"], ids=["ours", "paper"])
def test_all_moves_together_keep_the_tempered_law(preset, case, power):
    move = twice(ChefsProcess(), case, preset, FEW[power], power=power)
    check(invariance(move, case, seed=81, size=1_000, draw=tempered(power)))


DEAF = [move for move in MOVES if move not in (orders, uniform_orders, hyperparameters)]  # those see the graph alone


@pytest.mark.parametrize("move", DEAF, ids=lambda move: move.__name__)
def test_a_move_that_ignores_the_power_is_caught(move):
    def deaf(rng, state):
        for _ in range(10 if move is joint_moves else 3):  # each changes little
            state = move(rng, state._replace(power=1.0))
        return state._replace(power=0.0)

    check_caught(invariance(deaf, MIXED, seed=82, size=3_000, draw=tempered(0.0)))


@pytest.mark.parametrize("move", [edges, precisions], ids=lambda move: move.__name__)
def test_a_move_that_tempers_missing_entries_is_caught(move):
    def greedy(rng, state):
        missing = state.missing
        for _ in range(3):
            state = move(rng, state._replace(missing=np.zeros_like(missing)))
        return state._replace(missing=missing)

    check_caught(invariance(greedy, MIXED, seed=83, size=8_000, draw=tempered(0.0)))


@pytest.mark.parametrize("power", [1.0, 0.4, 0.0])
def test_an_updated_gram_is_that_of_the_state(power):
    """Also where entries are missing, which count in full; and it changes where the unit does."""
    rng, checked = np.random.default_rng(86), 0
    while checked < 20:
        state = tempered(3.0)(rng, [0.0, 0.3, 0.0], 0.3).state._replace(power=power)
        n, u, before = int(state.graph.size[N_ACTIVE]), outputs(state), gram_of(state)
        if n < 5:
            continue
        k = int(rng.integers(3, n))
        state.a[k] = rng.normal(size=N_POINTS)
        after = joint.update_gram(state, before, u, k)
        assert not np.allclose(after.uu, before.uu)
        assert np.array_equal(u, outputs(state))
        for ours, whole in zip(after, gram_of(state), strict=True):
            np.testing.assert_allclose(ours, whole, rtol=1e-12, atol=1e-12)
        checked += 1


def test_marginal_likelihood_at_a_power_is_that_of_the_gaussian_it_is():
    """∫ Π_t N(a_t; x_t w, 1/ρ)^c_t N(w; 0, I) dw against scipy."""
    rng, checked = np.random.default_rng(85), 0
    while checked < 50:
        state = tempered(3.0)(rng, [0.0, 0.3], 0.3).state._replace(power=0.4)
        n = int(state.graph.size[N_ACTIVE])
        state.rho[:n] = rng.gamma(2.0, 1.0, n)
        gram, plain = gram_of(state), gram_of(state._replace(power=1.0))
        for i in range(n):
            rows, count = rows_of_parents(state.graph, i), np.ones(N_POINTS)
            if i < 2:
                count[~state.missing[i]] = 0.4
            x = outputs(state)[rows]
            whole = stats.multivariate_normal(np.zeros(N_POINTS), np.diag(1 / (state.rho[i] * count)) + x.T @ x)
            truth = whole.logpdf(state.a[i]) - 0.5 * ((1 - count) * np.log(state.rho[i]) + np.log(count)).sum()
            ours = log_marginal(gram, i, rows, state.rho[i])
            assert ours - 0.5 * N_POINTS * math.log(2 * math.pi) == pytest.approx(truth, rel=1e-8, abs=1e-6)
            assert (ours != log_marginal(plain, i, rows, state.rho[i])) == (i < 2)  # hidden nodes are not tempered
            checked += rows.size > 1


def test_gradient_at_a_power_is_that_of_finite_differences():
    rng = np.random.default_rng(84)
    checked = 0
    while checked < 20:
        state = tempered(3.0)(rng, [0.0, 0.0, 0.5], 0.3).state
        n, d = int(state.graph.size[N_ACTIVE]), 3
        if n < d + 2 or np.abs(state.a[:n]).max() > 20:
            continue
        state.rho[:n] = state.rho[:n].clip(0.1, 5.0)
        slope = hamiltonian.slope_of(state)
        free = np.argwhere(state.missing)
        places = [(int(rng.integers(d, n)), int(rng.integers(N_POINTS))), tuple(free[rng.integers(len(free))])]
        for i, t in places:
            values = []
            for sign in (1, -1):
                state.a[i, t] += sign * 1e-5
                values.append(hamiltonian.slope_of(state).value)
                state.a[i, t] -= sign * 1e-5
            assert (values[0] - values[1]) / 2e-5 == pytest.approx(slope.a[i, t], rel=1e-4, abs=1e-4)
        for i in (0, d):
            old, values = state.rho[i], []
            for sign in (1, -1):
                state.rho[i] = old * math.exp(sign * 1e-5)
                values.append(hamiltonian.slope_of(state).value)
            state.rho[i] = old
            assert (values[0] - values[1]) / 2e-5 == pytest.approx(slope.log_rho[i], rel=1e-4, abs=1e-4)
        checked += 1


def slopes_differ(module, seed=85):
    """Whether slopes with blocks of 7 of the 20 points are others than those with all points in one."""
    rng, found = np.random.default_rng(seed), False
    for power in (1.0, 3.0):
        for _ in range(20):
            state = tempered(3.0)(rng, [0.0, 0.0, 0.5], 0.3).state._replace(power=power)
            for ours, theirs in zip(hamiltonian.slope_of(state), module.slope_of(state), strict=True):
                found |= not np.allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    return found


OFF_BY_A_BLOCK = {
    "weights of the first block": ("state.missing[i, begin + t]", "state.missing[i, t]"),
    "missing entries of the first block": ("state.missing[i, begin : begin + size]", "state.missing[i, :size]"),
    "precisions of the last block": ("by_rho[k] += inner(weighted[k, :size], r[k, :size])", "by_rho[k] += inner(weighted[k, :size], r[k, :size]) * (begin + BLOCK >= n_points)"),
}  # fmt: skip


def test_slopes_do_not_depend_on_the_blocks():
    assert not slopes_differ(mutant("hamiltonian", compiled=False, BLOCK=7))


@pytest.mark.parametrize("name", OFF_BY_A_BLOCK)
def test_blocks_that_are_mixed_up_are_caught(name):
    assert slopes_differ(mutant("hamiltonian", OFF_BY_A_BLOCK[name], compiled=False, BLOCK=7))


@pytest.mark.parametrize("power", [-0.5, math.inf, math.nan, "1", None])
def test_bad_powers_are_explained(power):
    with pytest.raises(ValueError, match="power must be a finite number, at least 0"):
        NetworkKernel(ChefsProcess(), [0.0], np.zeros((2, 1)), power=power)
