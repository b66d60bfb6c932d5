"""Negative controls: a kernel of the library compiled again with one term of its source changed."""

import importlib
import inspect
import re
import types

from numba import njit


def mutant(name, *changes, **others):
    """The module chefs._core.`name` with each (old, new) replaced in its source; `old` must stand there once.

    `others` are put in place of what the module imports under those names.
    """
    source = inspect.getsource(importlib.import_module(f"chefs._core.{name}"))
    for old, new in changes:
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {name}: mend the negative control"
        source = source.replace(old, new)
    line = re.compile("from chefs._core.jit import .*\n")
    module = types.ModuleType(f"mutant_{name}")
    module.__dict__["jit"] = njit(nogil=True)
    module.__dict__["jit_loops"] = njit(nogil=True, error_model="numpy")
    exec(compile(line.sub("", source), f"mutant of {name}", "exec"), module.__dict__)
    module.__dict__.update(others)  # kernels are compiled when they are first called: nothing is bound yet
    return module
