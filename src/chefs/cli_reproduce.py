"""The commands `chefs reproduce ...`: the figures and tables of the paper again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from chefs.cli_prior import compile_sampler
from chefs.cli_search import IMAGES, MINUTES, PRESET, run_architectures
from chefs.cli_shared import print_help

reproduce = typer.Typer(help="Make a figure or table of the paper again.")


@reproduce.callback(invoke_without_command=True)
def _reproduce(context: typer.Context) -> None:
    print_help(context)


@reproduce.command("prior")
def reproduce_prior(
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
) -> None:
    """The figure on hyperparameters: a picture (.png and .svg) and its numbers (.json)."""
    from chefs.experiments.prior import run

    compile_sampler()
    for path in run(out, seed):
        print(path)


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
    run_architectures(out, data=dataset, preset=preset, device=device, minutes=minutes, seed=seed)


@reproduce.command("table")
def reproduce_table(
    out: Annotated[Path, typer.Option(help="Folder of the results: fits that are there are not made again.")],
    datasets: Annotated[str, typer.Option(help="Data sets, with commas between them.", show_default="all")] = "all",
    priors: Annotated[str, typer.Option(help="Priors of the network: icp, cibp, ecibp, or none.")] = "all",
    alternatives: Annotated[
        str,
        typer.Option(help="Instead of it: mixture, kernel, flow, bootstrap (training points drawn again), or none."),
    ] = "all",
    minutes_per_fit: Annotated[
        float | None, typer.Option(help="Time of one fit on one core.", show_default="2, or 4 beyond two dimensions")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Splits of the data.")] = 5,
    rival_seeds: Annotated[
        int | None, typer.Option(min=1, help="Splits for cibp and ecibp.", show_default="3, or as --seeds says")
    ] = None,
    chains: Annotated[int, typer.Option(min=1, help="Chains of a fit, which take turns.")] = 4,
    start: Annotated[str, typer.Option(help="Where chains start: gradient or empty.")] = "gradient",
    jobs: Annotated[int, typer.Option(help="Fits at a time; -1 for one a core.")] = -1,
) -> None:
    """The experiment on nine data sets: results as JSON, the table as Markdown, CSV and picture."""
    from chefs.experiments import table

    if jobs == 0:
        raise ValueError("--jobs must not be 0: give how many fits may run at a time, or -1 for one a core")
    paths = table.run(
        out,
        _named(datasets, table.DATASETS),
        _named(priors, table.PRIORS),
        _named(alternatives, tuple(table.alternatives.ALTERNATIVES)),
        minutes=minutes_per_fit,
        seeds=seeds,
        rival_seeds=rival_seeds,
        chains=chains,
        n_jobs=jobs,
        say=lambda line: print(line, flush=True),
        start=start,
    )
    for path in paths:
        print(path)


@reproduce.command("fantasy")
def reproduce_fantasy(
    out: Annotated[Path, typer.Option(help="Folder to write to: points that are there are not made again.")],
    datasets: Annotated[str, typer.Option(help="Data sets, with commas between them.", show_default="all")] = "all",
    minutes_per_fit: Annotated[
        float | None, typer.Option(help="Time of one fit on one core.", show_default="2, or 4 beyond two dimensions")
    ] = None,
    chains: Annotated[int, typer.Option(min=1, help="Chains of a fit, which take turns.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of the fits.")] = 0,
) -> None:
    """Pictures of the data beside what networks that learnt it make up: fantasy.png, and the points."""
    from chefs import datasets as known
    from chefs.experiments import fantasy

    names = _named(datasets, known.list())
    print(fantasy.run(out, names, minutes=minutes_per_fit, chains=chains, seed=seed, say=print))


def _named(text: str, every: Sequence[str]) -> Sequence[str]:
    """Names with commas between them; "all" or "none" of those there are."""
    return {"all": every, "none": ()}.get(text, [name.strip() for name in text.split(",")])
