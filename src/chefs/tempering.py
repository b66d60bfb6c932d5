"""Parallel tempering: copies of a chain at several powers of the likelihood that exchange their states."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from chefs.dag import FloatArray, shown
from chefs.draws import Draw
from chefs.kernels import Info, Kernel

FIRST_ROUND = 20  # steps before the powers are first spaced anew; each round is twice as long as the last


class TemperedState(NamedTuple):
    """The states of all copies, hottest last, and the counts that the spacing is adapted with."""

    copies: tuple[Any, ...]
    powers: FloatArray
    rejected: FloatArray  # sums, since the last spacing, of the probability that a pair did not swap
    tried: FloatArray
    steps: int
    adapting: bool


@dataclass(frozen=True, eq=False)
class TemperedKernel:
    """A kernel made of copies at powers 1 = β_0 > β_1 > …; only the copy at power 1 is drawn from.

    After every step neighbours propose to swap, pairs (0, 1), (2, 3), … and (1, 2), (3, 4), … in turn, with ratio
    exp((β_a − β_b)(L_b − L_a)). In warm-up the inner powers are spaced anew after rounds of doubling length, so that
    all pairs reject equally often (Syed, Bouchard-Côté, Deligiannidis, Doucet, 2021); `freeze` ends that.

    A kernel that integrates something out after the likelihood was raised to its power has `log_tempered(state)` in
    place of `log_likelihood_of(state)`, F_β(x), and the ratio is exp(F_a(x_b) + F_b(x_a) − F_a(x_a) − F_b(x_b)). One
    that has `swapped(a, b)` says what a swap leaves where it is.
    """

    kernel: Any
    powers: FloatArray
    prefer: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefer", getattr(self.kernel, "prefer", "processes"))

    @classmethod
    def of(cls, kernel: Kernel, temperatures: int | Sequence[float]) -> TemperedKernel:
        """From a number of copies (powers from 1 to 0), or their temperatures 1/β, the first of which is 1."""
        likelihood = hasattr(kernel, "log_likelihood_of") or hasattr(kernel, "log_tempered")
        if not (likelihood and hasattr(kernel, "with_power")):
            raise TypeError(f"temperatures need a kernel with a likelihood; {type(kernel).__name__} has none")
        base = getattr(kernel, "power", 1.0)  # a kernel may itself be at another power than 1
        if isinstance(temperatures, int | np.integer):
            if temperatures < 2:
                raise ValueError(
                    f"temperatures must be at least 2 copies, or a sequence that begins with 1; found {temperatures}"
                )
            return cls(kernel, base * np.linspace(1.0, 0.0, int(temperatures)))
        try:
            ladder = np.array(temperatures, dtype=np.float64)
        except (TypeError, ValueError):
            ladder = np.empty(0)
        if ladder.ndim != 1 or ladder.size < 2 or ladder[0] != 1 or not (ladder[1:] > ladder[:-1]).all():
            raise ValueError(
                "temperatures must be a number of copies, or a sequence that begins with 1 and increases "
                f"(inf stands for the prior); found {shown(temperatures)}"
            )
        return cls(kernel, base / ladder)

    @property
    def n_observed(self) -> int:
        """Number of observed nodes."""
        return self.kernel.n_observed

    @property
    def move_names(self) -> tuple[str, ...]:
        """The moves of the copy at power 1, then one swap for each pair of neighbours."""
        return (*self.kernel.move_names, *(f"swap {pair}" for pair in range(self.powers.size - 1)))

    def init(self, rng: np.random.Generator) -> TemperedState:
        """Every copy from a start of its own."""
        copies = tuple(self.kernel.init(rng) for _ in self.powers)
        zeros = np.zeros(self.powers.size - 1)
        return TemperedState(copies, self.powers.copy(), zeros, zeros.copy(), 0, True)

    def step(self, rng: np.random.Generator, state: TemperedState) -> tuple[TemperedState, Info]:
        """One step of every copy, then the swaps of every other pair; moves are timed over all copies."""
        n = len(state.copies)
        copies = []
        tally, seconds = np.zeros((0, 2), dtype=np.int64), None
        for power, copy in zip(state.powers, state.copies, strict=True):
            moved, info = self.kernel.with_power(float(power)).step(rng, copy)
            tally = info.tally if not copies else tally
            if info.seconds is not None:
                seconds = info.seconds if seconds is None else seconds + info.seconds
            copies.append(moved)
        swaps, swapping = np.zeros((n - 1, 2), dtype=np.int64), np.zeros(n - 1)
        rejected, tried = state.rejected.copy(), state.tried.copy()
        for a in range(state.steps % 2, n - 1, 2):
            begin = time.perf_counter()
            log_ratio = self.swap_log_ratio(state.powers[a], copies[a], state.powers[a + 1], copies[a + 1])
            swaps[a, 0] = 1
            tried[a] += 1
            rejected[a] += 1.0 - np.exp(min(log_ratio, 0.0))
            if np.log1p(-rng.random()) < log_ratio:
                copies[a], copies[a + 1] = self._swapped(copies[a], copies[a + 1])
                swaps[a, 1] = 1
            swapping[a] = time.perf_counter() - begin
        new = TemperedState(tuple(copies), state.powers, rejected, tried, state.steps + 1, state.adapting)
        if state.adapting and _round_ends(new.steps):
            new = new._replace(powers=spaced_anew(new), rejected=np.zeros(n - 1), tried=np.zeros(n - 1))
        return new, Info(np.concatenate([tally, swaps]), None if seconds is None else np.append(seconds, swapping))

    def swap_log_ratio(self, power: float, copy: Any, hotter_power: float, hotter: Any) -> float:
        """(β_a − β_b)(L_b − L_a), or the F of `log_tempered`."""
        if hasattr(self.kernel, "log_tempered"):
            here, there = (self.kernel.with_power(float(p)).log_tempered for p in (power, hotter_power))
            return here(hotter) + there(copy) - here(copy) - there(hotter)
        likelihood = self.kernel.log_likelihood_of
        return (power - hotter_power) * (likelihood(hotter) - likelihood(copy))

    def _swapped(self, copy: Any, hotter: Any) -> tuple[Any, Any]:
        return self.kernel.swapped(copy, hotter) if hasattr(self.kernel, "swapped") else (hotter, copy)

    def freeze(self, state: TemperedState) -> TemperedState:
        """End the adaptation: from here on the chain is stationary."""
        inner = getattr(self.kernel, "freeze", lambda copy: copy)
        return state._replace(copies=tuple(inner(copy) for copy in state.copies), adapting=False)

    def draw(self, state: TemperedState) -> Draw:
        """The draw of the copy at power 1."""
        return self.kernel.draw(state.copies[0])


def _round_ends(steps: int) -> bool:
    length = FIRST_ROUND
    while length < steps:
        length *= 2
    return length == steps


def spaced_anew(state: TemperedState) -> FloatArray:
    """Powers between the same ends with equal shares of the total rejection between neighbours."""
    rates = np.maximum(state.rejected / np.maximum(state.tried, 1), 1e-3)
    barrier = np.concatenate([[0.0], np.cumsum(rates)])
    wanted = np.linspace(0.0, barrier[-1], barrier.size)
    powers = np.interp(wanted, barrier, state.powers)
    powers[0], powers[-1] = state.powers[0], state.powers[-1]
    return powers
