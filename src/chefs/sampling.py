"""sample: chains in parallel, written while they run, resumed after a crash draw for draw."""

from __future__ import annotations

import io
import math
import os
import pickle
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import joblib
import numpy as np

from chefs import progress as notes
from chefs.dag import checked_names, shown
from chefs.draws import ChainDraws, Draw
from chefs.kernels import Info, Kernel
from chefs.patience import patient, plain
from chefs.prior import checked_rng, positive
from chefs.storage import RunError, Store, pack_arrays, unpack_arrays
from chefs.tempering import TemperedKernel
from chefs.trace import Trace, n_segments, read_segments, write_header, write_segment, write_stats

FLUSH_SECONDS = 2.0
FLUSH_DRAWS = 10_000
# The last calls that have raised: joblib cannot stop threads, so these stop themselves.
_ABANDONED: deque[str] = deque(maxlen=100)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to run: `warmup` steps, then `draws` draws, `thin` steps apart; or until `minutes` have passed."""

    draws: int
    warmup: int
    thin: int
    minutes: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("warmup", 0), ("thin", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be a whole number, at least {least}; found {value!r}")
            object.__setattr__(self, name, int(value))
        if self.minutes is not None:
            object.__setattr__(self, "minutes", positive("minutes", self.minutes))

    def shared(self, rounds: int) -> Plan:
        """The plan of one chain where so many run one after the other."""
        return self if self.minutes is None else replace(self, minutes=self.minutes / rounds)

    def longer(self, draws: int | None, minutes: float | None) -> Plan:
        """The plan of a run that is to have more draws, or more minutes in all."""
        plan = self if draws is None else replace(self, draws=draws)
        if plan.draws < self.draws:
            raise ValueError(f"draws must be at least {self.draws}, what the run was started with; found {draws}")
        if minutes is None:
            return plan
        if self.minutes is None or not positive("minutes", minutes) >= self.minutes:
            least = "left out, for the run has no such end" if self.minutes is None else f"at least {self.minutes}"
            raise ValueError(f"minutes must be {least}; found {minutes!r}")
        return replace(plan, minutes=minutes)

    @property
    def seconds(self) -> float:
        """How long a chain may take; half of it at most is warm-up."""
        return math.inf if self.minutes is None else 60.0 * self.minutes


class Call(NamedTuple):
    """Who wants the chains: chains in its process and in children of it stop when it has failed, or is no more."""

    key: str
    process: int

    def is_over(self, by_child: bool) -> bool:
        """Whether nobody waits any more for a chain that runs here, by a child of the process that wants it or not."""
        return self.key in _ABANDONED or (by_child and os.getppid() != self.process)


NOBODY = Call("", 0)


@dataclass
class Standing:
    """Where a chain stands: everything that is needed to go on as if nothing had happened."""

    state: Any
    rng: np.random.Generator
    steps: int  # made, warm-up included
    n_draws: int  # written
    n_segments: int
    tally: np.ndarray  # of moves after warm-up
    seconds: float
    move_seconds: np.ndarray | None = None  # of each kind of move after warm-up, where the kernel says
    warm_steps: int | None = None  # of warm-up, once that has ended

    def n_made(self, plan: Plan) -> int:
        """Draws made so far, written or not."""
        return 0 if self.warm_steps is None else (self.steps - self.warm_steps) // plan.thin

    def is_over(self, plan: Plan) -> bool:
        """Whether all draws are made, or at least one and the time is up."""
        made = self.n_made(plan)
        return made >= plan.draws or (made > 0 and self.seconds >= plan.seconds)


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
    if not store.has(_state_of(chain)) and not n_segments(store, chain):
        return
    facts, _ = store.read(_state_of(chain))
    found = sum(len(piece) for piece in islice(read_segments(store, chain), facts["n_segments"]))
    if found != facts["n_draws"] or n_segments(store, chain) > facts["n_segments"] + 1:
        raise RunError(
            f"{store.folder / _state_of(chain)} does not fit the draws beside it: "
            f"it counts {facts['n_draws']} in {facts['n_segments']} files"
        )


def _check_adds(store: Store, begun: Plan, plan: Plan, chains: int, rounds: int) -> None:
    """Raise where a longer plan adds nothing, because the limit that was left as it is has ended every chain."""
    names = [_state_of(chain) for chain in range(chains)]
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


def _state_of(chain: int) -> str:
    return f"chain-{chain}/state"


def _run_folder(store: Store, kernel, plan, generators, n_jobs, progress) -> Trace:
    try:
        for chain in range(len(generators)):
            if not store.has(_state_of(chain)):
                store.write(_state_of(chain), {"steps": 0, "n_draws": 0, "n_segments": 0})
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
            _ABANDONED.append(call.key)
            raise


def turns(chains: int, n_jobs: int | None) -> tuple[int, int]:
    """How many chains run at a time, and how many one after the other."""
    wanted: Any = n_jobs
    if wanted is None:
        wanted = joblib.parallel.get_active_backend()[1]  # what joblib.parallel_config says, if anything
    at_once = min(chains, joblib.cpu_count()) if wanted is None else wanted
    return at_once, math.ceil(chains / min(joblib.effective_n_jobs(at_once), chains))


def run_chain(
    kernel: Kernel,
    plan: Plan,
    rng: np.random.Generator,
    chain: int,
    store: Store | None,
    watched: Path | None,
    call: Call = NOBODY,
) -> tuple[ChainDraws, dict[str, Any]]:
    """One chain from where it stands to its end. With a store, its draws go there and not back to the caller."""
    note = notes.Notes(watched, chain)
    if store is None:
        draws: list[Draw] = []
        at = _start(kernel, rng)
        with patient() as asked:
            for draw in _advance(kernel, plan, at, note, call, asked):
                if draw is not None:
                    draws.append(draw)
        return ChainDraws.from_draws(kernel.n_observed, draws), _stats(kernel, at)
    with store.alone(f"chain-{chain}"):  # the worker of a run that was killed may live on
        at = _standing(kernel, rng, chain, store)
        if not at.is_over(plan):
            with patient() as asked:
                _run_written(kernel, plan, at, chain, store, note, call, asked)
        stats = _stats(kernel, at)
        write_stats(store, chain, stats)
    return ChainDraws.from_draws(kernel.n_observed, []), stats


def _advance(
    kernel: Kernel, plan: Plan, at: Standing, note: notes.Notes, call: Call, asked: list[int]
) -> Iterator[Draw | None]:
    """Step to the end of the plan, or until asked to stop; after each step the draw, or None where there is none."""
    begin = last = time.monotonic()
    steps_before, by_child = at.steps, os.getppid() == call.process
    while not (asked or at.is_over(plan)):
        if call.is_over(by_child):
            raise RunError("another chain failed, or the run was interrupted")
        if at.warm_steps is None and (at.steps >= plan.warmup or at.seconds >= plan.seconds / 2):
            at.state = getattr(kernel, "freeze", lambda state: state)(at.state)
            at.warm_steps = at.steps
        made = at.n_made(plan)
        at.state, info = kernel.step(at.rng, at.state)
        at.steps += 1
        if at.warm_steps is not None:
            at.tally = at.tally + info.tally
            at.move_seconds = _added(at.move_seconds, info.seconds)
        now = time.monotonic()
        at.seconds, last = at.seconds + now - last, now
        if note.due() or at.is_over(plan):
            note.write(_note(kernel, plan, at, info, (now - begin) / (at.steps - steps_before)))
        yield kernel.draw(at.state) if at.n_made(plan) > made else None


def _added(total: np.ndarray | None, more: np.ndarray | None) -> np.ndarray | None:
    return total if more is None else more if total is None else total + more


def _note(kernel: Kernel, plan: Plan, at: Standing, info: Info, pace: float) -> notes.Note:
    """What a chain says about itself, whose steps take `pace` seconds."""
    warm_steps = plan.warmup if at.warm_steps is None else at.warm_steps
    left = min(warm_steps + plan.draws * plan.thin - at.steps, max(0.0, plan.seconds - at.seconds) / max(pace, 1e-9))
    left = 0 if at.is_over(plan) else max(1, math.ceil(left))
    tried, accepted = info.tally.sum(axis=0).tolist()
    return notes.Note(
        done=at.steps,
        total=at.steps + left,
        draws=at.n_made(plan),
        moves_per_second=tried / max(pace, 1e-9),
        acceptance=accepted / max(tried, 1),
        n_nodes=kernel.draw(at.state).order.size,
        seconds_left=pace * left,
    )


def _run_written(
    kernel: Kernel, plan: Plan, at: Standing, chain: int, store: Store, note: notes.Notes, call: Call, asked: list[int]
) -> None:
    """The rest of a chain, written every 2 seconds, or every hundredth of its time so far, and when asked to stop."""
    store.remove(f"chain-{chain}/stats")
    owed = _n_ahead(store, chain, at)
    kept: list[Draw] = []
    last_flush = time.monotonic()
    for draw in _advance(kernel, plan, at, note, call, asked):
        if draw is not None:
            kept.append(draw)
        waited = time.monotonic() - last_flush
        due = asked or waited > max(FLUSH_SECONDS, at.seconds / 100) or len(kept) >= FLUSH_DRAWS
        if at.is_over(plan) or (due and len(kept) >= owed):
            _flush(kernel, at, kept, chain, store)
            kept, owed = [], 0
            last_flush = time.monotonic()


def _n_ahead(store: Store, chain: int, at: Standing) -> int:
    """How many draws were written that the state does not know of, because the run was killed before it was written.

    They will be made again and written in the same place, but not before there are as many: what a reader has once
    seen must not go away. Where they cannot be read there is nothing to wait for.
    """
    try:
        return sum(len(piece) for piece in islice(read_segments(store, chain), at.n_segments, None))
    except RunError:
        return 0


def _standing(kernel: Kernel, rng: np.random.Generator, chain: int, store: Store) -> Standing:
    """Where the chain stopped, or its start."""
    facts, body = store.read(_state_of(chain))
    if not facts["steps"]:
        return _start(kernel, rng)
    try:
        at: Standing = cloudpickle.loads(body)
    except Exception as error:  # as for the kernel
        raise RunError(
            f"{store.folder / _state_of(chain)} cannot be read here ({type(error).__name__}: {error})"
        ) from error
    if at.tally.shape[0] != len(kernel.move_names):
        raise RunError(f"the kernel has other moves than the one that chain {chain} was begun with")
    return at


def _start(kernel: Kernel, rng: np.random.Generator) -> Standing:
    tally = np.zeros((len(kernel.move_names), 2), dtype=np.int64)
    begin = time.monotonic()
    with plain():
        state = kernel.init(rng)
    return Standing(state, rng, 0, 0, 0, tally, time.monotonic() - begin)


def _flush(kernel: Kernel, at: Standing, kept: list[Draw], chain: int, store: Store) -> None:
    """Write the draws as a new segment, then the state; a crash in between costs nothing but the time."""
    if kept:
        write_segment(store, chain, at.n_segments, at.n_draws, ChainDraws.from_draws(kernel.n_observed, kept))
        at.n_segments += 1
        at.n_draws += len(kept)
    facts = {"steps": at.steps, "n_draws": at.n_draws, "n_segments": at.n_segments, "seconds": at.seconds}
    store.write(_state_of(chain), facts, cloudpickle.dumps(at))


def _stats(kernel: Kernel, at: Standing) -> dict[str, Any]:
    moves: dict[str, dict[str, Any]] = {
        name: {"made": int(made), "accepted": int(accepted)}
        for name, (made, accepted) in zip(kernel.move_names, at.tally, strict=True)
    }
    if at.move_seconds is not None:
        for move, seconds in zip(moves.values(), at.move_seconds.tolist(), strict=True):
            move["seconds"] = seconds
    stats: dict[str, Any] = {"moves": moves, "seconds": at.seconds, "warmup": at.warm_steps}
    if isinstance(kernel, TemperedKernel):
        stats["powers"] = at.state.powers.tolist()
        swaps = [moves[name] for name in moves if name.startswith("swap ")]
        stats["swap_rates"] = [swap["accepted"] / max(swap["made"], 1) for swap in swaps]
    return stats
