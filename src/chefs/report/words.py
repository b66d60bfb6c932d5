"""Numbers as people write them, and what R-hat and effective sample sizes mean, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chefs.convergence import LEAST_DRAWS, Diagnosis
from chefs.dag import counted

NARROW = "\u202f"  # a space at which no line is broken
GOOD_R_HAT, FAIR_R_HAT = 1.01, 1.05
GOOD_SIZE, FAIR_SIZE = 400, 100  # effective draws: the former is what the authors of these diagnostics ask for


class Verdict(NamedTuple):
    """Does it look converged? A level ("good", "fair", "bad" or "unknown"), a headline, and why."""

    level: str
    headline: str
    reasons: list[str]


def number(value: float, digits: int = 3) -> str:
    """A number with so many significant digits.

    >>> number(-1234.5), number(0.01234), number(1e9), number(float("inf"))
    ('−1234', '0.0123', '1e+09', '∞')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    large = 10.0**digits <= abs(value) < 1e6
    return (f"{value:.0f}" if large else f"{value:.{digits}g}").replace("-", "−", 1 if value < 0 else 0)


def percent(share: float) -> str:
    """A share in per cent, in which what is not all is not 100 and what is not nothing is not 0.

    >>> [percent(share).replace(NARROW, " ") for share in (0.5, 0.999, 0.001, 1.0)]
    ['50 %', '> 99 %', '< 1 %', '100 %']
    """
    whole = round(100 * share)
    if share < 1 and whole == 100:
        return f">{NARROW}99{NARROW}%"
    return f"<{NARROW}1{NARROW}%" if share > 0 and whole == 0 else f"{whole}{NARROW}%"


def with_error(mean: float, error: float) -> str:
    """A mean and what it may be off, with as many decimals as the latter deserves.

    >>> with_error(1.4562, 0.0642), with_error(-0.8, 0.5), with_error(2.0, float("nan"))
    ('1.456 ± 0.064', '−0.80 ± 0.50', '2')
    """
    if not (math.isfinite(error) and error > 0):
        return number(mean)
    decimals = min(9, max(0, 1 - math.floor(math.log10(error))))
    return f"{mean:.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")


def r_hat(value: float) -> str:
    """R-hat, in more detail where it is good.

    >>> r_hat(1.0042), r_hat(2.283), r_hat(float("inf"))
    ('1.004', '2.28', '∞')
    """
    return f"{value:.3f}" if value < 1.1 else f"{value:.2f}" if value < 100 else number(value)


def duration(seconds: float) -> str:
    """A time.

    >>> duration(2.345), duration(90), duration(7300)
    ('2.3 s', '1.5 min', '2.0 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def listed(things: Sequence[str], most: int | None = None) -> str:
    """Things with commas and an "and"; of more than `most` the first ones, and how many there are beside them.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=2)
    ('a', 'a, b and c', 'a, b and 2 more')
    """
    if most is not None and len(things) > most:
        things = [*things[:most], f"{len(things) - most} more"]
    return things[0] if len(things) == 1 else f"{', '.join(things[:-1])} and {things[-1]}" if things else "nothing"


def level(found: Diagnosis) -> str:
    """What to think of one number: "good", "fair", "bad", or "unknown" where it never changed or draws are few.

    >>> level(Diagnosis(1.001, 900, 700)), level(Diagnosis(1.2, 900, 700)), level(Diagnosis(1.001, 50, 700))
    ('good', 'bad', 'bad')
    """
    if math.isnan(found.r_hat):
        return "unknown"
    if found.r_hat <= GOOD_R_HAT and found.n_effective >= GOOD_SIZE:
        return "good"
    return "fair" if found.r_hat <= FAIR_R_HAT and found.n_effective >= FAIR_SIZE else "bad"


def verdict(found: Mapping[str, Diagnosis], lengths: Sequence[int]) -> Verdict:
    """Whether chains of these lengths look converged, by what is known of each number that is watched."""
    if min(lengths) < LEAST_DRAWS:
        shortest = f"The shortest chain has {counted(min(lengths), 'draw')}"
        return Verdict("unknown", "Too few draws to tell", [f"{shortest}; at least {LEAST_DRAWS} are needed."])
    levels = {name: level(diagnosis) for name, diagnosis in found.items()}
    reasons = _reasons(found)
    still = [name for name, diagnosis in found.items() if math.isnan(diagnosis.r_hat)]
    if still:
        reasons.append(f"In no draw of any chain did this change: {listed(still)}.")
    alone = "From one chain it cannot be seen whether another would end elsewhere: run at least two."
    if "bad" in levels.values():
        return Verdict("bad", "Not converged", [*reasons, *([alone] if len(lengths) == 1 else [])])
    if len(lengths) == 1:
        return Verdict("unknown", "Cannot be told from one chain", [*reasons, alone])
    if "fair" in levels.values():
        return Verdict("fair", "Nearly converged", reasons)
    if "good" not in levels.values():
        return Verdict("unknown", "Nothing changed, so nothing can be told", reasons)
    return Verdict("good", "Looks converged", reasons)


def _reasons(found: Mapping[str, Diagnosis]) -> list[str]:
    """A sentence for the numbers on which chains disagree, one for those with few draws of use, one for the rest."""
    apart = {name: d for name, d in found.items() if d.r_hat > FAIR_R_HAT}
    few = {name: d for name, d in found.items() if name not in apart and d.n_effective < FAIR_SIZE}
    so_so = [name for name, d in found.items() if name not in apart and name not in few and level(d) == "fair"]
    reasons = []
    if apart:
        named = [f"{name} (R-hat {r_hat(d.r_hat)})" for name, d in apart.items()]
        reasons.append(f"The chains, or their halves, are in different places: {listed(named)}.")
    if few:
        named = [f"{name} ({d.n_effective:.0f} effective)" for name, d in few.items()]
        reasons.append(f"The draws are worth too few independent ones: {listed(named)}.")
    if so_so:
        reasons.append(f"Good enough for a look, not for the last digit: {listed(so_so)}.")
    if not reasons and any(level(d) == "good" for d in found.values()):
        reasons.append(f"R-hat is at most {GOOD_R_HAT}, and every number has at least {GOOD_SIZE} effective draws.")
    return reasons
