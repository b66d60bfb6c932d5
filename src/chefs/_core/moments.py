"""Exact sizes: the forward equations of the pure birth process that the number of active nodes is.

Read the order as time. With n active nodes below, hidden nodes appear at rate λ_n = αγ [ψ(α+n) − ψ(α)] and bring
γ n edges per unit of time; an observed node appears at its order and brings φ/(α+φ) · n edges in the mean. For free
observed nodes the state is (s, n) with s of them placed. Nothing is subtracted anywhere, so nothing cancels.
"""

import math

import numpy as np

from chefs._core.state import ALPHA, GAMMA, PHI

TAIL = 1e-13
MOST_NODES = 200_000


def size_distribution(observed, hyper):
    """P(K⁺ = n) for n = 0, 1, …, and the expected number of edges, exactly.

    Args:
        observed: Orders of the observed nodes, nan where free.
        hyper: alpha, gamma, phi.
    """
    n_states = _enough_states(observed.size, hyper)
    while True:
        if n_states > MOST_NODES:
            raise ValueError(
                f"the graphs of this prior have more than {MOST_NODES} nodes with visible probability; "
                "choose a smaller gamma"
            )
        mass, edges = _walk(observed, hyper, n_states)
        if abs(mass.sum() - 1.0) < TAIL * 10:
            return mass, edges.sum()
        n_states *= 2


def _enough_states(n_observed, hyper):
    """A first guess at where the distribution of K⁺ ends: the mean-field path n' = λ_n and a wide margin."""
    n = float(n_observed)
    for _ in range(200):
        n += hyper[ALPHA] * hyper[GAMMA] * math.log1p(n / hyper[ALPHA]) / 200 + hyper[GAMMA] / 200
        if n > MOST_NODES:
            break
    return int(n + 10 * math.sqrt(n) + 30)


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
    height = 0.0
    for level, count in zip([*fixed, 1.0], [*tied, 0], strict=True):
        state = _flow(state, level - height, rate, gamma * n, kept)
        height = level
        if count:
            state[1] += count * kept * state[0]
            state[:, :, count:] = state[:, :, :-count].copy()
            state[:, :, :count] = 0.0
    return state[0, free], state[1, free]


def _flow(state, duration, rate, hidden_edges, observed_edges):
    """Solve the forward equations over `duration` by uniformisation, in pieces that keep exp() in range."""
    free = state.shape[1] - 1
    speed = rate[-1]
    waiting = (
        free - np.arange(free)[:, None]
    )  # rate at which one of the free observed nodes still to come arrives
    n_pieces = max(1, math.ceil(duration * (speed + free) / 200))
    dt = duration / n_pieces
    for _ in range(n_pieces if duration > 0 else 0):
        term, total, k = state, state.copy(), 0
        while k < dt * (speed + free) or term.max() > 1e-18 * total.max():
            k += 1
            new = (speed - rate) * term
            new[:, :, 1:] += rate[:-1] * term[:, :, :-1]
            new[1, :, 1:] += hidden_edges[:-1] * term[0, :, :-1]
            new[:, 1:, 1:] += waiting * term[:, :-1, :-1]
            new[1, 1:, 1:] += waiting * observed_edges[:-1] * term[0, :-1, :-1]
            term = new * (dt / k)
            total += term
        state = total * math.exp(-speed * dt)
    return state
