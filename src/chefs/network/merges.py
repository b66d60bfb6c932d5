"""Splits and merges: one hidden unit in the place of two that do its work together, and back.

Chains from an empty graph find pairs k → h with the same children, and with weights in nearly the same proportions,
where one unit would do; no edge, birth or death leads out of them. A merge takes k away and gives h other weights,
bias, precision and activations at once; a split is its reverse. Weights of the children are drawn first, and forgotten
after the move. Given them, the activations of all points are as good as integrated out on both sides (`given_children`,
`pair_given_children`), so that what is left to guess is a handful of numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import expit, logsumexp

from chefs._core.births import HALF_LOG_2PI, given_children
from chefs._core.density import log_prob_of_state
from chefs._core.network import (
    NEWBORN_LOG_MASS,
    RHO_RATE,
    RHO_SHAPE,
    Gram,
    NetworkState,
    draw_weights,
    gram_of,
    network_with_room,
    rows_of_parents,
    weights_of_entries,
)
from chefs._core.pairs import Form, Pair, pair_given_children
from chefs._core.state import (
    CHEFS,
    FAMILY,
    MAX_HIDDEN,
    N_ACTIVE,
    N_OBSERVED,
    GraphState,
    add_edge,
    copy,
    insert,
    remove,
    remove_edge,
)
from chefs.dag import FloatArray, IntArray

RATE = 0.2  # attempts a step: one that goes on to the points costs as much as several trajectories
SPLITS = 0.05  # share of splits among them: a merge costs nothing where there is no pair
FREEDOM = 5.0  # degrees, of the t distribution that a merged unit is drawn from
WIDER = 1.5  # times the variance that a regression gives to the numbers of the children
# How a split draws a pair, like those that are found: mean and standard deviation of the share of the weights that h
# takes; deviations of the multiple that k takes, of the shift of the children's biases, and of the noise of each; then
# the edge k → h, in the direction of k's weights, the bias of h about minus half of it, and log precisions.
SHARE, SHARE_SD, MULTIPLE_SD, SHIFT_SD, OWN_SD = 0.67, 0.15, 0.4, 0.1, 0.1
EDGE, EDGE_SD, BIAS_SD = 3.0, 2.5, 1.2
LOG_RHO_H, LOG_RHO_K, LOG_RHO_SD = -2.0, -2.5, 1.7
LOG_RHO_NORM = RHO_SHAPE * math.log(RHO_RATE) - math.lgamma(RHO_SHAPE)


class Unit(NamedTuple):
    """A hidden unit without parents."""

    bias: float
    log_rho: float


class Ties(NamedTuple):
    """The children of one unit or of a pair: their biases, their weights, and what they say point by point."""

    bias: FloatArray  # (C,)
    weight: FloatArray  # (C,): of the unit, or of h
    other: FloatArray  # (C,): of k
    left: FloatArray  # (C, N): their activations, less what all other parents do
    counts: FloatArray  # (C, N): precisions, times what the entries count

    @property
    def rest(self) -> float:
        """What the units have nothing to do with: −½ Σ ρ (left − b)²."""
        return -0.5 * float((self.counts * (self.left - self.bias[:, None]) ** 2).sum())

    @property
    def form(self) -> Form:
        """The rest of the children's log density."""
        left = self.counts * (self.left - self.bias[:, None])
        square = (self.weight**2, self.weight * self.other, self.other**2)
        return Form(self.weight @ left, self.other @ left, *(product @ self.counts for product in square))


class Guess(NamedTuple):
    """What a merge draws from: a t distribution of (bias, log ρ), and a Gaussian of the children's numbers given it."""

    at: FloatArray  # (4,): offset, log scale, bias, log ρ
    curve: FloatArray  # (4, 4): precision matrix
    fitted: FloatArray  # (C, 2): of a child where s = u_h + κ u_k is 0, and its slope
    covariance: FloatArray  # (C, 2, 2): of these


def merge_moves(rng: np.random.Generator, state: NetworkState, n_moves: int) -> tuple[NetworkState, int, int]:
    """Try splits and merges: the state, which may have grown, how many were tried, how many accepted.

    Only the ICP has them: under other priors a unit and its parent cannot have the same children.
    """
    n_accepted = 0
    for _ in range(n_moves):
        split, graph, changed = rng.random() < SPLITS, state.graph, False
        if graph.size[FAMILY] != CHEFS:
            continue
        if split:
            units = units_to_split(graph)
            if len(units) and graph.size[N_ACTIVE] - graph.size[N_OBSERVED] < graph.size[MAX_HIDDEN]:
                state, changed = try_split(rng, state, gram_of(state), int(rng.choice(units)))
        else:
            pairs = pairs_to_merge(graph)
            if pairs:
                changed = try_merge(rng, state, gram_of(state), *pairs[rng.integers(len(pairs))])
        n_accepted += changed
    return state, n_moves, n_accepted


def units_to_split(graph: GraphState) -> IntArray:
    """Hidden units without parents that have two children at least."""
    nodes = np.arange(graph.size[N_OBSERVED], graph.size[N_ACTIVE])
    return nodes[(graph.n_parents[nodes] == 0) & (graph.n_children[nodes] > 1)]


def pairs_to_merge(graph: GraphState) -> list[tuple[int, int]]:
    """All (h, k) such that k → h, neither has another parent, and they have the same other children, two at least."""
    n, found = graph.size[N_ACTIVE], []
    for h in range(graph.size[N_OBSERVED], n):
        if graph.n_parents[h] == 1 and graph.n_children[h] > 1:
            k = int(graph.parents[h, :n].argmax())
            alone = k >= graph.size[N_OBSERVED] and graph.n_parents[k] == 0
            same = graph.n_children[k] == graph.n_children[h] + 1 and graph.parents[:n, k][graph.parents[:n, h]].all()
            if alone and same:
                found.append((h, k))
    return found


def with_partner(graph: GraphState, m: int, height: float) -> None:
    """Add k above m with the same children, and with m for one; there must be room."""
    k = insert(graph, height)
    for c in [*children(graph, m), m]:
        add_edge(graph, k, c)


def without_partner(graph: GraphState, k: int) -> None:
    """Take k out, with its edges; the last node takes its number."""
    for c in children(graph, k):
        remove_edge(graph, k, c)
    remove(graph, k)


def children(graph: GraphState, k: int) -> IntArray:
    """The children of a node."""
    return np.flatnonzero(graph.parents[: graph.size[N_ACTIVE], k])


def try_split(rng: np.random.Generator, state: NetworkState, gram: Gram, m: int) -> tuple[NetworkState, bool]:
    """A split of m. Ratio: p(pair) q(pair → unit) / (p(unit) q(unit → pair)), p of graph, numbers and all points."""
    unit, ties = unit_of(rng, state, gram, m), ties_of(rng, state, gram, m)
    height = state.graph.order[m] + (1.0 - state.graph.order[m]) * rng.random()
    pair, new_ties = draw_pair(rng, ties)
    a_h, a_k = np.zeros((2, state.a.shape[1]))
    forth = pair_given_children(rng, pair, new_ties.form, a_h, a_k, True) + new_ties.rest
    back = unit_given_children(rng, unit, ties, state.a[m], False)
    if min(forth, back) == -math.inf:  # what no merge can make no split may undo
        return state, False
    state = network_with_room(state)
    graph = copy(state.graph)
    with_partner(graph, m, height)
    log_ratio = log_density(graph) - log_density(state.graph) + log_choice(state.graph, graph, m) + forth - back
    log_ratio += log_numbers_of_pair(pair, new_ties) - log_numbers_of_unit(unit, ties)
    log_ratio += log_draw_unit(guess_unit(new_ties, a_h, a_k), unit, ties) - log_draw_pair(ties, pair, new_ties)
    if not math.log(1.0 - rng.random()) < log_ratio:
        return state, False
    with_partner(state.graph, m, height)
    k = state.graph.size[N_ACTIVE] - 1
    state.a[m], state.a[k] = a_h, a_k
    state.rho[m], state.rho[k] = math.exp(pair.log_rho_h), math.exp(pair.log_rho_k)
    state.log_mass[k] = NEWBORN_LOG_MASS
    return state, True


def try_merge(rng: np.random.Generator, state: NetworkState, gram: Gram, h: int, k: int) -> bool:
    """A merge of h and k into h: the reverse of a split, with the sign of its log ratio changed."""
    pair, ties = pair_of(rng, state, gram, h, k), ties_of(rng, state, gram, h, k)
    guess = guess_unit(ties, state.a[h], state.a[k])
    unit, new_ties = draw_unit(rng, guess, ties)
    if not abs(unit.log_rho) < 40.0:
        return False
    a = np.zeros(state.a.shape[1])
    forth = unit_given_children(rng, unit, new_ties, a, True)
    back = pair_given_children(rng, pair, ties.form, state.a[h].copy(), state.a[k].copy(), False) + ties.rest
    if min(forth, back) == -math.inf:  # what no split can make no merge may undo
        return False
    graph = copy(state.graph)
    without_partner(graph, k)
    m = k if h == graph.size[N_ACTIVE] else h
    log_ratio = log_density(graph) - log_density(state.graph) - log_choice(graph, state.graph, m) + forth - back
    log_ratio += log_numbers_of_unit(unit, new_ties) - log_numbers_of_pair(pair, ties)
    log_ratio += log_draw_pair(new_ties, pair, ties) - log_draw_unit(guess, unit, new_ties)
    if not math.log(1.0 - rng.random()) < log_ratio:
        return False
    last = state.graph.size[N_ACTIVE] - 1
    without_partner(state.graph, k)
    state.a[k], state.rho[k], state.log_mass[k] = state.a[last], state.rho[last], state.log_mass[last]
    state.a[m], state.rho[m] = a, math.exp(unit.log_rho)
    return True


def log_choice(graph: GraphState, with_pair: GraphState, m: int) -> float:
    """Log probability of trying to merge back, over that of splitting m with that partner."""
    back = math.log((1.0 - SPLITS) / len(pairs_to_merge(with_pair)))
    return back - math.log(SPLITS / len(units_to_split(graph))) + math.log(1.0 - graph.order[m])


def log_density(graph: GraphState) -> float:
    """Log density of the graph under its own hyperparameters."""
    return log_prob_of_state(graph, *graph.hyper)


def unit_of(rng: np.random.Generator, state: NetworkState, gram: Gram, m: int) -> Unit:
    """A unit without parents; its bias is drawn."""
    return Unit(_weights(rng, state, gram, m)[0], math.log(state.rho[m]))


def pair_of(rng: np.random.Generator, state: NetworkState, gram: Gram, h: int, k: int) -> Pair:
    """A pair; its biases and the weight between are drawn."""
    bias_h, weight = _weights(rng, state, gram, h)
    bias_k, log_rho_k = unit_of(rng, state, gram, k)
    return Pair(bias_h, math.log(state.rho[h]), bias_k, log_rho_k, weight)


def _weights(rng: np.random.Generator, state: NetworkState, gram: Gram, i: int) -> FloatArray:
    return draw_weights(rng, gram, i, rows_of_parents(state.graph, i), state.rho[i])


def ties_of(rng: np.random.Generator, state: NetworkState, gram: Gram, h: int, k: int = -1) -> Ties:
    """The children of h, and of its partner k if there is one; their weights are drawn."""
    nodes = children(state.graph, h)
    bias, weight, other = np.zeros((3, len(nodes)))
    left, counts = np.empty((2, len(nodes), state.a.shape[1]))
    for x, c in enumerate(nodes):
        bias[x], *weights = _weights(rng, state, gram, c)
        left[x], counts[x] = state.a[c], state.rho[c] * weights_of_entries(state, c)
        for parent, w in zip(rows_of_parents(state.graph, c)[1:] - 1, weights, strict=True):
            if parent == h:
                weight[x] = w
            elif parent == k:
                other[x] = w
            else:
                left[x] -= w * expit(state.a[parent])
    return Ties(bias, weight, other, left, counts)


def unit_given_children(rng: np.random.Generator, unit: Unit, ties: Ties, a: FloatArray, drawing: bool) -> float:
    """Draw or score the activations of one unit: Σ_t log [p(a) p(children | a) / q(a)]."""
    form = ties.form
    return given_children(rng, unit.bias, math.exp(unit.log_rho), form.pull_h, form.hh, a, drawing) + ties.rest


# Numbers and how they are drawn ------------------------------------------------------------------------------------


def log_numbers_of_unit(unit: Unit, ties: Ties) -> float:
    """Log prior of a unit and of its children's numbers."""
    return log_normal(unit.bias, ties.bias, ties.weight) + log_rho_prior(unit.log_rho)


def log_numbers_of_pair(pair: Pair, ties: Ties) -> float:
    """Log prior of a pair and of its children's numbers."""
    numbers = log_normal(pair.bias_h, pair.bias_k, pair.weight, ties.bias, ties.weight, ties.other)
    return numbers + log_rho_prior(pair.log_rho_h) + log_rho_prior(pair.log_rho_k)


def log_normal(*numbers: float | FloatArray) -> float:
    """Log N(·; 0, 1) of all numbers together."""
    return sum(-0.5 * float(np.sum(np.square(x))) - HALF_LOG_2PI * np.size(x) for x in numbers)


def log_rho_prior(log_rho: float) -> float:
    """Log density of log ρ, normalised."""
    return LOG_RHO_NORM + RHO_SHAPE * log_rho - RHO_RATE * math.exp(log_rho)


def draw_pair(rng: np.random.Generator, ties: Ties) -> tuple[Pair, Ties]:
    """How a split draws a pair, and the numbers of the children, given the weights w of one unit.

    h takes two thirds of w or so, k any multiple; biases follow, so that the sum keeps its level.
    """
    w, own = ties.weight, OWN_SD * rng.standard_normal((3, len(ties.weight)))
    weight = w * (SHARE + SHARE_SD * rng.standard_normal()) + own[0]
    other = w * (MULTIPLE_SD * rng.standard_normal()) + own[1]
    lean = leaning(w, other)
    bias = ties.bias + w * (max(-lean, 0.0) + SHIFT_SD * rng.standard_normal()) + own[2]
    edge = EDGE * np.sign(lean) + EDGE_SD * rng.standard_normal()
    bias_h, bias_k = -0.5 * edge + BIAS_SD * rng.standard_normal(), rng.standard_normal()
    log_rho_h, log_rho_k = np.array([LOG_RHO_H, LOG_RHO_K]) + LOG_RHO_SD * rng.standard_normal(2)
    return Pair(bias_h, log_rho_h, bias_k, log_rho_k, edge), Ties(bias, weight, other, ties.left, ties.counts)


def log_draw_pair(unit_ties: Ties, pair: Pair, ties: Ties) -> float:
    """The log density of `draw_pair`, common factors of the weights integrated out."""
    w = unit_ties.weight
    lean = leaning(w, ties.other)
    total = log_gauss(ties.weight - SHARE * w, around(w, SHARE_SD)) + log_gauss(ties.other, around(w, MULTIPLE_SD))
    total += log_gauss(ties.bias - unit_ties.bias - max(-lean, 0.0) * w, around(w, SHIFT_SD))
    z = [(pair.weight - EDGE * np.sign(lean)) / EDGE_SD, (pair.bias_h + 0.5 * pair.weight) / BIAS_SD, pair.bias_k]
    z += [(pair.log_rho_h - LOG_RHO_H) / LOG_RHO_SD, (pair.log_rho_k - LOG_RHO_K) / LOG_RHO_SD]
    return total + log_normal(*z) - math.log(EDGE_SD * BIAS_SD * LOG_RHO_SD**2)


def leaning(weight: FloatArray, other: FloatArray) -> float:
    """The regression of other weights on some, in units of the latter."""
    return float(weight @ other / max(weight @ weight, 1e-12))


def around(weight: FloatArray, sd: float) -> FloatArray:
    """The covariance of w times a number of this standard deviation, and noise of each."""
    return OWN_SD**2 * np.eye(len(weight)) + sd**2 * np.outer(weight, weight)


def log_gauss(x: FloatArray, covariance: FloatArray) -> float:
    """Log N(x; 0, covariance)."""
    root = np.linalg.cholesky(covariance)
    return log_normal(linalg.solve_triangular(root, x, lower=True)) - float(np.log(np.diag(root)).sum())


def guess_unit(ties: Ties, a_h: FloatArray, a_k: FloatArray) -> Guess:
    """How a merge would draw one unit in the place of two.

    Children are regressed on s = u_h + κ u_k, and what they then say of s is fitted by one unit (`fit_unit`).
    """
    s = expit(a_h) + leaning(ties.weight, ties.other) * expit(a_k)
    x = np.stack([np.ones_like(s), s])
    covariance = np.linalg.inv(np.eye(2) + np.einsum("it,jt,ct->cij", x, x, ties.counts))
    fitted = np.einsum("cij,jt,ct->ci", covariance, x, ties.counts * ties.left)
    level, slope = fitted.T[:, :, None]
    stiffness = (ties.counts * slope**2).sum(axis=0)
    seen = (ties.counts * slope * (ties.left - level)).sum(axis=0) / np.maximum(stiffness, 1e-12)
    return Guess(*fit_unit(seen, float(stiffness.mean())), fitted, covariance)


def fit_unit(y: FloatArray, tau: float) -> tuple[FloatArray, FloatArray]:
    """One unit whose outputs, offset + scale · u, children see as y, with precision `tau`.

    Returns where (offset, log scale, bias, log ρ) fit best, under a weak prior, and the precision matrix there, by
    Newton's method with outer products of slopes, damped, on a histogram: always the same for the same y.
    """
    count, cuts = np.histogram(y, 100, (y.min(), max(y.max(), y.min() + 1e-6)))
    middle, spread = ((cuts[1:] + cuts[:-1]) / 2)[count > 0], max(float(y.std()), 0.3)
    centre = np.array([y.mean() - 1.2 * spread, math.log(2.4 * spread), 0.0, -1.5])
    prior = np.array([1.0 / spread**2, 1.0, 0.5, 0.25])
    here, damping = _posterior(centre, middle, count[count > 0], tau, centre, prior), 0.01
    at = centre
    for _ in range(30):
        value, slope, curve = here
        new = at + np.asarray(np.linalg.solve(curve + damping * np.diag(np.diag(curve)), slope), dtype=np.float64)
        there = _posterior(new, middle, count[count > 0], tau, centre, prior)
        if there[0] > value:
            at, here, damping = new, there, damping / 3.0
            if there[0] - value < 1e-3:
                break
        else:
            damping *= 4.0
    return at, here[2]


def _posterior(
    at: FloatArray, y: FloatArray, count: FloatArray, tau: float, centre: FloatArray, prior: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Log posterior of (offset, log scale, bias, log ρ) given a histogram of y, its slope, and about its curvature."""
    z = np.linspace(-6.0, 6.0, 121)
    scale, sd = math.exp(np.clip(at[1], -20, 20)), math.exp(-0.5 * np.clip(at[3], -20, 20))
    u = expit(at[2] + z * sd)
    bend = scale * u * (1.0 - u)
    slopes = np.stack([np.ones_like(z), scale * u, bend, -0.5 * z * sd * bend])
    e = y[:, None] - at[0] - scale * u
    logs = -0.5 * z**2 - 0.5 * tau * e**2
    total = logsumexp(logs, axis=1)
    own = tau * (np.exp(logs - total[:, None]) * e) @ slopes.T
    away = at - centre
    value = float(count @ total - 0.5 * prior @ away**2)
    return value, count @ own - prior * away, (own * count[:, None]).T @ own + np.diag(prior)


def draw_unit(rng: np.random.Generator, guess: Guess, ties: Ties) -> tuple[Unit, Ties]:
    """How a merge draws a unit, and the biases and weights of its children."""
    root = np.linalg.cholesky(precision_of_shape(guess))
    noise = np.linalg.solve(root.T, rng.standard_normal(2)) / math.sqrt(rng.chisquare(FREEDOM) / FREEDOM)
    unit = Unit(*(guess.at[2:] + noise).tolist())
    mean, covariance = numbers_of_children(guess, unit)
    bias, weight = (mean + np.linalg.cholesky(covariance) @ rng.standard_normal(len(mean))).reshape(2, -1)
    return unit, Ties(bias, weight, np.zeros_like(weight), ties.left, ties.counts)


def log_draw_unit(guess: Guess, unit: Unit, ties: Ties) -> float:
    """The log density of `draw_unit`."""
    mean, covariance = numbers_of_children(guess, unit)
    x, precision = np.array(unit) - guess.at[2:], precision_of_shape(guess)
    shape = 0.5 * math.log(np.linalg.det(precision)) - math.log(2 * math.pi)  # a t distribution in two dimensions
    shape -= (0.5 * FREEDOM + 1.0) * math.log1p(float(x @ precision @ x) / FREEDOM)
    return shape + log_gauss(np.concatenate([ties.bias, ties.weight]) - mean, covariance)


def precision_of_shape(guess: Guess) -> FloatArray:
    """The precision matrix of (bias, log ρ) alone, offset and scale integrated out."""
    c = guess.curve
    return c[2:, 2:] - c[2:, :2] @ np.linalg.solve(c[:2, :2], c[:2, 2:])


def numbers_of_children(guess: Guess, unit: Unit) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the children's (biases, weights) under a merged unit with this bias and precision."""
    shared = np.linalg.inv(guess.curve[:2, :2])
    offset, log_scale = guess.at[:2] - shared @ guess.curve[:2, 2:] @ (np.array(unit) - guess.at[2:])
    scale = math.exp(np.clip(log_scale, -20, 20))
    level, slope = guess.fitted.T
    to_numbers = np.array([[1.0, offset], [0.0, scale]])  # of (level, slope)
    own = to_numbers @ guess.covariance @ to_numbers.T
    size = len(slope)
    covariance = 1e-9 * np.eye(2 * size)
    for i, j in np.ndindex(2, 2):
        covariance[i * size : (i + 1) * size, j * size : (j + 1) * size] += np.diag(own[:, i, j])
    along = np.zeros((2 * size, 2))  # by the offset, and by the log scale
    along[:size, 0], along[size:, 1] = slope, scale * slope
    covariance += along @ shared @ along.T
    return np.concatenate([level + offset * slope, scale * slope]), WIDER * covariance
