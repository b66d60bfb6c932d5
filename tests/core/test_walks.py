"""Walks against a naive twin, finite differences and quadrature, each with a kernel that is wrong."""

import math

import numpy as np
import pytest
from scipy import special, stats

from chefs._core import walks
from tests.mutants import mutant
from tests.networks import crossing, network, one_unit, posterior
from tests.stats import check, check_caught, z_p_value


def naive_weight(net, row, noise):
    """The weight of one walk, and where it ends, in plain Python."""
    a, total = np.zeros(net.sequence.size), 0.0
    for i in net.sequence:
        mean = net.bias[i]
        for e in range(net.start[i], net.start[i + 1]):
            mean += net.weight[e] * special.expit(a[net.parent[e]])
        if i < net.n_observed and not np.isnan(row[i]):
            a[i] = row[i]
            total += stats.norm.logpdf(a[i], mean, net.rho[i] ** -0.5)
        else:
            a[i] = mean + noise[i] * net.rho[i] ** -0.5
    return total, a


@pytest.mark.parametrize("make", [lambda rng: one_unit(rng, 3), crossing], ids=["apart", "crossing"])
def test_walks_are_those_of_the_naive_twin(make):
    rng = np.random.default_rng(1)
    net = network(make(rng), 3)
    assert net.n_apart == (net.sequence.size == 4)
    rows, noise = rng.normal(size=(6, 3)), rng.normal(size=(50, net.sequence.size))
    rows[1, 0] = rows[2, 1] = rows[3, 2] = np.nan
    rows[4] = np.nan
    found = walks.log_mean_weights(net, rows, noise)
    truth = [special.logsumexp([naive_weight(net, row, each)[0] for each in noise]) - math.log(50) for row in rows]
    np.testing.assert_allclose(found, truth, rtol=1e-10, atol=1e-10)
    place = walks.new_place(net)
    walks.log_likelihood_of(net, place, rows[3:4], noise[0])
    np.testing.assert_allclose(place.a, naive_weight(net, rows[3], noise[0])[1], rtol=1e-12)


def test_children_come_after_their_parents():
    net = network(crossing(np.random.default_rng(2)), 3)
    at = np.argsort(net.sequence)
    for i in range(5):
        assert all(at[k] < at[i] for k in net.parent[net.start[i] : net.start[i + 1]])


def test_slope_is_that_of_finite_differences():
    rng = np.random.default_rng(3)
    net = network(crossing(rng), 3)
    for row in np.array([[[0.3, -0.4, 1.0]], [[0.3, np.nan, 1.0]], [[np.nan, 0.2, np.nan]]]):
        noise = rng.normal(size=5)
        place = walks.new_place(net)
        walks.log_likelihood_of(net, place, row, noise)
        slopes = walks.slope(net, place)
        for i in np.flatnonzero(~place.seen):
            shift = 1e-6 * np.eye(5)[i]
            up, down = (walks.log_likelihood_of(net, walks.new_place(net), row, noise + s) for s in (shift, -shift))
            assert slopes[i] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-7)


def free_walk(rng, net):
    """The observed nodes of a point from the network, (1, d)."""
    place, nothing = walks.new_place(net), np.full((1, net.n_observed), np.nan)
    walks.log_likelihood_of(net, place, nothing, rng.normal(size=net.sequence.size))
    return place.a[None, : net.n_observed].copy()


def estimates(module, seed, d=6, n_temperatures=12, n_runs=4000):
    """z-tests of annealed weights of three points against quadrature; a temperature alone is a plain walk."""
    rng = np.random.default_rng(seed)
    draw = one_unit(rng, d)
    net = network(draw, d)
    powers = np.linspace(0, 1, n_temperatures + 1) ** 3
    p_values = {}
    for point in range(3):
        row = np.where(np.arange(d) == point, np.nan, free_walk(rng, net))
        place = module.new_place(net)
        shape = (n_runs, n_temperatures)
        noise, chance = rng.normal(size=(*shape, d + 2)), rng.random((*shape, 4))
        logs = np.array([module.anneal(net, place, row, powers, noise[r], chance[r]) for r in range(n_runs)])
        ratio = np.exp(logs - posterior(draw, row[0])[0])
        p_values[f"point {point}"] = z_p_value(ratio.mean(), 1.0, ratio.std() / math.sqrt(n_runs))
    return p_values


@pytest.mark.parametrize("n_temperatures", [1, 12])
def test_weights_are_unbiased(n_temperatures):
    check(estimates(walks, 4, n_temperatures=n_temperatures))


WRONG = {
    "only the last density": [("            total += net.log_height[i]", "            total = net.log_height[i]")],
    "trajectories without the prior": [(" - 0.5 * np.dot(noise, noise)", ""), (" - 0.5 * np.dot(new, new)", "")],
    "fresh noise never rejected": [("math.log(1.0 - chance[1]) < power * (reached", "0.0 * power <= abs(reached")],
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_weights_are_caught(name):
    check_caught(estimates(mutant("walks", *WRONG[name]), 5, n_runs=2000))


def test_annealing_is_worth_its_time():
    """The spread of the weights falls with the temperatures."""
    rng = np.random.default_rng(6)
    draw = one_unit(rng, 10, precision=60.0)
    net = network(draw, 10)
    row, place = free_walk(rng, net), walks.new_place(net)

    def spread(n):
        powers = np.linspace(0, 1, n + 1) ** 3
        runs = [walks.anneal(net, place, row, powers, rng.normal(size=(n, 12)), rng.random((n, 4))) for _ in range(100)]
        return np.std(runs)

    assert spread(200) < 0.7 * spread(20) < 0.2 * spread(1)
