"""Regression with a learnt network, inputs at order 1 and the output at 0, beside what people would use instead.

    python -m chefs.experiments.regression --out FOLDER --datasets valley,product --seeds 3

One JSON file a fit, written when it is done; fits that are there already are not made again. At the end `summary.md` is
made from all files that are there.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np

from chefs import SigmoidNetwork, datasets
from chefs._files import write_whole
from chefs.dag import FloatArray
from chefs.experiments.table import check_known
from chefs.network.estimator import have_compiled

N_POINTS = 1000  # of a training half, at most; and of a test half
STEPS = 250  # of each of two chains, before the first draw and after it


class Split(NamedTuple):
    """Inputs and the output, standardised by the training half."""

    x: FloatArray
    y: FloatArray
    new_x: FloatArray
    new_y: FloatArray


class Prediction(NamedTuple):
    """Means of new outputs and, from models that have them, their log densities."""

    mean: FloatArray
    log_density: FloatArray | None


def valley(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
    """A parabola in one input and a slope in the other."""
    x = rng.normal(size=(n, 2))
    return x, x[:, 0] ** 2 - 1 + 0.5 * x[:, 1] + 0.2 * rng.normal(size=n)


def product(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
    """The product of two inputs, neither of which alone says anything about its mean."""
    x = rng.normal(size=(n, 2))
    return x, x[:, 0] * x[:, 1] + 0.2 * rng.normal(size=n)


def friedman(rng: np.random.Generator, n: int) -> tuple[FloatArray, FloatArray]:
    """Friedman's function (Annals of Statistics 19, 1991) of five inputs out of ten."""
    x = rng.uniform(size=(n, 10))
    mean = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, mean + rng.normal(size=n)


MADE = {"valley": valley, "product": product, "friedman": friedman}
LAST_COLUMN = ("abalone", "wine")  # whose last column, rings or quality, is the output: whole numbers


def split_of(name: str, seed: int) -> Split:
    """Training and test half."""
    if name in MADE:
        rng = np.random.default_rng([seed, 53])
        (x, y), (new_x, new_y) = (MADE[name](rng, N_POINTS) for _ in range(2))
    else:
        table = datasets.load(name, seed, unique=True)
        (x, y), (new_x, new_y) = (
            (half[:N_POINTS, :-1], half[:N_POINTS, -1]) for half in (table.train.copy(), table.test.copy())
        )
    centre, scale = x.mean(axis=0), x.std(axis=0)
    return Split((x - centre) / scale, (y - y.mean()) / y.std(), (new_x - centre) / scale, (new_y - y.mean()) / y.std())


def network(split: Split, seed: int, start: str = "gradient") -> Prediction:
    """Two chains, half of whose steps are warm-up."""
    n_inputs = split.x.shape[1]
    model = SigmoidNetwork(
        orders=[*[1.0] * n_inputs, 0.0], draws=STEPS, warmup=STEPS, chains=2, n_jobs=1, random_state=seed,
        progress=False, start=start,
    ).fit(np.column_stack([split.x, split.y]))  # fmt: skip
    new = np.column_stack([split.new_x, split.new_y])
    inputs = np.column_stack([split.new_x, np.full(len(new), np.nan)])
    mean = model.impute(inputs, draws=200, random_state=seed).mean[:, -1]
    return Prediction(mean, model.score_samples(new) - model.score_samples(inputs))


def normal(mean_and_sd: Any, y: FloatArray) -> Prediction:
    """What a model with normal predictions says of outputs."""
    mean, sd = mean_and_sd
    return Prediction(mean, -0.5 * ((y - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi)))


def linear(split: Split, seed: int) -> Prediction:
    """Bayesian ridge regression."""
    from sklearn.linear_model import BayesianRidge

    return normal(BayesianRidge().fit(split.x, split.y).predict(split.new_x, return_std=True), split.new_y)


def gaussian_process(split: Split, seed: int) -> Prediction:
    """A squared exponential kernel with a length for each input, and noise; maximum likelihood from two starts."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    lengths: Any = np.ones(split.x.shape[1])
    kernel = ConstantKernel() * RBF(lengths, (0.05, 1e4)) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: an input that does not matter
        return normal(model.fit(split.x, split.y).predict(split.new_x, return_std=True), split.new_y)


def forest(split: Split, seed: int) -> Prediction:
    """Five hundred trees."""
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(500, random_state=seed).fit(split.x, split.y)
    return Prediction(np.asarray(model.predict(split.new_x)), None)


def perceptron(split: Split, seed: int) -> Prediction:
    """Two layers of fifty units, stopped by a tenth of the points."""
    from sklearn.neural_network import MLPRegressor

    model = MLPRegressor(
        hidden_layer_sizes=(50, 50), early_stopping=True, max_iter=2000, n_iter_no_change=50, random_state=seed
    )
    return Prediction(np.asarray(model.fit(split.x, split.y).predict(split.new_x)), None)


MODELS: dict[str, Callable[[Split, int], Prediction]] = {
    "network": network,
    "network from an empty graph": lambda split, seed: network(split, seed, "empty"),
    "linear": linear,
    "Gaussian process": gaussian_process,
    "forest": forest,
    "perceptron": perceptron,
}


def made(path: Path, name: str, model: str, seed: int) -> None:
    """One fit, measured and written."""
    split, begin = split_of(name, seed), time.process_time()
    found = MODELS[model](split, seed)
    result = {
        "data": name,
        "model": model,
        "seed": seed,
        "points": len(split.x),
        "rmse": float(np.sqrt(((found.mean - split.new_y) ** 2).mean()) / split.new_y.std()),
        # Of whole numbers a density says nothing: it grows without end where it is put on them alone.
        "log_density": None if found.log_density is None or name in LAST_COLUMN else float(found.log_density.mean()),
        "seconds": time.process_time() - begin,
    }
    write_whole(path, json.dumps(result) + "\n")
    print(path.name, f"{result['rmse']:.3f}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the fits that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--datasets", default=",".join((*MADE, *LAST_COLUMN)))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    check_known("datasets", given.datasets.split(","), (*MADE, *LAST_COLUMN))
    check_known("models", given.models.split(","), tuple(MODELS))
    given.out.mkdir(parents=True, exist_ok=True)
    wanted = [
        (given.out / f"{name}-{model.replace(' ', '-')}-{seed}.json", name, model, seed)
        for seed in range(given.seeds)
        for name in given.datasets.split(",")
        for model in given.models.split(",")
    ]
    have_compiled()
    joblib.Parallel(n_jobs=given.jobs)(joblib.delayed(made)(*job) for job in wanted if not job[0].exists())
    results = [json.loads(path.read_text()) for path in sorted(given.out.glob("*.json"))]
    (given.out / "summary.md").write_text(summary(results))


def summary(results: list[dict[str, Any]]) -> str:
    """A table with a line for each model and data set: means over splits ± standard deviations."""
    lines = ["| data | model | splits | error | log density | seconds |", "|---|---|---|---|---|---|"]
    for name in (*MADE, *LAST_COLUMN):
        for model in MODELS:
            group = [r for r in results if (r["data"], r["model"]) == (name, model)]
            if group:
                logs = [r["log_density"] for r in group]
                lines.append(
                    f"| {name} | {model} | {len(group)} | {spread([r['rmse'] for r in group])} "
                    f"| {'-' if None in logs else spread(logs)} | {np.mean([r['seconds'] for r in group]):.0f} |"
                )
    return "\n".join(lines) + "\n"


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
