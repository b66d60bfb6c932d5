"""Whole ancestries of a point drawn from the network, to resample its hidden activations."""

import math

import numpy as np

from chefs._core.jit import jit, jit_loops
from chefs._core.network import draw_weights, rows_of_parents, sigmoid_into
from chefs._core.state import N_ACTIVE, N_OBSERVED

BLOCK = 128  # points that are walked together: few enough for the fast memory


@jit
def all_weights(rng, state, gram):
    """Biases (n,) and weights (n, n), entry [i, k] for the edge k → i, drawn given everything else."""
    n = state.graph.size[N_ACTIVE]
    bias, weights = np.zeros(n), np.zeros((n, n))
    for i in range(n):
        rows = rows_of_parents(state.graph, i)
        drawn = draw_weights(rng, gram, i, rows, state.rho[i])
        bias[i] = drawn[0]
        for x in range(1, rows.size):
            weights[i, rows[x] - 1] = drawn[x]
    return bias, weights


@jit_loops
def walk_block(rng, state, bias, weights, begin, keep, a, u):
    """Ancestries of the points of a block, from the top: into a and u; returns the log-likelihood of what is seen.

    Where `keep`, all activations are those of the state, and nothing is drawn.
    """
    graph = state.graph
    n, n_observed, size = graph.size[N_ACTIVE], graph.size[N_OBSERVED], a.shape[1]
    log_weight, mean = np.zeros(size), np.empty(size)
    for p in range(n - 1, -1, -1):
        i = graph.ranking[p]
        mean[:] = bias[i]
        for k in range(n):
            if graph.parents[i, k]:
                w, row = weights[i, k], u[k]
                for t in range(size):
                    mean[t] += w * row[t]
        here, now, rho = a[i], state.a[i, begin : begin + size], state.rho[i]
        for t in range(size):
            seen = i < n_observed and not state.missing[i, begin + t]
            here[t] = now[t] if keep or seen else mean[t] + rng.standard_normal() / math.sqrt(rho)
            if seen:
                log_weight[t] -= 0.5 * state.power * rho * (here[t] - mean[t]) ** 2
        if graph.n_children[i] > 0:
            sigmoid_into(here, u[i])
    return log_weight


@jit
def resample_points(rng, state, gram, n_candidates):
    """For each point, ancestral draws of all its hidden (and missing) activations compete with the current ones.

    Iterated importance resampling: each is chosen in proportion to the likelihood of what is observed; never rejected.
    Returns the number of points and of those that changed; without anything hidden there are none.
    """
    n, n_points = state.graph.size[N_ACTIVE], state.a.shape[1]
    if n == state.graph.size[N_OBSERVED] and not state.missing.any():
        return 0, 0
    bias, weights = all_weights(rng, state, gram)
    n_changed = 0
    for begin in range(0, n_points, BLOCK):
        size = min(BLOCK, n_points - begin)
        a, u = np.empty((n, size)), np.empty((n, size))
        top = walk_block(rng, state, bias, weights, begin, True, a, u)  # log of the largest weight so far
        total = np.ones(size)  # sum of the weights so far, over the largest
        best, moved = a.copy(), np.zeros(size, dtype=np.bool_)
        for _ in range(n_candidates):
            log_weight = walk_block(rng, state, bias, weights, begin, False, a, u)
            for t in range(size):
                share = math.exp(-abs(log_weight[t] - top[t]))
                if log_weight[t] > top[t]:
                    top[t], total[t], share = log_weight[t], total[t] * share, 1.0
                total[t] += share
                if rng.random() * total[t] < share:
                    moved[t] = True
                    best[:, t] = a[:, t]
        for t in range(size):
            if moved[t]:
                n_changed += 1
                state.a[:n, begin + t] = best[:, t]
    return n_points, n_changed
