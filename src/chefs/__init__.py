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
    "CascadingBuffet": "chefs.buffets",
    "ExtendedBuffet": "chefs.buffets",
    "layer": "chefs.buffets",
    "Trace": "chefs.trace",
    "Draw": "chefs.draws",
    "Kernel": "chefs.kernels",
    "Info": "chefs.kernels",
    "PriorKernel": "chefs.kernels",
    "LikelihoodKernel": "chefs.likelihood",
    "Hyperpriors": "chefs.kernels",
    "Moves": "chefs.kernels",
    "SigmoidNetwork": "chefs.network.estimator",
    "sample": "chefs.sampling",
    "resume": "chefs.sampling",
    "RunError": "chefs.storage",
    "ArchitectureSearch": "chefs.cnn.search",
}
_MODULES = ("cnn", "datasets", "images", "metrics", "plots", "plots_architectures", "report")

__all__ = [
    "ArchitectureSearch",
    "CascadingBuffet",
    "ChefsProcess",
    "Dag",
    "DagPrior",
    "Dags",
    "Draw",
    "ExtendedBuffet",
    "Hyperpriors",
    "IndianBuffet",
    "Info",
    "Kernel",
    "LikelihoodKernel",
    "Moves",
    "PriorKernel",
    "RunError",
    "SigmoidNetwork",
    "Trace",
    "cnn",
    "datasets",
    "images",
    "layer",
    "metrics",
    "plots",
    "plots_architectures",
    "report",
    "resume",
    "sample",
]

if TYPE_CHECKING:
    from chefs import cnn, datasets, images, metrics, plots, plots_architectures, report
    from chefs.buffets import CascadingBuffet, ExtendedBuffet, IndianBuffet, layer
    from chefs.cnn.search import ArchitectureSearch
    from chefs.dag import Dag
    from chefs.dags import Dags
    from chefs.draws import Draw
    from chefs.kernels import Hyperpriors, Info, Kernel, Moves, PriorKernel
    from chefs.likelihood import LikelihoodKernel
    from chefs.network.estimator import SigmoidNetwork
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
