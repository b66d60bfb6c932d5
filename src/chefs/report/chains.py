"""Sections on how the chains went: what was run, and whether it looks converged."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import chefs
from chefs.convergence import Diagnosis, diagnose, ranks
from chefs.dag import FloatArray, counted
from chefs.report.chart import N_SERIES, Panel, padded, ticks
from chefs.report.markup import Markup, joined, table, tag
from chefs.report.run import Run
from chefs.report.words import Verdict, duration, level, listed, percent, r_hat, verdict
from chefs.trace import Trace

WORDS = {
    "n_hidden": "number of hidden units",
    "n_edges": "number of edges",
    "log_likelihood": "log-likelihood",
    "alpha": "α",
    "gamma": "γ",
    "phi": "φ",
}
MOST_POINTS = 400  # of a line
N_BINS = 20
MARKS = {"good": "good", "fair": "fair", "bad": "not converged", "unknown": "cannot be told"}

Watched = dict[str, list[FloatArray]]  # in words, one array a chain


def section(name: str, title: str, *parts: Any) -> Markup:
    """A part of the page."""
    return tag("section", tag("h2", title), *parts, id=name)


def figure(caption: Any, *pictures: Any, class_: str | None = None) -> Markup:
    """Pictures with a caption."""
    return tag("figure", *pictures, tag("figcaption", caption), class_=class_)


def watched(trace: Trace) -> Watched:
    """The numbers by which chains are compared; hyperparameters that are fixed, and chains without draws, are not."""
    begun = [chain for chain in trace.chains if len(chain)]
    found: Watched = {
        "n_hidden": [chain.dags.n_hidden.astype(np.float64) for chain in begun],
        "n_edges": [chain.dags.n_edges.astype(np.float64) for chain in begun],
    }
    for name in ("log_likelihood", "alpha", "gamma", "phi"):
        if name in begun[0].scalars and (name == "log_likelihood" or np.ptp(trace.scalar(name)) > 0):
            found[name] = [chain.scalars[name] for chain in begun]
    return {WORDS[name]: chains for name, chains in found.items()}


def what_was_run(run: Run) -> Markup:
    """Data, options, versions, how long it took, and how often each move was accepted."""
    trace = run.trace
    facts = {"data": _size(run), "chains": _lengths(trace), **run.options(), "time": _time(trace)}
    if not run.complete:
        facts["state"] = "not all chains have ended: this is what was written so far"
    facts["versions"] = f"run by chefs {run.asked.get('version', '?')}; {versions()}"
    moves = moves_table([stats.get("moves", {}) for stats in trace.stats])
    return section("run", "What was run", table([], [[name, text] for name, text in facts.items()], "facts"), moves)


def versions() -> str:
    """What the report was made with."""
    return f"report by chefs {chefs.__version__}, NumPy {np.__version__}, Python {platform.python_version()}"


def _size(run: Run) -> str:
    if run.data is None:
        return f"{counted(run.trace.n_observed, 'column')}; {run.lacking}"
    rows, columns = run.data.shape
    gaps = int(np.isnan(run.data).sum())
    words = f"{counted(rows, 'row')}, {counted(columns, 'column')}"
    return f"{words}, {counted(gaps, 'entry') if gaps == 1 else f'{gaps} entries'} missing" if gaps else words


def _lengths(trace: Trace) -> str:
    lengths = [len(chain) for chain in trace.chains]
    if len(set(lengths)) == 1:
        return f"{counted(trace.n_chains, 'chain')} of {counted(lengths[0], 'draw')}"
    return f"{counted(trace.n_chains, 'chain')} with {listed([str(n) for n in lengths])} draws"


def _time(trace: Trace) -> str:
    each = [
        f"{duration(stats['seconds'])} with {counted(stats['warmup'] or 0, 'step')} of warm-up"
        for stats in trace.stats
        if "seconds" in stats
    ]
    if not each:
        return "no chain has ended"
    if len(each) == 1:
        return each[0]
    return "; ".join(f"chain {c}: {words}" for c, words in enumerate(each, 1))


def moves_table(stats: Sequence[Mapping[str, Mapping[str, Any]]]) -> Markup | None:
    """How often each kind of move was made and accepted after warm-up, over all chains, and what it cost."""
    names = list(dict.fromkeys(name for moves in stats for name in moves))
    if not names:
        return None
    total = {
        name: {key: sum(moves.get(name, {}).get(key, 0) for moves in stats) for key in ("made", "accepted", "seconds")}
        for name in names
    }
    spent = sum(move["seconds"] for move in total.values())
    rows = []
    for name, move in total.items():
        share = percent(move["accepted"] / move["made"]) if move["made"] else "–"
        row = [name, f"{move['made']}", f"{move['accepted']}", share]
        rows.append(row + ([f"{move['seconds']:.1f}", percent(move["seconds"] / spent)] if spent else []))
    head = ["move", "made", "accepted", "share"] + (["seconds", "share of the time"] if spent else [])
    return figure("Moves after warm-up, all chains together.", table(head, rows, "numbers"))


def judged(found: Watched) -> tuple[dict[str, Diagnosis], Verdict]:
    """R-hat and effective sizes of everything that is watched, and what follows."""
    diagnoses = {name: diagnose(chains) for name, chains in found.items()}
    return diagnoses, verdict(diagnoses, [len(chain) for chain in next(iter(found.values()))])


def idle_moves(trace: Trace) -> str | None:
    """A sentence about moves of which none was ever accepted."""
    made: dict[str, list[int]] = {}
    for stats in trace.stats:
        for name, move in stats.get("moves", {}).items():
            totals = made.setdefault(name, [0, 0])
            totals[0], totals[1] = totals[0] + move["made"], totals[1] + move["accepted"]
    idle = [f"{name} (of {tried})" for name, (tried, accepted) in made.items() if tried and not accepted]
    return f"After warm-up not one move of these kinds was accepted: {listed(idle)}." if idle else None


def does_it_converge(found: Watched, extra: Sequence[str | None] = (), remedy: str = "") -> Markup:
    """The verdict, the table behind it, and ranks and traces of every number."""
    diagnoses, said = judged(found)
    sentences = [*said.reasons, *(words for words in extra if words)]
    if said.level == "bad":
        sentences.append("What follows describes where these chains have been, not yet the posterior.")
    if said.level != "good" and remedy:
        sentences.append(remedy)
    rows = [
        [name, r_hat(d.r_hat), _whole(d.bulk), _whole(d.tail), tag("span", MARKS[level(d)], class_=f"mark {level(d)}")]
        for name, d in diagnoses.items()
    ]
    head = ["", "R-hat", "bulk ESS", "tail ESS", "verdict"]
    explained = (
        "R-hat compares halves of chains with one another and is 1 where all agree; the effective sample sizes (ESS) "
        "say how many independent draws these are worth, for the middle and for the tails."
    )
    return section(
        "convergence",
        "Does it look converged?",
        tag("div", tag("strong", said.headline), _paragraphs(sentences), class_=f"verdict {said.level}"),
        figure(explained, table(head, rows, "numbers")),
        _pictures(found),
    )


def _paragraphs(sentences: Sequence[str]) -> Markup:
    return tag("ul", *(tag("li", sentence) for sentence in sentences))


def _whole(size: float) -> str:
    return "–" if np.isnan(size) else f"{size:.0f}"


def _pictures(found: Watched) -> Markup:
    n = len(next(iter(found.values())))
    colours = [joined(tag("span", class_=f"key s{c}"), f" chain {c + 1} ") for c in range(n)] if n <= N_SERIES else []
    panels = []
    for name, chains in found.items():
        drawing = tag("div", traces(chains, name), rank_plot(chains, name))
        panels.append(figure(tag("b", name), drawing, class_="pair"))
    caption = (
        "Above: each draw of each chain in turn; chains that have converged look alike and wander around one level. "
        "Below: ranks of the draws of each chain among those of all; level bars mean that the chains see the same."
    )
    return joined(
        tag("p", *colours, class_="caption"), tag("div", *panels, class_="grid"), tag("p", caption, class_="caption")
    )


def traces(chains: Sequence[FloatArray], name: str) -> Markup:
    """A line a chain."""
    panel = Panel((0, max(2, *(len(chain) for chain in chains))), padded(*chains), height=120, x_label="draw")
    if all((chain == np.round(chain)).all() for chain in chains):
        panel.y_ticks = sorted({round(tick) for tick in ticks(*panel.y, 2)})
    for c, chain in enumerate(chains):
        step = -(-len(chain) // MOST_POINTS)
        at = np.arange(0, len(chain), step)
        if len(at) < 2:
            panel.dots(at + 1, chain[at], f"s{c % N_SERIES}")
        else:
            panel.line(at + 1, chain[at], f"s{c % N_SERIES}")
    return panel.svg(f"Draws of {name}, a line for each of {counted(len(chains), 'chain')}")


def rank_plot(chains: Sequence[FloatArray], name: str) -> Markup:
    """Shares of the draws of each chain in equal bins of rank, a row of bars a chain."""
    n_bins = int(np.clip(min(map(len, chains)) // 5, 4, N_BINS))
    edges = np.linspace(0, 1, n_bins + 1)
    heights = [np.histogram(r, edges)[0] * n_bins / len(r) for r in ranks(chains)]
    top = max(1.5, *(float(h.max()) for h in heights)) * 1.1
    row = 30 if len(chains) <= 6 else 14
    panel = Panel((0, 1), (0, top * len(chains)), height=row * len(chains) + 42, x_label="rank", y_ticks=())
    panel.x_ticks = (0, 0.5, 1)
    for c, chain in enumerate(reversed(heights)):
        panel.bars(edges, chain, f"s{(len(chains) - 1 - c) % N_SERIES}", base=top * c)
        panel.line([0, 1], [top * c + 1, top * c + 1], "even")
    return panel.svg(f"Ranks of {name}, a row of bars for each of {counted(len(chains), 'chain')}")


def summary(run: Run, said: Verdict, hidden: str) -> list[Markup | str]:
    """The first sentences of the page."""
    trace = run.trace
    columns = f"{counted(trace.n_observed, 'column')} ({listed(run.names, 8)})"
    data = f"{counted(len(run.data), 'row')} and {columns}" if run.data is not None else columns
    took = max((stats.get("seconds", 0.0) for stats in trace.stats), default=0.0)
    first = f"Networks of hidden units for {data}: {counted(len(trace), 'draw')} in {counted(trace.n_chains, 'chain')}"
    first += f", the longest of which took {duration(took)}." if took else "."
    mark = tag("span", said.headline, class_=f"mark {said.level}")
    return [first, joined(mark, f" The draws have {hidden}.")]
