"""What was asked of a fit, in the types that JSON knows: kept with the draws, so that a report can say it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from chefs import __version__
from chefs.network.kernel import HYPER, NetworkKernel
from chefs.network.start import GradientStart
from chefs.running import Plan


def asked(kernel: NetworkKernel, plan: Plan, random_state: Any, temperatures: Any = None) -> dict[str, Any]:
    """All options of a fit; orders are None where they are free, the seed where it was not a number.

    >>> from chefs.prior import ChefsProcess
    >>> kernel = NetworkKernel(ChefsProcess(1.0, 2.0, 1.0), [0.0, np.nan], np.zeros((3, 2)))
    >>> found = asked(kernel, Plan(draws=10, warmup=5, thin=1), 7)
    >>> found["prior"], found["orders"], found["seed"], found["draws"]
    ({'name': 'ChefsProcess', 'alpha': 1.0, 'gamma': 2.0, 'phi': 1.0}, [0.0, None], 7, 10)
    """
    prior, limits = kernel.prior, kernel.limits
    known = {name: float(getattr(prior, name)) for name in ("alpha", "gamma", "phi") if hasattr(prior, name)}
    free = limits.low < limits.high
    start = "empty" if kernel.start is None else "gradient" if isinstance(kernel.start, GradientStart) else "given"
    return {
        "version": __version__,
        "seed": int(random_state) if isinstance(random_state, int | np.integer) else None,
        **asdict(plan),
        "prior": {"name": type(prior).__name__, **known},
        "hyperpriors": asdict(kernel.hyperpriors) if kernel.hyperpriors and HYPER in kernel.moves else None,
        "orders": [None if f else float(order) for f, order in zip(free, limits.high, strict=True)],
        "start": start,
        "start_units": list(map(int, kernel.start.sizes)) if isinstance(kernel.start, GradientStart) else None,
        "moves": list(kernel.move_names),
        "required": np.argwhere(limits.required).tolist(),
        "forbidden": np.argwhere(limits.forbidden).tolist(),
        "max_hidden": None if kernel.max_hidden is None else int(kernel.max_hidden),
        "temperatures": None if temperatures is None else np.asarray(temperatures).tolist(),
    }
