"""The command `chefs search`: architectures for images; and how such a run is continued."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from chefs.cli_report import page_of_search
from chefs.cli_shared import Json, Seed, going_on, notice, print_json

IMAGES = "digits (8 × 8, come with chefs), mnist123 (the paper's), mnist or fashion."
PRESET = "paper (the settings of the paper) or default (ours)."
MINUTES = "Stop after so many minutes; the same command goes on."


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
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Search convolutional architectures for images: report, picture, and everything needed to go on."""
    how = {"data": dataset, "preset": preset, "chains": chains, "draws": draws, "device": device, "seed": seed}
    run_architectures(out, json=json, minutes=minutes, **how)


def go_on(run: Path, *, minutes: float | None, draws: int | None, report: bool, json: bool) -> None:
    """Continue a search as it was asked for, to more draws if so many are given."""
    from json import loads

    from chefs.storage import RunError, Store

    try:
        asked = dict(loads((run / "asked.json").read_text()))
        begun = Store.open(run / "run")[1]["draws"]
        options = {name: asked[name] for name in ("data", "preset", "chains", "device", "seed")}
    except (ValueError, TypeError, KeyError, RunError):
        raise ValueError(f"{run} cannot be continued: begin again with chefs search in another folder") from None
    if draws is not None and draws < begun:
        raise ValueError(f"--draws must be at least {begun}, what the search was started with; found {draws}")
    run_architectures(run, report=report, json=json, **options, draws=draws or begun, minutes=minutes)


def run_architectures(out: Path, *, report: bool = True, json: bool = False, **options: Any) -> None:
    """Search, report and pictures; a search that fails is an error of the machine, not of the user."""
    from chefs import plots_architectures  # noqa: F401  without matplotlib nothing is begun
    from chefs.experiments import architectures

    with going_on(out):
        try:
            numbers = architectures.run(out, compiled=partial(_compiled, options["device"]), **options)
        except RuntimeError as error:  # of the run, or of the GPU and its driver
            raise OSError(str(error).partition("\n")[0]) from None
        if not json:
            print(architectures.report(numbers))
        pictures, page = architectures.write_pictures(out, numbers), page_of_search(out) if report else None
    if json:
        return print_json({"run": out, **_summary(numbers), "pictures": pictures, "report": page})
    for path in filter(None, (*pictures, page)):
        print(path)


def _compiled(device: str) -> None:
    """Compile, and say so where it takes a while."""
    from chefs.experiments.architectures import have_compiled

    with notice(3.0, "compiling, this once: about half a minute ..."):
        have_compiled(device)


def _summary(numbers: dict[str, Any]) -> dict[str, Any]:
    """What a script would ask for; the rest is in architectures.json."""
    found = {name: numbers[name] for name in ("data", "preset", "chains", "seed")}
    found |= {"draws": numbers["n_draws"], "seconds": 60 * numbers["minutes"], "trainings": numbers["trainings"]}
    return found | {"networks": numbers.get("n_networks", 0), "scores": numbers.get("scores")}
