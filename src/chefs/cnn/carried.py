"""Weights that a chain carries along: inherited from network to network, or sampled.

Weights belong to the edges of a graph. A node is known by its order, which no two share: so what a move leaves alone is
found again in the graph it makes, whatever the numbers of nodes and layers.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chefs.cnn.compiled import cpu_trainer
from chefs.cnn.eager import EagerTrainer
from chefs.cnn.network import checked_device
from chefs.cnn.plan import Plan, plan_and_nodes
from chefs.cnn.state import Held, Moment, Unpacked
from chefs.cnn.training import initial_weights, weight_shapes
from chefs.images import scaled

if TYPE_CHECKING:
    from chefs._core.state import GraphState
    from chefs.cnn.search import ArchitectureSearch

Slabs = dict[tuple[float, float], np.ndarray]  # by the orders of parent and child; that of the bias is (0, 0)
MEMORY = 0.95  # how much of a momentum is left after one step
NOISE = math.sqrt(1 - MEMORY**2)  # what is added, so that its variance stays 1


class Carried(NamedTuple):
    """Weights and, where they are sampled, their momenta."""

    weights: Slabs
    momenta: Slabs


def split(plan: Plan, heights: Sequence[float], weights: Sequence[np.ndarray]) -> Slabs:
    """The weights of a network, in the order of `weight_shapes`, by edges; `heights` are the orders of its layers."""
    slabs = {(0.0, 0.0): weights[-1]}
    for j, above in enumerate(plan.parents[1:], start=1):
        first = 0
        for p in above:
            last = first + plan.channels[p]
            slabs[heights[p], heights[j]] = weights[j - 1][:, first:last]
            first = last
    return slabs


def joined(plan: Plan, heights: Sequence[float], slabs: Slabs, fresh: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The weights of a network from those of its edges; `fresh` where an edge is new or its shape has changed."""
    new = split(plan, heights, fresh)
    own = {
        edge: slabs[edge] if edge in slabs and slabs[edge].shape == slab.shape else slab for edge, slab in new.items()
    }
    weights = []
    for j, above in enumerate(plan.parents[1:], start=1):
        columns = [own[heights[p], heights[j]] for p in above]
        weights.append(np.concatenate(columns, axis=1) if columns else fresh[j - 1])
    return [*weights, own[0.0, 0.0]]


def renamed(slabs: Slabs, old: float, new: float) -> Slabs:
    """The same after the node at order `old` has moved to `new`."""
    return {(new if k == old else k, new if i == old else i): slab for (k, i), slab in slabs.items()}


class _Carrier:
    """What both have in common: which weights of the current network a proposal takes over."""

    def __init__(self, search: ArchitectureSearch) -> None:
        self.search = search
        images = scaled(search.data)
        device = checked_device(search.device)
        self.trainer = (
            cpu_trainer(images, search.settings) if device == "cpu" else EagerTrainer(images, search.settings, device)
        )

    def of(self, search: ArchitectureSearch) -> _Carrier:
        """The same for another search over the same images."""
        other = copy.copy(self)
        other.search = search
        return other

    def heights(self, unpacked: Unpacked) -> tuple[Plan, list[float]]:
        """The plan of a graph, and the orders of its layers."""
        plan, nodes = plan_and_nodes(*unpacked, self.search.shape)
        return plan, [float(unpacked[0][node]) for node in nodes]

    def proposed(
        self, rng: np.random.Generator, plan: Plan, unpacked: Unpacked, held: Held | None, moment: Moment | None
    ) -> Held:
        """The network of a graph: what it has in common with the one that is held, and the rest anew."""
        from chefs._core.propose import ORDER

        carried = Carried({}, {}) if held is None or held.carried is None else held.carried
        if moment is not None and moment.proposal.kind == ORDER:
            old, new = float(moment.graph.order[moment.proposal.node]), float(moment.proposal.height)
            carried = Carried(*(renamed(slabs, old, new) for slabs in carried))
        if held is not None and plan == held.plan:  # no layer has come, gone or changed its shape
            return held._replace(carried=carried)
        return self.made(rng, plan, self.heights(unpacked)[1], carried)

    def made(self, rng: np.random.Generator, plan: Plan, heights: list[float], carried: Carried) -> Held:
        """A network with the weights that are carried where it has them."""
        raise NotImplementedError


class Inherited(_Carrier):
    """A heuristic: a proposal starts from the weights of the current network and is trained only briefly."""

    def made(self, rng: np.random.Generator, plan: Plan, heights: list[float], carried: Carried) -> Held:
        """Train the network from the weights that are carried."""
        seed = int(rng.integers(2**62))
        weights = self.trainer.fit(plan, seed, joined(plan, heights, carried.weights, initial_weights(plan, seed)))
        return Held(plan, self.trainer.result(plan, weights), Carried(split(plan, heights, weights), {}))


class Sampled(_Carrier):
    """Weights are part of the state, with independent normal priors.

    The variance is 2 / (9 channels of the parent) for kernels, 1 / (channels of the parent) at the output and 1 for the
    bias: it depends on the edge alone. A new edge draws its weights from that prior, so that prior and proposal cancel
    and the likelihood, over all training images, decides. Between moves of the graph the weights follow
    stochastic-gradient Hamiltonian Monte Carlo (Chen, Fox, Guestrin, 2014), in units of their prior: half a kick, half
    a drift, friction and noise, half a drift, half a kick. That is exact for the prior alone; the noise of gradients is
    not corrected for.
    """

    def made(self, rng: np.random.Generator, plan: Plan, heights: list[float], carried: Carried) -> Held:
        """New edges from the prior; momenta are standard normal."""
        noise = [rng.standard_normal(shape, np.float32) for shape in weight_shapes(plan)]
        fresh = [s * z for s, z in zip(scales(plan), noise, strict=True)]
        weights = joined(plan, heights, carried.weights, fresh)
        noise = [rng.standard_normal(shape, np.float32) for shape in weight_shapes(plan)]
        momenta = joined(plan, heights, carried.momenta, noise)
        trained = self.trainer.result(plan, weights)
        return Held(plan, trained, Carried(split(plan, heights, weights), split(plan, heights, momenta)))

    def moved(self, rng: np.random.Generator, held: Held, graph: GraphState) -> Held:
        """The same network after `settings.n_steps` steps of its weights."""
        from chefs._core.state import unpack

        assert held.carried is not None
        plan, heights = self.heights(unpack(graph))
        zeros = [np.zeros(shape, np.float32) for shape in weight_shapes(plan)]
        start = (joined(plan, heights, slabs, zeros) for slabs in held.carried)
        weights, momenta = self._trajectory(rng, plan, *start)
        trained = self.trainer.result(plan, weights)
        if not trained.evidence > -math.inf:
            rate = self.search.settings.rate
            raise ValueError(f"the sampled weights have diverged: try settings with a smaller rate; found {rate:g}")
        return Held(plan, trained, Carried(split(plan, heights, weights), split(plan, heights, momenta)))

    @np.errstate(over="ignore", invalid="ignore")  # weights that diverge show in what they are worth
    def _trajectory(
        self, rng: np.random.Generator, plan: Plan, weights: list[np.ndarray], momenta: list[np.ndarray]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Weights and momenta after `settings.n_steps` steps."""
        scale, half = scales(plan), float(self.search.settings.rate) / 2
        force = self._force(rng, plan, weights, scale)
        for _ in range(self.search.settings.n_steps):
            noise = [rng.standard_normal(w.shape, np.float32) for w in weights]
            kicked = [r + half * f for r, f in zip(momenta, force, strict=True)]
            slowed = [MEMORY * r + NOISE * z for r, z in zip(kicked, noise, strict=True)]
            weights = [w + half * (r + q) * s for w, r, q, s in zip(weights, kicked, slowed, scale, strict=True)]
            force = self._force(rng, plan, weights, scale)
            momenta = [r + half * f for r, f in zip(slowed, force, strict=True)]
        return weights, momenta

    def _force(
        self, rng: np.random.Generator, plan: Plan, weights: list[np.ndarray], scale: list[np.ndarray]
    ) -> list[np.ndarray]:
        """−∇U in units of the prior, from one minibatch: that of the prior, and power × (images) × mean gradient."""
        pull = [-w / s for w, s in zip(weights, scale, strict=True)]
        if not self.search.power > 0:
            return pull
        n = len(self.search.data.train_x)
        batch = rng.choice(n, min(self.search.settings.batch, n), replace=False)
        gradients = self.trainer.gradient(plan, weights, batch)
        factor = float(self.search.power) * n
        return [f - factor * g * s for f, g, s in zip(pull, gradients, scale, strict=True)]


def scales(plan: Plan) -> list[np.ndarray]:
    """Prior standard deviations of all weights, in the shapes of `weight_shapes`."""
    result = []
    for shape, above in zip(weight_shapes(plan), (*plan.parents[1:], ()), strict=True):
        taken = np.repeat([plan.channels[p] for p in above], [plan.channels[p] for p in above]).astype(np.float32)
        if len(shape) == 1:
            result.append(np.ones(shape, np.float32))
        elif len(shape) == 2:
            result.append(np.broadcast_to(taken**-0.5, shape).copy())
        else:
            result.append(np.broadcast_to((4.5 * taken[:, None, None]) ** -0.5, shape).copy())
    return result
