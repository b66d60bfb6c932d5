"""The picture of the table: distances beside the paper's, and log-likelihoods. Needs matplotlib."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from chefs import datasets
from chefs.experiments.table_values import (
    BY_HEART,
    MODELS,
    PAPER,
    Results,
    columns,
    in_table,
    ratio,
    score,
    title_of,
    values,
)

COLOURS = dict(zip(MODELS, ("#b5542e", "#b58a2e", "#7d3c5d", "#2f6f9f", "#4f9d94", "#1b3a5c", "#8a8a8a"), strict=True))
MARKS = dict(zip(MODELS, "osDv^PX", strict=True))


def picture(results: Results) -> Figure:
    """Ratios beside the paper's, and log-likelihoods less those of the first model, split by split."""
    parts, models = columns(results), in_table(results)
    figure = Figure(figsize=(3.0 + len(parts), 8), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    for which, model in enumerate(models):
        shift = 0.8 * (which - (len(models) - 1) / 2) / len(models)
        for x, part in enumerate(parts):
            first = values(results, part, models[0], score("mean"))
            scores = values(results, part, model, score("mean"))
            _point(top, model, x + shift, list(values(results, part, model, ratio("diagonal")).values()))
            if model != BY_HEART:
                _point(bottom, model, x + shift, [scores[seed] - first[seed] for seed in scores if seed in first])
            if model in PAPER and part in datasets.list():
                printed = PAPER[model][datasets.list().index(part)]
                top.plot(x + shift, printed, MARKS[model], color=COLOURS[model], mfc="none", ms=7)
    for panel, level in ((top, 1.0), (bottom, 0.0)):
        panel.axhline(level, color="0.6", lw=0.8)
        panel.spines[["top", "right"]].set_visible(False)
        for x in range(len(parts) - 1):
            panel.axvline(x + 0.5, color="0.9", lw=0.6)
    top.set(ylabel="Hellinger distance / baseline", yscale="log")
    bottom.set_ylabel(f"mean held-out log-likelihood\nless that of {MODELS[models[0]]}, nats")
    bottom.set_yscale("symlog", linthresh=0.1)
    low, high = bottom.get_ylim()
    bottom.set_ylim(min(low, -0.15), max(high, 0.15))
    above = [0.05, 0.1, 0.3, 1, 3, 10, 30, 100]
    for panel, ticks in ((top, [0.5, 1, 1.5, 2, 3, 4, 5, 7, 10, 20]), (bottom, [0, *above, *(-y for y in above)])):
        panel.yaxis.set_major_locator(FixedLocator(ticks))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.minorticks_off()
    bottom.set_xticks(range(len(parts)), [title_of(part).replace(" ", "\n") for part in parts])
    figure.legend(handles=_legend(models), loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _point(panel: Axes, model: str, x: float, numbers: list[float]) -> None:
    """Mean and standard deviation over splits, where there are any."""
    if numbers:
        spread = np.std(numbers, ddof=1) if len(numbers) > 1 else 0.0
        panel.errorbar(x, np.mean(numbers), spread, fmt=MARKS[model], color=COLOURS[model], ms=5, lw=1)


def _legend(models: list[str]) -> list[Line2D]:
    """Full marks for ours, hollow ones for the paper's."""
    ours = [Line2D([], [], color=COLOURS[m], marker=MARKS[m], ls="", label=MODELS[m]) for m in models]
    papers = {m: f"{MODELS[m]}, paper" for m in models if m in PAPER}
    return ours + [
        Line2D([], [], color=COLOURS[m], marker=MARKS[m], ls="", mfc="none", label=label) for m, label in papers.items()
    ]
