"""Where a search stands: a graph, its network, and a proposal on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chefs.cnn.plan import Plan
from chefs.cnn.training import Trained
from chefs.dag import FloatArray

if TYPE_CHECKING:
    from chefs._core.propose import Proposal
    from chefs._core.state import GraphState
    from chefs.cnn.carried import Carried

Unpacked = tuple[FloatArray, np.ndarray, np.ndarray]  # a graph: orders, and parent and child of every edge


class Held(NamedTuple):
    """The network of a graph: its plan, what it is worth, and its weights where the chain carries them along."""

    plan: Plan
    trained: Trained
    carried: Carried | None = None


class SearchState(NamedTuple):
    """A graph and its network."""

    graph: GraphState
    held: Held
    n_moves: int  # made in the last step


class Moment(NamedTuple):
    """A proposal and where the chain stands when it is made."""

    graph: GraphState
    proposal: Proposal
    left: int
