import math

import numpy as np
import pytest
import torch

from chefs.cnn import CompiledTrainer, EagerTrainer, Network, Settings, Shape, plan_of
from chefs.cnn.training import initial_weights, minibatches, weight_shapes
from chefs.images import load, scaled
from tests.cnn.test_plan import some_dags
from tests.helpers import refused

DIGITS = scaled(load("digits"))
SHAPE = Shape(8, 10)
BRIEF = Settings(n_steps=12, rate=0.01)


def some_plans(n, seed=0, least=2):
    plans = dict.fromkeys(plan_of(dag, SHAPE) for dag in some_dags(20 * n, seed))
    return [plan for plan in plans if plan.n_hidden >= least][:n]


@pytest.mark.parametrize("make", [EagerTrainer, CompiledTrainer])
def test_a_result_does_not_depend_on_what_else_is_trained(make):
    plans = some_plans(4)
    together = make(DIGITS, BRIEF).train(plans, [5, 6, 7, 8])
    for j in (2, 0):
        alone = make(DIGITS, BRIEF).train([plans[j]], [5 + j])[0]
        assert alone.evidence == together[j].evidence
        np.testing.assert_array_equal(alone.probabilities, together[j].probabilities)
    other = make(DIGITS, BRIEF).train([plans[0]], [9])[0]
    assert other.evidence != together[0].evidence


@pytest.mark.parametrize("make", [EagerTrainer, CompiledTrainer])
def test_training_is_adam_on_the_minibatches_of_the_seed(make):
    """The whole of it again, by hand, in double precision."""
    plan = some_plans(1)[0]
    settings = Settings(n_steps=6, batch=50, rate=0.02, decay="cosine")
    network = Network.from_plan(plan, 3).double()
    x, y = torch.from_numpy(DIGITS.train_x).double(), torch.from_numpy(DIGITS.train_y)
    weights = list(network.parameters())
    m, v = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    for t, batch in enumerate(minibatches(3, len(x), settings), start=1):
        loss = torch.nn.functional.cross_entropy(network(x[batch]), y[batch])
        rate = 0.02 * 0.5 * (1 + math.cos(math.pi * (t - 1) / 6))
        for j, g in enumerate(torch.autograd.grad(loss, weights)):
            m[j] = 0.9 * m[j] + 0.1 * g
            v[j] = 0.999 * v[j] + 0.001 * g * g
            step = m[j] / (1 - 0.9**t) / ((v[j] / (1 - 0.999**t)).sqrt() + 1e-8)
            weights[j].data -= rate * step
    for ours, theirs in zip(make(DIGITS, settings).fit(plan, 3), network.weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("make", [EagerTrainer, CompiledTrainer])
def test_evidence_is_the_log_likelihood_of_all_training_images(make):
    trainer, plan = make(DIGITS, BRIEF), some_plans(1)[0]
    weights = trainer.fit(plan, 0)
    result, network = trainer.result(plan, weights), Network.from_plan(plan, weights=weights)
    rows = network.predict_proba(DIGITS.train_x).astype(np.float64)
    assert result.evidence == pytest.approx(np.log(rows[np.arange(len(rows)), DIGITS.train_y]).sum(), rel=1e-4)
    assert result.train_accuracy == (rows.argmax(axis=1) == DIGITS.train_y).mean()
    np.testing.assert_allclose(result.probabilities, network.predict_proba(DIGITS.test_x), atol=1e-6)


def test_training_helps():
    trainer = CompiledTrainer(DIGITS, Settings(n_steps=150, rate=0.02, decay="cosine"))
    plan = max(some_plans(10, least=3), key=lambda plan: plan.depth)
    result = trainer.train([plan], [0])[0]
    assert result.train_accuracy > 0.7
    assert (result.probabilities.argmax(axis=1) == DIGITS.test_y).mean() > 0.6


@pytest.mark.parametrize("make", [EagerTrainer, CompiledTrainer])
def test_a_training_that_diverges_is_impossible_not_an_error(make):
    result = make(DIGITS, Settings(n_steps=5, rate=1e30)).train(some_plans(1), [0])[0]
    assert result.evidence == -math.inf
    assert (result.probabilities == np.float32(0.1)).all()


def test_minibatches_are_passes_in_new_orders():
    batches = minibatches(0, 10, Settings(n_steps=7, batch=3))
    assert batches.shape == (7, 3)
    for first in (0, 3):
        assert len(set(batches[first : first + 3].ravel().tolist())) == 9
    assert not (batches[:3] == batches[3:6]).all()
    assert minibatches(0, 4, Settings(n_steps=2, batch=100)).shape == (2, 4)
    assert not (minibatches(1, 10, Settings(n_steps=7, batch=3)) == batches).all()


def test_initial_weights_have_their_variances():
    plan = some_plans(1)[0]
    drawn = [initial_weights(plan, seed) for seed in range(200)]
    for j, shape in enumerate(weight_shapes(plan)[:-1]):
        values = np.array([weights[j] for weights in drawn])
        assert values.shape[1:] == shape
        wanted = 2 / (9 * shape[1]) if len(shape) == 4 else 1 / shape[1]
        assert values.var() == pytest.approx(wanted, rel=0.05)
    assert not np.array([weights[-1] for weights in drawn]).any()


@pytest.mark.parametrize(
    "name, value", [("n_steps", 0), ("batch", 1.5), ("rate", -1.0), ("rate", math.inf), ("decay", "linear")]
)
def test_settings_refuse_nonsense(name, value):
    with refused(name):
        Settings(**{name: value}).checked()
