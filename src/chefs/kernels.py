"""Kernels: one step of a Markov chain over graphs, under the prior alone or with any likelihood (section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from chefs._limits import Edges, Limits, Prior
from chefs.buffets import IndianBuffet
from chefs.dag import Dag, FloatArray, IntArray, checked_dag, shown
from chefs.draws import Draw
from chefs.prior import ChefsProcess, Observed, checked_rng, positive

if TYPE_CHECKING:
    from chefs._core.state import GraphState


class Info(NamedTuple):
    """What one step did: how many moves of each kind, in the order of `Kernel.move_names`, were made and accepted.

    A kernel that measures it also says how many seconds each kind took.
    """

    tally: IntArray  # int (kinds, 2)
    seconds: FloatArray | None = None  # float (kinds,)


@runtime_checkable
class Kernel(Protocol):
    """A Markov chain: where it starts, one step of it, and what a draw holds.

    `step` takes over the state it is given and may change it. A kernel that adapts in warm-up also has
    `freeze(state) -> state`, called once when warm-up ends; one that can be tempered has `with_power(power)` and
    `log_likelihood_of(state)`, or `log_tempered(state)` where that is not linear in the power. One that has `prefer`,
    "threads" or "processes", says in which its chains run best; without it they run in processes.
    """

    @property
    def n_observed(self) -> int:
        """Number of observed nodes."""
        ...

    @property
    def move_names(self) -> tuple[str, ...]:
        """Kinds of moves."""
        ...

    def init(self, rng: np.random.Generator) -> Any:
        """A state to start from."""
        ...

    def step(self, rng: np.random.Generator, state: Any) -> tuple[Any, Info]:
        """The next state, and what was done."""
        ...

    def draw(self, state: Any) -> Draw:
        """What the trace keeps of a state."""
        ...


@dataclass(frozen=True, slots=True)
class Hyperpriors:
    """Gamma priors, as (shape, rate), of 1/`alpha`, `gamma` and `phi`; None keeps one fixed at the prior's value.

    The defaults are the paper's, Gamma(½, rate ½). They have heavy tails: the mean number of nodes is infinite.
    """

    alpha: tuple[float, float] | None = (0.5, 0.5)
    gamma: tuple[float, float] | None = (0.5, 0.5)
    phi: tuple[float, float] | None = (0.5, 0.5)

    def __post_init__(self) -> None:
        for name in ("alpha", "gamma", "phi"):
            value = getattr(self, name)
            if value is not None:
                if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
                    raise ValueError(f"the hyperprior of {name} must be (shape, rate) or None; found {shown(value)}")
                for part, number in zip(("shape", "rate"), value, strict=True):
                    positive(f"the {part} of the hyperprior of {name}", number)

    def as_array(self) -> FloatArray:
        """Rows alpha, gamma, phi; zeros where fixed."""
        return np.array([value or (0.0, 0.0) for value in (self.alpha, self.gamma, self.phi)])


FIXED = Hyperpriors(None, None, None)


@dataclass(frozen=True, slots=True)
class Moves:
    """How often each kind of move is tried (weights; 0 switches one off), and how edges and orders are drawn.

    Args:
        edge: Add or remove an edge.
        birth: Birth and death of a hidden node with one child and no parent.
        order: Another order for a node.
        depth: An edge becomes a path through a new hidden node, and back.
        order_rule: "gibbs" draws from the exact conditional; "uniform" is the paper's Metropolis move.
        edge_rule: "metropolis" flips with the odds; "gibbs" is the paper's heat bath, which moves less often.
    """

    edge: float = 0.5
    birth: float = 0.3
    order: float = 0.1
    depth: float = 0.1
    order_rule: Literal["gibbs", "uniform"] = "gibbs"
    edge_rule: Literal["metropolis", "gibbs"] = "metropolis"

    def __post_init__(self) -> None:
        weights = {name: getattr(self, name) for name in ("edge", "birth", "order", "depth")}
        for name, weight in weights.items():
            if not isinstance(weight, int | float | np.integer | np.floating) or not 0 <= weight < math.inf:
                raise ValueError(f"the weight of {name} moves must be a number, at least 0; found {shown(weight)}")
        if not any(weights.values()):
            raise ValueError("the weights of moves are all 0: one of edge, birth, order and depth must be positive")
        if self.order_rule not in ("gibbs", "uniform") or self.edge_rule not in ("metropolis", "gibbs"):
            raise ValueError("order_rule must be 'gibbs' or 'uniform', edge_rule 'metropolis' or 'gibbs'")

    @classmethod
    def paper(cls) -> Moves:
        """The paper's operators: Gibbs for edges, birth and death, uniform Metropolis for orders."""
        return cls(edge=0.4, birth=0.3, order=0.3, depth=0.0, order_rule="uniform", edge_rule="gibbs")

    def under(self, prior: Prior) -> Moves:
        """Those of the moves that there are under this prior.

        Buffets have no depth moves, because edges do not skip a layer, and the Indian buffet has one order for all.
        """
        if isinstance(prior, ChefsProcess):
            return self
        order = 0.0 if isinstance(prior, IndianBuffet) else self.order
        if not (self.edge or self.birth or order):
            raise ValueError(
                f"moves has none that a {type(prior).__name__} knows: give edge or birth a positive weight"
            )
        return replace(self, order=order, depth=0.0)

    def as_array(self) -> FloatArray:
        """Cumulated probabilities and the two rules, as the compiled kernels take them."""
        weights = np.array([self.edge, self.birth, self.order, self.depth])
        shares = np.cumsum(weights / weights.sum())
        # Rounding must not let a move through that is switched off: the last one in use takes what is left.
        shares[np.flatnonzero(weights).max() :] = 1.0
        return np.array([*shares, float(self.order_rule == "gibbs"), float(self.edge_rule == "gibbs")])


@dataclass(frozen=True, eq=False)
class GraphKernel:
    """What kernels over graphs have in common: the prior, what a user knows, and where to start. See `PriorKernel`."""

    prior: Prior
    observed: Observed
    hyperpriors: Hyperpriors | None = field(default=None, kw_only=True)
    moves: Moves = field(default=Moves(), kw_only=True)
    n_moves: int = field(default=100, kw_only=True)
    required: Edges = field(default=(), kw_only=True)
    forbidden: Edges = field(default=(), kw_only=True)
    bounds: Mapping[int, tuple[float, float]] = field(default_factory=dict, kw_only=True)
    max_hidden: int | None = field(default=None, kw_only=True)
    start: Dag | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Prior):
            raise TypeError(f"prior must be a ChefsProcess or a buffet; found {type(self.prior).__name__}")
        if isinstance(self.n_moves, bool) or not isinstance(self.n_moves, int | np.integer) or self.n_moves < 1:
            raise ValueError(f"n_moves must be a whole number, at least 1; found {self.n_moves!r}")
        if not isinstance(self.hyperpriors, Hyperpriors | None):
            raise TypeError(f"hyperpriors must be a Hyperpriors or None; found {shown(self.hyperpriors)}")
        if not isinstance(self.moves, Moves):
            raise TypeError(f"moves must be a Moves, such as Moves(depth=0); found {shown(self.moves)}")
        limits, _ = self.limits, self.mix  # made here so that contradictions are found now, not when the chain starts
        if self.start is not None:
            limits.check(checked_dag(self.start, "start"), self.prior)

    @cached_property
    def limits(self) -> Limits:
        """The constraints, checked, as arrays."""
        return Limits.of(self.observed, self.required, self.forbidden, self.bounds, self.max_hidden, self.prior)

    @cached_property
    def mix(self) -> FloatArray:
        """The moves as the compiled kernels take them."""
        return self.moves.under(self.prior).as_array()

    @cached_property
    def hyperprior(self) -> FloatArray:
        """The hyperpriors as the compiled kernels take them."""
        return (self.hyperpriors or FIXED).as_array()

    @property
    def n_observed(self) -> int:
        """Number of observed nodes."""
        return self.limits.n_observed

    @property
    def move_names(self) -> tuple[str, ...]:
        """Kinds of moves, in the order of `Info.tally`."""
        from chefs._core.propose import KINDS

        return KINDS

    def start_graph(self, rng: np.random.Generator) -> GraphState:
        """The given graph, or the observed nodes with the required edges alone."""
        return self.limits.state(checked_rng(rng), self.start, self.prior)

    def draw_graph(self, state: GraphState) -> Draw:
        """The graph, its log density and the hyperparameters."""
        from chefs._core.density import log_prob_of_state
        from chefs._core.state import unpack

        alpha, gamma, phi = state.hyper.tolist()
        scalars = {"alpha": alpha, "gamma": gamma, "phi": phi, "log_prob": log_prob_of_state(state, alpha, gamma, phi)}
        if not isinstance(self.prior, ChefsProcess):
            del scalars["phi"]
        return Draw(*unpack(state), scalars)


@dataclass(frozen=True, eq=False)
class PriorKernel(GraphKernel):
    """A chain over graphs whose stationary law is the prior, given the constraints.

    Args:
        prior: A `ChefsProcess` or a buffet; its hyperparameters are fixed, or where `hyperpriors` says so where they
            start.
        observed: How many observed nodes (free orders), or their orders, nan where free.
        hyperpriors: Priors of the hyperparameters that are to be learnt; None keeps all fixed.
        moves: Which moves, how often.
        n_moves: Elementary moves in one step.
        required: Edges (parent, child) among observed nodes that every graph must have.
        forbidden: Edges among observed nodes that no graph may have.
        bounds: For free observed nodes, the interval of their order: {node: (low, high)}.
        max_hidden: The largest number of hidden nodes.
        start: Where to start; None for the observed nodes with the required edges alone.

    >>> import chefs
    >>> kernel = PriorKernel(ChefsProcess(1.0, 2.0, 1.0), observed=3, max_hidden=4)
    >>> trace = chefs.sample(np.random.default_rng(0), kernel, draws=100, chains=1, progress=False)
    >>> int(trace.n_hidden.max()) <= 4
    True
    """

    prefer = "threads"  # the compiled kernels release the interpreter lock

    def init(self, rng: np.random.Generator) -> GraphState:
        """The start."""
        return self.start_graph(rng)

    def step(self, rng: np.random.Generator, state: GraphState) -> tuple[GraphState, Info]:
        """`n_moves` moves and, where they are learnt, the hyperparameters."""
        from chefs._core.propose import run

        tally = np.zeros((len(self.move_names), 2), dtype=np.int64)
        return run(rng, state, self.mix, self.hyperprior, self.n_moves, tally), Info(tally)

    def draw(self, state: GraphState) -> Draw:
        """The graph, its log density and the hyperparameters."""
        return self.draw_graph(state)
