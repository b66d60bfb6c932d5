"""Annealed walks against plain ones, finite differences and quadrature, each with a kernel that is wrong."""

import math

import numpy as np
import pytest

from chefs._core import annealing, walks
from tests.mutants import mutant
from tests.networks import crossing, network, one_unit, posterior
from tests.stats import check, check_caught, z_p_value

ROWS = np.array([[0.3, -0.4, 1.0], [0.3, np.nan, 1.0], [np.nan, 0.2, np.nan], [np.nan, np.nan, np.nan]])


@pytest.mark.parametrize("make", [lambda rng: one_unit(rng, 3), crossing], ids=["apart", "crossing"])
def test_points_of_a_block_walk_as_each_would_alone(make):
    rng = np.random.default_rng(1)
    net = network(make(rng), 3)
    noise, block, place = rng.normal(size=(net.sequence.size, 4)), annealing.block_of(net, ROWS), walks.new_place(net)
    annealing.walk_down(net, block, noise)
    for t in range(4):
        weight = walks.log_likelihood_of(net, place, ROWS[t : t + 1], noise[:, t].copy())
        assert block.log_likelihood[t] == pytest.approx(weight, rel=1e-12)
        np.testing.assert_allclose(block.a[:, t], place.a, rtol=1e-12)


def test_slope_is_that_of_finite_differences():
    rng = np.random.default_rng(3)
    net = network(crossing(rng), 3)
    noise, block = rng.normal(size=(5, 4)), annealing.block_of(net, ROWS)
    annealing.walk_down(net, block, noise)
    slopes = annealing.slope_of(net, block)
    assert (slopes[block.seen] == 0).all() and (slopes[:, 3] == 0).all()
    for i in range(5):
        ends = []
        for shift in (1e-6, -1e-6):
            moved = annealing.block_of(net, ROWS)
            annealing.walk_down(net, moved, noise + shift * (np.arange(5) == i)[:, None])
            ends.append(moved.log_likelihood)
        unseen = ~block.seen[i]
        expected = (ends[0] - ends[1])[unseen] / 2e-6
        np.testing.assert_allclose(slopes[i, unseen], expected, rtol=1e-5, atol=1e-7)


def free_walk(rng, net):
    """The observed nodes of a point from the network, (1, d)."""
    place, nothing = walks.new_place(net), np.full((1, net.n_observed), np.nan)
    walks.log_likelihood_of(net, place, nothing, rng.normal(size=net.sequence.size))
    return place.a[None, : net.n_observed].copy()


def log_weights(module, rng, net, row, n_temperatures, n_runs):
    """Of as many annealed walks for one row, side by side."""
    powers, block = np.linspace(0, 1, n_temperatures + 1) ** 3, module.block_of(net, np.repeat(row, n_runs, axis=0))
    noise = rng.normal(size=(n_temperatures, net.sequence.size + 1, n_runs))
    return module.anneal(net, block, powers, noise, rng.random((n_temperatures, 4, n_runs)))


def estimates(module, seed, d=6, n_temperatures=12, n_runs=4000):
    """z-tests of annealed weights of three points against quadrature; a temperature alone is a plain walk."""
    rng = np.random.default_rng(seed)
    draw = one_unit(rng, d)
    net = network(draw, d)
    p_values = {}
    for point in range(3):
        row = np.where(np.arange(d) == point, np.nan, free_walk(rng, net))
        logs = log_weights(module, rng, net, row, n_temperatures, n_runs)
        ratio = np.exp(logs - posterior(draw, row[0])[0])
        p_values[f"point {point}"] = z_p_value(ratio.mean(), 1.0, ratio.std() / math.sqrt(n_runs))
    return p_values


@pytest.mark.parametrize("n_temperatures", [1, 12])
def test_weights_are_unbiased(n_temperatures):
    check(estimates(annealing, 4, n_temperatures=n_temperatures))


WRONG = {
    "densities without their precision": [("log_height - 0.5 * rho * e * e", "log_height - 0.5 * e * e")],
    "trajectories without the prior": [(" - 0.5 * squares(noise)", ""), (" - 0.5 * squares(new)", "")],
    "fresh noise never rejected": [("np.log(1.0 - chance[1]) < power * (block", "0.0 * chance[1] <= np.abs(block")],
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_weights_are_caught(name):
    check_caught(estimates(mutant("annealing", *WRONG[name]), 5))


def test_annealing_is_worth_its_time():
    """The spread of the weights falls with the temperatures."""
    rng = np.random.default_rng(6)
    net = network(one_unit(rng, 10, precision=60.0), 10)
    row = free_walk(rng, net)
    spread = {n: log_weights(annealing, rng, net, row, n, 100).std() for n in (1, 20, 200)}
    assert spread[200] < 0.7 * spread[20] < 0.2 * spread[1]


def test_a_point_meets_the_same_walks_in_any_block():
    rng = np.random.default_rng(7)
    net = network(crossing(rng), 3)
    n = 2 * annealing.BLOCK + 3
    points = np.where(rng.random((n, 3)) < 0.2, np.nan, rng.normal(size=(n, 3)))
    powers, noise, chance = np.linspace(0, 1, 6), rng.normal(size=(2, 5, 6, 1)), rng.random((2, 5, 4, 1))
    luck = rng.random((n, 2))
    together = annealing.given(net, points, powers, noise, chance, luck)
    for t in (0, annealing.BLOCK - 1, annealing.BLOCK, n - 1):
        alone = annealing.given(net, points[t : t + 1], powers, noise, chance, luck[t : t + 1])
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], all_of_them[t], rtol=1e-10)
    afresh = annealing.given_afresh(rng, net, points, powers, 2)
    assert all(np.isfinite(part).all() for part in afresh) and len(np.unique(afresh[1][:, 4])) == n
    np.testing.assert_array_equal(afresh[1][:, :3][~np.isnan(points)], points[~np.isnan(points)])
    other = annealing.given(net, points[:1], powers, noise, np.ascontiguousarray(chance[:, ::-1]), luck[:1])
    assert abs(other[0][0] - together[0][0]) > 1e-6  # what it meets does matter
