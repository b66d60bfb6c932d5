"""Pictures of the nine data sets beside what networks that learnt them make up (Figure 3 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from chefs import datasets
from chefs._files import write_whole
from chefs.dag import FloatArray
from chefs.experiments import rendered
from chefs.experiments.table import check_known, default_minutes, made_folder
from chefs.network.estimator import SigmoidNetwork

PAIRS = 3  # of panels in a row
COLOURS = ("#2f6f9f", "#b5542e")


def run(
    out: Path,
    names: Sequence[str] | None = None,
    *,
    minutes: float | None = None,
    chains: int = 4,
    seed: int = 0,
    say: Callable[[str], None] = print,
    **options: Any,
) -> Path:
    """Learn each data set, write test points and as many fantasies to NAME.npz, and draw all that the folder holds.

    Args:
        out: The folder, made if need be; points that are there for the same seed are not made again.
        names: Data sets of `chefs.datasets.list()`; None for all.
        minutes: Time of one fit on one core; None for 2 in two dimensions and 4 in more.
        chains: Chains of a fit, which take turns.
        seed: Seed of the data and of the fits.
        say: What to do with a line of news.
        options: Further arguments of `SigmoidNetwork`.
    """
    import chefs.plots  # noqa: F401  without matplotlib nothing is begun

    names = datasets.list() if names is None else names
    check_known("datasets", names, datasets.list())
    made_folder(out)
    for name in names:
        path, table = out / f"{name}.npz", datasets.load(name, seed)
        given = np.array([minutes or default_minutes(name), chains])
        if path.exists():
            if not np.array_equal(read(path)[0], table.to_z(table.test)):
                raise ValueError(f"{path} holds points of another seed: choose another folder, or delete it")
            with np.load(path) as there:
                if "minutes_and_chains" not in there or not np.array_equal(there["minutes_and_chains"], given):
                    say(f"{path} was made with other minutes or chains and stays as it is: delete it for another")
        else:
            model = SigmoidNetwork(
                chains=chains,
                minutes=given[0],
                n_jobs=1,
                random_state=seed,
                progress=False,
                **options,
            ).fit(table.train)
            points = model.sample(len(table.test), random_state=seed)
            buffer = BytesIO()
            truth, made = table.to_z(table.test), table.to_z(points)
            np.savez_compressed(buffer, truth=truth, fantasy=made, minutes_and_chains=given)
            write_whole(path, buffer.getvalue())
            say(f"{name}: {model.trace_.n_hidden.mean():.1f} hidden units, {model.trace_.n_edges.mean():.1f} edges")
    picture = out / "fantasy.png"
    there = {name: path for name in datasets.list() if (path := out / f"{name}.npz").exists()}
    write_whole(picture, rendered(pairs({name: read(path) for name, path in there.items()}), ".png"))
    return picture


def read(path: Path) -> tuple[FloatArray, FloatArray]:
    """Truth and fantasy from a file."""
    try:
        with np.load(path) as found:
            return found["truth"], found["fantasy"]
    except (OSError, ValueError, KeyError, EOFError):
        raise ValueError(f"{path} does not hold points: delete it to have them made again") from None


def pairs(points: Mapping[str, tuple[FloatArray, FloatArray]]):
    """A pair of panels for each data set, truth and fantasy, with the same axes, which show all of the truth.

    In more than two dimensions the axes are the first two principal components of the truth.
    """
    from matplotlib.figure import Figure

    across = min(PAIRS, len(points))
    down = -(-len(points) // across)
    figure = Figure(figsize=(4.4 * across, 2.5 * down), layout="constrained")
    for boxes, (name, both) in zip(figure.subfigures(down, across, squeeze=False).flat, points.items(), strict=False):
        panels = boxes.subplots(1, 2, sharex=True, sharey=True)
        flat = in_plane(*both)
        low, high = np.quantile(flat[0], (0.0, 1.0), axis=0)
        pad = 0.1 * (high - low)
        outside = float(((flat[1] < low - pad) | (flat[1] > high + pad)).any(axis=1).mean())
        titles = "data", "fantasy" + (f", {outside:.1%} outside" if outside else "")
        for panel, title, cloud, colour in zip(panels, titles, flat, COLOURS, strict=True):
            panel.plot(*cloud.T, ".", ms=2.5 if len(cloud) > 500 else 5, color=colour, alpha=0.5, mew=0)
            panel.set_title(title, fontsize=9)
            panel.set(xlim=(low[0] - pad[0], high[0] + pad[0]), ylim=(low[1] - pad[1], high[1] + pad[1]), box_aspect=1)
            panel.set(xticks=[], yticks=[])
        dimensions = both[0].shape[1]
        boxes.suptitle(
            name + (f" ({dimensions} columns, in principal components)" if dimensions > 2 else ""), fontsize=10
        )
    return figure


def in_plane(truth: FloatArray, fantasy: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both samples in two dimensions: as they are, or along the directions in which the truth varies most.

    >>> line = np.outer(np.linspace(-1, 1, 50), [1.0, 2.0, 2.0])
    >>> flat, _ = in_plane(line, line)
    >>> [float(abs(x).max().round(6)) for x in flat.T]
    [3.0, 0.0]
    """
    if truth.shape[1] <= 2:
        return truth, fantasy
    centre = truth.mean(axis=0)
    axes = np.linalg.svd(truth - centre, full_matrices=False)[2][:2].T
    return (truth - centre) @ axes, (fantasy - centre) @ axes
