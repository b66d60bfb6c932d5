"""What splits and merges draw: the numbers of a unit, or of a pair of units, and those of its children.

Two ways of saying the same: a unit with weights w, or a pair k → h whose weights are about multiples of w. Each is
drawn given the other, with a density that enters the ratio of the move; how well decides how often a move is made.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import expit, logsumexp

from chefs._core.births import HALF_LOG_2PI
from chefs._core.network import RHO_RATE, RHO_SHAPE
from chefs._core.pairs import Form, Pair
from chefs.dag import FloatArray

FREEDOM = 5.0  # degrees, of the t distribution that a merged unit is drawn from
WIDER = 1.5  # times the variance that a regression gives to the numbers of the children
# How a split draws a pair, like those that are found: standard deviations of the multiple of the weights that k takes,
# of the share that h takes and of the shift of the children's biases, about what keeps their moments; of the noise of
# each weight and bias; then the edge k → h, in the direction of k's weights, and the bias of h about minus half of it;
# shape and rate of the precisions.
MULTIPLE_SD, SHARE_SD, SHIFT_SD, OWN_SD, OWN_BIAS_SD = 0.4, 0.05, 0.03, 0.1, 0.04
EDGE, EDGE_SD, BIAS_SD = 3.0, 2.5, 1.2
DRAWN_SHAPE, DRAWN_RATE = 0.4, 0.6


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
    """What a merge draws from: a t distribution of (bias, log ρ), and a Gaussian of the children's numbers given it.

    Offset and log scale of the unit's output, as the children see it, are not drawn: the Gaussian has them in it.
    """

    at: FloatArray  # (4,): offset, log scale, bias, log ρ
    curve: FloatArray  # (4, 4): precision matrix
    fitted: FloatArray  # (C, 2): of a child where s = u_h + κ u_k is 0, and its slope
    covariance: FloatArray  # (C, 2, 2): of these


def log_numbers_of_unit(unit: Unit, ties: Ties) -> float:
    """Log prior of a unit and of its children's numbers."""
    return log_normal(unit.bias, ties.bias, ties.weight) + log_density_of_log_rho(unit.log_rho)


def log_numbers_of_pair(pair: Pair, ties: Ties) -> float:
    """Log prior of a pair and of its children's numbers."""
    numbers = log_normal(pair.bias_h, pair.bias_k, pair.weight, ties.bias, ties.weight, ties.other)
    return numbers + log_density_of_log_rho(pair.log_rho_h) + log_density_of_log_rho(pair.log_rho_k)


def log_normal(*numbers: float | FloatArray) -> float:
    """Log N(·; 0, 1) of all numbers together."""
    return sum(-0.5 * float(np.sum(np.square(x))) - HALF_LOG_2PI * np.size(x) for x in numbers)


def log_density_of_log_rho(log_rho: float, shape: float = RHO_SHAPE, rate: float = RHO_RATE) -> float:
    """Log density of log ρ where ρ is Gamma(shape, rate), its prior unless it says otherwise."""
    return shape * math.log(rate) - math.lgamma(shape) + shape * log_rho - rate * math.exp(log_rho)


def draw_pair(rng: np.random.Generator, unit: Unit, ties: Ties) -> tuple[Pair, Ties]:
    """How a split draws a pair, and the numbers of the children, given the weights w of one unit.

    k takes any multiple of w, h about what keeps the variance of the sum, biases what keeps its mean.
    """
    w, size = ties.weight, len(ties.weight)
    other = w * (MULTIPLE_SD * rng.standard_normal()) + OWN_SD * rng.standard_normal(size)
    lean = leaning(w, other)
    edge = EDGE * np.sign(lean) + EDGE_SD * rng.standard_normal()
    bias_h, bias_k = -0.5 * edge + BIAS_SD * rng.standard_normal(), rng.standard_normal()
    rho = np.maximum(rng.standard_gamma(DRAWN_SHAPE, 2) / DRAWN_RATE, 1e-300)
    pair = Pair(bias_h, math.log(rho[0]), bias_k, math.log(rho[1]), edge)
    share, *levels = what_keeps_moments(unit, pair, lean)
    weight = w * (share + SHARE_SD * rng.standard_normal()) + OWN_SD * rng.standard_normal(size)
    shift = w * (SHIFT_SD * rng.standard_normal()) + OWN_BIAS_SD * rng.standard_normal(size)
    return pair, Ties(_biases(levels, ties, weight, other) + shift, weight, other, ties.left, ties.counts)


def log_draw_pair(unit: Unit, unit_ties: Ties, pair: Pair, ties: Ties) -> float:
    """The log density of `draw_pair`, common factors of the weights integrated out."""
    w = unit_ties.weight
    lean = leaning(w, ties.other)
    share, *levels = what_keeps_moments(unit, pair, lean)
    bias = _biases(levels, unit_ties, ties.weight, ties.other)
    total = log_gauss(ties.other, around(w, MULTIPLE_SD, OWN_SD))
    total += log_gauss(ties.weight - share * w, around(w, SHARE_SD, OWN_SD))
    total += log_gauss(ties.bias - bias, around(w, SHIFT_SD, OWN_BIAS_SD))
    z = [(pair.weight - EDGE * np.sign(lean)) / EDGE_SD, (pair.bias_h + 0.5 * pair.weight) / BIAS_SD, pair.bias_k]
    total += log_normal(*z) - math.log(EDGE_SD * BIAS_SD)
    return total + sum(log_density_of_log_rho(x, DRAWN_SHAPE, DRAWN_RATE) for x in (pair.log_rho_h, pair.log_rho_k))


def what_keeps_moments(unit: Unit, pair: Pair, lean: float) -> tuple[float, float, float, float]:
    """The share of the weights that h takes where k takes `lean`, and mean outputs of the unit, of h and of k."""
    z = np.linspace(-4.0, 4.0, 41)
    p = np.exp(-0.5 * z**2)
    p /= p.sum()
    u = expit(unit.bias + z * math.exp(-0.5 * unit.log_rho))
    k = expit(pair.bias_k + z * math.exp(-0.5 * pair.log_rho_k))
    h = expit(pair.bias_h + pair.weight * k[:, None] + z * math.exp(-0.5 * pair.log_rho_h))
    of_h, of_k, of_u = h @ p, p @ k, p @ u
    level_h = p @ of_h
    both, square_h, square_k = p @ (of_h * k) - level_h * of_k, p @ (h**2 @ p) - level_h**2, p @ k**2 - of_k**2
    left = (lean * both) ** 2 - square_h * (lean**2 * square_k - (p @ u**2 - of_u**2))
    share = (math.sqrt(max(left, 0.0)) - lean * both) / max(square_h, 1e-12)
    return float(np.clip(share, 0.05, 3.0)), float(of_u), float(level_h), float(of_k)


def _biases(levels: list[float], ties: Ties, weight: FloatArray, other: FloatArray) -> FloatArray:
    """Biases with which the children keep their means."""
    of_u, of_h, of_k = levels
    return ties.bias + of_u * ties.weight - of_h * weight - of_k * other


def leaning(weight: FloatArray, other: FloatArray) -> float:
    """The regression of other weights on some, in units of the latter."""
    return float(weight @ other / max(weight @ weight, 1e-12))


def around(weight: FloatArray, sd: float, own: float) -> FloatArray:
    """The covariance of w times a number of standard deviation `sd`, and `own` noise of each."""
    return own**2 * np.eye(len(weight)) + sd**2 * np.outer(weight, weight)


def log_gauss(x: FloatArray, covariance: FloatArray) -> float:
    """Log N(x; 0, covariance)."""
    root = np.linalg.cholesky(covariance)
    return log_normal(linalg.solve_triangular(root, x, lower=True, check_finite=False)) - float(
        np.log(np.diag(root)).sum()
    )


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
    if not np.isfinite(seen).all():
        raise np.linalg.LinAlgError("what the children say is not finite")
    return Guess(*fit_unit(seen, float(stiffness.mean())), fitted, covariance)


def fit_unit(y: FloatArray, tau: float) -> tuple[FloatArray, FloatArray]:
    """One unit whose outputs, offset + scale · u, children see as y, with precision `tau`.

    Returns where (offset, log scale, bias, log ρ) fit best, under a weak prior, and the precision matrix there, by
    Newton's method with outer products of slopes, damped, on a histogram: always the same for the same y.
    """
    count, cuts = np.histogram(y, 100, (y.min(), max(y.max(), y.min() + 1e-6 * max(1.0, abs(y.min())))))
    middle, spread = ((cuts[1:] + cuts[:-1]) / 2)[count > 0], max(float(y.std()), 0.3)
    centre = np.array([y.mean() - 1.2 * spread, math.log(2.4 * spread), 0.0, -1.5])
    prior = np.array([1.0 / spread**2, 1.0, 0.5, 0.25])
    here, damping = _posterior(centre, middle, count[count > 0], tau, centre, prior), 0.01
    at = centre
    for _ in range(30):  # steps too far give values that are not finite, and are not taken
        value, slope, curve = here
        new = at + np.asarray(np.linalg.solve(curve + damping * np.diag(np.diag(curve)), slope), dtype=np.float64)
        with np.errstate(all="ignore"):
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
    x, root = np.array(unit) - guess.at[2:], np.linalg.cholesky(precision_of_shape(guess))
    shape = float(np.log(np.diag(root)).sum()) - math.log(2 * math.pi)  # a t distribution in two dimensions
    shape -= (0.5 * FREEDOM + 1.0) * math.log1p(float(np.square(x @ root).sum()) / FREEDOM)
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
