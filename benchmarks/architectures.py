"""Networks from DAGs: trainings a second of one plain PyTorch process, and of the trainers for a GPU and for a CPU.

`python -m benchmarks.architectures gpu` or `cpu`. Each training is the paper's, 540 steps of 100 images and then all
images once more for the evidence and the test accuracy; on a CPU a thirtieth of it.
"""

import math
import os
import platform
import sys
import time
from importlib.metadata import version

import numpy as np
import torch

from benchmarks import report, seconds
from chefs.cnn.compiled import CompiledTrainer
from chefs.cnn.eager import EagerTrainer
from chefs.cnn.plan import Plan, Shape
from chefs.cnn.stacked import StackedTrainer
from chefs.cnn.training import Images, Settings

SEED = 0
N_HIDDEN = (4, 10, 25)
N_PLANS = 15  # different networks
N_SEEDS = (1, 4, 16)  # trainings of each, asked for at once
N_PARENTS = 3  # of a layer, on average, before every layer has a child
N_CPU = 4  # networks for a CPU
N_REPEATS = 5  # and how often each trainer has its turn


def random_plan(rng, n_hidden, shape):
    """A network with about three parents a layer, and layers of all shapes.

    Every layer has a child, as in the plan of a graph: so the output depends on all of them, and no trainer may leave
    one out.
    """
    bins = np.sort(rng.integers(0, shape.n_bins, n_hidden)).tolist()
    parents = [()]
    for j in range(1, n_hidden + 2):
        above = np.flatnonzero(rng.random(j) < min(1.0, N_PARENTS / j)).tolist()
        parents.append(tuple(above) or (int(rng.integers(j)),))
    for j in set(range(n_hidden + 1)).difference(*parents):
        child = int(rng.integers(j + 1, n_hidden + 2))
        parents[child] = tuple(sorted((*parents[child], j)))
    sides, channels = (shape.side(b) for b in bins), (shape.channels(b) for b in bins)
    return Plan(tuple(parents), (shape.image_side, *sides, 0), (shape.in_channels, *channels, shape.n_classes))


def noise(rng, shape, n_train=18_831, n_test=3_177):
    """As many images as MNIST has of the digits 1, 2 and 3; what is in them does not matter here."""

    def draw(n):
        size = (n, shape.in_channels, shape.image_side, shape.image_side)
        return rng.random(size, dtype=np.float32), rng.integers(0, shape.n_classes, n)

    return Images(*draw(n_train), *draw(n_test))


def gpu():
    """One eager process against the stack, on the same networks."""
    shape, settings = Shape(), Settings()
    rng = np.random.default_rng(SEED)
    images = noise(rng, shape)
    eager, stacked = EagerTrainer(images, settings, "cuda"), StackedTrainer(images, settings, "cuda")
    rows = []
    for n_hidden in N_HIDDEN:
        plans = [random_plan(rng, n_hidden, shape) for _ in range(N_PLANS)]
        seeds = range(N_PLANS)
        eager.train(plans[:1], seeds[:1])
        one = seconds(lambda p=plans, s=seeds: eager.train(p, s)) / N_PLANS
        rows.append([f"{n_hidden}, eager", 1, one, 1 / one, 1.0])
        for times in N_SEEDS:
            many, n = plans * times, N_PLANS * times
            stacked.train(many, range(n))
            each = seconds(lambda p=many, s=range(n): stacked.train(p, s)) / n
            rows.append([f"{n_hidden}, stacked", n, each, 1 / each, one / each])
        print(*rows[-1 - len(N_SEEDS) :], sep="\n", flush=True)
    sentence = (
        f"{torch.cuda.get_device_name()}; {settings.n_steps} steps of {settings.batch} images of side "
        f"{shape.image_side}, about {N_PARENTS} parents a layer; then {len(images.train_x):,} and "
        f"{len(images.test_x):,} images once. Every row trains the same {N_PLANS} networks, the larger stacks each of "
        f"them {N_SEEDS[1]} and {N_SEEDS[2]} times with other seeds; timed once, after a warm-up."
    )
    headings = ["hidden layers", "networks at once", "seconds a training", "trainings a second", "ratio to eager"]
    return "One GPU", sentence, headings, rows


def cpu():
    """A plain eager loop, with all cores in each operation, against one network a core in compiled loops."""
    shape, settings = Shape(), Settings(n_steps=18)
    rng = np.random.default_rng(SEED)
    images = noise(rng, shape, 628, 106)
    trainers = {"eager": EagerTrainer(images, settings, "cpu"), "compiled": CompiledTrainer(images, settings)}
    rows = []
    for n_hidden in N_HIDDEN:
        plans = [random_plan(rng, n_hidden, shape) for _ in range(N_CPU)]
        for trainer in trainers.values():
            trainer.train(plans[:1], range(1))  # so that compiling does not count
        times = {name: (math.inf, math.inf) for name in trainers}
        for _ in range(N_REPEATS):
            for name, trainer in trainers.items():
                begin = time.process_time()
                took = seconds(lambda t=trainer, p=plans: t.train(p, range(N_CPU)))
                taken = took / N_CPU, (time.process_time() - begin) / N_CPU
                times[name] = tuple(map(min, times[name], taken))
        wall, busy = times["eager"]
        rows += [[f"{n_hidden}, {name}", t, 1 / t, wall / t, c, busy / c] for name, (t, c) in times.items()]
        print(*rows[-2:], sep="\n", flush=True)
    sentence = (
        f"{settings.n_steps} steps of {settings.batch} images of side {shape.image_side}, then "
        f"{len(images.train_x) + len(images.test_x):,} images once; {N_CPU} networks, by turns, best of {N_REPEATS}. "
        "Processor seconds are those of all cores together."
    )
    headings = ["hidden layers", "seconds a training", "trainings a second", "ratio to eager"]
    return "CPU", sentence, [*headings, "processor seconds a training", "ratio of processor seconds"], rows


def facts(which):
    compiler = {"numba": version("numba")} if which == "cpu" else {}
    return {
        "command": f"python -m benchmarks.architectures {which}",
        "seed": SEED,
        "cpus": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {"numpy": np.__version__, "torch": torch.__version__, **compiler},
    }


if __name__ == "__main__":
    which = sys.argv[1] if len(sys.argv) > 1 else ("gpu" if torch.cuda.is_available() else "cpu")
    part = {"gpu": gpu, "cpu": cpu}[which]
    report("architectures" if which == "gpu" else "architectures_cpu", facts(which), [part()])
