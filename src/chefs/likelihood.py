"""LikelihoodKernel: a Markov chain over graphs for any likelihood that Python can compute."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chefs.dag import Dag, FloatArray, IntArray, shown
from chefs.draws import Draw
from chefs.kernels import GraphKernel, Info

if TYPE_CHECKING:
    from chefs._core.state import GraphState


class LikelihoodState(NamedTuple):
    """A graph and its log-likelihood."""

    graph: GraphState
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class LikelihoodKernel(GraphKernel):
    """A chain over graphs whose stationary law is prior × likelihood^power, for any likelihood.

    Args:
        prior: As for `PriorKernel`, like all that is not named here.
        observed: Likewise.
        log_likelihood: Any function of a `Dag`; it must not depend on how hidden nodes are numbered. −∞ (or nan)
            says that a graph is impossible.
        uses_order: Whether it looks at the orders. Where it does not, it is called only when edges change, and the
            graph that it is given has orders made up from its edges, whatever those of the chain are.
        power: Exponent of the likelihood: 1 for the posterior, 0 for the prior where the likelihood is positive.
        cache: How many values of the likelihood to remember.

    >>> import chefs
    >>> kernel = LikelihoodKernel(chefs.ChefsProcess(), [0.0, 0.5], lambda dag: 3.0 * dag.edges[1, 0], max_hidden=1)
    >>> trace = chefs.sample(np.random.default_rng(0), kernel, draws=200, chains=1, progress=False)
    >>> bool(trace.edge_probabilities()[1, 0] > 0.8)
    True
    """

    log_likelihood: Callable[[Dag], float]
    uses_order: bool = field(default=False, kw_only=True)
    power: float = field(default=1.0, kw_only=True)
    cache: int = field(default=10_000, kw_only=True)
    prefer = "processes"  # the likelihood is Python code, which holds the interpreter lock

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.log_likelihood):
            raise TypeError(f"log_likelihood must be a function of a Dag; found {shown(self.log_likelihood)}")
        if not isinstance(self.power, int | float | np.number) or not (math.isfinite(self.power) and self.power >= 0):
            raise ValueError(f"power must be a finite number, at least 0; found {shown(self.power)}")
        if isinstance(self.cache, bool) or not isinstance(self.cache, int | np.integer) or self.cache < 1:
            raise ValueError(
                f"cache must be a whole number of values to remember, at least 1; found {shown(self.cache)}"
            )

    @cached_property
    def _known(self) -> dict[tuple[bytes, bytes, bytes], float]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def with_power(self, power: float) -> LikelihoodKernel:
        """The same chain with another exponent of the likelihood; values already computed are shared."""
        other = copy.copy(self)
        other.__dict__["_known"] = self._known
        other.__dict__["power"] = power
        return other

    def log_likelihood_of(self, state: LikelihoodState) -> float:
        """The log-likelihood, without the power."""
        return state.log_likelihood

    def init(self, rng: np.random.Generator) -> LikelihoodState:
        """The start; the likelihood must be positive there."""
        from chefs._core.state import unpack

        graph = self.start_graph(rng)
        value = self._score(*unpack(graph))
        if not value > -math.inf:
            raise ValueError(
                f"the log-likelihood of the start is {value}: give a graph with a positive likelihood as `start`"
            )
        return LikelihoodState(graph, value)

    def step(self, rng: np.random.Generator, state: LikelihoodState) -> tuple[LikelihoodState, Info]:
        """`n_moves` moves and, where they are learnt, the hyperparameters."""
        from chefs._core.hyper import update_hyper
        from chefs._core.propose import HEAT_BATH, accepts, advance, tried_out

        tally = np.zeros((len(self.move_names), 2), dtype=np.int64)
        graph, value = state
        left = self.n_moves
        while left > 0:
            graph, proposal, left = advance(rng, graph, self.mix, self.uses_order, left, tally)
            if proposal.log_ratio == -math.inf:
                break  # the moves ran out before one that needs the likelihood
            candidate, unpacked = tried_out(graph, proposal)
            new_value = self._score(*unpacked)
            difference = self.power * (new_value - value) if self.power > 0 else 0.0
            if new_value > -math.inf and accepts(rng, proposal, difference, self.mix[HEAT_BATH] > 0):
                graph, value = candidate, new_value
                tally[proposal.kind, 1] += 1
        update_hyper(rng, graph, self.hyperprior)
        return LikelihoodState(graph, value), Info(tally)

    def draw(self, state: LikelihoodState) -> Draw:
        """The graph, its log density and log-likelihood, and the hyperparameters."""
        drawn = self.draw_graph(state.graph)
        return drawn._replace(scalars={**drawn.scalars, "log_likelihood": state.log_likelihood})

    def _score(self, order: FloatArray, parent: IntArray, child: IntArray) -> float:
        from chefs._core.summaries import level_orders

        if not self.uses_order:
            order = level_orders(order, parent, child)
        key = (parent.tobytes(), child.tobytes(), order.tobytes())
        value = self._known.get(key)
        if value is None:
            value = self._checked(self.log_likelihood(Dag._trusted(order, parent, child, self.n_observed)))
            if len(self._known) >= self.cache:
                self._known.clear()  # in one go, so that chains in other threads are not disturbed
            self._known[key] = value
        return value

    @staticmethod
    def _checked(value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"log_likelihood must return one number; it returned {shown(value)}") from None
        if number == math.inf:
            raise ValueError("log_likelihood returned +inf: a likelihood must be finite or zero")
        return number
