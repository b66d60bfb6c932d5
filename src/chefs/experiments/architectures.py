"""The paper's second experiment (section 4.2): the prior over architectures, searched on images.

    python -m chefs.experiments.architectures --preset paper --data mnist123 --device cuda --out DIR --minutes 9

A folder holds one run: started when it is empty, continued when it is not. What is written while the run goes on is
enough to go on after any interruption; the summary is made anew each time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import chefs
from chefs.cnn.plan import reached
from chefs.cnn.training import Settings
from chefs.dag import Dag, counted
from chefs.images import NAMES, load
from chefs.storage import RunError

if TYPE_CHECKING:
    from chefs.cnn.search import ArchitectureSearch
    from chefs.trace import Trace

PRESETS = ("paper", "default")
N_CHAINS, N_DRAWS = 15, 300  # a draw is an accepted change
N_QUICK = (2, 20)  # the same for the small digits that come with chefs: a minute or so
WARMUP = {"paper": 0, "default": 50}
N_PICKED = 24  # draws, spread evenly, whose networks can be looked at one by one in the report
QUICK = Settings(n_steps=150, rate=0.02, decay="cosine")
PAPER = {"mean": 0.91, "ensemble": 0.95, "best": 0.99}  # accuracies that the paper reports


def search_of(
    preset: str, data: str, out: Path, device: str = "auto", seed: int = 0, **options: Any
) -> ArchitectureSearch:
    """The search of a preset, with its archive in the folder `out`."""
    from chefs.cnn.network import checked_device
    from chefs.cnn.search import ArchitectureSearch

    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}; found {preset!r}")
    checked_device(device)  # before anything is downloaded
    if preset == "default" and data == "digits":
        options = {"settings": QUICK, **options}
    make = ArchitectureSearch.paper if preset == "paper" else ArchitectureSearch.default
    return make(load(data), device=device, seed=seed, archive=out / "networks", **options)


def run(
    out: Path,
    *,
    preset: str = "paper",
    data: str = "mnist123",
    chains: int | None = None,
    draws: int | None = None,
    device: str = "auto",
    seed: int = 0,
    minutes: float | None = None,
    progress: bool | None = None,
    compiled: Callable[[], None] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Start or continue the run in the folder `out`, as long as `minutes` allow, and summarise what is there.

    Args:
        out: The folder.
        preset: "paper" or "default".
        data: Which images; see `chefs.images.load`.
        chains: Chains; None for the preset's.
        draws: Accepted changes of each; None for the preset's.
        device: "cpu", "cuda" or "auto".
        seed: Seed of the chains and of the trainings.
        minutes: When to stop at the latest; None for when all draws are made.
        progress: Whether to show progress; None for: on a terminal.
        compiled: Called when nothing is wrong and before time is taken, to compile what the run will need.
        options: For `ArchitectureSearch`.

    Returns:
        The numbers that are written to `architectures.json`.
    """
    out = Path(out)
    search = search_of(preset, data, out, device, seed, **options)
    usual = N_QUICK if data == "digits" else (N_CHAINS, N_DRAWS)
    chains, draws = chains or usual[0], draws or usual[1]
    warmup = WARMUP[preset] if data != "digits" else 0
    asked = _asked(search, preset=preset, data=data, chains=chains, seed=seed)
    before = _earlier(out, asked)
    if compiled is not None:
        compiled()
    begin = time.monotonic()
    search.networks.stop_at = math.inf if minutes is None else begin + 60 * minutes
    try:
        if (out / "run" / "run").exists():
            trace = chefs.resume(out / "run", kernel=search, draws=draws, n_jobs=chains, progress=progress)
        else:
            rng = np.random.default_rng(seed)
            out.mkdir(parents=True, exist_ok=True)
            _replace(out / "asked.json", json.dumps(asked).encode() + b"\n")
            how = {"draws": draws, "chains": chains, "warmup": warmup, "n_jobs": chains, "progress": progress}
            trace = chefs.sample(rng, search, checkpoint=out / "run", names=["image", "label"], **how)
    except RunError:
        if time.monotonic() < search.networks.stop_at:
            raise
        trace = chefs.Trace.load(out / "run", partial=True)
    effort = {
        "minutes": before["minutes"] + (time.monotonic() - begin) / 60,
        "trainings": before["trainings"] + search.networks.n_trained,
        "rounds": before["rounds"] + search.networks.n_rounds,
    }
    numbers = {**asked, "draws": draws, **_machine(search), **effort, **summary(search, trace)}
    _replace(out / "architectures.json", json.dumps(numbers).encode() + b"\n")
    _replace(out / "report.md", report(numbers).encode())
    return numbers


def have_compiled(device: str) -> None:
    """Train a few small networks for one step: what is compiled for it is kept on disk where that is possible."""
    from chefs.cnn.search import ArchitectureSearch

    rng, images = np.random.default_rng(0), load("digits")
    few = images._replace(train_x=images.train_x[:64], train_y=images.train_y[:64])
    search = ArchitectureSearch.default(few, device=device, settings=Settings(n_steps=1), max_hidden=2)
    search.step(rng, search.init(rng))


def _asked(search: ArchitectureSearch, **names: Any) -> dict[str, Any]:
    """All that decides on the draws of a run, as JSON has it."""
    from chefs.cnn.network import checked_device

    asked = {
        **names,
        "device": checked_device(search.device),
        "settings": search.settings._asdict(),
        "weights": search.weights,
        "power": search.power,
        "bins": search.shape.n_bins,
        "base_channels": search.shape.base_channels,
    }
    return json.loads(json.dumps(asked, default=float))  # NumPy's numbers are as good as Python's


def _machine(search: ArchitectureSearch) -> dict[str, Any]:
    """What the run was made on and with."""
    from chefs.cnn.network import device_name, torch_version

    facts = {"version": chefs.__version__, "torch": torch_version(), "prefetch": search.n_ahead}
    return {**facts, "device": device_name(search.device)}


def _replace(path: Path, content: bytes) -> None:
    """Write a file that is whole or not there; an older one is replaced."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    aside.write_bytes(content)
    os.replace(aside, path)


def _earlier(out: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """What earlier parts of the run took; a run that was asked for differently is not continued."""
    nothing = {"minutes": 0.0, "trainings": 0, "rounds": 0}
    if not out.exists():
        return nothing
    if not out.is_dir():
        raise NotADirectoryError(f"{out} is a file: choose a folder")
    if not (out / "asked.json").exists():
        if any(out.iterdir()):
            raise FileExistsError(f"{out} is not empty and holds no run of this experiment: choose another folder")
        return nothing
    try:
        was = dict(json.loads((out / "asked.json").read_text()))
    except (ValueError, TypeError):
        raise ValueError(f"{out / 'asked.json'} cannot be read: choose another folder") from None
    if was != asked:
        words = ", ".join(f"{name} {was.get(name, 'unknown')}" for name in asked if was.get(name) != asked[name])
        raise ValueError(f"the run in {out} was started with {words}: ask for the same, or choose another folder")
    try:
        summed = json.loads((out / "architectures.json").read_text())
        return {name: summed[name] + zero for name, zero in nothing.items()}
    except (OSError, ValueError, TypeError, KeyError):
        return nothing  # the run itself is elsewhere: only the effort so far is not known


def summary(search: ArchitectureSearch, trace: Trace) -> dict[str, Any]:
    """All numbers of the tables and of the figure."""
    n = [len(chain) for chain in trace.chains]
    if not sum(n):
        return {"n_draws": n}
    from chefs.cnn.ensemble import members

    found = search.assess(trace)
    scores = {kind: getattr(found, kind)._asdict() for kind in ("mean", "ensemble", "best")}
    columns = {
        "accuracy": trace.scalar("accuracy"),
        "nodes": trace.scalar("n_layers") + 2,
        "degree": trace.scalar("average_degree"),
        "width": trace.scalar("width"),
        "depth": trace.scalar("depth"),
    }
    columns |= {name: trace.scalar(name) for name in ("log_likelihood", "train_accuracy", "n_moves", "n_weights")}
    stats = [stat.get("moves", {}) for stat in trace.stats]
    return {
        "n_draws": n,
        "scores": scores,
        "n_networks": len(members(search, trace)),
        "layers": [int(columns["nodes"].min()) - 2, int(columns["nodes"].max()) - 2],
        "degrees": [float(columns["degree"].min()), float(columns["degree"].max())],
        "moves": stats,
        "columns": {name: np.round(values, 6).tolist() for name, values in columns.items()},
        "orders": _order_statistics(trace),
        "examples": _looked_at(trace, _three(columns)),
        "picked": _looked_at(trace, np.unique(np.linspace(0, sum(n) - 1, N_PICKED).round().astype(int)).tolist()),
    }


def _looked_at(trace: Trace, draws: list[int]) -> list[dict[str, Any]]:
    """The networks of these draws, counted through all chains, for a report to show."""
    return [{"draw": draw, "dag": reached(trace_dag(trace, draw)).to_json()} for draw in draws]


def trace_dag(trace: Trace, draw: int) -> Dag:
    """Draw number `draw`, counted through all chains."""
    for chain in trace.chains:
        if draw < len(chain):
            return chain.dags[draw]
        draw -= len(chain)
    raise IndexError(draw)


def _order_statistics(trace: Trace) -> dict[str, list[float]]:
    """Mean, standard deviation, minimum and maximum of the orders of the hidden layers of each network that has any."""
    rows = []
    for dag in trace:
        hidden = reached(dag).order[2:]
        if hidden.size:
            rows.append((hidden.mean(), hidden.std(), hidden.min(), hidden.max()))
    table = np.array(rows).reshape(-1, 4).round(6).T.tolist()
    return dict(zip(("mean", "standard deviation", "minimum", "maximum"), table, strict=True))


def _three(columns: dict[str, np.ndarray]) -> list[int]:
    """Three draws to look at: with few, a middling number of and many layers, the most accurate of each."""
    nodes, accuracy = columns["nodes"], columns["accuracy"]
    wanted = np.unique(np.quantile(nodes, (0.05, 0.5, 0.95), method="nearest"))
    return [int(max(np.flatnonzero(nodes == n), key=lambda d: accuracy[d])) for n in wanted]


def report(numbers: dict[str, Any]) -> str:
    """The summary as Markdown."""
    n = sum(numbers["n_draws"])
    chains = counted(numbers["chains"], "chain")
    head = [
        f"# Architectures: {numbers['data']}, preset {numbers['preset']}",
        "",
        f"{n} of {numbers['chains'] * numbers['draws']} draws in {chains}, seed {numbers['seed']}, "
        f"{numbers['device']}; {numbers['trainings']} networks trained in {numbers['rounds']} rounds, "
        f"{numbers['minutes']:.1f} minutes; chefs {numbers['version']}.",
    ]
    if not n:
        return "\n".join([*head, "", "No draws yet.", ""])
    theirs = numbers["data"] == "mnist123"
    rows = [
        f"| {kind} | {score['accuracy']:.4f} | {score['calibration_error']:.4f} |" + f" {PAPER[kind]} |" * theirs
        for kind, score in numbers["scores"].items()
    ]
    nodes = numbers["columns"]["nodes"]
    proposals = int(sum(numbers["columns"]["n_moves"]))
    return "\n".join(
        [
            *head,
            "",
            "| | test accuracy | calibration error |" + " accuracy in the paper |" * theirs,
            "|---|---|---|" + "---|" * theirs,
            *rows,
            "",
            f"{numbers['n_networks']} different networks, with {numbers['layers'][0]} to {numbers['layers'][1]} hidden "
            f"layers that the input reaches (mean {np.mean(nodes) - 2:.1f}) and {numbers['degrees'][0]:.2f} to "
            f"{numbers['degrees'][1]:.2f} edges a node; {proposals} moves were proposed.",
            "",
        ]
    )


def write_pictures(out: Path, numbers: dict[str, Any]) -> list[Path]:
    """The figure of a run, finished or not, as .png and .svg; older ones are replaced. No draws, no figure."""
    if not sum(numbers["n_draws"]):
        return []
    from chefs import plots_architectures
    from chefs.experiments import rendered

    figure = plots_architectures.figure(numbers)
    paths = [out / f"architectures{suffix}" for suffix in (".png", ".svg")]
    for path in paths:
        _replace(path, rendered(figure, path.suffix))
    return paths


def main(arguments: list[str] | None = None) -> int:
    """The experiment as a program of its own, which needs neither typer nor matplotlib."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--preset", choices=PRESETS, default="paper")
    parser.add_argument("--data", choices=NAMES, default="mnist123")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--chains", type=int)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--prefetch", type=int)
    given = vars(parser.parse_args(arguments))
    numbers = run(progress=False, **given)
    print(report(numbers))
    return 0 if min(numbers["n_draws"]) == numbers["draws"] else 3


if __name__ == "__main__":
    sys.exit(main())
