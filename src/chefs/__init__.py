"""chefs: the Indian Chefs Process, a prior over every DAG, with samplers that learn structure."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOME = {
    "Dag": "chefs.dag",
    "Dags": "chefs.dags",
    "ChefsProcess": "chefs.prior",
    "DagPrior": "chefs.prior",
    "IndianBuffet": "chefs.buffets",
    "Trace": "chefs.trace",
    "Draw": "chefs.draws",
    "Kernel": "chefs.kernels",
    "Info": "chefs.kernels",
    "PriorKernel": "chefs.kernels",
    "LikelihoodKernel": "chefs.likelihood",
    "Hyperpriors": "chefs.kernels",
    "Moves": "chefs.kernels",
    "sample": "chefs.sampling",
    "resume": "chefs.sampling",
    "RunError": "chefs.storage",
}
_MODULES = ("datasets", "metrics", "plots")

__all__ = [
    "ChefsProcess",
    "Dag",
    "DagPrior",
    "Dags",
    "Draw",
    "Hyperpriors",
    "IndianBuffet",
    "Info",
    "Kernel",
    "LikelihoodKernel",
    "Moves",
    "PriorKernel",
    "RunError",
    "Trace",
    "datasets",
    "metrics",
    "plots",
    "resume",
    "sample",
]

if TYPE_CHECKING:
    from chefs import datasets, metrics, plots
    from chefs.buffets import IndianBuffet
    from chefs.dag import Dag
    from chefs.dags import Dags
    from chefs.draws import Draw
    from chefs.kernels import Hyperpriors, Info, Kernel, Moves, PriorKernel
    from chefs.likelihood import LikelihoodKernel
    from chefs.prior import ChefsProcess, DagPrior
    from chefs.sampling import resume, sample
    from chefs.storage import RunError
    from chefs.trace import Trace


def __getattr__(name: str):
    """Load a public name when it is first used: `import chefs` alone loads nothing heavy."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"chefs.{name}")
    raise AttributeError(f"module 'chefs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
