"""Everything in a belief network drawn together, weights included, in NumPy: what its laws start from and compare with."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from chefs import ChefsProcess, Hyperpriors
from chefs._core.network import (
    NEWBORN_LOG_MASS,
    NEWBORN_SPREAD,
    NetworkState,
    gram_of,
    log_likelihood,
    log_marginal,
    rows_of_parents,
)
from chefs._core.state import N_ACTIVE, N_OBSERVED
from chefs.network.kernel import NetworkChain, NetworkKernel
from tests.laws.graphs import FREE, state_of
from tests.layers import state_of as layered_state_of

N_POINTS = 20
MOST_HIDDEN = 3
LIGHT = Hyperpriors(alpha=(5.0, 5.0), gamma=(5.0, 5.0), phi=(5.0, 5.0))
CASES = {
    "observed at 0": ([0.0, 0.0], 0.0),
    "mixed orders, missing entries": ([0.0, 0.4, 1.0], 0.2),
    "free orders, missing entries": ([FREE, FREE], 0.2),
}  # orders of the observed nodes, and the share of their entries that is missing


class Joint(NamedTuple):
    """A state of the chain, and the weights that it does not hold."""

    state: NetworkState
    bias: np.ndarray  # (n,)
    weight: np.ndarray  # (n, n): entry [i, k] for the edge k → i


def forward(rng, observed, missing, n_points=N_POINTS, family=ChefsProcess):
    """Hyperparameters, a graph with few hidden units, precisions, weights, activations and data from the model."""
    while True:
        hyper = 1 / rng.gamma(5.0, 0.2), rng.gamma(5.0, 0.2), rng.gamma(5.0, 0.2)
        prior = ChefsProcess(*hyper) if family is ChefsProcess else family(*hyper[:2])
        dag = prior.sample(rng, observed if family is ChefsProcess else len(observed))
        if dag.n_hidden <= MOST_HIDDEN:
            break
    if family is ChefsProcess:
        graph, n = state_of(dag, prior, observed, MOST_HIDDEN), dag.n_nodes
    else:
        graph, n = layered_state_of(dag, prior, MOST_HIDDEN), dag.n_nodes
    a, rho = np.zeros((graph.order.size, n_points)), np.ones(graph.order.size)
    rho[:n] = np.maximum(rng.gamma(0.5, 2.0, n), 1e-12)
    bias, weight = rng.normal(size=n), rng.normal(size=(n, n)) * dag.edges.T
    for i in np.argsort(-dag.order):
        a[i] = bias[i] + weight[i] @ expit(a[:n]) + rng.normal(size=n_points) / math.sqrt(rho[i])
    gone = rng.random((len(observed), n_points)) < missing
    masses = NEWBORN_LOG_MASS + NEWBORN_SPREAD * rng.normal(size=rho.size)
    return Joint(NetworkState(graph, a, rho, gone, masses), bias, weight)


def twice(prior, case, preset, n_points=N_POINTS, **options):
    """A move that is two steps of the whole kernel, hyperparameters included."""
    observed = CASES[case][0]
    data = np.zeros((n_points, len(observed)))
    kernel = NetworkKernel(prior, observed, data, hyperpriors=LIGHT, most_leapfrogs=5, moves=preset, **options)

    def move(rng, state):
        chain = NetworkChain(state, math.log(0.25), False)
        for _ in range(2):
            chain, _ = kernel.step(rng, chain)
        return chain.network

    return move


def gain_of_edges(state):
    """How much better the nodes are explained by their parents than by nothing: what edges are for."""
    gram, alone = gram_of(state), np.zeros(1, dtype=np.int64)
    return sum(
        log_marginal(gram, i, rows_of_parents(state.graph, i), state.rho[i])
        - log_marginal(gram, i, alone, state.rho[i])
        for i in range(state.graph.size[N_ACTIVE])
    )


def summary(state):
    """What is compared about a state."""
    n, d = int(state.graph.size[N_ACTIVE]), int(state.graph.size[N_OBSERVED])
    hidden, log_rho, gone = state.a[d:n], np.log(state.rho[:n]), state.a[:d][state.missing]
    alpha, gamma, phi = state.graph.hyper
    return {
        "nodes": n,
        "edges": int(state.graph.n_parents[:n].sum()),
        "alpha": alpha,
        "gamma": gamma,
        "phi": phi,
        "log ρ of the first": log_rho[0],
        "smallest log ρ": log_rho.min(),
        "mean log ρ of hidden": log_rho[d:].mean() if n > d else 0.0,
        "median of hidden": np.median(hidden) if n > d else 0.0,
        "log variance of hidden": np.log(hidden.var(axis=1) + 1e-300).mean() if n > d else 0.0,
        "median of missing": np.median(gone) if gone.size else 0.0,
        "log-likelihood": log_likelihood(state),
        "mean order": state.graph.order[:n].mean(),
        "orders of parents": (state.graph.order[:n] * state.graph.n_children[:n]).sum(),
        "nodes below observed ones": int(state.graph.n_below[:d].sum()),
        "mean of the first": state.a[0].mean(),
        "fit": state.rho[0] * state.a[0].var(),
        "gain of the edges": gain_of_edges(state),
    }
