"""Exact sizes: the forward equations of the pure birth process that the number of active nodes is.

Read the order as time. With n active nodes below, hidden nodes appear at rate λ_n = αγ [ψ(α+n) − ψ(α)] and bring
γ n edges per unit of time; an observed node appears at its order and brings φ/(α+φ) · n edges in the mean. For free
observed nodes the state is (s, n), which means: s given ones of them lie below θ, the others are left out of the
process, and there are n nodes. Summed over n that is θ^s, and from s to s + 1 it flows at rate s + 1, because any
of the s + 1 may be the highest. Nothing is subtracted anywhere, so nothing cancels.
"""

import math

import numpy as np

from chefs._core.state import ALPHA, GAMMA

TAIL = 1e-13
MOST_NODES = 200_000
MOST_WORK = 1e9  # nodes × steps of the uniformised chain: some ten seconds


def size_distribution(observed, hyper):
    """P(K⁺ = n) for n = 0, 1, …, and the expected number of edges, exactly.

    Args:
        observed: Orders of the observed nodes, nan where free.
        hyper: alpha, gamma, phi.
    """
    n_states = _enough_states(observed, hyper)
    while True:
        speed = hyper[ALPHA] * hyper[GAMMA] * math.log1p(n_states / hyper[ALPHA])
        if n_states > MOST_NODES or n_states * speed > MOST_WORK:
            raise ValueError(
                "the graphs of this prior are too large for their exact distribution to be computed "
                f"(more than {n_states // 2} nodes with visible probability): choose a smaller gamma, or simulate"
            )
        mass, edges = _walk(observed, hyper, n_states)
        if abs(mass.sum() - 1.0) < TAIL * 10:
            return mass, edges.sum()
        n_states *= 2


def _enough_states(observed, hyper):
    """A first guess at where the distribution of K⁺ ends: the mean-field path and a wide margin."""
    n = mean_field_nodes(observed, hyper)
    return int(n + 10 * math.sqrt(n) + 30)


def mean_field_nodes(observed, hyper):
    """About E[K⁺], a little more, in no time: the path n' = λ_n from the lowest order, all observed nodes there."""
    n = float(observed.size)
    step = (1.0 - _lowest(observed)) / 200
    for _ in range(200):
        n += step * hyper[GAMMA] * (hyper[ALPHA] * math.log1p(n / hyper[ALPHA]) + 1.0)
        if n > MOST_NODES:
            break
    return n


def _lowest(observed):
    """The order below which there is certainly nothing."""
    return 0.0 if np.isnan(observed).any() else float(observed.min())


def _walk(observed, hyper, n_states):
    """Carry (mass, expected edges) over states (s, n) from order 0 to order 1."""
    alpha, gamma, phi = hyper
    free = int(np.isnan(observed).sum())
    fixed, tied = np.unique(observed[~np.isnan(observed)], return_counts=True)
    n = np.arange(n_states)
    rate = alpha * gamma * np.concatenate([[0.0], np.cumsum(1.0 / (alpha + n[:-1]))])
    kept = phi / (alpha + phi) * n
    state = np.zeros((2, free + 1, n_states))
    state[0, 0, 0] = 1.0
    height = _lowest(observed)
    for level, count in zip([*fixed, 1.0], [*tied, 0], strict=True):
        state = _flow(state, level - height, rate, gamma * n, kept)
        height = level
        if count:
            state[1] += count * kept * state[0]
            state[:, :, count:] = state[:, :, :-count].copy()
            state[:, :, :count] = 0.0
    return state[0, free], state[1, free]


def _largest(state):
    """The largest entry of each s: layers differ by many orders of magnitude, and all of them count in the end."""
    return state.max(axis=(0, 2), keepdims=True)


def _flow(state, duration, rate, hidden_edges, observed_edges):
    """Solve the forward equations over `duration` by uniformisation, in pieces that keep exp() in range."""
    free = state.shape[1] - 1
    speed = rate[-1]
    arrival = np.arange(1.0, free + 1)[:, None]  # from s to s + 1
    n_pieces = max(1, math.ceil(duration * (speed + free) / 200))
    dt = duration / n_pieces
    for _ in range(n_pieces if duration > 0 else 0):
        term, total, k = state, state.copy(), 0
        while k < max(free, dt * (speed + free)) or (_largest(term) > 1e-18 * _largest(total)).any():
            k += 1
            new = (speed - rate) * term
            new[:, :, 1:] += rate[:-1] * term[:, :, :-1]
            new[1, :, 1:] += hidden_edges[:-1] * term[0, :, :-1]
            new[:, 1:, 1:] += arrival * term[:, :-1, :-1]
            new[1, 1:, 1:] += arrival * observed_edges[:-1] * term[0, :-1, :-1]
            term = new * (dt / k)
            total += term
        state = total * math.exp(-speed * dt)
    return state
