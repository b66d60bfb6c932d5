"""Trainers in plain PyTorch: one network at a time, or on a CPU as many at a time as there are cores."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from chefs.cnn.network import Network, checked_device
from chefs.cnn.plan import Plan
from chefs.cnn.training import Images, Settings, Trained, initial_weights, minibatches

AT_ONCE = 2000  # images, where no gradient is taken


class EagerTrainer:
    """Trains one network after another.

    Args:
        images: What to train and test on.
        settings: How to train.
        device: "cpu", "cuda" or "auto".
    """

    def __init__(self, images: Images, settings: Settings, device: str = "cpu") -> None:
        self.settings = settings.checked()
        self.device = checked_device(device)
        self.train_x, self.train_y, self.test_x = (
            torch.from_numpy(np.ascontiguousarray(part)).to(self.device) for part in images[:3]
        )

    def train(self, plans: Sequence[Plan], seeds: Sequence[int]) -> list[Trained]:
        """One result for each plan."""
        return [self.result(self.fit(plan, seed)) for plan, seed in zip(plans, seeds, strict=True)]

    def fit(self, plan: Plan, seed: int, weights: Sequence[np.ndarray] | None = None) -> Network:
        """The trained network of a plan; it starts from `weights`, or from random ones where None."""
        network = self.network(plan, initial_weights(plan, seed) if weights is None else weights)
        optimiser = self.optimiser(network)
        batches = torch.from_numpy(minibatches(seed, len(self.train_x), self.settings)).to(self.device)
        for rate, batch in zip(self.settings.rates().tolist(), batches, strict=True):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            functional.cross_entropy(self.logits(network, batch), self.train_y[batch]).backward()
            optimiser.step()
        return network

    def logits(self, network: Network, batch: Tensor) -> Tensor:
        """Logits of the training images with these numbers."""
        return network(self.train_x[batch])

    def network(self, plan: Plan, weights: Sequence[np.ndarray]) -> Network:
        """A network with these weights, where it is to be trained."""
        return Network.from_plan(plan, weights=weights).to(self.device)

    def optimiser(self, network: Network) -> torch.optim.Optimizer:
        """Adam as the settings say; the step size is set at every step."""
        return torch.optim.Adam(network.parameters(), lr=self.settings.rate, betas=(0.9, 0.999), eps=1e-8)

    @torch.no_grad()
    def result(self, network: Network) -> Trained:
        """Evidence and accuracy on all training images, probabilities for the test images."""
        loss, hits = 0.0, 0
        for x, y in zip(self.train_x.split(AT_ONCE), self.train_y.split(AT_ONCE), strict=True):
            logits = network(x)
            loss += float(functional.cross_entropy(logits, y, reduction="sum"))
            hits += int((logits.argmax(dim=1) == y).sum())
        rows = [network(x).softmax(dim=1) for x in self.test_x.split(AT_ONCE)]
        probabilities = torch.cat(rows).cpu().numpy()
        if not (math.isfinite(loss) and np.isfinite(probabilities).all()):  # the training has diverged
            return Trained(-math.inf, hits / len(self.train_y), np.full_like(probabilities, 1 / probabilities.shape[1]))
        return Trained(-loss, hits / len(self.train_y), probabilities)


class ThreadedTrainer(EagerTrainer):
    """Trains as many networks at a time on a CPU as it has cores, each in one thread.

    These networks are too small for two cores to share the work of one. Channels come last in memory, which suits
    convolutions with few channels, and the images are averaged to the sides of layers once for all networks.
    """

    def __init__(self, images: Images, settings: Settings, n_jobs: int | None = None) -> None:
        super().__init__(images, settings, "cpu")
        self.n_jobs = n_jobs or _n_cores()
        self.train_x, self.test_x = map(_channels_last, (self.train_x, self.test_x))
        self.smaller: dict[int, Tensor] = {}

    def train(self, plans: Sequence[Plan], seeds: Sequence[int]) -> list[Trained]:
        """One result for each plan, the largest networks first."""
        for side in {side for plan in plans for side in plan.sides[1:-1]} - {self.train_x.shape[-1], *self.smaller}:
            self.smaller[side] = _channels_last(functional.adaptive_avg_pool2d(self.train_x, side))
        n_jobs, n_threads = max(1, min(self.n_jobs, len(plans))), torch.get_num_threads()
        try:
            with ThreadPoolExecutor(n_jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                jobs = {
                    j: pool.submit(lambda plan, seed: self.result(self.fit(plan, seed)), plans[j], seeds[j])
                    for j in sorted(range(len(plans)), key=lambda j: -plans[j].n_edges)
                }
                return [jobs[j].result() for j in range(len(plans))]
        finally:
            torch.set_num_threads(n_threads)  # part of that setting is the whole process's

    def logits(self, network: Network, batch: Tensor) -> Tensor:
        """Logits of the training images with these numbers."""
        sides = {side for side, parents in zip(network.plan.sides, network.plan.parents, strict=True) if 0 in parents}
        averaged = {(0, side): self.smaller[side][batch] for side in sides if side in self.smaller}
        return network.logits(self.train_x[batch], averaged)

    def network(self, plan: Plan, weights: Sequence[np.ndarray]) -> Network:
        """With its kernels laid out channels last."""
        network = super().network(plan, weights)
        for kernel in network.kernels:
            kernel.data = _channels_last(kernel.data)
        return network

    def optimiser(self, network: Network) -> torch.optim.Optimizer:
        """Adam in one pass over the weights."""
        return torch.optim.Adam(network.parameters(), lr=self.settings.rate, betas=(0.9, 0.999), eps=1e-8, fused=True)


def _n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _channels_last(maps: Tensor) -> Tensor:
    return maps.contiguous(memory_format=torch.channels_last)
