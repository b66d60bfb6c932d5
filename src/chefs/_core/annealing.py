"""Annealed walks down a network: densities in many dimensions, and what is hidden or missing given what is seen.

A plain walk (`walks`) seldom passes near a point of many dimensions. Here its noise is moved, temperature by
temperature, from the prior to the posterior given what is seen. Points go down the network in blocks, a row of a block
for each node: sums over parents are sums of rows, which are vectorised. A point meets the same walks in any block.
"""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.fitting import add_scaled
from chefs._core.jit import jit, jit_loops
from chefs._core.network import sigmoid_into

N_LEAPFROGS = 3
SMALLEST_STEP = 0.1  # of a trajectory, in units of the expected scale; the largest is 1
BLOCK = 64  # points


class Block(NamedTuple):
    """Where the walks of B points have come to."""

    seen: np.ndarray  # bool (n, B)
    value: np.ndarray  # float (n, B): what is seen, 0 elsewhere
    mean: np.ndarray  # float (n, B): of a given the parents
    a: np.ndarray  # float (n, B)
    u: np.ndarray  # float (n, B)
    log_likelihood: np.ndarray  # float (B,)


@jit
def block_of(net, points):
    """Room for the walks of some points (B, columns), nan where they are not seen."""
    shape = (net.sequence.size, points.shape[0])
    seen, value = np.zeros(shape, dtype=np.bool_), np.zeros(shape)
    for i in range(net.n_observed):
        for t in range(points.shape[0]):
            seen[i, t] = not math.isnan(points[t, i])
            value[i, t] = points[t, i] if seen[i, t] else 0.0
    return Block(seen, value, np.empty(shape), np.empty(shape), np.zeros(shape), np.empty(points.shape[0]))


@jit_loops
def settle(seen, value, mean, noise, rho, log_height, a, log_likelihood):
    """A node of all points: what is seen adds log N(a; mean, 1/ρ) to the log-likelihood, all else is drawn."""
    sd = 1.0 / math.sqrt(rho)
    for t in range(a.size):
        e = value[t] - mean[t]
        log_likelihood[t] += log_height - 0.5 * rho * e * e if seen[t] else 0.0
        a[t] = value[t] if seen[t] else mean[t] + sd * noise[t]


@jit
def walk_down(net, block, noise):
    """Walk every point of the block down the network with its noise (n, B)."""
    block.log_likelihood[:] = 0.0
    for p in range(net.sequence.size):
        i = net.sequence[p]
        mean = block.mean[i]
        mean[:] = net.bias[i]
        for e in range(net.start[i], net.start[i + 1]):
            add_scaled(mean, net.weight[e], block.u[net.parent[e]])
        height = net.log_height[i]
        settle(block.seen[i], block.value[i], mean, noise[i], net.rho[i], height, block.a[i], block.log_likelihood)
        if net.feeds[i]:
            sigmoid_into(block.a[i], block.u[i])


@jit_loops
def pushes(seen, a, mean, u, pull, rho, push, slope):
    """Derivatives of the log-likelihood by the means of a node, and by its noise where it is not seen."""
    sd = 1.0 / math.sqrt(rho)
    for t in range(a.size):
        push[t] = rho * (a[t] - mean[t]) if seen[t] else pull[t] * u[t] * (1.0 - u[t])
        slope[t] = 0.0 if seen[t] else push[t] * sd


@jit
def slope_of(net, block):
    """(n, B): ∂ log-likelihood / ∂ noise of every node that is not seen, at the end of a walk: from the bottom up."""
    pull, slopes, push = np.zeros(block.a.shape), np.empty(block.a.shape), np.empty(block.a.shape[1])
    for p in range(net.sequence.size - 1, -1, -1):
        i = net.sequence[p]
        pushes(block.seen[i], block.a[i], block.mean[i], block.u[i], pull[i], net.rho[i], push, slopes[i])
        for e in range(net.start[i], net.start[i + 1]):
            add_scaled(pull[net.parent[e]], net.weight[e], push)
    return slopes


@jit
def stiffness(net, block):
    """(n, B): a rough curvature of the log-likelihood along the noise: depends on what is seen, not on the walk.

    K_i = ρ_i where i is seen, else E[u'²] Σ_c W_c² K_c with E[u'²] ≈ 1/(16 (1 + sd)); along the noise it is K_i/ρ_i.
    """
    below, stiff = np.zeros(block.a.shape), np.zeros(block.a.shape)
    for p in range(net.sequence.size - 1, -1, -1):
        i = net.sequence[p]
        here = np.where(block.seen[i], net.rho[i], below[i] / (16.0 * (1.0 + net.sd[i])))
        stiff[i] = np.where(block.seen[i], 0.0, here / net.rho[i])
        for e in range(net.start[i], net.start[i + 1]):
            add_scaled(below[net.parent[e]], net.weight[e] ** 2, here)
    return stiff


@jit
def squares(x):
    """(B,): Σ x² over the rows."""
    return (x * x).sum(axis=0)


@jit
def trajectory(net, block, mass, noise, log_likelihood, power, kick, chance):
    """A Hamiltonian move of the noise of each point under N(0, I) · likelihood^power.

    Ratio: exp(−ΔH), H = ½ noise² − power · log-likelihood + ½ pᵀ M⁻¹ p, M = 1 + power · stiffness. `kick` is N(0, I),
    `chance` two uniforms: for the step size and for the acceptance; one column for all points, or one for each.
    """
    walk_down(net, block, noise)
    step = SMALLEST_STEP ** chance[0]
    momentum, new = kick * np.sqrt(mass), noise.copy()
    energy = power * log_likelihood - 0.5 * squares(noise) - 0.5 * squares(kick)
    slopes = slope_of(net, block)
    for _ in range(N_LEAPFROGS):
        momentum += 0.5 * step * (power * slopes - new)
        new += step * momentum / mass
        walk_down(net, block, new)
        slopes = slope_of(net, block)
        momentum += 0.5 * step * (power * slopes - new)
    end = power * block.log_likelihood - 0.5 * squares(new) - 0.5 * squares(momentum / np.sqrt(mass))
    accepted = np.log(1.0 - chance[1]) < end - energy
    for t in range(accepted.size):
        if accepted[t]:
            noise[:, t] = new[:, t]
            log_likelihood[t] = block.log_likelihood[t]


@jit
def redraw(net, block, noise, log_likelihood, power, fresh, chance):
    """The noise of one node of each point drawn afresh, as for a unit that selects. Ratio: (likelihood ratio)^power."""
    n, n_points = noise.shape
    new = noise.copy()
    for t in range(n_points):
        own = t % fresh.size
        new[min(int(chance[0, own] * n), n - 1), t] = fresh[own]
    walk_down(net, block, new)
    accepted = np.log(1.0 - chance[1]) < power * (block.log_likelihood - log_likelihood)
    for t in range(n_points):
        if accepted[t]:
            noise[:, t] = new[:, t]
            log_likelihood[t] = block.log_likelihood[t]


@jit
def anneal(net, block, powers, noise, chance):
    """Annealed importance sampling of every point: from a free walk to walks that meet what is seen.

    Returns log w = Σ_j (β_j+1 − β_j) log L(noise_j), with moves under N(0, I) L^β_j between; `powers` 0 = β_0 < … < β_T
    = 1. With T = 1 it is a plain walk. `noise` is (T, n + 1, 1) for one walk that all points share, or (T, n + 1, B),
    `chance` (T, 4, 1) or (T, 4, B); the block ends at walks of that weight.
    """
    stiff = stiffness(net, block)
    at = np.zeros(stiff.shape) + noise[0, :-1]
    walk_down(net, block, at)
    log_likelihood, total = block.log_likelihood.copy(), np.zeros_like(block.log_likelihood)
    for j in range(1, powers.size):
        total += (powers[j] - powers[j - 1]) * log_likelihood
        if j < powers.size - 1:
            kick, luck, mass = noise[j], chance[j], 1.0 + powers[j] * stiff
            trajectory(net, block, mass, at, log_likelihood, powers[j], kick[:-1], luck[:2])
            redraw(net, block, at, log_likelihood, powers[j], kick[-1], luck[2:])
    walk_down(net, block, at)
    return total


@jit
def weighed(net, points, powers, noise, chance, luck):
    """For each point of a block the log mean weight of several walks, one of them drawn by weight, the mean output.

    `noise` is (runs, T, n + 1, 1 or B), `chance` (runs, T, 4, 1 or B), `luck` (B, runs).
    """
    n_points, n_runs, n = points.shape[0], noise.shape[0], net.sequence.size
    block = block_of(net, points)
    log_weights, ends = np.empty((n_runs, n_points)), np.empty((n_runs, n, n_points))
    for r in range(n_runs):
        log_weights[r] = anneal(net, block, powers, noise[r], chance[r])
        ends[r] = block.a
    log_mean, drawn, outputs = np.empty(n_points), np.empty((n_points, n)), np.zeros((n_points, n))
    u = np.empty(n)
    for t in range(n_points):
        top = log_weights[:, t].max()
        total, chosen = 0.0, 0
        for r in range(n_runs):
            weight = math.exp(log_weights[r, t] - top) if top > -math.inf else 1.0
            total += weight
            if luck[t, r] * total < weight:  # each is kept with its share of the weight so far
                chosen = r
            sigmoid_into(ends[r, :, t], u)
            outputs[t] += weight * u
        log_mean[t] = top + math.log(total / n_runs)
        drawn[t] = ends[chosen, :, t]
        outputs[t] /= total
    return log_mean, drawn, outputs


@jit
def given(net, points, powers, noise, chance, luck):
    """`weighed` for any number of points, which all meet the same walks.

    `noise` is (runs, T, n + 1, 1), `chance` (runs, T, 4, 1), `luck` (points, runs).
    """
    n_points, n = points.shape[0], net.sequence.size
    log_mean, drawn, outputs = np.empty(n_points), np.empty((n_points, n)), np.empty((n_points, n))
    for begin in range(0, n_points, BLOCK):
        part = slice(begin, begin + BLOCK)
        log_mean[part], drawn[part], outputs[part] = weighed(net, points[part], powers, noise, chance, luck[part])
    return log_mean, drawn, outputs


@jit
def given_afresh(rng, net, points, powers, n_runs):
    """`weighed` with walks of its own for each point, so that what is drawn for different points is independent."""
    n_points, n_steps, n = points.shape[0], powers.size - 1, net.sequence.size
    log_mean, drawn, outputs = np.empty(n_points), np.empty((n_points, n)), np.empty((n_points, n))
    for begin in range(0, n_points, BLOCK):
        part = slice(begin, begin + BLOCK)
        size = min(BLOCK, n_points - begin)
        noise, chance = rng.standard_normal((n_runs, n_steps, n + 1, size)), rng.random((n_runs, n_steps, 4, size))
        luck = rng.random((size, n_runs))
        log_mean[part], drawn[part], outputs[part] = weighed(net, points[part], powers, noise, chance, luck)
    return log_mean, drawn, outputs
