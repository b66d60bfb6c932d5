"""Hamiltonian Monte Carlo over all hidden (and missing) pre-activations and all log precisions at once."""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit, jit_loops
from chefs._core.network import RHO_RATE, RHO_SHAPE, cholesky_solve, rows_of_parents, sigmoid_into
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
def fits_of(state, rows_at, uu, ua):
    """For every node c: ŵ and ρ ŵ at the rows of its parents' outputs, ρ S summed over c, tr S X Xᵀ, and log p."""
    graph = state.graph
    n, q = graph.size[N_ACTIVE], uu.shape[0]
    weights, pull, spread, trace, value = np.zeros((n, q)), np.zeros((n, q)), np.zeros((q, q)), np.zeros(n), 0.0
    for c in range(n):
        rho = state.rho[c]
        rows = rows_of_parents(graph, c)
        size = rows.size
        for j in range(1, size):
            rows[j] = rows_at[rows[j] - 1]
        m, half = np.empty((size, size)), np.empty(size)
        for i in range(size):
            half[i] = ua[rows[i], c]
            for j in range(size):
                m[i, j] = rho * uu[rows[i], rows[j]] + (i == j)
        log_det = cholesky_solve(m, half)
        s = inverse_of_factored(m)
        value += 0.5 * rho * rho * np.dot(half, half) - 0.5 * log_det
        for i in range(size):
            for j in range(size):
                weights[c, rows[i]] += rho * s[i, j] * ua[rows[j], c]
                trace[c] += s[i, j] * uu[rows[i], rows[j]]
                spread[rows[i], rows[j]] += rho * s[i, j]
            pull[c, rows[i]] = rho * weights[c, rows[i]]
    return weights, pull, spread, trace, value


@jit_loops
def through_sigmoid(row, by_u, u):
    """Add ∂/∂u · u (1 − u) to a row of ∂/∂a."""
    for t in range(row.size):
        row[t] += by_u[t] * u[t] * (1.0 - u[t])


@jit
def slope_of(state):
    """Log p(a, log ρ) with weights and biases integrated out, and its gradient.

    For node c with regressors X: S = (ρ X Xᵀ + I)⁻¹, ŵ = ρ S X a, r = a − Xᵀ ŵ; then ∂/∂a_c = −ρ r,
    ∂/∂u_k = ρ (ŵ_k r − (S X)_k) summed over the children c of k, ∂/∂log ρ = N/2 + ½ − ρ/2 − ½ ρ (rᵀ r + tr S X Xᵀ).
    Sums over points are products of matrices, in which nodes without a child have no row.
    """
    graph = state.graph
    n, n_points, n_observed = graph.size[N_ACTIVE], state.a.shape[1], graph.size[N_OBSERVED]
    a = state.a[:n]
    rows_at = np.cumsum(graph.n_children[:n] > 0)  # the row of a node's outputs, if it has a child; 0 is the constant
    u = np.ones((rows_at[n - 1] + 1, n_points))
    for k in range(n):
        if graph.n_children[k] > 0:
            sigmoid_into(a[k], u[rows_at[k]])
    weights, pull, spread, by_rho, value = fits_of(state, rows_at, np.dot(u, u.T), np.dot(u, a.T))
    r = a - np.dot(weights, u)
    by_u = np.dot(pull.T, r) - np.dot(spread, u)
    by_a, mass = np.zeros((n, n_points)), np.ones(n)
    for k in range(n):
        rho = state.rho[k]
        value += (0.5 * n_points + RHO_SHAPE) * math.log(rho) - RHO_RATE * rho - 0.5 * rho * np.dot(a[k], a[k])
        by_rho[k] = 0.5 * n_points + RHO_SHAPE - RHO_RATE * rho - 0.5 * rho * (np.dot(r[k], r[k]) + by_rho[k])
        if k < n_observed and not state.missing[k].any():
            continue  # it does not move
        mass[k] = rho
        by_a[k] = -rho * r[k]
        if graph.n_children[k] > 0:
            for c in range(n):
                mass[k] += 0.04 * pull[c, rows_at[k]] * weights[c, rows_at[k]]
            through_sigmoid(by_a[k], by_u[rows_at[k]], u[rows_at[k]])
        if k < n_observed:
            by_a[k] *= state.missing[k]
    return Slope(value, by_a, by_rho, np.log(mass))


@jit
def log_mass_density(drawn, centre):
    """Log density of the random masses around the sizes they should have at a state."""
    z = (drawn - centre) / MASS_SPREAD
    return -0.5 * np.dot(z, z)


@jit
def hamiltonian_move(rng, state, step_size, n_steps):
    """One trajectory of `n_steps` leapfrog steps; returns the acceptance probability and whether it was accepted.

    The mass of unit k is drawn around ρ_k + 0.04 Σ_c ρ_c ŵ_kc², which depends on the state: the density of the draw at
    both ends enters the ratio. Ratio: exp(H − H') · h(mass | end) / h(mass | start).
    """
    n, n_points, n_observed = state.graph.size[N_ACTIVE], state.a.shape[1], state.graph.size[N_OBSERVED]
    start = slope_of(state)
    log_mass = start.log_mass + MASS_SPREAD * rng.standard_normal(n)
    old_a, old_rho = state.a[:n].copy(), state.rho[:n].copy()
    p_a = np.zeros((n, n_points))
    for k in range(n):
        for t in range(n_points):
            if k >= n_observed or state.missing[k, t]:
                p_a[k, t] = rng.standard_normal() * math.exp(0.5 * log_mass[k])
    rho_mass = 0.5 * n_points + RHO_SHAPE
    p_rho = rng.standard_normal(n) * math.sqrt(rho_mass)
    energy = start.value - kinetic(p_a, p_rho, log_mass, rho_mass) + log_mass_density(log_mass, start.log_mass)
    slope = start
    for _ in range(n_steps):
        p_a += 0.5 * step_size * slope.a
        p_rho += 0.5 * step_size * slope.log_rho
        for k in range(n):
            state.a[k] += step_size * math.exp(-log_mass[k]) * p_a[k]
            change = step_size * p_rho[k] / rho_mass
            state.rho[k] *= math.exp(min(max(change, -50.0), 50.0))
            if not 1e-12 < state.rho[k] < 1e12:
                state.a[:n] = old_a
                state.rho[:n] = old_rho
                return 0.0, False
        slope = slope_of(state)
        p_a += 0.5 * step_size * slope.a
        p_rho += 0.5 * step_size * slope.log_rho
    end = slope.value - kinetic(p_a, p_rho, log_mass, rho_mass) + log_mass_density(log_mass, slope.log_mass)
    probability = math.exp(min(0.0, end - energy)) if end - energy > -700 else 0.0
    accepted = rng.random() < probability  # False where the end is nan
    if not accepted:
        state.a[:n] = old_a
        state.rho[:n] = old_rho
    return (probability if probability >= 0.0 else 0.0), accepted


@jit
def kinetic(p_a, p_rho, log_mass, rho_mass):
    """½ pᵀ M⁻¹ p."""
    total = 0.5 * np.dot(p_rho, p_rho) / rho_mass
    for k in range(log_mass.size):
        total += 0.5 * np.dot(p_a[k], p_a[k]) * math.exp(-log_mass[k])
    return total
