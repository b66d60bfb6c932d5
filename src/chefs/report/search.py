"""The page on an architecture search: how good its networks are, what they look like, whether its chains agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from chefs.cnn.plan import INPUT, Shape
from chefs.dag import Dag, FloatArray, counted
from chefs.report.chains import Watched, does_it_converge, figure, judged, moves_table, section, versions
from chefs.report.chart import Panel, bins, matrix, padded
from chefs.report.graph import Edge, drawn, picker
from chefs.report.markup import Markup, table, tag
from chefs.report.page import Page
from chefs.report.words import listed, number

COLUMNS = {"accuracy": "test accuracy", "nodes": "nodes", "degree": "edges a node", "width": "paths", "depth": "depth"}
WATCHED = {
    "accuracy": "test accuracy",
    "log_likelihood": "log-likelihood",
    "nodes": "number of nodes",
    "degree": "edges a node",
    "depth": "depth",
}
KINDS = {
    "ensemble": "the ensemble: label probabilities averaged over the draws",
    "mean": "a network by itself, mean over the draws",
    "best": "the best network, picked by its test accuracy",
}
FACTS = ("preset", "data", "chains", "draws", "seed", "weights", "power", "bins", "base_channels", "device", "prefetch")
MOST_DOTS = 800
ACCURACIES = (0.1, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995)
REMEDY = "A search over architectures climbs more than it mixes: read its draws as good networks that were found."


def numbers_in(folder: Path) -> dict[str, Any]:
    """The numbers that a search wrote into its folder."""
    path = folder / "architectures.json"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder} has no results yet: go on with chefs resume {folder}") from None
    except (ValueError, TypeError):
        raise ValueError(f"{path} is damaged: chefs resume {folder} writes it again") from None


def search_page(numbers: dict[str, Any], title: str | None) -> Page:
    """The whole page; with no draws yet it says so."""
    missing = [name for name in ("data", "n_draws") if name not in numbers]
    if missing:
        raise ValueError(f"numbers has no {missing[0]!r}: give what chefs.experiments.architectures.run returns")
    heading = title or f"Architectures: {numbers['data']}"
    foot = f"searched by chefs {numbers.get('version', '?')}; {versions()}"
    parts = {"Run": _what_was_run(numbers)}
    if not sum(numbers["n_draws"]):
        return Page(heading, ["No draws yet: go on with the search, then write the report again."], parts, foot)
    columns = {name: np.array(values, dtype=np.float64) for name, values in numbers["columns"].items()}
    chains = _watched(numbers, columns)
    parts |= {
        "Accuracy": _accuracy(numbers, columns),
        "Convergence": does_it_converge(chains, remedy=REMEDY),
        "Architectures": _architectures(numbers, columns),
        "Pairs": _pairs(numbers, columns),
    }
    _, said = judged(chains)
    best, ensemble = numbers["scores"]["best"]["accuracy"], numbers["scores"]["ensemble"]["accuracy"]
    first = f"{counted(numbers['n_networks'], 'different network')} in {counted(sum(numbers['n_draws']), 'draw')}"
    first += f": test accuracy {_exact(ensemble)} of the ensemble, {_exact(best)} of the best."
    return Page(heading, [first, tag("span", said.headline, class_=f"mark {said.level}")], parts, foot)


def _exact(accuracy: float) -> str:
    return f"{accuracy:.4f}"


def _watched(numbers: dict[str, Any], columns: dict[str, FloatArray]) -> Watched:
    cuts = np.cumsum(numbers["n_draws"])[:-1]
    found = {words: np.split(columns[name], cuts) for name, words in WATCHED.items() if name in columns}
    return {words: [chain for chain in chains if len(chain)] for words, chains in found.items()}


def _what_was_run(numbers: dict[str, Any]) -> Markup:
    rows = [[name.replace("_", " "), str(numbers[name])] for name in FACTS if name in numbers]
    if "settings" in numbers:
        rows.append(
            ["training", ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in numbers["settings"].items())]
        )
    lengths = sorted(set(numbers["n_draws"]))
    made = f"{lengths[0]}" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
    rows.append(["draws made", f"{made} a chain; a draw is an accepted change"])
    if "trainings" in numbers:
        rounds = f"{numbers['trainings']} networks trained in {numbers['rounds']} rounds"
        rows.append(["effort", f"{rounds}, {numbers['minutes']:.1f} min"])
    made_with = f"chefs {numbers.get('version', '?')}" + (f", PyTorch {numbers['torch']}" if "torch" in numbers else "")
    rows.append(["versions", made_with])
    return section("run", "What was run", table([], rows, "facts"), moves_table(numbers.get("moves", [])))


def _accuracy(numbers: dict[str, Any], columns: dict[str, FloatArray]) -> Markup:
    """Mean, ensemble and best, and how well calibrated each is."""
    rows = [
        [words, _exact(numbers["scores"][kind]["accuracy"]), f"{numbers['scores'][kind]['calibration_error']:.4f}"]
        for kind, words in KINDS.items()
    ]
    caption = (
        "On the test images. The expected calibration error is how far confidence is from the share of right answers: "
        "0 where of all answers given with 90 % confidence, say, 90 % are right. The best network is picked with the "
        "test images, so its accuracy flatters it; that of the ensemble does not."
    )
    panel = Panel(padded(columns["accuracy"]), (0, 1), width=420, x_label="test accuracy", y_ticks=())
    _histogram(panel, columns["accuracy"])
    shown = figure("Test accuracy of the network of each draw.", panel.svg("Histogram of test accuracies"))
    return section(
        "accuracy",
        "Accuracy and calibration",
        figure(caption, table(["", "accuracy", "calibration error"], rows, "numbers")),
        shown,
    )


def _histogram(panel: Panel, values: FloatArray) -> None:
    edges = bins(values)
    heights = np.histogram(values, edges)[0] / len(values)
    panel.y = (0, 1.1 * float(heights.max()))
    panel.bars(edges, heights, "s0")


def _architectures(numbers: dict[str, Any], columns: dict[str, FloatArray]) -> Markup:
    """A few networks of different sizes, drawn."""
    shape = Shape(n_bins=numbers.get("bins", 5), base_channels=numbers.get("base_channels", 4))
    pictures = []
    for example in numbers["examples"]:
        dag, at = Dag.from_json(example["dag"]), example["draw"]
        words = f"{counted(dag.n_hidden, 'layer')}, {counted(dag.n_edges, 'edge')}"
        words += f", {columns['n_weights'][at]:.0f} weights" if "n_weights" in columns else ""
        words += f"; test accuracy {_exact(float(columns['accuracy'][at]))}"
        pictures.append(figure(words, tag("div", _network(dag, shape), class_="scroll"), class_="network"))
    layers, degrees = numbers["layers"], numbers["degrees"]
    said = (
        f"The networks have {layers[0]} to {layers[1]} hidden layers that the image reaches, and {number(degrees[0])} "
        f"to {number(degrees[1])} edges a node. These are the most accurate among those of few, of a middling number "
        "of and of many layers; point at a layer to read its size. Height is order: the image is at 1, the label at 0."
    )
    grid = tag("div", *pictures, class_="grid")
    return section("architectures", "Architectures", tag("p", said), grid, *_draw_by_draw(numbers, columns, shape))


def _draw_by_draw(numbers: dict[str, Any], columns: dict[str, FloatArray], shape: Shape) -> list[Markup]:
    """Networks to look at one by one; searches of older versions have kept none."""
    picked = [(Dag.from_json(one["dag"]), one["draw"]) for one in numbers.get("picked", [])]
    if not picked:
        return []
    starts, options = np.cumsum([0, *numbers["n_draws"]]), []
    for dag, at in picked:
        chain = int(np.searchsorted(starts, at, side="right")) - 1
        size = f"{counted(dag.n_hidden, 'layer')}, {counted(dag.n_edges, 'edge')}"
        accuracy = f"test accuracy {_exact(float(columns['accuracy'][at]))}"
        options.append(f"chain {chain + 1}, draw {at - starts[chain] + 1}: {size}, {accuracy}")
    words = f"{counted(len(picked), 'draw')} spread over all chains: layers and edges that the image reaches."
    shown = picker(options, [_network(dag, shape, 860.0) for dag, _ in picked])
    return [tag("h3", "Draw by draw"), figure(words, *shown, class_="network")]


def _network(dag: Dag, shape: Shape, room: float = 240.0) -> Markup:
    names = ["image", "label", *(f"L{j + 1}" for j in range(dag.n_hidden))]
    sizes = ["the image", "the label"]
    for order in dag.order[2:].tolist():
        b = shape.bin(order)
        sizes.append(f"{shape.channels(b)} maps, sides {number(2.0 ** (-b / 2))} of the image's, order {order:.2f}")
    nodes = [f"{name}: {size}" if name != size[4:] else size for name, size in zip(names, sizes, strict=True)]
    edges = {}
    for k, i in np.argwhere(dag.edges).tolist():
        maps = "pixels" if k == INPUT else f"{shape.channels(shape.bin(float(dag.order[k])))} maps"
        edges[k, i] = Edge(1.6, 1.0, True, f"{names[k]} → {names[i]}: {maps}")
    description = f"A network of {counted(dag.n_hidden, 'layer')}. Arrow keys go through its layers and edges."
    return drawn(dag, names, edges, nodes, description, room=room)


def _pairs(numbers: dict[str, Any], columns: dict[str, FloatArray]) -> Markup:
    """Every pair of accuracy, nodes, degree, paths and depth."""
    shown = {name: columns[name] for name in COLUMNS}
    shown["accuracy"] = _stretched(shown["accuracy"])
    shown["width"] = np.log10(np.maximum(shown["width"], 1))
    n = len(shown["accuracy"])
    picked = np.sort(np.random.default_rng(0).permutation(n)[:MOST_DOTS])
    rows: list[list[Panel | None]] = []
    for i, y in enumerate(COLUMNS):
        row: list[Panel | None] = []
        for j, x in enumerate(COLUMNS):
            panel = Panel(padded(shown[x]), padded(shown[y]), width=190, height=190, left=40)
            _mark_axes(panel, x, y)
            if i == j:
                panel.y_ticks = ()
                _histogram(panel, shown[x])
                panel.title(COLUMNS[x])
            elif j < i:
                panel.dots(_jittered(shown[x][picked], 1), _jittered(shown[y][picked], 2), "s0")
            else:
                panel = Panel((0, 1), (0, 1), width=190, height=190, x_ticks=(), y_ticks=())
                panel.text(0.5, 0.5, _correlation(shown[x], shown[y]))
            row.append(panel)
        rows.append(row)
    words = (
        f"{n} draws of {counted(numbers['n_networks'], 'network')}"
        + (f", {MOST_DOTS} of them shown" if n > MOST_DOTS else "")
        + "; whole numbers are spread a little so that points do not hide one another. Above: correlations. "
        "The axis of accuracies is stretched towards 1, that of paths from image to label is logarithmic."
    )
    described = f"Scatter matrix of {listed(list(COLUMNS.values()))}"
    return section(
        "pairs", "How they hang together", figure(words, tag("div", matrix(rows, described), class_="scroll"))
    )


def _stretched(accuracy: Any) -> FloatArray:
    """−log₁₀(1 − accuracy): good networks lie close together, and those at the start far away."""
    return -np.log10(np.maximum(1 - np.asarray(accuracy, dtype=np.float64), 1e-5))


def _jittered(values: FloatArray, seed: int) -> FloatArray:
    """Values, spread by a third of their smallest distance where they are few and whole."""
    if (values == np.round(values)).all():
        return values + np.random.default_rng(seed).uniform(-0.3, 0.3, values.size)
    return values


def _mark_axes(panel: Panel, x: str, y: str) -> None:
    for axis, name in (("x", x), ("y", y)):
        if name == "accuracy":
            setattr(panel, f"{axis}_ticks", _accuracy_ticks(getattr(panel, axis)))
            setattr(panel, f"{axis}_text", lambda t: f"{1 - 10**-t:.4g}")
        elif name == "width":
            setattr(panel, f"{axis}_text", lambda t: number(10**t, 2))


def _accuracy_ticks(limits: tuple[float, float]) -> list[float]:
    low, high = limits
    chosen: list[float] = []
    for place in _stretched(ACCURACIES).tolist():
        if low <= place <= high and (not chosen or place - chosen[-1] > 0.22 * (high - low)):
            chosen.append(place)
    return chosen


def _correlation(x: FloatArray, y: FloatArray) -> str:
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return "one value"
    return f"{np.corrcoef(x, y)[0, 1]:+.2f}".replace("-", "−")
