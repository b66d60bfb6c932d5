"""Walks down a network with given weights, which estimate the density of points.

A walk draws every node that is not seen, a = mean + noise/√ρ, and multiplies the densities of those that are seen: the
mean of that weight over walks is unbiased for p(seen | network). All noise comes from the caller, so that every point
meets the same walks: a density does not depend on which other points are scored with it, and integrates to one.
"""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit
from chefs._core.network import sigmoid


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
    return Place(np.empty(n), np.zeros(n))


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
            if math.isnan(a):
                a = mean + net.sd[i] * noise[i]
            else:
                total += net.log_height[i] - 0.5 * net.rho[i] * (a - mean) ** 2
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
