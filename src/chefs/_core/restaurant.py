"""The restaurant: star chefs enter one after another and find their inspirations (section 2.2, corrected)."""

import numpy as np

from chefs._core.generate import fitted
from chefs._core.jit import jit
from chefs._core.state import (
    ALPHA,
    GAMMA,
    N_ACTIVE,
    N_OBSERVED,
    NO_LIMIT,
    PHI,
    add_edge,
    first_above,
    insert,
    pack,
    unpack,
    with_room,
)


@jit
def one_more_star(rng, orders, parents, children, n_observed, height, hyper):
    """One round of the restaurant: a star chef at `height` enters a finished map; it becomes node `n_observed`.

    Returns the new map as (orders, parents, children).
    """
    n = orders.size
    new_orders = np.empty(n + 1)
    new_orders[:n_observed] = orders[:n_observed]
    new_orders[n_observed] = height
    new_orders[n_observed + 1 :] = orders[n_observed:]
    low, locked = np.zeros(n_observed + 1), np.zeros((n_observed + 1, n_observed + 1), dtype=np.bool_)
    shifted_parents = parents + (parents >= n_observed)
    shifted_children = children + (children >= n_observed)
    state = pack(new_orders, shifted_parents, shifted_children, low, low + 1.0, locked, hyper, NO_LIMIT)
    served = np.zeros(state.order.size, dtype=np.bool_)
    served[: n + 1] = True
    served[n_observed] = False
    return unpack(seat_star(rng, state, served, n_observed))


@jit
def seat_star(rng, state, served, star):
    """One round of the restaurant: star chef `star`, already in the room, and every chef it brings along.

    `served[k]` says whether chef k has already chosen its inspirations; only those count below a chef. Returns
    the state, which may have grown.
    """
    alpha, phi = state.hyper[ALPHA], state.hyper[PHI]
    asked = 0
    for i in range(state.size[N_ACTIVE]):  # step one, backward: the star is proposed to all chefs below it
        if served[i] and state.order[i] < state.order[star]:
            beta_binomial = (phi + state.n_children[star]) / (alpha + phi + asked)
            if rng.random() < beta_binomial:
                add_edge(state, star, i)
            asked += 1
    waiting = star
    while waiting >= 0:
        served = fitted(served, state.order.size)
        choose_existing(rng, state, served, waiting)
        state = choose_new(rng, state, served, waiting)
        served = fitted(served, state.order.size)
        served[waiting] = True
        waiting = -1
        for k in range(state.size[N_OBSERVED], state.size[N_ACTIVE]):
            if not served[k]:
                waiting = k
                break
    return state


@jit
def n_served_below(state, served, height):
    """Chefs strictly below `height` that have chosen their inspirations."""
    count = 0
    for i in range(state.size[N_ACTIVE]):
        if served[i] and state.order[i] < height:
            count += 1
    return count


@jit
def choose_existing(rng, state, served, i):
    """Step two: chef i considers each chef k above it, with probability (m_k + φ) / (α + ↓_k − 1 + φ)."""
    alpha = state.hyper[ALPHA]
    for p in range(first_above(state, i), state.size[N_ACTIVE]):
        k = state.ranking[p]
        phi = state.hyper[PHI] if k < state.size[N_OBSERVED] else 0.0
        below = n_served_below(state, served, state.order[k])  # ↓_k − 1: chef i is not served yet
        if rng.random() < (state.n_children[k] + phi) / (alpha + below + phi):
            add_edge(state, k, i)


@jit
def choose_new(rng, state, served, i):
    """Step three: Poisson((θ_(j+1) − θ_(j)) αγ / (α + ↓ − 1)) new chefs in each interval above chef i."""
    alpha, gamma = state.hyper[ALPHA], state.hyper[GAMMA]
    n_before = state.size[N_ACTIVE]
    below = 0  # served chefs at or below the interval
    for p in range(first_above(state, i)):
        below += served[state.ranking[p]]
    cuts = np.empty(n_before - first_above(state, i) + 2)
    rates = np.empty(cuts.size - 1)
    cuts[0] = state.order[i]
    for j in range(rates.size):
        rates[j] = alpha * gamma / (alpha + below)
        p = first_above(state, i) + j
        cuts[j + 1] = 1.0
        if p < n_before:
            cuts[j + 1] = state.order[state.ranking[p]]
            below += served[state.ranking[p]]
    for j in range(rates.size):
        for _ in range(rng.poisson((cuts[j + 1] - cuts[j]) * rates[j])):
            state = with_room(state)
            k = insert(state, cuts[j] + (cuts[j + 1] - cuts[j]) * rng.random())
            add_edge(state, k, i)
    return state
