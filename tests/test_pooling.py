"""The parts of a squared distance, on points whose parts are known."""

import json

import numpy as np
import pytest

from chefs import datasets
from chefs.experiments import baselines, mixing, mixing_report, pooling


@pytest.fixture(scope="module")
def moons():
    return datasets.load("moons", 3)


def fresh(first, n):
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
    many = [np.concatenate(fresh(1000 * c, 10)) for c in range(1, 4)]
    _, found = pooling.parts(moons, many)
    for pool in found:
        assert abs(pool.taken) < 0.15 and abs(pool.rest) < 0.06
    few = [points[:2000] for points in many]
    assert pooling.parts(moons, few)[1][0].rest == pytest.approx(0.0, abs=0.35)
    _, found = pooling.parts(moons, [np.concatenate(fresh(9000, 20)), fresh(9100, 1)[0]])  # chains count alike
    assert found[1].rest == pytest.approx(0.0, abs=0.12)  # were points to count alike it would be 0.2


def test_errors_of_chains_that_differ_average_out_and_those_that_all_have_do_not(moons):
    law = np.concatenate(fresh(5000, 20))
    left, right = law[law[:, 0] < 0.5], law[law[:, 0] >= 0.5]
    lopsided = [np.concatenate([left, right[: len(right) // 2]]), np.concatenate([left[: len(left) // 2], right])]
    first, pair = pooling.parts(moons, lopsided)[1]
    assert first.rest > 10.0 and pair.rest < 0.5
    alike = pooling.parts(moons, [lopsided[0]] * 2)[1]
    assert alike[1].total == pytest.approx(alike[0].total, rel=0.02)


def test_a_sample_has_a_unit(moons):
    errors = [pooling.parts(datasets.load("moons", seed), [moons.train])[0] for seed in range(8)]
    assert np.mean(errors) == pytest.approx(1.0, abs=0.25)


def test_of_the_ring_radii_and_angles_are_told_apart():
    """Radii that spread by a tenth more, or a quarter turn that is more likely by a fifth: each has its own square."""
    ring, rng = datasets.load("ring", 3), np.random.default_rng(2)

    def points(spread, lopsided):
        angle = rng.uniform(-np.pi, np.pi, 400_000)
        angle = angle[(np.abs(angle) < np.pi / 4) | (rng.random(angle.size) < lopsided)]
        radius = rng.normal(0.3, spread, angle.size)
        return 0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    for spread, lopsided, wide, uneven in (
        (0.03, 1.0, 0, 0),
        (0.033, 1.0, 1, 0),
        (0.03, 0.8, 0, 1),
        (0.033, 0.8, 1, 1),
    ):
        found = pooling.of_ring(ring, points(spread, lopsided))
        assert found["radii"] > 0.06 if wide else found["radii"] < 0.02
        assert found["angles"] > 1.0 if uneven else found["angles"] < 0.05


@pytest.mark.parametrize("kind", ["drawn again", "lopsided"])
def test_the_ratio_of_distance_to_baseline_follows(moons, kind):
    """√(1 + total / 2), measured with the distance itself, from fresh test sets."""
    rng = np.random.default_rng(1)
    law = np.concatenate(fresh(3000, 40))
    lopsided = np.concatenate([law, law[law[:, 0] < 0.5][:8000]])
    points = rng.permutation(rng.choice(moons.train, 80_000) if kind == "drawn again" else lopsided)
    total = pooling.parts(moons, [points])[1][0].total
    sets = [points[s * 2000 : (s + 1) * 2000] for s in range(40)]
    baseline = float(baselines.over_splits("moons", 100).mean())
    ratio = mixing.from_fresh(moons, 0, sets, 40) / baseline
    assert total > 0.5 and ratio == pytest.approx(np.sqrt(1 + total / 2), abs=0.08)


def test_a_fit_without_points_of_one_chain_keeps_those_of_the_others(moons):
    """A start that took all the time of its chain leaves none; what is found goes through JSON into the table."""
    found = json.loads(json.dumps(mixing.of_toy(moons, [moons.test, np.empty((0, 2)), moons.train])))
    assert len(found["stray"]) == 2 and [pool["n_chains"] for pool in found["pools"]] == [1, 2]
    assert mixing.of_toy(moons, [np.empty((0, 2))]) == {}
    (line,) = mixing_report.pooled_lines([{"data": "moons", "variant": "ours", **found}])[3:]
    assert line.startswith("| moons | ours | 1 |")
