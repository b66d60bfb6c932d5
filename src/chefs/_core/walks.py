"""Walks down a network with given weights: densities of points, and what is hidden or missing given what is seen.

A walk draws every node that is not seen, a = mean + noise/√ρ, and multiplies the densities of those that are seen: the
mean of that weight over walks is unbiased for p(seen | network). All noise comes from the caller, so that every point
meets the same walks: a density does not depend on which other points are scored with it, and integrates to one.
"""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit
from chefs._core.network import sigmoid

N_LEAPFROGS = 3
SMALLEST_STEP = 0.1  # of a trajectory, in units of the expected scale; the largest is 1


class Network(NamedTuple):
    """One network with its weights; nodes 0 … n_observed−1 are observed."""

    sequence: np.ndarray  # int (n,): the nodes, parents before their children
    n_apart: int  # how many come first that never depend on what is observed
    start: np.ndarray  # int (n+1,): the parents of node i are parent[start[i]:start[i+1]]
    parent: np.ndarray  # int (edges,)
    weight: np.ndarray  # float (edges,)
    bias: np.ndarray  # float (n,)
    rho: np.ndarray  # float (n,)
    sd: np.ndarray  # float (n,): 1/√ρ
    log_height: np.ndarray  # float (n,): of the density at its mean, ½ log(ρ/2π)
    feeds: np.ndarray  # bool (n,): whether a node has children
    n_observed: int


class Place(NamedTuple):
    """Where a walk has come to, in arrays that are used again and again."""

    seen: np.ndarray  # bool (n,)
    mean: np.ndarray  # float (n,): of a given the parents
    a: np.ndarray  # float (n,)
    u: np.ndarray  # float (n,)


def network_of(order, parent, child, weight, bias, rho, n_observed):
    """A network from the flat arrays of a draw."""
    n = order.size
    down = np.argsort(-order, kind="stable")
    apart = not ((parent < n_observed) & (child >= n_observed)).any()
    if apart:  # hidden nodes can be drawn before any observed one
        down = np.concatenate([down[down >= n_observed], down[down < n_observed]])
    by_child = np.argsort(child, kind="stable")
    start = np.searchsorted(child[by_child], np.arange(n + 1)).astype(np.int64)
    flat = parent[by_child].astype(np.int64), weight[by_child].astype(np.float64)
    feeds = np.bincount(parent, minlength=n) > 0
    bias, rho = bias.copy(), rho.copy()  # draws may be read-only, for which the kernels would be compiled once more
    numbers = bias, rho, rho**-0.5, 0.5 * np.log(rho / (2.0 * np.pi))
    return Network(down.astype(np.int64), (n - n_observed) * apart, start, *flat, *numbers, feeds, n_observed)


@jit
def new_place(net):
    """Room for a walk."""
    n = net.sequence.size
    return Place(np.zeros(n, dtype=np.bool_), np.empty(n), np.empty(n), np.zeros(n))


@jit
def walk(net, place, rows, noise, log_weights):
    """One walk for every row: Σ log N(a_i; mean_i, 1/ρ_i) over the entries that are not nan. Ends at the last row.

    What does not depend on the observed is walked once for all rows.
    """
    for t in range(rows.shape[0]):
        total = 0.0
        for p in range(0 if t == 0 else net.n_apart, net.sequence.size):
            i = net.sequence[p]
            mean = net.bias[i]
            for e in range(net.start[i], net.start[i + 1]):
                mean += net.weight[e] * place.u[net.parent[e]]
            a = rows[t, i] if i < net.n_observed else math.nan
            place.mean[i] = mean
            place.seen[i] = not math.isnan(a)
            if place.seen[i]:
                total += net.log_height[i] - 0.5 * net.rho[i] * (a - mean) ** 2
            else:
                a = mean + net.sd[i] * noise[i]
            place.a[i] = a
            if net.feeds[i]:
                place.u[i] = sigmoid(a)
        log_weights[t] = total


@jit
def log_likelihood_of(net, place, row, noise):
    """The log-weight of a walk for one row, (1, columns)."""
    log_weight = np.empty(1)
    walk(net, place, row, noise, log_weight)
    return log_weight[0]


@jit
def log_mean_weights(net, points, noise):
    """Log of the mean weight of each point over walks with these noises (walks, n)."""
    n_points = points.shape[0]
    top, total, log_weights = np.full(n_points, -math.inf), np.zeros(n_points), np.empty(n_points)
    place = new_place(net)
    for s in range(noise.shape[0]):
        walk(net, place, points, noise[s], log_weights)
        for t in range(n_points):
            if log_weights[t] > top[t]:
                total[t] = total[t] * math.exp(top[t] - log_weights[t]) + 1.0
                top[t] = log_weights[t]
            elif log_weights[t] > -math.inf:
                total[t] += math.exp(log_weights[t] - top[t])
    for t in range(n_points):
        top[t] += math.log(total[t] / noise.shape[0]) if total[t] > 0.0 else 0.0
    return top


@jit
def slope(net, place):
    """∂ log-likelihood / ∂ noise of every node that is not seen, at the end of a walk: from the bottom up."""
    n = net.sequence.size
    pull, slopes = np.zeros(n), np.zeros(n)  # pull: the derivative by u
    for p in range(n - 1, -1, -1):
        i = net.sequence[p]
        if place.seen[i]:
            push = net.rho[i] * (place.a[i] - place.mean[i])  # the derivative by the mean
        else:
            push = pull[i] * place.u[i] * (1.0 - place.u[i])
            slopes[i] = push * net.sd[i]
        for e in range(net.start[i], net.start[i + 1]):
            pull[net.parent[e]] += net.weight[e] * push
    return slopes


@jit
def stiffness(net, place):
    """A rough curvature of the log-likelihood along the noise of each node: depends on what is seen, not on the walk.

    K_i = ρ_i where i is seen, else E[u'²] Σ_c W_c² K_c with E[u'²] ≈ 1/(16 (1 + sd)); along the noise it is K_i/ρ_i.
    """
    n = net.sequence.size
    below, stiff = np.zeros(n), np.zeros(n)
    for p in range(n - 1, -1, -1):
        i = net.sequence[p]
        if place.seen[i]:
            here = net.rho[i]
        else:
            here = below[i] / (16.0 * (1.0 + net.sd[i]))
            stiff[i] = here / net.rho[i]
        for e in range(net.start[i], net.start[i + 1]):
            below[net.parent[e]] += net.weight[e] ** 2 * here
    return stiff


@jit
def trajectory(net, place, row, noise, log_likelihood, power, kick, chance):
    """A Hamiltonian move of the noise under N(0, I) · likelihood^power. Returns the log-likelihood at its end.

    Ratio: exp(−ΔH), H = ½ noise² − power · log-likelihood + ½ pᵀ M⁻¹ p, M = 1 + power · stiffness. `kick` is N(0, I),
    `chance` two uniforms: for the step size and for the acceptance.
    """
    log_likelihood_of(net, place, row, noise)
    mass = 1.0 + power * stiffness(net, place)
    step = SMALLEST_STEP ** chance[0]
    momentum, new = kick * np.sqrt(mass), noise.copy()
    energy = power * log_likelihood - 0.5 * np.dot(noise, noise) - 0.5 * np.dot(kick, kick)
    reached = log_likelihood
    for _ in range(N_LEAPFROGS):
        momentum += 0.5 * step * (power * slope(net, place) - new)
        new += step * momentum / mass
        reached = log_likelihood_of(net, place, row, new)
        momentum += 0.5 * step * (power * slope(net, place) - new)
    end = power * reached - 0.5 * np.dot(new, new) - 0.5 * np.dot(momentum, momentum / mass)
    if math.log(1.0 - chance[1]) < end - energy:
        noise[:] = new
        return reached
    return log_likelihood


@jit
def redraw(net, place, row, noise, log_likelihood, power, fresh, chance):
    """The noise of one node drawn afresh, as for a unit that selects. Ratio: (likelihood ratio)^power."""
    node = min(int(chance[0] * noise.size), noise.size - 1)
    old = noise[node]
    noise[node] = fresh
    reached = log_likelihood_of(net, place, row, noise)
    if math.log(1.0 - chance[1]) < power * (reached - log_likelihood):
        return reached
    noise[node] = old
    return log_likelihood


@jit
def anneal(net, place, row, powers, noise, chance):
    """Annealed importance sampling of a row, (1, columns): from a free walk to walks that meet what is seen.

    Returns log w = Σ_j (β_j+1 − β_j) log L(noise_j), with moves under N(0, I) L^β_j between; `powers` 0 = β_0 < … < β_T
    = 1. With T = 1 it is a plain walk. `noise` is (T, n + 1), `chance` (T, 4); `place` ends at a walk of that weight.
    """
    at = noise[0, :-1].copy()
    log_likelihood = log_likelihood_of(net, place, row, at)
    total = 0.0
    for j in range(1, powers.size):
        total += (powers[j] - powers[j - 1]) * log_likelihood
        if j < powers.size - 1:
            kick, luck = noise[j], chance[j]
            log_likelihood = trajectory(net, place, row, at, log_likelihood, powers[j], kick[:-1], luck[:2])
            log_likelihood = redraw(net, place, row, at, log_likelihood, powers[j], kick[-1], luck[2:])
    log_likelihood_of(net, place, row, at)
    return total


@jit
def given(net, points, powers, noise, chance, luck):
    """For each point several annealed walks: their log mean weight, one of them drawn by weight, and their mean output.

    `noise` is (runs, T, n + 1), `chance` (runs, T, 4), `luck` (points, runs): all points meet the same walks.
    """
    n_points, n_runs, n = points.shape[0], noise.shape[0], net.sequence.size
    log_mean, drawn, outputs = np.empty(n_points), np.empty((n_points, n)), np.zeros((n_points, n))
    log_weights, ends = np.empty(n_runs), np.empty((n_runs, n))
    place = new_place(net)
    for t in range(n_points):
        for r in range(n_runs):
            log_weights[r] = anneal(net, place, points[t : t + 1], powers, noise[r], chance[r])
            ends[r] = place.a
        top = log_weights.max()
        total, chosen = 0.0, 0
        for r in range(n_runs):
            weight = math.exp(log_weights[r] - top) if top > -math.inf else 1.0
            total += weight
            if luck[t, r] * total < weight:  # each is kept with its share of the weight so far
                chosen = r
            for i in range(n):
                outputs[t, i] += weight * sigmoid(ends[r, i])
        log_mean[t] = top + math.log(total / n_runs)
        drawn[t] = ends[chosen]
        outputs[t] /= total
    return log_mean, drawn, outputs


@jit
def given_afresh(rng, net, points, powers, n_runs):
    """`given` with walks of its own for each point, so that what is drawn for different points is independent."""
    n_points, n_steps, n = points.shape[0], powers.size - 1, net.sequence.size
    log_mean, drawn, outputs = np.empty(n_points), np.empty((n_points, n)), np.zeros((n_points, n))
    for t in range(n_points):
        noise, chance = rng.standard_normal((n_runs, n_steps, n + 1)), rng.random((n_runs, n_steps, 4))
        luck = rng.random((1, n_runs))
        log_mean[t : t + 1], drawn[t : t + 1], outputs[t : t + 1] = given(
            net, points[t : t + 1], powers, noise, chance, luck
        )
    return log_mean, drawn, outputs
