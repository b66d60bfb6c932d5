"""The gradient of a network's estimated density through walks that keep to what is seen of their point."""

import math

import numpy as np

from chefs._core.fitting import add_scaled, exponentials, largest, outputs, times_slope
from chefs._core.jit import jit, jit_sums
from chefs._core.products import inner


@jit_sums
def weigh(logs, value, means, log_rho):
    """Add log densities of a value that is seen, given means, without log 2π."""
    half = means.dtype.type(0.5)
    rho = np.exp(log_rho)
    for s in range(means.size):
        gap = value - means[s]
        logs[s] += half * log_rho - half * rho * gap * gap


@jit
def walk_past(weights, bias, log_rho, column, possible, noise, x, seen):
    """Walks down the nodes, from the top: (n, points × walks) of a, of outputs u, and log weights of the walks.

    Where a node is seen, `a` is its mean given the walk above it, and u the output of what is seen.
    """
    n, n_points, m = noise.shape[0], x.shape[0], weights.shape[1]
    n_walks = noise.shape[1] // n_points
    a, u = np.empty_like(noise), np.empty_like(noise)
    logs, at = np.zeros_like(noise[0]), np.empty_like(noise[0])
    for j in range(n):
        row, d, spread = a[j], column[j], np.exp(log_rho[j] * x.dtype.type(-0.5))
        row[:] = bias[j]
        for k in range(min(j, m)):
            if possible[j, k]:
                add_scaled(row, weights[j, k], u[k])
        if d < 0:
            add_scaled(row, spread, noise[j])
            if j < m:
                outputs(row, u[j])
            continue
        for t in range(n_points):
            walks = slice(t * n_walks, (t + 1) * n_walks)
            if seen[t, d]:
                weigh(logs[walks], x[t, d], row[walks], log_rho[j])
                at[walks] = x[t, d]
            else:
                add_scaled(row[walks], spread, noise[j, walks])
                at[walks] = row[walks]
        if j < m:
            outputs(at, u[j])
    return a, u, logs


@jit_sums
def pull_seen(by_a, shares, value, means, rho):
    """Fill by_a with shares · ρ (value − means); returns Σ shares · (1 − ρ (value − means)²)."""
    total = by_a.dtype.type(0.0)
    one = by_a.dtype.type(1.0)
    for s in range(by_a.size):
        gap = value - means[s]
        by_a[s] = shares[s] * rho * gap
        total += shares[s] * (one - rho * gap * gap)
    return total


@jit
def gradient_through_own_walks(weights, bias, log_rho, column, possible, noise, x, seen, scale):
    """Gradient of scale · Σ_t log p̂(x_t) for weights (n, m), biases and log precisions; and the mean log p̂(x_t).

    With shares r_ts ∝ the weight of walk s of point t, scaled to sum to `scale`: a node that is seen has
    ∂/∂mean = r ρ (x − mean) and ∂/∂log ρ = ½ Σ r (1 − ρ (x − mean)²); one that is drawn passes on what its children ask
    of it, ∂/∂mean = u (1 − u) Σ_c W_c ∂/∂mean_c, and ∂/∂log ρ = −½ Σ (noise/√ρ) ∂/∂mean.
    """
    n, n_points, m = noise.shape[0], x.shape[0], weights.shape[1]
    n_walks = noise.shape[1] // n_points
    a, u, shares = walk_past(weights, bias, log_rho, column, possible, noise, x, seen)
    value = 0.0
    for t in range(n_points):
        part = shares[t * n_walks : (t + 1) * n_walks]
        top = largest(part)
        total = exponentials(part, top)
        part *= scale / total
        value += top + math.log(total / n_walks)
    by_weights, by_bias, by_log_rho, by_u = (
        np.zeros_like(weights),
        np.zeros_like(bias),
        np.zeros_like(bias),
        np.zeros_like(noise),
    )
    half = x.dtype.type(0.5)
    for j in range(n - 1, -1, -1):
        by_a, d, spread = by_u[j], column[j], np.exp(log_rho[j] * x.dtype.type(-0.5))
        if j < m:
            times_slope(by_a, u[j])
        if d < 0:
            by_log_rho[j] = -half * spread * inner(by_a, noise[j])
        else:
            for t in range(n_points):
                walks = slice(t * n_walks, (t + 1) * n_walks)
                if seen[t, d]:
                    asked = pull_seen(by_a[walks], shares[walks], x[t, d], a[j, walks], np.exp(log_rho[j]))
                    by_log_rho[j] += half * asked
                else:
                    by_log_rho[j] -= half * spread * inner(by_a[walks], noise[j, walks])
        by_bias[j] = by_a.sum()
        for k in range(min(j, m)):
            if possible[j, k]:
                by_weights[j, k] = inner(by_a, u[k])
                add_scaled(by_u[k], weights[j, k], by_a)
    return by_weights, by_bias, by_log_rho, value / n_points
