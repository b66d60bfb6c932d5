"""Pictures of an architecture search: the figure of section 4.2 of the paper. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chefs import plots
from chefs.cnn.plan import Shape, plan_of, reached
from chefs.dag import Dag, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("accuracy", "nodes", "degree", "width", "depth")
TICKS = (0.1, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.992, 0.995, 0.998, 0.999, 0.9995)  # of accuracies
BLUE, CROSSES = "#2f6f9f", ("#b5542e", "#4f9d94", "#7d3c5d")


def network(dag: Dag, ax: Axes | None = None, shape: Shape | None = None) -> Axes:
    """Draw the network of a graph: its layers at the height of their orders, with channels × side² below each.

    Args:
        dag: A graph from an image, at order 1, to a label, at order 0.
        ax: Where to draw; a new figure where None.
        shape: Sizes of images and layers.

    >>> graph = Dag([[0, 0, 1], [0, 0, 0], [0, 1, 0]], [1.0, 0.0, 0.5], n_observed=2)
    >>> [text.get_text() for text in network(graph).texts]
    ['image 1×28²', '3 labels', '8×14²']
    """
    shape = shape or Shape()
    plan_of(dag, shape)  # says what is wrong with a graph that is no network
    part = reached(dag)
    bins = [shape.bin(float(order)) for order in part.order[2:]]
    names = [f"image {shape.in_channels}×{shape.image_side}²", f"{shape.n_classes} labels"]
    return plots.dag(part, ax, [*names, *(f"{shape.channels(b)}×{shape.side(b)}²" for b in bins)])


def figure(numbers: dict[str, Any]) -> Figure:
    """Pairs of accuracy, nodes, average degree, width and depth; orders of each network; three architectures.

    Args:
        numbers: What `chefs.experiments.architectures.run` returns.
    """
    from matplotlib.figure import Figure

    whole = Figure(figsize=(11, 15), layout="constrained")
    parts: Any = whole.subfigures(3, 1, height_ratios=(3.2, 0.9, 1.4))
    top, middle, bottom = parts
    examples = numbers["examples"]
    _pairs(top.subplots(5, 5), {name: np.array(numbers["columns"][name]) for name in COLUMNS}, examples)
    n_draws, n_networks = sum(numbers["n_draws"]), numbers["n_networks"]
    top.suptitle(f"A  {n_draws} draws of {n_networks} networks: test accuracy, and the nodes that the input reaches")
    for ax, (name, values) in zip(middle.subplots(1, 4), numbers["orders"].items(), strict=True):
        ax.hist(values, bins=np.linspace(0, 0.5 if name == "standard deviation" else 1, 31), color=BLUE)
        ax.set(xlabel=f"{name} of the orders", yticks=[])
    middle.suptitle("B  orders of the hidden layers of each network")
    axes = bottom.subplots(1, 3)
    for ax, example, colour in zip(axes, examples, CROSSES, strict=False):
        graph = Dag.from_json(example["dag"])
        plots.dag(graph, ax, names=["image", "label"])
        accuracy = numbers["columns"]["accuracy"][example["draw"]]
        ax.set_title(f"{graph.n_hidden} layers, accuracy {accuracy:.3f}", color=colour, size=10)
    for ax in axes[len(examples) :]:
        ax.set_axis_off()
    bottom.suptitle("C  three of them")
    return whole


def _pairs(axes: Any, columns: dict[str, FloatArray], examples: list[dict[str, Any]]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("shades", ["#b9d4e6", "#1b3a5c"])
    shown = {**columns, "accuracy": _stretched(columns["accuracy"]), "width": np.log10(np.maximum(columns["width"], 1))}
    labels = {"degree": "average degree", "width": "log₁₀ paths (width)", "accuracy": "test accuracy"}
    for row, y in enumerate(COLUMNS):
        for column, x in enumerate(COLUMNS):
            ax: Axes = axes[row, column]
            if row == column:
                ax.hist(shown[x], bins=_bins(shown[x]), color=BLUE)
                ax.set_yticks([])
            elif column < row:
                ax.hexbin(shown[x], shown[y], gridsize=24, cmap=shades, mincnt=1, bins="log", linewidths=0.1)
                for example, colour in zip(examples, CROSSES, strict=False):
                    at = example["draw"]
                    ax.plot(shown[x][at], shown[y][at], "x", color=colour, ms=7, mew=2)
            else:
                ax.set_axis_off()
                ax.text(0.5, 0.5, _correlation(shown[x], shown[y]), ha="center", va="center", transform=ax.transAxes)
            if column <= row:
                _mark(ax.xaxis, x, shown[x])
            if column < row:
                _mark(ax.yaxis, y, shown[y])
            if row == len(COLUMNS) - 1:
                ax.set_xlabel(labels.get(x, x))
            if column == 0:
                ax.set_ylabel(labels.get(y, y))


def _stretched(accuracy: FloatArray) -> FloatArray:
    """−log₁₀(1 − accuracy): good networks lie close together, and those at the start far away."""
    return -np.log10(np.maximum(1 - accuracy, 1e-5))


def _mark(axis: Any, name: str, shown: FloatArray) -> None:
    """Ticks at round numbers; accuracies are shown as such, though their axis is stretched."""
    if name in ("nodes", "depth"):
        axis.get_major_locator().set_params(integer=True)
    if name == "accuracy":
        places, chosen = _stretched(np.array(TICKS)), []
        for j in np.flatnonzero((places > shown.min() - 0.02) & (places < shown.max() + 0.02)):
            if not chosen or places[j] - places[chosen[-1]] > 0.25 * np.ptp(shown):  # room for the numbers
                chosen.append(j)
        axis.set_ticks(places[chosen], [f"{TICKS[j]:g}" for j in chosen])


def _bins(values: FloatArray) -> Any:
    whole = (values == np.round(values)).all() and np.ptp(values) < 40
    return np.arange(values.min() - 0.5, values.max() + 1) if whole else 30


def _correlation(x: FloatArray, y: FloatArray) -> str:
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return "one value"
    return f"correlation\n{np.corrcoef(x, y)[0, 1]:+.2f}".replace("-", "−")
