"""Pictures of a fitted network: data, fantasy, the graph and the chains (Figure 3 of the paper). Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chefs import plots
from chefs.dag import FloatArray
from chefs.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#2f6f9f", "#b5542e", "#4f9d94", "#7d3c5d", "#b58a2e", "#1b3a5c")


def overview(trace: Trace, data: FloatArray, fantasy: FloatArray) -> Figure:
    """Data and fantasy in their first two columns, the most probable structure, and how the chains went.

    Args:
        trace: Draws of a network.
        data: Points, a row each.
        fantasy: Points drawn from the networks.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 9), layout="constrained")
    axes: Any = figure.subplot_mosaic([["data", "fantasy"], ["graph", "hidden"], ["graph", "fit"]])
    both = np.concatenate([data, fantasy[np.abs(fantasy - data.mean(axis=0)).max(axis=1) < 8 * data.std(axis=0).max()]])
    for name, points in (("data", data), ("fantasy", fantasy)):
        scatter(points, axes[name], trace.names)
        axes[name].set(title=f"{len(points)} points of {name}")
        if data.shape[1] > 1:
            axes[name].set(xlim=_range(both[:, 0]), ylim=_range(both[:, 1]), box_aspect=1)
    graph = trace.most_probable()
    plots.dag(graph, axes["graph"], trace.names)
    axes["graph"].set_title(f"most probable structure: {graph.n_hidden} hidden units, {graph.n_edges} edges")
    chains(trace, axes["hidden"], "n_hidden")
    chains(trace, axes["fit"], "log_likelihood")
    axes["hidden"].set(title=f"{trace.n_chains} chains", ylabel="hidden units")
    axes["fit"].set(xlabel="draw", ylabel="log-likelihood")
    return figure


def scatter(points: FloatArray, ax: Axes, names: list[str]) -> None:
    """Points in their first two columns; a histogram where there is one."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(names[0])
    if points.shape[1] == 1:
        ax.hist(points[:, 0], bins=50, color=COLOURS[0])
        return
    ax.plot(points[:, 0], points[:, 1], ".", ms=2, color=COLOURS[0], alpha=0.6, mew=0)
    ax.set_ylabel(names[1])


def chains(trace: Trace, ax: Axes, name: str) -> None:
    """One number of every draw, a line a chain: "n_hidden", "n_edges" or a scalar of the trace."""
    for c in range(trace.n_chains):
        chain = trace[c]
        values = getattr(chain, name) if name in ("n_hidden", "n_edges") else chain.scalar(name)
        ax.plot(values, lw=0.8, marker="." if len(values) < 20 else "", color=COLOURS[c % len(COLOURS)])
    ax.spines[["top", "right"]].set_visible(False)


def _range(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    pad = 0.05 * (high - low)
    return low - pad, high + pad
