"""Dags: many graphs at once, held ragged, because building an object costs more than drawing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from chefs.dag import Dag, FloatArray, IntArray, counted, shown


class Dags(Sequence[Dag]):
    """Many graphs over the same observed nodes, held end to end in flat arrays; a `Dag` is made when one is taken out.

    Args:
        n_observed: How many nodes of each graph are observed.
        node_start: Graph g has the nodes node_start[g] … node_start[g+1]−1 of `order`.
        edge_start: Likewise for `parent` and `child`.
        order: Orders of all nodes.
        parent: Parent of each edge, numbered within its graph.
        child: Child of each edge.
    """

    def __init__(
        self,
        n_observed: int,
        node_start: IntArray,
        edge_start: IntArray,
        order: FloatArray,
        parent: IntArray,
        child: IntArray,
    ) -> None:
        self.n_observed = n_observed
        self.node_start = node_start
        self.edge_start = edge_start
        self.order = order
        self.parent = parent
        self.child = child

    def __len__(self) -> int:
        return self.node_start.size - 1

    @property
    def n_nodes(self) -> IntArray:
        """Number of nodes of each graph."""
        return np.diff(self.node_start)

    @property
    def n_hidden(self) -> IntArray:
        """Number of hidden nodes of each graph."""
        return self.n_nodes - self.n_observed

    @property
    def n_edges(self) -> IntArray:
        """Number of edges of each graph."""
        return np.diff(self.edge_start)

    @overload
    def __getitem__(self, index: int) -> Dag: ...
    @overload
    def __getitem__(self, index: slice) -> Dags: ...
    def __getitem__(self, index: int | slice) -> Dag | Dags:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise TypeError(f"a graph is taken out by its number or a slice; found {shown(index)}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} does not exist: there are {len(self)}, numbered from 0")
        g = int(index) % len(self)
        nodes = slice(self.node_start[g], self.node_start[g + 1])
        edges = slice(self.edge_start[g], self.edge_start[g + 1])
        return Dag._trusted(self.order[nodes].copy(), self.parent[edges], self.child[edges], self.n_observed)

    def __iter__(self) -> Iterator[Dag]:
        return (self[g] for g in range(len(self)))

    def take(self, indices: IntArray) -> Dags:
        """The graphs with these numbers."""
        nodes = ragged_indices(self.node_start, indices)
        edges = ragged_indices(self.edge_start, indices)
        return Dags(
            self.n_observed,
            starts(self.n_nodes[indices]),
            starts(self.n_edges[indices]),
            self.order[nodes],
            self.parent[edges],
            self.child[edges],
        )

    def __repr__(self) -> str:
        n_hidden = self.order.size - len(self) * self.n_observed
        return f"Dags({counted(len(self), 'graph')}, {counted(self.n_observed, 'observed node')}, {n_hidden} hidden)"


def starts(lengths: IntArray) -> IntArray:
    """Where each piece begins when pieces of these lengths lie end to end; one more entry for the end of all."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def ragged_indices(start: IntArray, pieces: IntArray) -> IntArray:
    """Positions, in a flat array, of the entries of these pieces, in their order."""
    lengths = (start[1:] - start[:-1])[pieces]
    shift = np.repeat(start[:-1][pieces] - starts(lengths)[:-1], lengths)
    return np.arange(int(lengths.sum())) + shift
