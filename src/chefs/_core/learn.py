"""Blocks of moves of the belief network: edges with weights integrated out, births, deaths and orders."""

import math

import numpy as np

from chefs._core.births import try_birth, try_death
from chefs._core.jit import jit
from chefs._core.network import gram_of, log_marginal, rows_of_parents
from chefs._core.propose import (
    BIRTH,
    DEATH,
    EDGE,
    ORDER,
    apply,
    propose_birth,
    propose_death,
    propose_edge,
    propose_order,
)
from chefs._core.state import N_ACTIVE


@jit
def toggled(rows, row):
    """`rows` without `row`, or with it where it was not among them."""
    kept = rows[rows != row]
    if kept.size < rows.size:
        return kept
    return np.append(rows, row)


@jit
def edge_moves(rng, state, n_sweeps, tally):
    """Flip edges with the weights of the child integrated out. Ratio: prior odds × ratio of marginal likelihoods.

    As many flips in a sweep as there are pairs of nodes: a number that the flips do not change.
    """
    graph = state.graph
    n = graph.size[N_ACTIVE]
    gram = gram_of(state)
    current = np.full(n, np.nan)
    for _ in range(n_sweeps * max(n * (n - 1) // 2, 1)):
        proposal = propose_edge(rng, graph)
        tally[EDGE, 0] += 1
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
            tally[EDGE, 1] += 1


@jit
def order_moves(rng, state, tally):
    """Orders from their conditionals, as many as there are nodes: the likelihood does not see them."""
    for _ in range(state.graph.size[N_ACTIVE]):
        proposal = propose_order(rng, state.graph, True)
        tally[ORDER, 0] += 1
        if proposal.log_ratio > -math.inf:
            apply(state.graph, proposal)
            tally[ORDER, 1] += 1


@jit
def birth_moves(rng, state, n_moves, tally):
    """Births and deaths, equally likely. Returns the state, which may have grown."""
    gram = gram_of(state)
    for _ in range(n_moves):
        changed = False
        if rng.random() < 0.5:
            proposal = propose_birth(rng, state.graph)
            tally[BIRTH, 0] += 1
            if proposal.log_ratio > -math.inf:
                state, changed = try_birth(rng, state, gram, proposal)
                tally[BIRTH, 1] += changed
        else:
            proposal = propose_death(rng, state.graph)
            tally[DEATH, 0] += 1
            if proposal.log_ratio > -math.inf:
                changed = try_death(rng, state, gram, proposal)
                tally[DEATH, 1] += changed
        if changed:
            gram = gram_of(state)
    return state
