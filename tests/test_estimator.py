"""SigmoidNetwork as an estimator: tables in, scikit-learn's conventions, time limits, and what it says of bad input."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import chefs
from chefs import CascadingBuffet, ChefsProcess, ExtendedBuffet, IndianBuffet, SigmoidNetwork, Trace
from chefs.draws import ChainDraws
from chefs.network import predictive
from chefs.network.asked import asked
from chefs.network.kernel import MOVES, NetworkKernel
from chefs.network.start import GradientStart
from chefs.report.run import Run
from chefs.running import Plan
from tests.networks import model_of, one_unit
from tests.runs import same_draws

TINY = {"draws": 4, "warmup": 3, "chains": 1, "start": "empty", "random_state": 0, "n_jobs": 1, "progress": False}


@pytest.fixture(autouse=True)
def _brief(monkeypatch):
    monkeypatch.setitem(predictive.DENSITY, "walks", predictive.Effort(4, 20, 1))
    monkeypatch.setitem(predictive.DENSITY, "annealed", predictive.Effort(4, 1, 10))
    monkeypatch.setitem(predictive.CONDITIONAL, "walks", predictive.Effort(4, 20, 1))
    monkeypatch.setitem(predictive.CONDITIONAL, "annealed", predictive.Effort(4, 1, 10))


def curve(seed=0, n=60):
    """Two columns, the second a bent function of the first."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    return np.stack([x, 5 / (1 + np.exp(-3 * x)) + 0.3 * rng.normal(size=n)], axis=1)


def tiny(**options):
    return SigmoidNetwork(**{**TINY, **options})


@parametrize_with_checks([tiny()])
@pytest.mark.filterwarnings("ignore:column . of X holds only 0 and 1:UserWarning")
def test_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def test_clone_parameters_and_pickle():
    model = tiny(prior=ChefsProcess(2.0, 1.0, 1.0), orders=[0.0, 1.0], max_hidden=3)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(draws=2).draws == 2
    model.fit(curve())
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.score_samples(curve()), model.score_samples(curve()))
    assert set(model.trace_.scalar("alpha")) == {2.0}  # hyperparameters of a prior that is given stay
    assert len(set(tiny().fit(curve()).trace_.scalar("alpha"))) == 4


def test_pipeline():
    pipeline = make_pipeline(StandardScaler(), tiny(draws=20, warmup=20)).fit(curve())
    assert pipeline.score_samples(curve()).shape == (60,)
    features = pipeline.transform(curve())
    assert features.shape == (60, pipeline[-1].trace_.most_probable().n_hidden)
    assert len(pipeline[-1].get_feature_names_out()) == features.shape[1]
    assert ((features >= 0) & (features <= 1)).all()


def test_a_pipeline_with_names_gives_frames():
    """Columns by name in, hidden units by name out, as scikit-learn's set_output asks; and fantasies are arrays."""
    frame = pd.DataFrame(curve(), columns=["dose", "effect"], index=range(100, 160))
    model = tiny(draws=20, warmup=20, start=GradientStart(3, 100))  # so that there are units
    pipeline = make_pipeline(StandardScaler(), model).set_output(transform="pandas")
    features = pipeline.fit(frame).transform(frame)
    assert isinstance(features, pd.DataFrame) and features.shape[1] > 0
    assert list(features.columns) == [f"sigmoidnetwork{j}" for j in range(features.shape[1])]
    assert list(features.index) == list(frame.index)
    assert list(pipeline[-1].feature_names_in_) == pipeline[-1].trace_.names == ["dose", "effect"]
    pipeline[-1].set_output(transform="default")
    plain = pipeline.transform(frame)
    assert isinstance(plain, np.ndarray)
    np.testing.assert_array_equal(plain, features.to_numpy())


def test_grid_search_by_held_out_log_likelihood():
    """A network that may have an edge from the first column to the second beats one that may not, on rows not seen."""
    model = tiny(orders=[1.0, 0.0], max_hidden=0, draws=10, warmup=10)
    x = np.random.default_rng(0).normal(size=(60, 1))
    x = np.hstack([x, 3 * x + 0.1 * np.random.default_rng(1).normal(size=(60, 1))])
    search = GridSearchCV(model, {"forbidden": [[(0, 1)], []]}, cv=3, n_jobs=1).fit(x)
    assert search.best_params_ == {"forbidden": []}
    without, best = search.cv_results_["mean_test_score"]
    assert best > without + 0.5
    folds = [clone(model).fit(x[rest]).score(x[part]) for rest, part in KFold(3).split(x)]
    np.testing.assert_allclose([search.cv_results_[f"split{fold}_test_score"][1] for fold in range(3)], folds)
    assert search.score(x) == search.best_estimator_.score(x) == search.best_estimator_.score_samples(x).mean()
    through = GridSearchCV(make_pipeline(StandardScaler(), model), {"sigmoidnetwork__draws": [5, 10]}, cv=2).fit(x)
    assert np.isfinite(through.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("name", ["icp", "cibp", "ecibp", "ibp"])
def test_a_prior_by_name_has_hyperparameters_that_are_learnt(name):
    model = tiny(prior=name).fit(curve())
    assert len(set(model.trace_.scalar("alpha"))) == len(set(model.trace_.scalar("gamma"))) == 4
    assert ("phi" in model.trace_.chains[0].scalars) == (name == "icp")
    assert clone(model).get_params()["prior"] == name


@pytest.mark.parametrize("prior", [IndianBuffet(1.0, 2.0), CascadingBuffet(1.0, 1.0), ExtendedBuffet(1.0, 1.0)])
def test_a_buffet_is_a_prior_like_any_other(prior, tmp_path):
    x = curve()
    model = tiny(prior=prior, draws=20, warmup=20, checkpoint=tmp_path / "run").fit(x)
    assert model.trace_.n_hidden.max() > 0
    assert set(model.trace_.scalar("alpha")) == {prior.alpha} and "phi" not in model.trace_.chains[0].scalars
    if isinstance(prior, IndianBuffet):
        assert not any(dag.edges[:, 2:].any() for dag in model.trace_)  # one layer
    found = SigmoidNetwork.load(tmp_path / "run")
    assert same_draws(found.trace_, model.trace_)
    assert np.isfinite(found.score_samples(x)).all() and np.isfinite(found.transform(x)).all()
    assert found.sample(7, random_state=0).shape == (7, 2)


def test_the_usual_prior_is_the_first():
    assert same_draws(*(tiny(prior=prior).fit(curve()).trace_ for prior in (None, "icp")))


def test_the_same_seed_gives_the_same_model():
    a, b, c = (tiny(random_state=seed).fit(curve()) for seed in (1, 1, 2))
    assert same_draws(a.trace_, b.trace_)
    np.testing.assert_array_equal(a.sample(5, random_state=3), b.sample(5, random_state=3))
    assert (a.sample(5, random_state=3) != c.sample(5, random_state=3)).all()
    old = tiny(random_state=np.random.RandomState(0)).fit(curve())
    assert len(old.trace_) == 4


def test_frames_give_names_orders_and_edges():
    frame = pd.DataFrame(curve(), columns=["dose", "effect"])
    model = tiny(orders={"dose": 1.0}, required=[("dose", "effect")]).fit(frame)
    assert list(model.feature_names_in_) == model.trace_.names == ["dose", "effect"]
    assert model.trace_.edge_probabilities()[0, 1] == 1.0
    assert all(dag.order[0] == 1.0 and dag.order[1] == 0.0 for dag in model.trace_)
    assert tiny(forbidden=[("dose", "effect")], orders=[1, 0]).fit(frame).trace_.edge_probabilities()[0, 1] == 0.0
    free = tiny(orders=math.nan, draws=10).fit(frame)
    assert len({dag.order[0] for dag in free.trace_}) > 1
    with pytest.raises(ValueError, match="feature names should match"):
        model.score_samples(frame.rename(columns={"dose": "other"}))
    with pytest.raises(ValueError, match="orders names the column 'dosage', but X has the columns dose, effect"):
        tiny(orders={"dosage": 1.0}).fit(frame)
    with pytest.raises(ValueError, match="orders names the column 'dose', but X has no column names"):
        tiny(orders={"dose": 1.0}).fit(curve())
    with pytest.raises(ValueError, match="one for each of the 2 columns"):
        tiny(orders=[0.0, 0.0, 1.0]).fit(frame)


def test_scaling_is_inside():
    """Other units change the density by their Jacobian alone, and fantasies and imputations with them."""
    x = curve()
    factor = np.array([2.0**-10, 2.0**17])  # powers of two: the chain sees the same numbers to the last bit
    a, b = tiny().fit(x), tiny().fit(factor * x)
    assert same_draws(a.trace_, b.trace_)
    np.testing.assert_allclose(b.score_samples(factor * x), a.score_samples(x) - np.log(factor).sum())
    np.testing.assert_allclose(b.sample(9, random_state=0), factor * a.sample(9, random_state=0))
    np.testing.assert_array_equal((b.mean_, b.scale_), (factor * a.mean_, factor * a.scale_))
    assert np.abs(a.score_samples(x) - b.score_samples(factor * x)).min() > 1


def test_missing_entries_are_imputed():
    x = curve()
    holes = x.copy()
    holes[::3, 1] = np.nan
    holes[1, 0] = np.nan
    model = tiny(orders=[1.0, 0.0], draws=60, warmup=60).fit(holes)
    filled = model.impute(draws=40, random_state=0)
    seen = ~np.isnan(holes)
    assert filled.draws.shape == (40, 60, 2) and np.isfinite(filled.draws).all()
    np.testing.assert_array_equal(filled.mean[seen], holes[seen])
    gone = holes[:, 1] != holes[:, 1]
    assert np.corrcoef(filled.mean[gone, 1], x[gone, 1])[0, 1] > 0.8
    assert filled.draws[:, gone, 1].std(axis=0).min() > 0
    new = np.array([[-2.0, np.nan], [2.0, np.nan], [0.0, 2.5]])
    low, high, whole = model.impute(new, draws=40, random_state=0).mean
    assert low[1] + 2 < high[1]
    assert whole.tolist() == [0.0, 2.5]
    assert np.isfinite(model.score_samples(holes)).all()
    with pytest.raises(ValueError, match="the training table has no missing entries"):
        tiny().fit(x).impute()


def test_a_loaded_model_imputes_the_table_that_it_was_fitted_to(tmp_path):
    holes = curve() / 3
    holes[::3, 1] = np.nan
    holes[1, 0] = 1e9  # far out: clipped for the fit, but not in what is given back
    model = tiny(checkpoint=tmp_path / "run").fit(holes)
    loaded = SigmoidNetwork.load(tmp_path / "run")
    for filled in (model.impute(draws=3, random_state=0), loaded.impute(draws=3, random_state=0)):
        np.testing.assert_array_equal(filled.mean[~np.isnan(holes)], holes[~np.isnan(holes)])
        np.testing.assert_array_equal(filled.draws, model.impute(draws=3, random_state=0).draws)


def test_what_is_masked_is_missing():
    holes = curve()
    holes[::3, 1] = np.nan
    masked = np.ma.masked_invalid(np.where(np.isnan(holes), np.inf, holes))
    a, b = tiny().fit(holes), tiny().fit(masked)
    assert same_draws(a.trace_, b.trace_)
    np.testing.assert_array_equal(b.score_samples(masked), a.score_samples(holes))
    np.testing.assert_array_equal(*(model.impute(draws=3, random_state=0).mean for model in (a, b)))
    whole = np.ma.array(np.arange(12).reshape(6, 2) % 5, mask=np.eye(6, 2))
    np.testing.assert_allclose(tiny().fit(whole).mean_, whole.mean(axis=0).data)


def test_fantasies_use_every_draw_and_chain():
    """Two networks far apart, one in each chain: half of the points come from each."""
    rng = np.random.default_rng(1)
    left, right = one_unit(rng, 2), one_unit(rng, 2)
    left.node["bias"][:2] -= 50
    right.node["bias"][:2] += 50
    points = model_of([left, right], [0.0, 0.0], [1.0, 1.0]).sample(100, random_state=0)
    assert (points[:, 0] < 0).sum() == 50


def test_chains_count_alike_however_many_draws_they_have(monkeypatch):
    """One chain of 30 draws of a network on the left, one of 2 on the right, one that has none yet."""
    monkeypatch.setitem(predictive.DENSITY, "walks", predictive.Effort(100, 200, 1))
    rng = np.random.default_rng(3)
    left, right = one_unit(rng, 2), one_unit(rng, 2)
    left.node["bias"][:2] -= 50
    right.node["bias"][:2] += 50
    model, alone = model_of([left, right], [0.0, 0.0], [1.0, 1.0]), model_of([right], [0.0, 0.0], [1.0, 1.0])
    model.trace_ = Trace([ChainDraws.from_draws(2, draws) for draws in ([left] * 30, [], [right] * 2)])
    points = model.sample(101, random_state=0)
    assert (points[:, 0] < 0).sum() in (50, 51)
    assert 10 < (points[:50, 0] < 0).sum() < 40  # in random sequence
    numbers = predictive.spread(model.trace_, 10)
    assert (numbers < 30).sum() == 5 and set(numbers[5:]) == {30, 31}
    assert predictive.spread(model.trace_, 1).shape == (1,)
    density = alone.score_samples(points[points[:, 0] > 0]) - model.score_samples(points[points[:, 0] > 0])
    np.testing.assert_allclose(density, np.log(2), atol=0.2)
    assert model.impute(np.array([[50.0, np.nan], [-50.0, np.nan]]), draws=8, random_state=0).draws.shape == (8, 2, 2)


def test_features_are_those_of_the_most_frequent_structure():
    """One network without its last edge, two with it: the second or third draw is shown, and its unit's output."""
    rng = np.random.default_rng(2)
    rare, common, also = (one_unit(rng, 2) for _ in range(3))
    rare = rare._replace(parent=rare.parent[:1], child=rare.child[:1], edge={"weight": rare.edge["weight"][:1]})
    model = model_of([rare, common, also], [0.0, 0.0], [1.0, 1.0])
    chain, draw = model.trace_.most_probable_draw()
    assert chain in (1, 2) and draw == 0
    alone = model_of([[rare, common, also][chain]], [0.0, 0.0], [1.0, 1.0])
    np.testing.assert_array_equal(model.transform(np.zeros((1, 2))), alone.transform(np.zeros((1, 2))))
    assert model.get_feature_names_out().tolist() == ["sigmoidnetwork0"]


def test_how_long_a_fit_goes_on_unless_told():
    assert SigmoidNetwork()._plan() == Plan(1000, 1000, 1)
    assert SigmoidNetwork(minutes=5)._plan() == Plan(10**6, 10**6, 1, 5.0)
    assert SigmoidNetwork(minutes=5, draws=70, thin=2)._plan() == Plan(70, 10**6, 2, 5.0)


def test_minutes_stop_a_fit_with_what_was_reached(tmp_path):
    options = {"draws": None, "warmup": None, "chains": 2, "minutes": 0.02, "checkpoint": tmp_path / "run"}
    model = tiny(**options).fit(curve())
    assert all(0 < len(chain) < 10**6 for chain in model.trace_.chains)
    # One after the other, so that each has half of the time: it was that which ended them, and not sooner.
    assert min(stats["seconds"] for stats in model.trace_.stats) >= 0.6
    assert np.isfinite(model.score(curve()))
    loaded = SigmoidNetwork.load(tmp_path / "run")
    assert same_draws(loaded.trace_, model.trace_)
    np.testing.assert_array_equal(loaded.score_samples(curve()), model.score_samples(curve()))
    assert loaded.impute([[0.0, np.nan]], draws=2).mean.shape == (1, 2)
    longer = chefs.resume(tmp_path / "run", minutes=0.03, progress=False)
    assert len(longer) > len(loaded.trace_)
    np.testing.assert_array_equal(SigmoidNetwork.load(tmp_path / "run").mean_, model.mean_)


def test_a_start_by_gradient_takes_its_share_of_the_time():
    """Of an hour that two chains share, one after the other: 35 % of half of it."""
    low = np.zeros(2)
    timed = tiny(start="gradient", minutes=60.0, max_hidden=3, chains=2)
    assert timed._start(low, 2000) == GradientStart(3, seconds=630.0)
    for temperatures in (3, np.int64(3), [1, 2, 4], np.array([1.0, 2.0, 4.0])):
        hot = clone(timed).set_params(temperatures=temperatures)
        assert hot._start(low, 2000) == GradientStart(3, seconds=210.0)  # three copies, each with its own start
    assert tiny(start="gradient")._start(low, 2000) == GradientStart()
    own = clone(timed).set_params(start=GradientStart(2, seconds=5.0))
    assert own._start(low, 2000) == GradientStart(2, seconds=5.0)
    assert own.set_params(start=GradientStart(2))._start(low, 2000) == GradientStart(2, seconds=630.0)
    sizes = {n: tiny(start="gradient")._start(low, n).sizes for n in (10, 300, 400, 500, 800, 10**6)}
    assert sizes == {10: (5,), 300: (6,), 400: (8,), 500: (10,), 800: (8, 16), 10**6: (8, 40)}
    assert tiny(start="gradient", max_hidden=np.int64(20))._start(low, 2000).sizes == (8, 20)
    assert tiny(start="gradient", max_hidden=1)._start(low, 2000).sizes == (1,)
    assert tiny(start="gradient")._start(np.array([0.0, 1.0]), 2000).sizes == (8, 40)
    assert tiny(start="gradient")._start(np.array([0.0, math.nan]), 2000) is None
    assert tiny(start="gradient", max_hidden=0)._start(low, 2000) is None
    fitted = tiny(start=GradientStart(3, 20), warmup=0, draws=1).fit(curve())
    assert fitted.trace_.n_edges[0] > 3
    assert same_draws(*(tiny(start=start).fit(curve()).trace_ for start in (None, "empty")))


def test_load_says_what_is_not_a_model(tmp_path):
    kernel = chefs.PriorKernel(ChefsProcess(), 2)
    chefs.sample(np.random.default_rng(0), kernel, draws=1, chains=1, progress=False, checkpoint=tmp_path / "other")
    with pytest.raises(ValueError, match="does not hold a SigmoidNetwork"):
        SigmoidNetwork.load(tmp_path / "other")


def test_every_move_is_accounted_for():
    (stats,) = tiny().fit(curve()).trace_.stats
    assert tuple(stats["moves"]) == MOVES
    assert all(0 <= move["accepted"] <= move["made"] and move["seconds"] > 0 for move in stats["moves"].values())
    assert stats["seconds"] > 0
    without = tiny(moves=("edge", "order", "precision")).fit(curve()).trace_
    assert set(without.stats[0]["moves"]) == {"edge", "order", "precision"} and without.n_hidden.max() == 0
    assert all(np.ptp(without.scalar(name)) == 0 for name in ("alpha", "gamma", "phi"))  # they stay where they start
    assert "weighted edge" in tiny(moves="paper").fit(curve()).trace_.stats[0]["moves"]


def test_hyperparameters_that_do_not_move_are_not_said_to_be_learnt():
    def learnt(**options):
        kernel = NetworkKernel(ChefsProcess(), [0.0], np.zeros((3, 1)), **options)
        return asked(kernel, Plan(draws=1, warmup=1, thin=1), 7)["hyperpriors"] is not None

    assert learnt() and learnt(moves="paper")
    assert not learnt(moves=("edge", "precision")) and not learnt(hyperpriors=None)


def test_tempered_chains_swap_and_the_coldest_is_drawn_from(tmp_path):
    holes = curve()
    holes[::7, 1] = np.nan
    options = {
        "temperatures": [1, 1.1, 1.25],
        "max_hidden": 3,
        "draws": 150,
        "random_state": 1,
        "warmup": 25,
        "checkpoint": tmp_path / "run",
    }
    model = tiny(**options).fit(holes)
    (stats,) = model.trace_.stats
    assert [stats["powers"][0], stats["powers"][-1]] == [1.0, 0.8] and len(stats["swap_rates"]) == 2
    assert all(
        0 < stats["moves"][f"swap {pair}"]["accepted"] <= stats["moves"][f"swap {pair}"]["made"] for pair in (0, 1)
    )
    assert {"edge", "birth", "hamiltonian"} <= set(stats["moves"])
    assert Run.of(model).options()["tempering"] == "3 temperatures, a copy of each chain at each"
    times = [move["seconds"] for move in stats["moves"].values()]
    assert min(times) > 0 and sum(times) < stats["seconds"]
    assert (
        np.isfinite(model.score_samples(holes)).all() and np.isfinite(model.impute(draws=3, random_state=0).mean).all()
    )
    longer = chefs.resume(tmp_path / "run", draws=170, n_jobs=1, progress=False)
    assert same_draws(longer, tiny(**{**options, "draws": 170, "checkpoint": None}).fit(holes).trace_)


def test_a_swap_leaves_the_step_size_where_it_is():
    kernel = NetworkKernel(ChefsProcess(), [0.0, 0.0], curve())
    one, two = (kernel.init(np.random.default_rng(seed))._replace(log_step=-float(seed)) for seed in (1, 2))
    here, there = kernel.swapped(one, two)
    assert here.network is two.network and there.network is one.network
    assert (here.log_step, there.log_step) == (-1.0, -2.0)


def test_activations_are_kept_where_they_are_asked_for(tmp_path):
    """Rows of points for every node: those of observed nodes are the scaled data, and gaps are filled."""
    holes = curve()
    holes[::7, 1] = np.nan
    model = tiny(keep_activations=True, checkpoint=tmp_path / "run", draws=20, warmup=20).fit(holes)
    (chain,) = model.trace_.chains
    kept, z = chain.node["activation"], (holes - model.mean_) / model.scale_
    assert kept.shape == (chain.dags.order.size, 60) and np.isfinite(kept).all() and chain.dags.n_hidden.max() > 0
    for start in chain.dags.node_start[:-1]:
        for column in (0, 1):
            seen = ~np.isnan(z[:, column])
            np.testing.assert_allclose(kept[start + column, seen], z[seen, column], rtol=1e-12)
    gaps = kept[chain.dags.node_start[:-1] + 1][:, np.isnan(z[:, 1])]
    assert (gaps.std(axis=0) > 0).all()
    plain = tiny(draws=20, warmup=20).fit(holes).trace_
    assert "activation" not in plain.chains[0].node  # and keeping them changes no draw
    np.testing.assert_array_equal(plain.chains[0].node["bias"], chain.node["bias"])
    some = model.trace_[0, 3:5].chains[0]
    np.testing.assert_array_equal(some.node["activation"], kept[chain.dags.node_start[3] : chain.dags.node_start[5]])
    back = chefs.Trace.from_xarray(model.trace_.to_xarray())
    for trace in (back, chefs.Trace.load(tmp_path / "run")):
        np.testing.assert_array_equal(trace.chains[0].node["activation"], kept)


BAD = {
    "a constant column": (lambda x: np.insert(x, 1, 3.0, axis=1), "column 1 of X has one value in all rows"),
    "constant where seen": (lambda x: np.insert(x, 2, [3.0, math.nan] * 30, axis=1), "column 2 of X has one value"),
    "one row": (lambda x: x[:1], "minimum of 2 is required"),
    "an infinity": (lambda x: np.append(x, [[math.inf, 0]], axis=0), "column 0 of X has an infinite value"),
    "strings": (lambda x: x.astype(str).astype(object), "column 0 of X holds text"),
    "a column of strings": (lambda x: pd.DataFrame({"a": x[:, 0], "b": ["low"] * 60}), "column b of X holds text"),
    "a list with text": (lambda x: [[a, "high"] for a, _ in x.tolist()], "column 1 of X holds text"),
    "dates": (
        lambda x: pd.DataFrame({"a": x[:, 0], "b": pd.date_range("2020", periods=60)}),
        "column b of X holds dates",
    ),
    "dates in zones": (
        lambda x: pd.DataFrame({"a": x[:, 0], "b": pd.date_range("2020", periods=60, tz="UTC")}),
        "column b of X holds dates",
    ),
    "durations": (lambda x: x.astype("m8[s]"), "column 0 of X holds dates"),
    "text beside numbers of the same name": (
        lambda x: pd.DataFrame([["low", a] for a in x[:, 0]], columns=["a", "a"]),
        "column a of X holds text",
    ),
    "an empty column": (lambda x: np.insert(x, 1, math.nan, axis=1), "column 1 of X has no values at all"),
    "numbers too large": (lambda x: x * [8e307, 1], "column 0 of X has numbers too large"),
    "one dimension": (lambda x: x[:, 0], "Expected 2D array"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_are_explained(name):
    make, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence):
        tiny().fit(make(curve()))


def test_a_fit_that_fails_leaves_what_was_learnt_before(monkeypatch):
    new = tiny()
    with pytest.raises(ValueError, match="one value in all rows"):
        new.fit(np.insert(curve(), 1, 3.0, axis=1))
    with pytest.raises(NotFittedError):
        new.sample(3)
    model = tiny().fit(curve())
    before = model.score(curve(1))
    wider = np.insert(curve(), 1, curve()[:, 0] ** 2, axis=1)
    with pytest.raises(ValueError, match="infin"):
        model.fit(np.where(wider == wider[3, 1], np.inf, wider))
    monkeypatch.setattr("chefs.network.estimator.sample", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(wider)
    assert model.n_features_in_ == 2 and model.score(curve(1)) == before


def interrupted(*given, **options):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"start": "warm"}, "start must be 'gradient', 'empty' or a network"),
        ({"draws": 0}, "draws must be a whole number, at least 1"),
        ({"chains": 0}, "chains must be a whole number, at least 1"),
        ({"minutes": -1.0}, "minutes must be positive"),
        ({"random_state": "seven"}, "random_state must be None, a seed or a generator"),
        ({"moves": ("leap",)}, "moves must be"),
        ({"orders": 2.0}, r"\[0, 1\]"),
        (
            {"orders": None},
            "orders must be a number, or one for each of the 2 columns of X, nan where free; found None",
        ),
        ({"orders": [0.0, None]}, "orders must be a number"),
        ({"orders": "1"}, "orders must be a number"),
        ({"orders": [0.0, math.nan], "prior": "cibp"}, "a buffet has its observed columns at order 0, none is free"),
        ({"required": [("dose", "effect")]}, "required"),
        ({"required": [0]}, r"required must be a list of pairs \(parent, child\); found \[0\]"),
        ({"forbidden": None}, r"forbidden must be a list of pairs \(parent, child\); found None"),
        (
            {"prior": "ICP"},
            "prior must be a ChefsProcess, a buffet, 'icp', 'cibp', 'ecibp', 'ibp' or None; found 'ICP'",
        ),
        ({"moves": 3}, "moves must be None, 'paper' or a list of names of moves; found 3"),
        ({"moves": [["edge"]]}, "moves must be None, 'paper' or a list of names"),
        ({"max_hidden": "3", "start": "gradient"}, "max_hidden must be a whole number, at least 0; found '3'"),
        ({"max_hidden": "3"}, "max_hidden must be"),
        ({"n_jobs": "a"}, "n_jobs must be None or a whole number other than 0; found 'a'"),
        ({"start": 3}, "start must be"),
        ({"warmup": -1}, "warmup must be a whole number, at least 0"),
        ({"temperatures": 1}, "temperatures must be at least 2 copies"),
        ({"temperatures": [1, 1], "start": "gradient", "minutes": 1}, "temperatures must be a number of copies"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_settings_are_explained(options, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        tiny(**options).fit(curve())


def test_bad_questions_are_explained():
    model = tiny().fit(curve())
    for call in (model.score_samples, model.transform, model.impute):
        with pytest.raises(ValueError, match="X has 3 features, but SigmoidNetwork is expecting 2"):
            call(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        model.sample(0)
    with pytest.raises(ValueError, match="draws must be a whole number"):
        model.impute(curve(), draws=1.5)
    with pytest.raises(ValueError, match="effort must be a whole number"):
        model.score_samples(curve(), effort=0)
    for seed in (-1, None, "x"):
        with pytest.raises(ValueError, match="seed must be a whole number, at least 0"):
            model.score_samples(curve(), seed=seed)
    with pytest.raises(ValueError, match="method must be"):
        model.score_samples(curve(), method="magic")
    with pytest.raises(ValueError, match="n_jobs must be None or a whole number"):
        model.set_params(n_jobs="a").score_samples(curve())


def test_zeros_and_ones_give_a_warning():
    x = np.column_stack([curve(), np.arange(60) % 2])
    with pytest.warns(UserWarning, match="column 2 of X holds only 0 and 1, but the model is continuous"):
        tiny().fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny().fit(x + np.array([0, 0, 1]))  # ones and twos may be anything


def adversarial():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    return {
        "heavy tails": 1e6 * rng.standard_cauchy((80, 2)) ** 3,
        "one outlier": np.column_stack([x[:, 0], np.append(x[1:, 1], 1e6)]),
        "duplicated rows": np.repeat(x[:2], 40, axis=0),
        "exact collinearity": np.column_stack([x, x[:, 0] - 2 * x[:, 1], 3 * x[:, 0]]),
        "more columns than rows": rng.normal(size=(3, 8)),
        "a spike and an outlier": np.append(np.zeros((79, 2)) + 1e-9 * x[:79], [[1e6, -1e6]], axis=0),
        "hardly anything seen": np.where(rng.random((80, 3)) < 0.9, np.nan, rng.normal(size=(80, 3))),
    }


def check_finite_after(model, x):
    """That the trace of a fit, and all that the model says about its table, is finite."""
    (chain,) = model.fit(x).trace_.chains
    for values in (*chain.scalars.values(), *chain.node.values(), *chain.edge.values()):
        assert np.isfinite(values).all()
    for method in ("walks", "annealed"):
        assert np.isfinite(model.score_samples(x, method=method)).all()
    assert np.isfinite(model.sample(50, random_state=0)).all()
    holes = np.where(np.arange(x.shape[1]) == 0, np.nan, x)
    filled = model.impute(holes, draws=5, random_state=0)
    assert np.isfinite(filled.draws[:, ~np.isnan(x)]).all() and np.isfinite(filled.mean[~np.isnan(x)]).all()
    assert np.isfinite(model.transform(x)).all()


@pytest.mark.parametrize("name", adversarial())
def test_adversarial_tables_end_with_finite_numbers(name):
    check_finite_after(tiny(draws=40, warmup=40, prior=ChefsProcess(1.0, 3.0, 1.0)), adversarial()[name])


@pytest.mark.parametrize("name", adversarial())
@pytest.mark.parametrize(
    "options",
    [{"start": "gradient"}, {"orders": math.nan}, {"moves": "paper", "orders": math.nan}],
    ids=["the usual start", "columns as parents", "the paper's moves"],
)
def test_adversarial_tables_end_with_finite_numbers_whatever_is_asked(name, options):
    check_finite_after(tiny(draws=40, warmup=40, **options), adversarial()[name])


def test_importing_chefs_does_not_load_scikit_learn():
    import subprocess
    import sys

    code = "import sys, chefs; assert not {'sklearn', 'pandas', 'numba'} & set(sys.modules); chefs.SigmoidNetwork"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
