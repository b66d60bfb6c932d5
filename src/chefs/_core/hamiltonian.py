"""Hamiltonian Monte Carlo over all hidden (and missing) pre-activations and all log precisions at once."""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit
from chefs._core.network import RHO_RATE, RHO_SHAPE, cholesky_solve, outputs, rows_of_parents
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
def slope_of(state):
    """Log p(a, log ρ) with weights and biases integrated out, and its gradient.

    For node c with regressors X: S = (ρ X Xᵀ + I)⁻¹, ŵ = ρ S X a, r = a − Xᵀ ŵ; then ∂/∂a_c = −ρ r,
    ∂/∂u_k = ρ (ŵ_k r − (S X)_k) summed over the children c of k, ∂/∂log ρ = N/2 + ½ − ρ/2 − ½ ρ (rᵀ r + tr S X Xᵀ).
    """
    graph = state.graph
    n, n_points = graph.size[N_ACTIVE], state.a.shape[1]
    u = outputs(state)
    by_a = np.zeros((n, n_points))
    by_u = np.zeros((n, n_points))
    by_rho = np.zeros(n)
    mass = np.zeros(n)
    value = 0.0
    for c in range(n):
        rho, a = state.rho[c], state.a[c]
        rows = rows_of_parents(graph, c)
        x = u[rows]
        gram = np.dot(x, x.T)
        m = rho * gram
        for j in range(rows.size):
            m[j, j] += 1.0
        half = np.dot(x, a)
        log_det = cholesky_solve(m, half)
        s = inverse_of_factored(m)
        square, fit = np.dot(a, a), np.dot(half, half)
        value += 0.5 * n_points * math.log(rho) - 0.5 * rho * (square - rho * fit) - 0.5 * log_det
        value += RHO_SHAPE * math.log(rho) - RHO_RATE * rho
        w = rho * np.dot(s, np.dot(x, a))
        r = a - np.dot(w, x)
        by_a[c] -= rho * r
        trace = 0.0
        for i in range(rows.size):
            for j in range(rows.size):
                trace += s[i, j] * gram[i, j]
        by_rho[c] = 0.5 * n_points + RHO_SHAPE - RHO_RATE * rho - 0.5 * rho * (np.dot(r, r) + trace)
        mass[c] += rho
        if rows.size > 1:
            sx = np.dot(s, x)
            for j in range(1, rows.size):
                k = rows[j] - 1
                mass[k] += 0.04 * rho * w[j] * w[j]
                for t in range(n_points):
                    by_u[k, t] += rho * (w[j] * r[t] - sx[j, t])
    for k in range(n):
        for t in range(n_points):
            by_a[k, t] += by_u[k, t] * u[k + 1, t] * (1.0 - u[k + 1, t])
    for i in range(graph.size[N_OBSERVED]):
        if not state.missing[i].any():
            mass[i] = 1.0  # it does not move
        for t in range(n_points):
            if not state.missing[i, t]:
                by_a[i, t] = 0.0
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
