"""What the experiment with a teacher measures, on a teacher that is made by hand."""

import json

import numpy as np
import pytest

from chefs.draws import Draw
from chefs.experiments import teacher
from chefs.network.start import GradientStart

UNIT = Draw(
    np.array([0.0, 0.0, 0.5]),
    np.array([2, 2]),
    np.array([0, 1]),
    node={"bias": np.array([1.0, -3.0, 0.2]), "precision": np.array([25.0, 4.0, 0.1])},
    edge={"weight": np.array([4.0, -7.0])},
)


def test_a_start_at_the_teacher_is_the_teacher_on_the_scale_of_its_points():
    table, start = teacher.split(UNIT, 0, 3)
    assert table.train.shape == table.test.shape == (teacher.N_POINTS, 2)
    assert np.allclose(start.a[:2].mean(axis=1), 0) and np.allclose(start.a[:2].std(axis=1), 1)
    assert start.dag.edges.tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 0]] and start.dag.n_observed == 2
    u = 1 / (1 + np.exp(-start.a[2]))
    for i in range(2):  # what the unit leaves of a standardised column has the precision of the start
        rest = start.a[i] - np.polyval(np.polyfit(u, start.a[i], 1), u)
        assert 1 / rest.var() == pytest.approx(start.rho[i], rel=0.1)
    assert start.a[2].std() == pytest.approx(0.1**-0.5, rel=0.1) and start.rho[2] == 0.1
    again, other = teacher.split(UNIT, 0, 3)[0], teacher.split(UNIT, 0, 4)[0]
    assert np.array_equal(again.train, table.train) and not np.array_equal(other.train, table.train)


def test_truth_has_a_ratio_of_one_and_the_training_points_drawn_again_one_above(monkeypatch):
    monkeypatch.setattr(teacher, "N_FRESH", 10)
    expected = np.mean([teacher.baseline(UNIT, number) for number in range(10)])
    found = {
        variant: np.mean([teacher.fit(UNIT, variant, seed, 0, 0.0, 1)["distance"] for seed in range(2)]) / expected
        for variant in ("truth", "bootstrap")
    }
    assert found["truth"] == pytest.approx(1.0, abs=0.1)
    assert 1.1 < found["bootstrap"] < 1.4


def test_a_small_run_is_kept_and_not_made_again(tmp_path, monkeypatch, capsys):
    starts, follow = [], teacher.follow
    monkeypatch.setattr(
        teacher, "follow", lambda kernel, *given: (starts.append(kernel.start), follow(kernel, *given))[1]
    )
    monkeypatch.setattr(teacher, "taught", lambda name: UNIT)
    monkeypatch.setattr(teacher, "N_FRESH", 2)
    given = ["--out", str(tmp_path), "--datasets", "ring", "--variants", "from the teacher", "--seeds", "1"]
    given += ["--chains", "1", "--seconds", "1", "--jobs", "1", "--baselines", "2"]
    teacher.main(given)
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()
    result = json.loads(before)
    assert path.name == "ring-from-the-teacher-0.json" and len(result["runs"]) == len(starts) == 1
    assert np.array_equal(starts[0].a, teacher.split(UNIT, 0, 0)[1].a)
    assert 0.7 < result["fresh_ratio"] < 2
    capsys.readouterr()
    monkeypatch.setattr(teacher, "taught", None)  # it is not asked again
    teacher.main(given)
    assert path.read_bytes() == before
    out = capsys.readouterr().out
    assert "stays as it is" not in out and out.splitlines()[-1].startswith("| ring | from the teacher | 1 | ")
    teacher.main([*given, "--chains", "2"])
    assert "'chains': 1, 'seconds': 1.0, 'baselines': 2} and stays as it is" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        teacher.main([*given, "--variants", "from teacher"])
    assert "there is no variant 'from teacher': choose from from the teacher, ours" in capsys.readouterr().err


def test_chains_that_had_no_time_are_said_so(monkeypatch):
    monkeypatch.setattr(teacher, "GradientStart", lambda: GradientStart(3, 300))
    with pytest.raises(ValueError, match="were not enough for the start of any chain: give more --seconds"):
        teacher.fit(UNIT, "ours", 0, 1, 0.01, 1)
