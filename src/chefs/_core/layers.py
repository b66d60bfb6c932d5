"""Layers: how buffets read the orders of a graph, and what they count in it.

Observed nodes are at order 0, layer 0. A unit of layer l of a cascade is in [1 − 2^−l, 1 − 2^−(l+1)), anywhere; the
dishes of the Indian buffet are all at 1, its layer 1. An edge into a layer comes from the next one or, in an extended
cascade, from any above; but every unit has a child in the layer just below its own.
"""

import math

from chefs._core.jit import jit
from chefs._core.state import BUFFET, EXTENDED, FAMILY, N_ACTIVE

MOST_LAYERS = 40  # of hidden units: beyond, numbers of 64 bits could not tell the orders of a layer apart


@jit
def n_layers(state):
    """The largest number of hidden layers: the units of the last one are no customers."""
    return 1 if state.size[FAMILY] == BUFFET else MOST_LAYERS


@jit
def cascade_floor(level):
    """1 − 2^−level."""
    return 1.0 - math.ldexp(1.0, -level)


@jit
def floor_of(state, level):
    """The smallest order of a layer; that of the next layer is where it ends."""
    return float(level) if state.size[FAMILY] == BUFFET else cascade_floor(level)


@jit
def layer_at(state, height):
    """The layer of an order: 1 − height lies in (2^−(l+1), 2^−l]."""
    if state.size[FAMILY] == BUFFET:
        return int(height)
    fraction, exponent = math.frexp(1.0 - height)
    return 1 - exponent if fraction == 0.5 else -exponent


@jit
def n_under(state, level):
    """Number of nodes in the layers below `level`; the nodes of `level` come next in the ranking."""
    floor = floor_of(state, level)
    first, last = 0, state.size[N_ACTIVE]
    while first < last:
        middle = (first + last) // 2
        if state.order[state.ranking[middle]] < floor:
            first = middle + 1
        else:
            last = middle
    return first


@jit
def n_customers(state, level):
    """N: how many nodes a unit of this layer may have as children, in the layer below or, extended, in all below."""
    below = n_under(state, level)
    return below if state.size[FAMILY] == EXTENDED else below - n_under(state, level - 1)


@jit
def parents_between(state, i):
    """From where to where in the ranking the nodes are that i may have as parents."""
    level = layer_at(state, state.order[i])
    first = n_under(state, level + 1)
    if state.size[FAMILY] == EXTENDED:
        return first, state.size[N_ACTIVE]
    return first, n_under(state, level + 2)


@jit
def fits_layers(state, k, i):
    """Whether k → i may be added or removed: k is in a layer from which it may, and keeps a child just below."""
    level = layer_at(state, state.order[k])
    steps = level - layer_at(state, state.order[i])
    if state.size[FAMILY] != EXTENDED:
        return steps == 1 and state.n_children[k] - state.parents[i, k] > 0
    if steps == 1:
        for p in range(n_under(state, level - 1), n_under(state, level)):
            other = state.ranking[p]
            if other != i and state.parents[other, k]:
                return True
    return steps > 1


@jit
def height_between(rng, low, high):
    """Uniform on [low, high): drawn again where rounding gives `high` itself."""
    while True:
        height = low + (high - low) * rng.random()
        if height < high:
            return height


@jit
def height_in(rng, state, level):
    """An order within a layer, uniformly; the Indian buffet has a single one."""
    if state.size[FAMILY] == BUFFET:
        return 1.0
    return height_between(rng, cascade_floor(level), cascade_floor(level + 1))
