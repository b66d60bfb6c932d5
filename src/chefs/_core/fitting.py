"""The gradient of a network's estimated density through walks that all points share, in loops that are vectorised."""

import math

import numpy as np

from chefs._core.jit import jit, jit_loops, jit_sums
from chefs._core.products import inner

FURTHEST = -80.0  # exponents below this are cut
LEAST_TOTAL = 1e-20  # of exponentials: where it is less, most are near the cut, and none is precise


@jit_sums
def exponentials(x, shift):
    """Make x exp(x − shift), for x ≤ shift; returns its sum. A Taylor sum to the 256th power.

    Its relative error is below 1e-4 down to −50, in single precision too.
    """
    one, part = x.dtype.type(1.0), x.dtype.type(1.0 / 256.0)
    c2, c3, c4 = x.dtype.type(1.0 / 2.0), x.dtype.type(1.0 / 6.0), x.dtype.type(1.0 / 24.0)
    c5 = x.dtype.type(1.0 / 120.0)
    least, total = x.dtype.type(FURTHEST), x.dtype.type(0.0)
    for s in range(x.size):
        y = max(x[s] - shift, least) * part
        p = c4 + y * c5
        p = c3 + y * p
        p = c2 + y * p
        p = one + y * p
        p = one + y * p
        p *= p
        p *= p
        p *= p
        p *= p
        p *= p
        p *= p
        p *= p
        p *= p
        x[s] = p
        total += p
    return total


@jit_sums
def largest(x):
    """The largest entry."""
    most = x[0]
    for s in range(x.size):
        most = max(most, x[s])
    return most


@jit_sums
def subtract_square(logs, value, means, half):
    """Take half (value − means)² from the logs."""
    for s in range(logs.size):
        e = value - means[s]
        logs[s] -= half * e * e


@jit_sums
def add_pull(pull, shares, value, means, factor):
    """Add factor · shares · (value − means) to the pull; returns Σ factor · shares · (value − means)²."""
    total = pull.dtype.type(0.0)
    for s in range(pull.size):
        e = value - means[s]
        part = factor * shares[s] * e
        pull[s] += part
        total += part * e
    return total


@jit_sums
def outputs(a, u):
    """Fill u with the sigmoid of a."""
    one, zero = a.dtype.type(1.0), a.dtype.type(0.0)
    for s in range(a.size):
        u[s] = -abs(a[s])
    exponentials(u, zero)
    for s in range(a.size):
        low = u[s] / (one + u[s])
        u[s] = low if a[s] < zero else one - low


@jit_loops
def add_scaled(row, factor, other):
    """Add factor · other to the row."""
    for s in range(row.size):
        row[s] += factor * other[s]


@jit_sums
def times_slope(by, u):
    """Multiply by u (1 − u); returns the sum."""
    one, total = u.dtype.type(1.0), u.dtype.type(0.0)
    for s in range(u.size):
        by[s] *= u[s] * (one - u[s])
        total += by[s]
    return total


@jit
def walk_down(weights, bias, spread, noise, u, means):
    """Outputs u (H, S) of units whose noise is given, the first on top, and the means (D, S) of the observed nodes."""
    n_hidden = noise.shape[0]
    a = np.empty_like(noise[0])
    for j in range(n_hidden + means.shape[0]):
        row = a if j < n_hidden else means[j - n_hidden]
        row[:] = bias[j]
        for k in range(min(j, n_hidden)):
            add_scaled(row, weights[j, k], u[k])
        if j < n_hidden:
            add_scaled(row, spread[j], noise[j])
            outputs(row, u[j])


@jit
def below(logs, point, seen, means, rho):
    """Fill the logs with −½ Σ ρ (x − means)² over what is seen of a point."""
    logs[:] = 0.0
    for d in range(point.size):
        if seen[d]:
            subtract_square(logs, point[d], means[d], point.dtype.type(0.5) * rho[d])


@jit
def explained(x, seen, means, log_rho, scale, pull, square):
    """Add to `pull` and `square` what each point x_t, in proportion to its density, asks of each walk.

    Shares r_ts ∝ N(x_t; mean of walk s, 1/ρ), scaled to sum to `scale`: pull_ds = Σ_t r_ts (x_td − mean_ds), square_d
    = Σ_ts r_ts (x_td − mean_ds)². Returns the mean over points of the log density without its log 2π.
    """
    n, (n_observed, n_walks) = x.shape[0], means.shape
    rho, value = np.exp(log_rho), 0.0
    shares, zero = np.empty_like(means[0]), x.dtype.type(0.0)
    for t in range(n):
        below(shares, x[t], seen[t], means, rho)
        total = exponentials(shares, zero)
        if total < LEAST_TOTAL:  # no walk is near: once more, relative to the nearest
            below(shares, x[t], seen[t], means, rho)
            nearest = largest(shares)
            total = exponentials(shares, nearest)
            value += nearest
        value += math.log(total / n_walks)
        for d in range(n_observed):
            if seen[t, d]:
                value += 0.5 * log_rho[d]
                square[d] += add_pull(pull[d], shares, x[t, d], means[d], scale / total)
    return value / n


@jit
def gradient_through_walks(weights, bias, log_rho, noise, x, seen, scale):
    """Gradient of scale · Σ_t log p̂(x_t) for weights (H + D, H), biases and log precisions; and the mean log p̂(x_t).

    The density p̂ is the mean over walks of N(x; mean of the walk, 1/ρ).
    """
    n_hidden, n_walks = noise.shape
    n_observed = x.shape[1]
    u, means = np.empty_like(noise), np.empty_like(noise[:1].repeat(n_observed).reshape(n_observed, n_walks))
    spread = np.exp(log_rho * x.dtype.type(-0.5))
    walk_down(weights, bias, spread, noise, u, means)
    pull, square = np.zeros_like(means), np.zeros_like(bias[:n_observed])
    value = explained(x, seen, means, log_rho[n_hidden:], scale, pull, square)
    by_weights, by_bias, by_log_rho, by_u = (
        np.zeros_like(weights),
        np.zeros_like(bias),
        np.zeros_like(bias),
        np.zeros_like(u),
    )
    half = x.dtype.type(0.5)
    for j in range(n_hidden + n_observed - 1, -1, -1):
        if j < n_hidden:
            by_a = by_u[j]
            by_bias[j] = times_slope(by_a, u[j])
            by_log_rho[j] = -half * spread[j] * inner(by_a, noise[j])
        else:
            d = j - n_hidden
            by_a = pull[d]
            by_a *= np.exp(log_rho[j])
            by_bias[j] = by_a.sum()
            by_log_rho[j] = half * scale * seen[:, d].sum() - half * np.exp(log_rho[j]) * square[d]
        for k in range(min(j, n_hidden)):
            by_weights[j, k] = inner(by_a, u[k])
            add_scaled(by_u[k], weights[j, k], by_a)
    return by_weights, by_bias, by_log_rho, value
