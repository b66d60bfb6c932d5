"""The figure on hyperparameters (section 2.3 of the paper): the picture, and every number in it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import chefs
from chefs import plots
from chefs._files import check_new, write_new
from chefs.experiments import rendered


def run(out: Path, seed: int = 0, draws: int = 4000) -> list[Path]:
    """Write prior_properties.png, .svg and .json into the folder `out`; return the three paths.

    The folder is made if need be. Files of these names must not be there yet; others are left alone.

    Args:
        out: The folder.
        seed: Seed of the simulated points.
        draws: How many graphs to draw for each of them.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out} is a file: choose a folder")
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"prior_properties.{suffix}" for suffix in ("png", "svg", "json")]
    check_new(*paths)
    numbers = plots.prior_numbers(np.random.default_rng(seed), draws)
    figure = plots.prior_properties(numbers=numbers)
    about = {"version": chefs.__version__, "seed": seed}
    for path in paths[:2]:
        write_new(path, rendered(figure, path.suffix))
    write_new(paths[2], (json.dumps(about | numbers, indent=1) + "\n").encode())
    return paths
