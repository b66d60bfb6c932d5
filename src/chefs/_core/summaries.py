"""What graphs have in common and what their edges alone say."""

import numpy as np

from chefs._core.jit import jit


@jit
def count_ancestors(node_start, edge_start, order, parent, child, total):
    """Add one to total[k, i] for every graph in which observed k is an ancestor of observed i."""
    n_observed = total.shape[0]
    for g in range(node_start.size - 1):
        n = node_start[g + 1] - node_start[g]
        reaches = np.zeros((n, n_observed), dtype=np.bool_)
        first, last = edge_start[g], edge_start[g + 1]
        heights = order[node_start[g] + child[first:last]]
        for e in np.argsort(heights, kind="mergesort"):  # lower children first: what they reach is known by then
            k, i = parent[first + e], child[first + e]
            if i < n_observed:
                reaches[k, i] = True
            reaches[k] |= reaches[i]
        for k in range(n_observed):
            for i in range(n_observed):
                total[k, i] += reaches[k, i]


@jit
def level_orders(order, parent, child):
    """Orders that depend on the edges alone: the height of each node above the lowest, as a share of all heights."""
    level = np.zeros(order.size)
    for e in np.argsort(order[child], kind="mergesort"):  # lower children first: their own level is known by then
        level[parent[e]] = max(level[parent[e]], level[child[e]] + 1.0)
    return level / (level.max() + 1.0)
