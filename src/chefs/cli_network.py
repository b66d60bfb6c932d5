"""The commands that ask a fitted network: fantasy, impute and score."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chefs.cli_shared import Json, Seed, compile_densities, compile_imputations, names_of, opened, print_json

if TYPE_CHECKING:
    from chefs.dag import FloatArray
    from chefs.network.estimator import SigmoidNetwork

Run = Annotated[Path, typer.Argument(help="The folder of a run of chefs fit.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="A new file (.csv, .parquet or .npy).")]


def fantasy(
    run: Run,
    output: Output,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many points.")] = 2000,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Draw points from fitted networks, on the scale of the data."""
    from chefs.dag import counted

    _check_output(output)
    model = opened(run)
    points = model.sample(number, random_state=seed)
    _written(output, points, model, json, {"points": number}, counted(number, "point"))


def impute(
    run: Run,
    output: Output,
    data: Annotated[
        str | None, typer.Option(help="Other rows than those that the run has learnt from, with the same columns.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws of each missing number, of which the mean is taken.")] = 100,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fill in the missing numbers of a table by their means given what is seen of their rows."""
    import numpy as np

    from chefs.dag import counted
    from chefs.sampling import kept

    _check_output(output)
    model = opened(run)
    rows = None if data is None else _rows(model, data)
    table = kept(run).get("table") if rows is None else rows
    if table is None:
        raise ValueError(f"{run} does not hold the table that it has learnt from: give the rows with --data")
    if not np.isnan(table).any():
        raise ValueError(f"no number is missing in {data or 'the table that the run has learnt from'}")
    compile_imputations(model)
    filled = model.impute(rows, draws=draws, random_state=seed).mean
    missing = int(np.isnan(table).sum())
    words = f"{counted(missing, 'missing number')} in {np.isnan(table).any(axis=1).sum()} of {len(table)} rows"
    _written(output, filled, model, json, {"rows": len(table), "filled": missing}, words)


def score(
    run: Run,
    data: Annotated[str, typer.Argument(help="Rows with the columns of the run; or a data set, for its test half.")],
    effort: Annotated[int, typer.Option(min=1, help="How many times the usual work: does the answer stand?")] = 1,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Log density of rows that the run has not seen, on the scale of the data, in the mean."""
    import numpy as np

    from chefs.dag import counted

    model = opened(run)
    rows = _rows(model, data)
    compile_densities(model, rows)
    logs = model.score_samples(rows, effort=effort, seed=seed)
    error = float(logs.std(ddof=1) / np.sqrt(len(logs))) if len(logs) > 1 else None
    facts = {"rows": len(logs), "mean": float(logs.mean()), "standard_error": error, "median": float(np.median(logs))}
    if json:
        return print_json({"run": run, "data": data, **facts, "log_density": logs.tolist()})
    within = "" if error is None else f" ± {error:.4f}"
    print(f"log density of {counted(len(logs), 'row')}: mean {facts['mean']:.4f}{within}, median {facts['median']:.4f}")


def _rows(model: SigmoidNetwork, data: str) -> FloatArray:
    from chefs import tabular

    return tabular.matched(tabular.read(data, "test"), names_of(model), model.n_features_in_)


def _check_output(output: Path) -> None:
    from chefs._files import check_new
    from chefs.tabular import check_writable

    check_new(output)
    check_writable(output)


def _written(
    output: Path, values: FloatArray, model: SigmoidNetwork, json: bool, facts: dict[str, Any], words: str
) -> None:
    from chefs import tabular

    tabular.write(output, values, names_of(model))
    if json:
        return print_json({"output": output, "columns": model.trace_.names, **facts})
    print(f"{words}: {output}")
