"""The command `chefs`: parses, calls the library, prints."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from chefs import cli_network

if TYPE_CHECKING:
    from chefs.dag import FloatArray
    from chefs.dags import Dags
    from chefs.prior import ChefsProcess

# typer brings its own click or uses the one installed, by version: this is the UsageError of the right one.
UsageError: Any = typer.BadParameter.__bases__[0]
PICTURES = (".png", ".svg", ".pdf")

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Random DAGs with hidden nodes: the Indian Chefs Process.",
)
reproduce = typer.Typer(help="Make a figure or table of the paper again.")
app.add_typer(reproduce, name="reproduce")
for command in (cli_network.fit, cli_network.fantasy, cli_network.demo):
    app.command()(command)


def main(arguments: list[str] | None = None) -> None:
    """The console entry point: exit code 2 and one sentence for bad input, 1 for a run that fails."""
    try:
        code = app(arguments, prog_name="chefs", standalone_mode=False)
    except UsageError as error:
        where = error.ctx.command_path if error.ctx else "chefs"
        _leave(2, f"{error.format_message().rstrip('.')}: see {where} --help")
    except (ValueError, FileExistsError, FileNotFoundError, NotADirectoryError) as error:
        _leave(2, str(error))
    except BrokenPipeError:
        # Whoever read our output has gone; without this, flushing at exit would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ImportError, OSError, MemoryError) as error:
        _leave(1, str(error) or "out of memory: choose a smaller gamma or fewer draws")
    except (KeyboardInterrupt, typer.Abort):
        _leave(1, "interrupted")
    sys.exit(code if isinstance(code, int) else 0)


def _leave(code: int, sentence: str) -> NoReturn:
    print(f"chefs: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(code)


def _print_version(wanted: bool) -> None:
    if wanted:
        from chefs import __version__

        print(f"chefs {__version__}")
        raise typer.Exit


def _print_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    _print_help(context)


@reproduce.callback(invoke_without_command=True)
def _reproduce(context: typer.Context) -> None:
    _print_help(context)


@app.command()
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
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the first three graphs (.png, .svg or .pdf).")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the graphs, one a line.")] = None,
) -> None:
    """Draw graphs from the prior and print how large they are, exactly and as simulated."""
    import numpy as np

    from chefs.experiments import check_new, write_new
    from chefs.prior import ChefsProcess, observed_orders

    process = ChefsProcess(alpha, gamma, phi)
    nodes = observed_orders(_observed(observed, orders))
    check_new(*(path for path in (plot, json) if path))
    if plot and plot.suffix.lower() not in PICTURES:
        raise ValueError(f"--plot cannot write {plot.name}: the name must end in {', '.join(PICTURES)}")
    if plot and json and plot.resolve() == json.resolve():
        raise ValueError(f"--plot and --json are the same file, {plot}: choose two")
    if plot:
        import chefs.plots  # noqa: F401  a missing matplotlib is reported before the work
    pmf, edges = process.n_active_pmf(nodes), process.expected_edges(nodes)  # first: it refuses a prior too large
    _compile()
    graphs = process.sample(np.random.default_rng(seed), nodes, size=draws)
    _print_sizes(process, pmf, edges, graphs)
    if plot:
        write_new(plot, _side_by_side(graphs, plot.suffix.lower()))
    if json:
        with json.open("x", encoding="utf-8") as file:
            file.writelines(graph.to_json() + "\n" for graph in graphs)


def _observed(count: int | None, orders: str | None) -> int | list[float]:
    """What the library calls `observed`, from the two options."""
    if orders is None:
        return 3 if count is None else count
    try:
        heights = [float(order) for order in orders.split(",")]
    except ValueError:
        raise ValueError(
            f"--orders must be numbers in [0, 1] or nan with commas between them, such as 0,0,nan; found {orders!r}"
        ) from None
    if count not in (None, len(heights)):
        raise ValueError(f"--observed is {count} but --orders has {len(heights)}: make them agree or leave one out")
    return heights


def _compile() -> None:
    """Have the sampler ready, and say so where that takes a while: it is compiled once, then kept on disk."""
    from threading import Timer

    import numpy as np

    import chefs._core.generate  # noqa: F401  loading takes time too, which is not to be taken for compiling
    from chefs.prior import ChefsProcess

    notice = Timer(1.0, print, ["compiling, this once: about ten seconds ..."], {"file": sys.stderr})
    notice.daemon = True
    notice.start()
    ChefsProcess().sample(np.random.default_rng(0), 1, size=1)  # no time at all where it is compiled
    notice.cancel()


def _print_sizes(process: ChefsProcess, pmf: FloatArray, edges: float, graphs: Dags) -> None:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    mean = float(pmf @ np.arange(pmf.size))
    rows = (
        ("nodes", mean, graphs.n_nodes),
        ("hidden nodes", mean - graphs.n_observed, graphs.n_hidden),
        ("edges", edges, graphs.n_edges),
    )
    table = Table(title=f"alpha {process.alpha:g}, gamma {process.gamma:g}, phi {process.phi:g}, {_counts(graphs)}")
    table.add_column("")
    for heading in ("exact", "simulated", "standard error"):
        table.add_column(heading, justify="right")
    for name, exact, counts in rows:
        error = f"{counts.std(ddof=1) / np.sqrt(counts.size):.3f}" if counts.size > 1 else "-"
        table.add_row(f"mean {name}", f"{exact:.3f}", f"{counts.mean():.3f}", error)
    table.add_section()
    for q in (0.05, 0.5, 0.95):
        exact = int(np.searchsorted(np.cumsum(pmf), q))
        simulated = int(np.quantile(graphs.n_nodes, q, method="inverted_cdf"))
        table.add_row(f"{q:.0%} quantile of nodes", f"{exact}", f"{simulated}", "")
    Console(highlight=False).print(table)


def _counts(graphs: Dags) -> str:
    return f"{graphs.n_observed} observed, {len(graphs)} draw{'s'[: len(graphs) > 1]}"


def _side_by_side(graphs: Dags, suffix: str) -> bytes:
    from matplotlib.figure import Figure

    from chefs import plots
    from chefs.experiments import rendered

    n = min(3, len(graphs))
    figure = Figure(figsize=(4 * n, 4), layout="constrained")
    for graph, ax in zip(graphs, figure.subplots(1, n, squeeze=False)[0], strict=False):
        plots.dag(graph, ax)
    return rendered(figure, suffix)


@reproduce.command("prior")
def reproduce_prior(
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
) -> None:
    """The figure on hyperparameters: a picture (.png and .svg) and its numbers (.json)."""
    from chefs.experiments.prior import run

    _compile()
    for path in run(out, seed):
        print(path)


IMAGES = "digits (8 × 8, come with chefs), mnist123 (the paper's), mnist or fashion."
PRESET = "paper (the settings of the paper) or default (ours)."
MINUTES = "Stop after so many minutes; the same command goes on."


@app.command()
def search(
    out: Annotated[Path, typer.Option(help="Folder of the run: a new one, or one to go on with.")],
    dataset: Annotated[str, typer.Option(help=IMAGES)] = "digits",
    preset: Annotated[str, typer.Option(help=PRESET)] = "default",
    chains: Annotated[int | None, typer.Option(min=1, help="Chains.", show_default="15, for digits 2")] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Accepted changes of each chain.", show_default="300, for digits 20")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    minutes: Annotated[float | None, typer.Option(min=0.0, help=MINUTES)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
) -> None:
    """Search convolutional architectures for images: report, picture, and everything needed to go on."""
    _architectures(
        out, data=dataset, preset=preset, chains=chains, draws=draws, device=device, minutes=minutes, seed=seed
    )


@reproduce.command("architectures")
def reproduce_architectures(
    out: Annotated[Path, typer.Option(help="Folder of the run: a new one, or one to go on with.")],
    dataset: Annotated[str, typer.Option(help=IMAGES)] = "mnist123",
    preset: Annotated[str, typer.Option(help=PRESET)] = "paper",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    minutes: Annotated[float | None, typer.Option(min=0.0, help=MINUTES)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
) -> None:
    """The experiment on architectures: 15 chains of 300 accepted changes, the figure and its numbers."""
    _architectures(out, data=dataset, preset=preset, device=device, minutes=minutes, seed=seed)


def _architectures(out: Path, **options: Any) -> None:
    from chefs import plots_architectures  # noqa: F401  without matplotlib nothing is begun
    from chefs.experiments import architectures

    try:
        numbers = architectures.run(out, **options)
    except RuntimeError as error:  # of the run, or of the GPU and its driver
        _leave(1, str(error).partition("\n")[0])
    print(architectures.report(numbers))
    for path in architectures.write_pictures(out, numbers):
        print(path)
