"""ArchitectureSearch: a Markov chain over convolutional architectures (section 4.2 of the paper)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from chefs._limits import Edges
from chefs.cnn.ahead import upcoming
from chefs.cnn.archive import Archive
from chefs.cnn.gathering import Gathered
from chefs.cnn.options import check, connected, usual_settings
from chefs.cnn.plan import Plan, Shape, plan_of_arrays
from chefs.cnn.state import Held, Moment, SearchState, Unpacked
from chefs.cnn.training import Settings, Trained, Trainer
from chefs.dag import Dag, FloatArray
from chefs.draws import Draw
from chefs.images import Images, checked_images, scaled
from chefs.kernels import GraphKernel, Hyperpriors, Info, Moves
from chefs.prior import ChefsProcess

if TYPE_CHECKING:
    from chefs._core.propose import Proposal
    from chefs._core.state import GraphState
    from chefs.cnn.ensemble import Assessment
    from chefs.trace import Trace

PAPER = ChefsProcess(alpha=1.0, gamma=20.0, phi=5.0)


@dataclass(frozen=True, eq=False, init=False)
class ArchitectureSearch(GraphKernel):
    """A chain over DAGs between an image and its label whose law is prior × evidence of the network.

    The evidence is a point estimate, log p(labels | trained weights) of the training images, as in the paper. It
    depends on the edges and on the bins of the orders only, and is computed once for each such plan.

    Args:
        data: Training and test images, as `chefs.images.load` gives them.
        prior: The prior; the paper's where None.
        settings: How networks are trained; None for what suits `weights`, such as the paper's for "optimum".
        weights: "optimum" trains the network of every proposal from scratch. "inherit" is a heuristic: a proposal
            starts from the weights of the current network, so that few steps are enough, but its evidence then
            depends on history. "sghmc" keeps weights in the state: between moves of the graph, stochastic-gradient
            Hamiltonian Monte Carlo moves them, `settings.n_steps` steps of size `settings.rate`; nothing is trained.
        n_changes: A step ends after so many accepted moves that change an edge, a node or a bin; None for after
            `n_moves` moves. The paper counts changes; the draws are then those of the jump chain, and the scalar
            `n_moves` says how many moves each took.
        power: Exponent of the evidence.
        n_bins: How many different shapes layers can have.
        base_channels: What is added to the 2^bin channels of a layer.
        device: "cpu", "cuda", or "auto" for the best there is.
        prefetch: How many proposals ahead to train with each, along the path on which they are rejected. It does not
            change the draws. None for 0 on a CPU, 16 on a GPU.
        seed: Seed of all trainings; a network's depends on it and on the plan alone.
        archive: Folder in which label probabilities of the networks drawn are kept; None for in memory alone.
        trainer: What trains networks; None for the best for the device.
        hyperpriors: As for `chefs.PriorKernel`, like all that is not named here.
        moves: Likewise.
        n_moves: Likewise.
        required: Likewise.
        forbidden: Likewise.
        max_hidden: Likewise.
        start: Likewise; None for an image connected to its label.

    >>> import chefs
    >>> data = chefs.images.load("digits")
    >>> search = ArchitectureSearch(data, chefs.ChefsProcess(1, 2, 5), settings=Settings(n_steps=5), device="cpu")
    >>> trace = chefs.sample(np.random.default_rng(0), search, draws=3, chains=1, progress=False)
    >>> search.predict_proba(trace).shape
    (500, 10)
    """

    data: Images
    settings: Settings
    weights: Literal["optimum", "inherit", "sghmc"]
    n_changes: int | None
    power: float
    shape: Shape
    device: str
    prefetch: int | None
    seed: int
    archive: Archive
    trainer: Trainer | None = field(repr=False)
    prefer = "threads"  # chains share one trainer

    def __init__(
        self,
        data: Images,
        prior: ChefsProcess | None = None,
        *,
        settings: Settings | None = None,
        weights: Literal["optimum", "inherit", "sghmc"] = "optimum",
        n_changes: int | None = None,
        power: float = 1.0,
        n_bins: int = 5,
        base_channels: int = 4,
        device: str = "auto",
        prefetch: int | None = None,
        seed: int = 0,
        archive: str | Path | None = None,
        trainer: Trainer | None = None,
        hyperpriors: Hyperpriors | None = None,
        moves: Moves | None = None,
        n_moves: int = 20,
        required: Edges = (),
        forbidden: Edges = (),
        max_hidden: int | None = None,
        start: Dag | None = None,
    ) -> None:
        data = checked_images(data)
        n_classes = int(max(data.train_y.max(), data.test_y.max())) + 1
        shape = Shape(data.train_x.shape[2], max(n_classes, 2), data.train_x.shape[1], n_bins, base_channels)
        values = {
            "data": data,
            "prior": PAPER if prior is None else prior,
            "observed": [1.0, 0.0],
            "settings": usual_settings(weights, len(data.train_x)) if settings is None else settings,
            "weights": weights,
            "n_changes": n_changes,
            "power": power,
            "shape": shape,
            "device": device,
            "prefetch": prefetch,
            "seed": seed,
            "archive": Archive(archive, data.test_x),
            "trainer": trainer,
            "hyperpriors": hyperpriors,
            "moves": Moves() if moves is None else moves,
            "n_moves": n_moves,
            "required": required,
            "forbidden": forbidden,
            "bounds": {},
            "max_hidden": max_hidden,
            "start": connected(forbidden) if start is None else start,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self.__post_init__()
        check(self)
        self.__dict__["networks"] = self._gathered()

    if TYPE_CHECKING:
        networks: Gathered

    @classmethod
    def paper(cls, data: Images, **options: Any) -> ArchitectureSearch:
        """The paper's settings: its prior, its moves, Adam at 0.1 for 540 steps; a step is one accepted change.

        It ran 15 chains of 300 steps.
        """
        return cls(data, **{"moves": Moves.paper(), "settings": Settings(), "n_changes": 1, **options})

    @classmethod
    def default(cls, data: Images, **options: Any) -> ArchitectureSearch:
        """Our settings: all moves, and a step size that falls from 0.02 to 0."""
        return cls(data, **{"settings": Settings(rate=0.02, decay="cosine"), "n_changes": 1, **options})

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__.items() if name not in ("networks", "archive", "_carrier")
        } | {"archive": self.archive.folder}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["archive"] = Archive(state["archive"], self.data.test_x)
        self.__dict__["networks"] = self._gathered()

    def _gathered(self) -> Gathered:
        return Gathered(self.make_trainer, self.seed)

    def make_trainer(self, images: Images | None = None) -> Trainer:
        """What trains the networks: as given, or the best for the device; `images`, scaled, in place of the data."""
        if self.trainer is not None:
            return self.trainer
        from chefs.cnn.network import checked_device

        images = scaled(self.data) if images is None else images
        if checked_device(self.device) == "cpu":
            from chefs.cnn.compiled import cpu_trainer

            return cpu_trainer(images, self.settings)
        from chefs.cnn.stacked import StackedTrainer

        return StackedTrainer(images, self.settings, "cuda")

    @cached_property
    def n_ahead(self) -> int:
        """How many trainings to ask for ahead of time."""
        if self.prefetch is not None:
            return self.prefetch
        if self.trainer is not None:
            return 0
        from chefs.cnn.network import checked_device

        return 16 if checked_device(self.device) == "cuda" else 0

    def with_power(self, power: float) -> ArchitectureSearch:
        """The same chain with another exponent of the evidence; trained networks are shared."""
        other = copy.copy(self)
        other.__dict__.update({"power": power, "networks": self.networks, "archive": self.archive})
        if self.weights != "optimum":
            other.__dict__["_carrier"] = self._carrier.of(other)
        return other

    def log_likelihood_of(self, state: SearchState) -> float:
        """The evidence, without the power."""
        return state.held.trained.evidence

    def init(self, rng: np.random.Generator) -> SearchState:
        """The start, and its network."""
        from chefs._core.state import unpack

        graph = self.start_graph(rng)
        with self.networks.chain():
            held = self._network(rng, unpack(graph), None, None)
        if not held.trained.evidence > -math.inf:
            raise ValueError(
                "the network of the start could not be trained: its loss is not finite; try a smaller rate"
            )
        return SearchState(graph, held, 0)

    def step(self, rng: np.random.Generator, state: SearchState) -> tuple[SearchState, Info]:
        """Moves of the graph until the step is at its end, then its weights where they are sampled too."""
        from chefs._core.hyper import update_hyper
        from chefs._core.propose import HEAT_BATH, accepts, advance, tried_out

        tally = np.zeros((len(self.move_names), 2), dtype=np.int64)
        graph, held = state.graph, state.held
        left, changes = self.length(), 0
        with self.networks.chain():
            while left > 0 and changes != self.n_changes:
                graph, proposal, left = advance(rng, graph, self.mix, True, left, tally)
                if proposal.log_ratio == -math.inf:
                    break
                candidate, unpacked = tried_out(graph, proposal)
                new = self._network(rng, unpacked, held, Moment(graph, proposal, left))
                difference = self.difference(new.trained, held.trained)
                if accepts(rng, proposal, difference, self.mix[HEAT_BATH] > 0):
                    changes += self._is_change(graph, proposal)
                    graph, held = candidate, new
                    tally[proposal.kind, 1] += 1
            update_hyper(rng, graph, self.hyperprior)
            if self.weights == "sghmc":
                held = self._carrier.moved(rng, held, graph)
        return SearchState(graph, held, int(tally[:, 0].sum())), Info(tally)

    def draw(self, state: SearchState) -> Draw:
        """The graph, its densities, and what its network is like; its label probabilities go to the archive."""
        drawn = self.draw_graph(state.graph)
        plan, trained = state.held.plan, state.held.trained
        self.archive.keep(plan, trained.evidence, trained.probabilities)
        hits = trained.probabilities.argmax(axis=1) == self.data.test_y
        about = {
            "log_likelihood": trained.evidence,
            "train_accuracy": trained.train_accuracy,
            "accuracy": float(hits.mean()) if hits.size else math.nan,
            "n_layers": float(plan.n_hidden),
            "average_degree": plan.average_degree,
            "width": float(plan.width),
            "depth": float(plan.depth),
            "n_weights": float(plan.n_weights),
            "n_moves": float(state.n_moves),
        }
        return drawn._replace(scalars={**drawn.scalars, **about})

    def predict_proba(self, trace: Trace, images: np.ndarray | None = None) -> NDArray[np.float64]:
        """Probabilities of the labels of images, averaged over the networks of all draws.

        Args:
            trace: Draws of this search.
            images: As in `data`; None for the test images, of which networks leave their probabilities when they are
                drawn. For others every network is trained once more, by a trainer of the same kind (only where
                weights are the optimum, and not with a trainer of your own).
        """
        from chefs.cnn.ensemble import predict_proba

        return predict_proba(self, trace, images)

    def assess(self, trace: Trace) -> Assessment:
        """Accuracy and calibration on the test images: of the ensemble, of its members in the mean, and of the best."""
        from chefs.cnn.ensemble import assess

        return assess(self, trace)

    def plan(self, order: FloatArray, parent: np.ndarray, child: np.ndarray) -> Plan:
        """The plan of a graph given by its arrays."""
        return plan_of_arrays(order, parent, child, self.shape)

    def length(self) -> int:
        """Moves in one step, at most."""
        return self.n_moves if self.n_changes is None else 2**62

    def difference(self, new: Trained, old: Trained) -> float:
        """What the evidence adds to the log ratio: proposal minus current; a training that diverged is impossible."""
        if new.evidence == -math.inf:
            return -math.inf
        return self.power * (new.evidence - old.evidence) if self.power > 0 else 0.0

    def _is_change(self, graph: GraphState, proposal: Proposal) -> bool:
        """Whether a move changes an edge, a node or a bin."""
        from chefs._core.propose import ORDER

        old = float(graph.order[proposal.node])
        return proposal.kind != ORDER or self.shape.bin(old) != self.shape.bin(proposal.height)

    def _network(self, rng: np.random.Generator, unpacked: Unpacked, held: Held | None, moment: Moment | None) -> Held:
        """The network of a graph that a proposal would make of the current one, or of the start."""
        plan = self.plan(*unpacked)
        if self.weights != "optimum":
            return self._carrier.proposed(rng, plan, unpacked, held, moment)
        if held is not None and plan == held.plan:
            return held
        guesses = () if held is None or moment is None else upcoming(self, rng, held, moment)
        return Held(plan, self.networks.get(plan, guesses))

    @cached_property
    def _carrier(self) -> Any:
        from chefs.cnn.carried import Inherited, Sampled

        return (Inherited if self.weights == "inherit" else Sampled)(self)
