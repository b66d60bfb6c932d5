"""ChefsProcess and FiniteChefs: exact sizes against independent calculations, the support, the interface, bad input."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import expm
from scipy.special import digamma

from chefs import ChefsProcess, Dag, Dags
from chefs.prior import DagPrior, FiniteChefs
from tests.helpers import refused
from tests.strategies import dags, hyperparameters, orders, positive_numbers

FREE = math.nan


def observed_orders():
    """What `observed` may be: a few orders, tied, at the ends or free."""
    return st.lists(orders() | st.just(FREE), min_size=1, max_size=4)


def same(a, b):
    return [dag.to_json() for dag in a] == [dag.to_json() for dag in b]


# Exact sizes.


@pytest.mark.parametrize(
    "observed,hyper,nodes,edges",
    [
        ([1.0, 0.0], (1, 2, 5), "4.968", "7.960"),
        ([1.0, 0.0], (1, 5, 5), "12.439", "36.535"),
        ([1.0, 0.0], (1, 20, 5), "74.362", "690.42"),
        ([0.0, 0.0, 0.0], (1, 2, 1), "7.486", "10.229"),
        (4, (1.3, 1.5, 1), "6.376", "8.100"),
    ],
)
def test_known_values(observed, hyper, nodes, edges):
    prior = ChefsProcess(*hyper)
    for found, known in ((prior.expected_nodes(observed), nodes), (prior.expected_edges(observed), edges)):
        assert f"{found:.{len(known.split('.')[1])}f}" == known


@pytest.mark.parametrize("alpha", [0.03, 1.0, 50.0])
@pytest.mark.parametrize("gamma", [0.2, 1.5])
def test_first_terms_in_closed_form(alpha, gamma):
    """One node at 0: nothing happens with probability e^−γ; then the second waiting time has another rate."""
    pmf = ChefsProcess(alpha, gamma, 1.0).n_active_pmf([0.0])
    second = gamma + alpha * gamma / (alpha + 1)
    assert pmf[0] == 0
    assert pmf[1] == pytest.approx(math.exp(-gamma), rel=1e-11)
    assert pmf[2] == pytest.approx(gamma * (math.exp(-gamma) - math.exp(-second)) / (second - gamma), rel=1e-10)
    late = ChefsProcess(alpha, gamma, 1.0).n_active_pmf([0.6])
    assert late[1] == pytest.approx(math.exp(-0.4 * gamma), rel=1e-11)


def test_small_alpha_gives_poisson_and_large_alpha_gives_yule():
    """The rates tend to γ for any number of nodes, and to γ for each of them."""
    gamma, n = 1.7, np.arange(1, 12)
    few = ChefsProcess(1e-11, gamma, 1.0).n_active_pmf([0.0])[1:12]
    np.testing.assert_allclose(few, stats.poisson(gamma).pmf(n - 1), rtol=1e-8)
    many = ChefsProcess(1e10, gamma, 1.0).n_active_pmf([0.0])[1:12]
    np.testing.assert_allclose(many, stats.geom(math.exp(-gamma)).pmf(n), rtol=1e-7)
    three = ChefsProcess(1e10, 0.8, 1.0).n_active_pmf([0.0] * 3)[3:14]
    np.testing.assert_allclose(three, stats.nbinom(3, math.exp(-0.8)).pmf(n - 1), rtol=1e-7)


@pytest.mark.parametrize("hyper", [(1.0, 2.0, 1.0), (0.05, 1.0, 3.0), (20.0, 1.2, 0.2)])
def test_parents_of_one_observed_node_at_0_are_poisson(hyper):
    draws = ChefsProcess(*hyper).sample(np.random.default_rng(1), [0.0], size=20_000)
    graph = np.repeat(np.arange(len(draws)), draws.n_edges)
    parents = np.bincount(graph[draws.child == 0], minlength=len(draws))
    law = stats.poisson(hyper[1])
    counts = np.bincount(np.minimum(parents, 6), minlength=7)
    expected = len(draws) * np.append(law.pmf(np.arange(6)), law.sf(5))
    assert stats.chisquare(counts, expected).pvalue > 1e-4


def births(n_states, alpha, gamma):
    """Generator of the pure birth process of the number of nodes."""
    rate = alpha * gamma * (digamma(alpha + np.arange(1, n_states)) - digamma(alpha))
    rate = np.append(0.0, rate)
    return np.diag(rate[:-1], 1) - np.diag(rate)


def by_matrix_exponential(observed, alpha, gamma, phi, n_states=90):
    """P(K⁺) and E[edges] for given orders: expm between them, a shift at each, edges by quadrature."""
    generator, n = births(n_states, alpha, gamma), np.arange(n_states)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    law = np.zeros(n_states)
    law[0] = 1.0
    edges, height = 0.0, 0.0
    for level, group in itertools.groupby(sorted([*observed, 2.0])):
        top, count = min(level, 1.0), len(list(group))
        for x, w in zip(nodes, weights, strict=True):
            before = law @ expm(generator * (top - height) * (1 + x) / 2)
            edges += gamma * w / 2 * (top - height) * (before @ n)
        law = law @ expm(generator * (top - height))
        height = top
        if level <= 1:
            edges += count * phi / (alpha + phi) * (law @ n)
            law = np.concatenate([np.zeros(count), law[:-count]])
    return law, edges


FIXED = [[0.0], [1.0], [0.4], [0.2, 0.7], [0.0, 0.0, 1.0], [0.1, 0.6, 0.6], [0.5, 0.5, 0.5]]


@pytest.mark.parametrize("observed", FIXED)
@pytest.mark.parametrize("hyper", [(1.0, 1.5, 1.0), (0.1, 2.0, 3.0), (10.0, 0.7, 0.2)])
def test_fixed_orders_against_matrix_exponentials(observed, hyper):
    law, edges = by_matrix_exponential(observed, *hyper)
    prior = ChefsProcess(*hyper)
    pmf = prior.n_active_pmf(observed)
    size = min(pmf.size, law.size)
    np.testing.assert_allclose(pmf[:size], law[:size], atol=1e-10)
    assert prior.expected_nodes(observed) == pytest.approx(law @ np.arange(law.size), rel=1e-8)
    assert prior.expected_edges(observed) == pytest.approx(edges, rel=1e-8)


@pytest.mark.parametrize("observed", [[FREE], [0.3, FREE], [0.0, FREE, 0.6, 0.6], [FREE, FREE], [0.5, FREE, FREE]])
def test_free_orders_are_a_mixture_of_fixed_ones(observed):
    """Average over the free orders, piece by piece between the given ones, where everything is smooth."""
    prior = ChefsProcess(0.8, 1.4, 0.6)
    given = [x for x in observed if not math.isnan(x)]
    n_free = len(observed) - len(given)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    cuts = [0.0, *sorted(set(given)), 1.0]
    points = [
        (a + (b - a) * (1 + x) / 2, (b - a) * w / 2)
        for a, b in itertools.pairwise(cuts)
        for x, w in zip(nodes, weights, strict=True)
    ]
    law, edges = np.zeros(200), 0.0
    if n_free == 1:
        mixture = [([x], w) for x, w in points]
    else:  # y = u x with density x du: the lower of the two free orders; both cases count
        mixture = []
        for x, w in points:
            inner = [0.0, *[c for c in sorted(set(given)) if c < x], x]
            for a, b in itertools.pairwise(inner):
                mixture += [
                    ([x, a + (b - a) * (1 + t) / 2], 2 * w * (b - a) * v / 2)
                    for t, v in zip(nodes, weights, strict=True)
                ]
    for free, weight in mixture:
        pmf = prior.n_active_pmf([*given, *free])
        law[: pmf.size] += weight * pmf[:200]
        edges += weight * prior.expected_edges([*given, *free])
    pmf = prior.n_active_pmf(observed)
    np.testing.assert_allclose(pmf, law[: pmf.size], atol=1e-8)
    assert prior.expected_edges(observed) == pytest.approx(edges, rel=1e-7)


@settings(max_examples=40)
@given(observed_orders(), positive_numbers(), positive_numbers(1e-3, 3.0), positive_numbers())
def test_pmf_sums_to_one(observed, alpha, gamma, phi):
    prior = ChefsProcess(alpha, gamma, phi)
    pmf = prior.n_active_pmf(observed)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-11)
    assert (pmf >= 0).all()
    assert not pmf[: len(observed)].any()
    assert prior.expected_nodes(observed) >= len(observed) * (1 - 1e-11)
    assert prior.expected_nodes(observed) == pytest.approx(pmf @ np.arange(pmf.size), rel=1e-12)


@pytest.mark.parametrize("n", [40, 120, 210])
def test_many_free_nodes(n):
    """Edges among observed nodes alone, in the limit of no mass: φ/(α+φ) for each pair; and the pmf stays whole."""
    prior = ChefsProcess(1.0, 1e-9, 0.5)
    assert prior.expected_nodes(n) == pytest.approx(n, rel=1e-6)
    assert prior.expected_edges(n) == pytest.approx(0.5 / 1.5 * n * (n - 1) / 2, rel=1e-6)
    assert ChefsProcess(1.3, 1.5, 1.0).n_active_pmf(n).sum() == pytest.approx(1.0, abs=1e-11)


def test_pmf_fits_the_draws():
    prior = ChefsProcess(1.3, 1.5, 1.0)
    for seed, observed in enumerate([4, [0.2, 0.2, FREE], [0.0, 1.0]]):
        draws = prior.sample(np.random.default_rng(seed), observed, size=20_000)
        expected = 20_000 * prior.n_active_pmf(observed)
        counts = np.bincount(draws.n_nodes, minlength=expected.size)[: expected.size]
        large = expected >= 5
        expected = np.append(expected[large], 20_000 - expected[large].sum())
        counts = np.append(counts[large], 20_000 - counts[large].sum())
        assert stats.chisquare(counts, expected).pvalue > 1e-4


def test_graphs_too_large_to_count():
    with refused("gamma"):
        ChefsProcess(1.0, 1e6, 1.0).n_active_pmf([0.0])


@pytest.mark.parametrize("observed", [3, [0.0], [0.1, 0.1, FREE], [0.999]])
@pytest.mark.parametrize("nodes", [4.0, 12.5])
def test_gamma_for_an_expected_number_of_nodes(observed, nodes):
    prior = ChefsProcess.with_expected_nodes(nodes, observed, alpha=0.7, phi=2.0)
    assert (prior.alpha, prior.phi) == (0.7, 2.0)
    assert prior.expected_nodes(observed) == pytest.approx(nodes, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.02, 1.0, 30.0])
@pytest.mark.parametrize("gamma", [0.5, 3.0])
def test_alpha_for_an_expected_number_of_nodes(alpha, gamma):
    nodes = ChefsProcess(alpha, gamma, 1.0).expected_nodes([0.0, 0.5])
    prior = ChefsProcess.with_expected_nodes(nodes, [0.0, 0.5], gamma=gamma)
    assert prior.gamma == gamma
    assert prior.alpha == pytest.approx(alpha, rel=1e-4)
    assert prior.expected_nodes([0.0, 0.5]) == pytest.approx(nodes, rel=1e-9)


def test_a_large_gamma_does_not_put_the_solution_out_of_reach():
    prior = ChefsProcess.with_expected_nodes(25, 3, gamma=20.0)
    assert prior.expected_nodes(3) == pytest.approx(25, rel=1e-9)


def test_numbers_of_nodes_that_cannot_be():
    solve = ChefsProcess.with_expected_nodes
    for kind in ({}, {"alpha": 1.0, "gamma": 1.0}):
        with refused("alpha", "gamma"):
            solve(10, 3, **kind)
    for nodes in (3.0, 2.0):
        for known in ({"alpha": 1.0}, {"gamma": 1.0}):
            with refused("nodes", "3"):
                solve(nodes, 3, **known)
    # One node at 0 and γ = 1: from 1 + γ = 2 (α → 0) to e^γ (α → ∞).
    for nodes in (1.5, 3.0):
        with refused("alpha", f"nodes = {nodes:g}"):
            solve(nodes, [0.0], gamma=1.0)
    with refused("nodes", "order"):
        solve(5, [1.0, 1.0], alpha=1.0)
    for bad in (-1, 0, math.nan, math.inf, "5"):
        with refused("nodes"):
            solve(bad, 3, alpha=1.0)
    with refused("alpha"):
        solve(5, 3, alpha=-1.0)
    with refused("gamma"):
        solve(5, 3, gamma="x")
    with refused("phi"):
        solve(5, 3, alpha=1.0, phi=0.0)
    with refused("observed"):
        solve(5, 0, alpha=1.0)


# The density.


@settings(max_examples=300)
@given(dags(), hyperparameters())
def test_every_graph_has_a_density(dag, hyper):
    """The support: every order and every set of edges that respects it, under any hyperparameters."""
    assert math.isfinite(ChefsProcess(*hyper).log_prob(dag))


@given(dags(), hyperparameters())
def test_density_does_not_depend_on_names_of_hidden_nodes(dag, hyper):
    prior = ChefsProcess(*hyper)
    assert prior.log_prob(dag.sorted()) == pytest.approx(prior.log_prob(dag), rel=1e-10, abs=1e-9)


@given(dags(), hyperparameters())
def test_popularity(dag, hyper):
    alpha, gamma, phi = hyper
    posterior = ChefsProcess(alpha, gamma, phi).popularity(dag)
    mean, variance = np.atleast_1d(posterior.mean()), np.atleast_1d(posterior.var())
    assert mean.shape == (dag.n_nodes,)
    for k in range(dag.n_nodes):
        m = len(dag.children(k))
        below = sum(x < dag.order[k] for x in dag.order)
        a, b = m + phi * (k < dag.n_observed), alpha + below - m
        assert mean[k] == pytest.approx(a / (a + b), rel=1e-9)
        assert variance[k] == pytest.approx(a * b / ((a + b) ** 2 * (a + b + 1)), rel=1e-9)


# Draws.


@settings(max_examples=60)
@given(observed_orders(), positive_numbers(), positive_numbers(1e-3, 2.5), positive_numbers(), st.integers(0, 99))
def test_draws_are_graphs_with_the_orders_asked_for(observed, alpha, gamma, phi, seed):
    prior = ChefsProcess(alpha, gamma, phi)
    rng = np.random.default_rng(seed)
    finite = prior.finite(30)
    draws = [
        *prior.sample(rng, observed, size=5),
        prior.restaurant(rng, observed),
        *finite.sample(rng, observed, size=2),
    ]
    for dag in draws:
        checked = Dag(dag.edges, dag.order, dag.n_observed)  # the constructor checks what kernels promise
        assert checked.n_observed == len(observed)
        for given_order, order in zip(observed, dag.order, strict=False):
            assert math.isnan(given_order) or order == given_order
        assert math.isfinite(prior.log_prob(dag))
    for dag in draws[-2:]:
        assert dag.n_nodes <= 30
        assert math.isfinite(finite.log_prob(dag))


@pytest.mark.parametrize("observed", [1, 3, [0.0, 1.0], [0.5, 0.5, FREE]])
def test_the_seed_decides(observed):
    prior = ChefsProcess(1.0, 2.0, 1.0)
    for sampler in (prior, prior.finite(50)):
        a, b, c = (sampler.sample(np.random.default_rng(seed), observed, size=20) for seed in (1, 1, 2))
        assert same(a, b)
        assert not same(a, c)
        one = sampler.sample(np.random.default_rng(1), observed)
        assert isinstance(one, Dag)
        assert one.to_json() == a[0].to_json()
        assert same([one], sampler.sample(np.random.default_rng(1), observed, size=1))
    a, b = (prior.restaurant(np.random.default_rng(3), observed) for _ in range(2))
    assert a.to_json() == b.to_json()


@pytest.mark.parametrize("size", [0, 1, 7, np.int64(3)])
def test_size(size):
    prior = ChefsProcess(1.0, 2.0, 1.0)
    for sampler in (prior, prior.finite(10)):
        draws = sampler.sample(np.random.default_rng(0), 2, size=size)
        assert isinstance(draws, Dags)
        assert len(draws) == len(list(draws)) == size


def test_ways_to_say_observed():
    prior = ChefsProcess(1.0, 2.0, 1.0)
    rng = np.random.default_rng
    for many in (np.int64(2), [FREE, FREE], (FREE, FREE), np.array([FREE, FREE]), [None, None]):
        assert same([prior.sample(rng(0), many)], [prior.sample(rng(0), 2)])
    for given_orders in ((0.0, 1.0), [0, 1], np.array([0, 1]), np.array([0.0, 1.0], dtype=np.float32)):
        assert same([prior.sample(rng(0), given_orders)], [prior.sample(rng(0), [0.0, 1.0])])


def test_nothing_lies_above_order_1():
    draws = ChefsProcess(1.0, 5.0, 1.0).sample(np.random.default_rng(0), [1.0, 1.0], size=100)
    assert (draws.n_nodes == 2).all()
    assert (draws.n_edges == 0).all()


@given(dags(), hyperparameters(1e-2, 3.0), st.integers(0, 99), orders() | st.just(FREE))
def test_extend_keeps_the_graph(dag, hyper, seed, order):
    new = ChefsProcess(*hyper).extend(np.random.default_rng(seed), dag, order)
    n = dag.n_observed
    assert new.n_observed == n + 1
    assert math.isnan(order) or new.order[n] == order
    kept = [*range(n), *range(n + 1, dag.n_nodes + 1)]
    assert (new.order[kept] == dag.order).all()
    assert (new.edges[np.ix_(kept, kept)] == dag.edges).all()
    Dag(new.edges, new.order, new.n_observed)
    reached = set(new.ancestors(n))
    assert reached >= set(range(dag.n_nodes + 1, new.n_nodes))  # new chefs come because of the new star


def test_the_restaurant_is_extension_one_by_one():
    prior = ChefsProcess(1.0, 2.0, 1.0)
    a, b = np.random.default_rng(4), np.random.default_rng(4)
    dag = prior.restaurant(a, [0.3])
    for order in (0.0, FREE, 0.3):
        dag = prior.extend(a, dag, order)
    assert dag.to_json() == prior.restaurant(b, [0.3, 0.0, FREE, 0.3]).to_json()


# The finite model.


@settings(max_examples=50)
@given(dags(), hyperparameters(0.05, 20.0))
def test_the_finite_model_tends_to_the_infinite_one(dag, hyper):
    """The difference is halved when K is doubled."""
    prior = ChefsProcess(*hyper)
    limit = prior.log_prob(dag)
    a, b = (prior.finite(K).log_prob(dag) - limit for K in (1_000_000, 2_000_000))
    assert abs(b) < 0.05
    assert a - 2 * b == pytest.approx(0.0, abs=0.01 * abs(a) + 1e-7)


@pytest.mark.parametrize("hyper", [(1.0, 0.7, 1.0), (0.2, 0.95, 3.0), (12.0, 0.1, 0.4)])
@pytest.mark.parametrize("K", [1, 2, 3])
def test_probabilities_of_small_finite_models_sum_to_one(hyper, K):
    """All graphs over one observed node at 1/4 and up to two hidden ones, their orders integrated."""
    finite = ChefsProcess(*hyper).finite(K)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    heights, weights = 0.25 + 0.75 * (1 + nodes) / 2, 0.75 * weights / 2
    one = np.zeros((1, 1), dtype=bool)
    total = math.exp(finite.log_prob(Dag(one, [0.25], 1)))
    for x, w in zip(heights, weights, strict=True):
        total += w * math.exp(finite.log_prob(Dag([[0, 0], [1, 0]], [0.25, x], 1)))
        for u, v in zip((1 + nodes) / 2, weights / 0.75, strict=True):  # a lower hidden node, between 1/4 and x
            for top in ([1, 0, 0], [0, 1, 0], [1, 1, 0]):
                dag = Dag([[0, 0, 0], [1, 0, 0], top], [0.25, 0.25 + u * (x - 0.25), x], 1)
                total += w * (x - 0.25) * v * math.exp(finite.log_prob(dag))
    assert total == pytest.approx(1.0, abs=1e-10)


def test_finite_model_by_hand():
    """Two observed nodes and no other: one Beta-Binomial edge."""
    finite = FiniteChefs(2.0, 1.0, 0.5, 2)
    none, edge = (Dag([[0, 0], [x, 0]], [0.0, 0.5], 2) for x in (0, 1))
    assert finite.log_prob(edge) == pytest.approx(math.log(1.5 / 2.5))
    assert finite.log_prob(none) == pytest.approx(math.log(1.0 / 2.5))


@given(dags(), hyperparameters(1e-3, 0.9))
def test_finite_models_hold_at_most_k_nodes(dag, hyper):
    prior = ChefsProcess(*hyper)
    assert math.isfinite(prior.finite(dag.n_nodes).log_prob(dag))
    assert prior.finite(dag.n_nodes + 5).log_prob(dag) > -math.inf
    if dag.n_nodes > 1:
        assert prior.finite(dag.n_nodes - 1).log_prob(dag) == -math.inf


@pytest.mark.parametrize("hyper", [(1.0, 2.0, 1.0), (0.2, 1.5, 4.0)])
def test_draws_of_a_finite_model_fit_its_probabilities(hyper):
    """Three nodes, one observed at 1/4: the number of active ones."""
    finite = ChefsProcess(*hyper).finite(3)
    draws = finite.sample(np.random.default_rng(0), [0.25], size=20_000)
    alone = math.exp(finite.log_prob(Dag([[0]], [0.25], 1)))
    nodes, weights = np.polynomial.legendre.leggauss(8)
    pair = sum(
        0.375 * w * math.exp(finite.log_prob(Dag([[0, 0], [1, 0]], [0.25, 0.25 + 0.375 * (1 + x)], 1)))
        for x, w in zip(nodes, weights, strict=True)
    )
    expected = 20_000 * np.array([alone, pair, 1 - alone - pair])
    assert stats.chisquare(np.bincount(draws.n_nodes, minlength=4)[1:], expected).pvalue > 1e-4


@pytest.mark.parametrize("hyper", [(1.0, 2.0, 1.0), (0.2, 1.5, 0.3), (5.0, 0.5, 8.0)])
def test_observed_nodes_of_a_finite_model_have_beta_binomial_children(hyper):
    """Three observed nodes and no other: the top one, and with a tie the two top ones."""
    alpha, gamma, phi = hyper
    mass = alpha * gamma / 3
    finite = ChefsProcess(*hyper).finite(3)
    for observed, n in (([0.0, 0.5, 1.0], 2), ([0.0, 1.0, 1.0], 1)):
        draws = finite.sample(np.random.default_rng(2), observed, size=20_000)
        graph = np.repeat(np.arange(len(draws)), draws.n_edges)
        children = np.bincount(graph[draws.parent == 2], minlength=len(draws))
        expected = len(draws) * stats.betabinom(n, phi + mass, alpha - mass).pmf(np.arange(n + 1))
        assert stats.chisquare(np.bincount(children, minlength=n + 1), expected).pvalue > 1e-4


# The interface and bad input.


def test_it_is_a_prior():
    assert isinstance(ChefsProcess(), DagPrior)
    assert isinstance(ChefsProcess().finite(10), DagPrior)


def test_hyperparameters_are_floats_and_frozen():
    prior = ChefsProcess(1, np.float32(2), np.int64(3))
    assert (prior.alpha, prior.gamma, prior.phi) == (1.0, 2.0, 3.0)
    assert all(type(x) is float for x in (prior.alpha, prior.gamma, prior.phi))
    assert prior == ChefsProcess(1.0, 2.0, 3.0)
    with pytest.raises(AttributeError):
        prior.alpha = 2.0


BAD_NUMBERS = [
    0.0,
    -1.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    "1",
    "x",
    b"1",
    None,
    True,
    [1.0],
    1j,
    10**400,
    np.zeros((40, 40)),
]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=range(len(BAD_NUMBERS)))
@pytest.mark.parametrize("name", ["alpha", "gamma", "phi"])
def test_bad_hyperparameters(name, bad):
    with refused(name):
        ChefsProcess(**{name: bad})
    with refused(name):
        FiniteChefs(**{"alpha": 1.0, "gamma": 1.0, "phi": 1.0, "K": 10, name: bad})


@pytest.mark.parametrize(
    "bad",
    [
        0,
        -1,
        -(10**400),
        True,
        False,
        [],
        [[0.0]],
        np.zeros((2, 2)),
        "two",
        ["0.5"],
        "0.5",
        2.0,
        None,
        [1.5],
        [-0.1],
        [0.0, math.inf],
        [0.0, "x"],
        [1j],
        {"a": 1},
        object(),
        np.full((30, 30), "x"),
        ["x"] * 500,
    ],
)
def test_bad_observed(bad):
    prior, rng = ChefsProcess(), np.random.default_rng(0)
    for call in (
        lambda: prior.sample(rng, bad),
        lambda: prior.sample(rng, bad, size=3),
        lambda: prior.restaurant(rng, bad),
        lambda: prior.finite(10).sample(rng, bad),
        lambda: prior.n_active_pmf(bad),
        lambda: prior.expected_nodes(bad),
        lambda: prior.expected_edges(bad),
    ):
        with refused("observed"):
            call()


@pytest.mark.parametrize("bad", [1.5, -0.1, math.inf, "x", [0.5]])
def test_bad_order_of_a_new_node(bad):
    with refused("order"):
        ChefsProcess().extend(np.random.default_rng(0), Dag([[0]], [0.0], 1), bad)


@pytest.mark.parametrize("bad", [None, 0, "seed", np.random, np.random.RandomState(0), np.random.PCG64(0), "x\n" * 200])
def test_bad_rng(bad):
    prior = ChefsProcess()
    for call in (
        lambda: prior.sample(bad, 2),
        lambda: prior.restaurant(bad, 2),
        lambda: prior.extend(bad, Dag([[0]], [0.0], 1)),
        lambda: prior.finite(10).sample(bad, 2),
    ):
        with refused("rng", error=TypeError):
            call()


@pytest.mark.parametrize("bad", [-1, -(10**400), 1.0, True, "3", [2], math.nan, np.zeros((9, 9))])
def test_bad_size(bad):
    for sampler in (ChefsProcess(), ChefsProcess().finite(10)):
        with refused("size"):
            sampler.sample(np.random.default_rng(0), 2, size=bad)


@pytest.mark.parametrize("bad", [0, -3, -(10**400), True, 10.0, "10", None, math.nan, "x" * 500])
def test_bad_k(bad):
    with refused("K"):
        ChefsProcess().finite(bad)


def test_k_must_exceed_gamma_and_hold_the_observed_nodes():
    for K in (2, 3):
        with refused("K", "gamma = 3"):
            ChefsProcess(1.0, 3.0, 1.0).finite(K)
    ChefsProcess(1.0, 3.0, 1.0).finite(4)
    with refused("K = 4", "observed"):
        ChefsProcess(1.0, 3.0, 1.0).finite(4).sample(np.random.default_rng(0), 5)


INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
from chefs import CascadingBuffet, ChefsProcess
prior, rng = eval(sys.argv[1]), np.random.default_rng(0)
prior.sample(rng, 3, size=1)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        prior.sample(rng, 3, size=500_000)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize("prior", ["ChefsProcess()", "ChefsProcess().finite(20)", "CascadingBuffet()"])
def test_an_interrupt_among_many_draws_is_a_keyboard_interrupt(prior):
    """Compiled code must not be interrupted where it builds its result: that would crash the interpreter."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, prior], check=False, timeout=600, capture_output=True)
    assert (done.returncode, done.stderr) == (7, b"")


class TestExtremes:
    """Where differences of log-gammas would lose all their digits."""

    dag = Dag([[0, 0, 0], [1, 0, 0], [1, 1, 0]], [0.0, 0.3, 0.6], n_observed=1)

    @pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e6])
    def test_the_finite_model_still_converges_when_it_is_huge(self, alpha):
        prior = ChefsProcess(alpha, 1.0, 1.0)
        limit = prior.log_prob(self.dag)
        for K in (10**9, 10**12, 10**14):  # the error is of the order of α/K and 1/K
            assert prior.finite(K).log_prob(self.dag) == pytest.approx(limit, abs=5 * (1 + alpha) / K + 1e-9)

    @pytest.mark.parametrize("alpha", [1e-90, 1e90])
    def test_density_is_finite_for_any_hyperparameters(self, alpha):
        assert math.isfinite(ChefsProcess(alpha, 1.0, 1.0).log_prob(self.dag))

    @pytest.mark.parametrize("name", ["alpha", "gamma", "phi"])
    @pytest.mark.parametrize("value", [1e-300, 1e300])
    def test_beyond_that_they_are_refused(self, name, value):
        with refused(name, "1e-100"):
            ChefsProcess(**{name: value})

    def test_sizes_that_cannot_be_computed_are_refused_at_once(self):
        with refused("nodes"):
            ChefsProcess.with_expected_nodes(1e6, 3, alpha=1.0)
        with refused("gamma"):
            ChefsProcess(1e3, 30.0, 1.0).n_active_pmf([0.0])
