"""Joint moves of a hidden unit: all its activations together with its precision, its bias or a weight.

A switch that is to become sharper, or a unit that is to follow its parents more closely, must change its activations at
all points and its precision at once. Trajectories and conditionals change the one given the other, by little.
"""

import math

import numpy as np

from chefs._core.jit import jit
from chefs._core.network import (
    LEAST_RHO,
    MOST_RHO,
    Gram,
    draw_weights,
    log_marginal,
    log_rho_prior,
    outputs,
    rows_of_parents,
    sigmoid_into,
    weighted_gram,
)
from chefs._core.state import N_ACTIVE, N_OBSERVED

LEAST_SIZE, MOST_SIZE = 0.003, 2.0  # standard deviation of a change: drawn between these, evenly in its logarithm
STRETCH, NOISE, WEIGHT, N_KINDS = 0, 1, 2, 3


@jit
def gram_after(state, gram, u, k):
    """The Gram matrices once node k has other activations; its row of the outputs u is brought up to date."""
    sigmoid_into(state.a[k], u[k + 1])
    if state.power != 1.0:
        return weighted_gram(state, u)
    n = state.graph.size[N_ACTIVE]
    uu, ua, aa = gram.uu.copy(), gram.ua.copy(), gram.aa.copy()
    products = np.dot(u, u[k + 1])
    uu[0, k + 1] = products
    uu[0, :, k + 1] = products
    ua[k + 1] = np.dot(state.a[:n], u[k + 1])
    ua[:, k] = np.dot(u, state.a[k])
    aa[k] = np.dot(state.a[k], state.a[k])
    return Gram(uu, ua, aa, gram.n_points, gram.which)


@jit
def log_children(state, gram, k):
    """Log p(a_c | its parents) of all children c of node k, their weights integrated out."""
    total = 0.0
    for c in range(state.graph.size[N_ACTIVE]):
        if state.graph.parents[c, k]:
            total += log_marginal(gram, c, rows_of_parents(state.graph, c), state.rho[c])
    return total


@jit
def mean_of(u, rows, weights):
    """The mean b + Σ W u at every point."""
    mean = np.zeros(u.shape[1])
    for x in range(rows.size):
        mean += weights[x] * u[rows[x]]
    return mean


@jit
def joint_moves(rng, state):
    """For each hidden unit k: its activations stretched, its noise stretched, and another bias or weight.

    Log ρ changes by a symmetric draw. A stretch of everything has a' = a √(ρ/ρ'), and the ratio
    p(a' | parents, ρ') / p(a | parents, ρ) × (ρ/ρ')^(N/2) with weights integrated out. For the others b and W are drawn
    given everything else, and forgotten afterwards; the noise stays and the activations follow,
    a' = b' + Σ W' u + (a − b − Σ W u) √(ρ/ρ'): the density of the noise is the same, so there is p(b', W') / p(b, W)
    instead. All have Π_c p(a_c | a') / p(a_c | a) over the children, with their weights integrated out, and
    p(ρ') ρ' / (p(ρ) ρ).
    """
    graph = state.graph
    n, n_observed, n_points = graph.size[N_ACTIVE], graph.size[N_OBSERVED], state.a.shape[1]
    u = outputs(state)
    gram = weighted_gram(state, u)
    n_accepted = 0
    for k in range(n_observed, n):
        rows, weights = rows_of_parents(graph, k), np.zeros(0)
        before = log_children(state, gram, k)
        for kind in range(N_KINDS):
            if kind == NOISE:
                weights = draw_weights(rng, gram, k, rows, state.rho[k])
            size = LEAST_SIZE * (MOST_SIZE / LEAST_SIZE) ** rng.random()
            change, which = size * rng.standard_normal(), rng.integers(0, rows.size)
            old, old_rho = state.a[k].copy(), state.rho[k]
            if kind == WEIGHT:
                state.a[k] += change * u[rows[which]]
                log_ratio = -change * (weights[which] + 0.5 * change)
            else:
                mean = mean_of(u, rows, weights) if kind == NOISE else np.zeros(n_points)
                state.a[k] = mean + math.exp(-0.5 * change) * (old - mean)
                state.rho[k] *= math.exp(change)
                log_ratio = change + log_rho_prior(state.rho[k]) - log_rho_prior(old_rho)
            accepted = False
            if LEAST_RHO <= state.rho[k] <= MOST_RHO:
                moved = gram_after(state, gram, u, k)
                after = log_children(state, moved, k)
                if kind == STRETCH:
                    log_ratio += log_marginal(moved, k, rows, state.rho[k]) - log_marginal(gram, k, rows, old_rho)
                    log_ratio -= 0.5 * n_points * change
                accepted = math.log(1.0 - rng.random()) < log_ratio + after - before
            if accepted:
                gram, before = moved, after
                if kind == WEIGHT:
                    weights[which] += change
                n_accepted += 1
            else:
                state.a[k], state.rho[k] = old, old_rho
                sigmoid_into(old, u[k + 1])
    return N_KINDS * (n - n_observed), n_accepted
