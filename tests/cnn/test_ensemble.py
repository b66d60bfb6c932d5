import numpy as np
import pytest

import chefs
from chefs.cnn import ArchitectureSearch, CompiledTrainer, Settings, ensemble
from chefs.cnn.archive import Archive
from chefs.cnn.ensemble import members, score
from chefs.cnn.plan import Plan
from chefs.draws import ChainDraws
from chefs.experiments import architectures
from chefs.images import load, scaled, scaled_pixels
from chefs.storage import RunError
from tests.helpers import refused

PLAN = Plan(((), (0,)), (8, 0), (1, 10))
DIGITS = load("digits")


def test_scores_by_hand():
    rows = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.35, 0.65]])
    accuracy, error = score(rows, np.array([0, 1, 1, 1]))
    assert accuracy == 0.75
    # 0.9 twice, one of them right; 0.6 and 0.65 in the same bin of width 1/15? 0.6 in [9/15, 10/15), and so is 0.65
    assert error == pytest.approx(0.5 * abs(0.5 - 0.9) + 0.5 * abs(1 - 0.625))
    assert score(np.eye(3)[[0, 1, 2]], np.array([0, 1, 2])) == (1.0, 0.0)


def test_calibrated_labels_have_a_small_error_and_overconfident_ones_a_large_one():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1.0, 50_000)
    rows = np.stack([1 - p, p], axis=1)
    labels = (rng.random(50_000) < p).astype(int)
    assert score(rows, labels).calibration_error < 0.01
    sharper = rows**3 / (rows**3).sum(axis=1, keepdims=True)
    assert score(sharper, labels).calibration_error > 0.1


def test_an_archive_keeps_probabilities_on_disk(tmp_path):
    rows = np.random.default_rng(0).dirichlet(np.ones(10), 6).astype(np.float32)
    Archive(tmp_path / "a").keep(PLAN, -1.5, rows)
    other = Archive(tmp_path / "a")
    np.testing.assert_allclose(other.find(PLAN, -1.5), rows, atol=1e-3)
    assert other.find(PLAN, -1.25) is None
    assert other.find(PLAN._replace(sides=(9, 0)), -1.5) is None
    assert Archive().find(PLAN, -1.5) is None
    assert Archive(tmp_path / "a", DIGITS.test_x).find(PLAN, -1.5) is None  # said about other images
    assert [path.suffix for path in (tmp_path / "a").iterdir()] == [".npy"]


def test_an_archive_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        Archive(tmp_path / "file").keep(PLAN, -1.5, np.ones((1, 10)))


@pytest.fixture(scope="module")
def searched():
    settings = Settings(n_steps=8, rate=0.02)
    search = ArchitectureSearch(DIGITS, chefs.ChefsProcess(1, 3, 5), settings=settings, n_moves=4, device="cpu")
    return search, chefs.sample(np.random.default_rng(0), search, draws=12, chains=2, progress=False)


def test_the_ensemble_is_the_mean_over_draws(searched):
    search, trace = searched
    found = members(search, trace)
    assert sum(found.values()) == 24 and len(found) > 3
    rows = [search.networks.get(plan).probabilities.astype(float) for (plan, _), n in found.items() for _ in range(n)]
    np.testing.assert_allclose(search.predict_proba(trace), np.mean(rows, axis=0), atol=1e-3)
    result = search.assess(trace)
    accuracies = [(row.argmax(axis=1) == DIGITS.test_y).mean() for row in rows]
    assert result.mean.accuracy == pytest.approx(np.mean(accuracies), abs=2e-3)
    assert result.mean.accuracy == pytest.approx(trace.scalar("accuracy").mean(), abs=2e-3)
    assert result.best.accuracy == pytest.approx(max(accuracies), abs=2e-3)
    assert result.ensemble.accuracy == pytest.approx(
        (np.mean(rows, axis=0).argmax(axis=1) == DIGITS.test_y).mean(), abs=2e-3
    )


def test_new_images_are_predicted_by_networks_trained_again(searched):
    search, trace = searched
    again = search.predict_proba(trace[:, -3:], DIGITS.test_x[:20])
    np.testing.assert_allclose(again, search.predict_proba(trace[:, -3:])[:20], atol=5e-3)
    np.testing.assert_allclose(again.sum(axis=1), 1, rtol=1e-3)
    with refused("images must", "(images, 1, 8, 8)", "(3, 9, 9)"):
        search.predict_proba(trace, np.zeros((3, 9, 9)))
    with refused("images has pixels that are not finite"):
        search.predict_proba(trace, np.full((3, 8, 8), np.nan))
    with refused("no draws"):
        search.predict_proba(trace[:, :0])


def test_networks_are_trained_again_by_the_trainer_of_the_search(searched):
    """The plain trainer adds up in another order, and so comes to other weights."""
    search, trace = searched
    last, new = trace[:, -3:], scaled(DIGITS)._replace(test_x=scaled_pixels(DIGITS.train_x[:20]))
    found = members(search, last)
    plans, counts = [plan for plan, _ in found], list(found.values())
    trained = CompiledTrainer(new, search.settings).train(plans, [plan.seed(search.seed) for plan in plans])
    wanted = np.average([one.probabilities.astype(float) for one in trained], axis=0, weights=counts)
    np.testing.assert_allclose(search.predict_proba(last, DIGITS.train_x[:20]), wanted, rtol=1e-9)
    assert {one.evidence for one in trained} == {evidence for _, evidence in found}


def test_a_trainer_of_ones_own_sees_no_new_images(searched):
    search, trace = searched
    own = ArchitectureSearch(DIGITS, settings=search.settings, trainer=search.make_trainer(), device="cpu")
    with refused("images", "trainer"):
        own.predict_proba(trace, DIGITS.test_x[:2])


def test_a_chain_without_draws_is_passed_over(searched):
    """A run that is stopped early may have such chains, which do not know the names of scalars."""
    search, trace = searched
    empty = ChainDraws.from_draws(2, [])
    for chains in ([trace.chains[0], empty], [empty, trace.chains[0]]):
        mixed = chefs.Trace(chains, [{}, {}], trace.names)
        np.testing.assert_array_equal(mixed.scalar("accuracy"), trace[0].scalar("accuracy"))
        assert members(search, mixed) == members(search, trace[0])
        assert search.assess(mixed) == search.assess(trace[0])
        numbers = architectures.summary(search, mixed)
        assert sum(numbers["n_draws"]) == 12 and len(numbers["columns"]["depth"]) == 12
    with pytest.raises(KeyError, match="this trace has: none"):
        chefs.Trace([empty, empty], [{}, {}], trace.names).scalar("accuracy")


def test_of_equally_accurate_members_the_best_is_the_best_calibrated(searched, monkeypatch):
    search, trace = searched
    right = np.eye(10)[DIGITS.test_y]
    rows = [0.8 * right + 0.02, 0.9 * right + 0.01, 0.7 * right + 0.03]
    monkeypatch.setattr(ensemble, "_member_probabilities", lambda *_: iter([(row, 1) for row in rows]))
    assert search.assess(trace).best == score(rows[1], DIGITS.test_y)
