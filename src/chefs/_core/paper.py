"""The operators of the paper, and of Adams, Wallach and Ghahramani (2010) to which it refers, given the weights.

They are here to be compared with. Each block draws the weights and biases from their conditional, makes its moves given
them, and forgets them again. Each returns how many moves were tried and how many accepted.
"""

import math

import numpy as np

from chefs._core.ancestral import all_weights
from chefs._core.births import remove_unit, with_unit
from chefs._core.jit import jit
from chefs._core.learn import n_pairs
from chefs._core.network import (
    draw_rho,
    draw_weights,
    gram_of,
    residuals,
    rows_of_parents,
    sigmoid,
    weights_of_entries,
)
from chefs._core.propose import apply, propose_birth, propose_death, propose_edge
from chefs._core.state import N_ACTIVE, N_OBSERVED


@jit
def weighted_edge_moves(rng, state, n_sweeps):
    """Flips of edges given weights; that of an edge that is not there is drawn from its prior.

    Probability of a flip (Barker's rule): logistic in log prior odds − ½ ρ_i (Σ r'² − Σ r²), r and r' the residuals
    before and after.
    """
    graph = state.graph
    n_tried, n_accepted = n_sweeps * n_pairs(graph), 0
    gram = gram_of(state)
    bias, weights = all_weights(rng, state, gram)
    for _ in range(n_tried):
        proposal = propose_edge(rng, graph)
        if proposal.log_ratio == -math.inf:
            continue
        i, k = proposal.node, proposal.other
        uu = gram.uu[gram.which[i]]
        inner = gram.ua[k + 1, i] - bias[i] * uu[0, k + 1]  # of u_k with the residual of i
        for j in range(graph.size[N_ACTIVE]):
            if weights[i, j] != 0.0:
                inner -= weights[i, j] * uu[j + 1, k + 1]
        step = -weights[i, k] if graph.parents[i, k] else rng.standard_normal()
        change = -0.5 * state.rho[i] * step * (step * uu[k + 1, k + 1] - 2.0 * inner)
        odds = proposal.log_ratio + change
        if rng.random() < 1.0 / (1.0 + math.exp(min(-odds, 700.0))):
            apply(graph, proposal)
            weights[i, k] = step if weights[i, k] == 0.0 else 0.0
            n_accepted += 1
    return n_tried, n_accepted


@jit
def weighted_birth_moves(rng, state, n_moves):
    """Births with weight, bias, precision and activations from the prior, and deaths. Returns the state too.

    Ratio: that of the graph · Π_t N(r_t'; 0, 1/ρ_i) / N(r_t; 0, 1/ρ_i), r the residuals of the child.
    """
    n_accepted = 0
    gram = gram_of(state)
    for _ in range(n_moves):
        birth = rng.random() < 0.5
        proposal = propose_birth(rng, state.graph) if birth else propose_death(rng, state.graph)
        if proposal.log_ratio == -math.inf:
            continue
        i, k = proposal.node, proposal.other
        rows = rows_of_parents(state.graph, i)
        weights = draw_weights(rng, gram, i, rows, state.rho[i])
        rho = draw_rho(rng)
        a = rng.standard_normal() + rng.standard_normal(state.a.shape[1]) / math.sqrt(rho)
        step = rng.standard_normal()
        if not birth:
            a[:] = state.a[k]
            for x in range(1, rows.size):
                if rows[x] == k + 1:
                    step = -weights[x]
        change = 0.0
        residual, counts = residuals(state, i, rows, weights), weights_of_entries(state, i)
        for t in range(a.size):
            effect = step * sigmoid(a[t])
            change -= 0.5 * counts[t] * state.rho[i] * effect * (effect - 2.0 * residual[t])
        if not math.log(1.0 - rng.random()) < proposal.log_ratio + change:
            continue
        n_accepted += 1
        if birth:
            state = with_unit(rng, state, proposal, a, rho)
        else:
            remove_unit(state, proposal)
        gram = gram_of(state)
    return state, n_moves, n_accepted


@jit
def activation_moves(rng, state, n_candidates):
    """Each hidden (or missing) activation against one of several draws from its conditional given the parents.

    One of the draws y_1 … y_m is chosen in proportion to w, the likelihood of the children. Ratio: Σ_j w(y_j) over the
    same sum with the current activation in place of the chosen one (multiple-try Metropolis, independent proposals).
    """
    graph = state.graph
    n, n_observed, n_points = graph.size[N_ACTIVE], graph.size[N_OBSERVED], state.a.shape[1]
    bias, weights = all_weights(rng, state, gram_of(state))
    u, mean = np.empty(n), np.empty(n)
    n_tried, n_accepted = 0, 0
    for t in range(n_points):
        for k in range(n):
            u[k] = sigmoid(state.a[k, t])
        for i in range(n):
            mean[i] = bias[i]
            for k in range(n):
                if weights[i, k] != 0.0:
                    mean[i] += weights[i, k] * u[k]
        for k in range(n):
            if k < n_observed and not state.missing[k, t]:
                continue
            n_tried += 1
            best, best_u, current, chosen, total = state.a[k, t], u[k], 0.0, -math.inf, -math.inf
            for candidate in range(n_candidates + 1):
                a = state.a[k, t]
                if candidate > 0:
                    a = mean[k] + rng.standard_normal() / math.sqrt(state.rho[k])
                output, log_weight = sigmoid(a), 0.0
                for c in range(n):
                    if weights[c, k] != 0.0:
                        e = state.a[c, t] - mean[c] - weights[c, k] * (output - u[k])
                        seen = c < n_observed and not state.missing[c, t]
                        log_weight -= 0.5 * (state.power if seen else 1.0) * state.rho[c] * e * e
                if candidate == 0:
                    current = log_weight
                    continue
                top = max(total, log_weight)
                total = top + math.log(math.exp(total - top) + math.exp(log_weight - top))
                if rng.random() < math.exp(log_weight - total):
                    best, best_u, chosen = a, output, log_weight
            others = max(1.0 - math.exp(chosen - total), 0.0)  # all in units of the sum
            if not rng.random() * (others + math.exp(min(current - total, 700.0))) < 1.0:
                continue
            n_accepted += 1
            for c in range(n):
                if weights[c, k] != 0.0:
                    mean[c] += weights[c, k] * (best_u - u[k])
            state.a[k, t] = best
            u[k] = best_u
    return n_tried, n_accepted
