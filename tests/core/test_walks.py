"""Walks against a naive twin."""

import math

import numpy as np
import pytest
from scipy import special, stats

from chefs._core import walks
from tests.networks import crossing, network, one_unit


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
