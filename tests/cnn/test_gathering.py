import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from chefs.cnn import Plan, Trained
from chefs.cnn.gathering import Gathered, OutOfTimeError

NONE = np.zeros((1, 2), np.float32)


def plan(number):
    return Plan(((), (0,)), (number, 0), (1, 2))


class Recorder:
    """A trainer whose evidence is the side of the image, and that remembers what it was asked for."""

    def __init__(self, seconds=0.0):
        self.rounds, self.threads, self.seconds = [], set(), seconds

    def train(self, plans, seeds):
        assert list(seeds) == [p.seed(3) for p in plans]
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        self.rounds.append([p.sides[0] for p in plans])
        return [Trained(float(p.sides[0]), 1.0, NONE) for p in plans]


def test_each_plan_is_trained_once():
    trainer = Recorder()
    gathered = Gathered(lambda: trainer, salt=3)
    assert [gathered.get(plan(n)).evidence for n in (1, 2, 1, 2, 3)] == [1, 2, 1, 2, 3]
    assert trainer.rounds == [[1], [2], [3]]
    assert (gathered.n_trained, gathered.n_rounds) == (3, 3)


def test_probabilities_are_remembered_in_half_the_memory():
    gathered = Gathered(Recorder, salt=3)
    assert gathered.get(plan(1)).probabilities.dtype == gathered.known[plan(1)].probabilities.dtype == np.float16


def test_guesses_fill_a_round_and_are_not_trained_again():
    trainer = Recorder()
    gathered = Gathered(lambda: trainer, salt=3, most=3)
    gathered.get(plan(1), [plan(2), plan(1), plan(3), plan(4)])
    gathered.get(plan(3), [plan(2)])
    assert trainer.rounds == [[1, 2, 3]]


def test_chains_that_ask_together_are_served_together(monkeypatch):
    monkeypatch.setattr("chefs.cnn.gathering.PATIENCE", 600.0)  # however slow the machine, nobody is left behind
    trainer = Recorder(0.05)
    gathered = Gathered(lambda: trainer, salt=3)
    barrier = threading.Barrier(8)

    def chain(number):
        with gathered.chain():
            barrier.wait()
            return [gathered.get(plan(10 * j + number % 4)).evidence for j in range(1, 4)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(chain, range(8)))
    assert found == [[10 * j + number % 4 for j in range(1, 4)] for number in range(8)]
    assert sorted(n for one in trainer.rounds for n in one) == sorted(10 * j + n for j in range(1, 4) for n in range(4))
    assert len(trainer.rounds[0]) == 4  # all eight were waited for
    assert len(trainer.threads) == 1


def test_a_trainer_that_fails_fails_every_chain_that_waits():
    class Broken:
        def train(self, plans, seeds):
            time.sleep(0.02)
            raise RuntimeError("no memory left")

    gathered = Gathered(Broken)

    def chain(number):
        with gathered.chain(), pytest.raises(RuntimeError, match="no memory left"):
            gathered.get(plan(number))
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(chain, range(4)))


def test_after_the_time_is_over_nothing_is_trained_but_what_is_known_is_told():
    trainer = Recorder()
    gathered = Gathered(lambda: trainer, salt=3)
    gathered.get(plan(1))
    gathered.stop_at = 0.0
    assert gathered.get(plan(1)).evidence == 1
    with pytest.raises(OutOfTimeError):
        gathered.get(plan(2))
    assert trainer.rounds == [[1]]
