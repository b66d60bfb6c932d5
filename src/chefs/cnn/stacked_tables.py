"""Tables for the GPU: where the maps and weights of many networks lie, and what each launch has to go through.

`stacked.cu` says how maps, tiles of weights and jobs look. A layer that the output does not depend on is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chefs.cnn.plan import Plan

IntTable = NDArray[np.int32]
CHUNK = 8  # channels
TILE = 9 * CHUNK * CHUNK
WARPS, THREADS = 4, 128  # of a block
TALL = (7, 5, 4)  # pairs of rows that a warp can make
N_FIELDS = 16  # of a job
LARGEST_BITS = 26  # of the number of a pixel or strip within a job
GUARD = 64  # pixels before and after all maps: warps may read over the ends
_Entry: TypeAlias = tuple[int, int, int, int]
_Fields: TypeAlias = tuple[int, ...]


class Launch(NamedTuple):
    """One kernel on some blocks of the table."""

    kernel: str
    first: int
    n_blocks: int


class Tables(NamedTuple):
    """What the kernels need to know about a stack of networks."""

    blocks: IntTable  # job of each block
    jobs: IntTable  # (jobs, N_FIELDS)
    entries: IntTable  # (entries, 4)
    windows: IntTable  # (rows, 4), those of `windows_of` for every pair of sides
    ahead: list[Launch]  # from the images to the logits and their errors
    back: list[Launch]  # from there to the new weights
    n_pixels: int  # of all maps
    n_tiled: int  # weights in tiles
    n_weights: int  # of all, with the outputs'
    n_means: int  # chunks that outputs take in
    places: list[NDArray[np.int64]]  # of each plan's weights, laid end to end; −1 for those left out


def plane_of(side: int) -> int:
    """Pixels of one image with its border, and 16 more."""
    return (side + 2) ** 2 + 16


def n_chunks(channels: int) -> int:
    """Chunks that hold some channels."""
    return -(-channels // CHUNK)


def divisor(by: int) -> tuple[int, int]:
    """(factor, shift) with n // by == n * factor >> shift for n < 2^26: GPUs take long to divide."""
    shift = LARGEST_BITS + (by - 1).bit_length()
    return -(-(2**shift) // by), shift


def windows_of(side: int, small: int) -> IntTable:
    """The windows of adaptive pooling: ⌊i side / small⌋ … ⌈(i + 1) side / small⌉ − 1.

    First, of each of the `side` rows: the first window that it falls into, its share in that one and in the next. Then,
    of each of the `small` windows: where it begins and ends, and the share of each row in it.
    """
    rows, numbers = np.arange(side), np.arange(small + 1)
    begin, end = numbers * side // small, -(-(numbers + 1) * side // small)
    share = (1 / (end - begin)).astype(np.float32)
    first = rows * small // side
    next_share = np.where(begin[first + 1] <= rows, share[first + 1], np.float32(0))
    table = np.zeros((side + small, 4), np.int32)
    table[:side, 0], table[:side, 1], table[:side, 2] = first, share[first].view(np.int32), next_share.view(np.int32)
    table[side:, 0], table[side:, 1], table[side:, 2] = begin[:-1], end[:-1], share[:-1].view(np.int32)
    return table


def used_layers(plan: Plan) -> list[int]:
    """The hidden layers that the output depends on."""
    used = {len(plan.parents) - 1}
    for j in reversed(range(1, len(plan.parents))):
        if j in used:
            used.update(plan.parents[j])
    return sorted(used - {0, len(plan.parents) - 1})


def n_pixels(plan: Plan, batch: int) -> int:
    """Pixels that the maps of a network take up, pooled ones too."""
    used = used_layers(plan)
    maps = {(j, plan.sides[j]) for j in used} | {(p, plan.sides[j]) for j in used for p in plan.parents[j] if p}
    return batch * sum(n_chunks(plan.channels[j]) * plane_of(side) for j, side in maps)


def n_tiles(plan: Plan) -> int:
    """Tiles of weights of a network."""
    chunks = [n_chunks(c) for c in plan.channels]
    return sum(chunks[j] * chunks[p] for j in used_layers(plan) for p in plan.parents[j])


def tables_of(plans: Sequence[Plan], batch: int, n_groups: int, inputs: Mapping[int, int], n_images: int) -> Tables:
    """The tables of a stack.

    Args:
        plans: Of the networks.
        batch: Images at a time.
        n_groups: Groups of images whose slopes are added up one by one.
        inputs: Where the images lie, by side.
        n_images: How many there are.
    """
    layout = _Layout(batch, n_groups, inputs, n_images)
    for plan in plans:
        layout.add(plan)
    return layout.tables()


class _Layout:
    """Collects jobs, network after network; (kernel, level) says when they run."""

    def __init__(self, batch: int, n_groups: int, inputs: Mapping[int, int], n_images: int) -> None:
        self.batch, self.n_groups, self.inputs, self.n_images = batch, n_groups, inputs, n_images
        self.jobs: dict[tuple[str, int], list[_Job]] = defaultdict(list)
        self.entries: list[_Entry] = []
        self.windows: list[IntTable] = []
        self.window: dict[tuple[int, int], int] = {}
        self.n_networks, self.n_pixels, self.n_tiles, self.n_head, self.n_means = 0, GUARD, 0, 0, 0
        self.places: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # in tiles, and in outputs

    def add(self, plan: Plan) -> None:
        """One more network."""
        network = _Network(plan, self)
        network.take_outputs()
        for j in network.used:
            network.take_ahead(j)
            network.take_back(j)
            network.take_edges(j)
        self.places.append(network.places())
        self.n_networks += 1

    def list(self, entries: Sequence[_Entry]) -> tuple[int, int]:
        """Puts entries down: where they begin, and how many they are."""
        self.entries += entries
        return len(self.entries) - len(entries), len(entries)

    def windows_at(self, side: int, small: int) -> int:
        """Where the windows lie through which maps of a side are pooled to a smaller one."""
        if (side, small) not in self.window:
            self.window[side, small] = 1 + sum(map(len, self.windows))
            self.windows.append(windows_of(side, small))
        return self.window[side, small]

    def tables(self) -> Tables:
        """Jobs in the order of their launches, the longest first within each."""
        n_tiled = TILE * self.n_tiles
        n_weights = n_tiled + self.n_head
        levels = sorted({level for _, level in self.jobs if level})
        ahead = [(kernel, level) for level in levels for kernel in ("convolve_ahead", "pool")] + [("head", 0)]
        back = [(kernel, level) for level in reversed(levels) for kernel in ("pooled_back", "unpool", "convolve_back")]
        back += [("weight_slopes", 0), ("head_slopes", 0)]
        launches: dict[tuple[str, int], Launch] = {}
        rows, counts, begin = [], [], 0
        for when in ahead + back:
            first = begin
            for job in sorted(self.jobs[when], key=lambda job: -job.cost):
                fields = (*job.fields[:-1], job.fields[-1] + n_tiled) if when[0].startswith("head") else job.fields
                rows.append((begin, *fields, *[0] * (N_FIELDS - 1 - len(fields))))
                counts.append(job.n_blocks)
                begin += job.n_blocks
            launches[when] = Launch(when[0].replace("pooled", "convolve"), first, begin - first)
        return Tables(
            np.repeat(np.arange(len(rows), dtype=np.int32), counts),
            np.array(rows, np.int32),
            np.array([*self.entries, (0, 0, 0, 0)], np.int32),
            np.concatenate([np.zeros((1, 4), np.int32), *self.windows]),
            [launches[when] for when in ahead if launches[when].n_blocks],
            [launches[when] for when in back if launches[when].n_blocks]
            + [Launch("adam", 0, -(-n_weights // THREADS))],
            self.n_pixels + GUARD,
            n_tiled,
            n_weights,
            self.n_means,
            [np.concatenate([tiled, outputs + n_tiled]) for tiled, outputs in self.places],
        )


class _Job(NamedTuple):
    cost: int  # of a block, about
    n_blocks: int
    fields: _Fields  # all but the first


class _Network:
    """The maps and jobs of one network."""

    def __init__(self, plan: Plan, layout: _Layout) -> None:
        self.plan, self.layout, self.number = plan, layout, layout.n_networks
        self.used = used_layers(plan)
        self.chunks = [n_chunks(c) for c in plan.channels]
        self.children: list[list[int]] = [[] for _ in plan.parents]
        self.level, self.tile, self.mean = [0] * len(plan.parents), {}, {}
        for j in self.used:
            self.level[j] = 1 + max(self.level[p] for p in plan.parents[j])
            for p in plan.parents[j]:
                self.children[p].append(j)
            self.tile[j] = layout.n_tiles
            layout.n_tiles += self.chunks[j] * sum(self.chunks[p] for p in plan.parents[j])
        if any(plan.sides[c] > plan.sides[p] for p in self.used for c in self.children[p]):
            raise ValueError("plans must not have layers that are finer than their parents; take those of `plan_of`")
        self.plane: dict[tuple[int, int], int] = {}
        for j in self.used:
            for side in (plan.sides[j], *self.smaller(j)):
                self.plane[j, side] = layout.n_pixels
                layout.n_pixels += self.chunks[j] * layout.batch * plane_of(side)

    def smaller(self, j: int) -> list[int]:
        """Sides to which a layer is pooled for its children."""
        sides = self.plan.sides
        return sorted({sides[c] for c in self.children[j]} - {sides[j]})

    def at(self, j: int, side: int, chunk: int = 0) -> int:
        """Where a chunk of a layer lies at some side."""
        if j == 0:
            return self.layout.inputs[side] + chunk * self.layout.n_images * plane_of(side)
        return self.plane[j, side] + chunk * self.layout.batch * plane_of(side)

    def taken_in(self, j: int) -> list[tuple[int, int]]:
        """The (parent, chunk) that a layer takes in, in the order of its tiles."""
        return [(p, chunk) for p in self.plan.parents[j] for chunk in range(self.chunks[p])]

    def take_ahead(self, j: int) -> None:
        """From its parents to a layer, and to the smaller sides that its children want."""
        side, n_out = self.plan.sides[j], self.chunks[j]
        for o in range(n_out):
            entries = [
                (self.at(p, side, chunk), self.tile[j] + k * n_out + o, 0, p == 0)
                for k, (p, chunk) in enumerate(self.taken_in(j))
            ]
            self.convolution("convolve_ahead", j, side, o, entries, (0, -1, 0))
            for small in self.smaller(j):
                windows = self.layout.windows_at(side, small) + side
                fields = (side, self.at(j, side, o), small, self.at(j, small, o), windows)
                self.pixels("pool", j, small, 0, fields)

    def take_back(self, j: int) -> None:
        """From its children to the maps of a layer, the pooled ones first."""
        whole, smaller = self.plan.sides[j], self.smaller(j)
        for side in (*smaller, whole):
            children = [(c, self.taken_in(c).index((j, 0))) for c in self.children[j] if self.plan.sides[c] == side]
            for chunk in range(self.chunks[j]):
                entries = [
                    (self.at(c, side, o), self.tile[c] + (k + chunk) * self.chunks[c] + o, 0, 0)
                    for c, k in children
                    for o in range(self.chunks[c])
                ]
                mean = self.mean[j] + chunk if side == whole and j in self.mean else -1
                kernel = "convolve_back" if side == whole else "pooled_back"
                self.convolution(
                    kernel, j, side, chunk, entries, (side == whole, mean, side == whole and bool(smaller))
                )
        for chunk in range(self.chunks[j] if smaller else 0):
            pooled = [(self.at(j, small, chunk), small, self.layout.windows_at(whole, small), 0) for small in smaller]
            fields = (whole, self.at(j, whole, chunk), *self.layout.list(pooled))
            self.pixels("unpool", j, whole, len(pooled), fields)

    def convolution(self, kernel: str, j: int, side: int, chunk: int, entries: Sequence[_Entry], rest: _Fields) -> None:
        """A job that makes a chunk of a layer, or of the slopes in it, at some side."""
        tall = min(TALL, key=lambda r: -(-side // (2 * r)) * (r + 1))  # the fewest rows read
        across = -(-side // 8)
        strips = across * -(-side // (2 * tall))
        fields = (side, self.at(j, side, chunk), *self.layout.list(entries), self.number, *rest, tall)
        fields += (*divisor(strips), *divisor(across), strips, across)
        n_blocks = -(-self.layout.batch * strips // WARPS)
        self.layout.jobs[kernel, self.level[j]].append(_Job(len(entries), n_blocks, fields))

    def pixels(self, kernel: str, j: int, side: int, cost: int, fields: _Fields) -> None:
        """A job in which a thread makes one pixel of a chunk."""
        n_blocks = -(-self.layout.batch * side**2 // THREADS)
        fields = (*fields, *divisor(side**2), *divisor(side))
        self.layout.jobs[kernel, self.level[j]].append(_Job(cost, n_blocks, fields))

    def take_edges(self, j: int) -> None:
        """Slopes in the tiles of a layer."""
        side, n_out, n_blocks = self.plan.sides[j], self.chunks[j], -(-self.layout.n_groups // WARPS)
        for k, (p, chunk) in enumerate(self.taken_in(j)):
            for o in range(n_out):
                tile = self.tile[j] + k * n_out + o
                fields = (side, self.at(p, side, chunk), p == 0, self.at(j, side, o), tile, self.number)
                self.layout.jobs["weight_slopes", 0].append(_Job(side, n_blocks, fields))

    def take_outputs(self) -> None:
        """The output, its errors, and the slopes in its weights."""
        layout, sides = self.layout, self.plan.sides
        taken = self.taken_in(len(sides) - 1)
        entries = layout.list([(self.at(p, sides[p], chunk), sides[p], 0, p == 0) for p, chunk in taken])
        for k, (p, chunk) in enumerate(taken):
            if chunk == 0:
                self.mean[p] = layout.n_means + k
        fields = (self.number, *entries, layout.n_means, layout.n_head)
        layout.jobs["head", 0].append(_Job(len(taken), -(-layout.batch // WARPS), fields))
        layout.jobs["head_slopes", 0].append(_Job(len(taken), layout.n_groups, fields))
        self.head = layout.n_head
        layout.n_means += len(taken)
        layout.n_head += self.plan.channels[-1] * (CHUNK * len(taken) + 1)

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the weights of the hidden layers go, and those of the output after all tiles."""
        tiled = [np.empty(0, np.int64)]
        for j in range(1, len(self.plan.parents) - 1):
            out, tap = np.arange(self.plan.channels[j])[:, None, None], np.arange(9)
            k = self.columns(j)[None, :, None]
            tile = self.tile.get(j, 0) + k // CHUNK * self.chunks[j] + out // CHUNK
            place = TILE * tile + CHUNK**2 * tap + CHUNK * (out % CHUNK) + k % CHUNK
            tiled.append((place if j in self.tile else np.full_like(place, -1)).ravel())
        columns, n_classes = self.columns(len(self.plan.parents) - 1), self.plan.channels[-1]
        n_in = CHUNK * len(self.taken_in(len(self.plan.parents) - 1))
        linear = n_in * np.arange(n_classes)[:, None] + columns
        outputs = np.concatenate([linear.ravel(), n_in * n_classes + np.arange(n_classes)])
        return np.concatenate(tiled), self.head + outputs

    def columns(self, j: int) -> NDArray[np.int64]:
        """Where the channels that a layer takes in lie among the chunks that it takes in."""
        parents, first = self.plan.parents[j], 0
        columns = [np.empty(0, np.int64)]
        for p in parents:
            columns.append(first + np.arange(self.plan.channels[p]))
            first += CHUNK * self.chunks[p]
        return np.concatenate(columns)
