"""What a user may ask of a search: what is usual, and what makes no sense."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from chefs._limits import Edges
from chefs.cnn.training import Settings
from chefs.dag import Dag, shown

if TYPE_CHECKING:
    from chefs.cnn.search import ArchitectureSearch


def connected(forbidden: Edges) -> Dag:
    """An image connected to its label, or, where that is forbidden, not."""
    edge = 0 if (0, 1) in [tuple(pair) for pair in forbidden] else 1
    return Dag([[0, edge], [0, 0]], [1.0, 0.0], n_observed=2)


def usual_settings(weights: str, n_images: int) -> Settings:
    """Settings that suit a way to treat weights."""
    if weights == "inherit":
        return Settings(n_steps=60, rate=0.01)
    # The noise of gradients from minibatches must stay below that of the sampler: the more images, the smaller steps.
    return Settings(n_steps=20, rate=4 / n_images) if weights == "sghmc" else Settings()


def check(search: ArchitectureSearch) -> None:
    """Raise where an option of the search makes no sense."""
    if not isinstance(search.settings, Settings):
        raise TypeError(f"settings must be chefs.cnn.Settings(...); found {shown(search.settings)}")
    search.settings.checked()
    if search.weights not in ("optimum", "inherit", "sghmc"):
        raise ValueError(f"weights must be 'optimum', 'inherit' or 'sghmc'; found {shown(search.weights)}")
    for name, least in (("n_changes", 1), ("prefetch", 0), ("seed", 0)):
        value = getattr(search, name)
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least
        if not (whole or (value is None and name != "seed")):
            raise ValueError(f"{name} must be a whole number, at least {least}; found {shown(value)}")
    power = search.power
    if not isinstance(power, int | float | np.number) or not (math.isfinite(power) and power >= 0):
        raise ValueError(f"power must be a finite number, at least 0; found {shown(power)}")
    if search.trainer is not None and search.weights != "optimum":
        raise ValueError("a trainer of your own needs weights='optimum'; 'inherit' and 'sghmc' have theirs")
    if search.trainer is None:
        from chefs.cnn.network import checked_device

        checked_device(search.device)
