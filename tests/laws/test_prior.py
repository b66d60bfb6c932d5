"""The laws of the prior: sweep = restaurant = finite model = density = forward equations, as distributions."""

import itertools
import math
import random

import numpy as np
import pytest

from chefs import ChefsProcess, Dag, IndianBuffet
from chefs._core import restaurant
from chefs._core.moments import size_distribution
from tests import naive
from tests.laws.graphs import (
    FREE,
    OBSERVED,
    cell_of,
    from_naive,
    graphs_over,
    one_hidden_cells,
    simplex_rule,
    statistics,
    together,
)
from tests.mutants import mutant
from tests.stats import cells_p_value, check, check_caught, pmf_p_value, same_p_value, z_p_value

PRIOR = ChefsProcess(alpha=1.3, gamma=1.2, phi=0.8)
cases = pytest.mark.parametrize("observed", OBSERVED.values(), ids=OBSERVED)


def compare(a, b):
    first, second = statistics(a), statistics(b)
    return {name: same_p_value(first[name], second[name]) for name in first}


def sweep_of(module, rng, observed, size, prior=PRIOR):
    from chefs import Dags

    return Dags(len(observed), *module.sweep(rng, np.array(observed, float), prior.alpha, prior.gamma, prior.phi, size))


def restaurant_of(module, rng, observed, size, prior):
    """Many draws of the restaurant with the kernels of `module`."""
    hyper = np.array([prior.alpha, prior.gamma, prior.phi])
    graphs = []
    for _ in range(size):
        orders, parents, children = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        for t, order in enumerate(observed):
            height = rng.random() if math.isnan(order) else order
            orders, parents, children = module.one_more_star(
                rng, orders, parents.astype(np.int64), children.astype(np.int64), t, height, hyper
            )
        graphs.append(Dag._trusted(orders, parents, children, len(observed)))
    return together(graphs)


@cases
def test_sweep_has_the_exact_sizes(observed):
    draws = PRIOR.sample(np.random.default_rng(1), observed, size=100_000)
    check({"nodes": pmf_p_value(draws.n_nodes, PRIOR.n_active_pmf(observed))})


def test_draws_that_outgrow_their_arrays_have_the_exact_sizes():
    """Graphs of 30 to 150 nodes, drawn one by one, so that each has to pause for more room, and all at once."""
    prior, observed = ChefsProcess(1.0, 20.0, 5.0), [1.0, 0.0]
    rng = np.random.default_rng(16)
    alone = [prior.sample(rng, observed) for _ in range(2_000)]
    for dag in alone[:50]:
        assert Dag(dag.edges, dag.order, 2) == dag  # the checks of the constructor
    pmf = prior.n_active_pmf(observed)
    nodes = {"alone": [dag.n_nodes for dag in alone], "together": prior.sample(rng, observed, size=20_000).n_nodes}
    edges = np.array([dag.n_edges for dag in alone])
    error = edges.std() / math.sqrt(edges.size)
    p_values = {name: pmf_p_value(counts, pmf) for name, counts in nodes.items()}
    check(p_values | {"edges": z_p_value(edges.mean(), prior.expected_edges(observed), error)})


def test_edges_in_the_mean_are_exact():
    p_values = {}
    for name, observed in OBSERVED.items():
        edges = PRIOR.sample(np.random.default_rng(2), observed, size=100_000).n_edges
        error = edges.std() / math.sqrt(edges.size)
        p_values[name] = z_p_value(edges.mean(), PRIOR.expected_edges(observed), error)
    check(p_values)


@cases
def test_sweep_is_the_naive_sweep(observed):
    rng = random.Random(3)
    literal = [from_naive(naive.sweep(rng, observed, 1.3, 1.2, 0.8)) for _ in range(6_000)]
    check(compare(PRIOR.sample(np.random.default_rng(3), observed, size=50_000), together(literal)))


@cases
def test_sweep_is_the_restaurant(observed):
    rng = np.random.default_rng(4)
    served = together([PRIOR.restaurant(rng, observed) for _ in range(20_000)])
    check(compare(PRIOR.sample(rng, observed, size=50_000), served))


@cases
def test_sweep_is_the_finite_model_with_many_nodes(observed):
    rng = np.random.default_rng(5)
    finite = PRIOR.finite(20_000).sample(rng, observed, size=2_000)
    check(compare(PRIOR.sample(rng, observed, size=50_000), finite))


def test_a_finite_model_with_few_nodes_is_not_the_limit():
    rng = np.random.default_rng(6)
    few = PRIOR.finite(12).sample(rng, [0.0, 0.0], size=20_000)
    check_caught(compare(PRIOR.sample(rng, [0.0, 0.0], size=50_000), few))


@pytest.mark.parametrize("observed", [[0.0, 0.35, 1.0], [FREE, 0.0, 0.0]])
def test_finite_model_is_its_literal_definition(observed):
    rng = random.Random(7)
    literal = [from_naive(naive.finite(rng, observed, 1.3, 1.2, 0.8, 7)) for _ in range(10_000)]
    ours = PRIOR.finite(7).sample(np.random.default_rng(7), observed, size=50_000)
    check(compare(ours, together(literal)))


def test_one_more_star_is_one_more_observed_node():
    rng = np.random.default_rng(8)
    extended = [PRIOR.extend(rng, dag, 0.2) for dag in PRIOR.sample(rng, [0.0, FREE], size=20_000)]
    check(compare(PRIOR.sample(rng, [0.0, FREE, 0.2], size=50_000), together(extended)))


def test_buffet_is_the_two_parameter_indian_buffet_process():
    """Customers one after another, dishes with probability m/(α+j), Poisson(αγ/(α+j)) new ones."""
    rng = np.random.default_rng(9)
    alpha, gamma, n = 0.7, 1.5, 4
    literal = []
    for _ in range(20_000):
        dishes = np.zeros((0, n), dtype=bool)
        for j in range(n):
            dishes[:, j] = rng.random(len(dishes)) < dishes.sum(axis=1) / (alpha + j)
            new = np.zeros((rng.poisson(alpha * gamma / (alpha + j)), n), dtype=bool)
            new[:, j] = True
            dishes = np.concatenate([dishes, new])
        size = n + len(dishes)
        edges = np.zeros((size, size), dtype=bool)
        edges[n:, :n] = dishes
        literal.append(Dag(edges, [0.0] * n + [1.0] * len(dishes), n))
    ours = IndianBuffet(alpha, gamma).sample(rng, n, size=50_000)
    check(compare(ours, together(literal)))


# The density -----------------------------------------------------------------------------------------------------


def masses(log_prob, observed, n_hidden):
    """∫ exp(log_prob) over all graphs with fixed observed orders and 0, 1, …, n_hidden hidden nodes."""
    total = [0.0] * (n_hidden + 1)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    cuts = sorted({0.0, 1.0, *observed})
    for count in range(n_hidden + 1):
        for pieces in itertools.combinations_with_replacement(range(len(cuts) - 1), count):
            widths = [cuts[p + 1] - cuts[p] for p in pieces]
            for points, weight in sorted_points(pieces, nodes, weights):
                heights = [cuts[p] + widths[j] * points[j] for j, p in enumerate(pieces)]
                scale = weight * math.prod(widths)
                for dag in graphs_over([*observed, *heights], len(observed)):
                    total[count] += scale * math.exp(log_prob(dag))
    return np.array(total)


def sorted_points(pieces, nodes, weights):
    """Quadrature for sorted orders, each in its own piece; orders in the same piece run over a simplex."""
    groups = [len(list(group)) for _, group in itertools.groupby(pieces)]
    rules = [list(simplex_rule(size)) for size in groups]
    for combination in itertools.product(*rules):
        yield [x for points, _ in combination for x in points], math.prod(w for _, w in combination)


@pytest.mark.parametrize("observed", [[0.0], [0.3], [0.0, 0.6], [0.2, 0.2], [1.0, 0.0]])
def test_density_integrates_to_the_exact_sizes(observed):
    pmf = PRIOR.n_active_pmf(observed)
    n = len(observed)
    got = masses(PRIOR.log_prob, observed, 2)
    np.testing.assert_allclose(got, pmf[n : n + 3], rtol=1e-7)
    wrong = masses(lambda dag: PRIOR.log_prob(dag) - math.lgamma(dag.n_nodes + 1), observed, 1)
    assert not np.allclose(wrong, pmf[n : n + 2], rtol=1e-2), "1/K⁺! put back in must be seen"


def test_density_of_free_orders_integrates_to_the_exact_sizes():
    """Two free observed nodes, without and with one hidden node: all orders integrated over."""
    pmf = PRIOR.n_active_pmf(2)
    for n_hidden in (0, 1):
        n, total, wrong = 2 + n_hidden, 0.0, 0.0
        for ranking in itertools.permutations(range(n)):
            for points, weight in simplex_rule(n):
                for dag in graphs_over([points[rank] for rank in ranking], 2):
                    value = weight * math.exp(PRIOR.log_prob(dag))
                    total += value
                    wrong += value / math.factorial(n)
        np.testing.assert_allclose(total, pmf[n], rtol=1e-7)
        assert abs(wrong - pmf[n]) > 1e-2


def test_density_sums_to_one():
    """All of it: a small gamma leaves next to nothing beyond two hidden nodes."""
    prior = ChefsProcess(0.8, 0.01, 0.5)
    assert masses(prior.log_prob, [0.4, 0.0], 2).sum() == pytest.approx(1.0, abs=2e-6)


def test_finite_density_sums_to_one():
    """K = 3 with one observed node: every graph has at most two hidden nodes, so nothing is left out."""
    finite = PRIOR.finite(3)
    assert masses(finite.log_prob, [0.25], 2).sum() == pytest.approx(1.0, rel=1e-6)
    wrong = masses(lambda dag: finite.log_prob(dag) - math.lgamma(dag.n_nodes + 1), [0.25], 2).sum()
    assert abs(wrong - 1.0) > 0.1, "Eq. 8 with its 1/K⁺! must not sum to one"


@pytest.mark.parametrize("observed", [[0.0, 0.35, 1.0], [0.0, 0.0], [0.3, 0.3, 0.8]])
def test_sweep_draws_structures_with_their_density(observed):
    """Every structure with at most one hidden node, cell by cell; the rest is one more cell."""
    draws = PRIOR.sample(np.random.default_rng(10), observed, size=60_000)
    probability = {
        key: sum(weight * math.exp(PRIOR.log_prob(dag)) for dag, weight in points)
        for key, points in one_hidden_cells(observed)
    }
    counts = dict.fromkeys(probability, 0)
    small = np.flatnonzero(draws.n_hidden <= 1)
    for g in small:
        counts[cell_of(draws[int(g)], observed)] += 1
    cells = [*counts.values(), len(draws) - small.size]
    check({"structures": cells_p_value(cells, [*probability.values(), 1 - sum(probability.values())])})


@cases
def test_density_ratio_turns_one_process_into_another(observed):
    """Draws under A weighted by f_B / f_A are draws under B: total weight 1, and B's own sizes."""
    a, b = PRIOR, ChefsProcess(1.0, 0.9, 1.1)
    draws = a.sample(np.random.default_rng(11), observed, size=20_000)
    weights = np.exp([b.log_prob(dag) - a.log_prob(dag) for dag in draws])
    error = weights.std() / math.sqrt(len(draws))
    nodes = weights * draws.n_nodes
    check(
        {
            "weight": z_p_value(weights.mean(), 1.0, error),
            "nodes": z_p_value(nodes.mean(), b.expected_nodes(observed), nodes.std() / math.sqrt(len(draws))),
        }
    )


def test_popularity_is_what_connects_one_more_node():
    """A node above connects to a further node with the mean of its posterior popularity: f(with edge) / f(either)."""
    rng = np.random.default_rng(12)
    for dag in PRIOR.sample(rng, [0.0, 0.4, FREE], size=200):
        below = dag.order.min() / 2 if dag.order.min() > 0 else 0.0
        mean = PRIOR.popularity(dag).mean()
        # One more observed node at the bottom: compare the two graphs that differ in one edge from k to it.
        order = np.append(dag.order[:3], [below, *dag.order[3:]])
        new = np.argsort([0, 1, 2, *range(4, dag.n_nodes + 1), 3])
        edges = np.zeros((dag.n_nodes + 1, dag.n_nodes + 1), dtype=bool)
        edges[:-1, :-1] = dag.edges
        edges = edges[np.ix_(new, new)]
        names = [0, 1, 2, *range(4, dag.n_nodes + 1)]
        for k in range(dag.n_nodes):
            if dag.order[k] > below:
                joined = edges.copy()
                joined[names[k], 3] = True
                odds = PRIOR.log_prob(Dag(joined, order, 4)) - PRIOR.log_prob(Dag(edges, order, 4))
                assert 1 / (1 + math.exp(-odds)) == pytest.approx(mean[k], rel=1e-9)


# Negative controls: the misprints of the paper put back in, and other single errors ----------------------------------

TALL = ChefsProcess(1.0, 2.5, 2.0)


@pytest.mark.parametrize(
    "observed, change",
    [
        pytest.param(
            [0.0, 0.0, 0.0, 0.0, 1.0],
            [("(phi + state.n_children[star]) / (alpha + phi + asked)", "phi / (alpha + phi)")],
            id="backward proposal binomial instead of beta-binomial",
        ),
        pytest.param(
            [0.0, 0.0, 0.0, 0.0],
            [
                ("if served[i] and state.order[i] < height:", "if state.order[i] < height:"),
                (
                    "below = n_served_below(state, served, state.order[k])",
                    "below = n_served_below(state, served, state.order[k]) - 1",
                ),
            ],
            id="chefs that have not chosen count below a chef",
        ),
        pytest.param(
            [0.0, 0.0, 0.0, 0.0],
            [
                (
                    "    for p in range(first_above(state, i)):\n        below += served[state.ranking[p]]",
                    "    below = first_above(state, i) - 1",
                ),
                ("            below += served[state.ranking[p]]", "            below += 1"),
            ],
            id="chefs that have not chosen count below an interval",
        ),
    ],
)
def test_misprints_of_the_restaurant_are_caught(observed, change):
    rng = np.random.default_rng(13)
    wrong = restaurant_of(mutant("restaurant", *change), rng, observed, 8_000, TALL)
    right = restaurant_of(restaurant, rng, observed, 8_000, TALL)
    truth = TALL.sample(rng, observed, size=50_000)
    check(compare(truth, right))
    check_caught(compare(truth, wrong))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("rate = alpha * gamma * harmonic[n]", "rate = gamma * harmonic[n]"), id="rate without alpha"),
        pytest.param(
            ("weight *= (n - m) * m / ((m + 1) * (alpha + (n - m - 1)))", "weight *= (n - m) / (m + 1)"),
            id="number of children",
        ),
        pytest.param(("if top > level:", "if True:"), id="equal orders connect"),
        pytest.param(
            ("pick = placed[int(rng.random() * (j + 1))]", "pick = placed[j]"), id="always the highest children"
        ),
    ],
)
def test_errors_of_the_sweep_are_caught(change):
    rng = np.random.default_rng(14)
    observed = OBSERVED["tied"]
    wrong = sweep_of(mutant("generate", change), rng, observed, 20_000)
    p_values = compare(PRIOR.sample(rng, observed, size=20_000), wrong)
    if "pick" in change[0]:  # which children are chosen shows in structures, not in counts
        cells = structure_cells(wrong, PRIOR.sample(rng, observed, size=20_000))
        p_values["structures"] = cells
    check_caught(p_values)


def structure_cells(a, b):
    """Whether child 0 or 1 is chosen more often than the others: edges into each observed node."""
    counts = [np.bincount(dags.child[dags.child < dags.n_observed], minlength=dags.n_observed) for dags in (a, b)]
    from scipy.stats import chi2_contingency

    return chi2_contingency(np.array(counts)).pvalue


def test_errors_of_the_forward_equations_are_caught():
    observed = np.array(OBSERVED["mixed"])
    hyper = np.array([PRIOR.alpha, PRIOR.gamma, PRIOR.phi])
    nodes = PRIOR.sample(np.random.default_rng(15), observed, size=50_000).n_nodes
    for change in (
        ("np.cumsum(1.0 / (alpha + n[:-1]))", "np.cumsum(1.0 / (alpha + n[:-1] + 1))"),
        ("arrival = np.arange(1.0, free + 1)[:, None]", "arrival = np.ones((free, 1))"),
    ):
        wrong = mutant("moments", change)._walk(observed, hyper, 400)[0]
        check_caught({"nodes": pmf_p_value(nodes, wrong)})
    check({"nodes": pmf_p_value(nodes, size_distribution(observed, hyper)[0])})
