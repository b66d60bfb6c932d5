"""Baselines over many splits, and ratios to their mean."""

import json

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import cKDTree

from chefs import datasets, metrics
from chefs.experiments import baselines
from tests.test_table import result


def at_any_width(found):
    """Distances of 0.1 whatever the noise."""
    return {name: np.full((2, len(baselines.WIDTHS)), 0.1) for name in found}


def test_a_baseline_is_the_distance_of_the_halves_of_its_split():
    found = baselines.over_splits("iris", 3)
    assert len(found) == 3 and len(set(found)) == 3
    split = datasets.load("iris", baselines.FIRST + 1)
    rng = np.random.default_rng([baselines.FIRST + 1, 53])
    assert found[1] == metrics.hellinger(split.to_unit(split.train), split.to_unit(split.test), rng=rng).distance


def test_distances_are_divided_by_the_mean_of_all_baselines():
    results = [result("ring", "icp", seed, ratio) for seed, ratio in enumerate((1.0, 1.4))]
    results += [result("iris", "icp", 0, 1.5), result("ring", "mixture", 0, 1.6)]
    found = {"ring": np.array([0.05, 0.15, 0.16]), "iris": np.array([0.1, 0.1])}
    text = baselines.page(results, found, at_any_width(found))
    assert "| mean of all | 0.1200 ± 0.0351 | 0.1000 ± 0.0000 |" in text
    assert "| mean of the table's | 0.1000 | 0.1000 |" in text
    assert "| ICP | 1.00 | 1.50 |" in text  # (0.1 + 0.14) / 2 / 0.12
    assert "| Gaussian mixture | 1.33 |  |" in text
    assert "below the paper's on 1 of 2; not on iris (1.50, paper 1.38)" in text


def test_the_page_is_written_from_a_folder(tmp_path, capsys):
    (tmp_path / "table").mkdir()
    asked = ["--table", str(tmp_path / "table"), "--out", str(tmp_path / "page.md"), "--splits", "2"]
    with pytest.raises(SystemExit):
        baselines.main(asked)
    assert "make some with chefs reproduce table" in capsys.readouterr().err and not (tmp_path / "page.md").exists()
    (tmp_path / "table" / "geyser-icp-0.json").write_text(json.dumps(result("geyser", "icp", 0, 1.2)))
    baselines.main(asked)
    expected = baselines.over_splits("geyser", 2).mean()
    assert f"| ICP | {0.12 / expected:.2f} |" in (tmp_path / "page.md").read_text()


def test_other_wines_are_farther_than_the_training_half():
    """Repeated rows are what makes Wine's baseline small: wines that are not in the test half are farther from it."""
    others = np.array([baselines.from_other_wines(seed) for seed in range(3)])
    assert (others > 1.05 * baselines.over_splits("wine", 3).mean()).all()


def test_other_wines_are_none_of_the_test_half(monkeypatch):
    seen = []
    monkeypatch.setattr(
        baselines.metrics, "hellinger", lambda x, y, **_: seen.append((x, y)) or metrics.Hellinger(0, 0, 0)
    )
    baselines.from_other_wines(5)
    split = datasets.load("wine", 5)
    test = {tuple(row) for row in split.to_unit(split.test)}
    for points, against in seen:
        assert np.array_equal(against, split.to_unit(split.test)) and len(points) == 2000
        assert not test & {tuple(row) for row in points}
    as_they_come, once = (len(np.unique(points, axis=0)) for points, _ in seen)
    assert as_they_come < once == 2000


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.12, "Both are above the paper's 1.07"), (1.06, "Not both are clearly")]
)
def test_the_page_says_what_other_wines_reach(ratio, verdict):
    results = [result("wine", "icp", 0, 1.2)]
    found, noise = {"wine": np.array([0.1, 0.1])}, np.array([[-0.001, -0.001], [0.001, 0.001]])
    text = baselines.page(results, found, at_any_width(found), 0.1 * (ratio + noise))
    assert f"**{ratio:.3f}** (standard error 0.001)" in text and verdict in text
    assert "other wines" not in baselines.page(results, found, at_any_width(found))


def test_noise_leaves_mean_and_covariance_as_they_are():
    rng = np.random.default_rng(1)
    points = rng.exponential(size=(300, 2)) @ [[1.0, 0.9], [0.0, 0.2]]
    for width in (0.0, 0.5, 3.0):
        drawn = baselines.smoothed(rng, points, width, 50_000)
        assert np.allclose(drawn.mean(axis=0), points.mean(axis=0), atol=0.03)
        assert np.allclose(np.cov(drawn.T), np.cov(points.T, bias=True), rtol=0.05)
    without = baselines.smoothed(rng, points, 0.0, 50)
    assert np.allclose(np.abs(without[:, None] - points).sum(axis=2).min(axis=1), 0.0)  # each is one of the points
    skewness = [stats.skew(baselines.smoothed(rng, points, width, 50_000)[:, 0]) for width in (0.0, 3.0)]
    assert skewness[0] > 1.5 and abs(skewness[1]) < 0.1  # much noise makes a Gaussian of them


def test_the_page_says_where_memory_with_noise_is_above_the_paper():
    results = [result(name, "icp", 0, 1.2) for name in ("cloud", "ring")]
    found = {"cloud": np.array([0.1, 0.1]), "ring": np.array([0.1, 0.1])}
    widths = 0.1 * np.array([1.3, 1.2, 1.25, 1.3, 1.4, 1.5])
    text = baselines.page(results, found, {name: np.stack([widths - 0.001, widths + 0.001]) for name in found})
    assert "| 0.05 | 1.200 ± 0.010 | 1.200 ± 0.010 |" in text
    assert "is above\nthe paper's on: cloud (1.200 ± 0.010, paper 1.15)." in text
    text = baselines.page(results, found, {name: np.stack([widths - 0.007, widths + 0.007]) for name in found})
    assert "paper's on: cloud (1.200 ± 0.070, paper 1.15, not clearly)." in text
    assert "paper's on: none." in baselines.page(results, found, at_any_width(found))


def test_points_with_noise_are_of_the_training_half_and_far_from_the_test_half(monkeypatch):
    seen, measure = [], metrics.hellinger
    monkeypatch.setattr(baselines.metrics, "hellinger", lambda x, y, **kw: seen.append((x, y)) or measure(x, y, **kw))
    distances = baselines.from_smoothed("pinwheel", 3)
    split = datasets.load("pinwheel", 3)
    train = split.to_unit(split.train)
    assert all(np.array_equal(y, split.to_unit(split.test)) for _, y in seen)
    away = [cKDTree(train).query(x)[0].mean() for x, _ in seen]
    assert away[0] < 1e-12 and (np.diff(away) > 0).all()  # widths grow
    assert len(distances) == len(baselines.WIDTHS) and distances[-1] > 2 * distances[0]


def test_every_data_set_has_its_own_row_of_distances(monkeypatch, tmp_path):
    """Each distance says of which data set and split it is."""
    numbers = {"iris": 1.0, "geyser": 2.0, "wine": 3.0}
    monkeypatch.setattr(
        baselines, "from_smoothed", lambda name, seed: numbers[name] + seed - baselines.FIRST + np.zeros(6)
    )
    monkeypatch.setattr(baselines, "from_other_wines", lambda seed: (30.0 + seed - baselines.FIRST, 40.0))
    monkeypatch.setattr(baselines, "_of_split", lambda name, seed: 1.0)
    seen = []
    monkeypatch.setattr(baselines, "page", lambda *given: seen.append(given) or "")
    for name in numbers:
        (tmp_path / f"{name}-icp-0.json").write_text(json.dumps(result(name, "icp", 0, 1.2)))
    baselines.main(["--table", str(tmp_path), "--out", str(tmp_path / "page.md"), "--splits", "2"])
    _, _, noisy, wines = seen[0]
    assert {name: each[:, 0].tolist() for name, each in noisy.items()} == {n: [v, v + 1] for n, v in numbers.items()}
    assert wines.tolist() == [[30.0, 40.0], [31.0, 40.0]]
