"""Joint moves of a hidden unit: all its activations together with its precision, its bias or a weight.

Not in the paper. A switch that is to become sharper, or a unit that is to follow its parents more closely, must change
its activations at all points and its precision at once. Trajectories and conditionals change the one given the other,
by little.
"""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit
from chefs._core.network import (
    LEAST_RHO,
    MOST_RHO,
    Gram,
    cholesky_solve,
    draw_weights,
    log_marginal,
    log_rho_prior,
    outputs,
    regression_of,
    rows_of_parents,
    sigmoid_into,
    weighted_gram,
)
from chefs._core.state import N_ACTIVE, N_OBSERVED

LEAST_SIZE, MOST_SIZE = 0.003, 2.0  # standard deviation of a change: drawn between these, evenly in its logarithm


class Around(NamedTuple):
    """What a change of one unit is judged by: the Gram matrices, and log p of its children."""

    gram: Gram
    children: float


@jit
def joint_moves(rng, state):
    """For each hidden unit: a stretch of its activations, a stretch of its noise, another bias or weight."""
    graph = state.graph
    n, n_observed, n_accepted = graph.size[N_ACTIVE], graph.size[N_OBSERVED], 0
    u = outputs(state)
    gram = weighted_gram(state, u)
    for k in range(n_observed, n):
        rows = rows_of_parents(graph, k)
        around, stretched = try_stretch(rng, state, Around(gram, log_children(state, gram, k)), u, k, rows)
        weights = draw_weights(rng, around.gram, k, rows, state.rho[k])
        around, louder = try_noise(rng, state, around, u, k, rows, weights)
        around, moved = try_weight(rng, state, around, u, k, rows, weights)
        gram = around.gram
        n_accepted += int(stretched) + int(louder) + int(moved)
    return 3 * (n - n_observed), n_accepted


@jit
def try_stretch(rng, state, around, u, k, rows):
    """All activations of a unit larger or smaller, a' = a √(ρ/ρ'), weights integrated out.

    Ratio: that of `settle` × (ρ/ρ')^(N/2) p(a' | parents, ρ') / p(a | parents, ρ).
    """
    old, rho, change = state.a[k].copy(), state.rho[k], change_of(rng)
    state.a[k] *= math.exp(-0.5 * change)
    state.rho[k] *= math.exp(change)
    log_ratio = log_fit(around.gram, k, rows, rho, state.rho[k]) - log_fit(around.gram, k, rows, rho, rho)
    return settle(rng, state, around, u, k, old, rho, log_ratio)


@jit
def try_noise(rng, state, around, u, k, rows, weights):
    """Larger or smaller noise given b and W, a' = b + Σ W u + (a − b − Σ W u) √(ρ/ρ'). Ratio: that of `settle`.

    The noise has the same density in its standard deviations, and the Jacobian makes up for the rest. What is kept is
    the law of (a, ρ, b, W), so b and W, drawn given all else, still are afterwards.
    """
    old, rho, change, mean = state.a[k].copy(), state.rho[k], change_of(rng), mean_of(u, rows, weights)
    state.a[k] = mean + math.exp(-0.5 * change) * (old - mean)
    state.rho[k] *= math.exp(change)
    return settle(rng, state, around, u, k, old, rho, 0.0)


@jit
def try_weight(rng, state, around, u, k, rows, weights):
    """Another bias, or another weight of one parent, with the noise held: a' = a + (W' − W) u.

    Ratio: that of `settle` × p(W') / p(W). Weights are forgotten after it.
    """
    old, change, which = state.a[k].copy(), change_of(rng), int(rng.random() * rows.size)
    state.a[k] += change * u[rows[which]]
    return settle(rng, state, around, u, k, old, state.rho[k], -change * (weights[which] + 0.5 * change))


@jit
def settle(rng, state, around, u, k, old, old_rho, log_ratio):
    """Keep the new activations and precision of unit k, or put the old ones back; what is around it then, and which.

    Ratio: exp(log_ratio) × p(ρ') ρ' / (p(ρ) ρ) × Π_c p(a_c | a') / p(a_c | a), the weights of the children c integrated
    out; the second factor is that of a symmetric change of log ρ.
    """
    rho = state.rho[k]
    if LEAST_RHO <= rho <= MOST_RHO:
        gram = update_gram(state, around.gram, u, k)
        children = log_children(state, gram, k)
        log_ratio += log_rho_prior(rho) + math.log(rho) - log_rho_prior(old_rho) - math.log(old_rho)
        if math.log(1.0 - rng.random()) < log_ratio + children - around.children:
            return Around(gram, children), True
    state.a[k] = old
    state.rho[k] = old_rho
    sigmoid_into(old, u[k + 1])
    return around, False


@jit
def change_of(rng):
    """A symmetric change, of any size between the least and the most."""
    return LEAST_SIZE * (MOST_SIZE / LEAST_SIZE) ** rng.random() * rng.standard_normal()


@jit
def log_fit(gram, k, rows, rho, stretched):
    """Log p(s a_k | parents, ρ') + N log s with s = √(ρ/ρ') and ρ' `stretched`, up to what does not depend on it."""
    m, c = regression_of(gram, k, rows, stretched)
    log_det = cholesky_solve(m, c)
    return 0.5 * rho * stretched * np.dot(c, c) - 0.5 * log_det


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
def update_gram(state, gram, u, k):
    """Bring row k + 1 of the outputs u up to date with hidden unit k; returns the Gram matrices as they then are."""
    n, n_observed, power = state.graph.size[N_ACTIVE], state.graph.size[N_OBSERVED], state.power
    sigmoid_into(state.a[k], u[k + 1])
    uu, ua, aa = gram.uu.copy(), gram.ua.copy(), gram.aa.copy()
    products = np.dot(u, u[k + 1])
    ua[k + 1] = np.dot(state.a[:n], u[k + 1])
    ua[:, k] = np.dot(u, state.a[k])
    aa[k] = np.dot(state.a[k], state.a[k])
    set_row(uu[0], k + 1, products)
    if power != 1.0:
        set_row(uu[1], k + 1, power * products)
        for i in range(n_observed):
            ua[k + 1, i] *= power
            if gram.which[i] > 1:  # entries that are missing count in full
                gaps = np.flatnonzero(state.missing[i])
                of_gaps = u[k + 1][gaps]
                set_row(uu[gram.which[i]], k + 1, power * products + (1.0 - power) * np.dot(u[:, gaps], of_gaps))
                ua[k + 1, i] += (1.0 - power) * np.dot(state.a[i][gaps], of_gaps)
    return Gram(uu, ua, aa, gram.n_points, gram.which)


@jit
def set_row(matrix, row, values):
    """Change a row and the column of the same number."""
    matrix[row] = values
    matrix[:, row] = values
