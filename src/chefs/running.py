"""One chain, from where it stands to the end of its plan: in memory, or written as it goes on."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from chefs import progress as notes
from chefs.draws import ChainDraws, Draw
from chefs.kernels import Info, Kernel
from chefs.patience import patient, plain
from chefs.prior import positive
from chefs.storage import RunError, Store
from chefs.tempering import TemperedKernel
from chefs.trace import read_segments, write_segment, write_stats

FLUSH_SECONDS = 2.0
FLUSH_DRAWS = 10_000
# The last calls that have raised: joblib cannot stop threads, so these stop themselves.
ABANDONED: deque[str] = deque(maxlen=100)


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
        return self.key in ABANDONED or (by_child and os.getppid() != self.process)


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


def state_of(chain: int) -> str:
    """The name under which the state of a chain is stored."""
    return f"chain-{chain}/state"


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
    facts, body = store.read(state_of(chain))
    if not facts["steps"]:
        return _start(kernel, rng)
    try:
        at: Standing = cloudpickle.loads(body)
    except Exception as error:  # as for the kernel
        raise RunError(
            f"{store.folder / state_of(chain)} cannot be read here ({type(error).__name__}: {error})"
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
    store.write(state_of(chain), facts, cloudpickle.dumps(at))


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
