"""Graphs up to renaming hidden nodes: colour refinement, and an exact search where colours do not decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from chefs.dag import Dag, FloatArray


def refined(dag: Dag, labels: FloatArray) -> NDArray[np.int64]:
    """Colours of the nodes that do not depend on how hidden nodes are numbered (colour refinement).

    Observed nodes start with their number, hidden ones with their label; a node's colour then takes in the colours of
    its children and of its parents until the number of colours stands still.
    """
    n = dag.n_observed
    bits = (labels + 0.0).view(np.int64).tolist()  # hash(x) of a float x will not do: it is also that of x/2^61
    colours = np.array([hash((i if i < n else -1, x >> 32, x % 2**32)) for i, x in enumerate(bits)])
    n_colours = 0
    while len(set(colours)) > n_colours:
        n_colours = len(set(colours))
        if n_colours == dag.n_nodes and n_colours > n:
            # All nodes are told apart: one more round ties the edges to the colours, then nothing can change.
            return next_colours(dag, colours)
        colours = next_colours(dag, colours)
    return colours


def next_colours(dag: Dag, colours: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each colour together with those of the children and of the parents."""
    return np.array(
        [
            hash((colours[i], tuple(np.sort(colours[dag.edges[i]])), tuple(np.sort(colours[dag.edges[:, i]]))))
            for i in range(dag.n_nodes)
        ]
    )


def isomorphic(a: Dag, b: Dag, a_labels: FloatArray, b_labels: FloatArray) -> bool:
    """Whether one graph becomes the other, labels and all, by renaming hidden nodes."""
    if (a.n_nodes, a.n_observed, a.n_edges) != (b.n_nodes, b.n_observed, b.n_edges):
        return False
    a_colours, b_colours = refined(a, a_labels), refined(b, b_labels)
    a_rank = np.concatenate([np.arange(a.n_observed), a.n_observed + np.argsort(a_colours[a.n_observed :])])
    b_rank = np.concatenate([np.arange(b.n_observed), b.n_observed + np.argsort(b_colours[b.n_observed :])])
    if not (a_colours[a_rank] == b_colours[b_rank]).all():
        return False
    same_edges = (a.edges[np.ix_(a_rank, a_rank)] == b.edges[np.ix_(b_rank, b_rank)]).all()
    if same_edges and (a_labels[a_rank] == b_labels[b_rank]).all():
        return True
    if np.unique(a_colours).size == a.n_nodes:
        return False
    import networkx

    graphs = []
    for dag, labels, colours in ((a, a_labels, a_colours), (b, b_labels, b_colours)):
        graph = dag.to_networkx()
        for i, kind in enumerate(zip(labels.tolist(), colours.tolist(), strict=True)):
            graph.nodes[i]["kind"] = (min(i, dag.n_observed), *kind)
        graphs.append(graph)
    same = networkx.algorithms.isomorphism.categorical_node_match("kind", None)
    return networkx.is_isomorphic(*graphs, node_match=same)
