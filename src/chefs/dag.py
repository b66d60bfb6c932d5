"""Dag: an immutable directed acyclic graph with an order on its nodes, some observed, the rest hidden.

Section 2 of the paper: an edge may run from k to i only where the order of k is strictly above that of i, so a `Dag`
is acyclic by construction, and only *active* hidden nodes are kept, those with an observed descendant.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chefs._isomorphism import isomorphic, refined

if TYPE_CHECKING:
    import networkx

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dag:
    """A directed acyclic graph whose nodes carry orders; nodes 0 … n_observed−1 are observed, the rest hidden.

    Two graphs are equal when one becomes the other by renaming hidden nodes.

    Args:
        edges: Square matrix; `edges[k, i]` says that k is a parent of i.
        order: Order of each node in [0, 1]; a parent is strictly above its children.
        n_observed: How many nodes are observed; they come first.

    >>> dag = Dag([[0, 0, 0], [0, 0, 0], [1, 1, 0]], [0.0, 0.0, 0.5], n_observed=2)
    >>> dag
    Dag(2 observed, 1 hidden, 2 edges: 2→0, 2→1)
    >>> dag.depth
    1
    """

    edges: BoolArray
    order: FloatArray
    n_observed: int

    def __init__(self, edges: ArrayLike, order: ArrayLike, n_observed: int) -> None:
        edges, order = _checked_arrays(edges, order)
        n_observed = _checked_count(n_observed, order.size)
        wrong = np.argwhere(edges & ~(order[:, None] > order[None, :]))
        if wrong.size:
            k, i = wrong[0]
            raise ValueError(
                f"edge {k}→{i} runs against the order: order[{k}] = {order[k]:g} must be strictly greater than "
                f"order[{i}] = {order[i]:g}"
            )
        idle = np.flatnonzero(~edges[n_observed:].any(axis=1))
        if idle.size:
            raise ValueError(
                f"hidden node {n_observed + idle[0]} has no child, so it is not active: give it a child or leave it out"
            )
        self._set(edges, order, n_observed)

    def _set(self, edges: BoolArray, order: FloatArray, n_observed: int) -> None:
        edges.flags.writeable = False
        order.flags.writeable = False
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "n_observed", n_observed)

    @classmethod
    def _trusted(cls, order: FloatArray, parent: IntArray, child: IntArray, n_observed: int) -> Dag:
        """From arrays that a kernel made: no checks. The arrays are not copied."""
        dag = object.__new__(cls)
        edges = np.zeros((order.size, order.size), dtype=np.bool_)
        edges[parent, child] = True
        dag._set(edges, order, n_observed)
        return dag

    def __reduce__(self) -> tuple[Any, ...]:
        return (Dag, (self.edges, self.order, self.n_observed))

    @property
    def n_nodes(self) -> int:
        """Number of nodes, observed and hidden: K⁺ in the paper."""
        return self.order.size

    @property
    def n_hidden(self) -> int:
        """Number of hidden nodes."""
        return self.n_nodes - self.n_observed

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(np.count_nonzero(self.edges))

    @property
    def average_degree(self) -> float:
        """Edges per node."""
        return self.n_edges / self.n_nodes

    def parents(self, i: int) -> IntArray:
        """Nodes with an edge to i, in increasing number."""
        return np.flatnonzero(self.edges[:, self._node(i)])

    def children(self, k: int) -> IntArray:
        """Nodes with an edge from k, in increasing number."""
        return np.flatnonzero(self.edges[self._node(k)])

    def ancestors(self, i: int) -> IntArray:
        """Nodes with a directed path to i, in increasing number; i is not one of them."""
        found = np.zeros(self.n_nodes, dtype=np.bool_)
        waiting = [self._node(i)]
        while waiting:
            new = self.edges[:, waiting].any(axis=1) & ~found
            found |= new
            waiting = list(np.flatnonzero(new))
        return np.flatnonzero(found)

    @property
    def depth(self) -> int:
        """Number of edges on the longest directed path."""
        height = np.zeros(self.n_nodes, dtype=np.int64)
        for k in np.argsort(self.order, kind="stable"):
            below = self.edges[k]
            if below.any():
                height[k] = height[below].max() + 1
        return int(height.max())

    def width(self, source: int, target: int) -> int:
        """Number of directed paths from `source` to `target`, exactly: it may exceed 64 bits.

        The path without an edge counts, so a node has one path to itself.
        """
        source, target = self._node(source), self._node(target)
        paths = [0] * self.n_nodes
        paths[target] = 1
        for k in np.argsort(self.order, kind="stable"):
            if self.order[target] < self.order[k] <= self.order[source]:
                paths[k] = sum(paths[i] for i in np.flatnonzero(self.edges[k]))
        return paths[source]

    def _node(self, i: int) -> int:
        if isinstance(i, bool) or not isinstance(i, int | np.integer):
            raise TypeError(f"a node is named by its number, 0 to {self.n_nodes - 1}; found {shown(i)}")
        if not -self.n_nodes <= i < self.n_nodes:
            raise IndexError(f"node {i} does not exist: the graph has nodes 0 to {self.n_nodes - 1}")
        return int(i) % self.n_nodes

    def sorted(self) -> Dag:
        """The same graph with its hidden nodes numbered by increasing order (equal orders by their neighbours)."""
        return self._renumbered(np.lexsort((refined(self, self.order), self.order)))

    def _renumbered(self, ranking: IntArray) -> Dag:
        hidden = ranking[ranking >= self.n_observed]
        new = np.concatenate([np.arange(self.n_observed), hidden])
        return Dag(self.edges[np.ix_(new, new)], self.order[new], self.n_observed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dag):
            return NotImplemented
        return isomorphic(self, other, self.order, other.order)

    def __hash__(self) -> int:
        return hash((self.n_observed, tuple(np.sort(refined(self, self.order)))))

    def same_structure(self, other: Dag) -> bool:
        """Whether the edges are the same up to renaming hidden nodes, whatever the orders.

        >>> a = Dag([[0, 0], [1, 0]], [0.0, 0.5], n_observed=1)
        >>> a.same_structure(Dag([[0, 0], [1, 0]], [0.1, 0.9], n_observed=1))
        True
        """
        other = checked_dag(other, "other")
        return isomorphic(self, other, np.zeros(self.n_nodes), np.zeros(other.n_nodes))

    def structure_key(self) -> int:
        """A number that is the same for graphs of the same structure, and hardly ever for others."""
        return hash((self.n_observed, tuple(np.sort(refined(self, np.zeros(self.n_nodes))))))

    def __repr__(self) -> str:
        shown = [f"{k}→{i}" for k, i in np.argwhere(self.edges)[:12]]
        more = ", …" if self.n_edges > 12 else ""
        edges = f": {', '.join(shown)}{more}" if shown else ""
        return f"Dag({self.n_observed} observed, {self.n_hidden} hidden, {counted(self.n_edges, 'edge')}{edges})"

    def _repr_svg_(self) -> str:
        from chefs._layout import svg

        return svg(self)

    def to_networkx(self) -> networkx.DiGraph:
        """A networkx graph; nodes carry `order` and `observed`.

        >>> Dag([[0, 0], [1, 0]], [0.0, 0.5], n_observed=1).to_networkx().edges
        OutEdgeView([(1, 0)])
        """
        import networkx

        graph = networkx.DiGraph()
        for i in range(self.n_nodes):
            graph.add_node(i, order=float(self.order[i]), observed=i < self.n_observed)
        graph.add_edges_from((int(k), int(i)) for k, i in np.argwhere(self.edges))
        return graph

    @classmethod
    def from_networkx(cls, graph: networkx.DiGraph) -> Dag:
        """From a directed networkx graph.

        A node without the attribute `observed` is observed. Where no node has the attribute `order`, orders are made up
        that respect the edges: nodes without children at 0, the others evenly spaced by their height above them.
        Observed nodes come first, each group in the order of the graph.
        """
        import networkx

        if not isinstance(graph, networkx.Graph):
            raise TypeError(f"graph must be a networkx.DiGraph; found {shown(graph)}")
        if not graph.is_directed() or graph.is_multigraph():
            raise ValueError("from_networkx needs a networkx.DiGraph: this graph is undirected or has parallel edges")
        if not networkx.is_directed_acyclic_graph(graph):
            cycle = " → ".join(str(k) for k, _ in networkx.find_cycle(graph)[:5])
            raise ValueError(f"the graph has a directed cycle ({cycle} → …): remove one of its edges")
        observed = [node for node, kind in graph.nodes(data="observed", default=True) if kind]
        nodes = observed + [node for node, kind in graph.nodes(data="observed", default=True) if not kind]
        given: list[Any] = [graph.nodes[node].get("order") for node in nodes]
        if all(order is None for order in given):
            given = _made_up_orders(graph, nodes)
        elif any(order is None for order in given):
            missing = nodes[given.index(None)]
            raise ValueError(f"node {missing!r} has no attribute 'order' but others have: give it to all nodes or none")
        for node, order in zip(nodes, given, strict=True):
            if not isinstance(order, Real):
                raise ValueError(f"the order of node {node!r} must be a number in [0, 1]; found {shown(order)}")
        number = {node: i for i, node in enumerate(nodes)}
        edges = np.zeros((len(nodes), len(nodes)), dtype=np.bool_)
        for k, i in graph.edges:
            edges[number[k], number[i]] = True
        return cls(edges, given, len(observed))

    def to_dot(self, names: Sequence[str] | None = None) -> str:
        """Graphviz source; observed nodes are boxes.

        Args:
            names: Names of the observed nodes, or of all nodes; numbers where there is none.
        """
        given = [] if names is None else checked_names(names, self.n_observed, self.n_nodes)
        labels = [json.dumps(name, ensure_ascii=False) for name in given]
        labels += [f'"{i}"' for i in range(len(labels), self.n_nodes)]
        lines = ["digraph {", "  rankdir=TB;"]
        for i in range(self.n_nodes):
            shape = "box, style=filled" if i < self.n_observed else "ellipse"
            lines.append(f'  {i} [label={labels[i]}, shape={shape}, tooltip="{self.order[i]:.4g}"];')
        lines += [f"  {k} -> {i};" for k, i in np.argwhere(self.edges)]
        return "\n".join([*lines, "}"]) + "\n"

    def to_json(self) -> str:
        """One line of JSON that `from_json` reads back exactly."""
        edges = np.argwhere(self.edges).tolist()
        return json.dumps({"n_observed": self.n_observed, "order": self.order.tolist(), "edges": edges})

    @classmethod
    def from_json(cls, text: str) -> Dag:
        """From what `to_json` wrote.

        >>> dag = Dag([[0, 0], [1, 0]], [0.0, 0.5], n_observed=1)
        >>> Dag.from_json(dag.to_json()) == dag
        True
        """
        try:
            data = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"text is not JSON ({error}): from_json reads one graph as to_json writes it") from None
        try:
            n_observed = data["n_observed"]
            order = np.array(data["order"], dtype=np.float64)
            pairs = np.array(data["edges"] or np.empty((0, 2), dtype=np.int64))
            edges = np.zeros((order.size, order.size), dtype=np.bool_)
            if pairs.dtype.kind != "i" or pairs.ndim != 2 or pairs.shape[1] != 2 or (pairs < 0).any():
                raise ValueError
            edges[pairs[:, 0], pairs[:, 1]] = True
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            raise ValueError(
                "text is JSON but not a graph: it needs n_observed, order (a list of numbers) and edges (a list of "
                "[parent, child] pairs of existing nodes)"
            ) from None
        return cls(edges, order, n_observed)


def _checked_arrays(edges: ArrayLike, order: ArrayLike) -> tuple[BoolArray, FloatArray]:
    try:
        if np.asarray(order).dtype.kind in "USc":
            raise TypeError
        matrix, heights = np.array(edges), np.array(order, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("edges must be a square matrix of booleans and order a list of numbers") from None
    if heights.ndim != 1:
        raise ValueError(f"order must be one-dimensional, one number a node; its shape is {heights.shape}")
    if matrix.shape != (heights.size, heights.size):
        raise ValueError(
            f"edges must have shape ({heights.size}, {heights.size}), one row and column for each entry of order; "
            f"its shape is {matrix.shape}"
        )
    if matrix.dtype != np.bool_:
        if matrix.dtype.kind not in "iu" or not np.isin(matrix, (0, 1)).all():
            raise ValueError(
                f"edges must hold booleans (or the integers 0 and 1), not {matrix.dtype} with other values"
            )
        matrix = matrix.astype(np.bool_)
    if not (np.isfinite(heights) & (heights >= 0) & (heights <= 1)).all():
        bad = heights[~(np.isfinite(heights) & (heights >= 0) & (heights <= 1))][0]
        raise ValueError(f"every order must lie in [0, 1]; found {bad:g}")
    return matrix, heights


def _checked_count(n_observed: int, n_nodes: int) -> int:
    if isinstance(n_observed, bool) or not isinstance(n_observed, int | np.integer):
        raise ValueError(f"n_observed must be a whole number; found {shown(n_observed)}")
    if not 1 <= n_observed <= n_nodes:
        raise ValueError(f"n_observed must be between 1 and the number of nodes, {n_nodes}; found {shown(n_observed)}")
    return int(n_observed)


def shown(value: object) -> str:
    """`value` as an error message shows it: on one line, and short."""
    return " ".join(reprlib.repr(value).split())


def counted(n: int, noun: str) -> str:
    """The number and its noun, in the plural where it is not one."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def checked_dag(value: Any, name: str = "dag") -> Dag:
    """`value`, where it is a `Dag`."""
    if not isinstance(value, Dag):
        raise TypeError(f"{name} must be a chefs.Dag; found {shown(value)}")
    return value


def checked_names(names: Any, n_observed: int, n_nodes: int | None = None) -> list[str]:
    """Names as strings: one for each observed node or, given the number of all nodes, for each node."""
    try:
        given = None if isinstance(names, str) else list(names)
    except TypeError:
        given = None
    if given is None or len(given) not in (n_observed, n_nodes):
        all_nodes = "" if n_nodes is None else f" or of all {n_nodes} nodes"
        found = shown(names) if given is None else len(given)
        raise ValueError(
            f"names must hold one name for each of the {n_observed} observed nodes{all_nodes}; found {found}"
        )
    return [str(name) for name in given]


def _made_up_orders(graph: networkx.DiGraph, nodes: list) -> list[float]:
    import networkx

    height: dict = {}
    for node in reversed(list(networkx.topological_sort(graph))):
        height[node] = max((height[child] + 1 for child in graph.successors(node)), default=0)
    top = max(height.values(), default=0)
    return [height[node] / (top + 1) for node in nodes]
