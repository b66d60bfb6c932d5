"""The Indian buffet against its closed forms; cascades of buffets: what they refuse, and what they make of orders."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import chefs
from chefs import Dag, Hyperpriors, LikelihoodKernel, Moves, PriorKernel
from chefs.buffets import CascadingBuffet, ExtendedBuffet, IndianBuffet, layer
from chefs.prior import DagPrior
from tests.helpers import refused
from tests.layers import FAMILIES, dag_of
from tests.strategies import dags, positive_numbers


def layered(n, dishes):
    """The graph of n customers in which each dish has these customers."""
    edges = np.zeros((n + len(dishes), n + len(dishes)), dtype=bool)
    for k, customers in enumerate(dishes):
        edges[n + k, list(customers)] = True
    return Dag(edges, [0.0] * n + [1.0] * len(dishes), n)


def two_customers(first, second, both):
    return layered(2, [(0,)] * first + [(1,)] * second + [(0, 1)] * both)


def class_of(dag):
    """How many dishes of two customers belong to the first alone, the second alone, both."""
    dishes = dag.edges[2:, :2]
    return (
        int((dishes[:, 0] & ~dishes[:, 1]).sum()),
        int((~dishes[:, 0] & dishes[:, 1]).sum()),
        int(dishes.all(axis=1).sum()),
    )


@st.composite
def buffets(draw):
    n = draw(st.integers(1, 4))
    customers = st.sets(st.integers(0, n - 1), min_size=1)
    return n, draw(st.lists(customers, max_size=6))


def test_it_is_a_prior():
    assert isinstance(IndianBuffet(), DagPrior)


@pytest.mark.parametrize("alpha,gamma", [(1.0, 2.0), (0.1, 3.0), (20.0, 0.5)])
def test_one_customer_takes_poisson_dishes(alpha, gamma):
    found = [math.exp(IndianBuffet(alpha, gamma).log_prob(layered(1, [(0,)] * k))) for k in range(30)]
    np.testing.assert_allclose(found, stats.poisson(gamma).pmf(np.arange(30)), rtol=1e-10)
    assert sum(found) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("alpha,gamma", [(1.0, 0.8), (0.2, 1.0), (15.0, 0.4)])
def test_probabilities_of_two_customers_sum_to_one(alpha, gamma):
    most = 12
    buffet = IndianBuffet(alpha, gamma)
    total = math.fsum(
        math.exp(buffet.log_prob(two_customers(*counts))) for counts in itertools.product(range(most), repeat=3)
    )
    # The three counts are independent Poisson variables: what was left out is known.
    alone, shared = alpha * gamma / (alpha + 1), gamma / (alpha + 1)
    within = stats.poisson(alone).cdf(most - 1) ** 2 * stats.poisson(shared).cdf(most - 1)
    assert within > 0.9999999
    assert total == pytest.approx(within, abs=1e-12)


@given(buffets(), positive_numbers(), positive_numbers())
def test_dishes_of_each_kind_are_independent_poisson(buffet, alpha, gamma):
    n, dishes = buffet
    expected = 0.0
    for size in range(1, n + 1):
        rate = alpha * gamma * math.gamma(size) / math.prod(alpha + n - size + j for j in range(size))
        for customers in itertools.combinations(range(n), size):
            count = dishes.count(set(customers))
            expected += count * math.log(rate) - rate - math.lgamma(count + 1)
    assert IndianBuffet(alpha, gamma).log_prob(layered(n, dishes)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(buffets(), positive_numbers())
def test_classic_one_parameter_form(buffet, mass):
    n, dishes = buffet
    harmonic = sum(1 / j for j in range(1, n + 1))
    expected = len(dishes) * math.log(mass) - mass * harmonic
    for kind in {frozenset(dish) for dish in dishes}:
        expected -= math.log(math.factorial(dishes.count(set(kind))))
    for dish in dishes:
        m = len(dish)
        expected += math.log(math.factorial(n - m) * math.factorial(m - 1) / math.factorial(n))
    assert IndianBuffet(1.0, mass).log_prob(layered(n, dishes)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.data(), buffets(), positive_numbers(), positive_numbers())
def test_renaming_hidden_nodes_changes_nothing(data, buffet, alpha, gamma):
    n, dishes = buffet
    shuffled = data.draw(st.permutations(dishes))
    a, b = (IndianBuffet(alpha, gamma).log_prob(layered(n, d)) for d in (dishes, shuffled))
    assert a == pytest.approx(b, rel=1e-12)


@given(dags())
def test_only_two_layers_have_a_probability(dag):
    n = dag.n_observed
    possible = (dag.order[:n] == 0).all() and (dag.order[n:] == 1).all()
    assert math.isfinite(IndianBuffet().log_prob(dag)) == possible


@pytest.mark.parametrize("alpha,gamma", [(1.0, 1.2), (0.3, 1.5), (8.0, 0.8)])
def test_draws_of_two_customers_fit_the_closed_form(alpha, gamma):
    buffet = IndianBuffet(alpha, gamma)
    size = 6000
    counts = {}
    for dag in buffet.sample(np.random.default_rng(5), 2, size=size):
        counts[class_of(dag)] = counts.get(class_of(dag), 0) + 1
    cells = [c for c in itertools.product(range(7), repeat=3)]
    expected = np.array([size * math.exp(buffet.log_prob(two_customers(*c))) for c in cells])
    found = np.array([counts.get(c, 0) for c in cells])
    large = expected >= 5
    assert large.sum() > 5
    found = np.append(found[large], size - found[large].sum())
    expected = np.append(expected[large], size - expected[large].sum())
    assert stats.chisquare(found, expected).pvalue > 1e-4


def test_draws_of_many_customers_fit_the_expected_sizes():
    buffet = IndianBuffet(2.0, 1.5)
    draws = buffet.sample(np.random.default_rng(0), 5, size=20_000)
    rate = buffet.expected_nodes(5) - 5
    counts = np.bincount(draws.n_hidden, minlength=16)
    law = stats.poisson(rate)
    expected = 20_000 * np.append(law.pmf(np.arange(12)), law.sf(11))
    assert stats.chisquare(np.append(counts[:12], counts[12:].sum()), expected).pvalue > 1e-4
    spread = draws.n_edges.std() / math.sqrt(len(draws))
    assert abs(draws.n_edges.mean() - buffet.expected_edges(5)) < 4 * spread


@pytest.mark.parametrize("alpha,gamma,n", [(1.0, 2.0, 1), (0.5, 1.0, 3), (7.0, 0.3, 6)])
def test_expected_sizes(alpha, gamma, n):
    buffet = IndianBuffet(alpha, gamma)
    by_kind = [
        (m, math.comb(n, m) * alpha * gamma * math.gamma(m) * math.gamma(n - m + alpha) / math.gamma(n + alpha))
        for m in range(1, n + 1)
    ]
    assert buffet.expected_nodes(n) == pytest.approx(n + sum(rate for _, rate in by_kind), rel=1e-12)
    assert buffet.expected_edges(n) == pytest.approx(sum(m * rate for m, rate in by_kind), rel=1e-12)
    assert buffet.expected_edges([0.0] * n) == buffet.expected_edges(n)


def test_draws_are_valid_reproducible_and_counted():
    buffet = IndianBuffet(1.0, 2.0)
    draws = buffet.sample(np.random.default_rng(3), 3, size=50)
    again = buffet.sample(np.random.default_rng(3), [0.0, math.nan, 0.0], size=50)
    assert [d.to_json() for d in draws] == [d.to_json() for d in again]
    for dag in draws:
        assert Dag(dag.edges, dag.order, dag.n_observed) == dag
        assert math.isfinite(buffet.log_prob(dag))
    one = buffet.sample(np.random.default_rng(3), 3)
    assert isinstance(one, Dag)
    assert one == buffet.sample(np.random.default_rng(3), 3, size=1)[0]
    assert len(buffet.sample(np.random.default_rng(3), 3, size=0)) == 0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, True, [1.0]])
@pytest.mark.parametrize("name", ["alpha", "gamma"])
def test_bad_hyperparameters(name, bad):
    with refused(name):
        IndianBuffet(**{name: bad})


@pytest.mark.parametrize("bad", [0, -1, True, [], [[0.0]], "two", [0.5], [0.0, 1.0], [-0.1], 2.0, None])
def test_bad_observed(bad):
    with refused("observed"):
        IndianBuffet().sample(np.random.default_rng(0), bad)
    for expected in (IndianBuffet().expected_nodes, IndianBuffet().expected_edges):
        with refused("observed"):
            expected(bad)


def test_bad_rng_and_size():
    for bad in (None, 0, np.random.RandomState(0), np.random):
        with refused("rng", error=TypeError):
            IndianBuffet().sample(bad, 2)
    for bad in (-1, 1.5, True, "3"):
        with refused("size"):
            IndianBuffet().sample(np.random.default_rng(0), 2, size=bad)


# Cascades -----------------------------------------------------------------------------------------------------------

CASCADES = [CascadingBuffet, ExtendedBuffet]
cascades = pytest.mark.parametrize("kind", CASCADES)
families = pytest.mark.parametrize("kind", FAMILIES.values(), ids=FAMILIES)


@cascades
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, True, [1.0]], ids=str)
@pytest.mark.parametrize("name", ["alpha", "gamma"])
def test_bad_hyperparameters_of_cascades(kind, name, bad):
    with refused(name):
        kind(**{name: bad})


@cascades
@pytest.mark.parametrize("bad", [0, -1, True, [], [[0.0]], "two", [0.5], [0.0, 1.0], [-0.1], 2.0, None], ids=str)
def test_bad_observed_of_cascades(kind, bad):
    with refused("observed"):
        kind().sample(np.random.default_rng(0), bad)
    with refused("observed"):
        PriorKernel(kind(), bad)


def test_priors_of_different_kinds_are_different():
    assert len({IndianBuffet(), CascadingBuffet(), ExtendedBuffet()}) == 3
    assert CascadingBuffet(2.0, 1.0) != ExtendedBuffet(2.0, 1.0)
    assert repr(ExtendedBuffet(2.0, 1.0)) == "ExtendedBuffet(alpha=2.0, gamma=1.0)"


class TestLayer:
    def test_of_draws(self):
        """Edges of a cascade go down one layer, and nothing is above an empty layer."""
        for dag in CascadingBuffet(1.2, 0.9).sample(np.random.default_rng(0), 3, size=300):
            layers = layer(dag)
            parent, child = np.nonzero(dag.edges)
            assert (layers[parent] - layers[child] == 1).all()
            assert set(layers.tolist()) == set(range(layers.max() + 1))
            assert (layers[:3] == 0).all() and (layers[3:] > 0).all()

    def test_of_the_buffet(self):
        assert layer(layered(2, [(0,), (0, 1)])).tolist() == [0, 0, 1, 1]
        assert layer(layered(2, [])).tolist() == [0, 0]

    @pytest.mark.parametrize(
        "order", [0.5, 0.7499999999999999, 0.75, 0.9375, 1 - 2.0**-40, np.nextafter(1 - 2.0**-41, 0)]
    )
    def test_of_the_ends_of_layers(self, order):
        assert layer(Dag([[0, 0], [1, 0]], [0.0, order], 1))[1] == math.floor(-math.log2(1 - order))

    @pytest.mark.parametrize(
        "orders", [(0.0, 0.3), (0.1, 0.6), (0.0, 1 - 2.0**-41), (0.5, 1.0), (0.0, 0.6, 1.0)], ids=str
    )
    def test_where_there_are_none(self, orders):
        edges = np.zeros((len(orders), len(orders)), dtype=bool)
        edges[1:, 0] = True
        dag = Dag(edges, orders, 1)
        with refused("dag", "layered"):
            layer(dag)
        assert [kind().log_prob(dag) for kind in FAMILIES.values()] == [-math.inf] * 3

    @pytest.mark.parametrize("wrong", [None, 3, [0.0, 0.5]], ids=str)
    def test_of_what_is_no_graph(self, wrong):
        with pytest.raises(TypeError, match="dag must be"):
            layer(wrong)


@pytest.mark.parametrize(
    "edges, layers, possible",
    [
        ({(1, 0)}, [0, 1], CASCADES),
        ({(1, 0), (2, 1)}, [0, 1, 2], CASCADES),
        ({(1, 0), (2, 1), (2, 0)}, [0, 1, 2], [ExtendedBuffet]),
        ({(1, 0), (2, 0)}, [0, 1, 2], []),  # no child in the layer below
        ({(1, 0), (2, 0)}, [0, 2, 2], []),
        ({(1, 0), (2, 0), (2, 1)}, [0, 1, 1], []),  # within a layer
    ],
    ids=str,
)
def test_which_edges_are_possible(edges, layers, possible):
    dag = dag_of(edges, layers, 1, None)
    assert [kind for kind in CASCADES if math.isfinite(kind().log_prob(dag))] == possible
    for kind in CASCADES:
        if kind not in possible:
            with refused("start", kind.__name__):
                PriorKernel(kind(), 1, start=dag)


@pytest.mark.parametrize("alpha,gamma", [(1e-100, 1e-100), (1e50, 1e-50), (1e-50, 1.0), (1e100, 1e-100)])
@cascades
def test_densities_of_extreme_hyperparameters_are_finite(kind, alpha, gamma):
    dag = dag_of({(2, 0), (2, 1), (3, 2)}, [0, 0, 1, 2], 2, kind)
    assert math.isfinite(kind(alpha, gamma).log_prob(dag))


class TestKernels:
    @families
    def test_log_prob_of_a_draw_is_that_of_the_prior(self, kind):
        prior, rng = kind(1.2, 0.8), np.random.default_rng(0)
        for kernel in (PriorKernel(prior, 3), LikelihoodKernel(prior, 3, lambda dag: -0.1 * dag.n_edges)):
            state = kernel.init(rng)
            for _ in range(30):
                state, _ = kernel.step(rng, state)
                drawn = kernel.draw(state)
                dag = Dag._trusted(drawn.order, drawn.parent, drawn.child, 3)
                assert drawn.scalars["log_prob"] == pytest.approx(prior.log_prob(dag), rel=1e-9, abs=1e-9)
                assert "phi" not in drawn.scalars

    @families
    def test_it_starts_where_it_is_told(self, kind):
        start = kind(1.0, 1.5).sample(np.random.default_rng(1), 2)
        kernel = PriorKernel(kind(), [0.0, math.nan], start=start)
        drawn = kernel.draw(kernel.init(np.random.default_rng(2)))
        assert Dag._trusted(drawn.order, drawn.parent, drawn.child, 2) == start

    @families
    def test_moves_that_there_are(self, kind):
        kernel, rng = PriorKernel(kind(), 3, n_moves=5_000), np.random.default_rng(3)
        made = dict(zip(kernel.move_names, kernel.step(rng, kernel.init(rng))[1].tally[:, 0], strict=True))
        assert {name for name, count in made.items() if count} == {"edge", "birth", "death"} | (
            set() if kind is IndianBuffet else {"order"}
        )

    @families
    def test_moves_that_there_are_not(self, kind):
        none = Moves(0, 0, float(kind is IndianBuffet), 1)
        with refused("moves", kind.__name__):
            PriorKernel(kind(), 3, moves=none)

    @families
    @pytest.mark.parametrize("wrong", [{"bounds": {0: (0.1, 0.2)}}, {"required": [(0, 1)]}], ids=str)
    def test_wishes_that_cannot_be_granted(self, kind, wrong):
        with refused(*wrong):
            PriorKernel(kind(), 3, **wrong)

    @families
    def test_most_hidden(self, kind):
        kernel = PriorKernel(kind(1.0, 3.0), 3, max_hidden=2)
        trace = chefs.sample(np.random.default_rng(4), kernel, draws=200, chains=1, progress=False)
        assert trace.n_hidden.max() == 2

    @families
    def test_hyperparameters_are_learnt(self, kind):
        kernel = PriorKernel(kind(), 2, hyperpriors=Hyperpriors((5, 5), (5, 9)), max_hidden=10)
        trace = chefs.sample(np.random.default_rng(5), kernel, draws=20, chains=1, progress=False)
        assert len(set(trace.scalar("alpha"))) == len(set(trace.scalar("gamma"))) == 20

    def test_limits_made_for_other_priors_are_refused(self):
        from chefs._limits import Limits

        limits = Limits.of([0.0, math.nan], (), (), {}, None)
        with refused("observed", "buffet"):
            limits.state(np.random.default_rng(0), None, CascadingBuffet())
