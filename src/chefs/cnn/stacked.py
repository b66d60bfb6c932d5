"""StackedTrainer: many small networks of different shapes trained at once on one GPU.

Such networks are bound by launches, not by arithmetic: one by one a training takes seconds, of a GPU milliseconds.
So all networks of a stack take each step together: one launch for every level of depth, over the layers of that
level in all networks. Maps are kept in bfloat16, sums and weights in float32.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from chefs.cnn.plan import Plan
from chefs.cnn.stacked_device import NUMBERS, POINTERS, GpuKernels, StackArguments
from chefs.cnn.stacked_tables import (
    CHUNK,
    GUARD,
    LARGEST_BITS,
    TILE,
    Launch,
    Tables,
    n_chunks,
    n_pixels,
    n_tiles,
    plane_of,
    tables_of,
)
from chefs.cnn.training import Images, Settings, Trained, initial_weights, minibatches

Kernels = Callable[[Launch, StackArguments], None]
N_GROUPS = 20  # of images whose slopes are added up apart: enough warps to fill a GPU, few enough numbers to add
BYTES_OF_A_PIXEL = 16 * 2  # the map and its slopes
BYTES_OF_A_WEIGHT = 4 * (N_GROUPS + 4)
MOST_LAYERS = 500  # at once: more do not make a GPU faster
MOST_CLASSES = 32  # a warp's lanes


class StackedTrainer:
    """Trains networks on a GPU, as many at once as fill it.

    Args:
        images: To train on and to test on.
        settings: Of each training.
        device: A CUDA device, "cuda" or "cuda:1", of compute capability 8.0 or more.
        memory: Bytes to use at most; by default 0.6 of what is free at the start.

    >>> trainer = StackedTrainer(images, Settings())  # doctest: +SKIP
    >>> trainer.train([plan, other], seeds=[0, 1])[0].evidence  # doctest: +SKIP
    -1103.2
    """

    def __init__(self, images: Images, settings: Settings, device: str = "cuda", memory: int | None = None) -> None:
        if torch.device(device).type != "cuda" or not torch.cuda.is_available():
            raise ValueError(
                f"device {device!r} is no CUDA device that PyTorch can use here; EagerTrainer runs on a CPU"
            )
        self._device = torch.device(device)
        self._settings = settings.checked()
        self._kernels = GpuKernels(self._device)
        self._inputs = Inputs(images, self._device)
        self._memory = int(0.6 * torch.cuda.mem_get_info(self._device)[0]) if memory is None else int(memory)
        self._lock = threading.Lock()

    def train(self, plans: Sequence[Plan], seeds: Sequence[int]) -> list[Trained]:
        """One result for each plan; the same whatever it is trained together with."""
        with self._lock, torch.cuda.device(self._device), ThreadPoolExecutor(1) as ahead:
            self._inputs.want({side for plan in plans for side in plan.sides[:-1]})
            portions = portions_of(plans, seeds, self._settings.batch, self._memory)
            # While the GPU is at one portion, the CPU gets the next one ready.
            ready = [ahead.submit(prepare, *portion, self._inputs, self._settings) for portion in portions]
            results = []
            for i in range(len(ready)):
                results += Stack(ready[i].result(), self._inputs, self._settings, self._kernels).train()
                ready[i] = Future()  # its tables are not needed any more
            return results


def portions_of(
    plans: Sequence[Plan], seeds: Sequence[int], batch: int, memory: int
) -> list[tuple[list[Plan], list[int]]]:
    """Plans and seeds in portions that take at most so many bytes each, but at least one network."""
    portions: list[tuple[list[Plan], list[int]]] = []
    room, n_layers = 0, 0
    for plan, seed in zip(plans, seeds, strict=True):
        need = BYTES_OF_A_PIXEL * n_pixels(plan, batch) + BYTES_OF_A_WEIGHT * n_tiles(plan) * TILE
        if not portions or need > room or n_layers + plan.n_hidden > MOST_LAYERS:
            portions.append(([], []))
            room, n_layers = min(memory, BYTES_OF_A_PIXEL * (2**31 - 1)), 0
        portions[-1][0].append(plan)
        portions[-1][1].append(seed)
        room, n_layers = room - need, n_layers + plan.n_hidden
    return portions


class Prepared(NamedTuple):
    """What a stack starts from, still in the memory of the CPU."""

    tables: Tables
    order: NDArray[np.int32]  # numbers of images, (steps, networks, batch)
    weights: NDArray[np.float32]
    n_classes: int


def prepare(plans: Sequence[Plan], seeds: Sequence[int], inputs: Inputs, settings: Settings) -> Prepared:
    """The tables of a stack, the minibatches of its networks and their initial weights."""
    n_classes, batch = plans[0].channels[-1], min(settings.batch, inputs.n_train)
    if n_classes > MOST_CLASSES:
        raise ValueError(f"n_classes must be at most {MOST_CLASSES} on a GPU; found {n_classes}")
    if batch * plans[0].sides[0] ** 2 >= 2**LARGEST_BITS:
        raise ValueError(f"batch must have fewer than 2^{LARGEST_BITS} pixels in all on a GPU; take a smaller one")
    with ThreadPoolExecutor() as pool:
        orders = pool.map(lambda seed: minibatches(seed, inputs.n_train, settings).astype(np.int32), seeds)
        starts = pool.map(_flat_weights, plans, seeds)
        tables = tables_of(plans, batch, N_GROUPS, inputs.places, inputs.n_images)
        weights = np.zeros(tables.n_weights, np.float32)
        for start, places in zip(starts, tables.places, strict=True):
            used = places >= 0
            weights[places[used]] = start[used]
        return Prepared(tables, np.stack(list(orders), axis=1), weights, n_classes)


def _flat_weights(plan: Plan, seed: int) -> NDArray[np.float32]:
    return np.concatenate([weights.ravel() for weights in initial_weights(plan, seed)])


class Inputs:
    """All images on a device, pooled to the sides that layers want; those to train on come first."""

    def __init__(self, images: Images, device: torch.device) -> None:
        self.n_train, self.n_images = len(images.train_x), len(images.train_x) + len(images.test_x)
        self.labels = torch.tensor(np.concatenate([images.train_y, images.test_y]), dtype=torch.int32, device=device)
        self._pixels = torch.tensor(np.concatenate([images.train_x, images.test_x]), dtype=torch.float32, device=device)
        self.places: dict[int, int] = {}
        self.planes = torch.zeros(2 * GUARD, CHUNK, dtype=torch.bfloat16, device=device)

    def want(self, sides: set[int]) -> None:
        """Makes the images at these sides, where they are not there yet."""
        for side in sorted(sides - set(self.places)):
            n, channels = self._pixels.shape[:2]
            chunks, wide = n_chunks(channels), side + 2
            pooled = functional.adaptive_avg_pool2d(self._pixels, side)
            planes = self.planes.new_zeros(chunks, n, plane_of(side), CHUNK)
            inside = planes[:, :, : wide**2].view(chunks, n, wide, wide, CHUNK)[:, :, 1:-1, 1:-1]
            for c in range(channels):
                inside[c // CHUNK, ..., c % CHUNK] = pooled[:, c]
            self.places[side] = len(self.planes) - GUARD
            self.planes = torch.cat([self.planes[:-GUARD], planes.view(-1, CHUNK), self.planes[-GUARD:]])


class Stack:
    """Networks that take every step together."""

    def __init__(self, prepared: Prepared, inputs: Inputs, settings: Settings, kernels: Kernels) -> None:
        self.inputs, self.settings, self.kernels = inputs, settings, kernels
        self.tables = tables = prepared.tables
        n_classes, (n_networks, batch) = prepared.n_classes, prepared.order.shape[1:]
        self.order = self._ints(prepared.order)
        self.images = torch.zeros_like(self.order[0])
        self.step = self._ints(np.zeros(1))
        self.weights = torch.tensor(prepared.weights, device=inputs.planes.device)
        tiles = self.weights[: tables.n_tiled].view(-1, 9, CHUNK, CHUNK)
        self.tensors = {
            **{name: self._ints(getattr(tables, name)) for name in ("blocks", "jobs", "entries", "windows")},
            **{name: torch.zeros_like(self.weights) for name in ("first", "second")},
            **{name: self._floats(max(tables.n_means, 1), batch, CHUNK) for name in ("means", "mean_slopes")},
            **{name: self._floats(n_networks, batch, n_classes) for name in ("logits", "errors")},
            **{name: inputs.planes.new_zeros(tables.n_pixels, CHUNK) for name in ("h", "d")},
            "x": inputs.planes,
            "labels": inputs.labels,
            "images": self.images,
            "step": self.step,
            "weights": self.weights,
            "partials": self._floats(N_GROUPS, tables.n_weights),
            "ahead": tiles.bfloat16(),
            "back": tiles.flip(1).transpose(2, 3).bfloat16().contiguous(),
            "rates": torch.tensor(_corrected(settings), device=inputs.planes.device),
        }
        numbers = (batch, N_GROUPS, n_classes, tables.n_weights, tables.n_tiled)
        pointers = {name: self.tensors[name].data_ptr() for name in POINTERS}
        self.arguments = StackArguments(**pointers, **dict(zip(NUMBERS, numbers, strict=True)))

    def train(self) -> list[Trained]:
        """Every step, and then what came out."""
        self.repeat(self.take_step, self.settings.n_steps)
        return self.results()

    def take_step(self) -> None:
        """One minibatch for every network."""
        torch.index_select(self.order, 0, self.step, out=self.images.unsqueeze(0))
        self.launch(self.tables.ahead)
        self.launch(self.tables.back)
        self.step += 1

    def launch(self, launches: Sequence[Launch]) -> None:
        """Puts launches into the stream, one after the other."""
        for launch in launches:
            self.kernels(launch, self.arguments)

    def repeat(self, function: Callable[[], None], times: int) -> None:
        """Calls a function again and again; on a GPU its launches are recorded once and replayed."""
        function()
        if times == 1 or not self.step.is_cuda:
            for _ in range(times - 1):
                function()
            return
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # `torch.cuda.graph` would do this too, and empty torch's cache of memory
            graph.capture_begin(capture_error_mode="thread_local")
            function()
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        for _ in range(times - 1):
            graph.replay()

    def all_logits(self) -> Tensor:
        """Logits of all images, (networks, images, classes), with the weights as they are."""
        n, (n_networks, batch) = self.inputs.n_images, self.images.shape
        n_batches = -(-n // batch)
        numbers = self._ints(np.minimum(np.arange(n_batches * batch), n - 1)).view(n_batches, 1, batch)
        numbers = numbers.expand(n_batches, n_networks, batch).contiguous()
        logits = self._floats(n_batches, *self.tensors["logits"].shape)
        self.step.zero_()

        def take_batch() -> None:
            torch.index_select(numbers, 0, self.step, out=self.images.unsqueeze(0))
            self.launch(self.tables.ahead)
            logits.index_copy_(0, self.step.long(), self.tensors["logits"].unsqueeze(0))
            self.step.add_(1)

        self.repeat(take_batch, n_batches)
        return logits.transpose(0, 1).reshape(n_networks, n_batches * batch, -1)[:, :n]

    def results(self) -> list[Trained]:
        """Evidence, accuracy and probabilities of each network."""
        n = self.inputs.n_train
        log_probs = functional.log_softmax(self.all_logits().double(), dim=-1)
        labels = self.inputs.labels[:n].long().expand(len(log_probs), n).unsqueeze(-1)
        # Row by row: how torch adds up depends on the number of rows.
        evidence = torch.stack([row.sum() for row in log_probs[:, :n].gather(-1, labels)])
        right = (log_probs[:, :n].argmax(-1, keepdim=True) == labels).double().mean((1, 2))
        probabilities = log_probs[:, n:].exp().float()
        finite = evidence.isfinite() & probabilities.isfinite().all(-1).all(-1)
        probabilities[~finite] = 1 / probabilities.shape[-1]
        evidence[~finite] = -torch.inf
        columns = evidence.tolist(), right.tolist(), probabilities.cpu().numpy()
        return [Trained(e, r, p.copy()) for e, r, p in zip(*columns, strict=True)]

    def _ints(self, values: NDArray) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.inputs.planes.device)

    def _floats(self, *shape: int) -> Tensor:
        return torch.zeros(shape, device=self.inputs.planes.device)


def _corrected(settings: Settings) -> NDArray[np.float32]:
    """Of each step, Adam's step size and what √v is multiplied with, both for moments that start at zero."""
    t = np.arange(1, settings.n_steps + 1)
    return np.stack([settings.rates() / (1 - 0.9**t), (1 - 0.999**t) ** -0.5], axis=1).astype(np.float32)
