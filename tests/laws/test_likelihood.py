"""The laws of the chain with a likelihood: exact posteriors, Geweke's test, calibration, constraints, tempering."""

import hashlib
import math

import numpy as np
import pytest

from chefs import ChefsProcess, Dag, Dags, Hyperpriors, LikelihoodKernel, Moves, PriorKernel, sample
from chefs._core.summaries import level_orders
from tests.laws.graphs import FREE, cell_of, one_hidden_cells, statistics, together
from tests.laws.graphs import OBSERVED as GRAPHS
from tests.stats import cells_p_value, check, check_caught, kept_p_values, pmf_p_value, same_p_value, uniform_p_value

PRIOR = ChefsProcess(alpha=1.3, gamma=1.2, phi=0.8)


# Exact posteriors ---------------------------------------------------------------------------------------------------

FIXED = [0.0, 0.5]


def skewed(dag):
    """A log-likelihood between −2 and 2 that follows no pattern: a hash of the edges."""
    digest = hashlib.sha256(dag.edges.tobytes()).digest()
    return 4.0 * digest[0] / 255 - 2.0


def skewed_with_order(dag):
    """The same, and it wants its hidden node low."""
    return skewed(dag) - 3.0 * (dag.order[-1] if dag.n_hidden else 0.0)


def exact_posterior(log_likelihood, power=1.0):
    """Probability of every structure with at most one hidden node, by quadrature over its order."""
    masses = {
        key: sum(w * math.exp(PRIOR.log_prob(dag) + power * log_likelihood(dag)) for dag, w in points)
        for key, points in one_hidden_cells(FIXED)
    }
    total = sum(masses.values())
    return {key: mass / total for key, mass in masses.items()}


def posterior_p_value(trace, expected):
    counts = dict.fromkeys(expected, 0)
    for dag in trace:
        counts[cell_of(dag, FIXED)] += 1
    return {"structures": cells_p_value(list(counts.values()), list(expected.values()))}


def draws_of(kernel, seed, draws=3_000, **options):
    return sample(np.random.default_rng(seed), kernel, draws=draws, warmup=20, chains=1, progress=False, **options)


@pytest.mark.parametrize("moves", [Moves(), Moves.paper()], ids=["ours", "paper"])
@pytest.mark.parametrize("uses_order", [False, True])
def test_posterior_is_exact(moves, uses_order):
    likelihood = skewed_with_order if uses_order else skewed
    kernel = LikelihoodKernel(
        PRIOR, FIXED, likelihood, uses_order=uses_order, max_hidden=1, moves=moves, n_moves=50, cache=100
    )
    check(posterior_p_value(draws_of(kernel, 30), exact_posterior(likelihood)))


@pytest.mark.parametrize("observed", GRAPHS.values(), ids=GRAPHS)
def test_constant_likelihood_recovers_the_prior(observed):
    kernel = LikelihoodKernel(PRIOR, observed, lambda dag: 1.5, n_moves=200, cache=1)
    trace = draws_of(kernel, 43, draws=1_000)
    exact, got = (
        statistics(PRIOR.sample(np.random.default_rng(43), observed, size=40_000)),
        statistics(trace.chains[0].dags),
    )
    p_values = {name: same_p_value(exact[name], got[name]) for name in exact}
    check(p_values | {"exact nodes": pmf_p_value(trace.n_hidden + len(observed), PRIOR.n_active_pmf(observed))})


def test_power_is_an_exponent():
    kernel = LikelihoodKernel(PRIOR, FIXED, skewed, max_hidden=1, n_moves=50, power=0.5)
    trace = draws_of(kernel, 31)
    check(posterior_p_value(trace, exact_posterior(skewed, 0.5)))
    check_caught(posterior_p_value(trace, exact_posterior(skewed, 1.0)))


def test_power_zero_is_the_prior():
    kernel = LikelihoodKernel(PRIOR, FIXED, skewed, max_hidden=1, n_moves=50, power=0.0)
    check(posterior_p_value(draws_of(kernel, 32), exact_posterior(skewed, 0.0)))


def test_tempered_chain_at_power_one_is_the_plain_chain():
    kernel = LikelihoodKernel(PRIOR, FIXED, skewed, max_hidden=1, n_moves=25)
    trace = draws_of(kernel, 33, draws=3_000, temperatures=3)
    check(posterior_p_value(trace, exact_posterior(skewed)))
    assert min(trace.stats[0]["swap_rates"]) > 0.1 and max(trace.stats[0]["swap_rates"]) <= 1.0


def test_wrong_swaps_are_caught(monkeypatch):
    """Swapping whatever the likelihoods say mixes the prior into the posterior."""
    from chefs.tempering import TemperedKernel

    monkeypatch.setattr(TemperedKernel, "swap_log_ratio", lambda *arguments: 0.0)
    kernel = LikelihoodKernel(PRIOR, FIXED, skewed, max_hidden=1, n_moves=25)
    check_caught(posterior_p_value(draws_of(kernel, 34, draws=3_000, temperatures=3), exact_posterior(skewed)))


def test_likelihood_with_the_wrong_sign_is_caught():
    kernel = LikelihoodKernel(PRIOR, FIXED, lambda dag: -skewed(dag), max_hidden=1, n_moves=50)
    check_caught(posterior_p_value(draws_of(kernel, 35), exact_posterior(skewed)))


def test_a_likelihood_that_looks_at_orders_without_saying_so_sees_only_the_edges():
    """It is given orders made up from the edges: another posterior than the one meant, but a sound one."""
    kernel = LikelihoodKernel(PRIOR, FIXED, skewed_with_order, uses_order=False, max_hidden=1, n_moves=50)
    trace = draws_of(kernel, 36)

    def seen(dag):
        parent, child = np.nonzero(dag.edges)
        return skewed_with_order(Dag(dag.edges, level_orders(dag.order, parent, child), dag.n_observed))

    check(posterior_p_value(trace, exact_posterior(seen)))
    check_caught(posterior_p_value(trace, exact_posterior(skewed_with_order)))


def test_values_do_not_depend_on_what_was_seen_before():
    """A likelihood that visits nodes in their order rounds differently from order to order; the chain must not see it."""

    def rounding(dag):
        weights = np.array([1.0, 1e16, -1e16, 3.0, 0.1, 0.7, 1e-3])
        return float(sum(weights[k % 7] for k in np.argsort(dag.order)) * 1e-17) + 0.1 * dag.n_edges

    kernel = LikelihoodKernel(PRIOR, 3, rounding, max_hidden=3, n_moves=50)
    forgetful = LikelihoodKernel(PRIOR, 3, rounding, max_hidden=3, n_moves=50, cache=1)
    a, b = (draws_of(k, 44, draws=300) for k in (kernel, forgetful))
    assert (a.scalar("log_likelihood") == b.scalar("log_likelihood")).all()
    assert (a.n_edges == b.n_edges).all()


# Geweke's joint test and calibration: hyperparameters, graph and data ----------------------------------------------------

LIGHT = Hyperpriors(alpha=(5.0, 5.0), gamma=(5.0, 5.0), phi=(5.0, 5.0))
OBSERVED = [0.0, 0.5, FREE]


def forward(rng):
    """Hyperparameters, a graph, and data: every observed node shows its number of parents through noise."""
    prior = ChefsProcess(1 / rng.gamma(5.0, 0.2), rng.gamma(5.0, 0.2), rng.gamma(5.0, 0.2))
    dag = prior.sample(rng, OBSERVED)
    return prior, dag, data_of(rng, dag)


def data_of(rng, dag):
    return dag.edges[:, :3].sum(axis=0) + 0.5 * rng.normal(size=3)


def log_likelihood_of(data):
    return lambda dag: -2.0 * float(((data - dag.edges[:, :3].sum(axis=0)) ** 2).sum())


NAMES = ("alpha", "gamma", "phi", "nodes", "edges", "y0", "y1", "y2", "log-likelihood")


def summary(prior, dag, data):
    values = prior.alpha, prior.gamma, prior.phi, dag.n_nodes, dag.n_edges, *data, log_likelihood_of(data)(dag)
    return dict(zip(NAMES, values, strict=True))


def geweke(seed, size=1_500, factor=1.0, cycles=6):
    """Joint draws, and what they are after rounds of (data given the rest, the rest given data)."""
    rng, before, after = np.random.default_rng(seed), [], []
    for _ in range(size):
        prior, dag, data = forward(rng)
        before.append(summary(prior, dag, data))
        for _ in range(cycles):
            data = data_of(rng, dag)
            likelihood = log_likelihood_of(data)
            kernel = LikelihoodKernel(
                prior, OBSERVED, lambda d, f=likelihood: factor * f(d), hyperpriors=LIGHT, n_moves=15, start=dag
            )
            drawn = kernel.draw(kernel.step(rng, kernel.init(rng))[0])
            prior = ChefsProcess(*(drawn.scalars[name] for name in ("alpha", "gamma", "phi")))
            dag = Dags(3, *(np.array([0, x.size]) for x in (drawn.order, drawn.parent)), *drawn[:3])[0]
        after.append(summary(prior, dag, data))
    return kept_p_values(before, after)


def test_geweke_joint():
    check(geweke(37))


def test_geweke_sees_a_likelihood_that_counts_twice():
    check_caught(geweke(38, factor=2.0))


def calibration_ranks(seed, size=200, factor=1.0, n_draws=4):
    """Rank of the truth among posterior draws, far apart, of a chain that starts at another draw of the prior.

    Ties are broken at random.
    """
    rng = np.random.default_rng(seed)
    ranks = []
    for _ in range(size):
        prior, dag, data = forward(rng)
        likelihood = log_likelihood_of(data)
        kernel = LikelihoodKernel(
            ChefsProcess(),
            OBSERVED,
            lambda d, f=likelihood: factor * f(d),
            hyperpriors=LIGHT,
            n_moves=300,
            start=forward(rng)[1],
        )
        state = kernel.init(rng)
        draws = []
        for step in range(5 + n_draws):
            state, _ = kernel.step(rng, state)
            if step >= 5:
                draw = kernel.draw(state)
                hyper = [draw.scalars[name] for name in ("alpha", "gamma", "phi")]
                draws.append([*hyper, draw.order.size, draw.parent.size, draw.scalars["log_likelihood"] / factor])
        truth = np.array([prior.alpha, prior.gamma, prior.phi, dag.n_nodes, dag.n_edges, likelihood(dag)])
        draws = np.array(draws).round(9)
        truth = truth.round(9)
        ranks.append((draws < truth).sum(axis=0) + rng.integers(0, (draws == truth).sum(axis=0) + 1))
    names = (*NAMES[:5], "log-likelihood")
    return {name: uniform_p_value(r, n_draws + 1) for name, r in zip(names, np.array(ranks).T, strict=True)}


def test_simulation_based_calibration():
    check(calibration_ranks(39))


def test_calibration_sees_a_likelihood_that_counts_half():
    check_caught(calibration_ranks(40, factor=0.5))


# Constraints ----------------------------------------------------------------------------------------------------------

LIMITS = {"required": [(0, 1)], "forbidden": [(2, 0)], "bounds": {2: (0.3, 0.9)}, "max_hidden": 2}


def conditioned_prior(rng, size):
    """The prior given the constraints, by rejection."""
    kept = []
    draws = PRIOR.sample(rng, 3, size=size)
    for g in np.flatnonzero(draws.n_hidden <= 2):
        dag = draws[int(g)]
        if dag.edges[0, 1] and not dag.edges[2, 0] and 0.3 <= dag.order[2] <= 0.9:
            kept.append(dag)
    return together(kept)


def test_constraints_hold_and_give_the_prior_conditioned_on_them():
    rng = np.random.default_rng(41)
    kernel = PriorKernel(PRIOR, 3, n_moves=150, **LIMITS)
    trace = sample(rng, kernel, draws=5_000, warmup=20, chains=1, progress=False)
    for dag in trace:
        assert dag.edges[0, 1] and not dag.edges[2, 0] and 0.3 <= dag.order[2] <= 0.9 and dag.n_hidden <= 2
    truth, got = statistics(conditioned_prior(rng, 150_000)), statistics(trace.chains[0].dags)
    check({name: same_p_value(truth[name], got[name]) for name in truth})


def test_leaving_a_constraint_out_is_caught():
    rng = np.random.default_rng(42)
    kernel = PriorKernel(PRIOR, 3, n_moves=150, **(LIMITS | {"forbidden": []}))
    trace = sample(rng, kernel, draws=5_000, warmup=20, chains=1, progress=False)
    truth, got = statistics(conditioned_prior(rng, 150_000)), statistics(trace.chains[0].dags)
    check_caught({name: same_p_value(truth[name], got[name]) for name in truth})
