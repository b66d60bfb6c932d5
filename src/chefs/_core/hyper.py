"""The hyperparameters given the graph: gamma by its conjugate Gamma, alpha and phi by slice sampling."""

import math

from chefs._core.density import exposure, layer_exposure, log_prob_of_state
from chefs._core.jit import jit
from chefs._core.state import ALPHA, CHEFS, FAMILY, GAMMA, N_ACTIVE, N_OBSERVED, PHI

LOG_LIMIT = 230.0  # hyperparameters stay between e^±230, about 1e±100


@jit
def update_hyper(rng, state, hyperprior):
    """Draw alpha, gamma and phi given the graph; hyperprior[h] is (shape, rate), or shape 0 where h stays fixed.

    γ, 1/α and φ have Gamma priors. γ given the rest is Gamma(shape + hidden nodes, rate + α exposure).
    Buffets have no φ. Returns how many were drawn; each is from its conditional, so none is refused.
    """
    chefs = state.size[FAMILY] == CHEFS
    n_active, n_drawn = state.size[N_ACTIVE], 0
    if hyperprior[GAMMA, 0] > 0:
        alpha = state.hyper[ALPHA]
        shape = hyperprior[GAMMA, 0] + n_active - state.size[N_OBSERVED]
        if chefs:
            rate = hyperprior[GAMMA, 1] + alpha * exposure(state.order[state.ranking[:n_active]], alpha)
        else:
            rate = hyperprior[GAMMA, 1] + alpha * layer_exposure(state, alpha)
        state.hyper[GAMMA] = max(rng.standard_gamma(shape) / rate, math.exp(-LOG_LIMIT))
        n_drawn += 1
    for which in (ALPHA, PHI):
        if hyperprior[which, 0] > 0 and (chefs or which == ALPHA):
            slice_hyper(rng, state, which, hyperprior[which, 0], hyperprior[which, 1])
            n_drawn += 1
    return n_drawn


@jit
def log_hyper(state, which, x, shape, rate):
    """Log density of x = log α or log φ given the rest, up to a constant; 1/α and φ are Gamma(shape, rate)."""
    if which == ALPHA:
        graph = log_prob_of_state(state, math.exp(x), state.hyper[GAMMA], state.hyper[PHI])
        return graph - shape * x - rate * math.exp(-x)
    graph = log_prob_of_state(state, state.hyper[ALPHA], state.hyper[GAMMA], math.exp(x))
    return graph + shape * x - rate * math.exp(x)


@jit
def slice_hyper(rng, state, which, shape, rate):
    """One slice-sampling update of log α or log φ: step out by ones, then shrink (Neal, 2003)."""
    x = math.log(state.hyper[which])
    level = log_hyper(state, which, x, shape, rate) - rng.standard_exponential()
    low = max(x - rng.random(), -LOG_LIMIT)
    high = min(low + 1.0, LOG_LIMIT)
    while low > -LOG_LIMIT and log_hyper(state, which, low, shape, rate) > level:
        low = max(low - 1.0, -LOG_LIMIT)
    while high < LOG_LIMIT and log_hyper(state, which, high, shape, rate) > level:
        high = min(high + 1.0, LOG_LIMIT)
    while True:
        new = low + (high - low) * rng.random()
        if log_hyper(state, which, new, shape, rate) > level:
            state.hyper[which] = math.exp(new)
            return
        if new < x:
            low = new
        else:
            high = new
