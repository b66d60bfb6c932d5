"""Blocks of moves of the belief network: edges with weights integrated out, births, deaths and orders.

Each returns how many moves were tried and how many accepted.
"""

import math

import numpy as np

from chefs._core.births import try_birth, try_death
from chefs._core.jit import jit
from chefs._core.network import gram_of, log_marginal, rows_of_parents
from chefs._core.propose import apply, propose_birth, propose_death, propose_edge, propose_order
from chefs._core.state import N_ACTIVE


@jit
def toggled(rows, row):
    """`rows` without `row`, or with it where it was not among them."""
    kept = rows[rows != row]
    if kept.size < rows.size:
        return kept
    return np.append(rows, row)


@jit
def n_pairs(graph):
    """How many flips of edges make a sweep: a number that the flips do not change."""
    n = graph.size[N_ACTIVE]
    return max(n * (n - 1) // 2, 1)


@jit
def edge_moves(rng, state, n_sweeps):
    """Flip edges with the weights of the child integrated out. Ratio: prior odds × ratio of marginal likelihoods."""
    graph = state.graph
    gram = gram_of(state)
    current = np.full(graph.size[N_ACTIVE], np.nan)
    n_tried, n_accepted = n_sweeps * n_pairs(graph), 0
    for _ in range(n_tried):
        proposal = propose_edge(rng, graph)
        if proposal.log_ratio == -math.inf:
            continue
        i = proposal.node
        rows = rows_of_parents(graph, i)
        if np.isnan(current[i]):
            current[i] = log_marginal(gram, i, rows, state.rho[i])
        new = log_marginal(gram, i, toggled(rows, proposal.other + 1), state.rho[i])
        if math.log(1.0 - rng.random()) < proposal.log_ratio + new - current[i]:
            apply(graph, proposal)
            current[i] = new
            n_accepted += 1
    return n_tried, n_accepted


@jit
def order_moves(rng, state, gibbs):
    """Another order for as many nodes as there are: from the conditional (`gibbs`), or the paper's uniform move.

    From the conditional nothing is rejected. Ratio of the uniform one: the densities of the graph, after over before.
    """
    n_tried, n_accepted = state.graph.size[N_ACTIVE], 0
    for _ in range(n_tried):
        proposal = propose_order(rng, state.graph, gibbs)
        if proposal.log_ratio > -math.inf and (gibbs or math.log(1.0 - rng.random()) < proposal.log_ratio):
            apply(state.graph, proposal)
            n_accepted += 1
    return n_tried, n_accepted


@jit
def birth_moves(rng, state, n_moves):
    """Births and deaths, equally likely. Returns the state, which may have grown, how many were tried, accepted."""
    gram = gram_of(state)
    n_accepted = 0
    for _ in range(n_moves):
        birth = rng.random() < 0.5
        proposal = propose_birth(rng, state.graph) if birth else propose_death(rng, state.graph)
        if proposal.log_ratio == -math.inf:
            continue
        if birth:
            state, changed = try_birth(rng, state, gram, proposal)
        else:
            changed = try_death(rng, state, gram, proposal)
        if changed:
            gram = gram_of(state)
            n_accepted += 1
    return state, n_moves, n_accepted
