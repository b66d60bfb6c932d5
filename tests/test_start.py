"""The stochastic-gradient start: its gradient, its walks, and what a chain makes of it."""

import math
import signal

import numpy as np
import pytest
from scipy import stats

from chefs import ChefsProcess, Dag
from chefs._core.fitting import exponentials
from chefs.buffets import CascadingBuffet, ExtendedBuffet, IndianBuffet, layer
from chefs.datasets import moons, pinwheel
from chefs.network.kernel import BIRTH_SHARE, NetworkKernel
from chefs.network.layout import Layers, layout_for, random_layers
from chefs.network.shared_walks import (
    CHEAP,
    FIRST,
    LAST,
    SharedWalks,
    gradient,
    log_weights,
    paired_noise,
    pieces_of_noise,
    walk,
)
from chefs.network.start import WORTH, Fit, GradientStart, Points, Start, as_start, smallest_worth

H, D, S, B = 4, 3, 50, 20
ALL = layout_for(ChefsProcess(), H, np.zeros(D))
LONE = Dag(np.zeros((2, 2), dtype=bool), [0.0, 0.0], 2)
OF_SIZE = [layout_for(ChefsProcess(), n, np.zeros(2)) for n in (1, 2, 3)]
UNSEEN = np.full((5, 2), np.nan)


def small(seed):
    rng = np.random.default_rng(seed)
    layers = Layers(*(p.astype(np.float64) for p in random_layers(rng, ALL)))
    x = rng.normal(size=(B, D))
    seen = (rng.random((B, D)) > 0.2).astype(np.float64)
    return layers, rng.normal(size=(H, S)), x, seen


def objective(layers, noise, x, seen, n_points):
    """What `gradient` is the gradient of, the obvious way."""
    means = walk(layers, noise)[1]
    rho = np.exp(layers.log_rho[H:])
    density = 0.0
    for t in range(B):
        logs = [
            sum(0.5 * math.log(rho[d]) - 0.5 * rho[d] * (x[t, d] - means[d, s]) ** 2 for d in range(D) if seen[t, d])
            for s in range(S)
        ]
        density += np.logaddexp.reduce(logs) - math.log(S)
    prior = -0.5 * (layers.weights**2).sum() - 0.5 * (layers.bias**2).sum()
    return n_points * density / B + prior + (0.5 * layers.log_rho - 0.5 * np.exp(layers.log_rho)).sum(), density / B


@pytest.mark.parametrize("away", [0.0, 1.5, 2.5, 25.0])
def test_gradient_is_that_of_finite_differences_with_missing_entries(away):
    """And of points that no walk is near, whose shares would be lost if they were not relative to the nearest."""
    layers, noise, x, seen = small(1)
    x[::2] += away
    slope, value = gradient(layers, noise, x, seen, 200)
    assert value == pytest.approx(objective(layers, noise, x, seen, 200)[1])
    for p, (array, by) in enumerate(zip(layers, slope, strict=True)):
        for index in np.ndindex(array.shape):
            if p == 0 and index[1] >= index[0]:
                assert by[index] == 0  # no unit is above itself
                continue
            ends = []
            for sign in (1, -1):
                array[index] += sign * 1e-5
                ends.append(objective(layers, noise, x, seen, 200)[0])
                array[index] -= sign * 1e-5
            assert by[index] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize(("precision", "within"), [(np.float32, 1e-4), (np.float64, 5e-5)])
def test_exponentials(precision, within):
    logs = -np.linspace(0.0, 50.0, 500).astype(precision) + precision(3.0)
    found = logs.copy()
    total = exponentials(found, precision(3.0))
    assert found == pytest.approx(np.exp(logs.astype(float) - 3.0), rel=within)
    assert total == pytest.approx(found.astype(float).sum(), rel=1e-6)
    lost = np.array([-1e6, -np.inf], dtype=precision)
    assert exponentials(lost, precision(0.0)) < 1e-33


def test_noise_of_walks_is_normal_and_paired():
    rng = np.random.default_rng(20)
    draws = [paired_noise(rng, 3, 1000) for _ in range(200)]
    for noise in draws:
        assert noise.shape == (3, 1000) and np.array_equal(noise[:, :500], -noise[:, 500:])
        assert len({float(row[0]) for row in noise}) == 3  # other pieces for other units
    assert len({float(noise[0, 0]) for noise in draws}) > 190
    assert stats.kstest(np.concatenate([noise[0, :500] for noise in draws]), "norm").pvalue > 1e-5
    upper, lower = (np.concatenate([noise[unit, :500] for noise in draws]) for unit in (0, 1))
    assert abs(np.corrcoef(upper, lower)[0, 1]) < 0.015  # five deviations
    assert np.shares_memory(pieces_of_noise(7), pieces_of_noise(500))


def test_steps_have_the_walks_and_points_of_their_stage(monkeypatch):
    """Of ten steps the first three are cheap for a small network; the last three have the most walks."""
    asked = []
    slope = SharedWalks.slope

    def noted(walks, rng, layers, x, seen, n_points, n_walks):
        asked.append((n_walks, len(x)))
        return slope(walks, rng, layers, x, seen, n_points, n_walks)

    monkeypatch.setattr(SharedWalks, "slope", noted)
    for n_hidden, first in ((3, CHEAP), (17, FIRST)):
        asked.clear()
        layout = layout_for(ChefsProcess(), n_hidden, np.zeros(2))
        Fit(np.random.default_rng(21), Points.of(np.zeros((300, 2))), layout).run(10, 0.0, 1.0)
        stages = 3 * [first] + 4 * [FIRST] + 3 * [LAST]
        assert asked == [(stage.n_walks, stage.batch) for stage in stages]
    assert CHEAP.n_walks < FIRST.n_walks < LAST.n_walks


def test_a_fit_that_is_interrupted_ends_with_its_step(monkeypatch):
    fit = Fit(np.random.default_rng(22), Points.of(np.zeros((5, 2))), OF_SIZE[0])
    step = Fit._step

    def interrupted_once(fit, progress):
        if not fit.n_done:
            signal.raise_signal(signal.SIGINT)
        step(fit, progress)

    monkeypatch.setattr(Fit, "_step", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        fit.run(100, 0.0, 1.0)
    assert fit.n_done == 1


def test_log_weights_leave_missing_entries_out():
    layers, noise, x, seen = small(2)
    means = walk(layers, noise)[1]
    logs = log_weights(layers.log_rho[H:], means, x, seen)
    x[seen == 0] = 17.0
    assert np.allclose(log_weights(layers.log_rho[H:], means, x, seen), logs)


def test_a_fit_finds_two_moons():
    """The estimated density rises well above that of the best Gaussian, −(1 + log 2π) plus its log determinant."""
    x = moons(np.random.default_rng(3), 500)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    gaussian = -1.0 - 0.5 * np.linalg.slogdet(np.cov(z.T))[1]  # without log 2π, as in `gradient`
    fit = Fit(np.random.default_rng(4), Points.of(z), layout_for(ChefsProcess(), 10, np.zeros(2)))
    fit.run(1500, 0.0, 1.0)
    assert fit.value > gaussian + 0.3


def test_a_start_keeps_the_data_and_puts_every_point_on_a_walk():
    rng = np.random.default_rng(5)
    layers, _, x, seen = small(5)
    x[seen == 0] = np.nan
    start = as_start(rng, layers, x, ALL)
    assert start.dag.n_hidden == H and start.dag.n_edges == H * (H - 1) // 2 + H * D
    assert np.isfinite(start.a).all() and np.array_equal(start.a[:D].T[seen == 1], x[seen == 1])
    assert np.allclose(start.rho, np.exp(np.concatenate([layers.log_rho[H:], layers.log_rho[:H]])))


@pytest.mark.parametrize("prior", [ChefsProcess(), IndianBuffet(), CascadingBuffet(), ExtendedBuffet()], ids=repr)
def test_every_prior_has_starts_that_it_could_draw(prior):
    """Edges from each unit to all that it may have as children; the weights of others stay 0 while it is fitted."""
    x = moons(np.random.default_rng(10), 100)
    kernel = NetworkKernel(prior, [0.0, 0.0], x - x.mean(axis=0), start=GradientStart(n_hidden=8, n_steps=30))
    start = kernel.start(np.random.default_rng(11), kernel.data, prior)
    assert np.isfinite(prior.log_prob(start.dag)) and np.isfinite(start.a).all()
    n_edges = {ChefsProcess: 28 + 16, IndianBuffet: 16, CascadingBuffet: 2 * 6 + 6 * 2, ExtendedBuffet: 2 * 6 + 8 * 2}
    assert start.dag.n_edges == n_edges[type(prior)]
    if n_edges[type(prior)] in (24, 28):
        assert np.bincount(layer(start.dag)).tolist() == [2, 6, 2]
    fit = Fit(np.random.default_rng(12), Points.of(kernel.data), layout_for(prior, 8, np.zeros(2)))
    begun = fit.layers.weights.copy()
    fit.run(5, 0.0, 1.0)
    assert np.array_equal(fit.layers.weights != begun, fit.layout.possible)
    chain = kernel.init(np.random.default_rng(13))
    for _ in range(3):
        chain, _ = kernel.step(np.random.default_rng(14), chain)
    assert np.isfinite(kernel.draw(chain).scalars["log_prob"])


def test_a_chain_begins_where_the_fit_ended_and_each_at_its_own():
    data = np.random.default_rng(6).normal(size=(60, 2))
    data[0, 1] = np.nan
    kernel = NetworkKernel(
        ChefsProcess(), [0.0, 0.0], data, start=GradientStart(n_hidden=(1, 3), n_steps=40, n_tries=2)
    )
    first, again, other = (kernel.init(np.random.default_rng(seed)).network for seed in (7, 7, 8))
    assert first.graph.size[0] == again.graph.size[0] in (3, 5)
    assert np.array_equal(first.a, again.a) and not np.array_equal(first.a, other.a)
    assert np.isfinite(first.a).all()
    _, info = kernel.step(np.random.default_rng(9), kernel.init(np.random.default_rng(7)))
    made = dict(zip(kernel.move_names, info.tally[:, 0].tolist(), strict=True))
    assert made.pop("birth") <= 1 and min(made.values()) > 0 and (info.seconds > 0).all()


def test_births_that_fit_are_tried_in_one_step_of_a_hundred():
    kernel = NetworkKernel(ChefsProcess(), [0.0], np.zeros((3, 1)), moves=("birth",))
    rng, tried = np.random.default_rng(10), []
    state = kernel.init(rng)
    for _ in range(5000):
        state, info = kernel.step(rng, state)
        tried.append(int(info.tally[0, 0]))
    assert set(tried) == {0, 1} and stats.binomtest(sum(tried), 5000, BIRTH_SHARE).pvalue > 1e-5


@pytest.mark.parametrize(
    ("sizes", "seconds", "trials"), [(2, 60, [5, 5, 5, 10, 10, 15]), ((2, 3), 120, 2 * [5, 5, 5, 10, 10, 15])]
)
def test_a_start_stops_when_its_time_is_up(monkeypatch, sizes, seconds, trials):
    """A clock that a look at moves on by a second: six tenths of the time is for three tries a size, the rest for one.

    Three tries make six runs: three, the better two, the best.
    """
    ticks = iter(range(1000))
    monkeypatch.setattr("chefs.network.start.time.monotonic", lambda: float(next(ticks)))
    steps = []
    run = Fit.run
    monkeypatch.setattr(Fit, "run", lambda self, *given: (run(self, *given), steps.append(self.n_done)))
    start = GradientStart(n_hidden=sizes, n_steps=1000, n_tries=3, seconds=seconds)
    start(np.random.default_rng(0), np.zeros((9, 2)))
    assert steps[:-1] == trials and steps[-1] > 15
    assert seconds <= next(ticks) <= seconds + 3


def test_the_better_half_of_the_tries_goes_on_and_of_these_the_better_half(monkeypatch):
    """Fits whose values are given: five, three, two are run, and the best of the last goes on to the end."""
    worth, made, runs = [3.0, 5.0, 1.0, 4.0, 2.0], [], []
    monkeypatch.setattr(Fit, "__init__", lambda self, *given: made.append(self))
    monkeypatch.setattr(
        Fit, "run", lambda self, of, first, last, *seconds: runs.append((made.index(self), first, last))
    )
    monkeypatch.setattr(Fit, "value", property(lambda self: worth[made.index(self)] if runs else -math.inf))
    best = GradientStart(n_hidden=2, n_steps=100, n_tries=5)._best_trial(None, Points.of(np.zeros((9, 2))), OF_SIZE[1])
    assert best is made[1]
    assert runs[:5] == [(number, 0.0, 0.1) for number in range(5)]
    assert runs[5:8] == [(number, 0.1, 0.2) for number in (1, 3, 0)]
    assert runs[8:] == [(number, 0.2, 0.3) for number in (1, 3)]


def correlated(rng, n):
    return rng.normal(size=(n, 2)) @ [[1.0, 0.8], [0.0, 0.6]]


@pytest.mark.parametrize(("data", "n_hidden"), [(correlated, 2), (pinwheel, 20)])
def test_a_start_is_as_small_as_the_data_allow(data, n_hidden):
    """More units bring a Gaussian nothing; the Pinwheel needs them: 0.02 and 0.4 nats a point over several seeds."""
    x = data(np.random.default_rng(15), 1000)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    start = GradientStart(n_hidden=(np.int64(2), 20), n_steps=4000)
    assert start(np.random.default_rng(16), z).dag.n_hidden == n_hidden


def test_more_units_must_be_worth_their_number(monkeypatch):
    few, more, most = (Fit(np.random.default_rng(17), Points.of(UNSEEN), layout) for layout in OF_SIZE)
    for gains, chosen in (((0, 0.9, 0.9), few), ((0, 1.1, 2.0), more), ((0, 0.9, 1.1), most), ((0, 1.1, 2.2), most)):
        density = {fit: WORTH * gain for fit, gain in zip((few, more, most), gains, strict=True)}
        monkeypatch.setattr(Fit, "density", lambda fit, known=density: known[fit])
        assert smallest_worth([few, more, most]) is chosen
        assert smallest_worth([few]) is few


def test_a_fit_without_a_number_is_not_the_best():
    fit = Fit(np.random.default_rng(17), Points.of(UNSEEN), OF_SIZE[0])
    assert fit.value == -math.inf  # no step yet
    fit.run(3, 0.0, 1.0)
    assert math.isfinite(fit.value)
    fit.running = fit.layers.bias[0] = np.nan
    assert fit.value == fit.density() == -math.inf


def test_a_chain_does_not_begin_at_a_fit_without_numbers():
    data = 1e25 * np.random.default_rng(0).normal(size=(30, 2))  # its squares are beyond single precision
    kernel = NetworkKernel(ChefsProcess(), np.zeros(2), data, start=GradientStart(2, 5))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="is not finite: scale the data"):
        kernel.init(np.random.default_rng(1))


def test_the_running_mean_forgets_its_beginning(monkeypatch):
    """Of values 1, 2, 3, … after n steps: their mean with weights 0.99ⁿ, …, 1."""
    fit = Fit(np.random.default_rng(17), Points.of(np.zeros((3, 2))), OF_SIZE[0])
    values = iter(range(1, 100))
    monkeypatch.setattr(SharedWalks, "slope", lambda *given: (fit.in_double, float(next(values))))
    fit.run(40, 0.0, 1.0)
    assert fit.value == pytest.approx(np.average(np.arange(1, 41), weights=0.99 ** np.arange(40)[::-1]))


@pytest.mark.parametrize("n", [2, 5003])
def test_density_of_a_fit_is_the_mean_over_walks(monkeypatch, n):
    """One unit between two columns: the mean of N(x; b + W σ(a), 1/ρ) over a, by quadrature; and missing entries."""
    x = np.random.default_rng(19).normal(size=(n, 2))
    x[1::2, 0] = np.nan
    fit = Fit(np.random.default_rng(18), Points.of(x), OF_SIZE[0])
    weights, bias, log_rho = (p.astype(float) for p in fit.layers)
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    means = bias[1:, None] + weights[1:] / (1 + np.exp(-(bias[0] + np.exp(-0.5 * log_rho[0]) * nodes)))
    rho = np.exp(log_rho[1:, None])
    scored = x[:: 1 if n == 2 else 3]  # 2000 points at most
    logs = 0.5 * np.log(rho) - 0.5 * rho * (scored[:, :, None] - means) ** 2
    exact, wrong = (
        np.log(np.exp(part).prod(axis=1) @ shares / shares.sum()).mean()
        for part in (np.nan_to_num(logs), np.nan_to_num(logs, nan=-0.5))
    )
    estimate = SharedWalks.log_densities
    monkeypatch.setattr(SharedWalks, "log_densities", lambda *given: estimate(*given, 20_000))
    assert fit.density() == pytest.approx(exact, abs=0.05)
    assert fit.density() != pytest.approx(wrong, abs=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: GradientStart(n_hidden=0), "n_hidden of the start must be a whole number, at least 1"),
        (lambda: GradientStart(n_hidden=(8, 4.5)), "n_hidden of the start must be a whole number, at least 1"),
        (lambda: GradientStart(n_hidden=()), "n_hidden of the start must grow from one to the next"),
        (lambda: GradientStart(n_hidden=(40, 8)), "n_hidden of the start must grow from one to the next"),
        (lambda: GradientStart(n_tries=0), "n_tries of the start must be a whole number, at least 1"),
        (lambda: GradientStart(n_steps=1.5), "n_steps of the start must be a whole number"),
        (lambda: GradientStart(seconds=0), "seconds of the start must be positive"),
        (lambda: kernel_with(observed=[1.0, 1.0]), "all at order 1 leave no place for a hidden unit"),
        (lambda: GradientStart(2)(None, np.zeros((5, 1)), orders=[1.0]), "at order 1 leave no place"),
        (lambda: GradientStart(2)(None, np.zeros((5, 2)), orders=[1.0]), "from 0 to 1 for each of the 2 columns"),
        (lambda: GradientStart(2)(None, np.zeros((5, 2)), orders=[1.0, math.nan]), "from 0 to 1 for each of the 2"),
        (lambda: GradientStart(2)(None, np.zeros((5, 2)), forbidden=[(0, 1)]), "a matrix of 2 × 2"),
        (lambda: GradientStart(2)(None, np.zeros((5, 2)), IndianBuffet(), [0.5, 0.0]), "IndianBuffet has all columns"),
        (lambda: GradientStart(2)(None, np.zeros((5, 2)), ExtendedBuffet(), [0.6, 0.6]), "ExtendedBuffet has all"),
        (lambda: kernel_with(max_hidden=3), "start has 40 hidden nodes where max_hidden is 3"),
        (lambda: kernel_with(start="gradient"), "start must be a Start, a GradientStart or None"),
        (lambda: kernel_with(moves=("edge", "jump")), "moves must be 'paper' or some of edge, birth"),
        (lambda: kernel_with(n_births=-1), "n_births must be a whole number, at least 0"),
        (lambda: kernel_with(most_leapfrogs=0), "most_leapfrogs must be a whole number, at least 1"),
        (lambda: NetworkKernel(ChefsProcess(), [0.0], np.zeros((0, 1))), "data must have at least one row"),
        (lambda: NetworkKernel(ChefsProcess(), [0.0], np.full((2, 1), np.inf)), "finite or nan"),
        (lambda: kernel_with(start=Start(LONE, np.zeros((2, 4)), np.ones(2))), "a column for each of the 5 points"),
        (lambda: kernel_with(start=Start(LONE, np.zeros((2, 5)), -np.ones(2))), "a positive precision"),
        (lambda: kernel_with(start=Start(LONE, np.zeros((2, 5)), np.full(2, np.inf))), "all finite"),
        (lambda: kernel_with(data=UNSEEN, start=Start(LONE, UNSEEN.T, np.ones(2))), "all finite"),
        (lambda: kernel_with(moves=()), "moves must be 'paper' or some of"),
    ],
)  # fmt: skip
def test_bad_starts_and_moves_are_one_sentence(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def kernel_with(prior=None, observed=(0.0, 0.0), data=None, start=None, **options):
    data = np.zeros((5, 2)) if data is None else data
    return NetworkKernel(prior or ChefsProcess(), observed, data, start=start or GradientStart(), **options)
