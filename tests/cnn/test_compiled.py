"""The compiled loops against the network in PyTorch, forward and backward."""

import numpy as np
import pytest
import torch

from chefs import ChefsProcess
from chefs._core import convolution
from chefs.cnn import CompiledTrainer, EagerTrainer, Network, Settings, Shape, compiled, plan_of
from chefs.cnn.training import initial_weights
from chefs.images import Images
from tests.cnn.test_eager import BRIEF, DIGITS, some_plans
from tests.cnn.test_plan import some_dags

SMALL = Shape(11, 4, 2)


def farthest(dags, shape, n=21):
    """The largest difference between ours and PyTorch's, of logits and of gradients, over the largest of each."""
    rng, worst = np.random.default_rng(0), {"logits": 0.0, "gradients": 0.0}
    for number, dag in enumerate(dags):
        x = rng.random((n, shape.in_channels, shape.image_side, shape.image_side), np.float32)
        images = Images(x, rng.integers(0, shape.n_classes, n), x[:0], np.zeros(0, np.int64))
        plan = plan_of(dag, shape)
        weights = initial_weights(plan, number)
        network = Network.from_plan(plan, weights=weights)
        ours, theirs = logits(plan, weights, x), network(torch.from_numpy(x)).detach().numpy()
        worst["logits"] = max(worst["logits"], distance(ours, theirs))
        for ours, theirs in zip(
            CompiledTrainer(images, Settings()).gradient(plan, weights, np.arange(n)),
            EagerTrainer(images, Settings()).gradient(plan, weights, np.arange(n)),
            strict=True,
        ):
            assert ours.shape == theirs.shape
            worst["gradients"] = max(worst["gradients"], distance(ours, theirs))
    return worst


def logits(plan, weights, x):
    program, room = compiled.program_of(plan)
    flat = np.concatenate([w.ravel() for w in weights])
    return convolution.logits_of(program, flat, x, np.zeros(room, np.float32))


def distance(ours, theirs):
    return float(np.abs(ours - theirs).max(initial=0) / max(1.0, np.abs(theirs).max(initial=0)))


def test_the_loops_are_the_network_forward_and_backward():
    """A hundred random graphs, a few of them large, and more images than lie side by side, or fewer."""
    dags = some_dags(90, 7) + some_dags(10, 8, ChefsProcess(1.0, 6.0, 5.0))
    assert max(farthest(dags[:10], Shape(), 3).values()) < 1e-5
    assert max(farthest(dags, SMALL).values()) < 1e-5


WRONG = {  # name of a loop, what it is replaced by, and what that must be seen in
    "kernels that are not turned": ("turned", lambda k: np.ascontiguousarray(k.transpose(1, 0, 2)), "gradients"),
    "no gradient through averages": ("spread", lambda large, small: None, "gradients"),
    "gradients one row off": ("correlate", lambda k, s, m: CORRELATE(k, s, np.roll(m, 1, axis=1)), "gradients"),
    "averages left out": ("average", lambda small, large: None, "logits"),
    "mirrored kernels": ("convolve", lambda out, m, k: CONVOLVE(out, m, np.ascontiguousarray(k[:, :, ::-1])), "logits"),
    "nothing": ("convolve", lambda out, m, k: CONVOLVE(out, m, k), None),
}
CONVOLVE, CORRELATE = convolution.convolve, convolution.correlate


@pytest.mark.parametrize("what", WRONG)
def test_the_comparison_sees_a_loop_that_is_wrong(what, monkeypatch):
    """Negative controls: what calls the loops runs as plain Python, with one of them replaced."""
    name, wrong, seen = WRONG[what]
    for caller in ("forward", "backward", "logits_of", "gradient_into"):
        monkeypatch.setattr(convolution, caller, getattr(convolution, caller).py_func)
    monkeypatch.setattr(compiled, "gradient_into", convolution.gradient_into)
    monkeypatch.setattr(convolution, name, wrong)
    dag = next(dag for dag in some_dags(50, 9) if 3 <= plan_of(dag, SMALL).n_hidden <= 4)
    worst = farthest([dag], SMALL)
    assert worst[seen] > 1e-3 if seen else max(worst.values()) < 1e-5


def test_both_trainers_come_to_the_same():
    plans = some_plans(6)
    plain, ours = (make(DIGITS, BRIEF).train(plans, range(6)) for make in (EagerTrainer, CompiledTrainer))
    for a, b in zip(plain, ours, strict=True):
        assert b.evidence == pytest.approx(a.evidence, rel=1e-3)
        np.testing.assert_allclose(b.probabilities, a.probabilities, atol=5e-3)


def test_images_of_any_type_are_taken():
    x = np.asfortranarray(DIGITS.train_x.astype(np.float64))
    x.flags.writeable = False
    odd = DIGITS._replace(train_x=x, train_y=DIGITS.train_y.astype(np.uint8))
    one, other = (CompiledTrainer(images, BRIEF).train(some_plans(1), [0])[0] for images in (DIGITS, odd))
    assert one.evidence == other.evidence


def test_the_cores_that_the_process_may_use_are_taken(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {1, 4, 5}, raising=False)
    assert CompiledTrainer(DIGITS, Settings()).n_jobs == 3
    assert CompiledTrainer(DIGITS, Settings(), n_jobs=2).n_jobs == 2


def test_without_numba_pytorch_trains(monkeypatch):
    assert isinstance(compiled.cpu_trainer(DIGITS, BRIEF), CompiledTrainer)
    monkeypatch.setattr(compiled, "COMPILED", False)
    assert isinstance(compiled.cpu_trainer(DIGITS, BRIEF), EagerTrainer)
