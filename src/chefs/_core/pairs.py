"""Activations of two hidden units at once, k → h, given the children that they have in common."""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.births import MOST_CELLS, between_cuts, cells_of, given_children, log_normal, outputs_at
from chefs._core.jit import jit
from chefs._core.network import sigmoid


class Pair(NamedTuple):
    """Units k → h without other parents."""

    bias_h: float
    log_rho_h: float
    bias_k: float
    log_rho_k: float
    weight: float  # of the edge between them


class Form(NamedTuple):
    """The log density of children as a quadratic form of two outputs, for each point.

    pull_h u_h + pull_k u_k − ½ (hh u_h² + 2 hk u_h u_k + kk u_k²).
    """

    pull_h: np.ndarray
    pull_k: np.ndarray
    hh: np.ndarray
    hk: np.ndarray
    kk: np.ndarray


@jit
def pair_given_children(rng, pair, form, a_h, a_k, drawing):
    """Draw (or, where not `drawing`, score) the activations of a pair, given the `form` f of its children.

    k is drawn from a density in which h is integrated out, then h given k, as in `given_children`. Returns Σ_t log
    [p(a_h, a_k) exp(f) / q(a_h, a_k)]; −∞ where they cannot be drawn, or would need too many cells.
    """
    rho_h, rho_k = math.exp(pair.log_rho_h), math.exp(pair.log_rho_k)
    scale = math.sqrt(form.hh.max())
    cuts = cells_of(pair.bias_k, rho_k, math.sqrt(form.kk.max()) + 0.25 * abs(pair.weight) * scale)
    if cuts.size == 0:
        return -math.inf
    u = outputs_at(cuts, pair.bias_k, rho_k)
    begin = np.zeros(cuts.size + 1, dtype=np.int64)
    inner, inner_u = np.empty(0), np.empty(0)
    for j in range(cuts.size):
        bias = pair.bias_h + pair.weight * u[j]
        some = cells_of(bias, rho_h, 0.4 * scale)[::2]  # coarse cells are enough for an integral
        if some.size == 0 or begin[j] > MOST_CELLS * 40:
            return -math.inf
        inner = np.append(inner, some)
        inner_u = np.append(inner_u, outputs_at(some, bias, rho_h))
        begin[j + 1] = inner.size
    height, own, total = np.empty(cuts.size), np.empty(1), 0.0
    for t in range(a_h.size):
        for j in range(cuts.size):
            part = slice(begin[j], begin[j + 1])
            height[j] = -0.5 * cuts[j] * cuts[j] + (form.pull_k[t] - 0.5 * form.kk[t] * u[j]) * u[j]
            height[j] += log_integral(inner[part], inner_u[part], form.pull_h[t] - form.hk[t] * u[j], form.hh[t])
        z, log_q = between_cuts(rng, cuts, height, (a_k[t] - pair.bias_k) * math.sqrt(rho_k), drawing)
        if log_q == -math.inf:
            return -math.inf
        if drawing:
            a_k[t] = pair.bias_k + z / math.sqrt(rho_k)
        out = sigmoid(a_k[t])
        total += log_normal(z) + (form.pull_k[t] - 0.5 * form.kk[t] * out) * out - log_q
        own[0] = a_h[t]
        pull, stiffness = np.array([form.pull_h[t] - form.hk[t] * out]), np.array([form.hh[t]])
        total += given_children(rng, pair.bias_h + pair.weight * out, rho_h, pull, stiffness, own, drawing)
        if total == -math.inf:
            return -math.inf
        a_h[t] = own[0]
    return total


@jit
def log_integral(cuts, u, pull, stiffness):
    """Log ∫ exp(−½ z² + pull u − ½ stiffness u²) dz by trapezia."""
    highest = -math.inf
    for i in range(cuts.size):
        highest = max(highest, -0.5 * cuts[i] * cuts[i] + (pull - 0.5 * stiffness * u[i]) * u[i])
    total, before = 0.0, 0.0
    for i in range(cuts.size):
        here = math.exp(-0.5 * cuts[i] * cuts[i] + (pull - 0.5 * stiffness * u[i]) * u[i] - highest)
        if i > 0:
            total += 0.5 * (cuts[i] - cuts[i - 1]) * (before + here)
        before = here
    return highest + math.log(total)
