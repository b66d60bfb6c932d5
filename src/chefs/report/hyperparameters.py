"""Section on the hyperparameters of the prior over graphs: their priors, and what the draws make of them."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincinv, gammaln

from chefs.dag import FloatArray
from chefs.report.chains import WORDS, figure, section
from chefs.report.chart import Panel, padded
from chefs.report.markup import Markup, joined, tag
from chefs.report.run import Run
from chefs.report.words import listed, number

NINE_OF_TEN = np.array([0.05, 0.5, 0.95])
MEANING = (
    "on a logarithmic axis. The larger γ, the larger the graphs; the smaller α, the fewer hidden units and the more "
    "children they share; the larger φ, the more children columns have."
)


def hyperparameters(run: Run) -> Markup:
    """Each hyperparameter: its prior, and its posterior."""
    names = [name for name in ("alpha", "gamma", "phi") if any(name in chain.scalars for chain in run.trace.chains)]
    learnt = [name for name in names if np.ptp(run.trace.scalar(name)) > 0]
    fixed = [f"{WORDS[name]} = {number(float(run.trace.scalar(name)[0]))}" for name in names if name not in learnt]
    parts: list[Markup] = []
    if fixed:
        parts.append(tag("p", f"The same in all draws: {listed(fixed)}."))
    if learnt:
        parts.append(tag("div", *(_hyperparameter(run, name) for name in learnt), class_="grid"))
        key = joined(tag("span", class_="key s0"), " posterior, ", tag("span", class_="key prior"), " prior, ")
        parts.append(tag("p", key, MEANING, class_="caption"))
    if "phi" in learnt and _flat(run):
        parts.append(tag("p", "All columns are at order 0 and have no children, so the data say nothing about φ."))
    return section("hyperparameters", "Hyperparameters: prior against posterior", *parts)


def _flat(run: Run) -> bool:
    """Whether all columns are at order 0 in all draws."""
    columns = np.arange(run.trace.n_observed)
    dags = [chain.dags for chain in run.trace.chains]
    return not any(part.order[(part.node_start[:-1, None] + columns).ravel()].any() for part in dags)


def _hyperparameter(run: Run, name: str) -> Markup:
    values = np.log10(run.trace.scalar(name))
    tails = np.quantile(values, NINE_OF_TEN)
    limits, words, curve = padded(np.quantile(values, (0.001, 0.999))), f"posterior {_interval(tails)}", None
    law = (run.asked.get("hyperpriors") or {}).get(name)
    if law is not None:
        flip = -1 if name == "alpha" else 1  # it is 1/α whose prior is a gamma distribution
        prior = np.sort(flip * np.log10(gammaincinv(law[0], NINE_OF_TEN) / law[1]))
        limits = padded(limits, prior[[0, 2]])
        words += f"; prior {_interval(prior)}"
        at = np.linspace(*limits, 120)
        curve = at, _density(flip * at, *law)
    edges = np.linspace(*limits, 41)
    density = np.histogram(values, edges)[0] / len(values) / (edges[1] - edges[0])
    top = max(float(density.max()), 0.0 if curve is None else float(curve[1].max()))
    panel = Panel(limits, (0, 1.08 * top), height=150, y_ticks=(), x_text=lambda t: number(10**t))
    step = max(1, round((limits[1] - limits[0]) / 5))
    panel.x_ticks = list(range(int(np.ceil(limits[0])), int(np.floor(limits[1])) + 1, step)) or [float(tails[1])]
    panel.bars(edges, density, "s0")
    if curve is not None:
        panel.line(*curve, "prior")
    return figure(joined(tag("b", WORDS[name]), ": ", words), panel.svg(f"{WORDS[name]}: {words}"))


def _interval(tails: FloatArray) -> str:
    low, middle, high = (number(10**value) for value in tails.tolist())
    return f"median {middle}, nine of ten between {low} and {high}"


def _density(t: FloatArray, shape: float, rate: float) -> FloatArray:
    """Of t = log₁₀ x where x ~ Gamma(shape, rate)."""
    x = 10.0**t
    return np.log(10) * np.exp(shape * np.log(rate * x) - rate * x - gammaln(shape))
