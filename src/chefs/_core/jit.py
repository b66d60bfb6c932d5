"""The one place that imports numba. Where it cannot be installed, every kernel runs as plain Python."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, cast

F = TypeVar("F", bound=Callable)

try:
    from numba import njit

    COMPILED = True
except ImportError:
    njit = None
    COMPILED = False


def forget_stale_code(folder: Path) -> None:
    """Remove machine code that is older than any of the sources.

    Numba looks only at the file of a function, but code from the other files is compiled into it: after a change to one
    of those it would go on running the old one.
    """
    newest = max(path.stat().st_mtime for path in folder.glob("*.py"))
    for index in (folder / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # another process may have been quicker, or the folder may be read-only
            if index.stat().st_mtime < newest:
                index.unlink()


forget_stale_code(Path(__file__).parent)


def jit(function: F) -> F:
    """Compile `function`, keep the machine code on disk, and release the interpreter lock while it runs."""
    if njit is None:
        return function
    return cast(F, njit(cache=True, nogil=True)(function))


def jit_loops(function: F) -> F:
    """`jit` for loops over points. A division by zero gives an infinity, as in NumPy: else no loop is vectorised."""
    if njit is None:
        return function
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})(function))


def jit_sums(function: F) -> F:
    """`jit_loops` where sums may be added up in any order: else no sum is vectorised."""
    if njit is None:
        return function
    flags = {"contract", "reassoc", "nsz"}
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", fastmath=flags)(function))
