"""What it is to train a network: the settings, what comes out, and the random numbers that all trainers start from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from chefs.cnn.plan import Plan
from chefs.dag import shown
from chefs.images import Images

__all__ = ["Images", "Settings", "Trained", "Trainer", "initial_weights", "minibatches", "outcome", "weight_shapes"]

Float32Array = NDArray[np.float32]


class Settings(NamedTuple):
    """How a network is trained: Adam with β = 0.9, 0.999 and ε = 1e-8, and constant or falling steps.

    Args:
        n_steps: Minibatches.
        batch: Images in each.
        rate: Step size of Adam.
        decay: "cosine" lets the step size of step t fall as ½ (1 + cos(π t / n_steps)).
    """

    n_steps: int = 540
    batch: int = 100
    rate: float = 0.1
    decay: Literal["none", "cosine"] = "none"

    def checked(self) -> Settings:
        """The settings, where they make sense."""
        for name in ("n_steps", "batch"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a whole number, at least 1; found {shown(value)}")
        if not isinstance(self.rate, int | float | np.number) or not 0 < self.rate < np.inf:
            raise ValueError(f"rate must be a positive number; found {shown(self.rate)}")
        if self.decay not in ("none", "cosine"):
            raise ValueError(f"decay must be 'none' or 'cosine'; found {shown(self.decay)}")
        return self

    def rates(self) -> Float32Array:
        """The step size of every step."""
        at = np.arange(self.n_steps) / self.n_steps
        shape = 0.5 * (1 + np.cos(np.pi * at)) if self.decay == "cosine" else np.ones(self.n_steps)
        return (self.rate * shape).astype(np.float32)


class Trained(NamedTuple):
    """What training gives."""

    evidence: float  # −(training images) × mean cross-entropy of the training images at the trained weights
    train_accuracy: float
    probabilities: NDArray[np.floating]  # of the labels of the test images, (test images, classes)


class Trainer(Protocol):
    """Trains networks; the result for a plan and its seed does not depend on what it is trained together with."""

    def train(self, plans: Sequence[Plan], seeds: Sequence[int]) -> list[Trained]:
        """One result for each plan."""
        ...


def weight_shapes(plan: Plan) -> list[tuple[int, ...]]:
    """Kernels (channels, channels taken in, 3, 3) of the hidden layers in turn, then the output's weights and bias.

    The channels that a layer takes in are those of its parents, in the order of `plan.parents`. An output without
    parents has weights of shape (n_classes, 0).
    """
    hidden = zip(plan.channels[1:-1], plan.fan_in[1:-1], strict=True)
    return [*((c, n, 3, 3) for c, n in hidden), (plan.channels[-1], plan.fan_in[-1]), (plan.channels[-1],)]


def initial_weights(plan: Plan, seed: int) -> list[Float32Array]:
    """Normal weights: variance 2 / (numbers taken in) before a ReLU, 1 / (numbers taken in) at the output; bias 0."""
    rng = np.random.default_rng([seed, 0])
    *kernels, linear, bias = weight_shapes(plan)
    weights = [rng.standard_normal(s, np.float32) * np.float32(np.sqrt(2 / (9 * s[1]))) for s in kernels]
    weights.append(rng.standard_normal(linear, np.float32) * np.float32(max(linear[1], 1) ** -0.5))
    return [*weights, np.zeros(bias, np.float32)]


def minibatches(seed: int, n_images: int, settings: Settings) -> NDArray[np.int64]:
    """Numbers of the images of every step, (n_steps, batch): pass after pass over the images, each in a new order.

    What is left of a pass when it is too short for a batch is left out; with fewer images than a batch has, all are
    taken at every step.
    """
    batch = min(settings.batch, n_images)
    per_pass = n_images // batch
    rng = np.random.default_rng([seed, 1])
    passes = [rng.permutation(n_images)[: per_pass * batch] for _ in range(-(-settings.n_steps // per_pass))]
    return np.concatenate(passes).reshape(-1, batch)[: settings.n_steps]


def outcome(train: Float32Array, labels: NDArray[np.int64], test: Float32Array) -> Trained:
    """What logits of the training and of the test images, (images, classes) each, come to.

    Where they are not finite, because the training has diverged, the labels are impossible.
    """
    logs, test_logs = _log_probabilities(train), _log_probabilities(test)
    evidence, accuracy = float(logs[np.arange(len(logs)), labels].sum()), float((train.argmax(axis=1) == labels).mean())
    probabilities = np.exp(test_logs).astype(np.float32)
    if not (math.isfinite(evidence) and np.isfinite(probabilities).all()):
        return Trained(-math.inf, accuracy, np.full_like(probabilities, 1 / probabilities.shape[1]))
    return Trained(evidence, accuracy, probabilities)


def _log_probabilities(logits: Float32Array) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        below = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
        return below - np.log(np.exp(below).sum(axis=1, keepdims=True))
