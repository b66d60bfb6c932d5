"""What a fitted network says of points: densities, fantasies, imputations and features against quadrature."""

import numpy as np
import pytest
from scipy import stats

from chefs import Draw
from chefs._core import annealing, walks
from chefs.network import predictive
from chefs.network.tables import Scale
from tests.mutants import mutant
from tests.networks import GRID, crossing, model_of, one_unit, posterior
from tests.stats import cells_p_value, check, check_caught, z_p_value

MEAN, SD = [3.0, -2.0], [0.5, 4.0]


def two_networks(seed=0):
    rng = np.random.default_rng(seed)
    return [one_unit(rng, 2, precision=2.0), one_unit(rng, 2, precision=2.0)]


@pytest.fixture
def brief(monkeypatch):
    """Fewer walks: the density is a mixture of as many Gaussians, and must integrate to one all the same."""
    monkeypatch.setitem(predictive.DENSITY, "walks", predictive.Effort(2, 100, 1))


def grid(n=90):
    """Points on the scale of the data, and the area that each stands for."""
    z = np.linspace(-9, 9, n + 1)[:-1] + 9 / n
    x, y = np.meshgrid(MEAN[0] + SD[0] * z, MEAN[1] + SD[1] * z, indexing="ij")
    return np.stack([x.ravel(), y.ravel()], axis=1), (18 / n) ** 2 * SD[0] * SD[1]


def integral(model):
    points, area = grid()
    return np.exp(model.score_samples(points)).sum() * area


@pytest.mark.parametrize("case", ["hidden above observed", "observed above hidden"])
def test_density_integrates_to_one(case, brief):
    draws = two_networks()
    if case == "observed above hidden":  # the first column is now a parent of the hidden unit, and it of the second
        for draw in draws:
            draw.order[:] = 0.9, 0.0, 0.5
            draw.parent[:], draw.child[:] = (0, 2), (2, 1)
    model = model_of(draws, MEAN, SD)
    assert integral(model) == pytest.approx(1.0, abs=1e-6)


def test_a_density_without_the_jacobian_does_not_integrate_to_one(monkeypatch, brief):
    monkeypatch.setattr(Scale, "log_jacobian", lambda self, x: np.zeros(len(x)))
    assert integral(model_of(two_networks(), MEAN, SD)) == pytest.approx(np.prod(SD), abs=1e-5)


def exact(draws, x):
    """Log predictive density by quadrature, on the scale of the data."""
    z, jacobian = (x - np.array(MEAN)[: x.shape[1]]) / np.array(SD)[: x.shape[1]], Scale(*map(np.array, (MEAN, SD)))
    logs = [[posterior(draw, row)[0] for row in z] for draw in draws]
    return predictive.log_mean(np.array(logs)) + jacobian.log_jacobian(x)


def test_density_is_that_of_quadrature_with_missing_entries_left_out():
    draws, rng = two_networks(1), np.random.default_rng(2)
    x = np.array(MEAN) + np.array(SD) * rng.normal(size=(6, 2))
    x[1, 0] = x[2, 1] = np.nan
    x[3] = np.nan
    once, twice = model_of(draws, MEAN, SD).score_samples(x, return_doubled=True)
    truth = exact(draws, x)
    assert once[3] == twice[3] == 0.0
    np.testing.assert_allclose(once, truth, atol=0.04)
    np.testing.assert_allclose(twice, truth, atol=0.03)
    assert np.abs(truth - exact(draws[:1], x)).max() > 0.3  # one network alone would be seen


def test_density_does_not_depend_on_the_rows_beside():
    model, points = model_of([crossing(np.random.default_rng(3))], [0.0] * 3, [1.0] * 3), np.random.default_rng(4)
    x = points.normal(size=(5, 3))
    for method in ("walks", "annealed"):
        whole = model.score_samples(x, method=method)
        np.testing.assert_array_equal(whole[::-1], model.score_samples(x[::-1], method=method))
        np.testing.assert_array_equal(whole[2:3], model.score_samples(x[2:3], method=method))
        assert (whole != model.score_samples(x, method=method, seed=1)).all()


def test_annealing_agrees_with_quadrature_where_walks_do_not(monkeypatch):
    rng = np.random.default_rng(5)
    draws = [one_unit(rng, 10, precision=400.0, unit_precision=1.0)]
    model = model_of(draws, np.zeros(10), np.ones(10))
    x = model.sample(8, random_state=6)
    truth = np.array([posterior(draws[0], row)[0] for row in x])
    found = np.mean([model.score_samples(x, seed=seed) for seed in range(6)], axis=0)  # each has a deviation of 0.11
    np.testing.assert_allclose(found, truth, atol=0.15)
    monkeypatch.setitem(predictive.DENSITY, "walks", predictive.Effort(1, 25, 1))  # as many walks as were annealed
    assert (truth - model.score_samples(x, method="walks")).mean() > 1.0


def test_fantasies_have_the_density_of_score_samples(monkeypatch):
    monkeypatch.setitem(predictive.DENSITY, "walks", predictive.Effort(2, 2000, 1))
    draws = two_networks(7)
    check(cells(model_of(draws, MEAN, SD), model_of(draws, MEAN, SD)))
    check_caught(cells(model_of(draws, MEAN, SD), model_of(draws[:1], MEAN, SD)))


def cells(model, other):
    """χ² of fantasies of one model on a 6 × 6 grid against the density of another."""
    points, area = grid(60)
    mass = (np.exp(other.score_samples(points)) * area).reshape(6, 10, 6, 10).sum(axis=(1, 3))
    fantasy = model.sample(4000, random_state=8)
    edges = [m + s * np.linspace(-9, 9, 7) for m, s in zip(MEAN, SD, strict=True)]
    counts = np.histogram2d(fantasy[:, 0], fantasy[:, 1], edges)[0]
    assert counts.sum() == 4000
    return {"cells": cells_p_value(counts.ravel(), mass.ravel())}


def ranks(draws, n=300, **options):
    """Imputed values of a column given the other, through the exact distribution function of the right network."""
    model, rng = model_of(draws, MEAN, SD), np.random.default_rng(9)
    z = rng.normal(size=(4, 2))
    x = np.array(MEAN) + np.array(SD) * z
    x[:, 1] = np.nan
    filled = model.impute(x, draws=n, random_state=10, **options)
    np.testing.assert_array_equal(filled.draws[:, :, 0], np.broadcast_to(x[:, 0], (n, 4)))
    np.testing.assert_allclose(filled.mean, filled.draws.mean(axis=0))
    p_values = {}
    for t in range(4):
        values = (filled.draws[:, t, 1] - MEAN[1]) / SD[1]
        logs, cdf = [], []
        for draw in draws:
            log_seen, u, weights = posterior(draw, np.array([z[t, 0], np.nan]))
            means = draw.node["bias"][1] + draw.edge["weight"][1] * u[::20]
            each = stats.norm.cdf((values[:, None] - means) * draw.node["precision"][1] ** 0.5)
            logs.append(log_seen)
            cdf.append(each @ weights[::20] / weights[::20].sum())
        share = np.exp(logs - np.max(logs)) / np.exp(logs - np.max(logs)).sum()
        p_values[f"row {t}"] = stats.kstest(np.array(cdf).T @ share, "uniform").pvalue
    return p_values


@pytest.mark.parametrize("method", ["walks", "annealed"])
def test_imputed_values_have_their_exact_conditional_law(method):
    check(ranks(two_networks(11)[:1], method=method))


def test_new_rows_weigh_the_networks_by_what_they_say_of_them():
    far, near = two_networks(12)
    far.node["bias"][0] += 3.0  # this network finds the rows less likely
    check(ranks([far, near], n=600))


def test_wrong_imputations_are_caught(monkeypatch):
    unweighted = mutant("annealing", ("if luck[t, r] * total < weight:", "if r == 0:"))
    monkeypatch.setattr(annealing, "given_afresh", unweighted.given_afresh)
    check_caught(ranks(two_networks(11)[:1], n=600))


def test_networks_that_are_not_weighed_are_caught(monkeypatch):
    far, near = two_networks(12)
    far.node["bias"][0] += 3.0
    original = predictive.picked
    monkeypatch.setattr(predictive, "picked", lambda rng, logs, n: original(rng, np.zeros_like(logs), n))
    check_caught(ranks([far, near], n=600))


def test_few_draws_for_a_new_row_come_from_the_best_of_many_networks():
    """One network of 100, in the middle of the trace, is near the row: each of three draws must find it."""
    far, near = two_networks(12)
    for draw, shift in ((far, 60.0), (near, -60.0)):
        draw.node["bias"][:] += shift
    model = model_of([far] * 50 + [near] + [far] * 49, MEAN, SD)
    x = np.array([[MEAN[0] - 60.0 * SD[0], np.nan]])
    values = (model.impute(x, draws=3, random_state=0).draws[:, 0, 1] - MEAN[1]) / SD[1]
    assert values.shape == (3,) and (values < -30).all()


def test_draws_from_the_one_network_that_a_new_row_chooses_are_independent():
    """One network of 100 is near the row: 300 draws from it, all of them different, have its exact law."""
    far, near = two_networks(12)
    far.node["bias"][:] += 60.0
    model = model_of([far] * 50 + [near] + [far] * 49, MEAN, SD)
    x = np.array([[MEAN[0] + 0.2 * SD[0], np.nan]])
    values = (model.impute(x, draws=300, random_state=0).draws[:, 0, 1] - MEAN[1]) / SD[1]
    assert len(np.unique(values)) == 300
    _, u, weights = posterior(near, np.array([0.2, np.nan]))
    means = near.node["bias"][1] + near.edge["weight"][1] * u[::20]
    cdf = stats.norm.cdf((values[:, None] - means) * near.node["precision"][1] ** 0.5) @ weights[::20]
    check({"law": stats.kstest(cdf / weights[::20].sum(), "uniform").pvalue})


@pytest.mark.parametrize("method", ["walks", "annealed"])
def test_rows_farther_than_any_density_reaches_are_imputed_all_the_same(method):
    model = model_of(two_networks(12), MEAN, SD)
    x = np.array([[1e200, np.nan], [1e308, np.nan], [3.0, np.nan]])
    filled = model.impute(x, draws=200, method=method, random_state=0)
    assert np.isfinite(filled.draws).all()
    assert model.score_samples(x, method=method)[:2].tolist() == [-np.inf, -np.inf]
    numbers = predictive.picked(np.random.default_rng(0), np.full((4, 1), -np.inf), 4000)
    check({"equal": cells_p_value(np.bincount(numbers[:, 0], minlength=4), np.full(4, 0.25))})
    check_caught({"equal": cells_p_value(np.bincount(numbers[:, 0] // 2, minlength=4), np.full(4, 0.25))})


def twins(n=600):
    """p-value of no correlation between the values imputed for two equal rows of the training table."""
    model = model_of(two_networks(17)[:1], MEAN, SD)
    model._training = np.array([[MEAN[0] + SD[0], np.nan]] * 2)
    values = model.impute(draws=n, method="annealed", random_state=18).draws[:, :, 1]
    return {"correlation": stats.pearsonr(*values.T).pvalue}


def test_values_imputed_for_different_rows_are_independent(monkeypatch):
    check(twins())

    def shared(rng, net, points, powers, n_runs):
        return annealing.given(net, points, powers, *predictive._noise(rng, 3, (n_runs, powers.size - 1), len(points)))

    monkeypatch.setattr(annealing, "given_afresh", shared)
    check_caught(twins())


def test_features_are_mean_outputs():
    draws, rng = two_networks(13)[:1], np.random.default_rng(14)
    z = rng.normal(size=(5, 2))
    z[2, 0] = np.nan
    features = model_of(draws, [0.0, 0.0], [1.0, 1.0]).transform(z)
    truth = [weights @ u for _, u, weights in (posterior(draws[0], row) for row in z)]
    assert features.shape == (5, 1)
    np.testing.assert_allclose(features[:, 0], truth, atol=0.04)
    assert np.ptp(truth) > 0.1


def test_annealed_features_agree_with_walks():
    rng = np.random.default_rng(15)
    draw = one_unit(rng, 6)
    model = model_of([draw], np.zeros(6), np.ones(6))
    x = model.sample(4, random_state=0)
    truth = [weights @ u for _, u, weights in (posterior(draw, row) for row in x)]
    np.testing.assert_allclose(model.transform(x)[:, 0], truth, atol=0.05)


def unbiased():
    """p-value of the mean over seeds of the estimated density itself, not of its logarithm, against quadrature."""
    draws = two_networks(16)
    x = np.array([[3.2, 1.0]])
    model, truth = model_of(draws, MEAN, SD), exact(draws, x)[0]
    ratio = np.exp([model.score_samples(x, seed=s)[0] - truth for s in range(100)])
    return {"mean": z_p_value(ratio.mean(), 1.0, ratio.std() / 10)}


def test_the_error_of_the_density_is_that_of_its_walks(monkeypatch):
    check(unbiased())
    timid = mutant("walks", ("a = mean + net.sd[i] * noise[i]", "a = mean + 0.9 * net.sd[i] * noise[i]"))
    monkeypatch.setattr(walks, "log_mean_weights", timid.log_mean_weights)
    check_caught(unbiased())


def inputs_and_output(rng, n_inputs):
    """A draw in which columns without parents, all but the last, act on a unit, and it on the last column."""
    order = np.array([*[1.0] * n_inputs, 0.0, 0.5])
    unit, inputs = n_inputs + 1, np.arange(n_inputs)
    parent, child = np.append(inputs, unit).astype(np.int32), np.array([*[unit] * n_inputs, n_inputs], dtype=np.int32)
    numbers = {"bias": rng.normal(size=unit + 1), "precision": rng.uniform(0.5, 3.0, unit + 1)}
    weight = np.append(3 * rng.normal(size=n_inputs), 4.0)
    numbers["precision"][n_inputs] = 20.0
    return Draw(order, parent, child, {"log_prob": 0.0}, numbers, {"weight": weight})


def test_inputs_are_not_what_a_walk_must_come_near():
    """Of six inputs and an output one column has a parent: walks will do, and find its law given the inputs."""
    rng = np.random.default_rng(31)
    draw = inputs_and_output(rng, 6)
    model = model_of([draw], [0.0] * 7, [1.0] * 7)
    assert predictive.checked_method("auto", model.trace_) == "walks"
    assert predictive.checked_method("annealed", model.trace_) == "annealed"
    for n, method in ((4, "walks"), (5, "annealed")):
        assert predictive.checked_method("auto", model_of([one_unit(rng, n)], [0.0] * n, [1.0] * n).trace_) == method
    order = np.array([0.0, 0.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4])  # units one above the other: it is columns that count
    parent, child = np.array([[2, 3, 4, 5, 6, 7, 7], [3, 4, 5, 6, 7, 0, 1]], dtype=np.int32)
    tower = Draw(
        order, parent, child, {"log_prob": 0.0}, {"bias": np.zeros(8), "precision": np.ones(8)}, {"weight": np.ones(7)}
    )
    assert predictive.checked_method("auto", model_of([tower], [0.0] * 2, [1.0] * 2).trace_) == "walks"
    x = rng.normal(size=(4, 7))
    x[:, 6] = np.nan
    bias, weight, sd = draw.node["bias"], draw.edge["weight"], draw.node["precision"] ** -0.5
    at = (bias[7] + (1 / (1 + np.exp(-x[:, :6]))) @ weight[:6])[:, None] + sd[7] * GRID
    shares = stats.norm.pdf(GRID) * (GRID[1] - GRID[0])
    means = bias[6] + weight[6] / (1 + np.exp(-at))
    mean = means @ shares
    found = model.impute(x, draws=400, random_state=0).draws[:, :, 6]
    error = found.std(axis=0) / np.sqrt(400)
    assert (np.abs(found.mean(axis=0) - mean) < 5 * error).all() and np.ptp(mean) > 25 * error.max()
    y = mean + np.array([0.0, 0.1, -0.1, 0.2])
    exact = np.log((stats.norm.pdf(y[:, None], means, sd[6]) * shares).sum(axis=1))
    given = model.score_samples(np.column_stack([x[:, :6], y])) - model.score_samples(x)
    assert np.allclose(given, exact, atol=0.1) and np.ptp(exact) > 0.5
