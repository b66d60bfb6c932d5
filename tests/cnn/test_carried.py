"""Weights in the state of the chain: inherited, and sampled by stochastic-gradient Hamiltonian Monte Carlo."""

import numpy as np
import pytest
from scipy import stats

import chefs
from chefs import ChefsProcess
from chefs.cnn import ArchitectureSearch, Settings, carried
from chefs.cnn.carried import joined, renamed, scales, split
from chefs.cnn.plan import plan_and_nodes
from chefs.cnn.training import initial_weights, weight_shapes
from chefs.images import Images, load
from tests.cnn.test_plan import Shape, some_dags
from tests.helpers import refused
from tests.runs import same_draws
from tests.stats import check, check_caught

DIGITS = load("digits")
PRIOR = ChefsProcess(1.0, 2.0, 5.0)


def layers(dag, shape):
    plan, nodes = plan_and_nodes(dag.order, *np.nonzero(dag.edges), shape)
    return plan, [float(dag.order[i]) for i in nodes]


def test_splitting_and_joining_are_inverse():
    for dag in some_dags(30, 20):
        plan, heights = layers(dag, Shape())
        weights, zeros = initial_weights(plan, 1), [np.zeros(s, np.float32) for s in weight_shapes(plan)]
        slabs = split(plan, heights, weights)
        assert len(slabs) == plan.n_edges + 1
        for ours, theirs in zip(joined(plan, heights, slabs, zeros), weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_what_a_move_leaves_alone_keeps_its_weights():
    """An order that changes its bin takes new weights for its edges; all others stay, under any numbering."""
    n_kept = 0
    for dag in some_dags(40, 21):
        reached = [i for i in range(2, dag.n_nodes) if dag.edges[0, i]]
        if not reached:
            continue
        i = reached[0]
        low, high = max([0.0, *dag.order[dag.edges[i]]]), min([1.0, *dag.order[dag.edges[:, i]]])
        order = dag.order.copy()
        order[i] = low + 0.5 * (high - low)
        plan, heights = layers(dag, Shape())
        slabs = renamed(split(plan, heights, initial_weights(plan, 1)), float(dag.order[i]), float(order[i]))
        new_plan, new_heights = layers(chefs.Dag(dag.edges, order, 2), Shape())
        fresh = initial_weights(new_plan, 2)
        new = split(new_plan, new_heights, joined(new_plan, new_heights, slabs, fresh))
        same_bin = Shape().bin(order[i]) == Shape().bin(dag.order[i])
        for edge, slab in new.items():
            if same_bin or order[i] not in edge:
                np.testing.assert_array_equal(slab, slabs[edge])
                n_kept += 1
            elif slab.shape != slabs[edge].shape:
                np.testing.assert_array_equal(slab, split(new_plan, new_heights, fresh)[edge])
    assert n_kept > 50


@pytest.mark.parametrize("weights", ["inherit", "sghmc"])
def test_runs_are_reproducible_and_can_be_continued(weights, tmp_path):
    def kernel():
        settings = Settings(n_steps=3, rate=0.003)
        return ArchitectureSearch(
            DIGITS, PRIOR, weights=weights, settings=settings, n_moves=4, device="cpu", power=0.01
        )

    whole = chefs.sample(np.random.default_rng(1), kernel(), draws=8, chains=2, n_jobs=1, progress=False)
    chefs.sample(np.random.default_rng(1), kernel(), draws=4, chains=2, progress=False, checkpoint=tmp_path / "run")
    search = kernel()
    continued = chefs.resume(tmp_path / "run", kernel=search, draws=8, progress=False)
    assert same_draws(whole, continued)
    assert continued.n_hidden.max() > 0


def test_copies_at_other_powers_have_their_own_power():
    search = sampled(1.0)
    hot = search.with_power(0.0)
    assert (hot.power, hot._carrier.search.power, search._carrier.search.power) == (0.0, 0.0, 1.0)
    trace = chefs.sample(np.random.default_rng(0), search, draws=5, chains=1, temperatures=2, progress=False)
    assert len(trace) == 5


def test_an_inherited_network_gets_better_from_step_to_step():
    search = ArchitectureSearch(DIGITS, PRIOR, weights="inherit", n_moves=4, device="cpu")
    trace = chefs.sample(np.random.default_rng(0), search, draws=12, chains=1, progress=False)
    assert trace.scalar("log_likelihood")[-1] > trace.scalar("log_likelihood")[0] + 300
    assert search.networks.n_trained == 0  # nothing is cached
    rows = search.predict_proba(trace)
    assert rows.shape == (500, 10)
    with pytest.raises(ValueError, match="no way to make a network again"):
        search.predict_proba(trace, DIGITS.test_x)


# The laws of sampled weights --------------------------------------------------------------------------------------

TINY = Images(np.zeros((4, 1, 4, 4)), np.array([0, 1, 1, 1]), np.zeros((2, 1, 4, 4)), np.array([0, 1]))


def sampled(power, prior=PRIOR, **options):
    settings = Settings(n_steps=20, batch=4, rate=0.5)
    return ArchitectureSearch(TINY, prior, weights="sghmc", settings=settings, power=power, device="cpu", **options)


def prior_p_values():
    kernel = sampled(0.0, ChefsProcess(1.3, 0.8, 3.0), n_moves=20, max_hidden=2)
    rng = np.random.default_rng(2)
    state = kernel.init(rng)
    biases, others = [], []
    for _ in range(400):
        state, _ = kernel.step(rng, state)
        n = int(state.graph.size[0])
        dag = chefs.Dag(state.graph.parents[:n, :n].T.copy(), state.graph.order[:n].copy(), 2)
        plan, heights = layers(dag, kernel.shape)
        zeros = [np.zeros(s, np.float32) for s in weight_shapes(plan)]
        weights = joined(plan, heights, state.held.carried.weights, zeros)
        units = [w / s for w, s in zip(weights, scales(plan), strict=True)]
        biases.append(units[-1][0])
        others += [w.flat[0] for w in units[:-1] if w.size]
    assert len(others) > 400
    return {name: stats.kstest(x, "norm").pvalue for name, x in (("bias", biases), ("others", others[::2]))}


def test_without_evidence_weights_follow_their_priors():
    check(prior_p_values())


def test_wrong_noise_is_caught(monkeypatch):
    monkeypatch.setattr(carried, "NOISE", 1.7 * carried.NOISE)
    check_caught(prior_p_values())


def test_weights_follow_their_posterior_where_it_is_known():
    """No path from the images, labels 0, 1, 1, 1, normal biases: the law of their difference by quadrature."""
    kernel = sampled(1.0, max_hidden=0, forbidden=[(0, 1)], n_moves=1)
    rng = np.random.default_rng(4)
    state = kernel.init(rng)
    found = []
    for _ in range(500):
        state, _ = kernel.step(rng, state)
        bias = state.held.carried.weights[0.0, 0.0]
        found.append(float(bias[1] - bias[0]))
    grid = np.linspace(-8, 8, 4_001)
    density = stats.norm.pdf(grid, scale=np.sqrt(2)) * (1 / (1 + np.exp(-grid))) ** 3 / (1 + np.exp(grid))
    cdf = np.cumsum(density) / density.sum()
    check({"posterior": stats.kstest(found[10:], lambda x: np.interp(x, grid, cdf)).pvalue})
    check_caught({"prior": stats.kstest(found[10:], "norm", args=(0, np.sqrt(2))).pvalue})


def test_weights_that_diverge_are_said_to():
    settings = Settings(n_steps=20, batch=4, rate=50.0)
    search = ArchitectureSearch(TINY, PRIOR, weights="sghmc", settings=settings, device="cpu")
    with refused("smaller rate", "50"):
        chefs.sample(np.random.default_rng(0), search, draws=3, chains=1, progress=False)
