"""Gathered: one place where all chains ask for trained networks, so that many are trained at once."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from chefs.cnn.plan import Plan
from chefs.cnn.training import Trained, Trainer
from chefs.storage import RunError

PATIENCE = 1.0  # seconds that a round of training waits, at most, for chains that have not asked yet


class OutOfTimeError(RunError):
    """The time that a run was given is over."""


class Gathered:
    """Remembers what was trained, and trains what several chains, in threads, ask for in one round.

    A result depends on its plan and on `salt` alone, so neither rounds nor guesses change what a chain sees: they only
    decide when it is computed.

    Args:
        make: Makes the trainer, when it is first needed.
        salt: Seed of all trainings.
        most: Networks in one round, at most; guesses fill up what the needed ones leave.
    """

    def __init__(self, make: Callable[[], Trainer], salt: int = 0, most: int = 256) -> None:
        self.make, self.salt, self.most = make, salt, most
        self.known: dict[Plan, Trained] = {}
        self.stop_at = math.inf  # of time.monotonic(): nothing is trained after that
        self.n_trained = 0
        self.n_rounds = 0
        self._trainer: Trainer | None = None
        self._needed: dict[Plan, int] = {}  # plans that chains wait for, and how many of them do
        self._guesses: dict[Plan, None] = {}
        self._inside = 0  # chains that are making moves
        self._waiting = 0
        self._training = False
        self._changed = threading.Condition()
        # One thread trains for all: a CUDA context likes to be used from one.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="training")

    @contextmanager
    def chain(self) -> Iterator[None]:
        """While a chain makes moves: a round of training waits a moment for those that have not asked yet."""
        with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def get(self, plan: Plan, guesses: Iterable[Plan] = ()) -> Trained:
        """The trained network of `plan`; `guesses`, best first, are plans that may be asked for next."""
        found = self.known.get(plan)
        if found is not None:
            return found
        guessed = list(guesses)
        with self._changed:
            self._needed[plan] = self._needed.get(plan, 0) + 1
            self._guesses.update(dict.fromkeys(guessed))
            self._waiting += 1
            self._changed.notify_all()
            try:
                while plan not in self.known:
                    if self._training:
                        self._changed.wait()
                    elif time.monotonic() > self.stop_at:
                        raise OutOfTimeError("the time that the run was given is over")
                    else:
                        self._train_round()
            finally:
                self._waiting -= 1
                self._needed[plan] -= 1
                if not self._needed[plan]:
                    del self._needed[plan]
        return self.known[plan]

    def _train_round(self) -> None:
        """Train what is needed and guessed, without the lock; it is held when this is called and when it returns."""
        self._training = True
        try:
            self._changed.wait_for(lambda: self._waiting >= self._inside, timeout=PATIENCE)
            plans = [plan for plan in self._needed if plan not in self.known]
            plans += [plan for plan in self._guesses if plan not in self.known and plan not in self._needed]
            plans = plans[: max(self.most, 1)]
            self._guesses.clear()
            self._changed.release()
            try:
                results = self._worker.submit(self._train, plans).result()
            finally:
                self._changed.acquire()
            self.known.update(zip(plans, map(_smaller, results), strict=True))
            self.n_trained += len(plans)
            self.n_rounds += 1
        finally:
            self._training = False
            self._changed.notify_all()

    def _train(self, plans: list[Plan]) -> list[Trained]:
        if self._trainer is None:
            self._trainer = self.make()
        return self._trainer.train(plans, [plan.seed(self.salt) for plan in plans])


def _smaller(trained: Trained) -> Trained:
    """With probabilities in half the memory: a long run remembers thousands of networks, most of them rejected."""
    return trained._replace(probabilities=trained.probabilities.astype(np.float16))
