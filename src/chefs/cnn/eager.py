"""EagerTrainer: networks trained in plain PyTorch, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from chefs.cnn.network import Network, checked_device
from chefs.cnn.plan import Plan
from chefs.cnn.training import Images, Settings, Trained, initial_weights, minibatches, outcome

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
        return [self.result(plan, self.fit(plan, seed)) for plan, seed in zip(plans, seeds, strict=True)]

    def fit(self, plan: Plan, seed: int, weights: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """The trained weights of a plan; they start from `weights`, or from random ones where None."""
        network = self._network(plan, initial_weights(plan, seed) if weights is None else weights)
        optimiser = torch.optim.Adam(network.parameters(), lr=self.settings.rate, betas=(0.9, 0.999), eps=1e-8)
        batches = torch.from_numpy(minibatches(seed, len(self.train_x), self.settings)).to(self.device)
        for rate, batch in zip(self.settings.rates().tolist(), batches, strict=True):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            functional.cross_entropy(network(self.train_x[batch]), self.train_y[batch]).backward()
            optimiser.step()
        return network.weights()

    @torch.no_grad()
    def result(self, plan: Plan, weights: Sequence[np.ndarray]) -> Trained:
        """Evidence and accuracy on all training images, probabilities for the test images."""
        network = self._network(plan, weights)
        train, test = (
            torch.cat([network(x) for x in part.split(AT_ONCE)]).cpu().numpy() for part in (self.train_x, self.test_x)
        )
        return outcome(train, self.train_y.cpu().numpy(), test)

    def gradient(self, plan: Plan, weights: Sequence[np.ndarray], batch: np.ndarray) -> list[np.ndarray]:
        """The gradient of the mean cross-entropy of the training images with these numbers."""
        network = self._network(plan, weights)
        some = torch.from_numpy(batch).to(self.device)
        inputs = [*network.kernels, network.linear, network.bias]
        loss = functional.cross_entropy(network(self.train_x[some]), self.train_y[some])
        gradients = torch.autograd.grad(loss, inputs, materialize_grads=True, allow_unused=True)
        return [g.cpu().contiguous().numpy() for g in gradients]

    def _network(self, plan: Plan, weights: Sequence[np.ndarray]) -> Network:
        """A network with these weights, where it is to be trained."""
        return Network.from_plan(plan, weights=weights).to(self.device)
