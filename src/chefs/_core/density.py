"""The density of a graph (Eq. 9 of the paper without its 1/K⁺!) and what single changes do to it.

Which density is meant, that of the chefs or that of a buffet, is in the state. Of a buffet, f is

exp(−αγ Σ_l [ψ(α+K_l) − ψ(α)]) Π_hidden αγ (m−1)! / (α+N−m)^(rising m) / length of the layer

with K_l the nodes of layer l, customers of the next, and N those that a node may have as children. Functions that begin
with `chefs` or `layer` are for one of the two: the loops of the chain call them directly.

Counts are subtracted from each other before α is added: 1e-20 + 2 − 2 would be 0.
"""

import math

from chefs._core.jit import jit
from chefs._core.layers import floor_of, layer_at, n_customers, n_layers, n_under
from chefs._core.state import (
    ALPHA,
    BUFFET,
    CHEFS,
    EXTENDED,
    FAMILY,
    GAMMA,
    N_ACTIVE,
    N_OBSERVED,
    PHI,
    first_above,
    n_at_or_below,
)


@jit
def log_prob(heights, n_children, n_below, n_observed, alpha, gamma, phi):
    """Log f(Z, θ) from the sorted orders and the counts of each node: the gaps, then one factor for each node."""
    total = -alpha * gamma * exposure(heights, alpha)
    for k in range(heights.size):
        m, below = n_children[k], n_below[k]
        if k < n_observed:
            total += log_rising(phi, m) + log_rising(alpha, below - m) - log_rising(alpha + phi, below)
        elif m == 0:
            return -math.inf
        else:
            total += log_hidden(m, below, alpha, gamma)
    return total


@jit
def log_hidden(m, below, alpha, gamma):
    """Log of the factor of a hidden node with m children out of `below`: αγ (m−1)! / (α+↓−m)^(rising m)."""
    return math.log(alpha) + math.log(gamma) + math.lgamma(m) - log_rising(alpha + (below - m), m)


@jit
def log_rising(x, n):
    """Log x (x+1) … (x+n−1). A sum, because a difference of log-gammas loses all digits where x is large."""
    total, product = 0.0, 1.0
    for i in range(n):
        product *= x + i
        if not 1e-100 < product < 1e100:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@jit
def exposure(heights, alpha):
    """Σ_j (θ_(j+1) − θ_(j)) [ψ(α+j) − ψ(α)]: how long, and to how many nodes, a hidden node could have appeared."""
    total, harmonic = 0.0, 0.0
    for j in range(heights.size):
        harmonic += 1.0 / (alpha + j)
        upper = heights[j + 1] if j + 1 < heights.size else 1.0
        total += (upper - heights[j]) * harmonic
    return total


@jit
def log_prob_of_state(state, alpha, gamma, phi):
    """The density of a state under hyperparameters that need not be its own."""
    if state.size[FAMILY] != CHEFS:
        return layer_log_prob(state, alpha, gamma)
    n_active = state.size[N_ACTIVE]
    heights = state.order[state.ranking[:n_active]]
    return log_prob(heights, state.n_children, state.n_below, state.size[N_OBSERVED], alpha, gamma, phi)


@jit
def one_more_below(state, node):
    """Factor by which the density changes when ↓ of `node` grows by one and its children stay."""
    alpha = state.hyper[ALPHA]
    phi = state.hyper[PHI] if node < state.size[N_OBSERVED] else 0.0
    below = state.n_below[node]
    return (alpha + (below - state.n_children[node])) / (alpha + below + phi)


@jit
def one_less_below(state, node):
    """Factor by which the density changes when ↓ of `node` shrinks by one and its children stay."""
    alpha = state.hyper[ALPHA]
    phi = state.hyper[PHI] if node < state.size[N_OBSERVED] else 0.0
    below = state.n_below[node] - 1
    return (alpha + below + phi) / (alpha + (below - state.n_children[node]))


@jit
def chefs_insertion(state, height):
    """Log f'/f for a new hidden node with one child at `height`, everything else kept. O(nodes above)."""
    alpha, gamma = state.hyper[ALPHA], state.hyper[GAMMA]
    n_active = state.size[N_ACTIVE]
    start = n_at_or_below(state, height)
    below = start
    while below > 0 and state.order[state.ranking[below - 1]] == height:
        below -= 1
    gaps, factor, total, lower = 0.0, 1.0, 0.0, height
    for j in range(start, n_active):
        node = state.ranking[j]
        gaps += (state.order[node] - lower) / (alpha + j)
        lower = state.order[node]
        factor *= one_more_below(state, node)
        if factor < 1e-200:
            total += math.log(factor)
            factor = 1.0
    gaps += (1.0 - lower) / (alpha + n_active)
    return total + math.log(factor * alpha * gamma / (alpha + (below - 1))) - alpha * gamma * gaps


@jit
def chefs_removal(state, node):
    """Log f'/f for taking out a hidden node that has one child, everything else kept: minus its insertion."""
    alpha, gamma = state.hyper[ALPHA], state.hyper[GAMMA]
    n_active = state.size[N_ACTIVE]
    at = state.position[node]
    gaps, factor, total, lower = 0.0, 1.0, 0.0, state.order[node]
    for j in range(at + 1, n_active):
        other = state.ranking[j]
        gaps += (state.order[other] - lower) / (alpha + j - 1)
        lower = state.order[other]
        if lower > state.order[node]:
            factor *= one_less_below(state, other)
        if factor > 1e200:
            total += math.log(factor)
            factor = 1.0
    gaps += (1.0 - lower) / (alpha + n_active - 1)
    return total + math.log(factor * (alpha + (state.n_below[node] - 1)) / (alpha * gamma)) + alpha * gamma * gaps


@jit
def log_jump(state, node, c, other, other_below):
    """Log f'/f where `node`, with c others below it, passes upwards over `other`, which had it below.

    `other_below` is ↓ of `other` without `node`.
    """
    alpha = state.hyper[ALPHA]
    n_observed = state.size[N_OBSERVED]
    own_phi = state.hyper[PHI] if node < n_observed else 0.0
    other_phi = state.hyper[PHI] if other < n_observed else 0.0
    up = (alpha + (c - state.n_children[node])) / (alpha + c + own_phi)
    down = (alpha + other_below + other_phi) / (alpha + (other_below - state.n_children[other]))
    return math.log(up * down)


@jit
def log_reorder(state, node, height):
    """Log f'/f for moving `node` to `height`, between its children and its parents. O(nodes between)."""
    alpha, gamma = state.hyper[ALPHA], state.hyper[GAMMA]
    n_active = state.size[N_ACTIVE]
    at, here, old = state.position[node], state.order[node], state.order[node]
    if height == old:
        return 0.0
    total, gaps = 0.0, 0.0
    if height < old:
        for p in range(at + 1, first_above(state, node)):  # those it was tied with will have it below them
            total += math.log(one_more_below(state, state.ranking[p]))
    while at + 1 < n_active and state.order[state.ranking[at + 1]] <= height:
        other = state.ranking[at + 1]
        gaps += (state.order[other] - here) / (alpha + at)
        if state.order[other] > old:
            total += math.log(one_less_below(state, other))
        here = state.order[other]
        at += 1
    while at > 0 and state.order[state.ranking[at - 1]] > height:
        other = state.ranking[at - 1]
        gaps -= (here - state.order[other]) / (alpha + at)
        total += math.log(one_more_below(state, other))
        here = state.order[other]
        at -= 1
    gaps += (height - here) / (alpha + at)
    below = at  # ↓ of the node once it has moved: nodes at `height` itself do not count
    while below > 0 and state.order[state.ranking[below - 1 + (height > old)]] == height:
        below -= 1
    return total + alpha * gamma * gaps + log_own_reorder(state, node, below)


@jit
def log_own_reorder(state, node, below):
    """Log of the factor of `node` alone once ↓ is `below`, minus the same now; its children stay."""
    alpha = state.hyper[ALPHA]
    phi = state.hyper[PHI] if node < state.size[N_OBSERVED] else 0.0
    now, m, total = state.n_below[node], state.n_children[node], 0.0
    for c in range(min(now, below), max(now, below)):
        total += math.log((alpha + (c - m)) / (alpha + c + phi))
    return total if below > now else -total


@jit
def chefs_odds(state, parent, child):
    """Log p(Z_ki = 1 given the rest) − log p(Z_ki = 0 given the rest); never infinite for a candidate."""
    alpha = state.hyper[ALPHA]
    others = state.n_children[parent] - state.parents[child, parent]
    phi = state.hyper[PHI] if parent < state.size[N_OBSERVED] else 0.0
    return math.log((others + phi) / (alpha + (state.n_below[parent] - 1 - others)))


@jit
def layer_odds(state, parent, child):
    """`chefs_odds` for buffets: of n other children among N − 1 others, n / (α + N − 1 − n)."""
    others = state.n_children[parent] - state.parents[child, parent]
    customers = n_customers(state, layer_at(state, state.order[parent]))
    return math.log(others / (state.hyper[ALPHA] + (customers - 1 - others)))


@jit
def layer_log_prob(state, alpha, gamma):
    """The density of a state that belongs to a buffet."""
    total = -alpha * gamma * layer_exposure(state, alpha)
    for k in range(state.size[N_OBSERVED], state.size[N_ACTIVE]):
        level = layer_at(state, state.order[k])
        total += log_hidden(state.n_children[k], n_customers(state, level), alpha, gamma) - log_length(state, level)
    return total - log_repeats(state) if state.size[FAMILY] == BUFFET else total


@jit
def layer_exposure(state, alpha):
    """Σ_l [ψ(α+K_l) − ψ(α)] over the layers that have a buffet above them."""
    total, first = 0.0, 0
    for level in range(n_layers(state)):
        last = n_under(state, level + 1)
        if last == first:
            break  # nothing is above an empty layer
        for j in range(last - first):
            total += 1.0 / (alpha + j)
        first = last
    return total


@jit
def log_length(state, level):
    """Log of the length of a layer: within it orders are uniform."""
    return math.log(floor_of(state, level + 1) - floor_of(state, level))


@jit
def log_repeats(state):
    """Log Π_h K_h!, with K_h the hidden nodes that have the children h: in one place, they cannot be told apart."""
    n_observed, total = state.size[N_OBSERVED], 0.0
    for k in range(n_observed, state.size[N_ACTIVE]):
        alike = 1
        for other in range(n_observed, k):
            same = True
            for i in range(n_observed):
                same = same and state.parents[i, k] == state.parents[i, other]
            alike += same
        total += math.log(alike)
    return total


@jit
def layer_insertion(state, level, itself):
    """Log f'/f for a new node with one child in a layer; `itself` is 1 where the state has this node already.

    αγ / (α+N−1) · exp(−αγ / (α+K)) · Π_k (α+N_k−m_k) / (α+N_k) / length, with K the nodes of the layer and k those
    that may have them as children: the newborn is itself a customer of the next buffet, who takes nothing.
    """
    alpha, gamma = state.hyper[ALPHA], state.hyper[GAMMA]
    total = math.log(alpha * gamma / (alpha + (n_customers(state, level) - 1))) - log_length(state, level)
    if level == n_layers(state):
        return total
    first = n_under(state, level + 1)
    last = state.size[N_ACTIVE] if state.size[FAMILY] == EXTENDED else n_under(state, level + 2)
    factor = 1.0
    for p in range(first, last):
        k = state.ranking[p]
        customers = n_customers(state, layer_at(state, state.order[k])) - itself
        factor *= (alpha + (customers - state.n_children[k])) / (alpha + customers)
        if factor < 1e-200:
            total += math.log(factor)
            factor = 1.0
    total -= alpha * gamma / (alpha + (first - n_under(state, level) - itself))
    return total + math.log(factor)
