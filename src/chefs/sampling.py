"""sample: chains in parallel, written while they run, resumed after a crash draw for draw."""

from __future__ import annotations

import io
import math
import os
import pickle
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import cloudpickle
import joblib
import numpy as np

from chefs import progress as notes
from chefs.dag import checked_names, shown
from chefs.draws import ChainDraws
from chefs.kernels import Kernel
from chefs.prior import checked_rng
from chefs.running import ABANDONED, Call, Plan, run_chain, state_of
from chefs.storage import RunError, Store, pack_arrays, unpack_arrays
from chefs.tempering import TemperedKernel
from chefs.trace import Trace, n_segments, read_segments, write_header


def sample(
    rng: np.random.Generator,
    kernel: Kernel,
    *,
    draws: int,
    warmup: int = 0,
    thin: int = 1,
    chains: int = 4,
    temperatures: int | Sequence[float] | None = None,
    names: Sequence[str] | None = None,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    minutes: float | None = None,
    about: Mapping[str, Any] | None = None,
    keep: Mapping[str, np.ndarray] | None = None,
) -> Trace:
    """Run a kernel and collect its draws.

    Chains run in parallel through joblib: under `joblib.parallel_config(backend="dask")`, say, a Dask cluster does the
    work. The same `rng` gives the same draws whatever does the work. Each chain has a generator spawned from `rng`: to
    repeat a run make a new `default_rng(seed)`; setting back `rng.bit_generator.state` is not enough. A run that
    `minutes` cut short has reached as far as the machine was fast: it cannot be repeated draw for draw.

    Args:
        rng: A NumPy generator.
        kernel: Any `Kernel`.
        draws: Draws of each chain.
        warmup: Steps before the first draw, in which kernels adapt.
        thin: Steps from one draw to the next.
        chains: Independent chains.
        temperatures: For parallel tempering: how many copies from the posterior to the prior, or their temperatures.
        names: Names of the observed nodes.
        n_jobs: Chains at a time; None for as many as there are cores.
        checkpoint: A new folder to which the run is written while it goes on; `resume` continues it.
        progress: Whether to show progress; None for: on a terminal.
        minutes: Stop after so many minutes, with at least one draw of each chain; half of them at most are warm-up.
            Chains that had to wait for others share the time, and may end with different numbers of draws.
        about: Facts to keep with the draws as `Trace.about`, of the types that JSON knows.
        keep: Arrays to keep in the folder of the run, such as the data; `chefs.sampling.kept` reads them.

    >>> import chefs
    >>> kernel = chefs.PriorKernel(chefs.ChefsProcess(1.0, 2.0, 1.0), observed=3)
    >>> trace = chefs.sample(np.random.default_rng(0), kernel, draws=50, chains=2, progress=False)
    >>> trace.n_chains, len(trace)
    (2, 100)
    """
    plan = Plan(draws, warmup, thin, minutes)
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a Kernel, such as PriorKernel; found {shown(kernel)}")
    if isinstance(chains, bool) or not isinstance(chains, int | np.integer) or chains < 1:
        raise ValueError(f"chains must be a whole number, at least 1; found {chains!r}")
    check_jobs(n_jobs)
    names = None if names is None else checked_names(names, kernel.n_observed)
    tempered = _tempered(kernel, temperatures)
    generators = _spawned(rng, int(chains))
    if checkpoint is None:
        results = _run_all(tempered, plan, generators, None, n_jobs, progress)
        return Trace([draws for draws, _ in results], [stats for _, stats in results], names, about)
    store = Store.new(Path(checkpoint))
    with store.alone():
        if store.has("run"):
            raise FileExistsError(f"another process began a run in {store.folder}: choose another path")
        header = {
            "n_observed": kernel.n_observed,
            "names": names,
            "about": dict(about or {}),
            "temperatures": np.asarray(temperatures).tolist() if temperatures is not None else None,
            **asdict(plan),
        }
        write_header(store, header, len(generators), pickle.dumps(generators) + cloudpickle.dumps(kernel))
        if keep:
            store.write("kept", {}, pack_arrays(keep))
        return _run_folder(store, tempered, plan, generators, n_jobs, progress)


def kept(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays that a run was given to keep, by name."""
    store = Store.open(Path(path))[0]
    return unpack_arrays(store.read("kept")[1]) if store.has("kept") else {}


def resume(
    path: str | Path,
    *,
    draws: int | None = None,
    minutes: float | None = None,
    kernel: Kernel | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Trace:
    """Continue a run from its folder; the result is, draw for draw, that of a run never interrupted.

    The folder holds the kernel as Python objects: resume only runs that you trust.

    Args:
        path: The folder given to `sample` as `checkpoint`.
        draws: A larger number of draws than the run was started with, to make it longer.
        minutes: More minutes in all than the run was started with, to make it longer.
        kernel: The kernel as it was given to `sample`, where the stored one cannot be read any more.
        n_jobs: Chains at a time.
        progress: Whether to show progress.
    """
    check_jobs(n_jobs)
    store = Store.open(Path(path))[0]
    with store.alone():
        _, header, body = Store.open(store.folder)
        begun = begun_with(store.folder, header)
        plan = begun.longer(draws, minutes)
        generators, stored = _stored(store, body, kernel)
        if stored.n_observed != header["n_observed"]:
            raise ValueError(f"kernel has {stored.n_observed} observed nodes where the run has {header['n_observed']}")
        for chain in range(len(generators)):
            _check_written(store, chain)
        if plan != begun:
            _check_adds(store, begun, plan, len(generators), turns(len(generators), n_jobs)[1])
            store.write("run", {**header, **asdict(plan)}, body)
        tempered = _tempered(stored, header["temperatures"])
        return _run_folder(store, tempered, plan, generators, n_jobs, progress)


def begun_with(folder: Path, header: Mapping[str, Any]) -> Plan:
    """The plan that the header of a run holds."""
    if "thin" not in header:
        raise RunError(f"{folder} holds a trace that was saved, not a run that can be continued")
    return Plan(header["draws"], header["warmup"], header["thin"], header.get("minutes"))


def _spawned(rng: np.random.Generator, chains: int) -> list[np.random.Generator]:
    """A generator for each chain."""
    checked_rng(rng)
    try:
        return rng.spawn(chains)
    except (TypeError, AttributeError) as error:
        raise ValueError(
            "rng cannot be spawned into one generator a chain, because its bit generator has no seed sequence: "
            "give np.random.default_rng(seed)"
        ) from error


def _tempered(kernel: Kernel, temperatures: int | Sequence[float] | None) -> Kernel:
    return kernel if temperatures is None else TemperedKernel.of(kernel, temperatures)


def _stored(store: Store, body: bytes, kernel: Kernel | None) -> tuple[list[np.random.Generator], Kernel]:
    """The generators and the kernel that a run began with; a kernel given again need not be read."""
    stream = io.BytesIO(body)
    generators = pickle.load(stream)
    try:
        return generators, cloudpickle.load(stream) if kernel is None else kernel
    except Exception as error:  # unpickling runs foreign constructors: anything can happen
        raise RunError(
            f"the kernel in {store.folder} cannot be read here ({type(error).__name__}: {error}): "
            "import what it needs, or pass it again as resume(..., kernel=...)"
        ) from error


def _check_written(store: Store, chain: int) -> None:
    """Whether the draws and the state of a chain fit together; a chain that has not begun has neither."""
    if not store.has(state_of(chain)) and not n_segments(store, chain):
        return
    facts, _ = store.read(state_of(chain))
    found = sum(len(piece) for piece in islice(read_segments(store, chain), facts["n_segments"]))
    if found != facts["n_draws"] or n_segments(store, chain) > facts["n_segments"] + 1:
        raise RunError(
            f"{store.folder / state_of(chain)} does not fit the draws beside it: "
            f"it counts {facts['n_draws']} in {facts['n_segments']} files"
        )


def _check_adds(store: Store, begun: Plan, plan: Plan, chains: int, rounds: int) -> None:
    """Raise where a longer plan adds nothing, because the limit that was left as it is has ended every chain."""
    names = [state_of(chain) for chain in range(chains)]
    facts = [store.read(name)[0] if store.has(name) else {"n_draws": 0} for name in names]
    if plan.draws == begun.draws and all(at["n_draws"] >= plan.draws for at in facts):
        raise ValueError(f"minutes add nothing to a run that has all its {plan.draws} draws: give more draws as well")
    seconds = plan.shared(rounds).seconds
    if plan.minutes == begun.minutes and all(at["n_draws"] and at.get("seconds", 0.0) >= seconds for at in facts):
        raise ValueError(f"draws add nothing to a run whose {plan.minutes} minutes are over: give more minutes as well")


def check_jobs(n_jobs: Any) -> None:
    """Raise where it does not say how many chains may run at a time."""
    whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and n_jobs):
        raise ValueError(f"n_jobs must be None or a whole number other than 0; found {shown(n_jobs)}")


def _run_folder(store: Store, kernel, plan, generators, n_jobs, progress) -> Trace:
    try:
        for chain in range(len(generators)):
            if not store.has(state_of(chain)):
                store.write(state_of(chain), {"steps": 0, "n_draws": 0, "n_segments": 0})
        _run_all(kernel, plan, generators, store, n_jobs, progress)
    except RunError as error:
        remedy = f"when the cause is mended, chefs.resume({str(store.folder)!r}) goes on"
        raise RunError(f"{error}; {remedy}") from error
    finally:
        for note in store.folder.glob("progress-*"):
            note.unlink(missing_ok=True)
    return Trace.load(store.folder)


def _run_all(kernel, plan, generators, store, n_jobs, progress) -> list[tuple[ChainDraws, dict[str, Any]]]:
    """All chains, as many at a time as asked for, wherever joblib puts them."""
    with ExitStack() as stack:
        # Workers may have been started in another folder than that in which this process is now.
        placed = replace(store, folder=store.folder.absolute()) if store else None
        watched = None
        if notes.wanted(progress):
            watched = placed.folder if placed else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(notes.shown(watched, len(generators)))
        at_once, rounds = turns(len(generators), n_jobs)
        parallel = joblib.Parallel(n_jobs=at_once, prefer=getattr(kernel, "prefer", "processes"))
        call = Call(uuid.uuid4().hex, os.getpid())
        try:
            return parallel(
                joblib.delayed(run_chain)(kernel, plan.shared(rounds), generator, chain, placed, watched, call)
                for chain, generator in enumerate(generators)
            )  # pyright: ignore[reportReturnType]
        except BaseException:
            ABANDONED.append(call.key)
            raise


def turns(chains: int, n_jobs: int | None) -> tuple[int, int]:
    """How many chains run at a time, and how many one after the other."""
    wanted: Any = n_jobs
    if wanted is None:
        wanted = joblib.parallel.get_active_backend()[1]  # what joblib.parallel_config says, if anything
    at_once = min(chains, joblib.cpu_count()) if wanted is None else wanted
    return at_once, math.ceil(chains / min(joblib.effective_n_jobs(at_once), chains))
