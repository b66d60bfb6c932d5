"""Whole ancestries of a point drawn from the network: for resampling hidden activations, fantasies and densities."""

import math

import numpy as np

from chefs._core.jit import jit
from chefs._core.network import draw_weights, rows_of_parents, sigmoid
from chefs._core.state import N_ACTIVE, N_OBSERVED


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


@jit
def resample_points(rng, state, gram, n_candidates):
    """For each point, ancestral draws of all its hidden (and missing) activations compete with the current ones.

    Iterated importance resampling: each is chosen in proportion to the likelihood of what is observed; never rejected.
    Returns the share of the points that changed.
    """
    graph = state.graph
    n, n_observed, n_points = graph.size[N_ACTIVE], graph.size[N_OBSERVED], state.a.shape[1]
    bias, weights = all_weights(rng, state, gram)
    parents = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        parents[i, : graph.n_parents[i]] = rows_of_parents(graph, i)[1:] - 1
    a, u, best = np.empty(n), np.empty(n), np.empty(n)
    changed = 0
    for t in range(n_points):
        total, moved = -math.inf, False
        for candidate in range(n_candidates + 1):
            log_weight = 0.0
            for p in range(n - 1, -1, -1):
                i = graph.ranking[p]
                mean = bias[i]
                for x in range(graph.n_parents[i]):
                    mean += weights[i, parents[i, x]] * u[parents[i, x]]
                seen = i < n_observed and not state.missing[i, t]
                if candidate == 0 or seen:
                    a[i] = state.a[i, t]
                else:
                    a[i] = mean + rng.standard_normal() / math.sqrt(state.rho[i])
                if seen:
                    log_weight -= 0.5 * state.rho[i] * (a[i] - mean) ** 2
                if graph.n_children[i] > 0:
                    u[i] = sigmoid(a[i])
            top = max(total, log_weight)
            total = top + math.log(math.exp(total - top) + math.exp(log_weight - top))
            if candidate == 0:
                best[:] = a
            elif rng.random() < math.exp(log_weight - total):
                best[:] = a
                moved = True
        if moved:
            changed += 1
            for i in range(n):
                state.a[i, t] = best[i]
    return changed / n_points
