"""The laws of the belief network: every move, and all of them together, leave the joint law of everything as it is."""

import math

import numpy as np
import pytest
from scipy import stats

from chefs import ChefsProcess, Dag, Hyperpriors
from chefs._core import ancestral, hamiltonian, learn, network, paper
from chefs._core.network import NetworkState, gram_of, log_likelihood, log_marginal, rows_of_parents
from chefs._core.state import N_ACTIVE, N_OBSERVED
from chefs.network.kernel import MOVES as OURS
from chefs.network.kernel import NetworkChain, NetworkKernel
from tests.laws.graphs import FREE, state_of
from tests.mutants import mutant
from tests.stats import check, check_caught, same_p_value

N_POINTS = 20
MOST_HIDDEN = 3
LIGHT = Hyperpriors(alpha=(5.0, 5.0), gamma=(5.0, 5.0), phi=(5.0, 5.0))
CASES = {
    "observed at 0": ([0.0, 0.0], 0.0),
    "mixed orders, missing entries": ([0.0, 0.4, 1.0], 0.2),
    "free orders": ([FREE, FREE], 0.0),
}


def forward(rng, observed, missing):
    """Hyperparameters, a graph with few hidden units, precisions, weights, activations and data from the model."""
    while True:
        prior = ChefsProcess(1 / rng.gamma(5.0, 0.2), rng.gamma(5.0, 0.2), rng.gamma(5.0, 0.2))
        dag = prior.sample(rng, observed)
        if dag.n_hidden <= MOST_HIDDEN:
            break
    graph = state_of(dag, prior, observed, MOST_HIDDEN)
    gone = rng.random((len(observed), N_POINTS)) < missing
    state = NetworkState(graph, np.zeros((graph.order.size, N_POINTS)), np.ones(graph.order.size), gone)
    network.simulate(rng, state)
    return state


NAMES = (
    "nodes", "edges", "alpha", "gamma", "phi", "log ρ of the first", "smallest log ρ", "mean log ρ of hidden",
    "median of hidden", "log variance of hidden", "log-likelihood", "mean order", "mean of the first", "fit", "gain of the edges",
)  # fmt: skip


def summary(state):
    n, d = int(state.graph.size[N_ACTIVE]), int(state.graph.size[N_OBSERVED])
    hidden, log_rho = state.a[d:n], np.log(state.rho[:n])
    some = n > d
    return [
        n,
        state.graph.n_parents[:n].sum(),
        *state.graph.hyper,
        log_rho[0],
        log_rho.min(),
        log_rho[d:].mean() if some else 0.0,
        np.median(hidden) if some else 0.0,
        np.log(hidden.var(axis=1) + 1e-300).mean() if some else 0.0,
        log_likelihood(state),
        state.graph.order[:n].mean(),
        state.a[0].mean(),
        state.rho[0] * state.a[0].var(),
        gain_of_edges(state),
    ]


def gain_of_edges(state):
    """How much better the nodes are explained by their parents than by nothing: what edges are for."""
    gram, alone = gram_of(state), np.zeros(1, dtype=np.int64)
    return sum(
        log_marginal(gram, i, rows_of_parents(state.graph, i), state.rho[i])
        - log_marginal(gram, i, alone, state.rho[i])
        for i in range(state.graph.size[N_ACTIVE])
    )


def invariance(move, case, seed, size=3_000):
    """Joint draws moved on, against fresh joint draws."""
    rng = np.random.default_rng(seed)
    observed, missing = CASES[case]
    moved = np.array([summary(move(rng, forward(rng, observed, missing))) for _ in range(size)]).T
    fresh = np.array([summary(forward(rng, observed, missing)) for _ in range(2 * size)]).T
    return {
        name: same_p_value(a.astype(int), b.astype(int)) if name in ("nodes", "edges") else same_p_value(a, b)
        for name, a, b in zip(NAMES, moved, fresh, strict=True)
    }


def edges(rng, state, module=learn):
    module.edge_moves(rng, state, 3)
    return state


def orders(rng, state):
    learn.order_moves(rng, state, True)
    return state


def uniform_orders(rng, state):
    learn.order_moves(rng, state, False)
    return state


def births_and_deaths(rng, state, module=learn):
    return module.birth_moves(rng, state, 25, True)[0]


def plain_births_and_deaths(rng, state, module=learn):
    return module.birth_moves(rng, state, 25, False)[0]


def weighted_edges(rng, state, module=paper):
    module.weighted_edge_moves(rng, state, 3)
    return state


def weighted_births_and_deaths(rng, state, module=paper):
    return module.weighted_birth_moves(rng, state, 25)[0]


def activations(rng, state, module=paper):
    module.activation_moves(rng, state, 3)
    return state


def precisions(rng, state, module=network):
    module.draw_precisions(rng, state, gram_of(state))
    return state


def trajectories(rng, state, module=hamiltonian):
    for _ in range(3):
        module.hamiltonian_move(rng, state, 0.25, 4)
    return state


def resampling(rng, state, module=ancestral):
    module.resample_points(rng, state, gram_of(state), 3)
    return state


MOVES = [
    edges, orders, births_and_deaths, plain_births_and_deaths, precisions, trajectories, resampling,
    weighted_edges, weighted_births_and_deaths, uniform_orders, activations,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_each_move_keeps_the_joint_law(move, case):
    check(invariance(move, case, seed=60))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("preset", [OURS, "paper"], ids=["ours", "paper"])
def test_all_moves_together_keep_the_joint_law(preset, case):
    """The whole kernel, hyperparameters included, twice over."""
    observed = CASES[case][0]
    data = np.zeros((N_POINTS, len(observed)))
    kernel = NetworkKernel(ChefsProcess(), observed, data, hyperpriors=LIGHT, most_leapfrogs=5, moves=preset)

    def twice(rng, state):
        chain = NetworkChain(state, math.log(0.25), False)
        for _ in range(2):
            chain, _ = kernel.step(rng, chain)
        return chain.network

    check(invariance(twice, case, seed=61))


# Negative controls: one for each move ----------------------------------------------------------------------------------

JACOBIAN = "return priors + 2.0 * (math.log(new_rho) - math.log(rho))"
WRONG = {
    "edges without their likelihood": lambda: (
        edges,
        mutant("learn", ("proposal.log_ratio + new - current[i]", "proposal.log_ratio")),
    ),
    "births with the Jacobian upside down": lambda: (births_and_deaths, with_births((JACOBIAN, "return priors - 2.0 * (math.log(new_rho) - math.log(rho))"))),
    "births without the prior of the child's precision": lambda: (
        births_and_deaths,
        with_births((" + log_rho_prior(new_rho) - log_rho_prior(rho)\n", "\n")),
    ),
    "births without the density of the proposal": lambda: (
        births_and_deaths,
        with_births(("total -= math.log(weights[j] / mass) - math.log(cuts[j + 1] - cuts[j])", "total -= 0.0")),
    ),
    "precisions with half their shape": lambda: (
        precisions,
        mutant("network", ("rng.standard_gamma(RHO_SHAPE + 0.5 * gram.n_points)", "rng.standard_gamma(RHO_SHAPE + 0.25 * gram.n_points)")),
    ),
    "trajectories without the Jacobian of log ρ": lambda: (
        trajectories,
        mutant("hamiltonian", ("value += (0.5 * n_points + RHO_SHAPE)", "value += (0.5 * n_points + RHO_SHAPE - 1)")),
    ),
    "plain births without the Occam factor": lambda: (
        plain_births_and_deaths,
        with_births(("rho * np.dot(c, c)) - 0.5 * log_det", "rho * np.dot(c, c))")),
    ),
    "weighted edges without their likelihood": lambda: (
        weighted_edges,
        mutant("paper", ("odds = proposal.log_ratio + change", "odds = proposal.log_ratio")),
    ),
    "weighted births whose deaths forget the likelihood": lambda: (
        weighted_births_and_deaths,
        mutant("paper", ("proposal.log_ratio + change:", "proposal.log_ratio + (change if birth else 0.0):")),
    ),
    "activations with twice the precision": lambda: (
        activations,
        mutant("paper", ("log_weight -= 0.5 * state.rho[c]", "log_weight -= state.rho[c]")),
    ),
    "resampling with twice the precision": lambda: (
        resampling,
        mutant("ancestral", ("log_weight[t] -= 0.5 * rho", "log_weight[t] -= rho")),
    ),
}  # fmt: skip


def with_births(change):
    wrong = mutant("births", change)
    names = ("try_birth", "try_death", "try_plain_birth", "try_plain_death")
    return mutant("learn", **{name: getattr(wrong, name) for name in names})


@pytest.mark.parametrize("name", WRONG)
def test_errors_of_the_network_are_caught(name):
    move, module = WRONG[name]()

    def wrong(rng, state):
        for _ in range(3):
            state = move(rng, state, module)
        return state

    check_caught(invariance(wrong, "observed at 0", seed=62, size=5_000))


def test_what_no_birth_can_make_no_death_undoes():
    """Units with an activation beyond all cells, and with a child so precise that there are too few cells."""
    rng = np.random.default_rng(66)
    for outlier, rho in ((12.0, 1.0), (0.0, 1e6)):
        dag = Dag([[False, False], [True, False]], [0.0, 0.5], 1)
        graph = state_of(dag, ChefsProcess(), [0.0], 1)
        state = NetworkState(
            graph, np.zeros((graph.order.size, 50)), np.ones(graph.order.size), np.zeros((1, 50), bool)
        )
        state.a[1] = rng.normal(size=50)
        state.a[1, 0] += outlier
        state.a[0] = 3.0 / (1.0 + np.exp(-state.a[1])) + rng.normal(size=50) / math.sqrt(rho)
        state.rho[0] = rho
        _, tried, accepted = learn.birth_moves(rng, state, 200, True)
        assert tried == 200 and accepted == 0


def test_every_draw_has_weights_of_its_own():
    """The bias of a lone node over draws, less its mean and over its sd given the precision, is N(0, 1)."""
    data = np.random.default_rng(67).normal(size=(10, 1))
    kernel = NetworkKernel(ChefsProcess(), [0.0], data, max_hidden=0)
    rng = np.random.default_rng(68)
    state, noise = kernel.init(rng), []
    for _ in range(500):
        state, _ = kernel.step(rng, state)
        draw = kernel.draw(state)
        rho = draw.node["precision"][0]
        noise.append((draw.node["bias"][0] - rho * data.sum() / (10 * rho + 1)) * math.sqrt(10 * rho + 1))
    check({"noise": float(stats.kstest(noise, "norm").pvalue)})
    check_caught({"noise of one seed": float(stats.kstest(np.full(500, noise[0]), "norm").pvalue)})


# The model against brute force -----------------------------------------------------------------------------------------


def test_marginal_likelihood_is_that_of_the_gaussian_it_is():
    """a_i given its parents' outputs is N(0, I/ρ + Xᵀ X): compared with scipy."""
    rng = np.random.default_rng(63)
    for _ in range(50):
        state = forward(rng, [0.0, 0.3], 0.0)
        n = int(state.graph.size[N_ACTIVE])
        state.rho[:n] = rng.gamma(2.0, 1.0, n)
        gram = gram_of(state)
        for i in range(n):
            rows = rows_of_parents(state.graph, i)
            x = network.outputs(state)[rows]
            truth = stats.multivariate_normal(np.zeros(N_POINTS), np.eye(N_POINTS) / state.rho[i] + x.T @ x)
            ours = log_marginal(gram, i, rows, state.rho[i]) - 0.5 * N_POINTS * math.log(2 * math.pi)
            assert ours == pytest.approx(truth.logpdf(state.a[i]), rel=1e-8, abs=1e-6)


def test_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(64)
    checked = 0
    while checked < 20:
        state = forward(rng, [0.0, 0.0, 0.5], 0.3)
        n, d = int(state.graph.size[N_ACTIVE]), 3
        if n < d + 2 or np.abs(state.a[:n]).max() > 20:
            continue
        state.rho[:n] = state.rho[:n].clip(0.1, 5.0)
        slope = hamiltonian.slope_of(state)
        i, t = int(rng.integers(d, n)), int(rng.integers(N_POINTS))
        for array, index, gradient in ((state.a, (i, t), slope.a[i, t]), (None, i, slope.log_rho[i])):
            values = []
            for sign in (1, -1):
                if array is not None:
                    array[index] += sign * 1e-5
                    values.append(hamiltonian.slope_of(state).value)
                    array[index] -= sign * 1e-5
                else:
                    old = state.rho[i]
                    state.rho[i] = old * math.exp(sign * 1e-5)
                    values.append(hamiltonian.slope_of(state).value)
                    state.rho[i] = old
            assert (values[0] - values[1]) / 2e-5 == pytest.approx(gradient, rel=1e-4, abs=1e-4)
        checked += 1


def test_posterior_odds_of_a_hidden_unit_by_quadrature():
    """Two points, one observed node: p(data | no unit) against p(data | one unit), everything integrated over.

    The chain with at most one hidden unit must visit the two models with the odds that brute force gives.
    """
    prior, x = ChefsProcess(1.0, 1.0, 1.0), np.array([[1.7], [-0.4]])
    kernel = NetworkKernel(prior, [0.0], x, hyperpriors=None, max_hidden=1, n_births=10, most_leapfrogs=5)
    rng = np.random.default_rng(65)
    # Brute force: simple Monte Carlo over everything but the marginal likelihood of the data, which is exact.
    size = 400_000
    rho = np.maximum(rng.gamma(0.5, 2.0, (size, 2)), 1e-12)
    a = rng.normal(size=(size, 1)) + rng.normal(size=(size, 2)) / np.sqrt(rho[:, 1:])
    u = 1 / (1 + np.exp(-np.clip(a, -500, 500)))

    def evidence(extra):
        """Mean of N(x; 0, I/ρ + 1 1ᵀ + extra) for two points."""
        s11, s22 = (1 / rho[:, 0] + 1 + extra[0, 0], 1 / rho[:, 0] + 1 + extra[1, 1])
        s12 = 1 + extra[0, 1]
        det = s11 * s22 - s12**2
        quad = (s22 * x[0, 0] ** 2 - 2 * s12 * x[0, 0] * x[1, 0] + s11 * x[1, 0] ** 2) / det
        density = np.exp(-0.5 * quad) / (2 * np.pi * np.sqrt(det))
        return density.mean(), density.std() / math.sqrt(size)

    none, none_error = evidence(np.zeros((2, 2, size)))
    one, one_error = evidence(np.einsum("ti,tj->ijt", u, u))
    pmf = prior.n_active_pmf([0.0])
    odds = pmf[2] * one / (pmf[1] * none)
    error = odds * math.hypot(one_error / one, none_error / none)
    chain, seen = kernel.freeze(kernel.init(rng)), []
    for _ in range(12_000):
        chain, _ = kernel.step(rng, chain)
        seen.append(int(chain.network.graph.size[N_ACTIVE]) - 1)
    batches = np.array(seen[2_000:]).reshape(40, -1).mean(axis=1)
    share, share_error = batches.mean(), batches.std(ddof=1) / math.sqrt(batches.size)
    got, got_error = share / (1 - share), share_error / (1 - share) ** 2
    check({"odds": float(2 * stats.norm.sf(abs(got - odds) / math.hypot(got_error, error)))})
