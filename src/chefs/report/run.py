"""What a report is about: the draws of a belief network, what was asked for, and the data where they can be had."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chefs.dag import FloatArray, counted, shown
from chefs.network.estimator import ENDLESS, SigmoidNetwork
from chefs.network.kernel import MOVES
from chefs.network.tables import Scale
from chefs.report.words import duration, listed, number
from chefs.storage import Store
from chefs.trace import Trace

STARTS = {
    "empty": "no hidden unit",
    "gradient": "each chain where stochastic gradient has led it",
    "given": "a network that was given",
}


@dataclass(frozen=True)
class Run:
    """The draws, and around them whatever is known."""

    trace: Trace
    scale: Scale
    asked: dict[str, Any]  # what `chefs.network.asked` has kept; nothing where the run is of an older version
    data: FloatArray | None  # training rows, on the scale of the data
    test: FloatArray | None
    lacking = "the training table was not kept with this run: give it as train"

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.trace.names

    @property
    def complete(self) -> bool:
        """Whether all chains have ended."""
        return all("moves" in stats for stats in self.trace.stats)

    @classmethod
    def of(cls, source: SigmoidNetwork | str | Path, train: Any = None, test: Any = None) -> Run:
        """From a fitted model, or from the folder of a run, finished or not."""
        if isinstance(source, str | Path):
            model, folder = SigmoidNetwork.load(source), Path(source)
        elif isinstance(source, SigmoidNetwork) and hasattr(source, "trace_"):
            model, folder = source, None
        else:
            raise TypeError(f"source must be a fitted SigmoidNetwork or the folder of a run; found {shown(source)}")
        trace = model.trace_
        asked = dict(trace.about.get("asked", {}))
        if asked and folder is not None:  # a run that was continued may have been made longer
            header = Store.open(folder)[1]
            asked |= {name: header[name] for name in ("draws", "minutes") if name in header}
        data = _checked("train", getattr(model, "_training", None) if train is None else train, trace.n_observed)
        return cls(trace, Scale(model.mean_, model.scale_), asked, data, _checked("test", test, trace.n_observed))

    def options(self) -> dict[str, str]:
        """What was asked for, in words."""
        asked = self.asked
        if not asked:
            return {"options": "not kept with this run"}
        limits = [] if asked["draws"] == ENDLESS else [f"{counted(asked['draws'], 'draw')} a chain"]
        limits += [] if asked["minutes"] is None else [f"{duration(60 * asked['minutes'])} in all"]
        warm = f"{asked['warmup']} steps" if asked["warmup"] != ENDLESS else "at most half of the time"
        found = {"asked for": f"{' or '.join(limits)}; warm-up: {warm}"}
        if asked["thin"] > 1:
            found["thinning"] = f"a draw is taken every {asked['thin']} steps"
        if ladder := asked.get("temperatures"):
            copies = ladder if isinstance(ladder, int) else len(ladder)
            found["tempering"] = f"{counted(copies, 'temperature')}, a copy of each chain at each"
        found |= {"seed": "not given" if asked["seed"] is None else str(asked["seed"]), "prior": self._prior()}
        if any(order != 0.0 for order in asked["orders"]):
            orders = ["free" if order is None else number(order) for order in asked["orders"]]
            found["orders"] = listed([f"{name} {order}" for name, order in zip(self.names, orders, strict=True)], 12)
        for kind in ("required", "forbidden"):
            if asked[kind]:
                found[f"{kind} edges"] = listed([f"{self.names[k]} → {self.names[i]}" for k, i in asked[kind]], 12)
        if asked["max_hidden"] is not None:
            found["at most"] = counted(asked["max_hidden"], "hidden unit")
        if tuple(asked["moves"]) != MOVES:
            found["moves"] = listed(asked["moves"])
        sizes = " or ".join(map(str, asked.get("start_units") or ()))
        return found | {"start": STARTS[asked["start"]] + (f"; hidden units at first: {sizes}" if sizes else "")}

    def _prior(self) -> str:
        prior = dict(self.asked["prior"])
        name = prior.pop("name")
        if self.asked["hyperpriors"]:
            return f"{name}, its hyperparameters learnt"
        return f"{name} with {listed([f'{key} {number(value)}' for key, value in prior.items()])}"


def _checked(name: str, table: Any, n: int) -> FloatArray | None:
    """A table as numbers with the right columns, if there is one."""
    if table is None:
        return None
    try:
        rows = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a table of numbers, nan where missing; found {shown(table)}") from None
    if rows.ndim != 2 or rows.shape[1] != n or not len(rows):
        raise ValueError(f"{name} must have a row a point and the {n} columns of the run; its shape is {rows.shape}")
    if np.isinf(rows).any():
        raise ValueError(f"{name} has an infinite value: correct it, or put nan if unknown")
    return rows


def some_of(rows: FloatArray, most: int) -> FloatArray:
    """At most so many rows, picked at random but always the same ones."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(np.random.default_rng(0).choice(len(rows), most, replace=False))]
