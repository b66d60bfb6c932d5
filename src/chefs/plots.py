"""Pictures: graphs, and what the hyperparameters of the prior do (section 2.3 of the paper). Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chefs._layout import BLUE, GREY, WHITE, arrow, opacity, point_on, positions, spacing
from chefs.dag import Dag, FloatArray, checked_dag, checked_names
from chefs.prior import ChefsProcess

try:
    from matplotlib.collections import PathCollection, PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle
    from matplotlib.path import Path
except ImportError:
    raise ImportError("pictures need matplotlib: pip install 'chefs[plots]'") from None

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = (2, 3, 4, 5, 8, 12)  # expected numbers of nodes in the first panel; the second has the first four
ALPHAS = (0.5, 1.0, 1.5, 2.0)  # the curves of the third panel
COLOURS = ("#1b3a5c", "#2f6f9f", "#4f9d94", "#b58a2e", "#b5542e", "#7d3c5d")
POINTS: dict[str, Any] = {"fmt": "o", "ms": 3.5, "mfc": "white", "mew": 1.0, "elinewidth": 1.0, "capsize": 2}


def dag(dag: Dag, ax: Axes | None = None, names: Sequence[str] | None = None) -> Axes:
    """Draw a graph: nodes at the height of their order, observed ones filled; edges run down from parent to child.

    Args:
        dag: The graph.
        ax: Where to draw; a new figure where None (`plots.dag(…).figure.savefig(…)`).
        names: Names of the observed nodes, or of all nodes; numbers where there is none.

    >>> graph = Dag([[0, 0], [1, 0]], [0.0, 0.5], n_observed=1)
    >>> len(dag(graph, names=["rain"]).texts)
    2
    """
    dag = checked_dag(dag)
    labels = [] if names is None else checked_names(names, dag.n_observed, dag.n_nodes)
    n_below = len(labels) if any(len(label) > 2 for label in labels) else 0  # names too long for the nodes go below
    labels += [str(i) for i in range(len(labels), dag.n_nodes)]
    nodes, edges = positions(dag), np.argwhere(dag.edges)
    radius = min(0.36 * spacing(dag.n_nodes), 0.055)
    if ax is None:
        height = 3.6 if dag.n_nodes <= 30 else 6.4
        width = height * float(np.clip(np.ptp(nodes[:, 0]) + 0.4, 0.8, 2.5))
        ax = Figure(figsize=(width, height), layout="constrained").subplots()
    points = _frame(ax, nodes, edges, radius)
    solid, line = opacity(dag.n_edges), float(np.clip(points / 8, 0.5, 1.2))
    arrows = [arrow(nodes[k], nodes[i], radius) for k, i in edges]
    curves = [Path(curve, [Path.MOVETO, Path.CURVE3, Path.CURVE3]) for curve, _ in arrows]
    ax.add_collection(PathCollection(curves, facecolor="none", edgecolor=GREY, lw=line, alpha=solid, zorder=1))
    ax.add_collection(PolyCollection([head for _, head in arrows], color=GREY, lw=0, alpha=(1 + solid) / 2, zorder=1))
    for i, (x, y) in enumerate(nodes):
        fill, ink = (BLUE, WHITE) if i < dag.n_observed else (WHITE, BLUE)
        ax.add_patch(Circle((x, y), radius, facecolor=fill, edgecolor=BLUE, lw=line, zorder=2))
        if i < n_below:
            size = float(np.clip(points, 5, 9))
            ax.text(x, y - 1.25 * radius, labels[i], color="black", size=size, ha="center", va="top", zorder=3)
        else:
            size = float(np.clip(points * min(1, 2.2 / len(labels[i])), 3, 10))
            ax.text(x, y, labels[i], color=ink, size=size, ha="center", va="center_baseline", zorder=3)
    return ax


def _frame(ax: Axes, nodes: FloatArray, edges: NDArray[np.integer], radius: float) -> float:
    """Limits and axes for a graph, whose x is stretched to fill the width; the radius of a node in points."""
    size = np.array(ax.bbox.size) / ax.figure.dpi  # inches
    pad = 2 * radius
    free = (size[0] / size[1]) * (1 + 2 * pad) - 2 * pad
    nodes[:, 0] *= np.clip(0.95 * free / max(np.ptp(nodes[:, 0]), 1e-9), 1, 1.4)
    drawn = np.vstack([nodes, point_on(nodes[edges[:, 0]], nodes[edges[:, 1]], 0.5)])[:, 0]
    ax.set(xlim=(drawn.min() - pad, drawn.max() + pad), ylim=(-pad, 1 + pad), aspect="equal")
    ax.set(xticks=[], yticks=[0, 0.5, 1], ylabel="order")
    ax.spines[["top", "right", "bottom"]].set_visible(False)
    ax.spines["left"].set_bounds(0, 1)
    scale = min(size[0] / (np.ptp(drawn) + 2 * pad), size[1] / (1 + 2 * pad))
    return 72 * radius * scale


def prior_numbers(rng: np.random.Generator | None = None, draws: int = 4000) -> dict[str, Any]:
    """The numbers that `prior_properties` draws: exact curves, and means of `draws` graphs with standard errors.

    Args:
        rng: A NumPy generator; that of seed 0 where None.
        draws: How many graphs to draw for each simulated point.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    at_zero = [0.0]
    levels = []
    for level in LEVELS:
        curve = [_on_level(level, alpha) for alpha in np.geomspace(0.05, 20, 17)]
        exact = [{"alpha": p.alpha, "gamma": p.gamma, "edges": p.expected_edges(at_zero)} for p in curve]
        simulated = []
        for prior in (_on_level(level, alpha) for alpha in (0.1, 0.3, 1.0, 3.0, 10.0)):
            graphs = prior.sample(rng, at_zero, size=draws)
            step = 1e-4 * prior.gamma
            steeper = ChefsProcess(prior.alpha, prior.gamma + step)
            slope = (steeper.expected_nodes(at_zero) - level) / step
            point = {"alpha": prior.alpha, "gamma": prior.gamma, "slope": slope}
            simulated.append(point | _mean("nodes", graphs.n_nodes) | _mean("edges", graphs.n_edges))
        levels.append({"nodes": level, "exact": exact, "simulated": simulated})
    growth = []
    for alpha in ALPHAS:
        prior = ChefsProcess(alpha, gamma=1.0)
        exact, simulated = [], []
        for n in range(1, 21):
            exact.append({"observed": n, "hidden": prior.expected_nodes([0.0] * n) - n})
            if n in (1, 5, 10, 15, 20):
                graphs = prior.sample(rng, [0.0] * n, size=draws)
                simulated.append({"observed": n} | _mean("hidden", graphs.n_hidden))
        growth.append({"alpha": alpha, "gamma": 1.0, "exact": exact, "simulated": simulated})
    return {"draws": draws, "levels": levels, "growth": growth}


def _on_level(nodes: float, alpha: float) -> ChefsProcess:
    return ChefsProcess.with_expected_nodes(nodes, [0.0], alpha=float(alpha))


def _mean(name: str, counts: NDArray[np.integer]) -> dict[str, float]:
    error = counts.std(ddof=1) / np.sqrt(counts.size)
    return {name: float(counts.mean()), f"{name}_error": float(error)}


def prior_properties(
    rng: np.random.Generator | None = None, draws: int = 4000, numbers: dict[str, Any] | None = None
) -> Figure:
    """The three panels of the paper's figure on hyperparameters: exact curves with simulated points on them.

    (a) Where E[K⁺] is constant over α and γ, for one observed node at order 0. A simulated point is drawn with α and
    γ on the curve; it stands off by the γ that its mean is off, and so does its error bar.
    (b) The expected number of edges along the first four of these curves.
    (c) The expected number of hidden nodes against the number of observed ones, at γ = 1. The paper does not say where
    these are; here all are at order 0, as in (a), so that each curve begins on panel (a)'s plane.

    No observed node has another one or a hidden one below it, so φ plays no part. Bars are two standard errors.

    Args:
        rng: A NumPy generator; that of seed 0 where None.
        draws: How many graphs to draw for each simulated point.
        numbers: What `prior_numbers` returned, to draw it without simulating again.
    """
    numbers = prior_numbers(rng, draws) if numbers is None else numbers
    figure = Figure(figsize=(10.5, 3.4))
    figure.set_layout_engine("constrained", wspace=0.06)
    left, middle, right = figure.subplots(1, 3)
    for curve, colour in zip(numbers["levels"], COLOURS, strict=True):
        exact, points = _columns(curve["exact"]), _columns(curve["simulated"])
        off, error = (curve["nodes"] - points["nodes"]) / points["slope"], points["nodes_error"] / points["slope"]
        left.plot(exact["alpha"], exact["gamma"], color=colour)
        left.errorbar(points["alpha"], points["gamma"] + off, 2 * error, color=colour, **POINTS)
        _name(left, exact["alpha"][-1], exact["gamma"][-1], f"E[K⁺] = {curve['nodes']}", colour)
        if curve["nodes"] <= 5:
            middle.plot(exact["alpha"], exact["edges"], color=colour)
            middle.errorbar(points["alpha"], points["edges"], 2 * points["edges_error"], color=colour, **POINTS)
            _name(middle, exact["alpha"][-1], exact["edges"][-1], f"E[K⁺] = {curve['nodes']}", colour)
    for curve, colour in zip(numbers["growth"], COLOURS, strict=False):
        exact, points = _columns(curve["exact"]), _columns(curve["simulated"])
        right.plot(exact["observed"], exact["hidden"], color=colour)
        right.errorbar(points["observed"], points["hidden"], 2 * points["hidden_error"], color=colour, **POINTS)
        _name(right, 20, exact["hidden"][-1], f"α = {curve['alpha']:g}", colour)
    log_alpha = {"xscale": "log", "xlim": (0.04, 150), "xlabel": "concentration α"}
    left.set(**log_alpha, yscale="log", ylabel="mass γ", title="(a) Equal expected numbers of nodes")
    left.set_yticks([0.5, 1, 2, 5, 10], labels=["0.5", "1", "2", "5", "10"])
    middle.set(**log_alpha, ylim=(0, None), ylabel="expected number of edges", title="(b) Edges along these curves")
    for ax in (left, middle):
        ax.set_xticks([0.1, 1, 10], labels=["0.1", "1", "10"])
        ax.spines["bottom"].set_bounds(0.04, 20)
        ax.minorticks_off()
    right.set(xlim=(0, 25), xticks=[1, 5, 10, 15, 20], ylim=(0, None), title="(c) Hidden nodes at γ = 1")
    right.set(xlabel="number of observed nodes", ylabel="expected number of hidden nodes")
    right.spines["bottom"].set_bounds(0, 20)
    right.plot([], [], color="black", label="exact")
    right.errorbar([], [], [], color="black", label=f"mean of {numbers['draws']} draws, ± 2 s.e.", **POINTS)
    right.legend(loc="lower right", frameon=False, fontsize=8)
    for ax in (left, middle, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set_size(10)
    return figure


def _name(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    """Write what a curve is beside its right end: no legend has to be matched."""
    ax.annotate(text, (x, y), (5, 0), textcoords="offset points", color=colour, size=9, va="center")


def _columns(rows: list[dict[str, float]]) -> dict[str, FloatArray]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
