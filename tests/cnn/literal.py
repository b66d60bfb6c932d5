"""The paper's formulas for networks, word by word: a sum over edges, every node computed, pooling by loops."""

import math

import torch
from torch.nn import functional


def bin_of(order, n_bins):
    return min(math.floor(n_bins * (1 - order)), n_bins - 1)


def average(maps, side):
    """Adaptive average pooling: each pixel is the mean of its window."""
    old = maps.shape[-1]
    rows = []
    for r in range(side):
        row = []
        for c in range(side):
            top, bottom = math.floor(r * old / side), math.ceil((r + 1) * old / side)
            left, right = math.floor(c * old / side), math.ceil((c + 1) * old / side)
            row.append(maps[:, :, top:bottom, left:right].mean(dim=(2, 3)))
        rows.append(torch.stack(row, dim=2))
    return torch.stack(rows, dim=2)


def logits(dag, images, kernels, vectors, bias, side_of):
    """T_i = ReLU(Σ_k W_ki ⋆ T_k) for hidden i; Σ_k V_k · mean T_k + bias at the output.

    `kernels[k, i]` and `vectors[k]` are weights of edges; those from a node that the input does not reach are not asked
    for: its maps are 0.
    """
    maps = {0: images}
    for i in sorted(range(2, dag.n_nodes), key=lambda i: -dag.order[i]):
        total = None
        for k in dag.parents(i).tolist():
            if k in maps:
                term = functional.conv2d(average(maps[k], side_of[i]), kernels[k, i], padding=1)
                total = term if total is None else total + term
        if total is not None:
            maps[i] = torch.relu(total)
    result = bias.expand(len(images), -1)
    for k in dag.parents(1).tolist():
        if k in maps:
            result = result + maps[k].mean(dim=(2, 3)) @ vectors[k].T
    return result
