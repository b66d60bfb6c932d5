import io
import subprocess
import sys

import numpy as np
import pytest
import torch

from chefs import ChefsProcess, Dag
from chefs.cnn import EagerTrainer, Network, Settings, Shape, plan_of
from chefs.cnn.network import averaging, checked_device
from chefs.cnn.plan import plan_and_nodes
from chefs.images import Images
from tests.cnn import literal
from tests.cnn.test_plan import OBSERVED, some_dags
from tests.helpers import refused

CHAIN = Dag([[0, 0, 1], [0, 0, 0], [0, 1, 0]], [1.0, 0.0, 0.5], 2)
NO_PATH = Dag([[0, 0], [0, 0]], OBSERVED, 2)


def both(dag, images, **sizes):
    """Logits and gradients of weights by the network and by the literal formulas, edge by edge."""
    network = Network(dag, **sizes)
    shape = Shape(*(sizes.get(n, d) for n, d in (("image_side", 28), ("n_classes", 3), ("in_channels", 1))))
    _, nodes = plan_and_nodes(dag.order, *np.nonzero(dag.edges), shape)
    plan = network.plan
    kernels, vectors = {}, {}
    for j, above in enumerate(plan.parents[1:], start=1):
        weights = [*network.kernels, network.linear][j - 1].detach()
        parts = weights.split([plan.channels[p] for p in above], dim=1) if above else []
        for p, part in zip(above, parts, strict=True):
            part = part.clone().requires_grad_()
            if nodes[j] == 1:
                vectors[nodes[p]] = part
            else:
                kernels[nodes[p], nodes[j]] = part
    bias = network.bias.detach().clone().requires_grad_()
    side_of = {i: shape.side(literal.bin_of(dag.order[i], 5)) for i in range(2, dag.n_nodes)}
    ours, theirs = network(images), literal.logits(dag, images, kernels, vectors, bias, side_of)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    gradients = []
    for j, above in enumerate(plan.parents[1:], start=1):
        edges = [vectors[nodes[p]] if nodes[j] == 1 else kernels[nodes[p], nodes[j]] for p in above]
        if edges:
            ours_grad = [*network.kernels, network.linear][j - 1].grad
            gradients.append((ours_grad, torch.cat([edge.grad for edge in edges], dim=1)))
    return ours, theirs, [*gradients, (network.bias.grad, bias.grad)]


def test_the_fused_network_is_the_literal_one_forward_and_backward():
    """A hundred random graphs, a few of them large, with nodes that the input does not reach."""
    rng = np.random.default_rng(0)
    dags = some_dags(90, 7) + some_dags(10, 8, ChefsProcess(1.0, 6.0, 5.0))
    assert any(plan_of(dag, Shape()).n_hidden < dag.n_hidden for dag in dags)
    assert max(plan_of(dag, Shape()).n_hidden for dag in dags) >= 12
    for number, dag in enumerate(dags):
        side, channels, classes = (11, 2, 4) if number % 10 else (28, 1, 3)
        images = torch.from_numpy(rng.random((2, channels, side, side), np.float32))
        ours, theirs, gradients = both(dag, images, image_side=side, in_channels=channels, n_classes=classes)
        assert ours.shape == (2, classes)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        for ours_grad, theirs_grad in gradients:
            scale = max(1.0, float(theirs_grad.abs().max()))
            torch.testing.assert_close(ours_grad / scale, theirs_grad / scale, rtol=1e-5, atol=1e-5)


def test_the_comparison_sees_a_wrong_pooling(monkeypatch):
    """A negative control: the largest pixel of each window instead of the mean."""
    monkeypatch.setattr(
        Network, "_average", lambda self, maps, side: torch.nn.functional.adaptive_max_pool2d(maps, side)
    )
    ours, theirs, _ = both(CHAIN, torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0)))
    assert float((ours - theirs).detach().abs().max()) > 1e-3


def test_gradients_are_those_of_finite_differences():
    dag = next(dag for dag in some_dags(50, 9) if plan_of(dag, Shape()).n_hidden == 3)
    network = Network(dag, image_side=6, seed=1).double()
    images = torch.rand(2, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)

    def logits(images, *values):
        named = dict(zip([name for name, _ in network.named_parameters()], values, strict=True))
        return torch.func.functional_call(network, named, (images,))

    assert torch.autograd.gradcheck(logits, (images, *network.parameters()))


@pytest.mark.parametrize("new", [20, 14, 10, 7, 1, 28])
def test_averaging_matrices_pool_like_torch(new):
    maps = torch.rand(3, 2, 28, 28)
    matrix = torch.from_numpy(averaging(28, new))
    torch.testing.assert_close(matrix @ maps @ matrix.T, torch.nn.functional.adaptive_avg_pool2d(maps, new))
    torch.testing.assert_close(literal.average(maps, new), matrix @ maps @ matrix.T)


def test_a_network_without_a_path_learns_the_class_frequencies():
    """600 images, a third, a sixth and a half of each label; they are noise."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [200, 100, 300])
    noise = rng.random((600, 1, 28, 28), np.float32)
    trainer = EagerTrainer(Images(noise, labels, noise[:5], labels[:5]), Settings(n_steps=400, batch=600, rate=0.05))
    result = trainer.train([plan_of(NO_PATH, Shape())], [0])[0]
    np.testing.assert_allclose(result.probabilities, np.tile([1 / 3, 1 / 6, 1 / 2], (5, 1)), atol=1e-3)
    entropy = -sum(p * np.log(p) for p in (1 / 3, 1 / 6, 1 / 2))
    assert result.evidence == pytest.approx(-600 * entropy, rel=1e-4)
    assert result.train_accuracy == 0.5


def test_weights_can_be_saved_and_loaded():
    dag = some_dags(5, 10)[3]
    one, other = Network(dag, seed=1), Network(dag, seed=2)
    images = torch.rand(4, 1, 28, 28)
    buffer = io.BytesIO()
    torch.save(one.state_dict(), buffer)
    buffer.seek(0)
    assert not torch.equal(one(images), other(images))
    other.load_state_dict(torch.load(buffer))
    assert torch.equal(one(images), other(images))
    whole = io.BytesIO()
    torch.save(one, whole)
    whole.seek(0)
    assert torch.equal(torch.load(whole, weights_only=False)(images), one(images))


def test_onnx_gives_the_same_logits_for_any_number_of_images(tmp_path):
    onnx = pytest.importorskip("onnx", reason="the extra chefs[onnx] is not installed")
    pytest.importorskip("onnxscript", reason="the extra chefs[onnx] is not installed")
    from onnx.reference import ReferenceEvaluator

    dag = next(dag for dag in some_dags(50, 11) if len(set(plan_of(dag, Shape()).sides)) >= 5)
    network = Network(dag)
    network.to_onnx(tmp_path / "network.onnx")
    model = ReferenceEvaluator(onnx.load(tmp_path / "network.onnx"))
    for n in (1, 5):
        images = torch.rand(n, 1, 28, 28)
        logits = model.run(["logits"], {"images": images.numpy()})[0]
        np.testing.assert_allclose(logits, network(images).detach().numpy(), atol=1e-5)


def test_predict_proba_gives_probabilities_in_batches_or_at_once():
    network = Network(some_dags(5, 10)[3])
    images = np.random.default_rng(0).random((7, 28, 28))
    rows = network.predict_proba(images, batch=3)
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(rows, network.predict_proba(images[:, None]), rtol=1e-5)


def test_whole_numbers_are_scaled_as_they_are_for_training():
    network = Network(some_dags(5, 10)[3])
    images = np.random.default_rng(0).integers(0, 256, (7, 28, 28), np.uint8)
    np.testing.assert_allclose(network.predict_proba(images), network.predict_proba(images / 255), rtol=1e-5)


def test_summary_counts_all_weights():
    for dag in some_dags(20, 12):
        network = Network(dag)
        total = sum(parameter.numel() for parameter in network.parameters())
        assert network.summary().endswith(f"\n{total} weights")
        assert total == network.plan.n_weights


@pytest.mark.parametrize("shape", [(4, 1, 27, 28), (4, 28, 28), (4, 3, 28, 28), (1, 28)])
def test_images_of_the_wrong_size_are_refused(shape):
    with refused("images must have the shape (images, 1, 28, 28)"):
        Network(CHAIN)(torch.zeros(shape))


def test_a_graph_that_is_no_network_is_refused():
    with refused("input at order 1"):
        Network(Dag([[0, 0], [0, 0]], [0.5, 0.0], 2))
    with refused("n_classes"):
        Network(CHAIN, n_classes=1)


def test_cuda_asked_for_and_absent_is_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with refused("device is 'cuda'", "device='cpu'"):
        checked_device("cuda")
    with refused("device must be"):
        checked_device("tpu")
    assert checked_device("auto") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for capability, device in (((9, 0), "cuda"), ((7, 5), "cpu")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda capability=capability: capability)
        assert checked_device("auto") == device


def test_without_torch_one_sentence_names_the_extra():
    program = (
        "import sys\nsys.modules['torch'] = None\nimport chefs.cnn\nfrom chefs.images import load\n"
        "for use in (lambda: chefs.cnn.Network, lambda: chefs.cnn.ArchitectureSearch(load('digits'))):\n"
        "    try:\n        use()\n    except ImportError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["networks need PyTorch: pip install 'chefs[cnn]'"] * 2, done.stderr


@pytest.mark.parametrize("n", [5, 1])
def test_layers_see_images_with_plain_strides(n, monkeypatch):
    """CUDA's averages go by the stride of the channels, even of one; NumPy gives a new axis the stride 0."""
    seen = []
    monkeypatch.setattr(Network, "logits", lambda self, images: seen.append(images))
    odd = torch.from_numpy(np.zeros((n, 28, 28), np.float32)[:, None])
    assert odd.stride(1) == 0
    Network(CHAIN)(odd)
    assert seen[0].stride() == (784, 784, 28, 1)
    assert seen[0].data_ptr() == odd.data_ptr()
