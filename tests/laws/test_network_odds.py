"""Posterior odds of tiny networks against quadrature over everything else: two observed nodes, two points."""

import functools
import math

import numpy as np
from scipy import stats
from scipy.special import expit

from chefs import ChefsProcess, Dag
from chefs._core.state import unpack
from chefs.network.kernel import NetworkKernel
from tests.laws.graphs import FREE, cell_of, graphs_over, one_hidden_cells, simplex_rule
from tests.stats import check, check_caught

PRIOR = ChefsProcess(1.3, 1.2, 0.8)
ORDERS = [0.0, 0.5]
DATA = np.array([[4.0, 4.2], [3.0, 3.2]])  # a row a node: where the likelihood matters most
STEP = 0.2  # half of it changes no probability by more than two in a million
Z = np.exp(np.arange(-80, 12) * STEP)  # ρ = z² with z normal is Gamma(½, ½)
LINE = np.sinh(np.arange(-75, 76) * STEP)  # a value of a hidden unit, or a missing one
WEIGHT = STEP * np.sqrt(1 + LINE**2)


def density(x, *parents, shape=0.5):
    """p(two values of a node | outputs of its parents): weights and bias by hand, the precision by quadrature."""
    one, both, two = (1 + sum(u[s] * u[t] for u in parents) for s, t in ((0, 0), (0, 1), (1, 1)))
    total = 0.0
    for z in Z:
        s11, s22 = one + z**-2, two + z**-2
        det = s11 * s22 - both**2
        square = (s22 * x[0] ** 2 - 2 * both * x[0] * x[1] + s11 * x[1] ** 2) / det
        prior = 2 * STEP * z * stats.norm.pdf(z) * (z**2 / 2) ** (shape - 0.5) * math.gamma(0.5) / math.gamma(shape)
        total = total + prior * np.exp(-0.5 * square) / (2 * np.pi * np.sqrt(det))
    return total


@functools.cache
def with_a_unit(node, shape, from_above, from_unit):
    """`density` of node 0, 1, or of the hidden unit (2), for all values of the unit."""
    unit = LINE[:, None], LINE[None, :]
    parents = ([expit(DATA[1])] if from_above else []) + ([[expit(a) for a in unit]] if from_unit else [])
    return density(unit if node == 2 else DATA[node], *parents, shape=shape)


def evidence(edges, shape):
    """p(data | edges); node 1 is above node 0."""
    n = len(edges)
    parents = [(bool(edges[1, i]), n == 3 and bool(edges[2, i])) for i in range(n)]
    values = [with_a_unit(i, shape, *parents[i]) for i in range(n)]
    if n == 2:
        return math.prod(float(value) for value in values)
    return float((WEIGHT[:, None] * WEIGHT * values[0] * values[1] * values[2]).sum())


def posterior(shape):
    """Probability of every structure with at most one hidden unit and of where its order lies; None: without data."""
    masses = {
        key: sum(w * math.exp(PRIOR.log_prob(dag)) for dag, w in points)
        * (1.0 if shape is None else evidence(points[0][0].edges, shape))
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
    check_caught(p_values(batches, posterior(None).values()))


def posterior_of_edges(last):
    """Probability of no edge, 0 → 1 and 1 → 0 between free nodes; `last`: values of node 1 at the second point, weights."""
    masses = {}
    for ranking in ((0, 1), (1, 0)):
        for points, weight in simplex_rule(2):
            for dag in graphs_over([points[rank] for rank in ranking], 2):
                key = dag.edges.tobytes()
                masses[key] = masses.get(key, 0.0) + weight * math.exp(PRIOR.log_prob(dag))
    values, weights = last
    second = DATA[1, 0], values
    none, to_second, to_first = sorted(masses, key=lambda key: key.index(1) if 1 in key else 0)
    masses[none] *= (weights * density(DATA[0]) * density(second)).sum()
    masses[to_second] *= (weights * density(DATA[0]) * density(second, expit(DATA[0]))).sum()
    masses[to_first] *= (weights * density(DATA[0], [expit(x) for x in second]) * density(second)).sum()
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
