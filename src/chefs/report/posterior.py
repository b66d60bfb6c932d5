"""Section on the posterior over structures: numbers of hidden units, edges, what each unit explains, single draws."""

from __future__ import annotations

import numpy as np

from chefs._consensus import match
from chefs.dag import counted
from chefs.report.chains import figure, section
from chefs.report.chart import Panel
from chefs.report.graph import Edge, drawn, picker, steady
from chefs.report.markup import Markup, joined, table, tag
from chefs.report.run import Run
from chefs.report.structures import LEAST_SHARE, Common, Draw, common, compared, draws_of, most_frequent
from chefs.report.words import listed, number, percent
from chefs.trace import Trace

MOST_PICKED, LEAST_PICKED, MOST_EDGES = 24, 6, 2500  # draws to pick from, and edges of all of them together
MOST_STRUCTURES = 3  # side by side; of large ones the first alone
LARGE = 40  # edges
MOST_LISTED = 150  # rows of the table of edges
KEYS = "Arrow keys go through its nodes and edges."


def structures(run: Run) -> Markup:
    """All that the draws say about structure."""
    ranked = most_frequent(run.trace)
    shared = common(run.trace, ranked[0][0].dag)
    parts = [_consensus(shared, run.names), _units(shared, run.names), _frequent(ranked, shared, run)]
    return section("structures", "The posterior over structures", _hidden(run.trace), *parts, _picker(shared, run))


def hidden_words(trace: Trace) -> str:
    """How many hidden units there are, in words."""
    low, middle, high = np.quantile(trace.n_hidden, (0.05, 0.5, 0.95), method="nearest").tolist()
    if low < high:
        return f"{low} to {high} hidden units in nine draws of ten (median {middle})"
    return f"{counted(middle, 'hidden unit')} in at least nine draws of ten"


def _hidden(trace: Trace) -> Markup:
    """The distribution of the number of hidden units."""
    pmf = trace.n_hidden_pmf()
    seen = np.flatnonzero(pmf)
    low, high = int(seen.min()), int(seen.max())
    panel = Panel((low - 1, high + 1), (0, float(pmf.max()) * 1.08), width=420, y_text=percent)
    panel.x_label, panel.y_label = "hidden units", "share of the draws"
    panel.x_ticks = np.unique(np.linspace(low, high, min(9, high - low + 1)).round()).tolist()
    numbers = list(range(low, high + 1))
    titles = [f"{counted(k, 'hidden unit')}: {percent(float(pmf[k]))} of the draws" for k in numbers]
    panel.bars(np.arange(low - 0.5, high + 1), pmf[numbers], "s0", titles)
    words = f"The draws have {hidden_words(trace)} and {number(float(trace.n_edges.mean()))} edges in the mean."
    return figure(words, panel.svg(f"Bars: {words}"))


def _consensus(shared: Common, names: list[str]) -> Markup:
    """The graph of edges that many draws have."""
    graph, labels = shared.graph, [*names, *shared.names]
    edges = {}
    for k, i in np.argwhere(graph.edges).tolist():
        share, weight = float(shared.share[k, i]), float(shared.weight[k, i])
        said = f"probability {share:.2f}, weight {_signed(weight)} ± {shared.spread[k, i]:.2f}"
        edges[k, i] = Edge(0.5 + 3.5 * share, share, weight >= 0, f"{labels[k]} → {labels[i]}: {said}")
    words = [_node_words(shared, names, i) for i in range(graph.n_nodes)]
    places = np.column_stack([shared.x, graph.order])
    description = f"The consensus graph: {counted(len(edges), 'edge')}. {KEYS}"
    picture = _scroll(drawn(graph, labels, edges, words, description, places))
    title = tag("h3", "Consensus")
    if not edges:
        said = f"No edge is in {percent(LEAST_SHARE)} of the draws: the columns look independent."
        return joined(title, figure(said, picture, class_="network"))
    caption = (
        f"Edges that at least {percent(LEAST_SHARE)} of the draws have, hidden units of different draws matched by "
        "their neighbours; those in at least half, shown first, are the consensus graph. Edges run down, from parent "
        "to child; height is order; the thicker, the more probable; "
    )
    threshold = _slider("probability at least", LEAST_SHARE, 1.0, 0.05, 0.5)
    listing = _edge_table(shared, labels)
    return joined(title, figure(joined(caption, _colours()), threshold, picture, listing, class_="network"))


def _colours() -> Markup:
    """What the colours of edges mean."""
    positive, negative = tag("span", class_="key positive"), tag("span", class_="key negative")
    return joined(positive, " positive, ", negative, " negative weight. Point at an edge or a node to read about it.")


def _slider(words: str, low: float, high: float, step: float, value: float) -> Markup:
    """A control that hides weak edges of the graph in the same figure."""
    ends = {"min": f"{low:g}", "max": f"{high:g}", "step": f"{step:g}", "value": f"{value:g}"}
    control = tag("input", type="range", class_="least", **ends)
    return tag("label", f"Edges with {words} ", control, " ", tag("output"), class_="control")


def _scroll(graph: Markup) -> Markup:
    return tag("div", graph, class_="scroll")


def _signed(weight: float) -> str:
    return f"{weight:+.2f}".replace("-", "−")


def _node_words(shared: Common, names: list[str], i: int) -> str:
    order = f"order {shared.graph.order[i]:.2f}"
    if i < len(names):
        return f"{names[i]}: a column of the data, {order}"
    unit = shared.names[i - len(names)]
    return f"{unit}: a hidden unit that {percent(float(shared.present[i]))} of the draws have, {order}"


def _edge_table(shared: Common, labels: list[str]) -> Markup:
    """The same edges as a table, most probable first."""
    pairs = np.argwhere(shared.graph.edges)
    pairs = pairs[np.argsort(-shared.share[tuple(pairs.T)], kind="stable")]
    rows = []
    for k, i in pairs[:MOST_LISTED].tolist():
        weight = _signed(float(shared.weight[k, i])), f"{shared.spread[k, i]:.2f}"
        rows.append([f"{labels[k]} → {labels[i]}", f"{shared.share[k, i]:.2f}", *weight])
    more = f", the {MOST_LISTED} most probable of {len(pairs)}" if len(pairs) > MOST_LISTED else ""
    head = ["edge", "probability", "mean weight", "standard deviation"]
    return tag("details", tag("summary", f"These edges as a table{more}"), table(head, rows, "numbers"))


def _units(shared: Common, names: list[str]) -> Markup | None:
    """What each hidden unit explains."""
    n, graph = len(names), shared.graph
    if not graph.n_hidden:
        return None
    rows = [_unit(shared, names, int(k)) for k in np.argsort(-shared.present[n:], kind="stable") + n]
    head = ["unit", "in draws", "order", "acts on (weight, probability)", "reaches through others"]
    words = (
        "Hidden units, those that most draws have first. A weight says by how many of its standard deviations the mean "
        "of a column changes as the unit goes from off to on; units below and parents are those of at least half of "
        "the draws."
    )
    listing = table([*head, "units below", "parents"], rows, "units")
    return joined(tag("h3", "What each hidden unit explains"), figure(words, listing))


def _unit(shared: Common, names: list[str], k: int) -> list[str]:
    """A row about hidden unit k."""
    n, labels = len(names), [*names, *shared.names]
    share, weight, reached = shared.share[k], shared.weight[k], shared.reached[k]
    direct = [i for i in np.argsort(-share[:n] * np.abs(weight[:n]), kind="stable") if share[i] >= LEAST_SHARE]
    further = [i for i in np.argsort(-reached[:n], kind="stable") if reached[i] >= 0.5 and i not in direct]
    lists = [
        [f"{names[i]} ({_signed(weight[i])}, {percent(float(share[i]))})" for i in direct],
        [f"{names[i]} ({percent(float(reached[i]))})" for i in further],
        [labels[i] for i in range(n, len(labels)) if share[i] >= 0.5],
        [labels[i] for i in range(len(labels)) if shared.share[i, k] >= 0.5],
    ]
    first = [labels[k], percent(float(shared.present[k])), f"{shared.graph.order[k]:.2f}"]
    return [*first, *(listed(words, 6) if words else "–" for words in lists)]


def _draw_graph(draw: Draw, shared: Common, names: list[str], room: float = 860.0) -> Markup:
    """The graph of one draw, edges as thick as their weights are large, hidden units named as in the consensus."""
    place, n = match(draw.dag, shared.graph), len(names)
    labels = [*names, *(shared.names[p - n] if p >= 0 else f"?{j + 1}" for j, p in enumerate(place[n:]))]
    edges = {}
    for k, i in np.argwhere(draw.dag.edges).tolist():
        weight = float(draw.weights[k, i])
        share = float(shared.share[place[k], place[i]]) if min(place[k], place[i]) >= 0 else 0.0
        probability = f"{share:.2f}" if share >= 0.005 else "below 0.01"
        said = f"weight {_signed(weight)} in this draw, probability {probability} over all"
        width = 0.4 + 1.3 * min(abs(weight), 3.0)
        edges[k, i] = Edge(width, abs(weight), weight >= 0, f"{labels[k]} → {labels[i]}: {said}")
    words = [
        _node_words(shared, names, p) if p >= 0 else f"{label}: a hidden unit that few draws have"
        for p, label in zip(place, labels, strict=True)
    ]
    description = f"Chain {draw.chain + 1}, draw {draw.number + 1}: {counted(len(edges), 'edge')}. {KEYS}"
    at = steady(draw.dag, np.where(place >= 0, shared.x[place], 0.0))
    return drawn(draw.dag, labels, edges, words, description, at, room)


def _frequent(ranked: list[tuple[Draw, float]], shared: Common, run: Run) -> Markup:
    """The most probable structures, or that no structure is seen twice."""
    n_draws = len(compared(run.trace))
    if len(ranked) == n_draws > 1:
        words = f"All {n_draws} draws have different structures: none is probable by itself. "
        picture = _scroll(_draw_graph(ranked[0][0], shared, run.names))
        body = figure(f"{words}This one has the highest density.", picture, class_="network")
        return joined(tag("h3", "The most probable structure"), body)
    large = ranked[0][0].dag.n_edges > LARGE
    shown = [(draw, share) for draw, share in ranked[: 1 if large else MOST_STRUCTURES] if share * n_draws > 1.5]
    pictures = []
    for draw, share in shown or ranked[:1]:
        size = f"{counted(draw.dag.n_hidden, 'hidden unit')}, {counted(draw.dag.n_edges, 'edge')}"
        picture = _scroll(_draw_graph(draw, shared, run.names, 860.0 if large else 240.0))
        pictures.append(figure(f"{percent(share)} of the draws: {size}", picture, class_="network"))
    found = f"{counted(len(ranked), 'different structure')} in {counted(n_draws, 'draw')}"
    words = f"{found}. Thickness is the weight in one draw."
    return joined(
        tag("h3", "The most probable structures"),
        tag("div", *pictures, class_=None if large else "grid"),
        tag("p", words, class_="caption"),
    )


def _picker(shared: Common, run: Run) -> Markup:
    """Draws to look at one by one."""
    mean_edges = max(1.0, float(run.trace.n_edges.mean()))
    draws = list(draws_of(run.trace, int(np.clip(MOST_EDGES / mean_edges, LEAST_PICKED, MOST_PICKED))))
    options = []
    for draw in draws:
        fit = float(run.trace.chains[draw.chain].scalars["log_likelihood"][draw.number])
        size = f"{counted(draw.dag.n_hidden, 'hidden unit')}, {counted(draw.dag.n_edges, 'edge')}"
        options.append(f"chain {draw.chain + 1}, draw {draw.number + 1}: {size}, log-likelihood {number(fit, 5)}")
    controls, *shown = picker(options, [_draw_graph(draw, shared, run.names) for draw in draws])
    largest = max(float(np.abs(draw.weights).max(initial=0.0)) for draw in draws)
    weak = _slider("|weight| at least", 0.0, max(0.1, np.floor(10 * largest) / 10), 0.1, 0.0)
    words = f"{counted(len(draws), 'draw')} spread over all chains; the thicker an edge, the larger its weight; "
    body = figure(joined(words, _colours()), controls, weak, *shown, class_="network")
    return joined(tag("h3", "Draw by draw"), body)
