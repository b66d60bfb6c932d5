"""The page about a run: chefs report, and what fit, resume, demo and search write at their end."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from chefs.cli_shared import compile_densities, names_of, opened

PAGE = "report.html"
ENDINGS = (".html", ".htm")


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run of chefs fit, or of chefs search.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A new file (.html).", show_default="report.html in the run's folder"),
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Rows that the run has not seen, to judge it by; or a data set's name.")
    ] = None,
) -> None:
    """Write one page of HTML about a run: what was found, whether it has converged, fantasy against data."""
    from chefs._files import check_new

    if output:
        check_new(output)
        if output.suffix.lower() not in ENDINGS:
            raise ValueError(f"--output cannot write {output.name}: the name must end in {' or '.join(ENDINGS)}")
    if is_search(run) and test:
        raise ValueError("--test is for runs of chefs fit: a search has test images of its own")
    write = _search_writer(run) if is_search(run) else _fit_writer(run, test)
    print(write(output) if output else _renewed(run / PAGE, write))


def is_search(run: Path) -> bool:
    """Whether a folder holds a search over architectures."""
    return (run / "asked.json").exists()


def page_of_fit(run: Path, data: str | None = None) -> Path:
    """report.html in the folder of a run of `fit`; the data may be a data set of chefs, which has a test half."""
    from chefs import datasets

    return _renewed(run / PAGE, _fit_writer(run, data if data in datasets.list() else None))


def page_of_search(run: Path) -> Path:
    """report.html in the folder of a search."""
    return _renewed(run / PAGE, _search_writer(run))


def _fit_writer(run: Path, test: str | None) -> Callable[[Path], Path]:
    """What writes the page, given where; the rows that the run is judged by are read first."""
    from chefs import tabular
    from chefs.report import write

    model = opened(run)
    unseen = None
    if test:
        unseen = tabular.matched(tabular.read(test, "test"), names_of(model), model.n_features_in_)
        compile_densities(model, unseen)
    return partial(write, run, test=unseen)


def _search_writer(run: Path) -> Callable[[Path], Path]:
    from chefs.report import write_search
    from chefs.report.search import numbers_in

    return partial(write_search, numbers_in(run))


def _renewed(path: Path, write: Callable[[Path], Path]) -> Path:
    """A file of ours, whole or not there; an older one is replaced."""
    aside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        os.replace(write(aside), path)
    finally:
        aside.unlink(missing_ok=True)
    return path
