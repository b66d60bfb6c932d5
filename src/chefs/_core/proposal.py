"""What every proposal is, and what proposals of all families ask of a state."""

from typing import NamedTuple

from chefs._core.jit import jit
from chefs._core.state import MAX_HIDDEN, N_ACTIVE, N_OBSERVED

EDGE, BIRTH, DEATH, ORDER, DEEPEN, FLATTEN = 0, 1, 2, 3, 4, 5


class Proposal(NamedTuple):
    """One change that could be made; −∞ as `log_ratio` says that there is none to make."""

    kind: int
    node: int  # the child of the edge, of the newborn or of the dying node; the node that changes its order
    other: int  # the parent of the edge; the node that dies or is flattened; the parent above a deepened edge
    height: float  # the new order, where there is one
    log_ratio: float


@jit
def any_node(rng, state):
    """A node, uniformly."""
    return int(rng.random() * state.size[N_ACTIVE])


@jit
def is_locked(state, parent, child):
    """Whether the user has fixed the presence or absence of this edge."""
    n_observed = state.size[N_OBSERVED]
    return parent < n_observed and child < n_observed and state.locked[child, parent]


@jit
def no_room_for_birth(state):
    """Whether the largest number of hidden nodes is reached."""
    return state.size[N_ACTIVE] - state.size[N_OBSERVED] >= state.size[MAX_HIDDEN]


@jit
def is_singleton_orphan(state, node):
    """A hidden node with one child and no parent."""
    return node >= state.size[N_OBSERVED] and state.n_children[node] == 1 and state.n_parents[node] == 0


@jit
def n_singleton_orphans(state, i):
    """K*_i: how many parents of i are singleton orphans."""
    count = 0
    for k in range(state.size[N_OBSERVED], state.size[N_ACTIVE]):
        if state.parents[i, k] and is_singleton_orphan(state, k):
            count += 1
    return count


@jit
def singleton_orphan(state, i, left):
    """The singleton-orphan parent of i that comes after `left` others."""
    k = state.size[N_OBSERVED]
    while True:
        if state.parents[i, k] and is_singleton_orphan(state, k):
            if left == 0:
                return k
            left -= 1
        k += 1
