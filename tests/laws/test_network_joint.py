"""The belief network and its data together: Geweke's joint test, and simulation-based calibration."""

import math

import numpy as np
import pytest
from scipy.special import expit

from chefs import ChefsProcess
from chefs._core import network
from chefs._core.ancestral import all_weights
from chefs._core.network import gram_of
from chefs._core.state import N_ACTIVE, N_OBSERVED
from chefs.network.kernel import MOVES, NetworkChain, NetworkKernel
from tests.laws.joint import CASES, LIGHT, MOST_HIDDEN, forward, summary
from tests.mutants import mutant
from tests.stats import check, check_caught, kept_p_values, uniform_p_value

FEW = 10  # points: few, so that nothing is certain given them
JOINTLY = CASES | {"observed at 0, missing entries": ([0.0, 0.0], 0.2)}


# Geweke's joint test ---------------------------------------------------------------------------------------------------


def redraw_data(rng, state):
    """Observed entries given everything else.

    Each from its parents, and kept where its children say so: always where it has none.
    """
    n, d = int(state.graph.size[N_ACTIVE]), int(state.graph.size[N_OBSERVED])
    bias, weight = all_weights(rng, state, gram_of(state))
    a, rho = state.a[:n], state.rho[:n, None]

    def means():
        return bias[:, None] + weight @ expit(a)

    def log_density():
        return -0.5 * rho * (a - means()) ** 2

    for i in range(d):
        before, old = log_density(), a[i].copy()
        new = means()[i] + rng.normal(size=old.size) / math.sqrt(state.rho[i])
        a[i] = np.where(state.missing[i], old, new)
        change = np.delete(log_density() - before, i, axis=0).sum(axis=0)
        a[i] = np.where(np.log(1.0 - rng.random(old.size)) < change, a[i], old)


def everything(state, bias, weight):
    """The summary of a state with its weights and biases, weight[i, k] for the edge k → i."""
    n, d = bias.size, int(state.graph.size[N_OBSERVED])
    left = state.a[0] - bias[0] - weight[0] @ expit(state.a[:n])
    return summary(state) | {
        "bias of the first": bias[0],
        "biases of hidden": bias[d:].sum(),
        "sum of the weights": weight.sum(),
        "largest weight": np.abs(weight).max(),
        "what is left of the first": state.rho[0] * (left**2).sum(),
        "median of the data": np.median(state.a[:d][~state.missing]),
        "data of the last": state.a[d - 1].max(),
        "data together": np.mean((state.a[0] > 0) == (state.a[1] > 0)),
    }


def everything_in(kernel, chain, scale=1.0, **changes):
    """The summary of a chain's state, with fields changed for it, and of weights drawn given it, times `scale`."""
    draw = kernel.draw(chain)
    weight = np.zeros((draw.order.size, draw.order.size))
    weight[draw.child, draw.parent] = draw.edge["weight"]
    return everything(chain.network._replace(**changes), scale * draw.node["bias"], scale * weight)


def geweke(case, seed, moves=MOVES, size=1_000, cycles=4):
    """Joint draws, and what they are after rounds of (data given the rest, the rest given data)."""
    rng = np.random.default_rng(seed)
    observed, missing = JOINTLY[case]
    data = np.zeros((FEW, len(observed)))
    kernel = NetworkKernel(ChefsProcess(), observed, data, hyperpriors=LIGHT, moves=moves, most_leapfrogs=5)
    before, after = [], []
    for _ in range(size):
        joint = forward(rng, observed, missing, FEW)
        before.append(everything(*joint))
        chain = NetworkChain(joint.state, math.log(0.25), False)
        seen = ~joint.state.missing
        for _ in range(cycles):
            redraw_data(rng, chain.network)
            data = chain.network.a[: len(observed)][seen]
            chain, _ = kernel.step(rng, chain)
            assert (chain.network.a[: len(observed)][seen] == data).all()  # no move changes what is observed
        after.append(everything_in(kernel, chain))
    return kept_p_values(before, after)


@pytest.mark.parametrize("case", JOINTLY)
def test_geweke_joint(case):
    check(geweke(case, seed=70))


def test_geweke_joint_of_the_papers_moves():
    check(geweke("mixed orders, missing entries", seed=71, moves="paper"))


@pytest.mark.parametrize("case", CASES)
def test_geweke_sees_a_likelihood_that_counts_too_little(case, monkeypatch):
    """Precisions drawn as though there were two points less."""
    change = ("RHO_SHAPE + 0.5 * gram.n_points[i]", "RHO_SHAPE + 0.5 * (gram.n_points[i] - 2)")
    monkeypatch.setattr(network, "draw_precisions", mutant("network", change, compiled=False).draw_precisions)
    check_caught(geweke(case, seed=72))


# Simulation-based calibration ------------------------------------------------------------------------------------------


OF_WEIGHTS = (
    "bias of the first", "biases of hidden", "sum of the weights", "largest weight", "what is left of the first",
)  # fmt: skip
RANKED = (
    "nodes", "edges", "alpha", "gamma", "phi", "log ρ of the first", "smallest log ρ", "log-likelihood", *OF_WEIGHTS,
)  # fmt: skip


def calibration(case, seed, spoil=lambda data: data, scale=1.0, size=200, warmup=50, thin=20, n_draws=4):
    """Whether the truth's rank among posterior draws, far apart, of a chain from an empty graph, is uniform.

    Ties are broken at random. `spoil` may change the data that the chain is given, `scale` its weights and biases.
    """
    rng = np.random.default_rng(seed)
    observed, missing = JOINTLY[case]
    names = (*RANKED, "median of missing") if missing else RANKED
    options = {"hyperpriors": LIGHT, "max_hidden": MOST_HIDDEN, "most_leapfrogs": 10, "n_births": 10}
    ranks = []
    for _ in range(size):
        joint = forward(rng, observed, missing, FEW)
        truth = joint.state
        data = np.where(truth.missing, np.nan, truth.a[: len(observed)]).T
        where = spoil(truth.missing.T).T  # also where the chain is told that nothing is missing
        kernel = NetworkKernel(ChefsProcess(), observed, spoil(data), **options)
        chain, draws = kernel.init(rng), []
        for step in range(warmup + thin * n_draws):
            chain, _ = kernel.step(rng, kernel.freeze(chain) if step == warmup else chain)
            if step >= warmup and (step - warmup) % thin == thin - 1:
                draws.append(everything_in(kernel, chain, scale, missing=where))
        drawn, true = (
            np.array([[s[name] for name in names] for s in rows]).round(9) for rows in (draws, [everything(*joint)])
        )
        ranks.append((drawn < true).sum(axis=0) + rng.integers(0, (drawn == true).sum(axis=0) + 1))
    return {name: uniform_p_value(rank, n_draws + 1) for name, rank in zip(names, np.array(ranks).T, strict=True)}


@pytest.mark.parametrize("case", JOINTLY)
def test_simulation_based_calibration(case):
    check(calibration(case, seed=73))


def test_calibration_sees_points_that_count_six_times():
    p_values = calibration("observed at 0", 74, spoil=lambda data: np.repeat(data, 6, axis=0))
    check_caught({name: p for name, p in p_values.items() if "ρ" in name})  # other densities are those of more points


def test_calibration_sees_missing_entries_that_are_taken_for_zeros():
    check_caught(calibration("mixed orders, missing entries", 75, spoil=np.nan_to_num))


def test_calibration_sees_weights_that_are_twice_as_large():
    p_values = calibration("observed at 0", 76, scale=2.0)
    check_caught({name: p_values[name] for name in OF_WEIGHTS})
