"""Machine code on disk must not outlive the sources it was made from."""

import configparser
import os
import subprocess
import sys
from pathlib import Path

from chefs._core import jit
from chefs._core.jit import forget_stale_code


def test_code_older_than_a_source_is_forgotten_and_newer_is_kept(tmp_path):
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    for name, age in (("a.py", 100), ("b.py", 50)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    for name, age in (("a.old-1.nbi", 70), ("a.new-1.nbi", 10)):
        (cache / name).write_text("")
        os.utime(cache / name, (1e9 - age, 1e9 - age))
    forget_stale_code(tmp_path)
    assert [path.name for path in cache.iterdir()] == ["a.new-1.nbi"]


def test_a_state_given_twice_is_not_corrupted_by_growth():
    """Growth makes new arrays: a caller that steps again from an old state gets an answer, not a crash."""
    program = (
        "import numpy as np\n"
        "from chefs import ChefsProcess, PriorKernel\n"
        "kernel = PriorKernel(ChefsProcess(1.0, 4.0, 1.0), [0.0], n_moves=1000)\n"
        "rng = np.random.default_rng(0)\n"
        "state = kernel.init(rng)\n"
        "for _ in range(200):\n"
        "    kernel.step(rng, state)\n"
        "print(kernel.draw(state).order.size)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1


def test_the_layers_name_every_module_of_the_core():
    """Those that are not named in the contract of .importlinter may import numba themselves."""
    rules = configparser.ConfigParser()
    rules.read(Path(__file__).parents[2] / ".importlinter")
    named = rules["importlinter:contract:numba"]["source_modules"].split()
    modules = {path.stem for path in Path(jit.__file__).parent.glob("*.py")} - {"__init__", "jit"}
    assert modules == {name.removeprefix("chefs._core.") for name in named if name.startswith("chefs._core.")}
