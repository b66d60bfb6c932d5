"""Network: the convolutional network of a DAG, a `torch.nn.Module` (section 4.2 of the paper)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chefs.cnn.plan import Plan, Shape, plan_of
from chefs.cnn.training import initial_weights
from chefs.dag import Dag, shown
from chefs.images import scaled_pixels

try:
    import torch
except ImportError:
    raise ImportError("networks need PyTorch: pip install 'chefs[cnn]'") from None

from torch import Tensor, nn
from torch.nn import functional


class Network(nn.Module):
    """The network of a DAG whose node 0 is the input, at order 1, and node 1 the output, at order 0.

    A hidden layer is T_i = ReLU(Σ_k W_ki ⋆ pooled T_k) over its parents k, with 3 × 3 kernels on maps that are averaged
    to the side of layer i; logits are Σ_k V_k · (spatial mean of T_k) + bias. Nodes that the input does not reach are 0
    and are left out; the sum over parents is one convolution over all their channels.

    Args:
        dag: The graph.
        image_side: Pixels along each side of an image.
        n_classes: Number of labels.
        in_channels: Channels of an image.
        n_bins: How many different shapes layers can have.
        base_channels: What is added to the 2^bin channels of a layer.
        seed: Seed of the weights it starts with.

    >>> import torch
    >>> dag = Dag([[0, 0, 1], [0, 0, 0], [0, 1, 0]], [1.0, 0.0, 0.5], n_observed=2)
    >>> Network(dag)(torch.zeros(4, 1, 28, 28)).shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        dag: Dag,
        *,
        image_side: int = 28,
        n_classes: int = 3,
        in_channels: int = 1,
        n_bins: int = 5,
        base_channels: int = 4,
        seed: int = 0,
    ) -> None:
        super().__init__()
        plan = plan_of(dag, Shape(image_side, n_classes, in_channels, n_bins, base_channels))
        self._build(plan, initial_weights(plan, seed))

    @classmethod
    def from_plan(cls, plan: Plan, seed: int = 0, weights: Sequence[np.ndarray] | None = None) -> Network:
        """The network of a plan; its weights, in the order of `weight_shapes`, are drawn where None."""
        network = cls.__new__(cls)
        nn.Module.__init__(network)
        network._build(plan, initial_weights(plan, seed) if weights is None else weights)
        return network

    def _build(self, plan: Plan, weights: Sequence[np.ndarray]) -> None:
        self.plan = plan
        *kernels, linear, bias = (nn.Parameter(torch.tensor(w)) for w in weights)
        self.kernels = nn.ParameterList(kernels)
        self.linear = linear
        self.bias = bias

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the labels, a row an image."""
        side, channels = self.plan.sides[0], self.plan.channels[0]
        if images.ndim != 4 or images.shape[1:] != (channels, side, side):
            raise ValueError(
                f"images must have the shape (images, {channels}, {side}, {side}); found {tuple(images.shape)}"
            )
        # NumPy's x[:, None] has stride 0 along its channel, which makes CUDA average image 0 in place of every image.
        return self.logits(images.flatten(0, 1).unflatten(0, (images.shape[0], channels)))

    def logits(self, images: Tensor) -> Tensor:
        """`forward` without its check. All children that take in a layer at the same side share one average."""
        layers, pooled = [images], {}
        for j, kernel in enumerate(self.kernels, start=1):
            taken = [self._pooled(layers, p, self.plan.sides[j], pooled) for p in self.plan.parents[j]]
            joined = taken[0] if len(taken) == 1 else torch.cat(taken, dim=1)
            layers.append(functional.relu(functional.conv2d(joined, kernel, padding=1)))
        means = [layers[p].mean(dim=(2, 3)) for p in self.plan.parents[-1]]
        if not means:
            return self.bias.expand(len(images), -1)
        return functional.linear(torch.cat(means, dim=1), self.linear, self.bias)

    def _pooled(self, layers: list[Tensor], layer: int, side: int, pooled: dict[tuple[int, int], Tensor]) -> Tensor:
        if self.plan.sides[layer] == side:
            return layers[layer]
        if (layer, side) not in pooled:
            pooled[layer, side] = self._average(layers[layer], side)
        return pooled[layer, side]

    def _average(self, maps: Tensor, side: int) -> Tensor:
        return functional.adaptive_avg_pool2d(maps, side)

    def weights(self) -> list[np.ndarray]:
        """All weights, in the order of `weight_shapes`."""
        return [w.detach().cpu().contiguous().numpy() for w in (*self.kernels, self.linear, self.bias)]

    @torch.no_grad()
    def predict_proba(self, images: np.ndarray, batch: int = 2000) -> np.ndarray:
        """Probabilities of the labels of images given as (images, channels, side, side), or without channels.

        Pixels that are whole numbers are divided by 255, as they are for training.
        """
        images = scaled_pixels(np.asarray(images))
        if images.ndim == 3:
            images = images[:, None]
        parts = torch.from_numpy(images).split(batch)
        return torch.cat([self(part.to(self.bias.device)).softmax(dim=1).cpu() for part in parts]).numpy()

    def summary(self) -> str:
        """A table of the layers: parents, channels, side and weights of each.

        >>> dag = Dag([[0, 0, 1], [0, 0, 0], [0, 1, 0]], [1.0, 0.0, 0.5], n_observed=2)
        >>> print(Network(dag).summary())
        layer   from           shape  weights
        input              1 × 28 × 28        0
        1       input      8 × 14 × 14       72
        output  1                    3       27
        99 weights
        """
        plan = self.plan
        last = len(plan.parents) - 1
        names = ["input", *map(str, range(1, last)), "output"]
        sizes = [0, *(w.numel() for w in self.kernels), self.linear.numel() + self.bias.numel()]
        shapes = [f"{c} × {s} × {s}" if s else f"{c}" for c, s in zip(plan.channels, plan.sides, strict=True)]
        above = [", ".join(names[p] for p in parents) for parents in plan.parents]
        wide = max(len("from"), *map(len, above))
        rows = [f"{'layer':8}{'from':{wide}}  {'shape':>12}  weights"]
        rows += [
            f"{name:8}{parents:{wide}}  {shape:>12}  {size:>7}"
            for name, parents, shape, size in zip(names, above, shapes, sizes, strict=True)
        ]
        return "\n".join([*rows, f"{sum(sizes)} weights"])

    def to_onnx(self, path: str | Path) -> None:
        """Write the network as an ONNX file, from `images` to `logits`, for any number of images."""
        try:
            import onnxscript  # noqa: F401  torch needs it, and says so less clearly
        except ImportError:
            raise ImportError("to_onnx needs onnx and onnxscript: pip install 'chefs[onnx]'") from None
        exported = _Exported.from_plan(self.plan)
        exported.load_state_dict(self.state_dict())
        example = torch.zeros(2, self.plan.channels[0], self.plan.sides[0], self.plan.sides[0])
        with warnings.catch_warnings():
            # Torch warns about what its own exporter does.
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.onnx.export(
                exported.eval(),
                (example,),
                str(path),
                input_names=["images"],
                output_names=["logits"],
                dynamic_shapes=({0: torch.export.Dim("n_images", min=1)},),
                dynamo=True,
                external_data=False,
                verbose=False,
            )


class _Exported(Network):
    """The same network with averages as products of matrices: ONNX has no adaptive pooling to any side."""

    def _average(self, maps: Tensor, side: int) -> Tensor:
        matrix = torch.from_numpy(averaging(maps.shape[-1], side))
        return matrix @ maps @ matrix.T


def averaging(old: int, new: int) -> np.ndarray:
    """The matrix that averages `old` pixels to `new` ones as adaptive pooling does.

    Pixel r is the mean of the old ones from ⌊r old/new⌋ up to, not with, ⌈(r + 1) old/new⌉.
    """
    matrix = np.zeros((new, old), np.float32)
    for r in range(new):
        first, last = r * old // new, -(-(r + 1) * old // new)
        matrix[r, first:last] = 1 / (last - first)
    return matrix


def checked_device(device: str) -> str:
    """What is asked for, "cpu" or "cuda"; for "auto" the best there is that `StackedTrainer` can use."""
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu' or 'cuda'; found {shown(device)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but PyTorch finds no CUDA device here: use device='cpu' or 'auto'")
    if device == "auto":
        usable = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
        return "cuda" if usable else "cpu"
    return device


def device_name(device: str) -> str:
    """The device in words."""
    return torch.cuda.get_device_name() if checked_device(device) == "cuda" else "CPU"


def torch_version() -> str:
    """The version of PyTorch."""
    return str(torch.__version__)
