"""The one place that imports numba. Where it cannot be installed, every kernel runs as plain Python."""

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable)

try:
    from numba import njit

    COMPILED = True
except ImportError:
    njit = None
    COMPILED = False


def jit(function: F) -> F:
    """Compile `function`, keep the machine code on disk, and release the interpreter lock while it runs."""
    if njit is None:
        return function
    return njit(cache=True, nogil=True)(function)
