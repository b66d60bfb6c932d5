"""Plan: all of a DAG that its convolutional network depends on (section 4.2 of the paper).

An order θ gives the shape of a layer through its bin b = ⌊n_bins (1 − θ)⌋: 2^b + base_channels maps whose side is
round(image_side · 2^(−b/2)), the square root of the paper's number of pixels. Two DAGs with the same plan have the same
network, so whatever is computed for one holds for the other.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chefs.dag import Dag, FloatArray, IntArray, checked_dag, shown

INPUT, OUTPUT = 0, 1  # the observed nodes


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of images and layers.

    Args:
        image_side: Pixels along each side of an image.
        n_classes: Number of labels.
        in_channels: Channels of an image.
        n_bins: How many different shapes layers can have.
        base_channels: What is added to the 2^bin channels of a layer.

    >>> shape = Shape()
    >>> [(shape.side(b), shape.channels(b)) for b in range(5)]
    [(28, 5), (20, 6), (14, 8), (10, 12), (7, 20)]
    """

    image_side: int = 28
    n_classes: int = 3
    in_channels: int = 1
    n_bins: int = 5
    base_channels: int = 4

    def __post_init__(self) -> None:
        for name, least in (
            ("image_side", 1),
            ("n_classes", 2),
            ("in_channels", 1),
            ("n_bins", 1),
            ("base_channels", 0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be a whole number, at least {least}; found {shown(value)}")
            object.__setattr__(self, name, int(value))

    def bin(self, order: float) -> int:
        """⌊n_bins (1 − θ)⌋, of 0 … n_bins − 1."""
        return min(max(math.floor(self.n_bins * (1.0 - order)), 0), self.n_bins - 1)

    def side(self, bin: int) -> int:
        """Pixels along each side of the maps of a layer."""
        return max(1, round(self.image_side * 2.0 ** (-bin / 2)))

    def channels(self, bin: int) -> int:
        """Maps of a layer."""
        return 2**bin + self.base_channels


class Plan(NamedTuple):
    """Layers, parents before children: the input image, the hidden layers that it reaches, the output.

    `parents[j]` are the layers that layer j takes in, in increasing number; an output without any has only its bias.
    """

    parents: tuple[tuple[int, ...], ...]
    sides: tuple[int, ...]  # of the maps of each layer; 0 for the output
    channels: tuple[int, ...]  # of each layer; n_classes for the output

    @property
    def n_hidden(self) -> int:
        """Hidden layers."""
        return len(self.parents) - 2

    @property
    def n_edges(self) -> int:
        """Edges between layers."""
        return sum(map(len, self.parents))

    @property
    def fan_in(self) -> tuple[int, ...]:
        """Channels that each layer takes in."""
        return tuple(sum(self.channels[p] for p in parents) for parents in self.parents)

    @property
    def n_weights(self) -> int:
        """Numbers to train: 3 × 3 kernels of hidden layers, and the linear map and bias of the output."""
        kernels = sum(9 * n * c for n, c in zip(self.fan_in[1:-1], self.channels[1:-1], strict=True))
        return kernels + (self.fan_in[-1] + 1) * self.channels[-1]

    @property
    def depth(self) -> int:
        """Edges on the longest path from the input to the output; 0 where there is none."""
        depths = [0]
        for parents in self.parents[1:]:
            depths.append(max((depths[p] + 1 for p in parents), default=0))
        return depths[-1]

    @property
    def width(self) -> int:
        """Paths from the input to the output, exactly."""
        paths = [1]
        for parents in self.parents[1:]:
            paths.append(sum(paths[p] for p in parents))
        return paths[-1]

    @property
    def average_degree(self) -> float:
        """Edges per node, over the nodes of the plan."""
        return self.n_edges / len(self.parents)

    def seed(self, salt: int = 0) -> int:
        """A number for random generators that depends on the plan and `salt` alone."""
        return int.from_bytes(hashlib.sha256(repr((tuple(self), salt)).encode()).digest()[:8], "big")


def plan_of(dag: Dag, shape: Shape) -> Plan:
    """The plan of a DAG whose node 0 is the input, at order 1, and node 1 the output, at order 0.

    >>> dag = Dag([[0, 0, 1], [0, 0, 0], [0, 1, 0]], [1.0, 0.0, 0.5], n_observed=2)
    >>> plan_of(dag, Shape())
    Plan(parents=((), (0,), (1,)), sides=(28, 14, 0), channels=(1, 8, 3))
    """
    dag = checked_dag(dag)
    if dag.n_observed != 2 or dag.order[INPUT] != 1.0 or dag.order[OUTPUT] != 0.0:
        raise ValueError(
            "dag needs two observed nodes, the input at order 1 and then the output at order 0; "
            f"it has {dag.n_observed}, at {', '.join(f'{order:g}' for order in dag.order[: dag.n_observed][:4])}"
        )
    parent, child = np.nonzero(dag.edges)
    return plan_of_arrays(dag.order, parent, child, shape)


def reached(dag: Dag) -> Dag:
    """The part of a graph that its input reaches, and the output: what its network is made of.

    >>> dag = Dag([[0, 1, 0], [0, 0, 0], [0, 1, 0]], [1.0, 0.0, 0.5], n_observed=2)
    >>> reached(dag)
    Dag(2 observed, 0 hidden, 1 edge: 0→1)
    """
    found = np.zeros(dag.n_nodes, dtype=bool)
    found[INPUT] = True
    for k in np.argsort(-dag.order, kind="stable"):
        if found[k]:
            found |= dag.edges[k]
    found[OUTPUT] = True
    nodes = np.flatnonzero(found)
    return Dag(dag.edges[np.ix_(nodes, nodes)], dag.order[nodes], 2)


def plan_of_arrays(order: FloatArray, parent: IntArray, child: IntArray, shape: Shape) -> Plan:
    """The same from the arrays of a draw: edge e runs from parent[e] to child[e]."""
    return plan_and_nodes(order, parent, child, shape)[0]


def plan_and_nodes(order: FloatArray, parent: IntArray, child: IntArray, shape: Shape) -> tuple[Plan, list[int]]:
    """The plan, and the node that each of its layers is."""
    parents, depths = _reached(order, parent, child)
    hidden = [i for i in depths if i not in (INPUT, OUTPUT)]
    bins = {i: shape.bin(float(order[i])) for i in hidden}
    first = {i: (depths[i], bins[i]) for i in hidden} | {INPUT: (0, -1), OUTPUT: (len(order) + 1, shape.n_bins)}
    layers = _canonical(first, parents, order)
    number = {node: j for j, node in enumerate(layers)}
    between = layers[1:-1]
    plan = Plan(
        tuple(tuple(sorted(number[k] for k in parents[i])) for i in layers),
        (shape.image_side, *(shape.side(bins[i]) for i in between), 0),
        (shape.in_channels, *(shape.channels(bins[i]) for i in between), shape.n_classes),
    )
    return plan, layers


def _reached(order: FloatArray, parent: IntArray, child: IntArray) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Nodes that the input reaches: their parents among them, and the longest path from the input to each."""
    children: dict[int, list[int]] = {}
    for k, i in zip(parent.tolist(), child.tolist(), strict=True):
        children.setdefault(k, []).append(i)
    parents: dict[int, list[int]] = {INPUT: [], OUTPUT: []}
    depths = {INPUT: 0}
    for k in np.argsort(-order, kind="stable").tolist():  # parents first
        if k in depths:
            for i in children.get(k, ()):
                depths[i] = max(depths.get(i, 0), depths[k] + 1)
                parents.setdefault(i, []).append(k)
    return parents, depths


def _canonical(first: dict[int, tuple[int, int]], parents: dict[int, list[int]], order: FloatArray) -> list[int]:
    """The nodes sorted in a way that does not depend on their numbers; parents come before children.

    Nodes are told apart by (depth, bin), then by those of their neighbours, and so on. Where some remain alike, which
    they are then as a rule for good, such as two nodes with the same neighbours, the lowest order goes first.
    """
    children: dict[int, list[int]] = {i: [] for i in first}
    for i, above in parents.items():
        for k in above:
            children[k].append(i)
    colour = _ranks(first)
    while True:
        colour = _refined(colour, parents, children)
        groups: dict[int, list[int]] = {}
        for i, c in colour.items():
            groups.setdefault(c, []).append(i)
        alike = min((c for c, group in groups.items() if len(group) > 1), default=None)
        if alike is None:
            return sorted(colour, key=colour.__getitem__)
        chosen = min(groups[alike], key=lambda i: order[i])
        colour = {i: 2 * c + (c == alike and i != chosen) for i, c in colour.items()}


def _refined(colour: dict[int, int], parents: dict[int, list[int]], children: dict[int, list[int]]) -> dict[int, int]:
    """Colours split by those of the neighbours until nothing changes; what was in order stays in order."""
    n_colours = -1
    while len(set(colour.values())) not in (n_colours, len(colour)):
        n_colours = len(set(colour.values()))
        colour = _ranks({i: (c, _sorted(colour, parents[i]), _sorted(colour, children[i])) for i, c in colour.items()})
    return colour


def _sorted(colour: dict[int, int], nodes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(colour[i] for i in nodes))


def _ranks(keys: dict) -> dict[int, int]:
    rank = {key: r for r, key in enumerate(sorted(set(keys.values())))}
    return {i: rank[key] for i, key in keys.items()}
