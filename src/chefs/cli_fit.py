"""The commands that learn belief networks: fit, resume and demo."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chefs.cli_report import is_search, page_of_fit
from chefs.cli_shared import Json, Seed, check_folder, edges_of, going_on, notice, orders_of, print_json

if TYPE_CHECKING:
    from chefs.network.estimator import SigmoidNetwork
    from chefs.tabular import Numbers

N_FANTASIES = 10  # sets of fantasy points that the demo averages over
PriorName = StrEnum("PriorName", ["icp", "cibp", "ecibp", "ibp"])
Page = Annotated[bool, typer.Option("--report/--no-report", help="Whether to write report.html into the run's folder.")]


def fit(
    data: Annotated[str, typer.Argument(help="A table (.csv, .parquet or .npy), or a data set that chefs data lists.")],
    out: Annotated[Path, typer.Option(help="A new folder for the run.")],
    prior: Annotated[
        PriorName, typer.Option(help="Over graphs: the chefs', the cascading, the extended or the Indian buffet's.")
    ] = PriorName.icp,
    chains: Annotated[int, typer.Option(min=1, help="Independent chains.")] = 2,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws of each chain.", show_default="1000, or as --minutes says")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Steps before them.", show_default="1000, or half of --minutes")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after so many minutes.")] = None,
    seed: Seed = 0,
    orders: Annotated[
        str, typer.Option(help="Orders of the columns in [0, 1], nan where free: one for all, or 1,1,0.")
    ] = "0",
    forbid: Annotated[list[str] | None, typer.Option(help="An edge that no graph may have: 'A->B'. Repeat it.")] = None,
    require: Annotated[
        list[str] | None, typer.Option(help="An edge that every graph must have: 'A->B'. Repeat it.")
    ] = None,
    start: Annotated[str, typer.Option(help="Where chains start: gradient or empty.")] = "gradient",
    report: Page = True,
    json: Json = False,
) -> None:
    """Learn belief networks from a table, in which an empty cell or nan is a missing number."""
    from chefs import tabular
    from chefs.network.estimator import SigmoidNetwork

    heights = orders_of(orders)
    table = tabular.read(data)
    if len(table.values) == 1:
        raise ValueError(f"{data} has one row, of which nothing can be learnt: give at least two")
    check_folder(out, empty=True)
    required = edges_of("--require", require or (), table.columns)
    _check_above(required, heights, table.columns)
    model = SigmoidNetwork(
        str(prior),
        orders=heights[0] if len(heights) == 1 else heights,
        draws=draws,
        warmup=warmup,
        chains=chains,
        minutes=minutes,
        random_state=seed,
        checkpoint=out,
        start=start,
        required=required,
        forbidden=edges_of("--forbid", forbid or (), table.columns),
    )
    with going_on(out):
        _fitted(model, table)
        _finish(out, model, report=report, json=json, data=data)


def resume(
    run: Annotated[Path, typer.Argument(help="The folder of a run of chefs fit, or of chefs search.")],
    minutes: Annotated[float | None, typer.Option(help="More minutes, in all, than the run was started with.")] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="More draws of each chain, in all, than it was started with.")
    ] = None,
    report: Page = True,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped, to the draws that it would have made; or make a finished one longer."""
    from chefs import cli_search
    from chefs.network.estimator import SigmoidNetwork
    from chefs.sampling import resume as go_on

    if is_search(run):
        return cli_search.go_on(run, minutes=minutes, draws=draws, report=report, json=json)
    _check_longer(run, draws, minutes)
    with going_on(run):
        _compiled()
        go_on(run, minutes=minutes, draws=draws)
        _finish(run, SigmoidNetwork.load(run), report=report, json=json)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture and the report.")] = Path("."),
    minutes: Annotated[float, typer.Option(help="How long to learn.")] = 1.0,
    seed: Seed = 0,
) -> None:
    """Learn the Ring in about a minute: a picture, a report, and how far the fantasies are from the truth."""
    import numpy as np

    from chefs import datasets
    from chefs._files import check_new, write_new
    from chefs.experiments import rendered
    from chefs.metrics import hellinger
    from chefs.network.estimator import SigmoidNetwork
    from chefs.plots_network import overview
    from chefs.prior import positive
    from chefs.report import write
    from chefs.tabular import Numbers

    picture, page = out / "ring.png", out / "ring.html"
    positive("minutes", minutes)
    check_folder(out)
    if out.exists():
        check_new(picture, page)
    out.mkdir(parents=True, exist_ok=True)
    ring = datasets.load("ring", seed)
    model = SigmoidNetwork(minutes=minutes, random_state=seed)
    _fitted(model, Numbers(ring.train, ring.names))
    test, rng = ring.to_unit(ring.test), np.random.default_rng(seed)
    sets = [model.sample(len(test), random_state=rng) for _ in range(N_FANTASIES)]
    distances = [hellinger(ring.to_unit(points), test, n_resplits=0).distance for points in sets]
    baseline = hellinger(ring.to_unit(ring.train), test, n_resplits=0).distance
    write_new(picture, rendered(overview(model.trace_, ring.train, sets[0]), ".png"))
    print(_words(_summary(model)))
    print(f"Hellinger distance to {len(test)} test points, mean of {N_FANTASIES} sets of fantasy: ", end="")
    print(f"{np.mean(distances):.4f}; of the training points (baseline): {baseline:.4f}; ", end="")
    print(f"ratio {np.mean(distances) / baseline:.2f}")
    print(picture)
    print(write(model, page, train=ring.train, test=ring.test, title="Ring"))


def _check_above(edges: list[tuple[int, int]], orders: list[float], columns: tuple[str, ...]) -> None:
    """Raise where a required edge does not go down; an order that is free, nan, can be made to fit."""
    heights = orders * len(columns) if len(orders) == 1 else orders
    for k, i in edges:
        if len(heights) == len(columns) and heights[k] <= heights[i]:
            raise ValueError(
                f"--require {columns[k]}->{columns[i]} needs a greater order for {columns[k]}: give --orders, such as "
                "1 for it and 0 for others, or nan for all"
            )


def _fitted(model: SigmoidNetwork, table: Numbers) -> None:
    model.fit_table(table.values, table.names, _compiled)


def _compiled() -> None:
    """Compile, and say so where it takes a while."""
    from chefs.network.estimator import have_compiled

    with notice(5.0, "compiling, this once: about a minute ..."):
        have_compiled()


def _check_longer(run: Path, draws: int | None, minutes: float | None) -> None:
    """Raise unless a folder holds a run that `fit` began, and that so many draws or minutes do not make shorter."""
    from chefs.sampling import begun_with
    from chefs.storage import RunError, Store

    try:
        _, header, _ = Store.open(run)
        begun = begun_with(run, header)
    except RunError as error:
        raise ValueError(str(error)) from None
    if header["about"].get("model") != "SigmoidNetwork":
        raise ValueError(f"{run} holds another run than one of chefs fit: continue it with chefs.resume in Python")
    begun.longer(draws, minutes)


def _finish(run: Path, model: SigmoidNetwork, *, report: bool, json: bool, data: str | None = None) -> None:
    """Say what came out, and write the page about it."""
    facts = {"run": run, **_summary(model)}
    if not json:
        print(_words(facts))
        print(run)
    page = page_of_fit(run, data) if report else None
    if json:
        print_json({**facts, "report": page})
    elif page:
        print(page)


def _summary(model: SigmoidNetwork) -> dict[str, Any]:
    trace = model.trace_
    edges = trace.edge_probabilities()
    return {
        "columns": trace.names,
        "chains": trace.n_chains,
        "draws": [len(chain) for chain in trace.chains],
        "seconds": max(stats["seconds"] for stats in trace.stats),
        "hidden": _spread(trace.n_hidden),
        "edges": _spread(trace.n_edges),
        "edge_probabilities": [
            {"parent": trace.names[k], "child": trace.names[i], "probability": float(edges[k, i])}
            for k, i in zip(*edges.nonzero(), strict=True)
        ],
    }


def _spread(counts: Any) -> dict[str, Any]:
    return {"mean": float(counts.mean()), "min": int(counts.min()), "max": int(counts.max())}


def _words(facts: dict[str, Any]) -> str:
    from chefs.dag import counted

    hidden = facts["hidden"]
    return (
        f"{counted(facts['chains'], 'chain')}, {counted(sum(facts['draws']), 'draw')} in {facts['seconds']:.0f} s: "
        f"{hidden['mean']:.1f} hidden units ({hidden['min']} to {hidden['max']}), "
        f"{facts['edges']['mean']:.1f} edges in the mean"
    )
