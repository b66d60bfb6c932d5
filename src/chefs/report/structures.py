"""What the draws say about structure: edges and hidden units that many of them share, with their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from chefs._consensus import consensus, match
from chefs._layout import positions
from chefs.dag import Dag, FloatArray, IntArray
from chefs.network.predictive import spread
from chefs.trace import Trace

MOST_MATCHED = 400  # draws whose hidden units are matched
MOST_COMPARED = 2000  # draws among which equal structures are looked for
LEAST_SHARE = 0.25  # of the draws that have an edge, for it to be drawn


class Draw(NamedTuple):
    """One draw: its chain and its number there, the graph, and the weights of its edges."""

    chain: int
    number: int
    dag: Dag
    weights: FloatArray  # [k, i], zero where there is no edge


@dataclass(frozen=True)
class Common:
    """The graph of all edges that at least a quarter of the draws share, and what the draws say about each."""

    graph: Dag
    share: FloatArray  # [k, i]: of the draws with this edge
    weight: FloatArray  # [k, i]: mean where there is the edge
    spread: FloatArray  # [k, i]: standard deviation of the same
    present: FloatArray  # [k]: share of the draws with this node
    reached: FloatArray  # [k, i]: share of the draws with a path from k to i
    x: FloatArray  # [k]: where the node is drawn

    @property
    def names(self) -> list[str]:
        """Names of the hidden units."""
        return [f"H{j + 1}" for j in range(self.graph.n_hidden)]


def draw_at(trace: Trace, number: int) -> Draw:
    """Draw `number`, counted through all chains."""
    c = 0
    while number >= len(trace.chains[c]):
        number -= len(trace.chains[c])
        c += 1
    chain = trace.chains[c]
    dag, edges = chain.dags[number], slice(chain.dags.edge_start[number], chain.dags.edge_start[number + 1])
    weights = np.zeros(dag.edges.shape)
    weights[chain.dags.parent[edges], chain.dags.child[edges]] = chain.edge["weight"][edges]
    return Draw(c, number, dag, weights)


def draws_of(trace: Trace, n: int) -> Iterator[Draw]:
    """At most `n` draws, spread evenly over each chain and as many of each, where it has so many."""
    return (draw_at(trace, int(number)) for number in np.unique(spread(trace, n)))


def compared(trace: Trace) -> IntArray:
    """Numbers of the draws whose structures are compared."""
    return np.unique(spread(trace, MOST_COMPARED))


def most_frequent(trace: Trace) -> list[tuple[Draw, float]]:
    """Structures, most frequent first, with their shares; each as its draw of highest density."""
    numbers = compared(trace)
    dags = [draw_at(trace, int(number)).dag for number in numbers]
    thinned = _thinned(trace, numbers)
    return [(draw_at(trace, int(numbers[draw])), share) for draw, share in thinned._structures(dags)]


def _thinned(trace: Trace, numbers: IntArray) -> Trace:
    """The draws with these numbers, counted through all chains."""
    starts = np.cumsum([0, *(len(chain) for chain in trace.chains)])
    parts = [numbers[(numbers >= a) & (numbers < b)] - a for a, b in pairwise(starts)]
    return Trace([chain.take(part) for chain, part in zip(trace.chains, parts, strict=True)], names=trace.names)


def common(trace: Trace, reference: Dag) -> Common:
    """Edges and units that many draws share, hidden units matched to those of the graph that these edges make."""
    draws = list(draws_of(trace, MOST_MATCHED))
    graph = consensus([draw.dag for draw in draws], reference, LEAST_SHARE)
    n = graph.n_nodes
    share, total, squares, reached = np.zeros((4, n, n))
    present = np.zeros(n)
    for draw in draws:
        place = match(draw.dag, graph)
        ours = np.flatnonzero(place >= 0)
        at = np.ix_(place[ours], place[ours])
        weights = draw.weights[np.ix_(ours, ours)]
        share[at] += draw.dag.edges[np.ix_(ours, ours)]
        total[at] += weights
        squares[at] += weights**2
        reached[at] += _paths(draw.dag)[np.ix_(ours, ours)]
        present[place[ours]] += 1
    times = np.maximum(share, 1)
    mean = total / times
    deviation = np.sqrt(np.maximum(squares / times - mean**2, 0))
    m = len(draws)
    return Common(graph, share / m, mean, deviation, present / m, reached / m, positions(graph)[:, 0])


def _paths(dag: Dag) -> np.ndarray:
    """[k, i]: whether there is a directed path from k to i."""
    found = dag.edges.copy()
    for k in np.argsort(dag.order):  # children are done before their parents
        found[k] |= found[dag.edges[k]].any(axis=0)
    return found
