"""Posterior odds of tiny networks against quadrature over everything else: two observed nodes, two points."""

import functools
import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from chefs import ChefsProcess, Dag
from chefs._core.network import NetworkState
from chefs._core.state import unpack
from chefs.network.kernel import NetworkKernel
from chefs.tempering import TemperedKernel, TemperedState
from tests.laws.graphs import FREE, cell_of, graphs_over, one_hidden_cells, simplex_rule
from tests.stats import check, check_caught

PRIOR = ChefsProcess(1.3, 1.2, 0.8)
ORDERS = [0.0, 0.5]
DATA = np.array([[4.0, 4.2], [3.0, 3.2]])  # a row a node: where the likelihood matters most
STEP = 0.2  # half of it changes no probability by more than two in a million
Z = np.exp(np.arange(-80, 12) * STEP)  # ρ = z² with z normal is Gamma(½, ½)
LINE = np.sinh(np.arange(-75, 76) * STEP)  # a value of a hidden unit, or a missing one
WEIGHT = STEP * np.sqrt(1 + LINE**2)


def density(x, *parents, shape=0.5, powers=(1.0, 1.0)):
    """p(two values of a node | outputs of its parents): weights and bias by hand, the precision by quadrature.

    Given weights and precision each value has a density with a power; a factor that depends on that alone is left out.
    """
    if not any(powers):
        return 1.0
    one, both, two = (1 + sum(u[s] * u[t] for u in parents) for s, t in ((0, 0), (0, 1), (1, 1)))
    total = 0.0
    for z in Z:
        s11, s22 = (diagonal + z**-2 / power for diagonal, power in zip((one, two), powers, strict=True))
        det = s11 * s22 - both**2
        square = (s22 * x[0] ** 2 - 2 * both * x[0] * x[1] + s11 * x[1] ** 2) / det
        prior = 2 * STEP * z * stats.norm.pdf(z) * (z**2 / 2) ** (shape - 0.5) * math.gamma(0.5) / math.gamma(shape)
        prior *= z ** (sum(powers) - 2)
        total = total + prior * np.exp(-0.5 * square) / (2 * np.pi * np.sqrt(det))
    return total


@functools.cache
def with_a_unit(node, shape, power, from_above, from_unit):
    """`density` of node 0, 1, or of the hidden unit (2), for all values of the unit."""
    unit = LINE[:, None], LINE[None, :]
    parents = ([expit(DATA[1])] if from_above else []) + ([[expit(a) for a in unit]] if from_unit else [])
    if node == 2:
        return density(unit, *parents, shape=shape)
    return density(DATA[node], *parents, shape=shape, powers=(power, power))


def evidence(edges, shape, power):
    """p(data | edges), each entry of the data with a power; node 1 is above node 0."""
    n = len(edges)
    parents = [(bool(edges[1, i]), n == 3 and bool(edges[2, i])) for i in range(n)]
    values = [with_a_unit(i, shape, power, *parents[i]) for i in range(n)]
    if n == 2:
        return math.prod(float(value) for value in values)
    return float((WEIGHT[:, None] * WEIGHT * values[0] * values[1] * values[2]).sum())


def posterior(shape, power=1.0):
    """Probability of every structure with at most one hidden unit and of where its order lies; power 0: without data."""
    masses = {
        key: sum(w * math.exp(PRIOR.log_prob(dag)) for dag, w in points) * evidence(points[0][0].edges, shape, power)
        for key, points in one_hidden_cells(ORDERS)
    }
    return {key: mass / sum(masses.values()) for key, mass in masses.items()}


def graph_of(chain):
    order, parent, child = unpack(chain.network.graph)
    return Dag._trusted(order, parent, child, 2)


def p_values(batches, expected):
    """Of the share of each structure, in batches of a chain."""
    return {
        f"structure {k}": float(stats.ttest_1samp(row, p).pvalue)
        for k, (row, p) in enumerate(zip(batches, expected, strict=True))
    }


def visits(kernel, key_of, keys, seed, steps=8_000, n_batches=40):
    """How often a chain visits each structure, in batches: an array with a row a structure."""
    rng = np.random.default_rng(seed)
    chain, seen = kernel.init(rng), []
    for step in range(200 + steps):
        chain, _ = kernel.step(rng, kernel.freeze(chain) if step == 200 else chain)
        if step >= 200:
            seen.append(keys.index(key_of(graph_of(chain))))
    return (np.array(seen).reshape(n_batches, 1, -1) == np.arange(len(keys))[:, None]).mean(axis=2).T


def test_posterior_odds_with_at_most_one_unit():
    """All twelve structures. What leaves out the data, or takes another law for the precisions, is told apart."""
    kernel = NetworkKernel(PRIOR, ORDERS, DATA.T.copy(), hyperpriors=None, max_hidden=1, n_births=10)
    truth = posterior(0.5)
    batches = visits(kernel, lambda dag: cell_of(dag, ORDERS), list(truth), seed=76)
    check(p_values(batches, truth.values()))
    check_caught(p_values(batches, posterior(1.0).values()))
    check_caught(p_values(batches, posterior(0.5, power=0.0).values()))


def posterior_of_edges(last, powers=((1.0, 1.0), (1.0, 1.0))):
    """Probability of no edge, 0 → 1 and 1 → 0 between free nodes; `last`: values of node 1 at the second point, weights."""
    first, other = ({"powers": pair} for pair in powers)
    masses = {}
    for ranking in ((0, 1), (1, 0)):
        for points, weight in simplex_rule(2):
            for dag in graphs_over([points[rank] for rank in ranking], 2):
                key = dag.edges.tobytes()
                masses[key] = masses.get(key, 0.0) + weight * math.exp(PRIOR.log_prob(dag))
    values, weights = last
    second = DATA[1, 0], values
    none, to_second, to_first = sorted(masses, key=lambda key: key.index(1) if 1 in key else 0)
    masses[none] *= (weights * density(DATA[0], **first) * density(second, **other)).sum()
    masses[to_second] *= (weights * density(DATA[0], **first) * density(second, expit(DATA[0]), **other)).sum()
    masses[to_first] *= (
        weights * density(DATA[0], [expit(x) for x in second], **first) * density(second, **other)
    ).sum()
    return {key: mass / sum(masses.values()) for key, mass in masses.items()}


def test_posterior_odds_of_free_nodes_with_a_missing_entry():
    """An edge one way, the other, or none, and no unit. What takes the missing entry for one that was seen is told apart."""
    data = DATA.T.copy()
    data[1, 1] = math.nan
    kernel = NetworkKernel(PRIOR, [FREE, FREE], data, hyperpriors=None, max_hidden=0)
    truth = posterior_of_edges((LINE, WEIGHT))
    batches = visits(kernel, lambda dag: dag.edges.tobytes(), list(truth), seed=77)
    check(p_values(batches, truth.values()))
    check_caught(p_values(batches, posterior_of_edges((DATA[1, 1:], np.ones(1))).values()))


# Other powers of the likelihood ---------------------------------------------------------------------------------------

HOT = 0.4


def test_odds_at_a_power():
    """All twelve structures. What ignores the power, or leaves out the data, is told apart."""
    kernel = NetworkKernel(PRIOR, ORDERS, DATA.T.copy(), hyperpriors=None, max_hidden=1, n_births=10, power=HOT)
    truth = posterior(0.5, HOT)
    batches = visits(kernel, lambda dag: cell_of(dag, ORDERS), list(truth), seed=78, steps=24_000)
    check(p_values(batches, truth.values()))
    check_caught(p_values(batches, posterior(0.5).values()))
    check_caught(p_values(batches, posterior(0.5, power=0.0).values()))


def test_odds_at_a_power_where_an_entry_is_missing():
    """A missing entry keeps its law, whatever the power. What ignores the power is told apart."""
    data = DATA.T.copy()
    data[1, 1] = math.nan
    kernel = NetworkKernel(PRIOR, [FREE, FREE], data, hyperpriors=None, max_hidden=0, power=HOT)
    truth = posterior_of_edges((LINE, WEIGHT), ((HOT, HOT), (HOT, 1.0)))
    batches = visits(kernel, lambda dag: dag.edges.tobytes(), list(truth), seed=79)
    check(p_values(batches, truth.values()))
    check_caught(p_values(batches, posterior_of_edges((LINE, WEIGHT)).values()))


class Copy:
    """A tempered kernel of which one copy is looked at; the swaps may be given another ratio."""

    def __init__(self, kernel, copy, log_ratio=None):
        self.kernel, self.copy = TemperedKernel.of(kernel, [1.0, 1 / HOT]), copy
        if log_ratio is not None:
            object.__setattr__(self.kernel, "swap_log_ratio", log_ratio)

    def init(self, rng):
        return self.seen(self.kernel.init(rng))

    def freeze(self, at):
        return at

    def step(self, rng, at):
        state, info = self.kernel.step(rng, at.state)
        return self.seen(state), info

    def seen(self, state):
        return Seen(self.kernel.freeze(state), state.copies[self.copy].network)


class Seen(NamedTuple):
    state: TemperedState
    network: NetworkState


@pytest.mark.parametrize(("copy", "power"), [(0, 1.0), (1, HOT)])
def test_copies_that_swap_keep_the_law_of_their_power(copy, power):
    kernel = NetworkKernel(PRIOR, ORDERS, DATA.T.copy(), hyperpriors=None, max_hidden=1, n_births=10)
    truth = posterior(0.5, power)
    keys = list(truth)
    batches = visits(Copy(kernel, copy), lambda dag: cell_of(dag, ORDERS), keys, seed=80, steps=4_000)
    check(p_values(batches, truth.values()))
    if copy == 0:
        always = Copy(kernel, copy, lambda *_: 0.0)
        batches = visits(always, lambda dag: cell_of(dag, ORDERS), keys, seed=80, steps=4_000)
        check_caught(p_values(batches, truth.values()))
