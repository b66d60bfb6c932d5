"""Moves on a graph: propose, score, apply (section 3 of the paper, with its ratios corrected).

`propose` changes nothing. It returns a `Proposal` whose `log_ratio` holds the prior and proposal terms of the
Metropolis-Hastings ratio; the caller adds the difference of its log-likelihood and, on acceptance, calls `apply`. Where
the prior of the state is a buffet, the moves are those of `cascade`.
"""

import math

import numpy as np

from chefs._core.cascade import layer_birth, layer_death, layer_edge, layer_order
from chefs._core.density import chefs_insertion, chefs_odds, chefs_removal, log_jump, log_reorder
from chefs._core.hyper import update_hyper
from chefs._core.jit import jit
from chefs._core.proposal import (
    BIRTH,
    DEATH,
    DEEPEN,
    EDGE,
    FLATTEN,
    ORDER,
    Proposal,
    any_node,
    is_locked,
    n_singleton_orphans,
    no_room_for_birth,
    singleton_orphan,
)
from chefs._core.state import (
    ALPHA,
    CHEFS,
    FAMILY,
    GAMMA,
    N_ACTIVE,
    N_OBSERVED,
    add_edge,
    copy,
    first_above,
    insert,
    remove,
    remove_edge,
    set_order,
    unpack,
    with_room,
)

KINDS = ("edge", "birth", "death", "order", "deepen", "flatten")
GIBBS_ORDER, HEAT_BATH = 4, 5


@jit
def propose(rng, state, mix):
    """A proposal of a random kind.

    `mix` holds the cumulated probabilities of edge, birth/death, order, deepen/flatten (within a pair both are equally
    likely, so that they reverse each other); then, at GIBBS_ORDER, whether orders are drawn by Gibbs sampling, and, at
    HEAT_BATH, whether edges are.
    """
    u = rng.random()
    if u < mix[0]:
        return propose_edge(rng, state)
    if u < mix[1]:
        return propose_birth(rng, state) if rng.random() < 0.5 else propose_death(rng, state)
    if u < mix[2]:
        return propose_order(rng, state, mix[GIBBS_ORDER] > 0)
    if state.size[FAMILY] != CHEFS:
        return Proposal(DEEPEN, -1, -1, 0.0, -math.inf)  # edges of a buffet run from layer to layer
    return propose_deepen(rng, state) if rng.random() < 0.5 else propose_flatten(rng, state)


@jit
def propose_edge(rng, state):
    """Flip the edge k → i, with i any node and k any node above it. Ratio: the odds of Z_ki given the rest.

    A hidden parent whose one child is i is no candidate: it would cease to be active.
    """
    if state.size[FAMILY] != CHEFS:
        return layer_edge(rng, state)
    n_active = state.size[N_ACTIVE]
    i = any_node(rng, state)
    start = first_above(state, i)
    if start == n_active:
        return Proposal(EDGE, i, -1, 0.0, -math.inf)
    k = state.ranking[start + int(rng.random() * (n_active - start))]
    present = state.parents[i, k]
    if is_locked(state, k, i) or (k >= state.size[N_OBSERVED] and state.n_children[k] - present == 0):
        return Proposal(EDGE, i, k, 0.0, -math.inf)
    odds = chefs_odds(state, k, i)
    return Proposal(EDGE, i, k, 0.0, -odds if present else odds)


@jit
def log_birth_factor(width, n_above, n_orphans, n_active):
    """Log of Δθ (↑_i + 1) K⁺ / ((K*_i + 1) (K⁺ + 1)), counts before the birth: reverse over forward proposal."""
    if width <= 0.0:
        return -math.inf
    return math.log(width * (n_above + 1) * n_active / ((n_orphans + 1) * (n_active + 1)))


@jit
def propose_birth(rng, state):
    """A new hidden parent of i, any node, in one of the ↑_i + 1 intervals above it, uniformly.

    Ratio: f'/f · Δθ (↑_i + 1) K⁺ / ((K*_i + 1) (K⁺ + 1)).
    """
    if state.size[FAMILY] != CHEFS:
        return layer_birth(rng, state)
    n_active = state.size[N_ACTIVE]
    i = any_node(rng, state)
    if no_room_for_birth(state):
        return Proposal(BIRTH, i, -1, 0.0, -math.inf)
    start = first_above(state, i)
    n_above = n_active - start
    p = start + int(rng.random() * (n_above + 1))
    low = state.order[i] if p == start else state.order[state.ranking[p - 1]]
    high = state.order[state.ranking[p]] if p < n_active else 1.0
    height = low + (high - low) * rng.random()
    if not low < height < high:
        return Proposal(BIRTH, i, -1, height, -math.inf)
    factor = log_birth_factor(high - low, n_above, n_singleton_orphans(state, i), n_active)
    return Proposal(BIRTH, i, -1, height, chefs_insertion(state, height) + factor)


@jit
def propose_death(rng, state):
    """Remove one of the K*_i singleton-orphan parents of i, any node, uniformly.

    Ratio: f'/f · K*_i K⁺ / (Δθ (K⁺ − 1) ↑_i), with Δθ the interval that the death leaves: minus that of the birth.
    """
    if state.size[FAMILY] != CHEFS:
        return layer_death(rng, state)
    n_active = state.size[N_ACTIVE]
    i = any_node(rng, state)
    n_orphans = n_singleton_orphans(state, i)
    if n_orphans == 0:
        return Proposal(DEATH, i, -1, 0.0, -math.inf)
    k = singleton_orphan(state, i, int(rng.random() * n_orphans))
    at = state.position[k]
    low = state.order[state.ranking[at - 1]]
    high = state.order[state.ranking[at + 1]] if at + 1 < n_active else 1.0
    n_above = n_active - first_above(state, i) - 1  # without k
    factor = log_birth_factor(high - low, n_above, n_orphans - 1, n_active - 1)
    return Proposal(DEATH, i, k, state.order[k], chefs_removal(state, k) - factor)


@jit
def order_range(state, i):
    """Where i may move: the positions of the nodes that it may pass, and the orders that it may take.

    It stays above its children and below its parents, and within its bounds.
    """
    first = last = state.position[i]
    low, high = state.low[i], state.high[i]
    while first > 0:
        other = state.ranking[first - 1]
        if state.parents[other, i] or state.order[other] <= low:
            low = max(low, state.order[other])
            break
        first -= 1
    while last + 1 < state.size[N_ACTIVE]:
        other = state.ranking[last + 1]
        if state.parents[i, other] or state.order[other] >= high:
            high = min(high, state.order[other])
            break
        last += 1
    return first, last, low, high


@jit
def propose_order(rng, state, gibbs):
    """Another order for i, any node: from its conditional density (never rejected by the prior), or uniformly.

    The uniform move is the paper's; its ratio is f'/f.
    """
    if state.size[FAMILY] != CHEFS:
        return layer_order(rng, state)
    i = any_node(rng, state)
    first, last, low, high = order_range(state, i)
    if not low < high:
        return Proposal(ORDER, i, -1, state.order[i], -math.inf)
    if gibbs:
        height, log_ratio = draw_order(rng, state, i, first, last, low, high), 0.0
    else:
        height = low + (high - low) * rng.random()
        log_ratio = log_reorder(state, i, height)
    if not low < height < high:  # rounding put it on its bound
        return Proposal(ORDER, i, -1, height, -math.inf)
    return Proposal(ORDER, i, -1, height, log_ratio)


@jit
def draw_order(rng, state, i, first, last, low, high):
    """The order of i given everything else: its density is piecewise exponential with breaks at the other orders.

    Where c others are below, it grows at rate αγ / (α + c); where i passes another node it jumps (`log_jump`).
    """
    alpha, gamma = state.hyper[ALPHA], state.hyper[GAMMA]
    at = state.position[i]
    n_pieces = last - first + 1
    cuts = np.empty(n_pieces + 1)
    weights = np.empty(n_pieces)
    cuts[0] = low
    level = 0.0  # log density at the upper end of the piece
    heaviest = -math.inf
    for piece in range(n_pieces):
        c = first + piece
        cuts[piece + 1] = high
        if piece + 1 < n_pieces:
            cuts[piece + 1] = state.order[state.ranking[c if c < at else c + 1]]
        slope = alpha * gamma / (alpha + c)
        width = cuts[piece + 1] - cuts[piece]
        level += slope * width
        weights[piece] = level + log_mean_growth(slope * width) + math.log(width) if width > 0 else -math.inf
        heaviest = max(heaviest, weights[piece])
        if piece + 1 < n_pieces:
            other = state.ranking[c if c < at else c + 1]
            level += log_jump(state, i, c, other, state.n_below[other] - (state.order[other] > state.order[i]))
    total = 0.0
    for piece in range(n_pieces):
        weights[piece] = math.exp(weights[piece] - heaviest)
        total += weights[piece]
    u = rng.random() * total
    piece = 0
    while u >= weights[piece] and piece + 1 < n_pieces:
        u -= weights[piece]
        piece += 1
    width = cuts[piece + 1] - cuts[piece]
    x = alpha * gamma / (alpha + first + piece) * width
    v = rng.random()
    fraction = v if x < 1e-12 else 1.0 + math.log1p((1.0 - v) * math.expm1(-x)) / x
    return cuts[piece] + width * min(max(fraction, 0.0), 1.0)


@jit
def log_mean_growth(x):
    """log((1 − e^−x) / x): the mean of an exponential that falls by x."""
    return -0.5 * x if x < 1e-12 else math.log(-math.expm1(-x) / x)


@jit
def log_deepen_factor(width, n_parents, n_active, n_hidden):
    """Log of K⁺ |parents of i| (θ_k − θ_i) / (hidden nodes + 1), counts before: reverse over forward proposal."""
    return math.log(n_active * n_parents * width / (n_hidden + 1))


@jit
def propose_deepen(rng, state):
    """The edge k → i becomes k → new → i: i any node, k any of its parents, the new order uniform between them.

    Ratio: f'/f · K⁺ |parents of i| (θ_k − θ_i) / (hidden nodes + 1). k keeps its number of children, so f'/f is that of
    a birth.
    """
    n_active = state.size[N_ACTIVE]
    i = any_node(rng, state)
    n_parents = state.n_parents[i]
    if n_parents == 0 or no_room_for_birth(state):
        return Proposal(DEEPEN, i, -1, 0.0, -math.inf)
    left = int(rng.random() * n_parents)
    k = 0
    while True:
        if state.parents[i, k]:
            if left == 0:
                break
            left -= 1
        k += 1
    width = state.order[k] - state.order[i]
    height = state.order[i] + width * rng.random()
    if is_locked(state, k, i) or not state.order[i] < height < state.order[k]:
        return Proposal(DEEPEN, i, k, height, -math.inf)
    factor = log_deepen_factor(width, n_parents, n_active, n_active - state.size[N_OBSERVED])
    return Proposal(DEEPEN, i, k, height, chefs_insertion(state, height) + factor)


@jit
def propose_flatten(rng, state):
    """The path k → h → i becomes k → i, with h any hidden node that has one child, one parent, and no edge k → i.

    Ratio: that of the deepening it reverses, with the sign changed.
    """
    n_active, n_observed = state.size[N_ACTIVE], state.size[N_OBSERVED]
    n_hidden = n_active - n_observed
    if n_hidden == 0:
        return Proposal(FLATTEN, -1, -1, 0.0, -math.inf)
    h = n_observed + int(rng.random() * n_hidden)
    if state.n_children[h] != 1 or state.n_parents[h] != 1:
        return Proposal(FLATTEN, -1, h, 0.0, -math.inf)
    i, k = only_child(state, h), only_parent(state, h)
    if state.parents[i, k] or is_locked(state, k, i):
        return Proposal(FLATTEN, i, h, 0.0, -math.inf)
    width = state.order[k] - state.order[i]
    factor = log_deepen_factor(width, state.n_parents[i], n_active - 1, n_hidden - 1)
    return Proposal(FLATTEN, i, h, state.order[h], chefs_removal(state, h) - factor)


@jit
def only_child(state, h):
    """The child of a node that has one."""
    p = state.position[h] - 1
    while not state.parents[state.ranking[p], h]:
        p -= 1
    return state.ranking[p]


@jit
def only_parent(state, h):
    """The parent of a node that has one."""
    p = state.position[h] + 1
    while not state.parents[h, state.ranking[p]]:
        p += 1
    return state.ranking[p]


@jit
def apply(state, proposal):
    """Make the proposed change. There must be room for one more node."""
    i, k = proposal.node, proposal.other
    if proposal.kind == EDGE:
        if state.parents[i, k]:
            remove_edge(state, k, i)
        else:
            add_edge(state, k, i)
    elif proposal.kind == BIRTH:
        add_edge(state, insert(state, proposal.height), i)
    elif proposal.kind == DEATH:
        remove_edge(state, k, i)
        remove(state, k)
    elif proposal.kind == ORDER:
        set_order(state, i, proposal.height)
    elif proposal.kind == DEEPEN:
        new = insert(state, proposal.height)
        remove_edge(state, k, i)
        add_edge(state, k, new)
        add_edge(state, new, i)
    elif proposal.kind == FLATTEN:
        parent = only_parent(state, k)
        remove_edge(state, parent, k)
        remove_edge(state, k, i)
        add_edge(state, parent, i)
        remove(state, k)


@jit
def accepts(rng, proposal, log_likelihood_ratio, heat_bath):
    """Metropolis' rule; for edges, where asked, the heat bath, which is Gibbs sampling of the edge."""
    log_ratio = proposal.log_ratio + log_likelihood_ratio
    if not log_ratio > -math.inf:  # also where a likelihood is nan
        return False
    u = 1.0 - rng.random()
    if heat_bath and proposal.kind == EDGE:
        return math.log(u) < -math.log1p(math.exp(-log_ratio)) if log_ratio > -700.0 else False
    return math.log(u) < log_ratio


@jit
def run(rng, state, mix, hyperprior, n_moves, tally):
    """`n_moves` moves under the prior alone, then the hyperparameters; counts go to tally[kind] = (made, accepted).

    Returns the state, which may have grown.
    """
    for _ in range(n_moves):
        state = with_room(state)
        proposal = propose(rng, state, mix)
        tally[proposal.kind, 0] += 1
        if accepts(rng, proposal, 0.0, mix[HEAT_BATH] > 0):
            apply(state, proposal)
            tally[proposal.kind, 1] += 1
    update_hyper(rng, state, hyperprior)
    return state


@jit
def tried_out(state, proposal):
    """A copy of the state with the change made, and its graph as `unpack` gives it; the state itself stays."""
    candidate = copy(state)
    apply(candidate, proposal)
    return candidate, unpack(candidate)


@jit
def advance(rng, state, mix, uses_order, n_moves, tally):
    """Make moves until one is proposed that the likelihood must judge, or `n_moves` are made.

    Moves that the likelihood cannot see (impossible ones, orders where it does not use them) are settled here. Returns
    the state, which may have grown, the proposal (log_ratio −∞ where there is none) and the number of moves left.
    """
    while n_moves > 0:
        n_moves -= 1
        state = with_room(state)
        proposal = propose(rng, state, mix)
        tally[proposal.kind, 0] += 1
        if proposal.kind == ORDER and not uses_order:
            if accepts(rng, proposal, 0.0, False):
                apply(state, proposal)
                tally[ORDER, 1] += 1
        elif proposal.log_ratio > -math.inf:
            return state, proposal, n_moves
    return state, Proposal(EDGE, -1, -1, 0.0, -math.inf), 0
