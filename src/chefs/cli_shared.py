"""What commands share: options that are read in one way, answers for scripts, and runs that can be interrupted."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from chefs.dag import FloatArray
    from chefs.network.estimator import SigmoidNetwork

Seed = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]


class StoppedError(Exception):
    """Ctrl-C, with a sentence; typer would take KeyboardInterrupt for itself."""


def print_help(context: typer.Context) -> None:
    """Show the help where a group of commands is called without one."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def orders_of(text: str) -> list[float]:
    """What an option --orders says.

    >>> orders_of("0, 1,nan")
    [0.0, 1.0, nan]
    """
    try:
        return [float(order) for order in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--orders must be numbers in [0, 1] or nan with commas between them, such as 0,0,nan; found {text!r}"
        ) from None


def edges_of(option: str, texts: Sequence[str], columns: Sequence[str]) -> list[tuple[int, int]]:
    """Edges such as "dose->effect" as the numbers of their columns, wherever the arrow is in names that have some too.

    >>> edges_of("--forbid", ["dose->effect"], ("effect", "dose"))
    [(1, 0)]
    """
    edges = []
    for text in texts:
        parts = text.split("->")
        ends = [("->".join(parts[:cut]).strip(), "->".join(parts[cut:]).strip()) for cut in range(1, len(parts))]
        if not ends:
            raise ValueError(f"{option} must be two columns with an arrow between them, 'A->B'; found {text!r}")
        known = [pair for pair in ends if pair[0] in columns and pair[1] in columns]
        if not known:
            unknown = next(name for name in ends[0] if name not in columns)
            raise ValueError(f"{option} names the column {unknown!r}; those of the data are {', '.join(columns)}")
        if known[0][0] == known[0][1]:
            raise ValueError(f"{option} {text} leads from a column to itself: name two")
        edges.append((columns.index(known[0][0]), columns.index(known[0][1])))
    return edges


def print_json(facts: dict[str, Any]) -> None:
    """One line that any reader of JSON takes: what is not a number is null."""
    print(json.dumps(_plain(facts), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case Path():
            return str(value)
        case float() if value - value != 0.0:  # nan or infinite
            return None
        case _:
            return value


def opened(run: Path) -> SigmoidNetwork:
    """The model in a folder; one that holds none was named by mistake."""
    from chefs.network.estimator import SigmoidNetwork
    from chefs.storage import RunError

    if not run.is_dir():
        raise FileNotFoundError(f"there is no folder {run}: name the folder of a run of chefs fit")
    try:
        return SigmoidNetwork.load(run)
    except RunError as error:
        raise ValueError(str(error)) from None


def names_of(model: SigmoidNetwork) -> list[str] | None:
    """The names of the columns that a model was fitted to, if they had any."""
    return None if model.trace_.about["names"] is None else list(model.trace_.names)


def check_folder(folder: Path, *, empty: bool = False) -> None:
    """Raise where a folder cannot be made, because it is a file or in one; or where it must be new and is not."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is a file: choose a folder")
    if empty and there == folder and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise FileExistsError(
            f"{folder} exists and is not empty: choose another folder, or go on with its run by chefs resume"
        )


@contextmanager
def going_on(run: Path) -> Iterator[None]:
    """Ctrl-C while a run goes on: what was written is kept, and how to continue is said."""
    try:
        yield
    except KeyboardInterrupt:
        begun = (run / "run").exists()  # the file of a fit, the folder of a search
        words = f"it goes on with chefs resume {shlex.quote(str(run))}" if begun else "nothing was begun"
        raise StoppedError(f"interrupted: {words}") from None


@contextmanager
def notice(seconds: float, words: str) -> Iterator[None]:
    """Say what takes so long, where it does; it may be interrupted."""
    from threading import Timer

    from chefs.patience import plain

    timer = Timer(seconds, print, [words], {"file": sys.stderr})
    timer.daemon = True
    timer.start()
    try:
        with plain():
            yield
    finally:
        timer.cancel()


def compile_densities(model: SigmoidNetwork, rows: FloatArray) -> None:
    """Have what densities need compiled, on the first of some rows; say so where it takes a while."""
    with notice(5.0, "compiling, this once: about twenty seconds ..."):
        model.score_samples(rows[:1])


def compile_imputations(model: SigmoidNetwork) -> None:
    """Have what imputations need compiled, on a row of which nothing is seen."""
    with notice(5.0, "compiling, this once: about twenty seconds ..."):
        model.impute([[math.nan] * model.n_features_in_], draws=1)
