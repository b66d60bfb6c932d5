"""Ways to break a run: storage that fails at a given operation, processes that are killed at a given moment."""

import errno
import multiprocessing
import os
import signal
import time

import numpy as np

import chefs
from chefs import running, storage
from tests.runs import likelihood_kernel, prior_kernel

PLANS = {
    "prior": (prior_kernel(), {"draws": 36, "thin": 2}),
    "likelihood": (likelihood_kernel(), {"draws": 30, "warmup": 10}),
    "tempered": (likelihood_kernel(), {"draws": 20, "warmup": 45, "temperatures": 3}),
}
N_CHAINS = 2


def begin(plan, checkpoint=None, **options):
    kernel, settings = PLANS[plan]
    settings = {**settings, **options, "checkpoint": checkpoint, "chains": N_CHAINS, "n_jobs": 1, "progress": False}
    return chefs.sample(np.random.default_rng(7), kernel, **settings)


def go_on(folder, **options):
    return chefs.resume(folder, n_jobs=1, progress=False, **options)


class Operations:
    """Counts what storage does to the disk, and acts from operation number `at` on: in the midst of a write, too."""

    def __init__(self, act=lambda: None, at=None):
        self.act, self.at, self.count = act, at, 0

    def tick(self):
        self.count += 1
        if self.at is not None and self.count >= self.at:
            self.act()

    def install(self, set_attribute):
        """Put this between storage and the disk; `set_attribute` is `setattr` or that of monkeypatch."""
        for name in ("fsync", "replace", "mkdir"):
            set_attribute(os, name, self._watched(getattr(os, name)))
        set_attribute(storage, "open", self._open, raising=False)
        return self

    def _watched(self, function):
        def watched(*args, **options):
            self.tick()
            return function(*args, **options)

        return watched

    def _open(self, path, mode):
        self.tick()
        return _File(open(path, mode), self)


class _File:
    """A file that writes in two halves, so that one can fail between them."""

    def __init__(self, file, operations):
        self.file, self.operations = file, operations

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.file.close()

    def write(self, content):
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        self.operations.tick()
        self.file.write(content[len(content) // 2 :])

    def flush(self):
        self.file.flush()

    def fileno(self):
        return self.file.fileno()


def disk_full():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def kill_myself():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal may take a moment


# Children are forked from a server that has imported, and compiled, everything: each begins within milliseconds.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.preloaded"])


def in_child(function, *args):
    """Start function(*args) in another process; a pipe to it, and the process."""
    here, there = _context.Pipe()
    process = _context.Process(target=function, args=(there, *args))
    process.start()
    there.close()
    return here, process


def child_run(pipe, plan, folder, at):
    """Begin a run, or go on with it where there is one, and be killed at storage operation `at`, if any."""
    running.FLUSH_SECONDS = 0.0
    if at is not None:
        Operations(kill_myself, at).install(lambda owner, name, value, raising=True: setattr(owner, name, value))
    pipe.send("begun")
    if (folder / "run").exists():
        go_on(folder)
    else:
        begin(plan, folder)


def killed_at_operation(plan, folder, at):
    """Whether the run was killed at storage operation `at`; otherwise it ended before."""
    pipe, process = in_child(child_run, plan, folder, at)
    assert pipe.recv() == "begun"
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def killed_after(plan, folder, seconds):
    """Kill the run that many seconds after it began."""
    pipe, process = in_child(child_run, plan, folder, None)
    assert pipe.recv() == "begun"
    time.sleep(seconds)
    process.kill()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0
