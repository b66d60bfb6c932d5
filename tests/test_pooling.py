"""The parts of a squared distance, on points whose parts are known."""

import numpy as np
import pytest

from chefs import datasets
from chefs.experiments import pooling


@pytest.fixture(scope="module")
def moons():
    return datasets.load("moons", 3)


def fresh(moons, first, n):
    return [datasets.load("moons", first + s).train for s in range(n)]


def test_training_points_drawn_again_have_the_error_of_the_training_half_and_nothing_else(moons):
    rng = np.random.default_rng(0)
    error, found = pooling.parts(moons, [rng.choice(moons.train, 40_000) for _ in range(6)])
    assert [pool.n_chains for pool in found] == [1, 2, 3, 6]
    for pool in found:
        assert pool.taken == pytest.approx(1.0, abs=0.05) and pool.rest == pytest.approx(0.0, abs=0.03)
        assert pool.total == pytest.approx(error, abs=0.1)


def test_points_of_the_law_have_neither(moons):
    """Once the noise of their number is taken off: not so with that of another number."""
    many = [np.concatenate(fresh(moons, 1000 * c, 10)) for c in range(1, 4)]
    _, found = pooling.parts(moons, many)
    for pool in found:
        assert abs(pool.taken) < 0.15 and abs(pool.rest) < 0.06
    few = [points[:2000] for points in many]
    assert pooling.parts(moons, few)[1][0].rest == pytest.approx(0.0, abs=0.35)


def test_errors_of_chains_that_differ_average_out_and_those_that_all_have_do_not(moons):
    law = np.concatenate(fresh(moons, 5000, 20))
    left, right = law[law[:, 0] < 0.5], law[law[:, 0] >= 0.5]
    lopsided = [np.concatenate([left, right[: len(right) // 2]]), np.concatenate([left[: len(left) // 2], right])]
    first, pair = pooling.parts(moons, lopsided)[1]
    assert first.rest > 10.0 and pair.rest < 0.5
    alike = pooling.parts(moons, [lopsided[0]] * 2)[1]
    assert alike[1].total == pytest.approx(alike[0].total, rel=0.02)


def test_a_sample_has_a_unit_and_the_ratio_follows(moons):
    """√(1 + 1 / 2) for points drawn again, whatever the luck of the training half is in the mean."""
    errors = [pooling.parts(datasets.load("moons", seed), [np.ones((10, 2))])[0] for seed in range(8)]
    assert np.mean(errors) == pytest.approx(1.0, abs=0.25)
