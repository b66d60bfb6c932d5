"""The command `chefs prior`: random graphs, and how large they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chefs.cli_shared import Json, Seed, notice, orders_of, print_json

if TYPE_CHECKING:
    from chefs.dags import Dags
    from chefs.prior import ChefsProcess

PICTURES = (".png", ".svg", ".pdf")
LEVELS = (0.05, 0.5, 0.95)


def prior(
    alpha: Annotated[float, typer.Option(help="Concentration: smaller makes denser graphs.")] = 1.0,
    gamma: Annotated[float, typer.Option(help="Mass: larger makes larger graphs.")] = 2.0,
    phi: Annotated[float, typer.Option(help="Popularity of observed nodes.")] = 1.0,
    observed: Annotated[
        int | None, typer.Option(help="Number of observed nodes.", show_default="3, or as --orders says")
    ] = None,
    orders: Annotated[
        str | None, typer.Option(help="Their orders in [0, 1], nan where free: 0,0,nan.", show_default="all free")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Number of graphs to draw.")] = 1000,
    seed: Seed = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the first three graphs (.png, .svg or .pdf).")] = None,
    graphs: Annotated[Path | None, typer.Option(help="Write the graphs as JSON, one a line.")] = None,
    json: Json = False,
) -> None:
    """Draw graphs from the prior and print how large they are, exactly and as simulated."""
    import numpy as np

    from chefs._files import check_new, write_new
    from chefs.patience import patient
    from chefs.prior import ChefsProcess, observed_orders

    process = ChefsProcess(alpha, gamma, phi)
    nodes = observed_orders(_observed(observed, orders))
    check_new(*(path for path in (plot, graphs) if path))
    if plot and plot.suffix.lower() not in PICTURES:
        raise ValueError(f"--plot cannot write {plot.name}: the name must end in {', '.join(PICTURES)}")
    if plot and graphs and plot.resolve() == graphs.resolve():
        raise ValueError(f"--plot and --graphs are the same file, {plot}: choose two")
    if plot:
        import chefs.plots  # noqa: F401  a missing matplotlib is reported before the work
    exact = _exact(process, nodes)  # first: it refuses a prior too large
    compile_sampler()
    with patient():
        drawn = process.sample(np.random.default_rng(seed), nodes, size=draws)
    facts = {"observed": drawn.n_observed, "draws": draws, "exact": exact, "simulated": _simulated(drawn)}
    if json:
        print_json({"alpha": process.alpha, "gamma": process.gamma, "phi": process.phi, "seed": seed, **facts})
    else:
        _print_sizes(process, facts)
    if plot:
        write_new(plot, _side_by_side(drawn, plot.suffix.lower()))
    if graphs:
        with graphs.open("x", encoding="utf-8") as file:
            file.writelines(graph.to_json() + "\n" for graph in drawn)


def compile_sampler() -> None:
    """Have the sampler ready, and say so where that takes a while: it is compiled once, then kept on disk."""
    import numpy as np

    import chefs._core.generate  # noqa: F401  loading takes time too, which is not to be taken for compiling
    from chefs.prior import ChefsProcess

    with notice(3.0, "compiling, this once: about ten seconds ..."):
        ChefsProcess().sample(np.random.default_rng(0), 1, size=1)  # no time at all where it is compiled


def _observed(count: int | None, orders: str | None) -> int | list[float]:
    """What the library calls `observed`, from the two options."""
    if orders is None:
        return 3 if count is None else count
    heights = orders_of(orders)
    if count not in (None, len(heights)):
        raise ValueError(f"--observed is {count} but --orders has {len(heights)}: make them agree or leave one out")
    return heights


def _exact(process: ChefsProcess, nodes: Any) -> dict[str, Any]:
    import numpy as np

    pmf = process.n_active_pmf(nodes)
    mean = float(pmf @ np.arange(pmf.size))
    means = {"nodes": mean, "hidden_nodes": mean - len(nodes), "edges": process.expected_edges(nodes)}
    quantiles = {f"{q:.0%}": int(np.searchsorted(np.cumsum(pmf), q)) for q in LEVELS}
    return {"mean": means, "quantiles_of_nodes": quantiles}


def _simulated(drawn: Dags) -> dict[str, Any]:
    import numpy as np

    counts = {"nodes": drawn.n_nodes, "hidden_nodes": drawn.n_hidden, "edges": drawn.n_edges}
    several = len(drawn) > 1
    return {
        "mean": {name: float(values.mean()) for name, values in counts.items()},
        "standard_error": {
            name: float(values.std(ddof=1) / np.sqrt(values.size)) if several else None
            for name, values in counts.items()
        },
        "quantiles_of_nodes": {f"{q:.0%}": int(np.quantile(drawn.n_nodes, q, method="inverted_cdf")) for q in LEVELS},
    }


def _print_sizes(process: ChefsProcess, facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from chefs.dag import counted

    exact, simulated = facts["exact"], facts["simulated"]
    size = f"{facts['observed']} observed, {counted(facts['draws'], 'draw')}"
    table = Table(title=f"alpha {process.alpha:g}, gamma {process.gamma:g}, phi {process.phi:g}, {size}")
    table.add_column("")
    for heading in ("exact", "simulated", "standard error"):
        table.add_column(heading, justify="right")
    for name, mean in simulated["mean"].items():
        error = simulated["standard_error"][name]
        shown = "-" if error is None else f"{error:.3f}"
        table.add_row(f"mean {name.replace('_', ' ')}", f"{exact['mean'][name]:.3f}", f"{mean:.3f}", shown)
    table.add_section()
    for level, count in simulated["quantiles_of_nodes"].items():
        table.add_row(f"{level} quantile of nodes", f"{exact['quantiles_of_nodes'][level]}", f"{count}", "")
    Console(highlight=False).print(table)


def _side_by_side(graphs: Dags, suffix: str) -> bytes:
    from matplotlib.figure import Figure

    from chefs import plots
    from chefs.experiments import rendered

    n = min(3, len(graphs))
    figure = Figure(figsize=(4 * n, 4), layout="constrained")
    for graph, ax in zip(graphs, figure.subplots(1, n, squeeze=False)[0], strict=False):
        plots.dag(graph, ax)
    return rendered(figure, suffix)
