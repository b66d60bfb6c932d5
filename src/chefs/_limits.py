"""Limits: what a user knows about the graph, checked once and handed to the kernels as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chefs.buffets import CascadingBuffet, ExtendedBuffet, IndianBuffet, n_customers
from chefs.dag import BoolArray, Dag, FloatArray, shown
from chefs.prior import ChefsProcess, Observed, observed_orders

if TYPE_CHECKING:
    from chefs._core.state import GraphState

Edges = Sequence[tuple[int, int]]
Prior = ChefsProcess | IndianBuffet | CascadingBuffet | ExtendedBuffet  # those that chains have moves for


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the observed orders (equal where fixed), and the edges among them that are settled."""

    low: FloatArray
    high: FloatArray
    required: BoolArray  # required[k, i]: every graph has k → i
    forbidden: BoolArray
    max_hidden: int

    @classmethod
    def of(
        cls,
        observed: Observed,
        required: Edges,
        forbidden: Edges,
        bounds: Mapping[int, tuple[float, float]],
        max_hidden: int | None,
        prior: Prior | None = None,
    ) -> Limits:
        """From what a user gives a kernel; a contradiction is an error. In a buffet free orders are 0, like all."""
        from chefs._core.state import NO_LIMIT

        orders = observed_orders(observed)
        if isinstance(prior, IndianBuffet | CascadingBuffet | ExtendedBuffet):
            orders = np.zeros(n_customers(observed))
        n = orders.size
        low, high = np.where(np.isnan(orders), 0.0, orders), np.where(np.isnan(orders), 1.0, orders)
        if not isinstance(bounds, Mapping):
            raise ValueError(f"bounds must be a dict, {{node: (low, high)}}; found {shown(bounds)}")
        for node, pair in bounds.items():
            if not _is_node(node, n) or not np.isnan(orders[node]):
                raise ValueError(f"bounds: {shown(node)} is not the number of an observed node with a free order")
            if not _is_interval(pair):
                raise ValueError(f"bounds: node {node} needs (low, high) with 0 ≤ low < high ≤ 1; found {shown(pair)}")
            low[node], high[node] = pair
        if max_hidden is not None and not (_is_whole(max_hidden) and max_hidden >= 0):
            raise ValueError(f"max_hidden must be None or a whole number, at least 0; found {shown(max_hidden)}")
        wanted, unwanted = _matrix("required", required, n), _matrix("forbidden", forbidden, n)
        if (wanted & unwanted).any():
            k, i = np.argwhere(wanted & unwanted)[0]
            raise ValueError(f"edge {k}→{i} is both required and forbidden")
        limits = cls(low, high, wanted, unwanted, NO_LIMIT if max_hidden is None else min(int(max_hidden), NO_LIMIT))
        limits._reachable()
        return limits

    @property
    def n_observed(self) -> int:
        """Number of observed nodes."""
        return self.low.size

    def _reachable(self) -> tuple[list[int], FloatArray, FloatArray]:
        """The nodes, children first, and the interval that bounds and required edges together leave each."""
        below = self._children_first()
        low, high = self.low.copy(), self.high.copy()
        for k in below:
            low[k] = max([low[k], *low[self.required[k]]])
        for i in reversed(below):
            high[i] = min([high[i], *high[self.required[:, i]]])
        for k, i in np.argwhere(self.required):
            if not low[i] < high[k]:
                raise ValueError(
                    f"the required edge {k}→{i} cannot hold: the order of {k} is at most {high[k]:g}, "
                    f"that of {i} at least {low[i]:g}"
                )
        return below, low, high

    def _children_first(self) -> list[int]:
        done: list[int] = []
        while len(done) < self.n_observed:
            ready = [
                k
                for k in range(self.n_observed)
                if k not in done and set(np.flatnonzero(self.required[k])) <= set(done)
            ]
            if not ready:
                raise ValueError("the required edges form a cycle: remove one of them")
            done += ready
        return done

    def draw_orders(self, rng: np.random.Generator) -> FloatArray:
        """Orders of the observed nodes to start from: within their bounds, required parents above their children."""
        nodes, low, high = self._reachable()
        orders = np.zeros(self.n_observed)
        for k in nodes:
            bottom = max([low[k], *orders[self.required[k]]])
            orders[k] = bottom if low[k] == high[k] else bottom + (high[k] - bottom) * (1 - rng.random()) * 0.999
        return orders

    def state(self, rng: np.random.Generator, start: Dag | None, prior: Prior) -> GraphState:
        """The compiled state of `start`, or of the observed nodes with the required edges alone."""
        from chefs._core.state import BUFFET, CASCADING, CHEFS, EXTENDED, FAMILY, pack

        family = {ChefsProcess: CHEFS, IndianBuffet: BUFFET, CascadingBuffet: CASCADING, ExtendedBuffet: EXTENDED}
        if not isinstance(prior, ChefsProcess) and self.high.any():
            raise ValueError("observed must be at order 0, all of it, for a chain over a buffet")
        orders = self.draw_orders(rng) if start is None else start.order
        pairs = np.argwhere(self.required if start is None else start.edges)
        parents, children = np.ascontiguousarray(pairs.T)
        locked = np.ascontiguousarray((self.required | self.forbidden).T)
        hyper = np.array([prior.alpha, prior.gamma, prior.phi if isinstance(prior, ChefsProcess) else 1.0])
        state = pack(orders.copy(), parents, children, self.low, self.high, locked, hyper, self.max_hidden)
        state.size[FAMILY] = family[type(prior)]
        return state

    def check(self, start: Dag, prior: Prior | None = None) -> None:
        """Whether `start` is within the limits, and possible under the prior."""
        n = self.n_observed
        inner = start.edges[:n, :n]
        if start.n_observed != n:
            raise ValueError(f"start has {start.n_observed} observed nodes where observed says {n}")
        if (start.order[:n] < self.low).any() or (start.order[:n] > self.high).any():
            raise ValueError("start has an observed node whose order differs from observed or is outside its bounds")
        if (self.required & ~inner).any() or (self.forbidden & inner).any():
            raise ValueError("start lacks a required edge or has a forbidden one")
        if start.n_hidden > self.max_hidden:
            raise ValueError(f"start has {start.n_hidden} hidden nodes where max_hidden is {self.max_hidden}")
        if prior is not None and not np.isfinite(prior.log_prob(start)):
            raise ValueError(
                f"start is not a graph that a {type(prior).__name__} can draw: its layers are not in order"
            )


def _matrix(name: str, edges: Edges, n: int) -> BoolArray:
    matrix = np.zeros((n, n), dtype=np.bool_)
    try:
        pairs = [tuple(edge) for edge in edges]
    except TypeError:
        raise ValueError(f"{name} must be a list of pairs (parent, child); found {shown(edges)}") from None
    for pair in pairs:
        if len(pair) != 2 or not all(_is_node(node, n) for node in pair):
            raise ValueError(f"{name}: {shown(pair)} is not a pair (parent, child) of observed nodes 0 to {n - 1}")
        matrix[pair] = True
    if matrix.diagonal().any():
        raise ValueError(f"{name}: node {np.flatnonzero(matrix.diagonal())[0]} cannot be its own parent")
    return matrix


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_node(value: Any, n: int) -> bool:
    return _is_whole(value) and 0 <= value < n


def _is_interval(pair: Any) -> bool:
    try:
        low, high = pair
        return bool(0 <= low < high <= 1)
    except (TypeError, ValueError):
        return False
