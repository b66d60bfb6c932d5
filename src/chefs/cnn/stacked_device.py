"""The kernels of `stacked.cu` on an NVIDIA GPU, compiled at first use by the library that comes with PyTorch."""

from __future__ import annotations

import ctypes
import functools
import site
import sys
from importlib import resources
from pathlib import Path

import torch

from chefs.cnn.stacked_tables import THREADS, Launch

POINTERS = (
    "blocks", "jobs", "entries", "windows", "images", "labels", "x", "h", "d", "ahead", "back", "weights", "partials",
    "first", "second", "means", "mean_slopes", "logits", "errors", "rates", "step",
)  # fmt: skip
NUMBERS = ("batch", "n_groups", "n_classes", "n_weights", "n_tiled")
KERNELS = ("convolve_ahead", "convolve_back", "pool", "unpool", "weight_slopes", "head", "head_slopes", "adam")


class StackArguments(ctypes.Structure):
    """`Stack` of `stacked.cu`."""

    _fields_ = [*((name, ctypes.c_void_p) for name in POINTERS), *((name, ctypes.c_longlong) for name in NUMBERS)]


def source() -> str:
    """The text of the kernels."""
    return resources.files("chefs.cnn").joinpath("stacked.cu").read_text(encoding="utf-8")


class GpuKernels:
    """Launches the kernels on the current stream of a GPU."""

    def __init__(self, device: torch.device) -> None:
        major, minor = torch.cuda.get_device_capability(device)
        if major < 8:
            raise ValueError(
                f"device must be a GPU of compute capability 8.0 or more; {device} has {major}.{minor}: "
                "use device='cpu'"
            )
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise RuntimeError("the GPU's driver library libcuda.so.1 is missing: use device='cpu'") from None
        with torch.cuda.device(device):
            torch.cuda.synchronize()  # makes the context that the module is loaded in
            module = ctypes.c_void_p()
            self._check(self._driver.cuModuleLoadData(ctypes.byref(module), _compiled(f"sm_{major}{minor}")))
        self._functions = {name: ctypes.c_void_p() for name in KERNELS}
        for name, function in self._functions.items():
            self._check(self._driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))

    def __call__(self, launch: Launch, arguments: StackArguments) -> None:
        """Puts one launch into the stream."""
        first = ctypes.c_int(launch.first)
        pointers = (ctypes.c_void_p * 2)(ctypes.addressof(arguments), ctypes.addressof(first))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        grid, block = (launch.n_blocks, 1, 1), (THREADS, 1, 1)
        function = self._functions[launch.kernel]
        self._check(self._driver.cuLaunchKernel(function, *grid, *block, 0, stream, pointers, None))

    def _check(self, code: int) -> None:
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            words = (text.value or b"error").decode()
            raise RuntimeError(f"the GPU's driver refused: {words} ({code}): use device='cpu'")


@functools.cache
def _compiled(architecture: str) -> bytes:
    """Machine code of the kernels, by NVRTC."""
    compiler = _compiler()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    compiler.nvrtcCreateProgram(ctypes.byref(program), source().encode(), b"stacked.cu", 0, None, None)
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    failed = compiler.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    sized, get = ("nvrtcGetProgramLogSize", "nvrtcGetProgramLog") if failed else ("nvrtcGetCUBINSize", "nvrtcGetCUBIN")
    getattr(compiler, sized)(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(compiler, get)(program, text)
    compiler.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        first = text.value.decode().partition("\n")[0]
        raise RuntimeError(f"the kernels did not compile for {architecture}: {first}: use device='cpu'")
    return text.raw


def _compiler() -> ctypes.CDLL:
    """NVRTC: as the system knows it, or out of the packages that PyTorch brings along."""
    name = f"libnvrtc.so.{(torch.version.cuda or '0').split('.')[0]}"
    folders = [Path(folder) for folder in (*site.getsitepackages(), *sys.path) if folder]
    found = [str(path) for folder in folders for path in sorted(folder.glob(f"nvidia/*/lib/{name}"))]
    for candidate in (name, *found):
        try:
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    raise RuntimeError(
        f"the CUDA compiler library {name} is missing: install a PyTorch built for CUDA, or use device='cpu'"
    )
