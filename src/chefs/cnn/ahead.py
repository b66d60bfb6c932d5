"""Prefetching: which networks a chain will ask for next, so that they are trained together with the present one."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from chefs.cnn.plan import Plan
from chefs.cnn.state import Held, Moment

if TYPE_CHECKING:
    from chefs.cnn.search import ArchitectureSearch

NEVER = -1e300  # a log ratio that is always rejected, yet uses up a random number as any other does
MOST_LOOKS = 2000  # moves to look ahead, at most


def upcoming(search: ArchitectureSearch, rng: np.random.Generator, held: Held, moment: Moment) -> Iterator[Plan]:
    """Plans that will be asked for next if this proposal is rejected, and those after it; nothing is changed.

    All random numbers are fixed in advance: a copy of the generator shows the proposals to come. Where the evidence
    of one is known so is its fate; the others are taken to be rejected.
    """
    from chefs._core.propose import HEAT_BATH, accepts, advance, tried_out

    if search.n_ahead == 0:
        return
    rng, heat_bath = copy.deepcopy(rng), search.mix[HEAT_BATH] > 0
    spare = np.zeros((len(search.move_names), 2), np.int64)
    graph, proposal, left = moment
    accepts(rng, proposal, NEVER, heat_bath)
    found: dict[Plan, None] = {}
    for _ in range(MOST_LOOKS):
        graph, proposal, left = advance(rng, graph, search.mix, True, left, spare)
        if proposal.log_ratio == -math.inf:
            if search.hyperprior.any():
                return  # the next step begins with other hyperparameters
            left = search.length()
            continue
        candidate, unpacked = tried_out(graph, proposal)
        plan = search.plan(*unpacked)
        trained = held.trained if plan == held.plan else search.networks.known.get(plan)
        if trained is None and plan not in found:
            yield plan
            found[plan] = None
            if len(found) == search.n_ahead:
                return
        difference = NEVER if trained is None else search.difference(trained, held.trained)
        if accepts(rng, proposal, difference, heat_bath):
            assert trained is not None
            graph, held = candidate, Held(plan, trained)
