"""The nonlinear Gaussian belief network (section 4.1), with all weights and biases integrated out.

a_i ~ N(b_i + Σ_k Z_ki W_ki u_k, 1/ρ_i), u_i = 1 / (1 + exp(−a_i)); W, b ~ N(0, 1), ρ ~ Gamma(½, rate ½). Given the
pre-activations of all nodes, every node is a Bayesian linear regression on its parents, so the state holds the graph,
the pre-activations and the precisions; weights are drawn only where something needs them.

Tempered, what is seen counts with a power β: every seen entry contributes p(a_it | parents, W, b, ρ)^β, and all else
(hidden activations, missing entries, weights, precisions, the graph) what it always does. So the entries of a node have
weights, β or 1, and its regression is one with weighted sums over the points.
"""

import math
from typing import NamedTuple

import numpy as np

from chefs._core.jit import jit, jit_loops
from chefs._core.products import inner_products
from chefs._core.state import N_ACTIVE, N_OBSERVED, GraphState, grow

RHO_SHAPE, RHO_RATE = 0.5, 0.5
LEAST_RHO, MOST_RHO = 1e-12, 1e12  # no precision is beyond, so that nothing overflows
NEWBORN_LOG_MASS, NEWBORN_SPREAD = 4.0, 0.5  # N(mean, sd²): heavy, for a light one would spoil the trajectories of all


class NetworkState(NamedTuple):
    """A graph and, for each of its nodes, a precision and the pre-activations of all points."""

    graph: GraphState
    a: np.ndarray  # float (C, N): observed rows hold the data, and guesses where entries are missing
    rho: np.ndarray  # float (C,)
    missing: np.ndarray  # bool (D, N)
    log_mass: np.ndarray  # float (C,): of the Hamiltonian move; independent of all else, as `newborn_log_mass` draws it
    power: float = 1.0  # of the density of every entry that is seen


@jit
def newborn_log_mass(rng):
    """The mass of a unit that is born. A death forgets it, so it cancels in the ratios of both."""
    return NEWBORN_LOG_MASS + NEWBORN_SPREAD * rng.standard_normal()


@jit
def network_with_room(state):
    """The state itself while one more node fits, else one with twice the capacity."""
    if state.graph.size[N_ACTIVE] < state.graph.order.size:
        return state
    graph = grow(state.graph)
    a = np.zeros((graph.order.size, state.a.shape[1]))
    a[: state.a.shape[0]] = state.a
    rho = np.ones(graph.order.size)
    rho[: state.rho.size] = state.rho
    log_mass = np.full(graph.order.size, NEWBORN_LOG_MASS)
    log_mass[: state.rho.size] = state.log_mass
    return NetworkState(graph, a, rho, state.missing, log_mass, state.power)


@jit
def weights_of_entries(state, i):
    """What every point of node i counts: the power where it is seen, else 1."""
    weight = np.ones(state.a.shape[1])
    if i < state.graph.size[N_OBSERVED] and state.power != 1.0:
        for t in range(weight.size):
            if not state.missing[i, t]:
                weight[t] = state.power
    return weight


@jit
def sigmoid(x):
    """1 / (1 + exp(−x)) without overflow."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    y = math.exp(x)
    return y / (1.0 + y)


@jit_loops
def sigmoid_into(x, u):
    """Fill u with the sigmoid of x, |x| cut at 40.

    exp(−x) is the 64th power of a Taylor sum: plain arithmetic, which is vectorised; its relative error is 3e-14.
    """
    for t in range(x.size):
        y = min(max(-x[t], -40.0), 40.0) / 64.0
        p = 1.0 + y / 14.0
        p = 1.0 + y * p * (1.0 / 13.0)
        p = 1.0 + y * p * (1.0 / 12.0)
        p = 1.0 + y * p * (1.0 / 11.0)
        p = 1.0 + y * p * (1.0 / 10.0)
        p = 1.0 + y * p * (1.0 / 9.0)
        p = 1.0 + y * p * (1.0 / 8.0)
        p = 1.0 + y * p * (1.0 / 7.0)
        p = 1.0 + y * p * (1.0 / 6.0)
        p = 1.0 + y * p * (1.0 / 5.0)
        p = 1.0 + y * p * (1.0 / 4.0)
        p = 1.0 + y * p * (1.0 / 3.0)
        p = 1.0 + y * p * (1.0 / 2.0)
        p = 1.0 + y * p
        p *= p
        p *= p
        p *= p
        p *= p
        p *= p
        p *= p
        u[t] = 1.0 / (1.0 + p)


@jit
def outputs(state):
    """Outputs u of all nodes, below a row of ones: node k is row k + 1."""
    n, n_points = state.graph.size[N_ACTIVE], state.a.shape[1]
    u = np.empty((n + 1, n_points))
    u[0] = 1.0
    for k in range(n):
        sigmoid_into(state.a[k], u[k + 1])
    return u


class Gram(NamedTuple):
    """All inner products that regressions on parents need: independent of the number of points.

    Sums over the points of a node are weighted as its entries are. Nodes with the same weights share a matrix `uu`: 0
    is that of hidden nodes, and of all at power 1; 1 that of observed nodes; each that has missing entries has its own.
    """

    uu: np.ndarray  # float (matrices, rows, rows): of outputs and the constant, which is row 0
    ua: np.ndarray  # float (rows, n): of the outputs with the pre-activations
    aa: np.ndarray  # float (n,)
    n_points: np.ndarray  # float (n,): sums of the weights
    which: np.ndarray  # int (n,): the matrix uu of each node


@jit
def gram_of(state):
    """The Gram matrices of a state: of all outputs, row k + 1 for node k."""
    return weighted_gram(state, outputs(state))


@jit
def weighted_gram(state, u):
    """The Gram matrices of a state and some rows of outputs."""
    n, n_observed, power = state.graph.size[N_ACTIVE], state.graph.size[N_OBSERVED], state.power
    a = state.a[:n]
    aa, n_points, which = np.empty(n), np.full(n, float(u.shape[1])), np.zeros(n, dtype=np.int64)
    for i in range(n):
        aa[i] = np.dot(a[i], a[i])
    all_alike, ua = inner_products(u, a)
    if power == 1.0:
        return Gram(all_alike.reshape((1, u.shape[0], u.shape[0])), ua, aa, n_points, which)
    uu = np.empty((2 + n_observed, u.shape[0], u.shape[0]))
    uu[0] = all_alike
    uu[1] = power * all_alike
    for i in range(n_observed):
        which[i] = 1
        ua[:, i] *= power
        aa[i] *= power
        n_points[i] *= power
        if state.missing[i].any():
            which[i] = 2 + i
            uu[2 + i] = uu[1]
            for t in np.flatnonzero(state.missing[i]):
                for x in range(u.shape[0]):
                    ua[x, i] += (1.0 - power) * u[x, t] * a[i, t]
                    for y in range(u.shape[0]):
                        uu[2 + i, x, y] += (1.0 - power) * u[x, t] * u[y, t]
                aa[i] += (1.0 - power) * a[i, t] * a[i, t]
                n_points[i] += 1.0 - power
    return Gram(uu, ua, aa, n_points, which)


@jit
def rows_of_parents(graph, i):
    """Rows of `outputs` that node i regresses on: the constant, then its parents."""
    rows = np.empty(graph.n_parents[i] + 1, dtype=np.int64)
    rows[0] = 0
    at = 1
    for k in range(graph.size[N_ACTIVE]):
        if graph.parents[i, k]:
            rows[at] = k + 1
            at += 1
    return rows


@jit
def cholesky_solve(m, c):
    """Factor the positive definite m in place (lower triangle) and replace c by L⁻¹ c; returns log det m."""
    q = c.size
    log_det = 0.0
    for j in range(q):
        for i in range(j, q):
            total = m[i, j]
            for h in range(j):
                total -= m[i, h] * m[j, h]
            if i == j:
                m[j, j] = math.sqrt(max(total, 1e-300))
            else:
                m[i, j] = total / m[j, j]
        total = c[j]
        for h in range(j):
            total -= m[j, h] * c[h]
        c[j] = total / m[j, j]
        log_det += 2.0 * math.log(m[j, j])
    return log_det


@jit
def regression_of(gram, i, rows, rho):
    """Of node i on these rows X of outputs: the lower half of ρ X Xᵀ + I, and X a."""
    q, uu = rows.size, gram.uu[gram.which[i]]
    m, c = np.empty((q, q)), np.empty(q)
    for x in range(q):
        c[x] = gram.ua[rows[x], i]
        for y in range(x + 1):
            m[x, y] = rho * uu[rows[x], rows[y]] + (x == y)
    return m, c


@jit
def log_marginal(gram, i, rows, rho):
    """Log p(a_i | its parents' outputs, ρ_i), weights and bias integrated out, without its −½ N log 2π."""
    m, c = regression_of(gram, i, rows, rho)
    log_det = cholesky_solve(m, c)
    fit = np.dot(c, c)
    return 0.5 * gram.n_points[i] * math.log(rho) - 0.5 * rho * (gram.aa[i] - rho * fit) - 0.5 * log_det


@jit
def draw_rho(rng):
    """A precision from its prior."""
    return max(rng.standard_gamma(RHO_SHAPE) / RHO_RATE, LEAST_RHO)


@jit
def log_rho_prior(rho):
    """Log density of ρ, up to a constant."""
    return (RHO_SHAPE - 1.0) * math.log(rho) - RHO_RATE * rho


@jit
def log_likelihood(state):
    """Log p(all pre-activations | graph, precisions), weights and biases integrated out, constants left out."""
    return log_marginals(state, state.graph.size[N_ACTIVE])


@jit
def log_marginals(state, n):
    """`log_marginal` of the first `n` nodes together."""
    gram = gram_of(state)
    total = 0.0
    for i in range(n):
        total += log_marginal(gram, i, rows_of_parents(state.graph, i), state.rho[i])
    return total


@jit
def draw_weights(rng, gram, i, rows, rho):
    """(bias, weights of the parents) of node i given everything else: N(ρ S X a, S) with S = (ρ X Xᵀ + I)⁻¹."""
    q = rows.size
    m, c = regression_of(gram, i, rows, rho)
    c *= rho
    cholesky_solve(m, c)
    for x in range(q - 1, -1, -1):  # solve Lᵀ w = L⁻¹ c + noise
        total = c[x] + rng.standard_normal()
        for y in range(x + 1, q):
            total -= m[y, x] * c[y]
        c[x] = total / m[x, x]
    return c


@jit
def residual_square(gram, i, rows, weights):
    """Σ (a_i − b_i − Σ W u)² over the points, as they are weighted."""
    total, uu = gram.aa[i], gram.uu[gram.which[i]]
    for x in range(rows.size):
        total -= 2.0 * weights[x] * gram.ua[rows[x], i]
        for y in range(rows.size):
            total += weights[x] * weights[y] * uu[rows[x], rows[y]]
    return max(total, 0.0)


@jit
def residuals(state, i, rows, weights):
    """a_i − b_i − Σ W u for every point."""
    left = state.a[i] - weights[0]
    for x in range(1, rows.size):
        for t in range(left.size):
            left[t] -= weights[x] * sigmoid(state.a[rows[x] - 1, t])
    return left


@jit
def draw_precisions(rng, state, gram):
    """Weights of every node given its precision, then the precision given the weights, which are forgotten again.

    Both from their conditionals, so that nothing is rejected.
    """
    for i in range(state.graph.size[N_ACTIVE]):
        rows = rows_of_parents(state.graph, i)
        weights = draw_weights(rng, gram, i, rows, state.rho[i])
        rate = RHO_RATE + 0.5 * residual_square(gram, i, rows, weights)
        state.rho[i] = max(rng.standard_gamma(RHO_SHAPE + 0.5 * gram.n_points[i]) / rate, LEAST_RHO)
