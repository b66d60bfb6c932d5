"""Where the nodes of a graph go on paper, and the SVG that notebooks show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from chefs.dag import Dag

FloatArray = NDArray[np.float64]

BLUE, WHITE, GREY = "#2f6f9f", "#ffffff", "#7f8c96"  # middle tones: they show on white and on black
BEND = 0.12  # how far the control point of an edge is off the straight line, as a part of its length
SWEEPS = 4  # how often each node may move after it was put down
MANY_EDGES = 250  # with more, edges run over nodes wherever these are


def spacing(n_nodes: int) -> float:
    """The distance that `positions` keeps between any two nodes, where the orders 0 and 1 are one apart.

    >>> spacing(4), spacing(100)
    (0.25, 0.06)
    """
    return min(0.25, 0.6 / n_nodes**0.5)


def positions(dag: Dag) -> FloatArray:
    """One (x, y) a node: y is its order; x keeps nodes apart, edges short, and edges off other nodes.

    Places are taken from a grid wide enough for every node to find a free one. Nodes are put down from the lowest to
    the highest; then each in turn moves to the best free place, a few times or until none wants to.

    >>> from chefs.dag import Dag
    >>> positions(Dag([[0, 0, 0], [0, 0, 0], [1, 1, 0]], [0.0, 0.0, 0.5], n_observed=2)).tolist()
    [[0.125, 0.0], [-0.125, 0.0], [0.0, 0.5]]
    """
    d, y = spacing(dag.n_nodes), dag.order
    # Nodes less than d apart in height take places from each other: at most three, and each brings four along.
    rivals = int((np.abs(y[:, None] - y) < d).sum(axis=1).max())
    places = np.arange(-2 * rivals, 2 * rivals + 1) * np.float64(d / 2)
    places = places[np.argsort(np.abs(places), kind="stable")]  # from the middle outwards
    x = np.full(dag.n_nodes, np.nan)
    for _ in range(1 + SWEEPS):
        before = x.copy()
        for i in np.argsort(y, kind="stable"):
            x[i] = _best_place(i, x, dag, places, d)
        if np.array_equal(before, x):
            break
    return np.column_stack([x - (x.min() + x.max()) / 2, y])


def _best_place(i: int, x: FloatArray, dag: Dag, places: FloatArray, d: float) -> float:
    """The free place of lowest cost for node i, given the nodes that have been put down."""
    y = dag.order
    others = np.flatnonzero(~np.isnan(x) & (np.arange(x.size) != i))
    near = others[np.abs(y[others] - y[i]) < d]
    gaps = np.hypot(places[:, None] - x[near], y[i] - y[near])
    free = places[(gaps > d * (1 - 1e-9)).all(axis=1)]
    linked = others[dag.edges[i, others] | dag.edges[others, i]]
    # Edges pull towards the neighbours; a faint pull towards the middle decides where there are none.
    cost = np.sqrt(((free[:, None] - x[linked]) ** 2).sum(axis=1) / max(1, linked.size)) + 0.05 * np.abs(free)
    if dag.n_edges <= MANY_EDGES:
        best = np.argsort(cost, kind="stable")[:16]
        free, cost = free[best], cost[best]
        nodes = np.column_stack([x, y])
        here = np.column_stack([free, np.full(free.size, y[i])])
        own = _touched(here[:, None], nodes[linked], nodes[others], d)
        own[:, linked[:, None] == others] = 0.0  # an edge may touch its own end
        k, c = others[np.array(np.nonzero(dag.edges[np.ix_(others, others)]))]
        cost += 2 * d * (own.sum(axis=(1, 2)) + _touched(nodes[k], nodes[c], here, d).sum(axis=0))
    return float(free[np.argmin(cost)])


def _touched(start: FloatArray, end: FloatArray, nodes: FloatArray, d: float) -> FloatArray:
    """How much each edge runs over each node (the last axis), from 0, clear of it, to 1, through its centre."""
    squared = np.inf
    for t in np.linspace(0.1, 0.9, 9):
        x, y = np.moveaxis(point_on(start, end, t), -1, 0)[..., None]
        squared = np.minimum(squared, (x - nodes[:, 0]) ** 2 + (y - nodes[:, 1]) ** 2)
    return np.clip(1 - np.sqrt(squared) / (0.7 * d), 0, 1)


def control_point(start: FloatArray, end: FloatArray) -> FloatArray:
    """The control point of the quadratic Bézier curve that an edge is drawn as: it bends outwards or upwards."""
    middle = (start + end) / 2
    across = (end - start)[..., ::-1] * [-1.0, 1.0]
    outwards = np.where(middle[..., 0] < 0, -across[..., 0], across[..., 0])
    side = np.where(outwards + across[..., 1] < 0, -1.0, 1.0)
    return middle + BEND * side[..., None] * across


def point_on(start: FloatArray, end: FloatArray, t: float) -> FloatArray:
    """The point at `t` in [0, 1] of the curve of an edge."""
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * control_point(start, end) + t**2 * end


def arrow(start: FloatArray, end: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """An edge between two nodes of this radius: the three points of its Bézier curve, the three corners of its head."""
    control = control_point(start, end)
    leaving = (control - start) / np.linalg.norm(control - start)
    arriving = (end - control) / np.linalg.norm(end - control)
    tip = end - radius * arriving
    neck, wing = tip - 0.5 * radius * arriving, 0.2 * radius * arriving[::-1] * [-1.0, 1.0]
    return np.array([start + radius * leaving, control, neck]), np.array([tip, neck + wing, neck - wing])


def opacity(n_edges: int) -> float:
    """How solid edges are drawn: they fade when there are many."""
    return float(np.clip(20 / max(1, n_edges) ** 0.7, 0.15, 0.9))


def svg(dag: Dag) -> str:
    """A self-contained picture: observed nodes filled, hidden ones hollow, every edge down from parent to child.

    >>> from chefs.dag import Dag
    >>> svg(Dag([[0]], [0.5], n_observed=1)).startswith("<svg")
    True
    """
    d = spacing(dag.n_nodes)
    unit, radius, line = max(220.0, 26.0 / d), 0.36 * d, 1.2  # a unit of `positions`, in pixels
    nodes, edges = positions(dag), np.argwhere(dag.edges)
    extent = np.vstack([nodes, point_on(nodes[edges[:, 0]], nodes[edges[:, 1]], 0.5)])
    left, top = extent[:, 0].min() - radius - 0.01, extent[:, 1].max() + radius + 0.01
    width = unit * (extent[:, 0].max() + radius + 0.01 - left)
    height = unit * (top - extent[:, 1].min() + radius + 0.01)

    def at(point: FloatArray) -> str:
        return f"{unit * (point[0] - left):.1f},{unit * (top - point[1]):.1f}"

    solid = opacity(dag.n_edges)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.1f} {height:.1f}" role="img">',
        f"<title>{dag.n_observed} observed, {dag.n_hidden} hidden, {dag.n_edges} edges</title>",
        f'<g fill="none" stroke="{GREY}" stroke-width="{line}" stroke-opacity="{solid:.2f}">',
    ]
    heads = []
    for k, i in edges:
        curve, head = arrow(nodes[k], nodes[i], radius)
        start, control, neck = map(at, curve)
        parts.append(f'<path d="M{start} Q{control} {neck}"><title>{k} → {i}</title></path>')
        heads.append(f"M{' L'.join(map(at, head))}Z")
    parts.append(f'</g><path d="{" ".join(heads)}" fill="{GREY}" fill-opacity="{(1 + solid) / 2:.2f}"/>')
    size = unit * radius
    parts.append(
        f'<g stroke="{BLUE}" stroke-width="{line}" font-family="sans-serif" font-size="{0.9 * size:.1f}" '
        'text-anchor="middle">'
    )
    for i, node in enumerate(nodes):
        kind, fill, ink = ("observed", BLUE, WHITE) if i < dag.n_observed else ("hidden", WHITE, BLUE)
        parts.append(
            f'<g transform="translate({at(node)})"><title>{kind} node {i}, order {dag.order[i]:.4g}</title>'
            f'<circle r="{size:.1f}" fill="{fill}"/>'
            f'<text y="{0.32 * size:.1f}" fill="{ink}" stroke="none">{i}</text></g>'
        )
    return "\n".join([*parts, "</g></svg>"])
