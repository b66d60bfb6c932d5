"""Ctrl-C and the end of the process that wants the chains: between two steps, never inside of one."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import chefs
from chefs import Trace, running
from chefs.patience import patient, plain
from tests.runs import prior_kernel, same_draws


def interrupt():
    signal.raise_signal(signal.SIGINT)


def patiently(*actions):
    with patient():
        for action in actions:
            action()


def test_an_interrupt_waits_for_the_end_of_the_block():
    before, reached = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt):
        patiently(interrupt, lambda: reached.append(1))
    assert reached == [1]
    assert signal.getsignal(signal.SIGINT) is before
    with patient() as asked:
        assert signal.getsignal(signal.SIGINT) is not before
    assert not asked and signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_does_not_wait():
    reached = []
    with pytest.raises(KeyboardInterrupt):
        patiently(interrupt, lambda: reached.append(1), interrupt, lambda: reached.append(2))
    assert reached == [1]


def test_an_error_in_the_block_is_what_is_raised():
    with pytest.raises(ZeroDivisionError):
        patiently(interrupt, lambda: 1 / 0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_and_processes_that_ignore_it_are_left_alone():
    found = []

    def elsewhere():
        with patient() as asked:
            found.append((signal.getsignal(signal.SIGINT), asked))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [(signal.default_int_handler, [])]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with patient() as asked:
            interrupt()
        assert not asked
    finally:
        signal.signal(signal.SIGINT, before)


class Interrupting:
    """A kernel in one step of which Ctrl-C arrives."""

    prefer = "threads"

    def __init__(self, step):
        self.kernel, self.left, self.done = prior_kernel(), step, False
        self.n_observed, self.move_names = self.kernel.n_observed, self.kernel.move_names
        self.draw = self.kernel.draw

    def init(self, rng):
        return self.kernel.init(rng)

    def step(self, rng, state):
        self.left, self.done = self.left - 1, False
        if self.left == 0:
            interrupt()
        found = self.kernel.step(rng, state)
        self.done = True
        return found


@pytest.mark.parametrize("step", [1, 4, 9])
def test_a_run_is_written_to_the_step_in_which_it_is_interrupted(tmp_path, step):
    options = {"draws": 9, "chains": 1, "n_jobs": 1, "progress": False}
    kernel = Interrupting(step)
    with pytest.raises(KeyboardInterrupt):
        chefs.sample(np.random.default_rng(3), kernel, checkpoint=tmp_path / "run", **options)
    assert kernel.done
    assert len(Trace.load(tmp_path / "run")) == step
    whole = chefs.sample(np.random.default_rng(3), prior_kernel(), **options)
    assert same_draws(chefs.resume(tmp_path / "run", kernel=prior_kernel(), n_jobs=1, progress=False), whole)
    with pytest.raises(KeyboardInterrupt):  # without a folder too
        chefs.sample(np.random.default_rng(3), Interrupting(step), **options)


class Starting(Interrupting):
    """A kernel that is interrupted while it finds its start, as compiled code says it."""

    def __init__(self, error):
        super().__init__(1)
        self.error = error

    def init(self, rng):
        try:
            raise self.error
        except BaseException as error:
            raise SystemError("returned a result with an exception set") from error


def test_compiled_code_that_is_interrupted_says_so(tmp_path):
    options = {"draws": 9, "chains": 1, "n_jobs": 1, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        chefs.sample(np.random.default_rng(3), Starting(KeyboardInterrupt()), checkpoint=tmp_path / "run", **options)
    whole = chefs.sample(np.random.default_rng(3), prior_kernel(), **options)
    assert same_draws(chefs.resume(tmp_path / "run", kernel=prior_kernel(), n_jobs=1, progress=False), whole)
    for error in (ValueError(), SystemError()):  # what else goes wrong is not hidden
        with pytest.raises(SystemError, match="exception set"):
            chefs.sample(np.random.default_rng(3), Starting(error), **options)
    with pytest.raises(SystemError), plain():
        raise SystemError


PROGRAM = """
import sys
import numpy as np
import chefs
from tests.runs import prior_kernel
options = {"chains": 2, "n_jobs": 2, "progress": False, "checkpoint": sys.argv[1]}
chefs.sample(np.random.default_rng(3), prior_kernel(n_moves=1), draws=10**9, **options)
"""


def test_workers_stop_when_the_process_that_wants_them_is_killed(tmp_path):
    """Else they would go on, and hold their chains against whoever resumes."""
    states = [tmp_path / "run" / f"chain-{chain}" / "state" for chain in (0, 1)]
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "run")]) as process:
        patience = time.monotonic() + 600
        while not all(state.exists() and state.stat().st_size > 1000 for state in states):
            assert process.poll() is None and time.monotonic() < patience
            time.sleep(0.05)
        process.kill()
    n = min(len(chain) for chain in Trace.load(tmp_path / "run").chains)
    time.sleep(running.FLUSH_SECONDS + 1)
    sizes = [len(chain) for chain in Trace.load(tmp_path / "run").chains]
    time.sleep(2 * running.FLUSH_SECONDS)
    assert [len(chain) for chain in Trace.load(tmp_path / "run").chains] == sizes
    assert min(sizes) >= n > 0


def test_a_call_is_over_when_it_was_abandoned_or_its_process_is_no_longer_the_parent():
    call = running.Call("some key", os.getppid())
    assert not call.is_over(by_child=True)
    assert call._replace(process=os.getppid() + 1).is_over(by_child=True)
    assert not call._replace(process=os.getppid() + 1).is_over(by_child=False)
    running.ABANDONED.append("some key")
    assert call.is_over(by_child=False)
    running.ABANDONED.remove("some key")
