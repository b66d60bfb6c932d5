"""Tables and curves of the results of `mixing` and of experiments like it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chefs.convergence import diagnose


def grouped(results: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Results by data set and variant, each in the order in which they first come."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        groups.setdefault((result["data"], result["variant"]), []).append(result)
    return groups


def summary(results: list[dict[str, Any]]) -> str:
    """A table with a line for each data set and variant."""
    lines = [
        "| data | variant | seeds | chains × seconds | distance | ratio to baseline ± sd | each "
        "| ratio, many test sets and baselines ± sd | units | edges "
        "| R-hat of units, edges, held-out log-likelihood | effective draws of these | arms |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (name, variant), group in grouped(results).items():
        ratios = [result["ratio"][-1] for result in group]
        fresh = [result["fresh_ratio"][-1] for result in group if "fresh_ratio" in result]
        ends = [run["curve"][-1][1:3] for result in group for run in result["runs"]]
        size = "{:.0f} | {:.0f}".format(*np.median(ends, axis=0)) if ends else "- | -"
        times = sorted({(result["chains"], result["seconds"][-1]) for result in group if result["runs"]})
        time_given = " and ".join(f"{chains} × {seconds:.0f}" for chains, seconds in times) or "-"
        lines.append(
            f"| {name} | {variant} | {len(group)} | {time_given} "
            f"| {np.mean([r['distance'][-1] for r in group]):.4f} | {spread(ratios)} "
            f"| {', '.join(f'{r:.2f}' for r in ratios)} | {spread(fresh)} | {size} | {agreement(group)} "
            f"| {arms_of(group)} |"
        )
    return "\n".join([*lines, *pooled_lines(results)]) + "\n"


def pooled_lines(results: list[dict[str, Any]]) -> list[str]:
    """A second table, for fits that have them: means over seeds of what chains took over, and of what is theirs.

    Fits are alike that pooled as many chains.
    """
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for result in results:
        if result.get("pools"):
            n_chains = result["pools"][-1]["n_chains"]
            groups.setdefault((result["data"], result["variant"], n_chains), []).append(result)
    lines = [
        "",
        "| data | variant | seeds | squared error of the training half | of that error taken over | rest, of one chain "
        "| of pools | ratio that follows | with a training half of the usual error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (name, variant, _), group in groups.items():
        sizes = [pool["n_chains"] for pool in group[0]["pools"]]
        rest = {
            n: np.mean([pool["rest"] for r in group for pool in r["pools"] if pool["n_chains"] == n]) for n in sizes
        }
        whole = [result["pools"][-1] for result in group]
        follows = [math.sqrt(1 + pool["total"] / 2) for pool in whole]
        usual = math.sqrt(1 + np.mean([pool["taken"] ** 2 + pool["rest"] for pool in whole]) / 2)
        lines.append(
            f"| {name} | {variant} | {len(group)} | {spread([result['training_error'] for result in group])} "
            f"| {spread([pool['taken'] for pool in whole])} | {rest[1]:.2f} "
            f"| {', '.join(f'{n}: {rest[n]:.2f}' for n in sizes[1:]) or '-'} | {spread(follows)} | {usual:.2f} |"
        )
    return lines if groups else []


def spread(values: list[float]) -> str:
    """Mean and standard deviation, as far as there are any."""
    deviation = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{deviation}" if values else "-"


def agreement(group: list[dict[str, Any]]) -> str:
    """Medians over fits, for units, edges and held-out log-likelihood in the second halves of the chains.

    R-hat between the chains of a fit, and effective draws of all its chains together.
    """
    found = []
    for result in group:
        halves = [np.array(run["curve"])[len(run["curve"]) // 2 :, 1:] for run in result["runs"]]
        if halves:
            found.append([diagnose([half[:, number] for half in halves]) for number in range(3)])
    if not found:
        return "- | -"
    r_hat = np.median([[one.r_hat for one in fit] for fit in found], axis=0)
    n_effective = np.median([[one.n_effective for one in fit] for fit in found], axis=0)
    return f"{', '.join(f'{x:.2f}' for x in r_hat)} | {', '.join(f'{x:.0f}' for x in n_effective)}"


def arms_of(group: list[dict[str, Any]]) -> str:
    """Standard deviation of the masses of the arms, and the share of points off them: means over fits."""
    found = np.array([result["arms"] for result in group if "arms" in result])
    return f"{found[:, :5].std(axis=1).mean():.3f}, {found[:, 5].mean():.3f}" if len(found) else "-"


def curves(results: list[dict[str, Any]]):
    """Ratio to the baseline against seconds of a chain, a panel for each data set and a line for each variant."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    groups = grouped(results)
    names = list(dict.fromkeys(name for name, _ in groups))
    figure = Figure(figsize=(4.5 * len(names), 4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, wanted in zip(panels, names, strict=True):
        panel.set_prop_cycle(color=matplotlib.colormaps["tab20"](np.arange(20)))  # more variants than the usual ten
        for (name, variant), group in groups.items():
            if name == wanted and not group[0]["runs"]:
                style = ":" if variant == "truth" else "--"
                panel.axhline(float(np.mean([r["ratio"] for r in group])), color="0.6", ls=style, label=variant)
            elif name == wanted:
                panel.plot(group[0]["seconds"], np.mean([r["ratio"] for r in group], axis=0), "o-", label=variant, ms=3)
        panel.axhline(1.0, color="0.6", lw=0.8)
        panel.set(title=wanted, xlabel="seconds of each chain", yscale="log")
        panel.yaxis.set(major_locator=FixedLocator([1, 1.5, 2, 3, 5, 10, 20]), minor_locator=NullLocator())
        panel.yaxis.set_major_formatter(ScalarFormatter())
    panels[0].set_ylabel("Hellinger distance / baseline")
    panels[-1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return figure
