"""The laws of the buffets: generator = literal process = density = chain, hyperparameters, posteriors, calibration."""

import hashlib
import math

import numpy as np
import pytest

from chefs import Dags, Hyperpriors, LikelihoodKernel, Moves, sample
from chefs._core import generate, propose
from chefs._core.state import N_ACTIVE, unpack
from chefs.buffets import CascadingBuffet, ExtendedBuffet, IndianBuffet
from tests.laws.graphs import empty_graphs, statistics, together
from tests.layers import dag_of, flat_layers, gathered, layers_of, literal, log_density, size_law, state_of, structures
from tests.mutants import mutant
from tests.stats import (
    cells_p_value,
    check,
    check_caught,
    kept_p_values,
    pmf_p_value,
    same_p_value,
    uniform_p_value,
    z_p_value,
)

N = 3  # observed nodes
PRIORS = {
    "buffet": IndianBuffet(1.3, 1.2),
    "cascading": CascadingBuffet(1.3, 0.8),
    "extended": ExtendedBuffet(1.3, 0.8),
}
priors = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
cascades = pytest.mark.parametrize("prior", [PRIORS["cascading"], PRIORS["extended"]], ids=["cascading", "extended"])


def numbers(dags):
    """What is compared about graphs: what is compared for the chefs, and the layers."""
    graph = np.repeat(np.arange(len(dags)), dags.n_nodes)
    of_edge = np.repeat(np.arange(len(dags)), dags.n_edges)
    layer = flat_layers(dags)
    steps = layer[dags.node_start[of_edge] + dags.parent] - layer[dags.node_start[of_edge] + dags.child]
    sizes = np.zeros((len(dags), layer.max() + 2), dtype=int)
    np.add.at(sizes, (graph, layer), 1)
    place = np.where(layer > 0, (dags.order + 2.0**-layer - 1) * 2.0 ** (layer + 1), 0.0)
    return statistics(dags) | {
        "layers": np.maximum.reduceat(layer, dags.node_start[:-1]),
        "units of layer 1": sizes[:, 1],
        "units of layer 2": sizes[:, 2] if sizes.shape[1] > 2 else sizes[:, 1],
        "squared sizes": (sizes**2).sum(axis=1),
        "edges that skip a layer": np.bincount(of_edge[steps > 1], minlength=len(dags)),
        "edges to the next layer": np.bincount(of_edge[steps == 1], minlength=len(dags)),
        "places in their layers": np.bincount(graph, place, minlength=len(dags)) / np.maximum(dags.n_hidden, 1),
    }


def compare(a, b):
    first, second = numbers(a), numbers(b)
    return {name: same_p_value(first[name], second[name]) for name in first}


def exact_sizes(dags, prior, most_layers=40):
    """p-values of the numbers of hidden units and of layers against their exact laws."""
    units, layers = size_law(type(prior), dags.n_observed, prior.alpha, prior.gamma, most_layers=most_layers)
    return {
        "exact units": pmf_p_value(dags.n_hidden, units),
        "exact layers": pmf_p_value(np.maximum.reduceat(flat_layers(dags), dags.node_start[:-1]), layers),
    }


# The generator and the density ----------------------------------------------------------------------------------------


@priors
def test_generator_has_the_exact_sizes(prior):
    check(exact_sizes(prior.sample(np.random.default_rng(1), N, size=100_000), prior))


@priors
def test_generator_is_the_literal_process(prior):
    rng = np.random.default_rng(2)
    told = [literal(rng, type(prior), N, prior.alpha, prior.gamma) for _ in range(15_000)]
    check(compare(prior.sample(rng, N, size=50_000), together(told)))


def small_graphs(prior, n_observed, most=2):
    """Every graph with at most so many hidden units, and its probability: the density over all places in the layers."""
    kind = type(prior)
    sizes = [(), (1,), (2,)] if kind is IndianBuffet else [(), (1,), (2,), (1, 1)]
    for size in [s for s in sizes if sum(s) <= most]:
        for edges, layers in structures(kind, n_observed, size):
            dag = dag_of(edges, layers, n_observed, kind)
            log_volume = -math.lgamma(1 + max(size, default=0))  # units of a layer in ascending order
            if kind is IndianBuffet:  # each labelling of its dishes is listed: the class has all of them
                labellings = 2 if size == (2,) and len({row.tobytes() for row in dag.edges[n_observed:]}) == 2 else 1
                yield dag, math.exp(prior.log_prob(dag)) / labellings
            else:
                log_volume -= math.log(2) * sum(level + 1 for level in layers[n_observed:])
                yield dag, math.exp(prior.log_prob(dag) + log_volume)


@cascades
@pytest.mark.parametrize("sizes", [(), (1,), (2,), (3,), (1, 1), (2, 1), (1, 2), (1, 1, 1), (2, 1, 1)], ids=str)
def test_density_integrates_to_the_exact_sizes_of_layers(prior, sizes):
    """Summed over all edges and integrated over all orders: P(K_1, K_2, …, 0), a product of Poisson probabilities."""
    kind, lengths = type(prior), [2.0 ** -(level + 1) for level, size in enumerate(sizes, 1) for _ in range(size)]
    volume = math.prod(lengths) / math.prod(math.factorial(size) for size in sizes)
    total = sum(math.exp(prior.log_prob(dag_of(*graph, 2, kind))) for graph in structures(kind, 2, sizes))
    expected = 1.0
    for below, size in zip((2, *sizes), (*sizes, 0), strict=True):
        rate = prior.alpha * prior.gamma * sum(1 / (prior.alpha + j) for j in range(below))
        expected *= math.exp(-rate) * rate**size / math.factorial(size)
    assert total * volume == pytest.approx(expected, rel=1e-10)


@cascades
def test_density_does_not_depend_on_the_place_in_the_layer(prior):
    rng = np.random.default_rng(3)
    for dag in prior.sample(rng, N, size=200):
        edges, layers = {(int(k), int(i)) for k, i in np.argwhere(dag.edges)}, layers_of(dag.order)
        moved = dag_of(edges, layers, N, type(prior), rng.random(dag.n_nodes))
        assert prior.log_prob(moved) == pytest.approx(prior.log_prob(dag), rel=1e-12)


def canonical(dag):
    """A graph with at most two hidden units up to renaming: what each has for children, sorted."""
    d = dag.n_observed
    units = sorted((dag.edges[k, d:].any(), tuple(np.flatnonzero(dag.edges[k, :d]))) for k in range(d, dag.n_nodes))
    return tuple((bool(hidden), tuple(map(int, observed))) for hidden, observed in units)


def small_law(prior, weight=lambda dag: 1.0):
    """P(canonical form) of graphs with at most two hidden units, each multiplied by a weight."""
    law = {}
    for dag, probability in small_graphs(prior, N):
        law[canonical(dag)] = law.get(canonical(dag), 0.0) + probability * weight(dag)
    return law


def structure_p_value(dags, law, rest=0.0):
    counts = dict.fromkeys(law, 0)
    others = 0
    for g, n_hidden in enumerate(dags.n_hidden):
        if n_hidden <= 2:
            counts[canonical(dags[g])] += 1
        else:
            others += 1
    return cells_p_value([*counts.values(), others], [*law.values(), rest])


@priors
def test_generator_draws_structures_with_their_density(prior):
    law = small_law(prior)
    draws = prior.sample(np.random.default_rng(4), N, size=40_000)
    check({"structures": structure_p_value(draws, law, 1 - sum(law.values()))})


@priors
def test_density_ratio_turns_one_prior_into_another(prior):
    """Draws under A weighted by f_B / f_A are draws under B."""
    other = type(prior)(1.1, 0.8 * prior.gamma)
    draws = prior.sample(np.random.default_rng(5), N, size=20_000)
    weights = np.exp([other.log_prob(dag) - prior.log_prob(dag) for dag in draws])
    units = size_law(type(prior), N, other.alpha, other.gamma)[0]
    nodes = weights * draws.n_hidden
    check(
        {
            "weight": z_p_value(weights.mean(), 1.0, weights.std() / math.sqrt(len(draws))),
            "units": z_p_value(nodes.mean(), units @ np.arange(units.size), nodes.std() / math.sqrt(len(draws))),
        }
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("further = n_children_binomial(rng, first, float(m), alpha + (n - m), silent)", "further = rng.binomial(first, m / (alpha + n))"), id="one popularity for all instead of its law"),
        pytest.param(("silent *= (alpha + (n - m) + j) / (alpha + n + j)", "silent *= (alpha + n + j) / (alpha + 2 * n - m + j)"), id="popularity that forgets the misses"),
        pytest.param(("for j in range(n):\n                harmonic +=", "for j in range(last):\n                harmonic +="), id="all nodes are customers"),
    ],
)  # fmt: skip
def test_errors_of_the_generator_are_caught(change):
    rng, prior = np.random.default_rng(6), ExtendedBuffet(0.8, 1.1)
    drawn = [Dags(N, *m.cascade(rng, N, 0.8, 1.1, True, 20_000)) for m in (generate, mutant("generate", change))]
    truth = prior.sample(rng, N, size=40_000)
    check(compare(truth, drawn[0]))
    check_caught(compare(truth, drawn[1]))


# The chain ----------------------------------------------------------------------------------------------------------


def evolve(rng, dags, prior, mix, n_moves, run):
    none, tally = np.zeros((3, 2)), np.zeros((6, 2), dtype=np.int64)
    return gathered([unpack(run(rng, state_of(dag, prior), mix, none, n_moves, tally)) for dag in dags], N)


def invariance(prior, moves, seed, run=propose.run, size=4_000, n_moves=100):
    """Start at exact draws, make moves: what comes out must be exact draws again."""
    rng = np.random.default_rng(seed)
    start = prior.sample(rng, N, size=size)
    moved = evolve(rng, start, prior, moves.under(prior).as_array(), n_moves, run)
    return kept_p_values(numbers(start), numbers(moved)) | exact_sizes(moved, prior)


def arrival(prior, seed, n_moves, size=1_000):
    """Start at empty graphs, make many moves: what comes out must be exact draws."""
    rng = np.random.default_rng(seed)
    start = empty_graphs(rng, [0.0] * N, size)
    moved = evolve(rng, start, prior, Moves().under(prior).as_array(), n_moves, propose.run)
    return compare(prior.sample(rng, N, size=40_000), moved) | exact_sizes(moved, prior)


@priors
@pytest.mark.parametrize("moves", [Moves(), Moves.paper()], ids=["ours", "paper"])
def test_chain_keeps_the_prior(prior, moves):
    check(invariance(prior, moves, seed=20))


@priors
@pytest.mark.parametrize(
    "moves",
    [Moves(1, 0, 0, 0), Moves(1, 0, 0, 0, edge_rule="gibbs"), Moves(0, 1, 0, 0)],
    ids=["edge", "edge gibbs", "birth and death"],
)
def test_each_move_alone_keeps_the_prior(prior, moves):
    check(invariance(prior, moves, seed=21, n_moves=30))


@cascades
def test_order_moves_alone_keep_the_prior(prior):
    check(invariance(prior, Moves(0, 0, 1, 0), seed=22, n_moves=30))


@priors
def test_chain_reaches_the_prior_from_an_empty_graph(prior):
    """With little mass: a tall graph grows and shrinks only unit by unit at its top."""
    check(arrival(type(prior)(1.3, 0.5), seed=23, n_moves=10_000))


def test_a_chain_that_has_not_run_is_told_from_the_prior():
    check_caught(arrival(PRIORS["cascading"], seed=24, n_moves=20))


# Negative controls -----------------------------------------------------------------------------------------------------

NEWBORN = "math.log(alpha * gamma / (alpha + (n_customers(state, level) - 1)))"
FACTOR = "length * n_active / ((n_orphans + 1) * (n_active + 1))"
NEW_DISHES = ("total -= alpha * gamma / (alpha + (first - n_under(state, level) - itself))", "total -= 0.0")
OLD_DISHES = ("factor *= (alpha + (customers - state.n_children[k])) / (alpha + customers)", "factor *= 1.0")
UPSIDE_DOWN = (NEWBORN, f"-{NEWBORN}")
ORPHANS_UP = (FACTOR, "length * n_active * (n_orphans + 1) / (n_active + 1)")
ODDS = "others / (state.hyper[ALPHA] + (customers - 1 - others))"
BOTH, EXTENDED = ("cascading", "extended"), ("extended",)
ERRORS = {
    # of Adams, Wallach and Ghahramani, or of a reading of them
    "birth ratio as printed: inverted, without the newborn's empty row": (BOTH, [UPSIDE_DOWN, NEW_DISHES, OLD_DISHES], [ORPHANS_UP]),
    "newborn without its empty row": (BOTH, [NEW_DISHES, OLD_DISHES], []),
    # of ours, had we made them
    "K° forgotten": (("buffet", *BOTH), [], [(FACTOR, "length * n_active / (n_active + 1)")]),
    "odds with the edge itself": (("buffet", *BOTH), [(ODDS, ODDS.replace(" - 1 - others", " - others"))], []),
}  # fmt: skip
MORE_ERRORS = {
    "birth ratio inverted": (BOTH, [UPSIDE_DOWN], [ORPHANS_UP]),
    "newborn without the dishes that it could have found": (BOTH, [NEW_DISHES], []),
    "newborn without the dishes that it did not take": (BOTH, [OLD_DISHES], []),
    "choice of the child forgotten": (("buffet", *BOTH), [], [(FACTOR, "length / (n_orphans + 1)")]),
    "length of the layer forgotten": (BOTH, [], [("math.log(length * n_active", "math.log(n_active")]),
    "customers of all layers": (("cascading",), [(NEWBORN, NEWBORN.replace("n_customers(state, level)", "n_under(state, level)"))], []),
    "odds of the layer below alone": (EXTENDED, [("customers = n_customers(state, layer_at(state, state.order[parent]))", "customers = n_under(state, layer_at(state, state.order[parent])) - n_under(state, layer_at(state, state.order[parent]) - 1)")], []),
    "empty row in the next layer alone": (EXTENDED, [("last = state.size[N_ACTIVE] if state.size[FAMILY] == EXTENDED else n_under(state, level + 2)", "last = n_under(state, level + 2)")], []),
}  # fmt: skip
LOUD = {"buffet": IndianBuffet(2.5, 1.6), "cascading": CascadingBuffet(2.5, 1.0), "extended": ExtendedBuffet(2.5, 1.0)}


def chain_with(in_density=(), in_cascade=(), **others):
    """The chain with changes to the densities and to the moves of buffets."""
    density = mutant("density", *in_density, **others)
    parts = {"layer_insertion": density.layer_insertion, "layer_odds": density.layer_odds}
    cascade = mutant("cascade", *in_cascade, **parts, **others)
    names = ("layer_birth", "layer_death", "layer_edge")
    return mutant("propose", **{name: getattr(cascade, name) for name in names}).run


@pytest.mark.parametrize("name", [*ERRORS, *(pytest.param(name, marks=pytest.mark.evidence) for name in MORE_ERRORS)])
def test_errors_of_the_chain_are_caught(name):
    families, in_density, in_cascade = (ERRORS | MORE_ERRORS)[name]
    run = chain_with(in_density, in_cascade)
    for family in families:
        check_caught(invariance(LOUD[family], Moves(), 25, run, n_moves=200))


def test_the_right_chain_passes_where_the_wrong_ones_are_caught():
    for prior in LOUD.values():
        check(invariance(prior, Moves(), 25, n_moves=200))


@pytest.mark.evidence
def test_units_that_lose_their_last_child_below_are_caught():
    change = ("if other != i and state.parents[other, k]:", "if other != i:")
    run = chain_with(fits_layers=mutant("layers", change).fits_layers)
    check_caught(invariance(LOUD["extended"], Moves(), 26, run, size=10_000, n_moves=100))


class TestLastLayer:
    """What happens at layer 40 is seen where the last layer is the second: its units are no customers."""

    HIGH = (1.5, 1.6)

    @staticmethod
    def chain(n_layers):
        return chain_with(n_layers=n_layers)

    @pytest.mark.parametrize(
        "extended", [pytest.param(False, marks=pytest.mark.evidence), True], ids=["cascading", "extended"]
    )
    def test_generator_density_and_chain_agree(self, extended):
        rng, prior = np.random.default_rng(27), (ExtendedBuffet if extended else CascadingBuffet)(*self.HIGH)
        low = mutant("generate", MOST_LAYERS=2)
        n_layers = mutant("layers", ("MOST_LAYERS = 40", "MOST_LAYERS = 2")).n_layers
        start, truth = (Dags(N, *low.cascade(rng, N, *self.HIGH, extended, size)) for size in (10_000, 40_000))
        check(exact_sizes(truth, prior, most_layers=2))
        mix = Moves().under(prior).as_array()
        check(compare(truth, evolve(rng, start, prior, mix, 100, self.chain(n_layers))))
        check_caught(compare(truth, evolve(rng, start, prior, mix, 100, propose.run)))
        log_prob = mutant("density", n_layers=n_layers).layer_log_prob
        for dag in truth[:300]:
            edges, layers = {(int(k), int(i)) for k, i in np.argwhere(dag.edges)}, layers_of(dag.order)
            expected = log_density(type(prior), edges, layers, N, *self.HIGH, most_layers=2)
            expected += math.log(2) * sum(level + 1 for level in layers[N:])
            assert log_prob(state_of(dag, prior), *self.HIGH) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("kind", [CascadingBuffet, ExtendedBuffet])
    def test_draws_end_with_layer_40(self, kind):
        """With this much mass layers would go on for thousands."""
        draws = kind(1.0, 3.0).sample(np.random.default_rng(28), 2, size=20)
        assert np.maximum.reduceat(flat_layers(draws), draws.node_start[:-1]).max() == 40
        assert all(math.isfinite(kind(1.0, 3.0).log_prob(dag)) for dag in draws)


# Hyperparameters -------------------------------------------------------------------------------------------------------

LIGHT = Hyperpriors(alpha=(5.0, 10.0), gamma=(5.0, 8.0), phi=(5.0, 5.0))
MOST_HIDDEN = 8


def draw_joint(rng, kind):
    """Hyperparameters from LIGHT and a graph with few hidden units."""
    while True:
        prior = kind(1 / rng.gamma(5.0, 1 / 10.0), rng.gamma(5.0, 1 / 8.0))
        dag = prior.sample(rng, N)
        if dag.n_hidden <= MOST_HIDDEN:
            return prior, dag


def numbers_of(state):
    """What is compared about (hyperparameters, graph)."""
    (alpha, gamma, phi), n = state.hyper, int(state.size[N_ACTIVE])
    n_edges = int(state.n_parents[:n].sum())
    assert phi == 1.0  # there is no phi to learn
    return {
        "alpha": alpha,
        "gamma": gamma,
        "units": n,
        "edges": n_edges,
        "units/gamma": n / (1 + gamma),
        "edges·alpha": n_edges * alpha,
    }


def joint_law(kind, move, seed=29, size=3_000):
    """(hyperparameters, graph) drawn forwards, and what they are after a move."""
    rng, before, after = np.random.default_rng(seed), [], []
    for _ in range(size):
        prior, dag = draw_joint(rng, kind)
        state = state_of(dag, prior, MOST_HIDDEN)
        before.append(numbers_of(state))
        after.append(numbers_of(move(rng, state)))
    return kept_p_values(before, after)


@priors
def test_hyperparameters_and_graph_keep_their_joint_law(prior):
    mix = Moves().under(prior).as_array()

    def chain(rng, state):
        for _ in range(5):
            state = propose.run(rng, state, mix, LIGHT.as_array(), 20, np.zeros((6, 2), dtype=np.int64))
        return state

    check(joint_law(type(prior), chain))


@pytest.mark.parametrize(
    "in_density, in_hyper",
    [
        pytest.param([], [("alpha * layer_exposure(", "layer_exposure(")], id="gamma"),
        pytest.param([("for level in range(n_layers(state)):", "for level in range(1):")], [], id="one buffet alone"),
        pytest.param([("total = -alpha * gamma * layer_exposure(state, alpha)", "total = -gamma * layer_exposure(state, alpha)")], [], id="alpha"),
    ],
)  # fmt: skip
def test_errors_of_the_hyperparameters_are_caught(in_density, in_hyper):
    density = mutant("density", *in_density)
    parts = {"layer_exposure": density.layer_exposure, "log_prob_of_state": density.log_prob_of_state}
    wrong = mutant("hyper", *in_hyper, **parts)

    def updates(rng, state):
        for _ in range(5):
            wrong.update_hyper(rng, state, LIGHT.as_array())
        return state

    check_caught(joint_law(ExtendedBuffet, updates))


# With a likelihood -----------------------------------------------------------------------------------------------------


def skewed(dag):
    """A log-likelihood between −2 and 2 that follows no pattern."""
    return 4.0 * hashlib.sha256(repr(canonical(dag)).encode()).digest()[0] / 255 - 2.0


@priors
@pytest.mark.parametrize("moves", [Moves(), Moves.paper()], ids=["ours", "paper"])
def test_posterior_is_exact(prior, moves):
    kernel = LikelihoodKernel(prior, N, skewed, max_hidden=2, moves=moves, n_moves=60)
    trace = sample(np.random.default_rng(30), kernel, draws=3_000, warmup=20, chains=1, progress=False)
    for sign, judge in ((1.0, check), (-1.0, check_caught)):
        law = small_law(prior, lambda dag, sign=sign: math.exp(sign * skewed(dag)))
        total = sum(law.values())
        expected = {key: mass / total for key, mass in law.items()}
        judge({"structures": structure_p_value(trace.chains[0].dags, expected)})


def data_of(rng, dag):
    """Every observed node shows its number of parents through noise."""
    return dag.edges[:, :N].sum(axis=0) + 0.5 * rng.normal(size=N)


def log_likelihood_of(data, factor=1.0):
    return lambda dag: -2.0 * factor * float(((data - dag.edges[:, :N].sum(axis=0)) ** 2).sum())


NAMES = ("alpha", "gamma", "units", "edges", "first", "second", "third", "log-likelihood")


def geweke(kind, seed, size=1_000, factor=1.0, steps=6):
    """Joint draws of everything, and what they are after rounds of (data given the rest, the rest given data)."""
    rng, before, after = np.random.default_rng(seed), [], []

    def row(alpha, gamma, dag, data):
        values = alpha, gamma, dag.n_nodes, dag.n_edges, *data, log_likelihood_of(data)(dag)
        return dict(zip(NAMES, values, strict=True))

    for _ in range(size):
        prior, dag = draw_joint(rng, kind)
        data, alpha, gamma = data_of(rng, dag), prior.alpha, prior.gamma
        before.append(row(alpha, gamma, dag, data))
        for _ in range(steps):
            likelihood = log_likelihood_of(data, factor)
            kernel = LikelihoodKernel(
                kind(alpha, gamma), N, likelihood, hyperpriors=LIGHT, max_hidden=MOST_HIDDEN, n_moves=20, start=dag
            )
            draw = kernel.draw(kernel.step(rng, kernel.init(rng))[0])
            dag = gathered([(draw.order, draw.parent, draw.child)], N)[0]
            alpha, gamma, data = draw.scalars["alpha"], draw.scalars["gamma"], data_of(rng, dag)
        after.append(row(alpha, gamma, dag, data))
    return kept_p_values(before, after)


@priors
def test_geweke_joint(prior):
    check(geweke(type(prior), 31))


@pytest.mark.parametrize("kind", [pytest.param(CascadingBuffet, marks=pytest.mark.evidence), ExtendedBuffet])
def test_geweke_sees_a_likelihood_that_counts_twice(kind):
    check_caught(geweke(kind, 32, factor=2.0))


def calibration(kind, seed, size=200, factor=1.0, n_draws=4):
    """Whether the truth's rank among posterior draws, far apart, is uniform; ties are broken at random."""
    rng, ranks = np.random.default_rng(seed), []
    for _ in range(size):
        (prior, dag), (_, start) = draw_joint(rng, kind), draw_joint(rng, kind)
        data = data_of(rng, dag)
        likelihood = log_likelihood_of(data, factor)
        kernel = LikelihoodKernel(
            kind(), N, likelihood, hyperpriors=LIGHT, max_hidden=MOST_HIDDEN, n_moves=300, start=start
        )
        state, draws = kernel.init(rng), []
        for step in range(5 + n_draws):
            state, _ = kernel.step(rng, state)
            if step >= 5:
                d = kernel.draw(state)
                one = [d.scalars["alpha"], d.scalars["gamma"], d.order.size, d.parent.size]
                draws.append([*one, d.scalars["log_likelihood"] / factor])
        truth = np.array([prior.alpha, prior.gamma, dag.n_nodes, dag.n_edges, likelihood(dag) / factor]).round(9)
        drawn = np.array(draws).round(9)
        ranks.append((drawn < truth).sum(axis=0) + rng.integers(0, (drawn == truth).sum(axis=0) + 1))
    names = (*NAMES[:4], "log-likelihood")
    return {name: uniform_p_value(r, n_draws + 1) for name, r in zip(names, np.array(ranks).T, strict=True)}


@pytest.mark.parametrize("kind", [pytest.param(CascadingBuffet, marks=pytest.mark.evidence), ExtendedBuffet])
def test_simulation_based_calibration(kind):
    check(calibration(kind, 33))


def test_calibration_sees_a_likelihood_that_counts_half():
    check_caught(calibration(ExtendedBuffet, 34, factor=0.5))
