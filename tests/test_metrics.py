"""The Hellinger distance: exact values, the correction for size, symmetry, invariance, bad input."""

import math

import numpy as np
import pytest
from benchmarks import metrics as bench
from scipy import stats

from chefs import metrics
from chefs.metrics import Hellinger, hellinger
from tests.helpers import refused
from tests.stats import check, check_caught, same_p_value, z_p_value

BOTH = pytest.mark.parametrize("covariance", ["diagonal", "full"])
SKEW = np.array([[1.0, 0.0], [0.8, 0.6]])  # unit variances, correlation 0.8


def correlated(rng, n, shift=0.0):
    return rng.normal(size=(n, 2)) @ SKEW.T + shift


def product_density(sample, factor):
    """A kernel density with one bandwidth a column, written out."""
    width = factor * sample.std(axis=0, ddof=1)
    return lambda at: np.mean([np.prod(stats.norm.pdf(at, centre, width), axis=1) for centre in sample], axis=0)


def scipy_density(sample, factor):
    density = stats.gaussian_kde(sample.T, bw_method=factor)
    return lambda at: density(at.T)


DENSITIES = {"diagonal": product_density, "full": scipy_density}


def exact_square(x, y, covariance, stretch=1.0):
    """HD² between the two density estimates, by quadrature on a grid."""
    d = x.shape[1]
    p, q = (DENSITIES[covariance](z, stretch * len(z) ** (-1 / (d + 4))) for z in (x, y))
    axis = np.linspace(-8, 8, 161)
    grid = np.stack([side.ravel() for side in np.meshgrid(*[axis] * d)], axis=1)
    return 1 - np.sqrt(p(grid) * q(grid)).sum() * (axis[1] - axis[0]) ** d


@BOTH
@pytest.mark.parametrize("d", [1, 2])
def test_distance_is_that_of_the_density_estimates(covariance, d):
    """Errors in units of the standard error follow N(0, 1), whatever the generator."""
    rng = np.random.default_rng(d)
    x, y = correlated(rng, 40)[:, :d], (0.7 * rng.normal(size=(12, 2)) + 0.5)[:, :d]
    runs = [hellinger(x, y, covariance=covariance, n_points=10_000, n_resplits=0, rng=rng) for _ in range(200)]
    squares = np.array([run.distance**2 for run in runs])
    errors = np.array([2 * run.distance * run.standard_error for run in runs])

    def p_values(truth, errors=errors):
        return {"distance": stats.kstest((squares - truth) / errors, "norm").pvalue}

    truth = exact_square(x, y, covariance)
    check(p_values(truth))
    check_caught(p_values(exact_square(x, y, covariance, stretch=1.1)))
    check_caught(p_values(truth, errors=2 * errors))


def smoothed(n, d, first, second):
    """The distance of two Gaussians (mean, covariance) that are widened as kernels of Scott's bandwidth widen them."""
    (m, s), (k, t) = first, second
    widen = 1 + n ** (-2 / (d + 4))
    s, t = widen * np.asarray(s), widen * np.asarray(t)
    half = (s + t) / 2
    shift = np.subtract(m, k)
    log_overlap = -shift @ np.linalg.solve(half, shift) / 8 + 0.25 * (
        np.linalg.slogdet(s)[1] + np.linalg.slogdet(t)[1] - 2 * np.linalg.slogdet(half)[1]
    )
    return math.sqrt(1 - math.exp(log_overlap))


GAUSSIANS = {
    "shifted": ((np.zeros(2), np.eye(2)), (np.ones(2), np.eye(2))),
    "wider": ((np.zeros(2), np.eye(2)), (np.zeros(2), 4 * np.eye(2))),
    "dependent": ((np.zeros(2), np.eye(2)), (np.zeros(2), SKEW @ SKEW.T)),
    "line": ((np.zeros(1), np.eye(1)), (np.ones(1), 2 * np.eye(1))),
}


@pytest.mark.parametrize("name", GAUSSIANS)
def test_known_distances_of_gaussians(name):
    """Corrected distances of 2000 points are within 0.01 of the widened Gaussians', and near those of the Gaussians."""
    first, second = GAUSSIANS[name]
    rng, d, n = np.random.default_rng(7), len(first[0]), 2000
    found = [
        hellinger(
            rng.multivariate_normal(*first, n), rng.multivariate_normal(*second, n), covariance="full", n_resplits=2
        ).corrected
        for _ in range(8)
    ]
    assert abs(np.mean(found) - smoothed(n, d, first, second)) < 0.01
    assert abs(np.mean(found) - smoothed(math.inf, d, first, second)) < 0.03


def test_more_points_come_closer_to_the_known_distance():
    (m, s), (k, t) = GAUSSIANS["line"]
    rng, truth = np.random.default_rng(3), smoothed(math.inf, 1, (m, s), (k, t))

    def error(n):
        pairs = [(rng.multivariate_normal(m, s, n), rng.multivariate_normal(k, t, n)) for _ in range(10)]
        return abs(np.mean([hellinger(x, y, n_resplits=2).corrected for x, y in pairs]) - truth)

    assert error(2000) < 0.5 * error(100)


def test_only_the_full_kernel_sees_dependence():
    rng = np.random.default_rng(2)
    x, y = correlated(rng, 300), rng.normal(size=(300, 2))
    diagonal, full = (hellinger(x, y, covariance=kind).corrected for kind in ("diagonal", "full"))
    assert full > 1.2 * diagonal


class TestCorrection:
    """Two samples of one law are apart as two halves of the pooled sample are."""

    @staticmethod
    def runs(covariance, shift=0.0, sizes=(60, 60), n_resplits=1, n_runs=250):
        rng = np.random.default_rng(11)
        return [
            hellinger(
                correlated(rng, sizes[0]),
                correlated(rng, sizes[1], shift),
                covariance=covariance,
                n_points=400,
                n_resplits=n_resplits,
                rng=rng,
            )
            for _ in range(n_runs)
        ]

    @staticmethod
    def p_values(runs):
        squares, floors = np.array([run.distance**2 for run in runs]), np.array([run.floor for run in runs])
        corrected = np.array([run.corrected_square for run in runs])
        return {
            "law": same_p_value(squares, floors),
            "sign": stats.binomtest(int((corrected > 0).sum()), len(runs)).pvalue,
            "mean": z_p_value(corrected.mean(), 0.0, corrected.std() / math.sqrt(len(runs))),
        }

    @BOTH
    @pytest.mark.parametrize("sizes", [(60, 60), (40, 90)], ids=str)
    def test_equal_laws(self, covariance, sizes):
        check(self.p_values(self.runs(covariance, sizes=sizes)))

    def test_mean_of_the_corrected_square_is_zero(self):
        """With the usual five re-splits, and without the cut; with it the mean is not zero, nor is that of HD²."""

        def p_value(values):
            return {"mean": z_p_value(np.mean(values), 0.0, np.std(values) / math.sqrt(len(values)))}

        runs = self.runs("diagonal", n_resplits=5)
        check(p_value([run.corrected_square for run in runs]))
        check_caught(p_value([run.corrected**2 for run in runs]))
        check_caught(p_value([run.distance**2 for run in runs]))

    def test_other_laws_and_other_sizes_are_caught(self):
        runs = self.runs("diagonal")
        check_caught(self.p_values(self.runs("diagonal", shift=0.4)))
        halves = self.runs("diagonal", sizes=(30, 30))
        check_caught(self.p_values([run._replace(floor=half.floor) for run, half in zip(runs, halves, strict=True)]))

    def test_resplits_use_every_point_once(self):
        rng = np.random.default_rng(12)
        a, b = rng.normal(size=(8, 2)), rng.normal(size=(5, 2))
        first, second = metrics._resplit(rng, a, b, "diagonal")
        assert (len(first), len(second)) == (8, 5)
        assert sorted([*first.tolist(), *second.tolist()]) == sorted([*a.tolist(), *b.tolist()])

    def test_formula(self):
        result = Hellinger(distance=0.5, standard_error=0.01, floor=0.1)
        assert result.corrected_square == pytest.approx(0.15 / 0.9)
        assert result.corrected == pytest.approx(math.sqrt(0.15 / 0.9))
        assert result._replace(distance=0.1).corrected_square < 0
        assert result._replace(distance=0.1).corrected == 0.0

    def test_no_resplits_no_correction(self):
        rng = np.random.default_rng(0)
        result = hellinger(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)), n_resplits=0)
        assert math.isnan(result.floor) and math.isnan(result.corrected_square) and math.isnan(result.corrected)

    def test_nearly_constant_columns(self):
        """Half of the re-splits leave one half without the odd rows: they are drawn again."""
        rng = np.random.default_rng(5)
        x, y = rng.normal(size=(2, 40, 2))
        x[:, 1] = y[:, 1] = 0.5
        x[0, 1] = y[0, 1] = 1.0
        result = hellinger(x, y, n_resplits=20)
        assert 0 < result.floor < 1

    def test_too_many_nearly_constant_columns(self):
        x, y = np.zeros((2, 40, 30))
        x[range(30), range(30)] = y[range(30), range(30)] = 1.0
        with refused("x and y", "drop"):
            hellinger(x, y)


@BOTH
@pytest.mark.parametrize("sizes", [(50, 50), (40, 70)], ids=str)
def test_order_of_the_samples_does_not_matter(covariance, sizes):
    rng = np.random.default_rng(4)
    x, y = (rng.normal(size=(n, 3)) for n in sizes)
    assert hellinger(x, y, covariance=covariance) == hellinger(y, x, covariance=covariance)


@BOTH
def test_scale_and_origin_of_columns_do_not_matter(covariance):
    rng = np.random.default_rng(5)
    x, y = correlated(rng, 80), correlated(rng, 80, 0.3)
    plain = hellinger(x, y, covariance=covariance)
    for scale, origin in [((1e-3, 50.0), (7.0, -1e3)), ((1e-200, 1e200), (0.0, 0.0)), ((1e307, 1.0), (0.0, 0.0))]:
        moved = hellinger(x * scale + origin, y * scale + origin, covariance=covariance)
        assert moved == pytest.approx(plain, rel=1e-6)
    assert hellinger(x, y * 2, covariance=covariance).distance > 1.2 * plain.distance


def test_full_kernel_does_not_see_affine_maps():
    """In law for turns (the random numbers meet other axes), exactly for lower triangular maps."""
    rng = np.random.default_rng(6)
    x, y = correlated(rng, 80), correlated(rng, 80, 0.3)
    shear = np.array([[2.0, 0.0], [-1.0, 0.5]])
    turn = np.array([[math.cos(1), -math.sin(1)], [math.sin(1), math.cos(1)]]) @ np.diag([3.0, 0.2])

    def mapped(matrix, covariance, n_points=4000):
        pair = (z @ matrix.T + (1.0, -2.0) for z in (x, y))
        return hellinger(*pair, covariance=covariance, n_points=n_points, n_resplits=0)

    assert mapped(shear, "full").distance == pytest.approx(mapped(np.eye(2), "full").distance, rel=1e-6)

    def p_value(covariance):
        a, b = (mapped(matrix, covariance, 100_000) for matrix in (np.eye(2), turn))
        return {"turn": z_p_value(a.distance, b.distance, math.hypot(a.standard_error, b.standard_error))}

    check(p_value("full"))
    check_caught(p_value("diagonal"))


def test_the_same_samples_give_the_same_number():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(2, 30, 2))
    assert hellinger(x, y) == hellinger(x.tolist(), y.tolist())
    assert hellinger(x, y, rng=rng) != hellinger(x, y, rng=rng)


@BOTH
def test_extremes(covariance):
    x = np.random.default_rng(9).normal(size=(50, 2))
    assert hellinger(x, x, covariance=covariance)[:2] == (0.0, 0.0)
    apart = hellinger(x, x + 1e6, covariance=covariance)
    assert apart.distance == pytest.approx(1.0)
    assert apart.corrected == pytest.approx(1.0)


GOOD = np.random.default_rng(10).normal(size=(20, 3))
FLAT = GOOD * (1, 0, 1)
BAD = {
    "different columns": ((GOOD, GOOD[:, :2]), {}, ("x", "y", "3", "2")),
    "nan": ((GOOD, np.where(GOOD > 1, np.nan, GOOD)), {}, ("y", "missing")),
    "infinite": ((GOOD * (1, np.inf, 1), GOOD), {}, ("x", "infinite")),
    "too few": ((GOOD[:4], GOOD), {}, ("x", "4 points", "5")),
    "empty": ((GOOD, GOOD[:0]), {}, ("y", "0 points")),
    "one dimension": ((GOOD[:, 0], GOOD), {}, ("x", "two dimensions")),
    "no columns": ((GOOD[:, :0], GOOD), {}, ("x", "two dimensions")),
    "ragged": (([[1.0], [1.0, 2.0]], GOOD), {}, ("x", "one length")),
    "constant column": ((GOOD, FLAT), {}, ("y", "column 1", "drop")),
    "constant column, full": ((FLAT, GOOD), {"covariance": "full"}, ("x", "column 1", "drop")),
    "collinear": ((GOOD @ np.diag([1, 1, 0]) + GOOD[:, :1], GOOD), {"covariance": "full"}, ("x", "diagonal")),
    "covariance": ((GOOD, GOOD), {"covariance": "tied"}, ("covariance", "tied")),
    "points": ((GOOD, GOOD), {"n_points": 3}, ("n_points", "3")),
    "half a point": ((GOOD, GOOD), {"n_points": 10.5}, ("n_points", "10.5")),
    "resplits": ((GOOD, GOOD), {"n_resplits": -1}, ("n_resplits", "-1")),
    "true resplits": ((GOOD, GOOD), {"n_resplits": True}, ("n_resplits", "True")),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    samples, options, names = BAD[case]
    with refused(*names):
        hellinger(*samples, **options)


@pytest.mark.parametrize(
    "sample", [GOOD.astype(str), GOOD.astype(complex), "a sample", [["a", "b"]], None, GOOD.astype(object)], ids=repr
)
def test_what_is_not_numbers(sample):
    with refused("y", "numbers", error=TypeError):
        hellinger(GOOD, sample)


def test_not_a_generator():
    with refused("rng", error=TypeError):
        hellinger(GOOD, GOOD, rng=0)


def test_collinear_columns_are_no_matter_to_the_diagonal_kernel():
    twice = np.column_stack([GOOD, 2 * GOOD[:, 0]])
    assert 0 < hellinger(twice, twice + 0.1).distance < 1


def test_blocks_cover_every_point(monkeypatch):
    """Densities do not depend on how many points are taken at a time."""
    whole = hellinger(GOOD, GOOD + 0.5, n_points=150)
    monkeypatch.setattr(metrics, "BLOCK", 7)
    assert hellinger(GOOD, GOOD + 0.5, n_points=150) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("covariance", "kernels"), [("diagonal", bench.scikit_learn_kernels), ("full", bench.scipy_kernels)]
)
def test_the_benchmarks_twin_is_the_same_estimate(covariance, kernels):
    """And with the other kernels it would not be."""
    rng = np.random.default_rng(40)
    x, y = correlated(rng, 400), correlated(rng, 400, shift=0.4)
    ours = [hellinger(x, y, covariance=covariance, n_resplits=0, rng=rng).distance for _ in range(20)]
    twin = [bench.twin(rng, x, y, kernels, covariance) for _ in range(20)]
    other = "full" if covariance == "diagonal" else "diagonal"
    wrong = [hellinger(x, y, covariance=other, n_resplits=0, rng=rng).distance for _ in range(20)]
    check({"mean": same_p_value(ours, twin)})
    check_caught({"mean": same_p_value(wrong, twin)})
