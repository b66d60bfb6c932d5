"""The commands of the belief network: fit, fantasy and demo."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from chefs.dag import FloatArray
    from chefs.network.estimator import SigmoidNetwork

MISSING = ("", "nan", "na", "?")
N_FANTASIES = 10  # sets of fantasy points that the demo averages over


def fit(
    data: Annotated[str, typer.Argument(help="A table (.csv or .npy), or a data set of chefs such as ring.")],
    out: Annotated[Path, typer.Option(help="A new folder for the run.")],
    chains: Annotated[int, typer.Option(min=1, help="Independent chains.")] = 2,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws of each chain.", show_default="1000, or as --minutes says")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Steps before them.", show_default="1000, or half of --minutes")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after so many minutes.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    orders: Annotated[
        str, typer.Option(help="Orders of the columns in [0, 1], nan where free: one for all, or 1,1,0.")
    ] = "0",
    start: Annotated[str, typer.Option(help="gradient or empty.")] = "gradient",
) -> None:
    """Learn belief networks from a table, an empty cell or nan where a number is missing."""
    from chefs.network.estimator import SigmoidNetwork

    table, names = _table(data)
    model = SigmoidNetwork(
        orders=_numbers(orders),
        draws=draws,
        warmup=warmup,
        chains=chains,
        minutes=minutes,
        random_state=seed,
        checkpoint=out,
        start=start,
    )
    _fitted(model, table, names)
    _print_summary(model)
    print(out)


def fantasy(
    run: Annotated[Path, typer.Argument(help="The folder of a run of chefs fit.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new file (.csv or .npy).")],
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="How many points.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
) -> None:
    """Draw points from fitted networks, on the scale of the data."""
    from chefs.experiments import check_new
    from chefs.network.estimator import SigmoidNetwork
    from chefs.storage import RunError

    check_new(output)
    if output.suffix not in (".csv", ".npy"):
        raise ValueError(f"--output cannot write {output.name}: the name must end in .csv or .npy")
    try:
        model = SigmoidNetwork.load(run)
    except RunError as error:
        raise ValueError(str(error)) from None
    points = model.sample(number, random_state=seed)
    if output.suffix == ".npy":
        import numpy as np

        with output.open("xb") as binary:
            np.save(binary, points)
    else:
        with output.open("x", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([model.trace_.names, *points.tolist()])
    print(output)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("."),
    minutes: Annotated[float, typer.Option(help="How long to learn.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of the fit.")] = 0,
) -> None:
    """Learn the Ring in about a minute: a picture, and how far the fantasies are from the truth."""
    import numpy as np

    from chefs import datasets
    from chefs.experiments import check_new, rendered, write_new
    from chefs.metrics import hellinger
    from chefs.network.estimator import SigmoidNetwork
    from chefs.plots_network import overview

    out.mkdir(parents=True, exist_ok=True)
    picture = out / "ring.png"
    check_new(picture)
    ring = datasets.load("ring", seed)
    model = SigmoidNetwork(minutes=minutes, random_state=seed)
    _fitted(model, ring.train, ring.names)
    test, rng = ring.to_unit(ring.test), np.random.default_rng(seed)
    sets = [model.sample(len(test), random_state=rng) for _ in range(N_FANTASIES)]
    distances = [hellinger(ring.to_unit(points), test, n_resplits=0).distance for points in sets]
    baseline = hellinger(ring.to_unit(ring.train), test, n_resplits=0).distance
    write_new(picture, rendered(overview(model.trace_, ring.train, sets[0]), ".png"))
    _print_summary(model)
    print(f"Hellinger distance to {len(test)} test points, mean of {N_FANTASIES} sets of fantasy: ", end="")
    print(f"{np.mean(distances):.4f}; of the training points (baseline): {baseline:.4f}; ", end="")
    print(f"ratio {np.mean(distances) / baseline:.2f}")
    print(picture)


def _fitted(model: SigmoidNetwork, table: FloatArray, names: Any) -> None:
    """Fit; a run that fails is an error of the machine, not of the user."""
    from chefs.storage import RunError

    try:
        model.fit_table(table, names, _compiled)
    except RunError as error:
        raise OSError(str(error)) from None


def _compiled() -> None:
    """Compile, and say so where it takes a while."""
    from threading import Timer

    from chefs.network.estimator import have_compiled

    notice = Timer(5.0, print, ["compiling, this once: about a minute ..."], {"file": sys.stderr})
    notice.daemon = True
    notice.start()
    have_compiled()
    notice.cancel()


def _print_summary(model: SigmoidNetwork) -> None:
    trace = model.trace_
    hidden, edges = trace.n_hidden, trace.n_edges
    seconds = max(stats["seconds"] for stats in trace.stats)
    print(f"{trace.n_chains} chains, {len(trace)} draws in {seconds:.0f} s: ", end="")
    print(f"{hidden.mean():.1f} hidden units ({hidden.min()} to {hidden.max()}), {edges.mean():.1f} edges in the mean")


def _numbers(orders: str) -> float | list[float]:
    try:
        values = [float(order) for order in orders.split(",")]
    except ValueError:
        raise ValueError(
            f"--orders must be numbers in [0, 1] or nan with commas between them, such as 1,1,0; found {orders!r}"
        ) from None
    return values[0] if len(values) == 1 else values


def _table(data: str) -> tuple[FloatArray, tuple[str, ...] | None]:
    """The numbers and the names of the columns, from a file or a data set that chefs knows."""
    from chefs import datasets

    if data in datasets.list():
        table = datasets.load(data)
        return table.train, table.names
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"{data} is neither a file nor one of {', '.join(datasets.list())}")
    if path.suffix == ".npy":
        return read_npy(path), None
    if path.suffix != ".csv":
        raise ValueError(f"{data} cannot be read: give a table as .csv or .npy")
    return read_csv(path)


def read_npy(path: Path) -> FloatArray:
    """A table of numbers as NumPy saves it."""
    import numpy as np

    try:
        table = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        table = None
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "fiub":
        raise ValueError(f"{path} is not a table of numbers: write an array of floats, a row a point, with np.save")
    return table


def read_csv(path: Path) -> tuple[FloatArray, tuple[str, ...] | None]:
    """A table of numbers with commas; where the first line is not numbers it names the columns."""
    import numpy as np

    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        try:
            lines = [(reader.line_num, line) for line in reader if line]
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a text in UTF-8: save it again with that encoding") from None
    if not lines:
        raise ValueError(f"{path} is empty: give a table of numbers")
    first = lines[0][1]
    named = any(_number(cell) is None for cell in first)
    names = tuple(cell.strip() for cell in first) if named else None
    if names and len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path} has two columns named {twice!r}: rename one")
    rows = []
    for number, line in lines[named:]:
        cells = [_number(cell) for cell in line]
        if None in cells:
            raise ValueError(f"{path}, line {number}: {line[cells.index(None)]!r} is not a number: encode or drop it")
        if len(cells) != len(first):
            raise ValueError(f"{path}, line {number} has {len(cells)} cells where the first has {len(first)}")
        rows.append(cells)
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(first)), names


def _number(cell: str) -> float | None:
    """The number in a cell, nan for a missing one, None for text."""
    if cell.strip().lower() in MISSING:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return None
