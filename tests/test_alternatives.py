import math
import sys

import numpy as np
import pytest
from scipy import stats

from chefs import SigmoidNetwork
from chefs.experiments import alternatives
from tests.helpers import refused

FLOOR = alternatives.FLOOR


AXIS = np.linspace(-6, 6, 201)
GRID = np.stack(np.meshgrid(AXIS, AXIS), axis=-1).reshape(-1, 2)
CELL = (AXIS[1] - AXIS[0]) ** 2


def two_blobs(rng, n):
    return rng.normal(size=(n, 2)) * [0.3, 0.5] + np.where(rng.random(n) < 0.5, -1.0, 1.0)[:, None]


@pytest.mark.parametrize("name", ["mixture", "kernel", "flow", "bootstrap"])
def test_densities_integrate_to_one_and_are_those_of_the_draws(name, monkeypatch):
    if name == "flow":
        pytest.importorskip("zuko", reason="the flow needs zuko: pip install 'chefs[compare]'")
    monkeypatch.setattr(alternatives, "MOST_PASSES", 20)
    rng = np.random.default_rng(0)
    model = alternatives.fit(name, rng, two_blobs(rng, 600))
    density = np.exp(model.log_density(GRID))
    assert density.sum() * CELL == pytest.approx(1.0, abs=0.01)
    # The mean of 1/p over draws, where p is not tiny, is the area of that region: a wrong scale would show.
    points = model.sample(rng, 5000)
    noisy = points if name == "flow" else alternatives.with_noise(rng, points)  # whose density it is
    at_draws = np.exp(model.log_density(noisy))
    area = (density > 0.05).sum() * CELL
    weights = np.where(at_draws > 0.05, 1 / at_draws, 0.0)
    assert abs(weights.mean() - area) < 5 * weights.std() / math.sqrt(len(weights)) + 0.02 * area


def test_the_mixture_has_as_many_components_as_the_data():
    rng = np.random.default_rng(1)
    assert alternatives.fit("mixture", rng, rng.normal(size=(500, 3))).chosen["components"] == 1
    centres = np.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    three = centres[rng.integers(3, size=600)] + 0.3 * rng.normal(size=(600, 2))
    assert alternatives.fit("mixture", rng, three).chosen["components"] == 3


def test_no_peak_is_narrower_than_the_floor():
    rng = np.random.default_rng(2)
    atom = np.stack([np.zeros(300), rng.normal(size=300)], axis=1)
    mixture = alternatives.fit("mixture", rng, atom)
    assert mixture.model.covariances_[:, 0, 0].min() >= FLOOR**2 * (1 - 1e-9)
    assert mixture.model.covariances_[:, 0, 0].max() < 2 * FLOOR**2
    kernel = alternatives.fit("kernel", rng, np.zeros((100, 2)))
    assert kernel.chosen["bandwidth"] == pytest.approx(FLOOR)
    highest = stats.multivariate_normal(np.zeros(2), FLOOR**2).logpdf(np.zeros(2))
    assert kernel.log_density(np.zeros((1, 2)))[0] == pytest.approx(highest)
    # Points are drawn without the noise.
    assert np.abs(kernel.sample(rng, 50)).max() == 0.0
    points = mixture.sample(rng, 2000)
    assert points[:, 0].std() < 0.2 * FLOOR and points[:, 1].std() == pytest.approx(1.0, abs=0.15)


def test_the_flow_learns_an_atom_no_sharper_than_the_floor(monkeypatch):
    pytest.importorskip("zuko", reason="the flow needs zuko: pip install 'chefs[compare]'")
    rng = np.random.default_rng(3)
    atom = np.stack([np.zeros(400), rng.normal(size=400)], axis=1)
    monkeypatch.setattr(alternatives, "MOST_PASSES", 200)
    flow = alternatives.fit("flow", rng, atom)
    spread = flow.sample(rng, 2000)[:, 0].std()
    assert 0.6 * FLOOR < spread < 2.5 * FLOOR


def test_the_flow_knows_points_far_out(monkeypatch):
    """Beyond five standard deviations: one in ten at 7, whose density a normal tail would put at e^−25."""
    pytest.importorskip("zuko", reason="the flow needs zuko: pip install 'chefs[compare]'")
    rng = np.random.default_rng(10)
    far = rng.random(800) < 0.1
    monkeypatch.setattr(alternatives, "MOST_PASSES", 200)
    flow = alternatives.fit("flow", rng, np.where(far, 7.0, 0.0)[:, None] + 0.2 * rng.normal(size=(800, 1)))
    assert flow.log_density(np.array([[7.0]]))[0] > -4.0
    assert 0.02 < (flow.sample(rng, 2000) > 6.0).mean() < 0.3


def test_the_floor_of_a_network_is_a_convolution():
    rng = np.random.default_rng(4)
    model = SigmoidNetwork(draws=3, warmup=2, chains=2, start="empty", random_state=0, progress=False)
    model.fit(rng.normal(size=(80, 2)) * [1.0, 5.0])
    floored = alternatives.with_floor(model)
    for before, after in zip(model.trace_.chains, floored.trace_.chains, strict=True):
        for draw in range(len(before)):
            nodes = slice(before.dags.node_start[draw], before.dags.node_start[draw + 1])
            old, new = (1 / chain.node["precision"][nodes] for chain in (before, after))
            np.testing.assert_allclose(new[:2], old[:2] + FLOOR**2)
            np.testing.assert_array_equal(new[2:], old[2:])
    # p * N(0, FLOOR²) at a point, from the density without a floor, in units of the columns.
    at = model.mean_ + 0.3 * model.scale_
    around = at + FLOOR * model.scale_ * rng.normal(size=(4000, 2))
    densities = np.exp(model.score_samples(around))
    error = densities.std() / math.sqrt(len(densities))
    assert abs(np.exp(floored.score_samples([at])[0]) - densities.mean()) < 5 * error + 1e-3 * densities.mean()


def test_the_floor_is_refused_where_it_would_not_be_one():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2))
    x[:, 1] += 2 * x[:, 0]
    options = {"orders": [1.0, 0.0], "required": [(0, 1)], "draws": 2, "warmup": 1, "chains": 1, "start": "empty"}
    model = SigmoidNetwork(**options, progress=False).fit(x)
    with refused("no children", "orders"):
        alternatives.with_floor(model)


def test_unknown_alternatives_and_missing_packages_get_a_sentence(monkeypatch):
    rng = np.random.default_rng(6)
    with refused("'gmm'", "mixture, kernel, flow, bootstrap"):
        alternatives.fit("gmm", rng, rng.normal(size=(20, 2)))
    monkeypatch.setitem(sys.modules, "zuko", None)
    with refused("pip install 'chefs[compare]'", error=ImportError):
        alternatives.fit("flow", rng, rng.normal(size=(20, 2)))


def test_the_same_seed_gives_the_same_model():
    x = two_blobs(np.random.default_rng(7), 200)
    for name in ("mixture", "kernel", "bootstrap"):
        one, two = (alternatives.fit(name, np.random.default_rng(8), x) for _ in range(2))
        np.testing.assert_array_equal(one.log_density(x), two.log_density(x))
        np.testing.assert_array_equal(*(model.sample(np.random.default_rng(9), 5) for model in (one, two)))
