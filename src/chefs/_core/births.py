"""Births and deaths of hidden units, with moments matched and the new activations drawn given the data."""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit
from chefs._core.network import (
    MOST_RHO,
    draw_rho,
    draw_weights,
    log_rho_prior,
    network_with_room,
    newborn_log_mass,
    residuals,
    rows_of_parents,
    sigmoid,
    weights_of_entries,
)
from chefs._core.propose import apply
from chefs._core.state import N_ACTIVE

MOST_CELLS = 600
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Unit(NamedTuple):
    """A hidden unit without parents, and what it does to its one child."""

    bias: float
    rho: float
    weight: float  # of the edge to the child
    mean: float  # of its output
    variance: float


@jit
def unit(bias, rho, weight):
    """The unit with its moments: a fixed rule of 41 points, so that birth and death compute the same numbers."""
    mean = square = total = 0.0
    for j in range(41):
        z = -4.0 + 0.2 * j
        p = math.exp(-0.5 * z * z)
        u = sigmoid(bias + z / math.sqrt(rho))
        total += p
        mean += p * u
        square += p * u * u
    mean /= total
    return Unit(bias, rho, weight, mean, max(square / total - mean * mean, 0.0))


@jit
def cells_of(new, scale):
    """Cuts of the standardised activation: fine enough for its density and for what the child makes of it.

    `scale` is the height of the unit's step in standard deviations of its child. At most `MOST_CELLS`; an empty
    array says that more would be needed.
    """
    cuts = np.empty(MOST_CELLS + 1)
    cuts[0] = -6.0
    n = 0
    while cuts[n] < 6.0:
        step = 0.25
        here = sigmoid(new.bias + cuts[n] / math.sqrt(new.rho))
        while scale * (sigmoid(new.bias + (cuts[n] + step) / math.sqrt(new.rho)) - here) > 0.3:
            step *= 0.5
        if n == MOST_CELLS:
            return np.empty(0)
        n += 1
        cuts[n] = cuts[n - 1] + step
    return cuts[: n + 1].copy()


@jit
def outputs_at(cuts, new):
    """Outputs of the unit at cuts of its standardised activation."""
    u = np.empty(cuts.size)
    for j in range(cuts.size):
        u[j] = sigmoid(new.bias + cuts[j] / math.sqrt(new.rho))
    return u


@jit
def activations(rng, new, child_rho, residual, counts, a, drawing):
    """Draw (or, where not `drawing`, score) the activations of a new unit given the residuals e of its child.

    Each point has its own density q, linear between cuts, proportional there to p(a) p(child | a)^c, where c is what
    the entry of the child `counts` and log p(child | a) = ½ log ρ − ½ ρ (e − w (u − E[u]))². It must be accurate: one
    that is flat between cuts loses 5 to 13 nats with 2000 points, and few births are left. Returns Σ_t log [p(a_t)
    p(child_t | a_t)^c / q_t(a_t)]; −∞ where they cannot be drawn: outside all cells, or where more are needed than
    there may be.
    """
    w = new.weight
    aim = residual + w * new.mean  # what w u should be
    pull, stiffness = child_rho * w * counts * aim, child_rho * w * w * counts
    cuts = cells_of(new, math.sqrt(stiffness.max()))
    if cuts.size == 0:
        return -math.inf
    u, height = outputs_at(cuts, new), np.empty(cuts.size)
    total = 0.5 * counts.sum() * math.log(child_rho) - 0.5 * child_rho * np.dot(counts * aim, aim)
    for t in range(pull.size):
        for j in range(cuts.size):
            height[j] = -0.5 * cuts[j] * cuts[j] + (pull[t] - 0.5 * stiffness[t] * u[j]) * u[j]
        z, log_q = between_cuts(rng, cuts, height, (a[t] - new.bias) * math.sqrt(new.rho), drawing)
        if log_q == -math.inf:
            return -math.inf
        if drawing:
            a[t] = new.bias + z / math.sqrt(new.rho)
        out = sigmoid(a[t])
        total += -0.5 * z * z - HALF_LOG_2PI + (pull[t] - 0.5 * stiffness[t] * out) * out - log_q
    return total


@jit
def between_cuts(rng, cuts, height, z, drawing):
    """A draw (or `z`, where not `drawing`) and its log density, which is linear between cuts.

    `height` holds the log of the density at the cuts, up to a constant, and is overwritten. The log density is −∞
    outside all cells, and where all is 0.
    """
    last, highest, mass = cuts.size - 2, height.max(), 0.0
    height[0] = math.exp(height[0] - highest)
    for j in range(1, cuts.size):
        height[j] = math.exp(height[j] - highest)
        mass += 0.5 * (cuts[j] - cuts[j - 1]) * (height[j - 1] + height[j])
    if drawing:
        z, j = drawn_between(rng, cuts, height, mass)
    else:
        if not cuts[0] <= z < cuts[last + 1]:
            return z, -math.inf
        j = np.searchsorted(cuts, z, side="right") - 1
    here = height[j] + (height[j + 1] - height[j]) * (z - cuts[j]) / (cuts[j + 1] - cuts[j])
    return z, (math.log(here / mass) if here > 0.0 else -math.inf)


@jit
def drawn_between(rng, cuts, height, mass):
    """A point of the density that is linear between cuts, and the cell that it lies in."""
    left, j, last = rng.random() * mass, 0, cuts.size - 2
    while j < last:
        here = 0.5 * (cuts[j + 1] - cuts[j]) * (height[j] + height[j + 1])
        if left < here:
            break
        left -= here
        j += 1
    low, high, share = height[j], height[j + 1], rng.random()
    root = math.sqrt(low * low + share * (high * high - low * low))
    within = share * (low + high) / (low + root) if low + root > 0.0 else share
    return min(cuts[j] + (cuts[j + 1] - cuts[j]) * within, math.nextafter(cuts[j + 1], -math.inf)), j


@jit
def with_unit(rng, state, proposal, a, rho):
    """The state, which may have grown, after a birth: a unit with these activations and this precision."""
    state = network_with_room(state)
    k = state.graph.size[N_ACTIVE]
    apply(state.graph, proposal)
    state.a[k] = a
    state.rho[k] = rho
    state.log_mass[k] = newborn_log_mass(rng)
    return state


@jit
def remove_unit(state, proposal):
    """A death: the last node takes the number of the unit that dies."""
    k, last = proposal.other, state.graph.size[N_ACTIVE] - 1
    apply(state.graph, proposal)
    state.a[k] = state.a[last]
    state.rho[k] = state.rho[last]
    state.log_mass[k] = state.log_mass[last]


@jit
def log_matching(bias, new_bias, rho, new_rho):
    """Priors of the child's bias and precision, after over before, and the Jacobian (ρ'/ρ)² of the matching."""
    priors = 0.5 * (bias * bias - new_bias * new_bias) + log_rho_prior(new_rho) - log_rho_prior(rho)
    return priors + 2.0 * (math.log(new_rho) - math.log(rho))


@jit
def log_before(residual, counts, rho):
    """Log p(child | without the unit), its −½ N log 2π left out as in `activations`."""
    return 0.5 * counts.sum() * math.log(rho) - 0.5 * rho * np.dot(counts * residual, residual)


@jit
def try_birth(rng, state, gram, proposal):
    """A birth: weights of the child i are drawn, then w, b_k, ρ_k from the prior; the child's moments are kept.

    b_i' = b_i − w E[u_k], 1/ρ_i' = 1/ρ_i − w² Var[u_k]. Ratio: that of the graph · priors of b_i', ρ_i' over those of
    b_i, ρ_i · (ρ_i'/ρ_i)² · Π_t p(a_k) p(a_i | a_k) / (q(a_k) p(a_i)). Returns the state and whether it changed.
    """
    i = proposal.node
    rows = rows_of_parents(state.graph, i)
    weights = draw_weights(rng, gram, i, rows, state.rho[i])
    rho_k = draw_rho(rng)
    new = unit(rng.standard_normal(), rho_k, rng.standard_normal())
    left = 1.0 / state.rho[i] - new.weight * new.weight * new.variance
    if left * MOST_RHO <= 1.0:
        return state, False
    rho = 1.0 / left
    residual, counts = residuals(state, i, rows, weights), weights_of_entries(state, i)
    a = np.empty(residual.size)
    log_ratio = proposal.log_ratio + log_matching(weights[0], weights[0] - new.weight * new.mean, state.rho[i], rho)
    log_ratio += activations(rng, new, rho, residual, counts, a, True) - log_before(residual, counts, state.rho[i])
    if not math.log(1.0 - rng.random()) < log_ratio:
        return state, False
    state = with_unit(rng, state, proposal, a, rho_k)
    state.rho[i] = rho
    return state, True


@jit
def try_death(rng, state, gram, proposal):
    """A death: the reverse of a birth, with the sign of its log-ratio changed. Returns whether the state changed."""
    i, k = proposal.node, proposal.other
    rows = rows_of_parents(state.graph, i)
    weights = draw_weights(rng, gram, i, rows, state.rho[i])
    bias = draw_weights(rng, gram, k, rows_of_parents(state.graph, k), state.rho[k])[0]
    at = 1
    while rows[at] != k + 1:
        at += 1
    old = unit(bias, state.rho[k], weights[at])
    rho = 1.0 / (1.0 / state.rho[i] + old.weight * old.weight * old.variance)
    residual, counts = residuals(state, i, rows, weights), weights_of_entries(state, i)
    for t in range(residual.size):
        residual[t] += old.weight * (sigmoid(state.a[k, t]) - old.mean)
    log_ratio = proposal.log_ratio - log_matching(weights[0] + old.weight * old.mean, weights[0], rho, state.rho[i])
    score = activations(rng, old, state.rho[i], residual, counts, state.a[k], False)
    if score == -math.inf:
        return False  # what no birth can make no death may undo
    log_ratio -= score - log_before(residual, counts, rho)
    if not math.log(1.0 - rng.random()) < log_ratio:
        return False
    state.rho[i] = rho
    remove_unit(state, proposal)
    return True
