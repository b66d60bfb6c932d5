"""The search over architectures: its laws, what it trains and when, and runs that are interrupted."""

import hashlib
import math
import pickle

import numpy as np
import pytest

import chefs
from chefs import ChefsProcess, Dag, Hyperpriors, Moves
from chefs.cnn import ArchitectureSearch, Settings, Trained
from chefs.cnn.state import SearchState
from chefs.images import Images, load
from tests.cnn.test_plan import OBSERVED
from tests.helpers import refused
from tests.laws.graphs import statistics, together
from tests.runs import same_draws
from tests.stats import cells_p_value, check, check_caught, pmf_p_value, same_p_value

PRIOR = ChefsProcess(alpha=1.3, gamma=1.2, phi=0.8)
BLANK = Images(np.zeros((4, 1, 8, 8)), np.array([0, 1, 2, 0]), np.zeros((2, 1, 8, 8)), np.array([0, 1]))


class Judge:
    """A trainer without networks: evidence is any function of the plan."""

    def __init__(self, evidence):
        self.evidence, self.n_trained = evidence, 0

    def train(self, plans, seeds):
        self.n_trained += len(plans)
        return [Trained(self.evidence(plan), 0.5, np.full((2, 3), 1 / 3, np.float32)) for plan in plans]


def skewed(plan):
    """Between −2 and 2, without a pattern."""
    return 4.0 * hashlib.sha256(repr(tuple(plan)).encode()).digest()[0] / 255 - 2.0


def searching(evidence=skewed, cls=ArchitectureSearch, **options):
    return cls(BLANK, **{"prior": PRIOR, "trainer": Judge(evidence), "n_moves": 20, **options})


def run(kernel, seed=0, draws=200, chains=2, **options):
    return chefs.sample(np.random.default_rng(seed), kernel, draws=draws, chains=chains, progress=False, **options)


class Backwards(ArchitectureSearch):
    """The paper's misprint: current minus proposal."""

    def difference(self, new, old):
        return -super().difference(new, old)


# Laws -------------------------------------------------------------------------------------------------------------


def evolved(kernel, rng, dags):
    """Graphs after one step of the kernel from each, as `Dags`."""
    moved = []
    for dag in dags:
        graph = kernel.limits.state(rng, dag, kernel.prior)
        parent, child = np.nonzero(dag.edges)
        held = kernel._network(rng, (dag.order, parent, child), None, None)
        drawn = kernel.draw(kernel.step(rng, SearchState(graph, held, 0))[0])
        edges = np.zeros((drawn.order.size,) * 2, dtype=bool)
        edges[drawn.parent, drawn.child] = True
        moved.append(Dag(edges, drawn.order, 2))
    return together(moved)


def prior_p_values(kernel, seed, n=2_500):
    rng = np.random.default_rng(seed)
    moved = evolved(kernel, rng, PRIOR.sample(rng, OBSERVED, size=n))
    exact, got = statistics(PRIOR.sample(rng, OBSERVED, size=40_000)), statistics(moved)
    return {name: same_p_value(exact[name], got[name]) for name in exact}


@pytest.mark.parametrize("moves", [Moves(), Moves.paper()], ids=["ours", "paper"])
def test_constant_evidence_recovers_the_prior(moves):
    check(prior_p_values(searching(lambda plan: -123.0, moves=moves, n_moves=25), 1))


def test_evidence_that_is_not_constant_is_seen_by_that_law():
    check_caught(prior_p_values(searching(lambda plan: -0.7 * plan.n_hidden, n_moves=25), 2))


def binned_cells(n_bins, n_points=6):
    """Every structure with at most one hidden node by the bin of its order, with a quadrature over the bin."""
    nodes, weights = np.polynomial.legendre.leggauss(n_points)
    for direct in (False, True):
        yield (direct, None, -1), [(Dag([[0, direct], [0, 0]], OBSERVED, 2), 1.0)]
        for taken in (False, True):
            edges = [[0, direct, taken], [0, 0, 0], [0, True, 0]]
            for b in range(n_bins):
                middle, half = 1 - (b + 0.5) / n_bins, 0.5 / n_bins
                points = [
                    (Dag(edges, [1.0, 0.0, middle + half * x], 2), w * half)
                    for x, w in zip(nodes, weights, strict=True)
                ]
                yield (direct, taken, b), points


def exact_posterior(kernel, power=1.0):
    masses = {}
    for key, points in binned_cells(kernel.shape.n_bins):
        terms = []
        for dag, w in points:
            plan = kernel.plan(dag.order, *np.nonzero(dag.edges))
            terms.append(w * math.exp(PRIOR.log_prob(dag) + power * kernel.trainer.evidence(plan)))
        masses[key] = sum(terms)
    total = sum(masses.values())
    return {key: mass / total for key, mass in masses.items()}


def posterior_p_value(trace, kernel, power=1.0):
    expected = exact_posterior(kernel, power)
    counts = dict.fromkeys(expected, 0)
    for dag in trace:
        hidden = (bool(dag.edges[0, 2]), kernel.shape.bin(dag.order[2])) if dag.n_hidden else (None, -1)
        counts[bool(dag.edges[0, 1]), *hidden] += 1
    return {"structures and bins": cells_p_value(list(counts.values()), list(expected.values()))}


def posterior_run(seed, cls=ArchitectureSearch, **options):
    kernel = searching(cls=cls, max_hidden=1, n_bins=3, n_moves=25, **options)
    return run(kernel, seed, draws=2_500, chains=1, warmup=10), kernel


@pytest.mark.parametrize("moves", [Moves(), Moves.paper()], ids=["ours", "paper"])
def test_the_posterior_over_edges_and_bins_is_exact(moves):
    trace, kernel = posterior_run(3, moves=moves)
    check(posterior_p_value(trace, kernel))


def test_evidence_as_current_minus_proposal_is_caught():
    trace, kernel = posterior_run(4, Backwards)
    check_caught(posterior_p_value(trace, kernel))


def test_power_is_an_exponent():
    trace, kernel = posterior_run(5, power=0.5)
    check(posterior_p_value(trace, kernel, 0.5))
    check_caught(posterior_p_value(trace, kernel, 1.0))


def test_a_reward_for_depth_makes_deeper_networks_by_as_much_as_it_should():
    """From draws of prior × exp(reward × depth) the chain leads to draws of the same; the wrong sign leads away."""
    reward = 0.6
    kernels = [searching(lambda plan: reward * plan.depth, cls, n_moves=25) for cls in (ArchitectureSearch, Backwards)]
    rng = np.random.default_rng(6)
    dags = list(PRIOR.sample(rng, OBSERVED, size=12_000))
    depths = depths_of(kernels[0], dags)
    weights = np.exp(reward * depths)
    starts = [dags[d] for d in rng.choice(len(dags), 1_000, p=weights / weights.sum())]
    pmf = np.bincount(depths, weights, minlength=12) / weights.sum()
    right, wrong = (depths_of(kernel, evolved(kernel, rng, starts)) for kernel in kernels)
    check({"depth": pmf_p_value(right, pmf)})
    check_caught({"depth": pmf_p_value(wrong, pmf)})
    assert right.mean() > depths.mean() + 0.5
    assert right.mean() > wrong.mean() + 0.3


def depths_of(kernel, dags):
    return np.array([kernel.plan(dag.order, *np.nonzero(dag.edges)).depth for dag in dags])


# What is trained, and when ----------------------------------------------------------------------------------------


def test_each_plan_is_trained_once_and_moves_within_a_bin_are_free():
    kernel = searching(n_bins=2, max_hidden=1)
    run(kernel, draws=100)
    assert kernel.trainer.n_trained == len(kernel.networks.known) == 2 + 2 * 2  # unreached nodes change no network
    nothing = searching(
        moves=Moves(edge=0, birth=0, depth=0, order=1),
        n_bins=1,
        start=Dag([[0, 0, 1], [0, 0, 0], [0, 1, 0]], [1.0, 0.0, 0.5], 2),
    )
    trace = run(nothing, draws=50, chains=1)
    assert nothing.trainer.n_trained == 1
    assert trace.stats[0]["moves"]["order"]["accepted"] > 300


@pytest.mark.parametrize("moves", [Moves(), Moves.paper()], ids=["ours", "paper"])
@pytest.mark.parametrize(
    "options", [{}, {"n_changes": 1}, {"hyperpriors": Hyperpriors()}], ids=["moves", "changes", "hyper"]
)
def test_prefetching_does_not_change_a_draw(moves, options):
    options = {"moves": moves, "max_hidden": 8, **options}
    plain, ahead = (searching(prefetch=n, **options) for n in (0, 7))
    assert same_draws(run(plain, 8, draws=60), run(ahead, 8, draws=60))
    assert ahead.trainer.n_trained > plain.trainer.n_trained
    assert ahead.networks.n_rounds < plain.networks.n_rounds


def test_what_is_prefetched_is_what_is_asked_for_while_all_is_rejected():
    """Nothing but the start has evidence: after one round the next proposals are known already."""
    kernel = searching(lambda plan: 0.0 if plan.n_edges == 1 and plan.n_hidden == 0 else -1e6, prefetch=10, n_changes=1)
    rng = np.random.default_rng(0)
    state = kernel.init(rng)
    for _ in range(20):
        state, _ = kernel.step(rng, state)
    asked = kernel.trainer.n_trained
    assert asked <= 1 + 11 * (kernel.networks.n_rounds - 1)
    assert asked > 5 * kernel.networks.n_rounds


def test_a_step_of_one_change_ends_with_one_change():
    kernel = searching(n_changes=1, n_bins=3)
    rng = np.random.default_rng(0)
    state = kernel.init(rng)

    def seen(state):
        draw = kernel.draw(state)
        bins = [kernel.shape.bin(x) for x in draw.order]
        return draw.order.size, sorted(zip(draw.parent.tolist(), draw.child.tolist(), strict=True)), bins

    n_kinds = set()
    for _ in range(300):
        before = seen(state)
        state, info = kernel.step(rng, state)
        assert seen(state) != before
        assert info.tally[:, 0].sum() == state.n_moves >= 1
        assert info.tally[[0, 1, 2, 4, 5], 1].sum() <= 1  # and perhaps orders that stay in their bins
        n_kinds |= set(np.flatnonzero(info.tally[:, 1]).tolist())
    assert n_kinds == set(range(6))


def test_presets():
    paper, ours = ArchitectureSearch.paper(load("digits")), ArchitectureSearch.default(load("digits"))
    assert paper.settings == Settings(540, 100, 0.1, "none")
    assert (paper.prior.alpha, paper.prior.gamma, paper.prior.phi) == (1.0, 20.0, 5.0)
    assert (paper.shape.n_bins, paper.shape.base_channels, paper.n_changes) == (5, 4, 1)
    assert paper.moves == Moves.paper()
    assert paper.start is not None and paper.start.n_hidden == 0 and paper.start.edges[0, 1]
    assert ours.moves.depth > 0
    assert ArchitectureSearch.paper(load("digits"), power=0.5, n_changes=2).n_changes == 2


# Runs -------------------------------------------------------------------------------------------------------------


def test_a_run_that_is_interrupted_goes_on_draw_for_draw(tmp_path):
    options = {
        "settings": Settings(n_steps=3, rate=0.01),
        "prior": ChefsProcess(1, 3, 5),
        "device": "cpu",
        "n_moves": 3,
    }
    whole = run(ArchitectureSearch(load("digits"), **options), 9, draws=8, n_jobs=1)
    kernel = ArchitectureSearch(load("digits"), archive=tmp_path / "networks", **options)
    run(kernel, 9, draws=3, n_jobs=1, checkpoint=tmp_path / "run")
    continued = chefs.resume(tmp_path / "run", draws=8, n_jobs=2, progress=False)
    assert same_draws(whole, continued)
    again = ArchitectureSearch(load("digits"), archive=tmp_path / "networks", **options)
    rows = again.predict_proba(continued)
    assert again.networks.n_trained == 0  # all that was drawn is in the archive
    fresh = ArchitectureSearch(load("digits"), **options)
    np.testing.assert_allclose(rows, fresh.predict_proba(continued), atol=1e-3)
    assert fresh.networks.n_trained > 0


def test_a_pickled_search_is_as_good_as_new():
    kernel = searching(n_moves=5)
    run(kernel, draws=5)
    other = pickle.loads(pickle.dumps(kernel))
    assert not other.networks.known
    assert same_draws(run(kernel, 3, draws=20), run(other, 3, draws=20))


def test_tempering_and_the_number_of_workers_do_not_matter():
    one, two = (run(searching(n_moves=5), 10, draws=30, n_jobs=n, temperatures=3) for n in (1, 2))
    assert same_draws(one, two)
    assert len(one.stats[0]["swap_rates"]) == 2
    kernel = searching()
    assert kernel.with_power(0.5).networks is kernel.networks and kernel.with_power(0.5).archive is kernel.archive


def test_draws_say_what_their_networks_are_like():
    kernel = searching(n_moves=5)
    trace = run(kernel, draws=40)
    for chain in trace.chains:
        for d, dag in enumerate(chain.dags):
            plan = kernel.plan(dag.order, *np.nonzero(dag.edges))
            row = {name: values[d] for name, values in chain.scalars.items()}
            assert (row["n_layers"], row["depth"], row["width"]) == (plan.n_hidden, plan.depth, plan.width)
            assert row["log_likelihood"] == skewed(plan)
            assert row["log_prob"] == pytest.approx(PRIOR.log_prob(dag))
            assert (row["accuracy"], row["train_accuracy"], row["n_moves"]) == (0.5, 0.5, 5)


# Bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, names",
    [
        ({"weights": "best"}, ("weights", "'optimum'")),
        ({"power": -1}, ("power",)),
        ({"n_changes": 0}, ("n_changes",)),
        ({"prefetch": 1.5}, ("prefetch",)),
        ({"seed": None}, ("seed",)),
        ({"n_bins": 0}, ("n_bins",)),
        ({"settings": Settings(rate=0)}, ("rate",)),
        ({"start": Dag([[0, 0], [0, 0]], [0.5, 0.0], 2)}, ("start",)),
        ({"weights": "sghmc"}, ("trainer", "'optimum'")),
    ],
)
def test_bad_options_are_refused_in_one_sentence(options, names):
    with refused(*names):
        searching(**options)


def test_bad_types_are_refused():
    with refused("settings", error=TypeError):
        searching(settings={"n_steps": 3})
    with refused("data must be four arrays", error=TypeError):
        ArchitectureSearch(np.zeros((3, 8, 8)))
    with refused("ChefsProcess", error=TypeError):
        searching(prior=3.0)
    with refused("device must be"):
        ArchitectureSearch(load("digits"), device="tpu")


def test_a_start_that_cannot_be_trained_is_refused_and_a_proposal_is_not_taken():
    with refused("start", "smaller rate"):
        run(searching(lambda plan: -math.inf), draws=1, chains=1)
    for power in (1.0, 0.0):
        trace = run(searching(lambda plan: -math.inf if plan.n_hidden else 0.0, power=power), draws=50)
        assert trace.scalar("n_layers").max() == 0 and trace.n_hidden.max() > 0
