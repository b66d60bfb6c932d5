"""Splits and merges: one hidden unit in the place of two that do its work together, and back.

Chains from an empty graph find pairs k → h with the same children, and with weights in nearly the same proportions,
where one unit would do; no edge, birth or death leads out of them. A merge takes k away and gives h other weights,
bias, precision and activations at once; a split is its reverse. Weights of the children are drawn first, and forgotten
after the move. Given them, the activations of all points are as good as integrated out on both sides (`given_children`,
`pair_given_children`), so that what is left to guess is a handful of numbers.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
from scipy.special import expit

from chefs._core.births import given_children
from chefs._core.density import log_prob_of_state
from chefs._core.network import (
    NEWBORN_LOG_MASS,
    Gram,
    NetworkState,
    draw_weights,
    gram_of,
    network_with_room,
    rows_of_parents,
    weights_of_entries,
)
from chefs._core.pairs import Pair, pair_given_children
from chefs._core.state import (
    CHEFS,
    FAMILY,
    MAX_HIDDEN,
    N_ACTIVE,
    N_OBSERVED,
    GraphState,
    add_edge,
    copy,
    insert,
    remove,
    remove_edge,
)
from chefs.dag import FloatArray, IntArray
from chefs.network.merge_draws import (
    Ties,
    Unit,
    draw_pair,
    draw_unit,
    guess_unit,
    log_draw_pair,
    log_draw_unit,
    log_numbers_of_pair,
    log_numbers_of_unit,
)

RATE = 0.01  # attempts a step: one that goes on to the points costs as much as fifty trajectories of a small network
SPLITS = 0.5  # share of splits among them: the fewer they are, the less is a merge accepted
MOST_LOG_RHO, LEAST_LOG_RHO = 40.0, math.log(1e-12)  # of a unit in size, and of the units of a pair


def merge_moves(rng: np.random.Generator, state: NetworkState, n_moves: int) -> tuple[NetworkState, int, int]:
    """Try splits and merges: the state, which may have grown, how often it was tried, how many were accepted.

    Where there is nothing to split or to merge an attempt ends at once, and counts as one. Only the ICP has them: the
    orders of other priors are those of layers, of which a split would have to draw one.
    """
    n_accepted = 0
    for _ in range(n_moves):
        with suppress(np.linalg.LinAlgError):  # what a merge would draw cannot be computed: nor can what a split would
            state, changed = _try(rng, state)
            n_accepted += changed
    return state, n_moves, n_accepted


def _try(rng: np.random.Generator, state: NetworkState) -> tuple[NetworkState, bool]:
    """A split or a merge of what there is."""
    graph = state.graph
    if graph.size[FAMILY] != CHEFS:
        return state, False
    if rng.random() < SPLITS:
        units = units_to_split(graph)
        if not len(units) or graph.size[N_ACTIVE] - graph.size[N_OBSERVED] >= graph.size[MAX_HIDDEN]:
            return state, False
        return try_split(rng, state, gram_of(state), int(rng.choice(units)))
    pairs = pairs_to_merge(graph)
    return state, bool(pairs) and try_merge(rng, state, gram_of(state), *pairs[rng.integers(len(pairs))])


def have_compiled(rng: np.random.Generator, state: NetworkState) -> None:
    """Try a split, which a short run may not come to: it needs what takes longest to compile of a merge, too."""
    with suppress(np.linalg.LinAlgError):
        for m in units_to_split(state.graph)[:1]:
            try_split(rng, state, gram_of(state), int(m))


def units_to_split(graph: GraphState) -> IntArray:
    """Hidden units without parents that have two children at least."""
    nodes = np.arange(graph.size[N_OBSERVED], graph.size[N_ACTIVE])
    return nodes[(graph.n_parents[nodes] == 0) & (graph.n_children[nodes] > 1)]


def pairs_to_merge(graph: GraphState) -> list[tuple[int, int]]:
    """All (h, k) such that k → h, neither has another parent, and they have the same other children, two at least."""
    n, found = graph.size[N_ACTIVE], []
    for h in range(graph.size[N_OBSERVED], n):
        if graph.n_parents[h] == 1 and graph.n_children[h] > 1:
            k = int(graph.parents[h, :n].argmax())
            alone = k >= graph.size[N_OBSERVED] and graph.n_parents[k] == 0
            same = graph.n_children[k] == graph.n_children[h] + 1 and graph.parents[:n, k][graph.parents[:n, h]].all()
            if alone and same:
                found.append((h, k))
    return found


def with_partner(graph: GraphState, m: int, height: float) -> None:
    """Add k above m with the same children, and with m for one; there must be room."""
    k = insert(graph, height)
    for c in [*children(graph, m), m]:
        add_edge(graph, k, c)


def without_partner(graph: GraphState, k: int) -> None:
    """Take k out, with its edges; the last node takes its number."""
    for c in children(graph, k):
        remove_edge(graph, k, c)
    remove(graph, k)


def children(graph: GraphState, k: int) -> IntArray:
    """The children of a node."""
    return np.flatnonzero(graph.parents[: graph.size[N_ACTIVE], k])


def try_split(rng: np.random.Generator, state: NetworkState, gram: Gram, m: int) -> tuple[NetworkState, bool]:
    """A split of m. Ratio: p(pair) q(pair → unit) / (p(unit) q(unit → pair)), p of graph, numbers and all points."""
    unit, ties = unit_of(rng, state, gram, m), ties_of(rng, state, gram, m)
    if not abs(unit.log_rho) < MOST_LOG_RHO:
        return state, False
    height = state.graph.order[m] + (1.0 - state.graph.order[m]) * rng.random()
    pair, new_ties = draw_pair(rng, unit, ties)
    if min(pair.log_rho_h, pair.log_rho_k) <= LEAST_LOG_RHO:
        return state, False
    a_h, a_k = np.zeros((2, state.a.shape[1]))
    forth = pair_given_children(rng, pair, new_ties.form, a_h, a_k, True) + new_ties.rest
    back = unit_given_children(rng, unit, ties, state.a[m], False)
    if min(forth, back) == -math.inf:  # what no merge can make no split may undo
        return state, False
    state = network_with_room(state)
    graph = copy(state.graph)
    with_partner(graph, m, height)
    log_ratio = log_density(graph) - log_density(state.graph) + log_choice(state.graph, graph, m) + forth - back
    log_ratio += log_numbers_of_pair(pair, new_ties) - log_numbers_of_unit(unit, ties)
    log_ratio += log_draw_unit(guess_unit(new_ties, a_h, a_k), unit, ties) - log_draw_pair(unit, ties, pair, new_ties)
    if not math.log(1.0 - rng.random()) < log_ratio:
        return state, False
    with_partner(state.graph, m, height)
    k = state.graph.size[N_ACTIVE] - 1
    state.a[m], state.a[k] = a_h, a_k
    state.rho[m], state.rho[k] = math.exp(pair.log_rho_h), math.exp(pair.log_rho_k)
    state.log_mass[k] = NEWBORN_LOG_MASS
    return state, True


def try_merge(rng: np.random.Generator, state: NetworkState, gram: Gram, h: int, k: int) -> bool:
    """A merge of h and k into h: the reverse of a split, with the sign of its log ratio changed."""
    pair, ties = pair_of(rng, state, gram, h, k), ties_of(rng, state, gram, h, k)
    guess = guess_unit(ties, state.a[h], state.a[k])
    unit, new_ties = draw_unit(rng, guess, ties)
    if not abs(unit.log_rho) < MOST_LOG_RHO or min(pair.log_rho_h, pair.log_rho_k) <= LEAST_LOG_RHO:
        return False
    a = np.zeros(state.a.shape[1])
    forth = unit_given_children(rng, unit, new_ties, a, True)
    back = pair_given_children(rng, pair, ties.form, state.a[h].copy(), state.a[k].copy(), False) + ties.rest
    if min(forth, back) == -math.inf:  # what no split can make no merge may undo
        return False
    graph = copy(state.graph)
    without_partner(graph, k)
    m = k if h == graph.size[N_ACTIVE] else h
    log_ratio = log_density(graph) - log_density(state.graph) - log_choice(graph, state.graph, m) + forth - back
    log_ratio += log_numbers_of_unit(unit, new_ties) - log_numbers_of_pair(pair, ties)
    log_ratio += log_draw_pair(unit, new_ties, pair, ties) - log_draw_unit(guess, unit, new_ties)
    if not math.log(1.0 - rng.random()) < log_ratio:
        return False
    last = state.graph.size[N_ACTIVE] - 1
    without_partner(state.graph, k)
    state.a[k], state.rho[k], state.log_mass[k] = state.a[last], state.rho[last], state.log_mass[last]
    state.a[m], state.rho[m] = a, math.exp(unit.log_rho)
    return True


def log_choice(graph: GraphState, with_pair: GraphState, m: int) -> float:
    """Log probability of trying to merge back, over that of splitting m with that partner."""
    back = math.log((1.0 - SPLITS) / len(pairs_to_merge(with_pair)))
    return back - math.log(SPLITS / len(units_to_split(graph))) + math.log(1.0 - graph.order[m])


def log_density(graph: GraphState) -> float:
    """Log density of the graph under its own hyperparameters."""
    return log_prob_of_state(graph, *graph.hyper)


def unit_of(rng: np.random.Generator, state: NetworkState, gram: Gram, m: int) -> Unit:
    """A unit without parents; its bias is drawn."""
    return Unit(_weights(rng, state, gram, m)[0], math.log(state.rho[m]))


def pair_of(rng: np.random.Generator, state: NetworkState, gram: Gram, h: int, k: int) -> Pair:
    """A pair; its biases and the weight between are drawn."""
    bias_h, weight = _weights(rng, state, gram, h)
    bias_k, log_rho_k = unit_of(rng, state, gram, k)
    return Pair(bias_h, math.log(state.rho[h]), bias_k, log_rho_k, weight)


def _weights(rng: np.random.Generator, state: NetworkState, gram: Gram, i: int) -> FloatArray:
    return draw_weights(rng, gram, i, rows_of_parents(state.graph, i), state.rho[i])


def ties_of(rng: np.random.Generator, state: NetworkState, gram: Gram, h: int, k: int = -1) -> Ties:
    """The children of h, and of its partner k if there is one; their weights are drawn."""
    nodes = children(state.graph, h)
    bias, weight, other = np.zeros((3, len(nodes)))
    left, counts = np.empty((2, len(nodes), state.a.shape[1]))
    for x, c in enumerate(nodes):
        bias[x], *weights = _weights(rng, state, gram, c)
        left[x], counts[x] = state.a[c], state.rho[c] * weights_of_entries(state, c)
        for parent, w in zip(rows_of_parents(state.graph, c)[1:] - 1, weights, strict=True):
            if parent == h:
                weight[x] = w
            elif parent == k:
                other[x] = w
            else:
                left[x] -= w * expit(state.a[parent])
    return Ties(bias, weight, other, left, counts)


def unit_given_children(rng: np.random.Generator, unit: Unit, ties: Ties, a: FloatArray, drawing: bool) -> float:
    """Draw or score the activations of one unit: Σ_t log [p(a) p(children | a) / q(a)]."""
    form = ties.form
    return given_children(rng, unit.bias, math.exp(unit.log_rho), form.pull_h, form.hh, a, drawing) + ties.rest
