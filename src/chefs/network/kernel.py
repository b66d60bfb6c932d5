"""NetworkKernel: the Markov chain over belief networks, a `Kernel` like any other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chefs._limits import Edges, Limits
from chefs.dag import Dag, FloatArray, shown
from chefs.draws import Draw
from chefs.kernels import FIXED, Hyperpriors, Info
from chefs.prior import ChefsProcess, Observed, checked_rng

if TYPE_CHECKING:
    from chefs._core.network import NetworkState

MOVES = ("edge", "birth", "death", "order", "precision", "resample", "hamiltonian")
TARGET_ACCEPTANCE = 0.75


class NetworkChain(NamedTuple):
    """The state of the chain: the network, and the step size of the Hamiltonian move while it is being tuned."""

    network: NetworkState
    log_step: float
    adapting: bool


class Start(NamedTuple):
    """A network to start from: a graph, the pre-activations of all its nodes, and their precisions."""

    dag: Dag
    a: FloatArray  # (nodes, points)
    rho: FloatArray  # (nodes,)


@dataclass(frozen=True, eq=False)
class NetworkKernel:
    """A chain whose stationary law is the posterior over networks given data.

    Weights and biases are integrated out of every move and drawn anew for every draw. One step is: a sweep over
    edges, orders and precisions; births and deaths; a resampling of each point's hidden activations; and Hamiltonian
    trajectories over all hidden activations and precisions.

    Args:
        prior: The prior over graphs; its hyperparameters are where the chain starts.
        observed: Orders of the observed nodes, nan where free.
        data: Pre-activations of the observed nodes, a row a point; nan where missing.
        hyperpriors: Priors of the hyperparameters; None keeps them fixed.
        moves: Which of `MOVES` to make; birth and death go together.
        n_births: Births and deaths in one step.
        n_candidates: Ancestral draws that compete with the activations of each point.
        n_trajectories: Hamiltonian trajectories in one step.
        most_leapfrogs: Largest number of leapfrog steps of one; each has a random number.
        required: Edges among observed nodes that every graph must have.
        forbidden: Edges among observed nodes that no graph may have.
        max_hidden: The largest number of hidden units.
        start: A network to start from; None for no hidden unit.
    """

    prior: ChefsProcess
    observed: Observed
    data: FloatArray
    hyperpriors: Hyperpriors | None = field(default=Hyperpriors(), kw_only=True)
    moves: tuple[str, ...] = field(default=MOVES, kw_only=True)
    n_births: int = field(default=4, kw_only=True)
    n_candidates: int = field(default=3, kw_only=True)
    n_trajectories: int = field(default=2, kw_only=True)
    most_leapfrogs: int = field(default=20, kw_only=True)
    required: Edges = field(default=(), kw_only=True)
    forbidden: Edges = field(default=(), kw_only=True)
    max_hidden: int | None = field(default=None, kw_only=True)
    start: Start | None = field(default=None, kw_only=True)
    prefer = "processes"

    def __post_init__(self) -> None:
        unknown = set(self.moves) - set(MOVES)
        if unknown or ("birth" in self.moves) != ("death" in self.moves):
            raise ValueError(
                f"moves must be some of {', '.join(MOVES)}, birth and death together; found {self.moves!r}"
            )
        if not isinstance(self.data, np.ndarray) or self.data.ndim != 2 or self.data.shape[1] != self.n_observed:
            raise ValueError(f"data must be an array with a column for each of the {self.n_observed} observed nodes")
        if self.hyperpriors is not None and not isinstance(self.hyperpriors, Hyperpriors):
            raise TypeError(f"hyperpriors must be Hyperpriors or None; found {shown(self.hyperpriors)}")
        if self.start is not None:
            self.limits.check(self.start.dag)

    @cached_property
    def limits(self) -> Limits:
        """The constraints, checked, as arrays."""
        return Limits.of(self.observed, self.required, self.forbidden, {}, self.max_hidden)

    @property
    def n_observed(self) -> int:
        """Number of observed nodes."""
        return self.limits.n_observed

    @property
    def move_names(self) -> tuple[str, ...]:
        """Kinds of moves, in the order of `Info.tally`."""
        return MOVES

    def init(self, rng: np.random.Generator) -> NetworkChain:
        """The start; missing entries begin at 0, the mean of standardised data."""
        from chefs._core.network import NetworkState, draw_precisions, gram_of

        graph = self.limits.state(checked_rng(rng), self.start.dag if self.start else None, self.prior)
        a = np.zeros((graph.order.size, len(self.data)))
        rho = np.ones(graph.order.size)
        if self.start is not None:
            a[: self.start.dag.n_nodes] = self.start.a
            rho[: self.start.dag.n_nodes] = self.start.rho
        missing = np.isnan(self.data.T)
        a[: self.n_observed] = np.where(missing, 0.0, self.data.T)
        network = NetworkState(graph, a, rho, missing)
        if self.start is None:
            draw_precisions(rng, network, gram_of(network))
        return NetworkChain(network, math.log(0.1), True)

    def step(self, rng: np.random.Generator, state: NetworkChain) -> tuple[NetworkChain, Info]:
        """One round of all moves."""
        from chefs._core.ancestral import resample_points
        from chefs._core.hamiltonian import hamiltonian_move
        from chefs._core.hyper import update_hyper
        from chefs._core.learn import birth_moves, edge_moves, order_moves
        from chefs._core.network import draw_precisions, gram_of

        network, log_step = state.network, state.log_step
        tally = np.zeros((len(MOVES), 2), dtype=np.int64)
        if "edge" in self.moves:
            edge_moves(rng, network, 1, tally)
        if "order" in self.moves:
            order_moves(rng, network, tally)
        if "precision" in self.moves:
            draw_precisions(rng, network, gram_of(network))
            tally[4] += 1
        if "birth" in self.moves:
            network = birth_moves(rng, network, self.n_births, tally)
        if "resample" in self.moves:
            share = resample_points(rng, network, gram_of(network), self.n_candidates)
            tally[5] += (len(self.data), round(share * len(self.data)))
        if "hamiltonian" in self.moves:
            for _ in range(self.n_trajectories):
                n_steps = int(rng.integers(1, self.most_leapfrogs + 1))
                probability, accepted = hamiltonian_move(rng, network, math.exp(log_step), n_steps)
                tally[6] += (1, accepted)
                if state.adapting:
                    log_step += 0.05 * (probability - TARGET_ACCEPTANCE)
        update_hyper(rng, network.graph, (self.hyperpriors or FIXED).as_array())
        return NetworkChain(network, log_step, state.adapting), Info(tally)

    def freeze(self, state: NetworkChain) -> NetworkChain:
        """Keep the step size from here on."""
        return state._replace(adapting=False)

    def draw(self, state: NetworkChain) -> Draw:
        """The graph, its weights, biases and precisions, the hyperparameters, and the log densities."""
        from chefs._core.ancestral import all_weights
        from chefs._core.density import log_prob_of_state
        from chefs._core.network import gram_of, log_likelihood
        from chefs._core.state import unpack

        network = state.network
        order, parent, child = unpack(network.graph)
        alpha, gamma, phi = network.graph.hyper.tolist()
        # A generator made from the state: a draw does not disturb the chain, and is the same whenever it is made.
        rng = np.random.default_rng(network.a[:, 0].view(np.uint64))
        bias, weights = all_weights(rng, network, gram_of(network))
        scalars = {
            "alpha": alpha,
            "gamma": gamma,
            "phi": phi,
            "log_prob": log_prob_of_state(network.graph, alpha, gamma, phi),
            "log_likelihood": log_likelihood(network),
        }
        return Draw(
            order,
            parent,
            child,
            scalars,
            {"bias": bias, "precision": network.rho[: order.size].copy()},
            {"weight": weights[child, parent]},
        )
