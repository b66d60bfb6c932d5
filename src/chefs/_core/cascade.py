"""Moves on graphs of buffets: as in `propose`, with candidates, births and orders that keep to the layers."""

import math

from chefs._core.density import layer_insertion, layer_odds
from chefs._core.jit import jit
from chefs._core.layers import fits_layers, floor_of, height_in, layer_at, n_layers, parents_between
from chefs._core.proposal import (
    BIRTH,
    DEATH,
    EDGE,
    ORDER,
    Proposal,
    any_node,
    n_singleton_orphans,
    no_room_for_birth,
    singleton_orphan,
)
from chefs._core.state import BUFFET, FAMILY, N_ACTIVE, N_OBSERVED


@jit
def layer_edge(rng, state):
    """Flip the edge k → i, with i any node and k any that it may have as a parent. Ratio: the odds of the edge."""
    i = any_node(rng, state)
    first, last = parents_between(state, i)
    if first == last:
        return Proposal(EDGE, i, -1, 0.0, -math.inf)
    k = state.ranking[first + int(rng.random() * (last - first))]
    if not fits_layers(state, k, i):
        return Proposal(EDGE, i, k, 0.0, -math.inf)
    odds = layer_odds(state, k, i)
    return Proposal(EDGE, i, k, 0.0, -odds if state.parents[i, k] else odds)


@jit
def log_newborn(state, level, n_orphans, n_active, itself):
    """Log of f'/f · length · K⁺ / ((K*_i + 1) (K⁺ + 1)), counts before the birth: the ratio of a birth in a layer."""
    length = floor_of(state, level + 1) - floor_of(state, level)
    return layer_insertion(state, level, itself) + math.log(length * n_active / ((n_orphans + 1) * (n_active + 1)))


@jit
def layer_birth(rng, state):
    """A new hidden parent of i, any node, in the next layer, with its order uniform there. Ratio: `log_newborn`."""
    i = any_node(rng, state)
    level = layer_at(state, state.order[i]) + 1
    if no_room_for_birth(state) or level > n_layers(state):
        return Proposal(BIRTH, i, -1, 0.0, -math.inf)
    height = height_in(rng, state, level)
    log_ratio = log_newborn(state, level, n_singleton_orphans(state, i), state.size[N_ACTIVE], 0)
    return Proposal(BIRTH, i, -1, height, log_ratio)


@jit
def layer_death(rng, state):
    """Remove one of the K*_i singleton-orphan parents of i, any node, uniformly. Ratio: minus that of its birth.

    Their one child is i, in the layer just below: a node with further children is no candidate.
    """
    i = any_node(rng, state)
    n_orphans = n_singleton_orphans(state, i)
    if n_orphans == 0:
        return Proposal(DEATH, i, -1, 0.0, -math.inf)
    k = singleton_orphan(state, i, int(rng.random() * n_orphans))
    level = layer_at(state, state.order[k])
    log_ratio = -log_newborn(state, level, n_orphans - 1, state.size[N_ACTIVE] - 1, 1)
    return Proposal(DEATH, i, k, state.order[k], log_ratio)


@jit
def layer_order(rng, state):
    """Another order for i, any node, within its layer: it says nothing but the layer. Never rejected."""
    i = any_node(rng, state)
    if i < state.size[N_OBSERVED] or state.size[FAMILY] == BUFFET:
        return Proposal(ORDER, i, -1, state.order[i], -math.inf)
    return Proposal(ORDER, i, -1, height_in(rng, state, layer_at(state, state.order[i])), 0.0)
