"""The report: what it says is what the draws say, and nothing in it is taken for markup."""

import json
import math
import re
import warnings

import numpy as np
import pytest

import chefs
from chefs import SigmoidNetwork
from chefs.convergence import Diagnosis, diagnose, ranks
from chefs.network.start import GradientStart
from chefs.report import held_out, hyperparameters, write, write_search
from chefs.report.chart import bins, padded, ticks
from chefs.report.graph import steady
from chefs.report.markup import Markup, escaped, joined, tag
from chefs.report.run import Run
from chefs.report.structures import common, most_frequent
from chefs.report.words import verdict
from tests.helpers import refused
from tests.reports import STATS, Seen, draw_of, model_with, numbers, table, usual

NASTY = ["<script>alert(1)</script>", "\"quoted\" & 'more'", "größe → 数\u202e", "</title><img src=x onerror=alert(2)>"]


def page_of(model, tmp_path, **given):
    return write(model, tmp_path / "report.html", **given).read_text(encoding="utf-8")


# Convergence.


def walk(phi, chains, n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(chains, n)) / math.sqrt(1 - phi**2)
    noise = rng.normal(size=(chains, n))
    for t in range(1, n):
        x[:, t] = phi * x[:, t - 1] + noise[:, t]
    return x


CASES = {
    "independent": walk(0.0, 4, 500),
    "slow": walk(0.9, 3, 777),
    "very slow": walk(0.99, 2, 101),
    "back and forth": walk(-0.5, 2, 400),
    "counts": np.random.default_rng(3).poisson(2.0, (2, 200)).astype(float),
    "apart": np.array([[0.0], [4.0]]) + walk(0.5, 2, 200),
    "one wider": walk(0.5, 2, 300) * [[1.0], [5.0]],
    "short": walk(0.0, 2, 8),
}


@pytest.mark.parametrize("name", CASES)
def test_diagnostics_are_those_of_arviz(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        theirs = [float(arviz.rhat(CASES[name]))]
        theirs += [float(arviz.ess(CASES[name], method=method)) for method in ("bulk", "tail")]
    # For the tail of a handful of draws it depends on how quantiles are interpolated.
    assert diagnose(CASES[name]) == pytest.approx(theirs, rel=0.1 if name == "short" else 1e-6)


def test_effective_size_of_a_chain_whose_autocorrelation_is_known():
    x = walk(0.8, 4, 20_000)
    assert diagnose(x).bulk == pytest.approx(x.size * (1 - 0.8) / (1 + 0.8), rel=0.1)


def test_chains_in_different_places_of_different_width_and_that_drift_are_seen():
    good = walk(0.3, 2, 1000)
    assert diagnose(good).r_hat < 1.01
    assert diagnose(np.array([[0.0], [1.0]]) + good).r_hat > 1.1
    assert diagnose(good * [[1.0], [3.0]]).r_hat > 1.1
    assert diagnose(good[:1] + np.linspace(0, 5, 1000)).r_hat > 1.1  # one chain is enough for that


def test_what_stands_still_has_no_r_hat_unless_chains_stand_in_different_places():
    assert math.isnan(diagnose(np.ones((2, 50))).r_hat)
    assert diagnose(np.ones((2, 50)) * [[1.0], [2.0]]).r_hat == math.inf
    assert math.isnan(diagnose([np.arange(3.0), np.arange(100.0)]).r_hat)  # three draws tell nothing


def test_ranks_of_one_law_are_even_and_ties_share_them():
    together = np.concatenate(ranks([np.array([3.0, 1.0]), np.array([1.0, 2.0])]))
    np.testing.assert_allclose(together, np.array([4, 1.5, 1.5, 3]) / 4 - 0.125)


GOOD, FAIR, BAD, STILL = (
    Diagnosis(*numbers) for numbers in ((1.002, 900, 800), (1.03, 300, 150), (1.4, 9, 30), (math.nan,) * 3)
)


@pytest.mark.parametrize(
    "found, lengths, level, words",
    [
        ({"a": GOOD, "b": GOOD}, [500, 500], "good", "Looks converged"),
        ({"a": GOOD, "b": FAIR}, [500, 500], "fair", "Nearly converged"),
        ({"a": GOOD, "b": BAD}, [500, 500], "bad", "Not converged"),
        ({"a": GOOD, "b": Diagnosis(1.0, 50, 900)}, [500, 500], "bad", "Not converged"),
        ({"a": GOOD}, [500], "unknown", "one chain"),
        ({"a": BAD}, [500], "bad", "Not converged"),
        ({"a": STILL, "b": GOOD}, [500, 500], "good", "Looks converged"),
        ({"a": STILL}, [500, 500], "unknown", "Nothing changed"),
        ({"a": GOOD}, [500, 3], "unknown", "Too few draws"),
    ],
)
def test_convergence_in_words(found, lengths, level, words):
    said = verdict(found, lengths)
    assert said.level == level and words in said.headline and all(reason.endswith(".") for reason in said.reasons)


def test_the_words_name_what_has_not_converged():
    said = " ".join(verdict({"edges": BAD, "units": GOOD, "α": Diagnosis(1.01, 40, 60), "φ": STILL}, [9, 9]).reasons)
    assert "edges (R-hat 1.40)" in said and "α (40 effective)" in said and "units" not in said
    assert "change: φ." in said


# Structures.


def test_probabilities_and_weights_are_those_of_the_draws():
    model = usual(("x", "y"), weight=1.5)
    ranked = most_frequent(model.trace_)
    shared = common(model.trace_, ranked[0][0].dag)
    assert [(draw.dag.n_hidden, round(share, 6)) for draw, share in ranked] == [(2, 0.75), (1, 0.25)]
    lower, upper = np.argsort(shared.graph.order)[2:]
    np.testing.assert_allclose(shared.share[lower, :2], 1.0)
    np.testing.assert_allclose(shared.weight[lower, :2], [1.5, 1.6])
    np.testing.assert_allclose([shared.share[upper, 0], shared.share[upper, lower]], 0.75)
    np.testing.assert_allclose([shared.weight[upper, 0], shared.weight[upper, lower]], [0.5, -2.0])
    np.testing.assert_allclose(shared.spread, 0.0, atol=1e-6)
    np.testing.assert_allclose(shared.present, np.where(np.arange(4) == upper, 0.75, 1.0))
    np.testing.assert_allclose(shared.reached[upper], np.where(np.arange(4) == upper, 0, 0.75))  # y only through lower


def test_weights_vary_as_much_as_the_draws_say():
    rng = np.random.default_rng(0)
    model = model_with([[draw_of(rng, 2, weight=w) for _ in range(10)] for w in (1.0, 3.0)], ["x", "y"])
    shared = common(model.trace_, most_frequent(model.trace_)[0][0].dag)
    lower = np.argsort(shared.graph.order)[2]
    np.testing.assert_allclose(shared.weight[lower, :2], [2.0, 2.1])
    np.testing.assert_allclose(shared.spread[lower, :2], 1.0)


def test_names_of_units_do_not_depend_on_how_a_draw_numbers_them():
    rng = np.random.default_rng(0)
    draws = [draw_of(rng, 2) for _ in range(20)]
    turned = []
    for draw in draws:
        swap = np.array([0, 1, 3, 2], dtype=np.int32)
        node = {name: values[swap] for name, values in draw.node.items()}
        turned.append(
            draw._replace(order=draw.order[swap], parent=swap[draw.parent], child=swap[draw.child], node=node)
        )
    model = model_with([draws, turned], ["x", "y"])
    shared = common(model.trace_, most_frequent(model.trace_)[0][0].dag)
    assert set(shared.share[shared.graph.edges].tolist()) == {1.0}
    assert np.abs(shared.weight[shared.graph.edges]).min() == 0.5


def test_nodes_stay_where_they_are_wanted_and_never_touch():
    dag = chefs.ChefsProcess(1.0, 4.0, 1.0).sample(np.random.default_rng(1), observed=[0.0] * 6)
    at = steady(dag, np.zeros(dag.n_nodes))
    gaps = np.hypot(*(at[:, None] - at).T)[~np.eye(dag.n_nodes, dtype=bool)]
    assert gaps.min() > 0.999 * min(0.25, 0.6 / dag.n_nodes**0.5)
    wanted = np.arange(dag.n_nodes, dtype=float)
    np.testing.assert_allclose(steady(dag, wanted)[:, 0], wanted)


# What is said about data.


def test_log_densities_change_with_the_scale_as_they_must():
    """A table in other units has the same points: all densities change by the same factor, those of rivals too."""
    rows = table(("x", "y"), 200)
    model = usual(("x", "y"), draws=4)
    results = []
    for factor in (1.0, 10.0):
        model.mean_, model.scale_ = factor * rows.mean(axis=0), factor * rows.std(axis=0)
        results.append(held_out.scores(Run.of(model, factor * rows, factor * rows[:30])))
    one, ten = results
    assert [*one.logs] == [*ten.logs] and len(one.logs) == 4
    for name in one.logs:
        np.testing.assert_allclose(one.logs[name] - ten.logs[name], 2 * math.log(10), rtol=1e-6)


def test_rivals_of_normal_data_find_the_density():
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(1000, 2)) * [1, 5] + [3, 0], rng.normal(size=(300, 2)) * [1, 5] + [3, 0]
    model = usual(("x", "y"), draws=4)
    model.mean_, model.scale_ = train.mean(axis=0), train.std(axis=0)
    found = held_out.scores(Run.of(model, train, test))
    z = (test - [3, 0]) / [1, 5]
    exact = (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(axis=1) - math.log(5)
    for name in ("one Gaussian", "mixture of 1 Gaussians"):
        assert found.logs[name].mean() == pytest.approx(exact.mean(), abs=0.02)
    kernel = next(logs for name, logs in found.logs.items() if name.startswith("kernel density"))
    assert exact.mean() - 0.15 < kernel.mean() < exact.mean()


def test_rows_with_gaps_are_compared_where_all_methods_can_say_something():
    names = ("x", "y", "z")
    model, test = usual(names, draws=4), table(names, 30, gaps=0.3)
    found = held_out.scores(Run.of(model, table(names, 100), test))
    complete = int((~np.isnan(test).any(axis=1)).sum())
    assert 0 < complete < 30 and {len(logs) for logs in found.logs.values()} == {complete}
    assert any("without any" in note for note in found.notes)
    few = held_out.scores(Run.of(model, table(names, 100, gaps=0.9), test))
    assert list(few.logs) == ["the belief networks"] and "No other method" in few.notes[-1]


def test_columns_whose_values_repeat_are_named():
    rows = table(("x", "y"), 100)
    rows[:30, 1] = 0.5
    found = held_out.scores(Run.of(usual(draws=4), rows, rows[:10]))
    assert "y (30" in found.notes[0] and "x" not in found.notes[0].partition("Such are")[2]


def test_the_curve_of_a_prior_is_its_density():
    t = np.linspace(-12, 2, 4001)
    density = hyperparameters._density(t, 0.5, 0.5)
    below = np.cumsum(density) * (t[1] - t[0])
    draws = np.log10(np.random.default_rng(0).gamma(0.5, 2.0, 100_000))
    assert below[-1] == pytest.approx(1.0, abs=1e-3)
    for q in (0.1, 0.5, 0.9):
        assert t[np.searchsorted(below, q)] == pytest.approx(np.quantile(draws, q), abs=0.03)


def test_the_prior_of_alpha_is_that_of_one_over_a_gamma_variable(tmp_path):
    words = Seen(page_of(usual(), tmp_path)).words
    draws = np.random.default_rng(0).gamma(0.5, 2.0, 1_000_000)
    said = {
        name: float(value) for name, value in re.findall(r"([αγφ]) : posterior median.*?prior median ([\d.]+)", words)
    }
    assert said["γ"] == said["φ"] == pytest.approx(np.median(draws), rel=0.01)
    assert said["α"] == pytest.approx(np.median(1 / draws), rel=0.01)


# The page.


def test_a_page_says_what_was_run_and_found(tmp_path):
    rows = table(("x", "y"))
    page = page_of(usual(), tmp_path, train=rows, test=rows[:20], title="A trial")
    seen = Seen(page)
    assert page.startswith("<!DOCTYPE html>") and seen.tags.count("section") == 6
    for words in (
        "A trial",
        "60 rows, 2 columns",
        "2 chains of 40 draws",
        "seed 4",
        "3.0 s with 7 steps of warm-up",
        "birth 80 0 0",
        "not one move of these kinds was accepted: birth (of 80)",
        "R-hat",
        "2 different structures in 80 draws",
        "H1 → x: probability 1.00, weight +1.50",
        "probability 0.75",
        "mixture of",
        "kernel density",
        "Hellinger distance from 20 test rows",
        "the data say nothing about φ",
    ):
        assert words in seen.words.replace("\u202f%", ""), words
    assert seen.tags.count("svg") > 20 and seen.tags.count("template") == 24


def test_nothing_in_a_name_is_markup(tmp_path):
    model = usual(NASTY)
    page = page_of(model, tmp_path, train=table(NASTY), title="<b>&amp;")
    seen = Seen(page)
    assert seen.tags.count("script") == 1 and seen.tags.count("title") > 1 and "img" not in seen.tags
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    for name in NASTY:
        assert name in seen.words, name
    assert "<b>&amp;" in seen.words
    whole = usual(("plain", "other", "third", "last"))
    (tmp_path / "report.html").unlink()
    tags = Seen(page_of(whole, tmp_path, train=table(NASTY))).tags
    assert sorted(tags) == sorted(seen.tags)  # whatever the names are


def test_text_that_no_file_can_hold_is_shown_as_such():
    assert escaped("a\x00b\x1b\ud800") == "a\ufffdb\ufffd?"
    assert tag("p", "<", title='"') == '<p title="&quot;">&lt;</p>'
    assert joined(Markup("<b>"), "<b>", None) == "<b>&lt;b&gt;"


def test_a_page_needs_nothing_from_elsewhere(tmp_path):
    page = page_of(usual(), tmp_path, train=table(("x", "y")))
    assert "http:" not in page and "https:" not in page and "url(" not in page and "@import" not in page
    attributes = Seen(page).attributes
    links = [value for name, value in attributes if name in ("src", "href", "srcset", "action")]
    assert links and all(link.startswith("#") or link == "data:," for link in links)
    assert any(name == "content" and value.startswith("default-src 'none'") for name, value in attributes)


@pytest.mark.parametrize(
    "make, given, expected",
    [
        (lambda: usual(chains=1), {}, "run at least two"),
        (lambda: usual(chains=8), {}, "8 chains of 40 draws"),
        (lambda: usual(hidden=False), {}, "the columns look independent"),
        (lambda: usual(draws=1), {}, "Too few draws to tell"),
        (lambda: usual(chains=1, draws=1), {}, "Too few draws to tell"),
        (lambda: usual(["only"]), {"train": table(["only"])}, "only : gap"),
        (lambda: usual([f"column {j}" for j in range(40)]), {"train": table(range(40))}, "the first 6 columns"),
        (lambda: usual(), {"train": table(("x", "y"), gaps=0.2)}, "entries missing"),
        (lambda: usual(), {}, "Without data there is fantasy alone"),
        (lambda: usual(), {"test": table(("x", "y"), 5)}, "was not kept with this run"),
    ],
    ids=[
        "one chain",
        "many chains",
        "no hidden unit",
        "one draw a chain",
        "one draw",
        "one column",
        "many columns",
        "gaps",
        "no data",
        "no training rows",
    ],
)
def test_pages_of_all_sorts_of_runs(tmp_path, make, given, expected):
    seen = Seen(page_of(make(), tmp_path, **given))
    assert expected in seen.words
    assert not re.search(r"\b(nan|None|inf)\b", " ".join(value for _, value in seen.attributes if value))


def test_a_run_that_goes_on_is_reported_as_far_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    model = model_with([[draw_of(rng, 2) for _ in range(9)], []], ["x", "y"], [STATS, {}])
    words = Seen(page_of(model, tmp_path)).words
    assert "not all chains have ended" in words and "9 and 0 draws" in words


def test_sizes_of_a_start_are_named(tmp_path):
    how = {"draws": 3, "warmup": 2, "chains": 1, "random_state": 3, "n_jobs": 1, "progress": False}
    model = SigmoidNetwork(start=GradientStart((1, 2), n_steps=5), **how).fit(table(("x", "y"), 40))
    assert "has led it; hidden units at first: 1 or 2" in Seen(page_of(model, tmp_path)).words


def test_a_run_of_an_older_version_is_reported_without_its_options(tmp_path):
    model = usual()
    model.trace_.about = {}
    assert "not kept with this run" in Seen(page_of(model, tmp_path)).words


def test_fixed_hyperparameters_are_named(tmp_path):
    model = usual()
    for chain in model.trace_.chains:
        chain.scalars["gamma"][:] = 2.5
        del chain.scalars["phi"]
    words = Seen(page_of(model, tmp_path)).words
    assert "The same in all draws: γ = 2.5." in words and "φ : posterior" not in words


def test_a_run_folder_is_all_that_a_report_needs(tmp_path):
    rows = table(("dose", "effect"), 40, gaps=0.1)
    how = {"draws": 12, "warmup": 6, "start": "empty", "random_state": 3, "n_jobs": 1, "progress": False}
    model = SigmoidNetwork(checkpoint=tmp_path / "run", orders=[1.0, 0.0], max_hidden=5, required=[(0, 1)], **how)
    model.fit_table(rows, ["dose", "effect"])
    folder = write(tmp_path / "run", tmp_path / "folder.html", test=rows[:5])
    memory = write(model, tmp_path / "memory.html", test=rows[:5], title="Belief networks: run")
    assert folder.read_bytes() == memory.read_bytes()
    words = Seen(folder.read_text(encoding="utf-8")).words
    for expected in (
        "Belief networks: run",
        f"40 rows, 2 columns, {np.isnan(rows).sum()} entries missing",
        "12 draws a chain; warm-up: 6 steps",
        "seed 3",
        "ChefsProcess, its hyperparameters learnt",
        "dose 1 and effect 0",
        "required edges dose → effect",
        "at most 5 hidden units",
        "start no hidden unit",
        "dose → effect: probability 1.00",
    ):
        assert expected in words, expected


def test_files_are_not_replaced_and_nonsense_is_refused(tmp_path):
    model = usual(draws=2)
    there = tmp_path / "there.html"
    there.write_text("mine")
    with refused("there.html", error=FileExistsError):
        write(model, there)
    with refused("there.html", error=FileExistsError):
        write_search({}, there)
    assert there.read_text() == "mine"
    with refused("nowhere", error=FileNotFoundError):
        write(model, tmp_path / "nowhere" / "report.html")
    new = tmp_path / "new.html"
    with refused("source", error=TypeError):
        write(SigmoidNetwork(), new)
    with refused("source", error=TypeError):
        write(3, new)
    with refused("train"):
        write(model, new, train=np.zeros((3, 5)))
    with refused("train", error=TypeError):
        write(model, new, train=[["a", "b"]])
    with refused("test"):
        write(model, new, test=np.full((3, 2), np.inf))
    with refused("n_draws"):
        write_search({"data": "digits"}, new)
    assert not new.exists()


def test_round_numbers_and_bins():
    assert ticks(0.13, 0.87) == [0.2, 0.4, 0.6, 0.8] and ticks(3.0, 3.0) == [3.0]
    assert padded([np.nan, 2.0, 2.0]) == (1.0, 3.0) and padded([]) == (-0.04, 1.04)
    np.testing.assert_array_equal(bins(np.array([1.0, 3.0, 3.0])), [0.5, 1.5, 2.5, 3.5])
    assert len(bins(np.linspace(0, 1, 100))) == 11


# Searches over architectures.


def test_a_search_is_reported(tmp_path):
    found = numbers()
    page = write_search(found, tmp_path / "search.html").read_text(encoding="utf-8")
    seen = Seen(page)
    scores = found["scores"]
    for words in (
        "Architectures: mnist123",
        f"averaged over the draws {scores['ensemble']['accuracy']:.4f} {scores['ensemble']['calibration_error']:.4f}",
        f"mean over the draws {scores['mean']['accuracy']:.4f}",
        f"by its test accuracy {scores['best']['accuracy']:.4f}",
        "Not converged",
        "9408 networks trained in 182 rounds",
        "The networks have 4 to 14 hidden layers",
    ):
        assert words in seen.words, words
    assert [value for name, value in seen.attributes if name == "class"].count("graph") == 3
    assert "http:" not in page and "https:" not in page


def test_searches_of_one_chain_and_without_draws(tmp_path):
    found = numbers(n_draws=[0], chains=1)
    for name in ("columns", "scores", "examples"):
        del found[name]
    assert "No draws yet" in write_search(found, tmp_path / "none.html").read_text(encoding="utf-8")
    found = numbers(n_draws=[4], data="<i>")
    found["columns"] = {name: values[:4] for name, values in found["columns"].items()}
    found["examples"] = [example | {"draw": j} for j, example in enumerate(found["examples"])]
    seen = Seen(write_search(found, tmp_path / "one.html").read_text(encoding="utf-8"))
    assert "i" not in seen.tags and "Architectures: <i>" in seen.words


def test_the_folder_of_a_search_is_known_for_one(tmp_path):
    (tmp_path / "architectures.json").write_text(json.dumps(numbers()))
    page = write(tmp_path, tmp_path / "report.html")
    assert page.read_bytes() == write_search(numbers(), tmp_path / "same.html").read_bytes()
    (tmp_path / "architectures.json").write_text("{")
    with refused("architectures.json"):
        write(tmp_path, tmp_path / "again.html")
