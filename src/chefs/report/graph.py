"""Graphs as SVG: nodes at the height of their order, edges as thick as they matter, a word about each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chefs._layout import arrow, point_on, positions, spacing
from chefs.dag import Dag, FloatArray
from chefs.report.markup import Markup, tag

GAP = 44.0  # pixels between neighbouring nodes, at least
LETTER = 6.4  # pixels, about
LONGEST = 16  # letters of a name beside its node; all of it is in the word about the node
FEW_EDGES = 120  # with more, heads of arrows only hide what is below: every edge runs down
SLANT = np.deg2rad(35)
WIDEST = 1.7  # how far a graph may be stretched where there is room


class Edge(NamedTuple):
    """How an edge looks, and the word about it."""

    width: float  # pixels
    strength: float  # what the reader can hide weak edges by
    positive: bool
    words: str


def drawn(
    dag: Dag,
    names: Sequence[str],
    edges: dict[tuple[int, int], Edge],
    nodes: Sequence[str],
    description: str,
    at: FloatArray | None = None,
    room: float = 860.0,
) -> Markup:
    """A graph.

    Args:
        dag: The graph.
        names: Names of all nodes.
        edges: How each edge looks.
        nodes: A word about each node.
        description: What the picture shows, for those who cannot see it.
        at: Places of the nodes; None for a layout of their own.
        room: Pixels that the nodes may be spread over, from left to right.
    """
    d = spacing(dag.n_nodes)
    unit = max(230.0, GAP / d)
    radius = min(0.34 * d, 15 / unit)
    at = positions(dag) if at is None else at.copy()
    at[:, 0] *= np.clip(room / (unit * max(np.ptp(at[:, 0]), d)), 1, WIDEST)
    inside = all(len(name) <= 3 for name in names[: dag.n_observed])
    left, top, right, bottom = _frame(dag, at, names, inside, radius, unit)

    def on_paper(points: FloatArray) -> FloatArray:  # where y runs down
        return np.column_stack([unit * points[:, 0] - left, top - unit * points[:, 1]])

    lines = []
    for (k, i), look in sorted(edges.items(), key=lambda item: item[1].width):  # the strongest on top
        curve, head = map(on_paper, arrow(at[k], at[i], radius))
        curve[2] = curve[2] if len(edges) <= FEW_EDGES else head[0]
        lines.append(_edge(k, i, look, curve, head if len(edges) <= FEW_EDGES else None))
    circles = [
        _node(i, place, names[i], nodes[i], dag, unit * radius, inside or i >= dag.n_observed)
        for i, place in enumerate(on_paper(at))
    ]
    width, height = right - left, top - bottom
    size = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}", "height": f"{height:.0f}"}
    return tag("svg", *lines, *circles, class_="graph", role="group", tabindex=0, aria_label=description, **size)


def steady(dag: Dag, wanted: FloatArray) -> FloatArray:
    """Places as close to the wanted x as nodes can be without touching, so that graphs that are alike look alike.

    >>> two = Dag([[0, 0], [0, 0]], [0.0, 0.0], n_observed=2)
    >>> steady(two, np.array([0.1, 0.1])).tolist()
    [[0.1, 0.0], [0.35, 0.0]]
    """
    d, y = spacing(dag.n_nodes), dag.order
    steps = np.arange(1, 4 * dag.n_nodes + 1) // 2 * np.where(np.arange(1, 4 * dag.n_nodes + 1) % 2, -1, 1) * (d / 2)
    x = np.full(dag.n_nodes, np.inf)
    for i in np.argsort(y, kind="stable"):
        near = np.flatnonzero(np.isfinite(x) & (np.abs(y - y[i]) < d))
        places = wanted[i] + steps
        free = (np.hypot(places[:, None] - x[near], y[i] - y[near]) > d * (1 - 1e-9)).all(axis=1)
        x[i] = places[np.argmax(free)]
    return np.column_stack([x, y])


def picker(options: Sequence[str], graphs: Sequence[Markup]) -> list[Markup]:
    """A list that picks which of these graphs is shown, the graph, and the graphs to pick from; one on a page."""
    controls = tag(
        "p",
        tag(
            "label",
            "Draw ",
            tag("select", *(tag("option", text, value=j) for j, text in enumerate(options)), id="pick"),
        ),
        tag("button", "← earlier", type="button", id="earlier"),
        tag("button", "later →", type="button", id="later"),
        class_="control",
    )
    kept = [tag("template", graph, data_draw=j) for j, graph in enumerate(graphs)]
    return [controls, tag("div", graphs[0], id="picked", class_="scroll"), *kept]


def _frame(
    dag: Dag, at: FloatArray, names: Sequence[str], inside: bool, radius: float, unit: float
) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the picture in pixels, y upwards, with room for the names beside nodes."""
    k, i = np.nonzero(dag.edges)
    extent = unit * np.vstack([at, point_on(at[k], at[i], 0.5)])
    pad = unit * radius + 4
    left, right = extent[:, 0].min() - pad, extent[:, 0].max() + pad
    bottom, top = extent[:, 1].min() - pad, extent[:, 1].max() + pad
    if not inside:
        for node in range(dag.n_observed):
            long = LETTER * min(len(names[node]), LONGEST) + unit * radius + 8
            x, y = unit * at[node]
            if dag.order[node] < 0.5:
                left, bottom = min(left, x - long * np.cos(SLANT)), min(bottom, y - long * np.sin(SLANT) - 8)
            else:
                right, top = max(right, x + long * np.cos(SLANT)), max(top, y + long * np.sin(SLANT) + 8)
    return left, top, right, bottom


def _edge(k: int, i: int, look: Edge, curve: FloatArray, head: FloatArray | None) -> Markup:
    a, control, b = (f"{x:.1f} {y:.1f}" for x, y in curve)
    parts = [tag("path", d=f"M{a}Q{control} {b}", stroke_width=f"{look.width:.2f}")]
    if head is not None:
        corners = "L".join(f"{x:.1f} {y:.1f}" for x, y in head)
        parts.append(tag("path", d=f"M{corners}Z", class_="head"))
    sign = "positive" if look.positive else "negative"
    links = {"data_from": k, "data_to": i, "data_strength": f"{look.strength:.4f}"}
    return tag("g", tag("title", look.words), *parts, class_=f"edge tip {sign}", **links)


def _node(i: int, at: FloatArray, name: str, words: str, dag: Dag, radius: float, inside: bool) -> Markup:
    kind = "observed" if i < dag.n_observed else "hidden"
    x, y = at
    short = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
    if inside:
        size = min(11.0, 2.4 * radius / max(len(short), 1))
        label = tag("text", short, y=f"{0.35 * size:.1f}", font_size=f"{size:.1f}", class_="middle")
    else:
        below = dag.order[i] < 0.5
        place = f"rotate(-35) translate({(-1 if below else 1) * (radius + 4):.1f} 4)"
        label = tag("text", short, transform=place, class_="end name" if below else "name")
    circle = tag("circle", r=f"{radius:.1f}")
    return tag(
        "g",
        tag("title", words),
        circle,
        label,
        class_=f"node tip {kind}",
        data_node=i,
        transform=f"translate({x:.1f} {y:.1f})",
    )
