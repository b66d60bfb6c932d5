"""A cluster does the work: the same call, the same draws, also where one of the workers dies."""

import functools
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import joblib
import numpy as np
import pytest

import chefs
from chefs import running, sampling
from tests.runs import likelihood_kernel, same_draws, skewed
from tests.test_commands import commands

distributed = pytest.importorskip("distributed")

ROOT = Path(__file__).parent.parent
PATIENCE = 60.0  # seconds after which a wait is given up: nothing here may hang
HALF_WAY = 60  # calls of the likelihood in one process
calls = 0


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def gated(dag, gate):
    """`skewed`, but half-way through it waits until there is a file named `gate`."""
    global calls
    calls += 1
    if calls > HALF_WAY and not wait_for(gate.exists):
        raise TimeoutError("the gate stays shut")
    return skewed(dag)


def run(likelihood, **options):
    kernel = likelihood_kernel(likelihood, cache=1)
    settings = {"draws": 80, "thin": 2, "chains": 2, "progress": False, **options}
    return chefs.sample(np.random.default_rng(3), kernel, **settings)


@pytest.fixture
def client():
    """A cluster of two worker processes, which keeps to itself what it has to say about one that is gone."""
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options, silence_logs=logging.CRITICAL) as cluster,
        distributed.Client(cluster, timeout=PATIENCE) as client,
    ):
        client.wait_for_workers(2, timeout=PATIENCE)
        yield client


def prepare():
    """Compile, or load what was compiled; then write after every step. Returns the process."""
    run(skewed, draws=1, n_jobs=1)
    running.FLUSH_SECONDS = 0.0
    return os.getpid()


def test_one_of_two_workers_is_killed(client, tmp_path):
    folder, gate = tmp_path / "run", tmp_path / "gate"
    expected = run(skewed, n_jobs=1)
    pids = client.run(prepare)
    at_work, written = [], []

    def kill_one():
        """When draws of both chains are on the disk, and neither can have ended."""
        try:
            wait_for(lambda: all((folder / f"chain-{c}" / "draws-000000").exists() for c in (0, 1)))
            at_work.extend(address for address, tasks in client.processing().items() if tasks)
            os.kill(pids[at_work[0]], signal.SIGKILL)
            written.append(len(chefs.Trace.load(folder)))
        finally:
            gate.touch()

    killer = threading.Thread(target=kill_one)
    killer.start()
    with joblib.parallel_config(backend="dask", n_jobs=-1):
        trace = run(functools.partial(gated, gate=gate), checkpoint=folder)
    killer.join()
    assert len(at_work) == 2
    assert 0 < written[0] < len(trace)
    assert pids[at_work[0]] not in client.run(os.getpid).values()
    assert same_draws(trace, expected)


def test_without_a_folder(client):
    with joblib.parallel_config(backend="dask", n_jobs=-1):
        assert sampling.turns(8, None)[1] == 4  # two at a time, whatever the number of cores here
        assert same_draws(run(skewed), run(skewed, n_jobs=1))


@pytest.fixture
def begin(tmp_path):
    """Begin a command in an empty folder; what was begun ends with the test."""
    begun = []

    def begin(command, *quick):
        line = [sys.executable, "-m", *command, *quick]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        begun.append(subprocess.Popen(line, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, **quiet))

    yield begin
    for process in reversed(begun):
        process.terminate()
        process.wait(PATIENCE)


def test_the_commands_of_the_page(begin, tmp_path, monkeypatch):
    """A scheduler and workers that find each other through a file; a run is begun on them, and made longer."""
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "machines.md"
    scheduler, worker = commands(page, ["dask"])
    (block,) = re.findall(r"^```\n(client = .*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    begin(scheduler, "--port", "0", "--dashboard-address", ":0")
    begin(worker, "--nworkers", "2")
    assert wait_for(Path("cluster.json").exists)
    names = {"Client": distributed.Client}
    exec(block.replace("16", f"2, timeout={PATIENCE}"), names)
    with names["client"], joblib.parallel_config(backend="dask", n_jobs=-1):
        run(skewed, draws=40, checkpoint="run")
        trace = chefs.resume("run", draws=80)
    assert same_draws(trace, run(skewed, n_jobs=1))
