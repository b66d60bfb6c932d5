"""NetworkKernel: the Markov chain over belief networks, a `Kernel` like any other."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from chefs._limits import Edges, Limits, Prior
from chefs.dag import FloatArray, shown
from chefs.draws import Draw
from chefs.kernels import FIXED, Hyperpriors, Info
from chefs.network.start import GradientStart, Start
from chefs.prior import ChefsProcess, Observed, checked_rng

if TYPE_CHECKING:
    from chefs._core.network import NetworkState

HYPER = "hyperparameters"
MOVES = ("edge", "birth", "weighted birth", "order", "precision", "resample", "hamiltonian", HYPER)
# Not the default: from nothing chains end with more units than there are, and from a fit they are no closer to data.
WITH_JOINT = (*MOVES, "joint")
# For ablations. Without hyperparameters it would be another posterior: they would stay where they start.
ALL_BUT = {name: tuple(other for other in MOVES if other != name) for name in MOVES if name != HYPER}
PAPER = ("weighted edge", "weighted birth", "uniform order", "precision", "activation", HYPER)
# In the order of a step, which ends with hyperparameters.
EVERY_MOVE = tuple(dict.fromkeys((*MOVES[:-1], "joint", *PAPER)))
BIRTH_SHARE = 0.01  # of the steps try a birth that fits; more often, units pile up before edges and activations follow
TARGET_ACCEPTANCE = 0.75
MASS_RATE = 0.1  # share of the way to the mass that a unit should have, after each trajectory of the warm-up


class NetworkChain(NamedTuple):
    """The state of the chain: the network, and the step size of the Hamiltonian move while it is being tuned."""

    network: NetworkState
    log_step: float
    adapting: bool


@dataclass(frozen=True, eq=False)
class NetworkKernel:
    """A chain whose stationary law is the posterior over networks given data.

    At a power β of the likelihood every entry of the data that is seen counts as p(a_it | parents, W, b, ρ)^β; hidden
    activations, missing entries, weights, precisions, graph and hyperparameters keep their law. So 0 is the prior of
    all of them. Weights are integrated out after the power is taken.

    Weights and biases are integrated out, and drawn anew for every draw. One step makes these moves, in this order:

    - "edge": edges with the weights of the child integrated out, as many as there are pairs of nodes;
    - "birth": a birth or death of a unit with one child that keeps its mean and variance, whose activations fit the
      child; in one step of a hundred;
    - "weighted birth": such births and deaths with activations from the prior, given weights that are drawn first;
    - "order", "precision": from their conditionals;
    - "resample": all hidden activations of a point against new ancestries;
    - "hamiltonian": trajectories over all hidden activations and precisions;
    - "hyperparameters": those that have a hyperprior, given the graph.

    "joint", which must be asked for and comes after trajectories, changes all activations of a unit together with its
    precision, its bias or a weight. "weighted edge", "uniform order" and "activation" are, with "weighted birth",
    "precision" and "hyperparameters", those of the paper.

    Args:
        prior: The prior over graphs; its hyperparameters are where the chain starts.
        observed: Orders of the observed nodes, nan where free.
        data: Pre-activations of the observed nodes, a row a point; nan where missing.
        hyperpriors: Priors of the hyperparameters; None keeps them fixed, as `moves` without "hyperparameters" does.
        moves: The kinds of moves to make, or "paper" for the paper's.
        n_births: Weighted births and deaths in one step.
        n_candidates: Draws that compete with the current activations.
        n_trajectories: Hamiltonian trajectories in one step.
        most_leapfrogs: Largest number of leapfrog steps of one; each has a random number.
        required: Edges among observed nodes that every graph must have.
        forbidden: Edges among observed nodes that no graph may have.
        max_hidden: The largest number of hidden units.
        start: A network to start from; or how each chain fits its own; None for no hidden unit.
        power: Exponent of the likelihood: 1 for the posterior, 0 for the prior.
        keep_activations: Whether a draw keeps the pre-activations of all its nodes too: a row of points for each.
    """

    prior: Prior
    observed: Observed
    data: FloatArray
    hyperpriors: Hyperpriors | None = field(default=Hyperpriors(), kw_only=True)
    moves: tuple[str, ...] | Literal["paper"] = field(default=MOVES, kw_only=True)
    n_births: int = field(default=4, kw_only=True)
    n_candidates: int = field(default=5, kw_only=True)
    n_trajectories: int = field(default=2, kw_only=True)
    most_leapfrogs: int = field(default=20, kw_only=True)
    required: Edges = field(default=(), kw_only=True)
    forbidden: Edges = field(default=(), kw_only=True)
    max_hidden: int | None = field(default=None, kw_only=True)
    start: Start | GradientStart | None = field(default=None, kw_only=True)
    power: float = field(default=1.0, kw_only=True)
    keep_activations: bool = field(default=False, kw_only=True)
    prefer = "processes"

    def __post_init__(self) -> None:
        if self.moves == "paper":
            object.__setattr__(self, "moves", PAPER)
        if not isinstance(self.prior, Prior):
            raise TypeError(f"prior must be a ChefsProcess or a buffet; found {shown(self.prior)}")
        if not isinstance(self.moves, list | tuple) or not self.moves or any(m not in EVERY_MOVE for m in self.moves):
            raise ValueError(f"moves must be 'paper' or some of {', '.join(EVERY_MOVE)}; found {self.moves!r}")
        if not isinstance(self.data, np.ndarray) or self.data.ndim != 2 or self.data.shape[1] != self.n_observed:
            raise ValueError(f"data must be an array with a column for each of the {self.n_observed} observed nodes")
        if not len(self.data) or np.isinf(self.data).any():
            raise ValueError("data must have at least one row, and numbers that are finite or nan")
        for name, least in (("n_births", 0), ("n_candidates", 1), ("n_trajectories", 0), ("most_leapfrogs", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be a whole number, at least {least}; found {shown(value)}")
        if self.hyperpriors is not None and not isinstance(self.hyperpriors, Hyperpriors):
            raise TypeError(f"hyperpriors must be Hyperpriors or None; found {shown(self.hyperpriors)}")
        if not isinstance(self.power, int | float | np.number) or not (math.isfinite(self.power) and self.power >= 0):
            raise ValueError(f"power must be a finite number, at least 0; found {shown(self.power)}")
        if isinstance(self.start, Start):
            self.limits.check(self.start.dag, self.prior)
            n = self.start.dag.n_nodes
            if (
                self.start.a.shape != (n, len(self.data))
                or self.start.rho.shape != (n,)
                or not (self.start.rho > 0).all()
                or not np.isfinite(self.start.rho).all()
                or not np.isfinite(self.start.a[self.n_observed :]).all()
                or not np.isfinite(self.start.a[: self.n_observed][np.isnan(self.data.T)]).all()
            ):
                raise ValueError(
                    f"start must have a row of activations and a positive precision for each of its {n} nodes, and a "
                    f"column for each of the {len(self.data)} points, all finite"
                )
        elif self.start is not None:
            self._check_fitted(self.start)

    def _check_fitted(self, start: GradientStart) -> None:
        if not isinstance(start, GradientStart):
            raise TypeError(f"start must be a Start, a GradientStart or None; found {shown(start)}")
        if (self.limits.low == 1).all():
            raise ValueError("observed nodes that are all at order 1 leave no place for a hidden unit: give start=None")
        if max(start.sizes) > self.limits.max_hidden:
            raise ValueError(f"start has {max(start.sizes)} hidden nodes where max_hidden is {self.limits.max_hidden}")

    @cached_property
    def limits(self) -> Limits:
        """The constraints, checked, as arrays."""
        return Limits.of(self.observed, self.required, self.forbidden, {}, self.max_hidden, self.prior)

    @property
    def n_observed(self) -> int:
        """Number of observed nodes."""
        return self.limits.n_observed

    @property
    def move_names(self) -> tuple[str, ...]:
        """Kinds of moves, in the order of `Info.tally`."""
        return tuple(name for name in EVERY_MOVE if name in self.moves)

    def init(self, rng: np.random.Generator) -> NetworkChain:
        """The start; missing entries begin at 0, the mean of standardised data."""
        from chefs._core.hamiltonian import slope_of
        from chefs._core.network import NEWBORN_LOG_MASS, NetworkState, draw_precisions, gram_of

        start = self.start
        if isinstance(start, GradientStart):
            orders = self.limits.draw_orders(checked_rng(rng))
            start = start(rng, self.data, self.prior, orders, self.limits.forbidden)
        if start is not None and not all(np.isfinite(part).all() for part in (start.rho, start.a[self.n_observed :])):
            raise ValueError(
                "the fit that the chain should start from is not finite: scale the data, or give start=None"
            )
        graph = self.limits.state(checked_rng(rng), start.dag if start else None, self.prior)
        a = np.zeros((graph.order.size, len(self.data)))
        rho = np.ones(graph.order.size)
        missing = np.ascontiguousarray(np.isnan(self.data.T))
        a[: self.n_observed] = np.where(missing, 0.0, self.data.T)
        if start is not None:
            n = start.dag.n_nodes
            a[:n], rho[:n] = start.a, start.rho
            a[: self.n_observed] = np.where(missing, a[: self.n_observed], self.data.T)
        network = NetworkState(graph, a, rho, missing, np.full(rho.size, NEWBORN_LOG_MASS), float(self.power))
        if start is None:
            draw_precisions(rng, network, gram_of(network))
        network.log_mass[: network.graph.size[0]] = slope_of(network).log_mass
        return NetworkChain(network, math.log(0.1), True)

    def step(self, rng: np.random.Generator, state: NetworkChain) -> tuple[NetworkChain, Info]:
        """One round of all moves."""
        names, state = self.move_names, self._at_power(state)
        tally, seconds = np.zeros((len(names), 2), dtype=np.int64), np.zeros(len(names))
        for which, name in enumerate(names):
            begin = time.perf_counter()
            state, tried, accepted = self._block(name, rng, state)
            tally[which] = tried, accepted
            seconds[which] = time.perf_counter() - begin
        return state, Info(tally, seconds)

    def _at_power(self, state: NetworkChain) -> NetworkChain:
        """The state as one of this chain, whichever it came from."""
        return state._replace(network=state.network._replace(power=float(self.power)))

    def with_power(self, power: float) -> NetworkKernel:
        """The same chain with another exponent of the likelihood."""
        other = copy.copy(self)
        other.__dict__["power"] = power
        return other

    def log_tempered(self, state: NetworkChain) -> float:
        """Log ∫ Π p(seen)^power p(missing) over weights and biases of the observed nodes: what the power changes."""
        from chefs._core.network import log_marginals

        return log_marginals(self._at_power(state).network, self.n_observed)

    def swapped(self, state: NetworkChain, other: NetworkChain) -> tuple[NetworkChain, NetworkChain]:
        """Both with the network of the other: step sizes stay, for each is that of a power."""
        return state._replace(network=other.network), other._replace(network=state.network)

    def _block(self, name: str, rng: np.random.Generator, state: NetworkChain) -> tuple[NetworkChain, int, int]:
        """The moves of one kind: the state, how many were tried, how many accepted."""
        from chefs._core import ancestral, joint, learn, paper
        from chefs._core.hyper import update_hyper
        from chefs._core.network import draw_precisions, gram_of

        network = state.network
        match name:
            case "edge":
                return state, *learn.edge_moves(rng, network, 1)
            case "weighted edge":
                return state, *paper.weighted_edge_moves(rng, network, 1)
            case "order" | "uniform order":
                return state, *learn.order_moves(rng, network, name == "order")
            case "birth":
                n_births = int(rng.random() < BIRTH_SHARE)
                network, tried, accepted = learn.birth_moves(rng, network, n_births)
                return state._replace(network=network), tried, accepted
            case "weighted birth":
                network, tried, accepted = paper.weighted_birth_moves(rng, network, self.n_births)
                return state._replace(network=network), tried, accepted
            case "precision":
                draw_precisions(rng, network, gram_of(network))
                return state, 1, 1
            case "activation":
                return state, *paper.activation_moves(rng, network, self.n_candidates)
            case "resample":
                tried, changed = ancestral.resample_points(rng, network, gram_of(network), self.n_candidates)
                return state, tried, changed
            case "joint":
                return state, *joint.joint_moves(rng, network)
            case "hamiltonian":
                return self._trajectories(rng, state)
            case "hyperparameters":
                n_learnt = update_hyper(rng, network.graph, (self.hyperpriors or FIXED).as_array())
                return state, n_learnt, n_learnt
            case _:
                raise ValueError(f"there is no move {name!r}")

    def _trajectories(self, rng: np.random.Generator, state: NetworkChain) -> tuple[NetworkChain, int, int]:
        """Hamiltonian trajectories; in warm-up their step size is tuned."""
        from chefs._core.hamiltonian import hamiltonian_move

        log_step, n_accepted = state.log_step, 0
        for _ in range(self.n_trajectories):
            n_steps = int(rng.integers(1, self.most_leapfrogs + 1))
            learn = MASS_RATE if state.adapting else 0.0
            probability, accepted = hamiltonian_move(rng, state.network, math.exp(log_step), n_steps, learn)
            n_accepted += accepted
            if state.adapting:
                log_step += 0.05 * (probability - TARGET_ACCEPTANCE)
        return state._replace(log_step=log_step), self.n_trajectories, n_accepted

    def freeze(self, state: NetworkChain) -> NetworkChain:
        """Keep the step size, and the masses of all units, from here on."""
        return state._replace(adapting=False)

    def draw(self, state: NetworkChain) -> Draw:
        """The graph, its weights, biases and precisions, the hyperparameters, and the log densities."""
        from chefs._core.ancestral import all_weights
        from chefs._core.density import log_prob_of_state
        from chefs._core.network import gram_of, log_likelihood
        from chefs._core.state import unpack

        network = self._at_power(state).network
        order, parent, child = unpack(network.graph)
        alpha, gamma, phi = network.graph.hyper.tolist()
        # A generator made from the state: a draw does not disturb the chain, and is the same whenever it is made.
        rho = network.rho[: order.size]
        numbers = np.concatenate(
            [network.a[: order.size].sum(axis=1), rho, order, network.graph.hyper, parent, child], dtype=np.float64
        )
        rng = np.random.default_rng(numbers.view(np.uint64))
        bias, weights = all_weights(rng, network, gram_of(network))
        scalars = {
            "alpha": alpha,
            "gamma": gamma,
            "phi": phi,
            "log_prob": log_prob_of_state(network.graph, alpha, gamma, phi),
            "log_likelihood": log_likelihood(network._replace(power=1.0)),
        }
        if not isinstance(self.prior, ChefsProcess):
            del scalars["phi"]  # buffets have none
        node = {"bias": bias, "precision": rho.copy()}
        if self.keep_activations:
            node["activation"] = network.a[: order.size].copy()
        return Draw(order, parent, child, scalars, node, {"weight": weights[child, parent]})
