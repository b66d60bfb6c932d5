"""The stack of networks against plain PyTorch: on a GPU if there is one, and on the CPU with warps made of fibers."""

import ctypes
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra cnn")
from chefs.cnn import stacked, stacked_device, stacked_tables  # noqa: E402
from chefs.cnn.plan import Plan, Shape  # noqa: E402
from chefs.cnn.training import Images, Settings, initial_weights, minibatches  # noqa: E402
from tests.helpers import refused  # noqa: E402

SETTINGS = Settings(n_steps=3, batch=6, rate=0.01)
NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="the fibers need g++")


class FiberKernels:
    """The kernels compiled for the CPU by tests/cnn/warp.cpp."""

    def __init__(self, folder, text=None):
        source = Path(str(resources.files("chefs.cnn"))) / "stacked.cu"
        if text is not None:
            source = folder / "changed.cu"
            source.write_text(text, encoding="utf-8")
        target = folder / f"{source.stem}.so"
        flags = ["-O1", "-std=c++17", "-shared", "-fPIC", f'-DSTACKED="{source}"']
        subprocess.run(["g++", *flags, "-o", target, Path(__file__).with_name("warp.cpp")], check=True)
        self._launch = ctypes.CDLL(str(target)).launch

    def __call__(self, launch, arguments):
        self._launch(launch.kernel.encode(), ctypes.byref(arguments), launch.first, launch.n_blocks)


@pytest.fixture(scope="module", params=["fibers", "gpu"])
def machine(request, tmp_path_factory):
    """(kernels, device)"""
    if request.param == "gpu":
        if not torch.cuda.is_available():
            pytest.skip("there is no GPU here")
        return stacked_device.GpuKernels(torch.device("cuda")), torch.device("cuda")
    if shutil.which("g++") is None:
        pytest.skip("the fibers need g++")
    return FiberKernels(tmp_path_factory.mktemp("kernels")), torch.device("cpu")


def random_plan(rng, n_hidden, shape, density=0.5):
    """Layers that never grow from parent to child; some dead ends, and parents at other sides."""
    bins = np.sort(rng.integers(0, shape.n_bins, n_hidden)).tolist()
    parents = [()]
    for j in range(1, n_hidden + 1):
        above = tuple(np.flatnonzero(rng.random(j) < density).tolist())
        parents.append(above or (int(rng.integers(j)),))
    parents.append(tuple(np.flatnonzero(rng.random(n_hidden + 1) < density).tolist()))
    return Plan(
        tuple(parents),
        (shape.image_side, *map(shape.side, bins), 0),
        (shape.in_channels, *map(shape.channels, bins), shape.n_classes),
    )


def random_images(rng, shape, n_train=15, n_test=4):
    def draw(n):
        labels = rng.integers(0, shape.n_classes, n)
        pixels = rng.random((n, shape.in_channels, shape.image_side, shape.image_side), np.float32)
        return pixels + 0.3 * labels[:, None, None, None].astype(np.float32), labels

    return Images(*draw(n_train), *draw(n_test))


class Rounded(torch.autograd.Function):
    """Values, and slopes on the way back, in bfloat16."""

    @staticmethod
    def forward(ctx, x):
        return x.bfloat16().float()

    @staticmethod
    def backward(ctx, slope):
        return slope.bfloat16().float()


class RoundedWeights(torch.autograd.Function):
    """Values in bfloat16, slopes as they are."""

    @staticmethod
    def forward(ctx, x):
        return x.bfloat16().float()

    @staticmethod
    def backward(ctx, slope):
        return slope


def plain_logits(plan, weights, x, rounds):
    """The network as the formula has it, in float32; with `rounds`, maps and kernels are rounded as on the GPU."""
    pool, cast = torch.nn.functional.adaptive_avg_pool2d, (Rounded.apply if rounds else lambda v: v)
    maps, pooled, sources = [cast(x)], {}, {}
    for j in range(1, len(plan.parents) - 1):
        side = plan.sides[j]
        for p in plan.parents[j]:
            if (p, side) not in pooled:
                source = x if p == 0 else sources.setdefault(p, cast(maps[p]))
                pooled[p, side] = maps[p] if plan.sides[p] == side else cast(pool(source, side))
        kernel = RoundedWeights.apply(weights[j - 1]) if rounds else weights[j - 1]
        taken = torch.cat([pooled[p, side] for p in plan.parents[j]], 1)
        maps.append(cast(torch.relu(cast(torch.nn.functional.conv2d(taken, kernel, padding=1)))))
    means = [maps[p].mean((2, 3)) for p in plan.parents[-1]]
    return torch.cat([*means, x.new_zeros(len(x), 0)], 1) @ weights[-2].T + weights[-1]


def stack_of(plans, seeds, images, settings, machine):
    kernels, device = machine
    inputs = stacked.Inputs(images, device)
    inputs.want({side for plan in plans for side in plan.sides[:-1]})
    return stacked.Stack(stacked.prepare(plans, seeds, inputs, settings), inputs, settings, kernels)


def weights_in(stack, i, values):
    """The numbers of network i, out of a vector that is laid out for the stack; 0 for layers that are left out."""
    places = stack.tables.places[i]
    return np.where(places >= 0, values.detach().cpu().numpy()[places], 0)


def plain_slopes(plan, seed, images, settings, rounds):
    weights = [torch.tensor(w, requires_grad=True) for w in initial_weights(plan, seed)]
    numbers = minibatches(seed, len(images.train_x), settings)[0]
    logits = plain_logits(plan, weights, torch.tensor(images.train_x[numbers]), rounds)
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(images.train_y[numbers]))
    slopes = torch.autograd.grad(loss, weights, allow_unused=True)
    flat = [(torch.zeros_like(w) if s is None else s).ravel() for w, s in zip(weights, slopes, strict=True)]
    return logits.detach().numpy(), torch.cat(flat).numpy()


def difference(found, wanted):
    return np.linalg.norm(found - wanted) / max(np.linalg.norm(wanted), 1e-30)


def cases(seed, n, shape, n_hidden=4):
    rng = np.random.default_rng(seed)
    return random_images(rng, shape), [random_plan(rng, int(rng.integers(0, n_hidden + 1)), shape) for _ in range(n)]


SHAPES = [
    Shape(image_side=8, n_bins=4),
    Shape(image_side=7, n_classes=4, in_channels=3, n_bins=5),
    Shape(image_side=5, in_channels=9, n_bins=6, base_channels=1),
]


def errors_of_a_step(shape, machine, n=6):
    """Relative errors of logits and slopes of each network, against arithmetic rounded alike and against float32."""
    images, plans = cases(1, n, shape)
    stack = stack_of(plans, range(n), images, SETTINGS, machine)
    stack.take_step()
    slopes = stack.tensors["partials"].sum(0)
    rows = []
    for i, plan in enumerate(plans):
        for rounds in (True, False):
            logits, wanted = plain_slopes(plan, i, images, SETTINGS, rounds)
            errors = (
                difference(stack.tensors["logits"][i].cpu().numpy(), logits),
                difference(weights_in(stack, i, slopes), wanted),
            )
            rows.append((rounds, max(errors)))
    return rows


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"side{s.image_side}")
def test_logits_and_slopes_are_those_of_plain_torch(machine, shape):
    for rounds, error in errors_of_a_step(shape, machine):
        assert error < (0.004 if rounds else 0.04)


# One term of a kernel left out or changed: the test above must see it.
WRONG = [
    ("u < 0 ? 0 : u", "u"),
    ("w[3 * y], w[3 * y + 1]", "w[3 * y + 1], w[3 * y]"),
    ("is_positive(maps[r][row] & 0xffff) ? u : 0", "u"),
    ("acc[r][2 * row] + mean[0]", "acc[r][2 * row]"),
    ("+ low(pooled[r][row])", ""),
    ("rows.share * columns.share_of_next", "0"),
    ("top + i / 8 <= side && left + i % 8 <= side", "true"),
    ("slope / (side * side)", "slope"),
    ("(lane == s.labels[number])", "(lane == 0)"),
    ("a[y + 1][x][0], a[y + 1][x][1], d[0]", "a[y][x][0], a[y][x][1], d[0]"),
]


@NEEDS_COMPILER
@pytest.mark.parametrize("right, wrong", WRONG)
def test_a_wrong_term_is_seen(tmp_path, right, wrong):
    assert right in stacked_device.source()
    kernels = FiberKernels(tmp_path, stacked_device.source().replace(right, wrong))
    errors = errors_of_a_step(SHAPES[0], (kernels, torch.device("cpu")))
    assert max(error for rounds, error in errors if rounds) > 0.01


@pytest.mark.parametrize("decay", ["none", "cosine"])
def test_steps_of_adam_are_those_of_plain_torch(machine, decay):
    settings = SETTINGS._replace(decay=decay, n_steps=4)
    images, plans = cases(2, 3, SHAPES[0])
    stack = stack_of(plans, [5, 6, 7], images, settings, machine)
    stack.repeat(stack.take_step, settings.n_steps)
    for i, (plan, seed) in enumerate(zip(plans, [5, 6, 7], strict=True)):
        start = initial_weights(plan, seed)
        weights = [torch.tensor(w, requires_grad=True) for w in start]
        optimiser = torch.optim.Adam(weights)
        for rate, batch in zip(settings.rates().tolist(), minibatches(seed, 15, settings), strict=True):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            logits = plain_logits(plan, weights, torch.tensor(images.train_x[batch]), True)
            torch.nn.functional.cross_entropy(logits, torch.tensor(images.train_y[batch])).backward()
            optimiser.step()
        moved = [(w.detach().numpy() - s).ravel() for w, s in zip(weights, start, strict=True)]
        kept = np.where(stack.tables.places[i] >= 0, np.concatenate([s.ravel() for s in start]), 0)
        assert difference(weights_in(stack, i, stack.weights) - kept, np.concatenate(moved)) < 0.02


def test_results_do_not_depend_on_what_else_is_in_the_stack(machine):
    images, plans = cases(3, 4, SHAPES[0])
    together = stack_of(plans, [1, 2, 3, 4], images, SETTINGS, machine).train()
    for i, plan in enumerate(plans):
        (alone,) = stack_of([plan], [i + 1], images, SETTINGS, machine).train()
        assert alone.evidence == together[i].evidence and alone.train_accuracy == together[i].train_accuracy
        np.testing.assert_array_equal(alone.probabilities, together[i].probabilities)


def test_results_are_those_of_the_trained_weights(machine):
    images, plans = cases(4, 3, SHAPES[1])
    stack = stack_of(plans, [1, 2, 3], images, SETTINGS, machine)
    for i, (plan, trained) in enumerate(zip(plans, stack.train(), strict=True)):
        flat = torch.tensor(weights_in(stack, i, stack.weights), dtype=torch.float32)
        shapes = [w.shape for w in initial_weights(plan, 0)]
        weights = [w.view(s) for w, s in zip(flat.split([int(np.prod(s)) for s in shapes]), shapes, strict=True)]
        logits = plain_logits(plan, weights, torch.tensor(images.train_x), True)
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(images.train_y), reduction="sum")
        assert trained.evidence == pytest.approx(-float(loss), rel=1e-3)
        assert trained.train_accuracy == float((logits.argmax(1).numpy() == images.train_y).mean())
        tested = plain_logits(plan, weights, torch.tensor(images.test_x), True).softmax(1)
        np.testing.assert_allclose(trained.probabilities, tested, atol=2e-3)


def test_a_training_that_diverged_has_no_evidence(machine):
    images, plans = cases(5, 2, SHAPES[0])
    stack = stack_of(plans, [1, 2], images, SETTINGS, machine)
    stack.weights[stack.tables.places[1][-1]] = torch.nan
    fine, diverged = stack.results()
    assert np.isfinite(fine.evidence)
    assert diverged.evidence == -np.inf
    np.testing.assert_array_equal(diverged.probabilities, np.full((4, 3), np.float32(1 / 3)))


def test_maps_are_written_inside_their_borders_only(machine):
    images, plans = cases(6, 4, SHAPES[1])
    stack = stack_of(plans, range(4), images, SETTINGS, machine)
    written = sum(
        6 * stacked_tables.n_chunks(plan.channels[j]) * side**2 * 8 for plan in plans for j, side in maps_of(plan)
    )
    found = {}
    for value in (0.0, 3.0):  # what is not written keeps both
        for name in ("h", "d"):
            stack.tensors[name].fill_(value)
        stack.launch(stack.tables.ahead)
        stack.launch(stack.tables.back)
        found[value] = {name: stack.tensors[name] == value for name in ("h", "d")}
    for name in ("h", "d"):
        kept = found[0.0][name] & found[3.0][name]
        assert int((~kept).sum()) == written


def maps_of(plan):
    used = stacked_tables.used_layers(plan)
    return {(j, plan.sides[j]) for j in used} | {(p, plan.sides[j]) for j in used for p in plan.parents[j] if p}


@pytest.mark.parametrize("side, small", [(28, 20), (28, 10), (20, 14), (14, 10), (10, 7), (7, 7), (5, 1)])
def test_windows_are_those_of_adaptive_pooling(side, small):
    table = stacked_tables.windows_of(side, small)
    rows = torch.eye(side).view(side, 1, 1, side)
    wanted = torch.nn.functional.adaptive_avg_pool2d(rows, (1, small)).view(side, small).numpy()
    there, back = np.zeros((side, small + 1), np.float32), np.zeros((side, small), np.float32)
    for row, (first, share, share_of_next, _) in enumerate(table[:side]):
        there[row, first : first + 2] = np.array([share, share_of_next], np.int32).view(np.float32)
    for window, (begin, end, share, _) in enumerate(table[side:]):
        back[begin:end, window] = np.array(share, np.int32).view(np.float32)
    np.testing.assert_allclose(there[:, :small], wanted, rtol=1e-6)
    np.testing.assert_allclose(back, wanted, rtol=1e-6)
    assert not there[:, small].any()


def test_division_by_a_product_is_exact():
    rng = np.random.default_rng(0)
    for by in (1, 2, 3, 7, 28, 49, 100, 784, 4096, 65535):
        factor, shift = stacked_tables.divisor(by)
        assert factor < 2**31
        n = np.concatenate([rng.integers(0, 2**26, 1000), by * np.arange(1, 50) - 1, by * np.arange(50), [2**26 - 1]])
        n = n[n < 2**26]
        np.testing.assert_array_equal([int(value) * factor >> shift for value in n], n // by)


def test_portions_keep_to_the_memory():
    rng = np.random.default_rng(0)
    plans = [random_plan(rng, 4, Shape()) for _ in range(20)]
    assert [len(p) for p, _ in stacked.portions_of(plans, range(20), 100, 10**12)] == [20]
    portions = stacked.portions_of(plans, range(20), 100, 2 * 10**7)
    assert len(portions) > 1 and [plan for part, _ in portions for plan in part] == plans
    assert [seed for _, part in portions for seed in part] == list(range(20))
    assert all(len(part) == 1 for part, _ in stacked.portions_of(plans, range(20), 100, 1))


def test_what_cannot_be_done_is_said():
    shape = Shape(image_side=4, n_classes=33, n_bins=1)
    images, plans = cases(0, 1, shape)
    with pytest.raises(ValueError, match="n_classes must be at most 32"):
        stack_of(plans, [0], images, SETTINGS, (None, torch.device("cpu")))
    finer = Plan(((), (0,), (1,), (2,)), (8, 4, 8, 0), (1, 8, 5, 3))
    with pytest.raises(ValueError, match="finer than their parents"):
        stack_of([finer], [0], cases(0, 1, SHAPES[0])[0], SETTINGS, (None, torch.device("cpu")))
    with pytest.raises(ValueError, match="no CUDA device"):
        stacked.StackedTrainer(images, SETTINGS, "cpu")


def test_a_gpu_that_cannot_be_used_is_one_sentence_with_a_remedy(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    with refused("compute capability 8.0", "7.5", "device='cpu'"):
        stacked_device.GpuKernels(torch.device("cuda"))

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr(stacked_device.ctypes, "CDLL", missing)
    with refused("libcuda.so.1 is missing", "device='cpu'", error=RuntimeError):
        stacked_device.GpuKernels(torch.device("cuda"))
    with refused("libnvrtc", "device='cpu'", error=RuntimeError):
        stacked_device._compiler()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_the_trainer_gives_what_the_stack_gives():
    images, plans = cases(7, 5, SHAPES[0])
    trained = stacked.StackedTrainer(images, SETTINGS, memory=10**6).train(plans, range(5))
    machine = stacked_device.GpuKernels(torch.device("cuda")), torch.device("cuda")
    for one, other in zip(trained, stack_of(plans, range(5), images, SETTINGS, machine).train(), strict=True):
        assert one.evidence == other.evidence
