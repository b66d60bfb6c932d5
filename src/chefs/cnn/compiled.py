"""CompiledTrainer: networks trained on a CPU, one in each core, in loops of our own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from chefs._core.convolution import LANES, Program, adam, gradient_into, logits_of
from chefs._core.jit import COMPILED
from chefs.cnn.eager import EagerTrainer
from chefs.cnn.plan import Plan
from chefs.cnn.training import (
    Float32Array,
    Images,
    Settings,
    Trained,
    initial_weights,
    minibatches,
    outcome,
    weight_shapes,
)


class CompiledTrainer:
    """Trains as many networks at a time on a CPU as it has cores, each in a thread.

    PyTorch's operators are made for more channels and larger maps than these networks have;
    `chefs._core.convolution` is made for few and small ones. Results are those of `EagerTrainer`, to rounding.

    Args:
        images: What to train and test on.
        settings: How to train.
        n_jobs: Networks at a time; None for the number of cores.
    """

    def __init__(self, images: Images, settings: Settings, n_jobs: int | None = None) -> None:
        self.settings = settings.checked()
        types = (np.float32, np.int64, np.float32, np.int64)  # whatever they are: loops are compiled for these
        self.images = Images(*(np.require(part, t, ["C", "A", "W"]) for part, t in zip(images, types, strict=True)))
        self.n_jobs = n_jobs or _n_cores()

    def train(self, plans: Sequence[Plan], seeds: Sequence[int]) -> list[Trained]:
        """One result for each plan; the largest networks go first, so that no core is left waiting long."""
        with ThreadPoolExecutor(max(1, min(self.n_jobs, len(plans)))) as pool:
            jobs = {
                j: pool.submit(lambda plan, seed: self.result(plan, self.fit(plan, seed)), plans[j], seeds[j])
                for j in sorted(range(len(plans)), key=lambda j: -plans[j].n_edges)
            }
            return [jobs[j].result() for j in range(len(plans))]

    def fit(self, plan: Plan, seed: int, weights: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """The trained weights of a plan; they start from `weights`, or from random ones where None."""
        program, room = program_of(plan)
        flat = _joined(initial_weights(plan, seed) if weights is None else weights)
        gradient, first, second = (np.zeros_like(flat) for _ in range(3))
        values, slopes = _memory(room), _memory(room)
        x, y = self.images[:2]
        steps = zip(self.settings.rates().tolist(), minibatches(seed, len(x), self.settings), strict=True)
        for t, (rate, batch) in enumerate(steps, start=1):
            gradient_into(gradient, program, flat, x[batch], y[batch], values, slopes)
            adam(flat, gradient, first, second, rate, t)
        return _parted(plan, flat)

    def result(self, plan: Plan, weights: Sequence[np.ndarray]) -> Trained:
        """Evidence and accuracy on all training images, probabilities for the test images."""
        program, room = program_of(plan)
        flat, values, images = _joined(weights), _memory(room), self.images
        train, test = (logits_of(program, flat, x, values) for x in (images.train_x, images.test_x))
        return outcome(train, images.train_y, test)

    def gradient(self, plan: Plan, weights: Sequence[np.ndarray], batch: np.ndarray) -> list[np.ndarray]:
        """The gradient of the mean cross-entropy of the training images with these numbers."""
        program, room = program_of(plan)
        x, y = self.images[:2]
        flat = _joined(weights)
        total = np.empty_like(flat)
        gradient_into(total, program, flat, x[batch], y[batch], _memory(room), _memory(room))
        return _parted(plan, total)


def cpu_trainer(images: Images, settings: Settings) -> CompiledTrainer | EagerTrainer:
    """The best trainer there is for a CPU: PyTorch's operators where numba cannot be installed."""
    return CompiledTrainer(images, settings) if COMPILED else EagerTrainer(images, settings, "cpu")


@lru_cache(maxsize=64)
def program_of(plan: Plan) -> tuple[Program, int]:
    """The tables of a plan, and how many numbers its maps are.

    >>> plan = Plan(((), (0,), (0, 1)), (28, 14, 0), (1, 8, 3))
    >>> program_of(plan)[0].maps[:, 1:].tolist()  # channels, side, layer: the image at all its sides, then the rest
    [[1, 28, 0], [1, 1, 0], [1, 14, 0], [8, 14, 3], [8, 1, 3], [3, 1, 5]]
    """
    sides = [side or 1 for side in plan.sides]  # the output takes in means
    maps, edges, begin, number = [], [], [], {}
    room = place = 0
    for j, above in enumerate(plan.parents):
        begin.append(len(edges))
        first = 0
        for p in above:
            edges.append((number[p, sides[j]], place, first, plan.fan_in[j]))
            first += plan.channels[p]
        place += plan.channels[j] * plan.fan_in[j] * (9 if plan.sides[j] else 1)
        smaller = {sides[i] for i, others in enumerate(plan.parents) if j in others} - {sides[j]}
        begin += [len(edges)] * len(smaller)
        layer = len(maps)
        for side in (sides[j], *sorted(smaller)):
            number[j, side] = len(maps)
            maps.append((room, plan.channels[j], side, layer))
            room += plan.channels[j] * (side + 2) ** 2 * LANES
    begin.append(len(edges))
    return Program(*(np.array(table, np.int64) for table in (maps, np.reshape(edges, (-1, 4)), begin))), room


def _joined(weights: Sequence[np.ndarray]) -> Float32Array:
    return np.concatenate([w.ravel() for w in weights])


def _parted(plan: Plan, flat: Float32Array) -> list[np.ndarray]:
    shapes = weight_shapes(plan)
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


def _memory(room: int) -> Float32Array:
    """Zeros that begin where a line of the cache does: reading across two takes twice as long."""
    zeros = np.zeros(room + LANES, np.float32)
    first = -zeros.ctypes.data // zeros.itemsize % LANES
    return zeros[first : first + room]


def _n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
