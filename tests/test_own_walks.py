"""Starts where columns are parents: layouts, the gradient through walks of a point's own, what these estimate."""

import math

import numpy as np
import pytest

from chefs import ChefsProcess, SigmoidNetwork
from chefs.network import own_walks
from chefs.network.kernel import NetworkKernel
from chefs.network.layout import Layers, layout_for, random_layers
from chefs.network.own_walks import OwnWalks, gradient, noise_for
from chefs.network.start import Fit, GradientStart, Points, as_start, walks_for

ORDERS = np.array([1.0, 0.3, 0.0, 0.0])
CHAIN = layout_for(ChefsProcess(), 1, np.array([1.0, 0.0]))  # column 0 → unit → column 1, and 0 → 1
NODES, SHARES = np.polynomial.hermite_e.hermegauss(120)
SHARES /= SHARES.sum()


def small(layout, n_columns, seed, n_points=5):
    rng = np.random.default_rng(seed)
    layers = Layers(*(p.astype(np.float64) for p in random_layers(rng, layout)))
    x = rng.normal(size=(n_points, n_columns))
    return rng, layers, x, (rng.random(x.shape) > 0.3).astype(np.float64)


def objective(layers, layout, noise, x, seen, n_points):
    """What `gradient` is the gradient of, the obvious way."""
    (n, m), n_walks, total = layers.weights.shape, noise.shape[1] // len(x), 0.0
    rho = np.exp(layers.log_rho)
    for t in range(len(x)):
        logs = np.zeros(n_walks)
        for s in range(n_walks):
            u = np.zeros(n)
            for j in range(n):
                d, mean = layout.column[j], layers.bias[j] + layers.weights[j, :j] @ u[: min(j, m)]
                a = mean + noise[j, t * n_walks + s] / math.sqrt(rho[j])
                if d >= 0 and seen[t, d]:
                    a = x[t, d]
                    logs[s] += 0.5 * math.log(rho[j]) - 0.5 * rho[j] * (a - mean) ** 2
                u[j] = 1 / (1 + math.exp(-a))
        total += np.logaddexp.reduce(logs) - math.log(n_walks)
    prior = -0.5 * (layers.weights**2).sum() - 0.5 * (layers.bias**2).sum()
    return n_points * total / len(x) + prior + (0.5 * layers.log_rho - 0.5 * rho).sum(), total / len(x)


def test_gradient_is_that_of_finite_differences_with_columns_above_below_and_missing():
    layout = layout_for(ChefsProcess(), 3, ORDERS)
    rng, layers, x, seen = small(layout, 4, 1)
    noise = noise_for(rng, layout, seen, 6, np.float64)
    slope, value = gradient(layers, layout, noise, x, seen, 20)
    assert value == pytest.approx(objective(layers, layout, noise, x, seen, 20)[1])
    checked = 0
    for p, (array, by) in enumerate(zip(layers, slope, strict=True)):
        for index in np.ndindex(array.shape):
            if p == 0 and not layout.possible[index]:
                continue
            ends = []
            for sign in (1, -1):
                array[index] += sign * 1e-5
                ends.append(objective(layers, layout, noise, x, seen, 20)[0])
                array[index] -= sign * 1e-5
            assert by[index] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-3)
            checked += 1
    assert checked == layout.possible.sum() + 7 + 7 == 34


def normal(x, mean, rho):
    """N(x; mean, 1/ρ) without its 2π."""
    return np.sqrt(rho) * np.exp(-0.5 * rho * (x - mean) ** 2)


def by_quadrature(layers, x):
    """Density of a row (column 0, column 1) under CHAIN, nan where missing; and the mean of the unit given it."""
    (w0, (w10, _), (w20, w21)), b, rho = layers.weights, layers.bias, np.exp(layers.log_rho)
    assert not w0.any()
    above = np.array([x[0]]) if not math.isnan(x[0]) else b[0] + NODES / math.sqrt(rho[0])
    weight = normal(above, b[0], rho[0]) if not math.isnan(x[0]) else SHARES
    out = 1 / (1 + np.exp(-above))
    unit = b[1] + w10 * out[:, None] + NODES / math.sqrt(rho[1])
    mean = b[2] + w20 * out[:, None] + w21 / (1 + np.exp(-unit))
    joint = weight[:, None] * SHARES * (1.0 if math.isnan(x[1]) else normal(x[1], mean, rho[2]))
    return joint.sum(), (joint * unit).sum() / joint.sum()


@pytest.mark.parametrize("row", [(0.7, -0.4), (math.nan, 1.1), (-1.0, math.nan)], ids=str)
def test_densities_and_chosen_walks_are_those_of_quadrature(row):
    """And a walk that took what is missing for 0 would be seen."""
    _, layers, _, _ = small(CHAIN, 2, 3)
    layers.weights[:] *= 2.0
    layers.log_rho[2] = 0.5
    x = np.repeat([row], 400, axis=0)
    seen = (~np.isnan(x)).astype(np.float64)
    density, mean = by_quadrature(layers, row)
    walks, filled = OwnWalks(CHAIN), np.nan_to_num(x)
    found = walks.log_densities(np.random.default_rng(4), layers, filled, seen, 500)
    assert np.exp(found).mean() == pytest.approx(density, abs=5 * np.exp(found).std() / 20 + 1e-9)
    a = walks.chosen(np.random.default_rng(5), layers, filled, seen)
    assert a[1].mean() == pytest.approx(mean, abs=4 * a[1].std() / 20)
    start = as_start(np.random.default_rng(6), layers, x, CHAIN)
    assert np.array_equal(start.a[:2].T[seen == 1], x[seen == 1]) and np.isfinite(start.a).all()
    if not seen.all():
        assert density != pytest.approx(by_quadrature(layers, np.nan_to_num(row))[0], rel=0.02)


def test_a_layout_has_all_edges_that_orders_allow_and_none_that_is_forbidden():
    forbidden = np.zeros((4, 4), dtype=bool)
    forbidden[0, 2] = forbidden[1, 3] = True
    layout = layout_for(ChefsProcess(), 1, np.array([1.0, 0.5, 0.0, 0.0]), forbidden)
    assert layout.column.tolist() == [0, -1, 1, 2, 3] and layout.order[1] not in (0.5, 1.0)  # not beside a column
    edges = {(int(layout.column[k]), int(layout.column[i])) for i, k in np.argwhere(layout.possible)}
    assert edges == {(0, -1), (0, 1), (-1, 1), (0, 3), (-1, 2), (-1, 3), (1, 2)}
    assert not layout.columns_end and isinstance(walks_for(layout), OwnWalks)
    assert layout_for(ChefsProcess(), 3, np.zeros(4)).columns_end
    near = layout_for(ChefsProcess(), 1, np.array([0.0, 0.5, 0.625, 1.0]))
    assert 0.5 < near.order[near.hidden][0] < 0.625
    above = layout_for(ChefsProcess(), 3, np.array([0.6, 0.6]))
    assert above.columns_end and (above.order[above.hidden] > 0.6).all()  # each unit has a child
    below = layout_for(ChefsProcess(), 8, np.array([0.8, 0.8, 0.0]))  # inputs need not be at 1 to be above all units
    assert (below.order[below.hidden] < 0.8).all() and below.n_below == 1


def test_some_rows_after_the_other_are_all_rows_in_their_order(monkeypatch):
    layout = layout_for(ChefsProcess(), 3, ORDERS)
    _, layers, x, seen = small(layout, 4, 21, n_points=53)
    walks = OwnWalks(layout)
    at_once = walks.log_densities(np.random.default_rng(22), layers, x, seen, 2000)
    monkeypatch.setattr(own_walks, "MOST_NUMBERS", 2000 * 7 * 5)
    assert len(list(walks._walked(np.random.default_rng(22), layers, x, seen, 2000))) == 11
    in_parts = walks.log_densities(np.random.default_rng(23), layers, x, seen, 2000)
    assert np.abs(at_once - in_parts).max() < 0.4 * at_once.std()
    assert np.abs(np.roll(at_once, 5) - in_parts).max() > at_once.std()
    assert walks.chosen(np.random.default_rng(24), layers, x, seen).shape == (7, 53)


@pytest.mark.parametrize(
    ("observed", "options"),
    [
        ([1.0, 1.0, 0.0], {}),
        ([0.2, 0.9, 0.5], {"forbidden": [(1, 0)]}),
        ([math.nan, 0.5, math.nan], {"required": [(1, 0), (2, 1)]}),
        ([math.nan] * 3, {"required": [(2, 0)], "forbidden": [(0, 1), (1, 0)]}),
    ],
    ids=str,
)
def test_a_chain_can_start_from_a_fit_whatever_the_orders(observed, options):
    rng = np.random.default_rng(6)
    data = rng.normal(size=(40, 3))
    data[rng.random(data.shape) < 0.1] = np.nan
    start = GradientStart(n_hidden=3, n_steps=30, n_tries=2)
    kernel = NetworkKernel(ChefsProcess(), observed, data, start=start, **options)
    first = kernel.init(np.random.default_rng(7))
    assert first.network.graph.size[0] == 6 and np.isfinite(first.network.a[:6]).all()
    assert np.array_equal(first.network.a[:3].T[~np.isnan(data)], data[~np.isnan(data)])
    for _ in range(3):
        first, _ = kernel.step(rng, first)
    draw = kernel.draw(first)
    edges = set(zip(draw.parent.tolist(), draw.child.tolist(), strict=True))
    assert edges >= set(options.get("required", ())) and not edges & set(options.get("forbidden", ()))
    assert math.isfinite(draw.scalars["log_prob"])
    fitted = start(np.random.default_rng(8), data, None, kernel.limits.draw_orders(rng), kernel.limits.forbidden)
    kernel.limits.check(fitted.dag, kernel.prior)


def test_columns_that_come_in_another_order_are_not_taken_for_each_other():
    """Orders that put the second above the first: means, spreads and what is seen are those of the right column."""
    data = np.random.default_rng(14).normal(size=(300, 2)) * [0.3, 1.0] + [5.0, -3.0]
    data[:50] = np.nan
    orders = np.array([0.3, 0.31])
    assert layout_for(ChefsProcess(), 1, orders).column.tolist() == [1, -1, 0]
    start = GradientStart(1, 1500, 2)(np.random.default_rng(15), data, None, orders)
    assert np.allclose(start.a[:2, :50].mean(axis=1), [5.0, -3.0], atol=0.6)
    assert np.array_equal(start.a[:2, 50:], data[50:].T) and start.rho[0] > 3 * start.rho[1]


def hills(rng, n):
    x = rng.normal(size=(n, 2))
    return np.column_stack([x, x[:, 0] ** 2 - 1 + 0.5 * x[:, 1] + 0.2 * rng.normal(size=n)])


def test_a_fit_and_its_activations_follow_a_curve():
    """What the network makes of the inputs alone is near the curve; with the output seen, units are chosen for it."""
    z = hills(np.random.default_rng(9), 400)
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    layout = layout_for(ChefsProcess(), 4, np.array([1.0, 1.0, 0.0]))
    fit = Fit(np.random.default_rng(20), Points.of(z), layout)

    def residual():
        inputs = z.copy()
        inputs[:, 2] = np.nan
        draws = [as_start(np.random.default_rng(s), fit.in_double, inputs, layout).a[2] for s in range(30)]
        return (z[:, 2] - np.mean(draws, axis=0)).std()

    fit.run(2500, 0.0, 0.1)
    early = residual()
    fit.run(2500, 0.1, 1.0)
    assert residual() < 0.4 < 0.6 < early  # of one: a line has 0.9
    u = 1 / (1 + np.exp(-as_start(np.random.default_rng(11), fit.in_double, z, layout).a))
    weights, at = fit.layers.weights[-1], np.r_[[0, 1], 3:7]  # columns 0 and 1, then units
    assert (z[:, 2] - fit.layers.bias[-1] - weights @ u[at]).std() < 0.25


def test_regression_of_a_curve_needs_no_more_than_the_defaults_but_for_time():
    """With inputs at order 1; from an empty graph a chain of this length has hardly begun."""
    rng = np.random.default_rng(12)
    table, new = hills(rng, 300), hills(rng, 200)
    rows = new.copy()
    rows[:, 2] = np.nan

    def error(start):
        model = SigmoidNetwork(
            orders=[1.0, 1.0, 0.0], draws=60, warmup=60, chains=1, random_state=0, progress=False, start=start
        ).fit(table)
        return (model.impute(rows, draws=40, random_state=1).mean[:, 2] - new[:, 2]).std() / new[:, 2].std()

    assert error("gradient") < 0.45 < 0.7 < error("empty")


def test_where_all_orders_are_free_or_1_chains_start_empty():
    x = np.random.default_rng(13).normal(size=(60, 2))
    for orders, fitted in ((1.0, False), (math.nan, False), ([1.0, 0.0], True), (0.0, True), (0.5, True)):
        model = SigmoidNetwork(orders=orders)
        model.n_features_in_ = 2
        assert isinstance(model._kernel(x).start, GradientStart) is fitted
