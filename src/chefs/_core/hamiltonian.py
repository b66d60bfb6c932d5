"""Hamiltonian Monte Carlo over all hidden (and missing) pre-activations and all log precisions at once."""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit, jit_loops
from chefs._core.network import (
    LEAST_RHO,
    MOST_RHO,
    RHO_RATE,
    RHO_SHAPE,
    cholesky_solve,
    regression_of,
    rows_of_parents,
    sigmoid_into,
    weighted_gram,
    weights_of_entries,
)
from chefs._core.products import BLOCK, add_product, copy_block, inner, padded, tile_for
from chefs._core.state import N_ACTIVE, N_OBSERVED

MASS_SPREAD = 0.3  # standard deviation of the logarithm of a unit's random mass


class Slope(NamedTuple):
    """The log density and its gradient, and the size that a unit's mass should have."""

    value: float
    a: np.ndarray  # (n, N)
    log_rho: np.ndarray  # (n,)
    log_mass: np.ndarray  # (n,)


@jit
def inverse_of_factored(m):
    """M⁻¹ from the Cholesky factor of M in the lower triangle of m."""
    q = m.shape[0]
    inverse = np.zeros((q, q))
    for j in range(q):
        for i in range(j, q):  # L⁻¹ e_j
            total = 1.0 if i == j else 0.0
            for h in range(j, i):
                total -= m[i, h] * inverse[h, j]
            inverse[i, j] = total / m[i, i]
    return np.dot(inverse.T, inverse)


@jit
def fits_of(state, rows_at, gram):
    """For every node c: ŵ and ρ ŵ at the rows of its parents' outputs, tr S X Xᵀ, log p, and ρ S summed over c.

    The sums are one for each matrix of the Gram: of nodes whose entries are weighted alike.
    """
    graph = state.graph
    n, q = graph.size[N_ACTIVE], gram.uu.shape[1]
    weights, pull, sums, trace, value = np.zeros((n, q)), np.zeros((n, q)), np.zeros(gram.uu.shape), np.zeros(n), 0.0
    for c in range(n):
        rho, uu, spread = state.rho[c], gram.uu[gram.which[c]], sums[gram.which[c]]
        rows = rows_of_parents(graph, c)
        size = rows.size
        for j in range(1, size):
            rows[j] = rows_at[rows[j] - 1]
        m, half = regression_of(gram, c, rows, rho)
        log_det = cholesky_solve(m, half)
        s = inverse_of_factored(m)
        value += 0.5 * rho * rho * np.dot(half, half) - 0.5 * log_det
        for i in range(size):
            for j in range(size):
                weights[c, rows[i]] += rho * s[i, j] * gram.ua[rows[j], c]
                trace[c] += s[i, j] * uu[rows[i], rows[j]]
                spread[rows[i], rows[j]] += rho * s[i, j]
            pull[c, rows[i]] = rho * weights[c, rows[i]]
    return weights, pull, sums, trace, value


@jit_loops
def count_entries(state, weighted, begin, size):
    """Multiply the residuals of a block of points by what their entries count."""
    for i in range(state.graph.size[N_OBSERVED]):
        for t in range(size):
            if not state.missing[i, begin + t]:
                weighted[i, t] *= state.power


@jit
def sums_for_all(state, sums):
    """Σ_c ρ_c S_c for a point at which nothing is missing, each as its entry of c counts: from those of `fits_of`."""
    return sums[0] if state.power == 1.0 else sums[0] + state.power * sums[1:].sum(axis=0)


@jit
def take_missing(state, by_u, sums, u_part, begin, size):
    """Take from `by_u` what Σ_c ρ_c S_c X_c is larger by where entries are missing, which count in full."""
    n_rows = sums.shape[1]
    for i in range(state.graph.size[N_OBSERVED]):
        for t in np.flatnonzero(state.missing[i, begin : begin + size]):
            by_u[:n_rows, t] -= (1.0 - state.power) * np.dot(sums[2 + i], u_part[:n_rows, t].copy())


@jit_loops
def pull_back(row, rho, weighted, by_u, u):
    """Fill a row of ∂/∂a with −ρ r + ∂/∂u · u (1 − u)."""
    for t in range(row.size):
        row[t] = by_u[t] * u[t] * (1.0 - u[t]) - rho * weighted[t]


@jit_loops
def add_all(x, factors, y):
    """Add to every row of x its factor times the row of y."""
    for k in range(y.shape[0]):
        factor, to, row = factors[k], x[k], y[k]
        for t in range(row.size):
            to[t] += factor * row[t]


@jit
def slope_of(state):
    """Log p(a, log ρ) with weights and biases integrated out, and its gradient, in arrays of its own."""
    n, n_points = state.graph.size[N_ACTIVE], state.a.shape[1]
    return slope_into(state, np.empty((n + 1, n_points)), np.empty((n, n_points)))


@jit
def slope_into(state, outputs, by_a):
    """Log p(a, log ρ) with weights and biases integrated out, and its gradient: that of a in `by_a` (n, N).

    For node c with regressors X: S = (ρ X Xᵀ + I)⁻¹, ŵ = ρ S X a, r = a − Xᵀ ŵ; then ∂/∂a_c = −ρ r,
    ∂/∂u_k = ρ (ŵ_k r − (S X)_k) summed over the children c of k, ∂/∂log ρ = N/2 + ½ − ρ/2 − ½ ρ (rᵀ r + tr S X Xᵀ).
    Sums over points are products of matrices, in which nodes without a child have no row; every point counts as its
    entry of c does. `outputs` (n + 1, N) is room for u. Points go by in blocks that stay in the cache.
    """
    graph = state.graph
    n, n_points, n_observed = graph.size[N_ACTIVE], state.a.shape[1], graph.size[N_OBSERVED]
    rows_at = np.cumsum(graph.n_children[:n] > 0)  # the row of a node's outputs, if it has a child; 0 is the constant
    u = outputs[: rows_at[n - 1] + 1]
    u[0] = 1.0
    for k in range(n):
        if graph.n_children[k] > 0:
            sigmoid_into(state.a[k], u[rows_at[k]])
    gram = weighted_gram(state, u)
    weights, pull, sums, by_rho, value = fits_of(state, rows_at, gram)
    still = np.zeros(n, dtype=np.bool_)
    for k in range(n_observed):
        still[k] = not state.missing[k].any()
        if still[k]:
            by_a[k] = 0.0
    less_fit, pulls, less_sums = padded(-weights), padded(pull.T), padded(-sums_for_all(state, sums))
    r, u_part, by_u = tile_for(n), tile_for(u.shape[0]), tile_for(u.shape[0])
    weighted = r if state.power == 1.0 else tile_for(n)
    for begin in range(0, n_points, BLOCK):
        size = min(BLOCK, n_points - begin)
        copy_block(u_part, u, begin, size)
        copy_block(r, state.a[:n], begin, size)
        add_product(r, less_fit, u_part, size)
        if state.power != 1.0:
            copy_block(weighted, r, 0, size)
            count_entries(state, weighted, begin, size)
        by_u[:] = 0.0
        add_product(by_u, pulls, weighted, size)
        add_product(by_u, less_sums, u_part, size)
        if state.power != 1.0:
            take_missing(state, by_u, sums, u_part, begin, size)
        for k in range(n):
            by_rho[k] += inner(weighted[k, :size], r[k, :size])
            if still[k]:
                continue
            at = rows_at[k] if graph.n_children[k] > 0 else 0  # the constant has no slope
            row = by_a[k, begin : begin + size]
            pull_back(row, state.rho[k], weighted[k, :size], by_u[at, :size], u_part[at, :size])
            if k < n_observed:
                row *= state.missing[k, begin : begin + size]
    mass = np.ones(n)
    for k in range(n):
        rho = state.rho[k]
        shape = 0.5 * gram.n_points[k] + RHO_SHAPE
        value += shape * math.log(rho) - RHO_RATE * rho - 0.5 * rho * gram.aa[k]
        by_rho[k] = shape - RHO_RATE * rho - 0.5 * rho * by_rho[k]
        if still[k]:
            continue
        mass[k] = rho
        if graph.n_children[k] > 0:
            for c in range(n):
                share = gram.n_points[c] / n_points
                mass[k] += 0.04 * share * pull[c, rows_at[k]] * weights[c, rows_at[k]]
    return Slope(value, by_a, by_rho, np.log(mass))


@jit
def masses_of_log_rho(state):
    """(n,): half of what the entries of a node count, and the shape of its prior: no trajectory changes these."""
    masses = np.empty(state.graph.size[N_ACTIVE])
    for i in range(masses.size):
        masses[i] = 0.5 * weights_of_entries(state, i).sum() + RHO_SHAPE
    return masses


@jit
def hamiltonian_move(rng, state, step_size, n_steps, learn):
    """One trajectory of `n_steps` ≥ 1 leapfrog steps; returns the acceptance probability and whether it was accepted.

    Ratio: exp(H − H'), with H = −log p(a, log ρ, data) + ½ pᵀ M⁻¹ p, weights integrated out. Every unit has a mass of
    its own, `state.log_mass`, times a random factor. In warm-up, and only there, masses approach
    ρ_k + 0.04 Σ_c ρ_c ŵ_kc², by the share `learn` of the way: a mass that followed the state would need the density of
    its draw, at both ends, in the ratio, which with forty units leaves steps of a tenth. After it a unit keeps its mass
    until it dies, and newborn ones draw theirs: so state and masses together have a law that every move keeps, under
    which masses are independent of all else, and those of the warm-up are a start like any other.
    """
    n, n_points, n_observed = state.graph.size[N_ACTIVE], state.a.shape[1], state.graph.size[N_OBSERVED]
    outputs, by_a = np.empty((n + 1, n_points)), np.empty((n, n_points))
    start = slope_into(state, outputs, by_a)
    log_mass = state.log_mass[:n] + MASS_SPREAD * rng.standard_normal(n)
    old_a, old_rho = state.a[:n].copy(), state.rho[:n].copy()
    p_a = np.zeros((n, n_points))
    for k in range(n):
        for t in range(n_points):
            if k >= n_observed or state.missing[k, t]:
                p_a[k, t] = rng.standard_normal() * math.exp(0.5 * log_mass[k])
    rho_mass = masses_of_log_rho(state)
    p_rho = rng.standard_normal(n) * np.sqrt(rho_mass)
    energy = start.value - kinetic(p_a, p_rho, log_mass, rho_mass)
    slope, half, whole = start, np.full(n, 0.5 * step_size), np.full(n, step_size)
    drift = step_size * np.exp(-log_mass)
    add_all(p_a, half, slope.a)
    p_rho += 0.5 * step_size * slope.log_rho
    for step in range(n_steps):
        add_all(state.a, drift, p_a)
        for k in range(n):
            change = step_size * p_rho[k] / rho_mass[k]
            state.rho[k] *= math.exp(change) if abs(change) < 100.0 else 0.0
            if not LEAST_RHO <= state.rho[k] <= MOST_RHO:
                state.a[:n] = old_a
                state.rho[:n] = old_rho
                return 0.0, False
        slope = slope_into(state, outputs, by_a)
        last = step == n_steps - 1
        add_all(p_a, half if last else whole, slope.a)
        p_rho += (0.5 if last else 1.0) * step_size * slope.log_rho
    end = slope.value - kinetic(p_a, p_rho, log_mass, rho_mass)
    probability = math.exp(min(0.0, end - energy)) if end - energy > -700 else 0.0  # 0 where the end is nan
    accepted = rng.random() < probability
    if not accepted:
        state.a[:n] = old_a
        state.rho[:n] = old_rho
        slope = start
    state.log_mass[:n] += learn * (slope.log_mass - state.log_mass[:n])
    return probability, accepted


@jit
def kinetic(p_a, p_rho, log_mass, rho_mass):
    """½ pᵀ M⁻¹ p."""
    total = 0.5 * np.dot(p_rho, p_rho / rho_mass)
    for k in range(log_mass.size):
        total += 0.5 * np.dot(p_a[k], p_a[k]) * math.exp(-log_mass[k])
    return total
