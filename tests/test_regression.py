"""The experiment with regressions: its data, what it measures, and that a run is kept."""

import json
from pathlib import Path

import numpy as np
import pytest

from chefs.experiments import regression
from chefs.experiments.regression import MADE, MODELS, Prediction, normal, split_of, summary

RESULTS = Path(__file__).parent.parent / "docs" / "results"


@pytest.mark.parametrize("name", MADE)
def test_splits_are_standardised_by_the_training_half_and_repeat_themselves(name):
    split, again, other = split_of(name, 0), split_of(name, 0), split_of(name, 1)
    assert np.allclose(split.x.mean(axis=0), 0) and np.allclose(split.x.std(axis=0), 1)
    assert split.y.mean() == pytest.approx(0) and split.y.std() == pytest.approx(1)
    assert abs(split.new_y.mean()) > 1e-6 and len(split.new_y) == regression.N_POINTS
    assert np.array_equal(split.new_y, again.new_y) and not np.array_equal(split.new_y, other.new_y)


def test_outputs_are_the_functions_with_their_noise():
    rng = np.random.default_rng(3)
    mean = {
        "valley": lambda x: x[:, 0] ** 2 - 1 + 0.5 * x[:, 1],
        "product": lambda x: x[:, 0] * x[:, 1],
        "friedman": lambda x: (
            10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
        ),
    }
    for name, noise in (("valley", 0.2), ("product", 0.2), ("friedman", 1.0)):
        x, y = MADE[name](rng, 20_000)
        assert (y - mean[name](x)).std() == pytest.approx(noise, rel=0.03)


def test_no_row_of_a_table_is_in_both_halves():
    split = split_of("wine", 0)
    assert split.x.shape == (1000, 11)
    assert not {tuple(row) for row in split.x} & {tuple(row) for row in split.new_x}


def test_a_normal_prediction_has_its_density():
    y = np.array([0.3, -1.0])
    found = normal((np.array([0.0, 1.0]), np.array([1.0, 2.0])), y).log_density
    assert np.allclose(found, [-0.5 * 0.09 - 0.5 * np.log(2 * np.pi), -0.5 - np.log(2) - 0.5 * np.log(2 * np.pi)])


def test_errors_are_shares_of_the_deviation_of_the_outputs(monkeypatch, tmp_path):
    monkeypatch.setitem(MODELS, "linear", lambda split, seed: Prediction(np.full(1000, split.new_y.mean()), None))
    regression.made(tmp_path / "one.json", "product", "linear", 0)
    assert json.loads((tmp_path / "one.json").read_text())["rmse"] == pytest.approx(1.0)


def test_a_run_is_kept_and_not_made_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(regression, "N_POINTS", 60)
    arguments = ["--out", str(tmp_path), "--datasets", "valley", "--seeds", "2"]
    arguments += ["--models", "linear,Gaussian process,forest,perceptron"]
    regression.main(arguments)
    files = {path: path.read_bytes() for path in tmp_path.glob("*.json")}
    assert len(files) == 8 and "valley-Gaussian-process-0.json" in {path.name for path in files}
    assert len((tmp_path / "summary.md").read_text().splitlines()) == 2 + 4
    capsys.readouterr()
    regression.main(arguments)
    assert capsys.readouterr().out == "" and all(path.read_bytes() == was for path, was in files.items())


def test_the_network_is_one_of_the_models(monkeypatch):
    """A short chain from the fit already follows the curve, where a linear model cannot."""
    monkeypatch.setattr(regression, "N_POINTS", 200)
    monkeypatch.setattr(regression, "STEPS", 20)
    split = split_of("valley", 0)
    found = MODELS["network"](split, 0)
    error = (found.mean - split.new_y).std() / split.new_y.std()
    assert error < 0.5 < (MODELS["linear"](split, 0).mean - split.new_y).std() / split.new_y.std()
    assert found.log_density is not None and found.log_density.shape == (200,)


@pytest.mark.parametrize("option", ["datasets", "models"])
def test_unknown_names_are_one_sentence(option, tmp_path):
    with pytest.raises(ValueError, match=f"{option} has '.*': choose among"):
        regression.main(["--out", str(tmp_path / "new"), f"--{option}", "linear,nonsense"])
    assert not (tmp_path / "new").exists()


def test_the_page_has_the_table_of_the_results():
    results = [json.loads(path.read_text()) for path in sorted((RESULTS / "regression").glob("*.json"))]
    assert results and summary(results) in (RESULTS / "regression.md").read_text()
