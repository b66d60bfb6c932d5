"""Counts over many graphs at once."""

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
