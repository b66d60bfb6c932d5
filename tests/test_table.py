import copy
import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chefs import SigmoidNetwork, datasets
from chefs.experiments import alternatives, fantasy, table, table_report, table_statements, table_values
from tests.helpers import refused

QUICK = {"draws": 4, "warmup": 3, "start": "empty", "chains": 2, "n_sets": 2, "n_jobs": 1}


@pytest.fixture
def small(monkeypatch):
    """Data sets of 60 and 60 rows, and short chains."""

    def load(data, seed):
        whole = real(data, seed)
        return replace(whole, train=whole.train[:60], test=whole.test[:60])

    real = table.load
    monkeypatch.setattr(table, "load", load)


def result(data, model, seed, ratio, score=-1.0, part=None):
    """A result as a fit would have written it."""
    kernel = {
        "distance": [0.1 * ratio, 0.01],
        "corrected": [0.05, 0.01],
        "baseline_distance": [0.1, 0.001],
        "baseline_corrected": [0.0, 0.0],
        "ratio": ratio,
    }
    logs = {
        "points": 300,
        "mean": score,
        "sd": 1.0,
        "median": score if isinstance(score, str) else score + 0.5,
        "doubled": {
            "points": 60,
            "mean": [score, score if isinstance(score, str) else score + 0.01],
            "median": [score, score],
        },
    }
    network = {"draws": [5, 5], "hidden": [7.0, 1.0], "edges": [30.0, 2.0], "rhat": {"n_hidden": 1.02, "n_edges": None}}
    return {
        "data": data,
        "model": model,
        "seed": seed,
        "minutes": 2.0,
        "sets": table.default_sets(data),
        "floor": 0.05,
        "versions": {"chefs": "0.1.0", "numpy": "2.0"},
        "processor_seconds": 100.0,
        "measures": {part or data: {"diagonal": kernel, "full": copy.deepcopy(kernel), "log_likelihood": logs}},
    } | ({"network": network, "chains": 4} if model in table.PRIORS else {})


def test_fits_are_kept_and_not_made_again(tmp_path, small, monkeypatch):
    said = []
    paths = table.run(
        tmp_path, ["geyser"], ["icp", "cibp"], ["mixture"], seeds=2, rival_seeds=1, say=said.append, **QUICK
    )
    assert [path.name for path in paths] == ["table1.md", "table1.csv", "table1.png"]
    made = {"geyser-icp-0", "geyser-icp-1", "geyser-cibp-0", "geyser-mixture-0", "geyser-mixture-1"}
    assert {path.stem for path in tmp_path.glob("*.json")} == made and len(said) == 5
    found = json.loads((tmp_path / "geyser-icp-1.json").read_text())
    assert (found["data"], found["model"], found["seed"], found["chains"]) == ("geyser", "icp", 1, 2)
    assert found["network"]["draws"] == [4, 4] and set(found["versions"]) == {"python", "chefs", "numpy", "numba"}
    assert found["rows"] == 60 and found["wall_seconds"] <= found["with_measures"]
    measures = found["measures"]["geyser"]
    for kernel in ("diagonal", "full"):
        expected = measures[kernel]["distance"][0] / measures[kernel]["baseline_distance"][0]
        assert measures[kernel]["ratio"] == pytest.approx(expected) and expected > 0
    assert measures["log_likelihood"]["points"] == measures["log_likelihood"]["doubled"]["points"] == 60
    # The baseline depends on the split alone.
    mixture = json.loads((tmp_path / "geyser-mixture-1.json").read_text())["measures"]["geyser"]
    assert mixture["diagonal"]["baseline_distance"] == measures["diagonal"]["baseline_distance"]
    monkeypatch.setattr(table, "result_of", lambda job: pytest.fail(f"made {job.file} again"))
    kept = (tmp_path / "geyser-icp-1.json").read_bytes()
    table.run(tmp_path, ["geyser"], ["icp"], ["mixture"], seeds=2, say=said.append, **QUICK)
    assert len(said) == 5 and (tmp_path / "geyser-icp-1.json").read_bytes() == kept
    assert "CIBP" in paths[0].read_text()  # results of other runs stay in the table


def test_fits_made_with_other_settings_are_kept_but_not_in_silence(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "result_of", lambda job: pytest.fail(f"made {job.file} again"))
    files = {}
    for seed in range(2):
        made = result("geyser", "icp", seed, 1.2) | {"options": {"start": "empty"}}
        files[tmp_path / f"geyser-icp-{seed}.json"] = json.dumps(made | {"minutes": 1.0 + seed})
    for path, text in files.items():
        path.write_text(text)
    said = []
    table.run(tmp_path, ["geyser"], ["icp"], [], seeds=2, chains=4, minutes=2.0, say=said.append, start="empty")
    assert len(said) == 1 and said[0].startswith("1 of the fits") and "geyser-icp-0.json" in said[0]
    for changed in ({"chains": 3}, {"n_sets": 5}, {"start": "gradient"}):
        said.clear()
        asked = {"seeds": 2, "chains": 4, "minutes": 2.0, "start": "empty"} | changed
        table.run(tmp_path, ["geyser"], ["icp"], [], say=said.append, **asked)
        assert said[0].startswith("2 of the fits"), changed
    assert all(path.read_text() == text for path, text in files.items())


def test_hyperparameters_are_learnt_under_every_prior(small):
    for prior in table.PRIORS:
        found = table.result_of(table.Job("geyser", prior, 0, 1.0, 1, 2, {"draws": 20, "warmup": 1, "start": "empty"}))
        names = {"alpha", "gamma", "phi"} if prior == "icp" else {"alpha", "gamma"}
        assert set(found["network"]["hyperparameters"]) == names
        assert all(sd > 0 for _, sd in found["network"]["hyperparameters"].values())


def test_columns_that_are_traps_are_left_out_as_well(small, monkeypatch):
    monkeypatch.setattr(table, "N_SCORED", 5)
    monkeypatch.setattr(table, "N_DOUBLED", 2)
    monkeypatch.setattr(table.alternatives, "COMPONENTS", (1, 2))
    options = {"draws": 2, "warmup": 1, "start": "empty"}
    network = table.result_of(table.Job("abalone", "ecibp", 0, 1.0, 1, 2, options))
    mixture = table.result_of(table.Job("abalone", "mixture", 0, 1.0, 1, 2))
    for found in (network, mixture):
        assert list(found["measures"]) == ["abalone", "abalone without traps"]
        logs = [measures["log_likelihood"] for measures in found["measures"].values()]
        assert [one["points"] for one in logs] == [5, 5] and logs[0]["mean"] != logs[1]["mean"]
        assert logs[0]["doubled"]["points"] == 2
    assert set(mixture["chosen"]) == set(mixture["measures"])


def test_wine_can_be_had_without_repeated_rows():
    rows = table.load("wine-unique", 1)
    both = np.concatenate([rows.train, rows.test])
    assert len(np.unique(both, axis=0)) == len(both) > 3900
    again = table.load("wine", 1)
    both = np.concatenate([again.train, again.test])
    assert len(np.unique(both, axis=0)) < len(both)


def test_one_fit_that_fails_does_not_stop_the_others(tmp_path, small, monkeypatch):
    real = table.result_of

    def sometimes(job):
        if job.model == "kernel":
            raise np.linalg.LinAlgError("no\nroot")
        return real(job)

    monkeypatch.setattr(table, "result_of", sometimes)
    said = []
    with refused("1 of the fits failed", "geyser-kernel-0.json: LinAlgError: no root", error=OSError):
        table.run(tmp_path, ["geyser"], [], ["kernel", "mixture"], seeds=1, say=said.append, **QUICK)
    assert len(said) == 2 and (tmp_path / "geyser-mixture-0.json").exists() and (tmp_path / "table1.md").exists()
    assert not (tmp_path / "geyser-kernel-0.json").exists()


def test_bad_requests_get_a_sentence(tmp_path):
    with refused("datasets has 'rung'", "ring"):
        table.run(tmp_path, ["rung"])
    with refused("priors has 'ibp'", "ecibp"):
        table.run(tmp_path, ["ring"], ["ibp"])
    with refused("alternatives has 'gmm'", "mixture"):
        table.run(tmp_path, ["ring"], [], ["gmm"])
    for name, value in (("seeds", 0), ("chains", 1.5), ("rival_seeds", True), ("minutes", -1.0)):
        with refused(name):
            table.run(tmp_path, ["ring"], [], [], **{name: value})
    with refused("no results"):
        table.run(tmp_path, [], [], [])
    (tmp_path / "file").write_text("")
    with refused("choose a folder", error=NotADirectoryError):
        table.run(tmp_path / "file", ["ring"])


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"data": "ring"}', "null"])
def test_a_broken_result_gets_a_sentence_before_any_work(tmp_path, content):
    (tmp_path / "ring-icp-0.json").write_text(content)
    with refused("ring-icp-0.json is not the result of a fit", "delete it"):
        table.run(tmp_path, ["ring"], ["icp"], [])


def test_without_zuko_the_table_has_no_flow(tmp_path, small, monkeypatch):
    monkeypatch.setattr(alternatives, "find_spec", lambda name: None if name == "zuko" else name)
    said = []
    table.run(tmp_path, ["geyser"], [], ["mixture", "flow"], seeds=1, say=said.append, **QUICK)
    assert "pip install 'chefs[compare]'" in said[0] and "flow" not in (tmp_path / "table1.csv").read_text()


def test_statements_are_computed_from_the_results():
    results = [result("ring", "icp", seed, 1.2, -1.6) for seed in range(2)]
    results += [result("ring", "ecibp", 0, 1.3, -1.7), result("ring", "cibp", 0, 1.4, -1.8)]
    results += [result("ring", "flow", 0, 1.1, -1.9)]
    results += [result("wine", "icp", 0, 1.5), result("wine", "ecibp", 0, 1.4), result("wine", "cibp", 0, 1.6)]
    lines = table_statements.statements(results)
    assert lines[0] == "ICP: ratio below the paper's on 1 of 2 data sets; not on wine (1.50, paper 1.07)."
    order = next(line for line in lines if "order" in line)
    assert "holds on ring (1.20, 1.30, 1.40); it does not on wine (1.50, 1.40, 1.60)" in order
    ring = next(line for line in lines if line.startswith("ring"))
    assert "ratio, diagonal: spline flow (1.10, on one split), ICP is number 2 (1.20)" in ring
    assert "mean log-likelihood: ICP (-1.60, on one split);" in ring and "best of 4 by" in ring
    ring = next(
        line for line in table_statements.statements([*results, result("ring", "flow", 1, 1.0)]) if "best" in line
    )
    assert (
        "ring: best of 2, without ECIBP, CIBP, which have fewer splits, by ratio, diagonal: spline flow (1.05" in ring
    )
    results[0], results[1] = (
        result("ring", "icp", 0, 1.35, -1.6),
        result("ring", "icp", 1, 1.0, -1.6),
    )  # of the split that all three have
    assert "holds on none" in next(line for line in table_statements.statements(results) if "order" in line)


def test_what_is_known_by_heart_is_a_measure_and_no_model(tmp_path):
    results = [result("ring", "icp", 0, 1.2, -1.6), result("ring", "flow", 0, 1.3, -1.5)]
    results += [result("wine", "icp", 0, 1.2)]
    without = table_statements.statements(results)
    results += [result("ring", "bootstrap", 0, 1.25, 5.0), result("wine", "bootstrap", 0, 1.1)]
    lines = table_statements.statements(results)
    above, ours = (line for line in lines if line not in without)
    assert "above that of the paper's ICP on wine (1.10, paper 1.07):" in above
    assert ours == "Our ICP's ratio is no larger than that of training points drawn again on ring (1.20, 1.25)."
    page = table_report.markdown(results)
    alone = [result("wine-unique", "bootstrap", 0, 1.1)]
    assert len(table_report.write_table(tmp_path, alone)) == 3
    rows = csv.DictReader(table_report.as_csv(results).splitlines())
    assert [row["log_likelihood_mean"] for row in rows if row["model"] == "bootstrap"] == ["", ""]
    assert page.count("\n| training points drawn again |") == 6  # two ratios, two distances, and both corrected


def test_the_page_shows_ours_beside_the_papers():
    results = [result("ring", "icp", seed, ratio) for seed, ratio in enumerate((1.1, 1.3))]
    results += [result("yeast", "mixture", 0, 1.25, part="yeast without traps")]
    page = table_report.markdown(results)
    assert "| ICP, paper | 1.29 |" in page and "| ICP | 1.20 ± 0.14 |" in page
    assert "| ICP | 0.1200 ± 0.0141 |" in page
    assert "| baseline | 0.1000 ± 0.0000 |" in page and "| baseline, paper | 0.0312 |" in page
    assert "| | yeast without traps |" in re.sub(" +", " ", page)
    assert "| ring | ICP | 0, 1 | 2 | 1.67 | 4 | 7 | 30 | 1.02 |" in page
    assert "chefs 0.1.0, numpy 2.0." in page and "nan" not in page
    rows = list(csv.DictReader(table_report.as_csv(results).splitlines()))
    assert [row["data"] for row in rows] == ["ring", "yeast without traps"]
    assert (rows[0]["ratio_diagonal"], rows[0]["paper_ratio"], rows[0]["seeds"]) == ("1.2", "1.29", "2")
    assert float(rows[0]["log_likelihood_gain_by_doubling"]) == pytest.approx(0.01)


def test_the_papers_ratios_are_those_of_its_distances():
    """As they were computed elsewhere, to two digits."""
    known = {
        "icp": "1.29 2.48 1.25 3.14 1.38 1.25 1.28 1.15 1.07",
        "cibp": "1.58 3.40 1.59 5.32 1.38 1.33 1.39 1.32 1.20",
        "ecibp": "1.34 3.26 1.57 5.00 1.36 1.26 1.36 1.16 1.14",
    }
    for model, ratios in known.items():
        assert " ".join(f"{ratio:.2f}" for ratio in table_values.PAPER[model]) == ratios


def test_a_lead_is_clear_only_beyond_its_error():
    results = [result("ring", "icp", seed, 1.2 + 0.1 * seed, -1.6) for seed in range(3)]
    results += [result("ring", "cibp", seed, 1.3 + 0.1 * seed + 0.01 * seed, -1.7 + 0.2 * seed) for seed in range(3)]
    (ring,) = (line for line in table_statements.statements(results) if line.startswith("ring"))
    assert "ratio, diagonal: ICP (1.30);" in ring
    assert "mean log-likelihood: CIBP (-1.50, not clearly before ICP), ICP is number 2 (-1.60)" in ring


def test_a_density_of_zero_is_the_worst_there_is():
    results = [result("ring", "icp", 0, 1.2, "-inf"), result("ring", "flow", 0, 1.3, -5.0)]
    for one in results:
        one["measures"]["ring"]["log_likelihood"] |= {"median": -1.0, "doubled": {"points": 9, "mean": [None, "-inf"]}}
        one["measures"]["ring"]["log_likelihood"]["doubled"]["median"] = [-1.0, -1.0]
    (ring,) = (line for line in table_statements.statements(results) if line.startswith("ring"))
    assert "mean log-likelihood: spline flow (-5.00, on one split), ICP is number 2 (-inf)" in ring
    assert "| ICP | -inf |" in table_report.markdown(results)


def test_unequal_minutes_are_said():
    results = [result("ring", model, seed, 1.2) for model in ("icp", "cibp") for seed in range(2)]
    results += [result("wine", "icp", 0, 1.2), result("wine", "flow", 0, 1.2) | {"minutes": 9.0}]
    assert not any("Minutes" in line for line in table_statements.statements(results))
    results[0]["minutes"] = 7.0
    (line,) = (line for line in table_statements.statements(results) if "Minutes" in line)
    assert line == "Minutes were not the same for all priors on ring (ICP 4.5, CIBP 2)."
    only = [*results[:1], *results[3:]]  # the ICP's split 0, which the cascade lacks
    assert not any("Minutes" in line for line in table_statements.statements(only))


def test_what_makes_figures_doubtful_is_said():
    slow = result("moons", "icp", 0, 1.2) | {"processor_seconds": 90.0}
    slow["network"]["rhat"]["n_edges"] = 2.5
    fine = result("ring", "icp", 0, 1.2) | {"processor_seconds": 119.0}
    told = " ".join(table_statements.statements([slow, fine]))
    assert "In 1 of 2 fits of networks R-hat exceeds 1.1" in told
    assert "other work, had moons-icp-0." in told
    assert "on two moons it is 0.100 (paper 0.014), and the ICP's distance 0.120 (paper 0.034)" in told
    assert "on ring it is 0.100 (paper 0.031)" in told


def test_files_that_are_not_results_are_left_alone(tmp_path, small):
    (tmp_path / "prior_properties.json").write_text("{}")
    (tmp_path / "notes.json").write_text("not JSON")
    table.run(tmp_path, ["geyser"], [], ["mixture"], seeds=1, say=lambda line: None, **QUICK)
    assert (tmp_path / "notes.json").read_text() == "not JSON" and (tmp_path / "geyser-mixture-0.json").exists()


def test_results_hold_nothing_that_json_does_not_know():
    found = table.finite({"a": [1.0, float("nan"), -float("inf")], "b": {"c": float("inf"), "d": "x"}})
    assert found == {"a": [1.0, None, "-inf"], "b": {"c": None, "d": "x"}}


def test_fantasies_are_kept_and_drawn(tmp_path, monkeypatch):
    options = {"draws": 3, "warmup": 2, "start": "empty", "chains": 1}
    path = fantasy.run(tmp_path, ["geyser", "iris"], say=lambda line: None, **options)
    assert path.read_bytes().startswith(b"\x89PNG")
    truth, made = fantasy.read(tmp_path / "iris.npz")
    assert truth.shape == made.shape == (75, 4)
    np.testing.assert_array_equal(truth, datasets.load("iris", 0).standardised()[1])
    monkeypatch.setattr(SigmoidNetwork, "fit", lambda *_: pytest.fail("learnt again"))
    drawn = []
    real = fantasy.pairs
    monkeypatch.setattr(fantasy, "pairs", lambda points: drawn.append(list(points)) or real(points))
    said = []
    fantasy.run(tmp_path, ["iris"], say=said.append, **options)
    assert drawn == [["geyser", "iris"]] and not said  # all that are there
    fantasy.run(tmp_path, ["iris"], say=said.append, minutes=1.0, **options)
    assert len(said) == 1 and "made with other minutes or chains and stays as it is" in said[0]
    with refused("iris.npz holds points of another seed", "delete it"):
        fantasy.run(tmp_path, ["iris"], seed=1, **options)
    (tmp_path / "iris.npz").write_bytes(b"PK")
    with refused("iris.npz does not hold points", "delete it"):
        fantasy.run(tmp_path, ["iris"])
    with refused("datasets has 'wine-unique'"):
        fantasy.run(tmp_path, ["wine-unique"])


def test_the_page_of_the_docs_is_made_of_the_results_beside_it():
    docs = Path(__file__).parent.parent / "docs" / "results"
    results = [result for _, result in table.results_in(docs / "table")]
    page = table_report.markdown(results).replace("(table1.png)", "(table/table1.png)")
    assert (docs / "table1.md").read_text(encoding="utf-8") == page
    assert (docs / "table" / "table1.csv").read_text(encoding="utf-8") == table_report.as_csv(results)
    sets = {(result["data"], result["sets"]) for result in results}
    assert sets == {(data, table.default_sets(data)) for data, _ in sets}
    assert not any(table.is_starved(result) for result in results)
