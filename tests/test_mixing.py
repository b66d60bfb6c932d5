"""What the mixing experiment measures, on points whose measures are known."""

import numpy as np
import pytest
from scipy import stats

from chefs import Draw, datasets
from chefs.experiments import baselines, mixing, mixing_report
from tests.networks import one_unit, posterior


def test_points_drawn_again_carry_the_noise_of_one_more_sample(monkeypatch):
    """Two samples differ by the noise of both; a sample of a sample from a third by that of three: √1.5 times."""
    whole = baselines.over_splits
    monkeypatch.setattr(baselines, "over_splits", lambda name: whole(name, 50))
    monkeypatch.setattr(mixing, "N_SETS", 10)
    monkeypatch.setattr(mixing, "N_FRESH", 40)
    found = [mixing.without_chains("moons", variant, 5) for variant in ("truth", "bootstrap")]
    assert [result["variant"] for result in found] == ["truth", "bootstrap"]
    assert found[0]["baseline"] == pytest.approx(found[1]["baseline"])
    assert 0.7 < found[0]["ratio"][0] < 1.4
    assert 1.1 < found[1]["ratio"][0] < 1.35
    assert found[0]["fresh_ratio"][0] == pytest.approx(1.0, abs=0.12)  # the luck of the split's test set is gone
    assert found[1]["fresh_ratio"][0] == pytest.approx(1.5**0.5, abs=0.15)
    lines = mixing_report.summary(found).splitlines()
    assert len(lines) == 4 and "| moons | bootstrap | 1 | - |" in lines[3]


def test_only_toys_have_fresh_test_sets():
    iris = datasets.load("iris", 0)
    assert np.isnan(mixing.from_fresh(iris, 0, [iris.train], 2)) and mixing.without_luck(iris, [0.2]) == {}
    line = mixing_report.summary([{**mixing.without_chains("iris", "bootstrap", 0)}]).splitlines()[-1]
    assert line.split("|")[8].strip() == "-"


def test_what_pools_have_is_a_table_of_its_own():
    """Of fits that have it: means over seeds, and fits with other numbers of chains apart."""
    pools = [[(1, 2.5, 0.5, 2.0), (2, 1.5, 0.5, 1.0)], [(1, 1.0, 0.0, 1.0), (2, 0.5, 0.0, 0.5)], [(1, 0.0, 0.0, 0.0)]]
    results = [
        {
            **{"data": "ring", "variant": "ours", "training_error": 2.0},
            "pools": [dict(zip(("n_chains", "total", "taken", "rest"), pool, strict=True)) for pool in of_seed],
        }
        for of_seed in pools
    ]
    line, other = mixing_report.pooled_lines([*results, {"data": "iris", "variant": "ours"}])[3:]
    assert other.startswith("| ring | ours | 1 |")
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    follows = [np.sqrt(1.75), np.sqrt(1.25)]
    assert cells[:7] == ["ring", "ours", "2", "2.00 ± 0.00", "0.25 ± 0.35", "1.50", "2: 0.75"]
    assert cells[7].startswith(f"{np.mean(follows):.2f} ±") and cells[8] == f"{np.sqrt(1 + (0.25 + 1.5) / 4):.2f}"
    assert mixing_report.pooled_lines([{"data": "iris", "variant": "ours"}]) == []


def test_stray_points_are_those_where_the_law_has_none():
    """One fresh point in a thousand; a point in the middle of the Ring is one of them."""
    fresh = np.concatenate([datasets.load("ring", 700 + s).train for s in range(10)])
    assert mixing.stray("ring", fresh) == pytest.approx(0.001, abs=0.0009)
    assert mixing.stray("ring", np.concatenate([fresh[:900], np.full((100, 2), 0.5)])) == pytest.approx(0.1, abs=0.005)


def test_arms_of_the_pinwheel():
    """Equal masses; turned by half the angle between two arms, or drawn evenly, points lie between them."""
    points = datasets.load("pinwheel", 0).train
    *masses, off = mixing.arms(points)
    assert np.allclose(masses, 0.2, atol=0.04) and off < 0.02
    angle = np.pi / 5
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    assert mixing.arms(0.5 + (points - 0.5) @ turn.T)[5] > 0.9
    even = np.random.default_rng(0).uniform(0, 1, (5000, 2))
    assert mixing.arms(even)[5] == pytest.approx(0.3, abs=0.03)


def test_fantasies_are_those_of_the_second_half():
    made = [(1.0, np.zeros((4, 2)))] + [(when, np.full((2, 2), when)) for when in (2.0, 3.0, 4.0, 5.0)]
    assert set(mixing.pooled_up_to(made, 5.0)[:, 0]) == {3.0, 4.0, 5.0}
    assert set(mixing.pooled_up_to(made, 3.0)[:, 0]) == {2.0, 3.0}
    assert mixing.pooled_up_to(made, 1.5).tolist() == made[0][1].tolist()  # nothing but the start yet
    assert mixing.pooled_up_to(made, 0.5).shape == (0, 2)


def test_held_out_density_is_that_of_the_network():
    rng = np.random.default_rng(1)
    test = rng.normal(size=(mixing.N_SCORED, 2))
    numbers = {"bias": np.array([0.3, -0.2]), "precision": np.array([2.0, 0.5])}
    none = np.empty(0, dtype=np.int32)
    alone = Draw(np.zeros(2), none, none, {}, numbers, {"weight": np.empty(0)})
    truth = stats.norm.logpdf(test, numbers["bias"], numbers["precision"] ** -0.5).sum(axis=1).mean()
    assert mixing.held_out(rng, alone, test) == pytest.approx(truth)
    draw = one_unit(rng, 2)
    truth = np.mean([posterior(draw, row)[0] for row in test])
    assert mixing.held_out(rng, draw, test) == pytest.approx(truth, abs=0.05)


def test_fits_made_with_other_settings_are_named(tmp_path, monkeypatch, capsys):
    made = []

    def fit(name, variant, seed, n_chains, seconds, n_jobs):
        made.append((name, variant, seed))
        sizes = {"n_sets": mixing.N_SETS, "n_fresh": mixing.N_FRESH}
        return {"chains": n_chains, "seconds": [seconds / 2, seconds], "ratio": [1.0], **sizes}

    monkeypatch.setattr(mixing, "fit", fit)
    monkeypatch.setattr(mixing, "summary", str)
    monkeypatch.setattr(mixing, "curves", lambda results: None)
    monkeypatch.setattr(mixing, "rendered", lambda figure, suffix: b"")
    given = ["--out", str(tmp_path), "--datasets", "ring", "--variants", "paper from our start", "--seeds", "2"]
    for seconds, n_named in (("3", 0), ("3", 0), ("4", 2)):
        mixing.main([*given, "--seconds", seconds])
        assert capsys.readouterr().out.count("was made with 6 chains of 3 s, ") == n_named
    path = tmp_path / "ring-bootstrap-0.json"  # one of the first results, which do not say how many sets
    path.write_text('{"chains": 0, "seconds": [0.0]}')
    mixing.main([*given[:4], "--variants", "bootstrap", "--seeds", "1"])
    named = "was made with 10 sets of fantasies and 40 fresh test sets and stays as it is"
    assert named in capsys.readouterr().out and path.read_text().startswith('{"chains": 0,')
    assert made == [("ring", "paper from our start", seed) for seed in range(2)]
