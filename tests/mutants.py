"""Negative controls: a kernel of the library with one term of its source changed, compiled anew where it matters.

What no change reaches is taken from the library, so that a control compiles little.
"""

import importlib
import inspect
import re
import types

from numba import njit


def mutant(name, *changes, compiled=True, **others):
    """The module chefs._core.`name` with each (old, new) replaced in its source; `old` must stand there once.

    `others` are put in place of what the module has under those names. Where plain Python is quick enough,
    `compiled=False` saves the compiler's time.
    """
    original = importlib.import_module(f"chefs._core.{name}")
    source = inspect.getsource(original)
    for old, new in changes:
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {name}: mend the negative control"
        source = source.replace(old, new)
    line = re.compile("from chefs._core.jit import .*\n")
    module = types.ModuleType(f"mutant_{name}")
    module.__dict__["jit"] = njit(nogil=True) if compiled else lambda function: function
    module.__dict__["jit_loops"] = njit(nogil=True, error_model="numpy") if compiled else lambda function: function
    module.__dict__["jit_sums"] = njit(nogil=True, error_model="numpy") if compiled else lambda function: function
    exec(compile(line.sub("", source), f"mutant of {name}", "exec"), module.__dict__)
    # One class for both, or what is taken from the library would not take what the mutant makes.
    module.__dict__.update({name: value for name, value in vars(original).items() if isinstance(value, type)})
    module.__dict__.update(others)  # kernels are compiled when they are first called: nothing is bound yet
    _keep_what_is_the_same(module, original, {key for key in others if others[key] is not vars(original).get(key)})
    return module


def _keep_what_is_the_same(module, original, changed):
    """Put the functions that no change reaches back as they were."""
    ours = {name: _code(value) for name, value in vars(original).items() if _code(value) and name not in changed}
    changed |= {name for name, code in ours.items() if _differ(code, _code(vars(module)[name]))}
    changed |= {name for name, value in vars(original).items() if name.isupper() and vars(module)[name] != value}
    while reached := {
        name for name, code in ours.items() if name not in changed and changed.intersection(code.co_names)
    }:
        changed |= reached
    module.__dict__.update({name: vars(original)[name] for name in ours if name not in changed})


def _code(value):
    """The code of a function, compiled or not."""
    return getattr(getattr(value, "py_func", value), "__code__", None)


def _differ(a, b):
    return (a.co_code, a.co_consts, a.co_names) != (b.co_code, b.co_consts, b.co_names)
