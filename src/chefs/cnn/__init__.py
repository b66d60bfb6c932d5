"""Convolutional networks from DAGs, and a search over them (section 4.2 of the paper). Needs PyTorch.

Layers, from the bottom: `plan` (what of a DAG a network depends on), `training` (what it is to train one), `network`,
the trainers `eager`, `compiled` and `stacked` (with its tables and its device), `gathering` and `archive`, `options`
and `state`, `search` with `ahead`, then `carried` and `ensemble`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOME = {
    "ArchitectureSearch": "search",
    "CompiledTrainer": "compiled",
    "EagerTrainer": "eager",
    "Network": "network",
    "Plan": "plan",
    "Settings": "training",
    "Shape": "plan",
    "Trained": "training",
    "Trainer": "training",
    "plan_of": "plan",
}

__all__ = [
    "ArchitectureSearch",
    "CompiledTrainer",
    "EagerTrainer",
    "Network",
    "Plan",
    "Settings",
    "Shape",
    "Trained",
    "Trainer",
    "plan_of",
]

if TYPE_CHECKING:
    from chefs.cnn.compiled import CompiledTrainer
    from chefs.cnn.eager import EagerTrainer
    from chefs.cnn.network import Network
    from chefs.cnn.plan import Plan, Shape, plan_of
    from chefs.cnn.search import ArchitectureSearch
    from chefs.cnn.training import Settings, Trained, Trainer


def __getattr__(name: str):
    """Load a public name when it is first used: PyTorch takes a while."""
    if name in _HOME:
        return getattr(importlib.import_module(f"chefs.cnn.{_HOME[name]}"), name)
    raise AttributeError(f"module 'chefs.cnn' has no attribute {name!r}")
