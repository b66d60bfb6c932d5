"""The paper's first experiment: three priors of one belief network on nine data sets (Table 1), beside alternatives.

One fit is one JSON file, written whole as soon as it is there; a run that is stopped goes on where it was, and a later
one adds to what it finds. The protocol: `docs/data.md`; the table that is made of the files: `table_report`.
"""

from __future__ import annotations

import json
import math
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike

from chefs import datasets, metrics
from chefs._files import write_whole
from chefs.convergence import diagnose
from chefs.dag import FloatArray
from chefs.experiments import alternatives
from chefs.network.estimator import SigmoidNetwork, have_compiled
from chefs.network.predictive import FEW_DIMENSIONS
from chefs.prior import positive

DATASETS = (*datasets.list(), "wine-unique")  # the last without the rows that repeat others
PRIORS = ("icp", "cibp", "ecibp")  # the paper's
KERNELS = ("diagonal", "full")
N_SETS, N_SETS_SMALL = 10, 50  # of fantasy points, each as large as the test set
SMALL = ("geyser", "iris")  # with 136 and 75 test points: ten sets of so few leave an error of a twentieth in a ratio
RIVAL_SEEDS = 3
# Test points whose density is estimated, and how many of them once more with twice the effort, in many dimensions:
# there the density of a network costs a tenth of a second a point, and four times that at twice the effort.
N_SCORED, N_DOUBLED = 300, 60
MINUTES_FLAT, MINUTES_BEYOND = 2.0, 4.0  # of one fit in two dimensions, and in more
NEEDED = ("data", "model", "seed", "minutes", "measures")  # in every result
STARVED = 0.9  # share of its minutes that a fit must have had a processor for


@dataclass(frozen=True, slots=True)
class Job:
    """One fit: a data set and its split, a model, and what the model is told."""

    data: str
    model: str
    seed: int
    minutes: float
    chains: int
    n_sets: int
    options: dict[str, Any] = field(default_factory=dict)  # of the network, such as its start

    @property
    def file(self) -> str:
        """The name of the result."""
        return f"{self.data}-{self.model}-{self.seed}.json"

    @property
    def settings(self) -> dict[str, Any]:
        """What the model is told, as a result keeps it."""
        told: dict[str, Any] = {"minutes": self.minutes, "sets": self.n_sets}
        if self.model in PRIORS:
            told |= {"chains": self.chains, "options": {key: str(value) for key, value in self.options.items()}}
        return told


def run(
    out: Path,
    names: Sequence[str] = DATASETS,
    priors: Sequence[str] = PRIORS,
    others: Sequence[str] = tuple(alternatives.ALTERNATIVES),
    *,
    minutes: float | None = None,
    seeds: int = 5,
    rival_seeds: int | None = None,
    chains: int = 4,
    n_sets: int | None = None,
    n_jobs: int = -1,
    say: Callable[[str], None] = print,
    **options: Any,
) -> list[Path]:
    """Make the fits that the folder lacks, then the table from all that are in it; return the paths of the table.

    Args:
        out: The folder, made if need be.
        names: Data sets, of `DATASETS`.
        priors: Priors of the belief network: "icp", "cibp", "ecibp".
        others: Alternatives: "mixture", "kernel", "flow"; and "bootstrap", the training points drawn again.
        minutes: Time of one fit, on one core; None for 2 in two dimensions and 4 in more.
        seeds: How many splits, each with a fit of its own.
        rival_seeds: How many for the buffets; None for at most 3.
        chains: Chains of a network, which take turns.
        n_sets: Sets of fantasy points; None for 10, and 50 where test points are few.
        n_jobs: Fits at a time, as joblib counts; each has one core.
        say: What to do with a line of news.
        options: Further arguments of `SigmoidNetwork`.
    """
    import chefs.plots  # noqa: F401  without matplotlib nothing is begun
    from chefs.experiments.table_report import write_table

    check_known("datasets", names, DATASETS)
    check_known("priors", priors, PRIORS)
    check_known("alternatives", others, tuple(alternatives.ALTERNATIVES))
    for name, value in (("seeds", seeds), ("chains", chains), ("rival_seeds", rival_seeds), ("n_sets", n_sets)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} must be a whole number, at least 1; found {value!r}")
    if minutes is not None:
        positive("minutes", minutes)
    made_folder(out)
    found = {path.name: result for path, result in results_in(out)}
    if "flow" in others and not alternatives.has_flow():
        say(f"no flow in the table: {alternatives.NEEDS_ZUKO}")
        others = [name for name in others if name != "flow"]
    rivals = min(seeds, RIVAL_SEEDS) if rival_seeds is None else rival_seeds
    jobs = [
        Job(name, model, seed, minutes or default_minutes(name), chains, n_sets or default_sets(name), options)
        for seed in range(max(seeds, rivals))
        for name in names
        for model in (*priors, *others)
        if seed < (rivals if model in ("cibp", "ecibp") else seeds)
    ]
    differing = [job.file for job in jobs if job.file in found and not job.settings.items() <= found[job.file].items()]
    if differing:
        say(
            f"{len(differing)} of the fits that are there were made with other settings and stay as they are, such as "
            f"{differing[0]}: delete them, or choose another folder, to have them made again"
        )
    failed = list(_made([job for job in jobs if job.file not in found], out, n_jobs, say))
    paths = write_table(out, [result for _, result in results_in(out)])
    if failed:
        raise OSError(f"{len(failed)} of the fits failed, and the table is made without them: {failed[0]}")
    return paths


def _made(jobs: list[Job], out: Path, n_jobs: int, say: Callable[[str], None]) -> Iterator[str]:
    """Run the fits, one core each; yields what went wrong."""
    if not jobs:
        return
    if any(job.model in PRIORS for job in jobs):
        have_compiled()  # once, so that the workers find it on disk
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        work: Any = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        there = out.absolute()  # workers may have been started in another folder
        for number, (line, error) in enumerate(work(joblib.delayed(_attempt)(job, there) for job in jobs), 1):
            say(f"{number} of {len(jobs)}: {line}")
            if error:
                yield line


def _attempt(job: Job, out: Path) -> tuple[str, bool]:
    """One fit and its file; a line about it, and whether it failed: others need not suffer from that."""
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            result = result_of(job)
    except Exception as error:  # one line now and at the end, with an exit code: hours of other fits go on
        return f"{job.file}: {type(error).__name__}: {' '.join(str(error).split())}", True
    write_whole(out / job.file, json.dumps(result, indent=1) + "\n")
    measures = result["measures"][job.data]
    ratio, score = measures["diagonal"]["ratio"], float(measures["log_likelihood"]["mean"])
    starved = f"; it had a processor for {share_of_time(result):.0%} of its time only" if is_starved(result) else ""
    return f"{job.file}: ratio {ratio:.2f}, log-likelihood {score:.3f}{starved}", False


def share_of_time(result: dict[str, Any]) -> float:
    """Processor time of a fit over its minutes, which are those of a clock."""
    return result["processor_seconds"] / (60 * result["minutes"])


def is_starved(result: dict[str, Any]) -> bool:
    """Whether a network had clearly less processor time than minutes: other work was going on."""
    return result["model"] in PRIORS and "draws" not in result.get("options", {}) and share_of_time(result) < STARVED


def result_of(job: Job) -> dict[str, Any]:
    """What is kept of one fit."""
    table = load(job.data, job.seed)
    rng = np.random.default_rng([job.seed, 43])
    begin, processor = time.monotonic(), time.process_time()
    result: dict[str, Any] = {
        "data": job.data,
        "model": job.model,
        "seed": job.seed,
        **job.settings,
        "rows": len(table.train),
        "columns": len(table.names),
        "floor": alternatives.FLOOR,
        "versions": versions(job.model),
    }
    if job.model in PRIORS:
        model = SigmoidNetwork(
            job.model,
            chains=job.chains,
            minutes=job.minutes,
            n_jobs=1,
            random_state=job.seed,
            progress=False,
            **job.options,
        ).fit(table.train)
        spent = time.monotonic() - begin, time.process_time() - processor
        result |= {"network": about(model), "measures": _of_network(rng, job, table, model)}
    else:
        result["measures"], spent, result["chosen"] = _of_alternative(rng, job, table)
    result |= {"wall_seconds": spent[0], "processor_seconds": spent[1], "with_measures": time.monotonic() - begin}
    return finite(result)


def load(data: str, seed: int) -> datasets.Table:
    """A data set of the table: "wine-unique" is Wine with one of equal rows."""
    name, _, unique = data.partition("-")
    return datasets.load(name, seed, unique=unique == "unique")


def parts(data: str, table: datasets.Table) -> dict[str, datasets.Table]:
    """The data set and, where it has columns that are traps for densities, what is left without them."""
    return {data: table} | ({f"{data} without traps": table.without(*table.traps)} if table.traps else {})


def _of_network(
    rng: np.random.Generator, job: Job, table: datasets.Table, model: SigmoidNetwork
) -> dict[str, dict[str, Any]]:
    """Measures of a fitted network; without some of its columns it is the same network, those integrated out."""
    sets = [model.sample(len(table.test), random_state=rng) for _ in range(job.n_sets)]
    floored, found = alternatives.with_floor(model), {}
    for name, part in parts(job.data, table).items():
        kept = [table.names.index(column) for column in part.names]

        def scores(z: FloatArray, effort: int, kept: list[int] = kept) -> FloatArray:
            x = np.full((len(z), len(table.names)), np.nan)
            x[:, kept] = table.mean[kept] + table.sd[kept] * z
            return floored.score_samples(x, effort=effort) + np.log(table.sd[kept]).sum()

        found[name] = measured(part, job.seed, [points[:, kept] for points in sets], scores)
    return found


def _of_alternative(
    rng: np.random.Generator, job: Job, table: datasets.Table
) -> tuple[dict[str, dict[str, Any]], tuple[float, float], dict[str, Any]]:
    """Measures, seconds and choices of an alternative, which is fitted once more where columns are left out."""
    found, chosen, spent = {}, {}, (0.0, 0.0)
    for name, part in parts(job.data, table).items():
        begin, processor = time.monotonic(), time.process_time()
        model = alternatives.fit(job.model, rng, part.standardised()[0], 60 * job.minutes)
        spent = spent[0] + time.monotonic() - begin, spent[1] + time.process_time() - processor
        chosen[name] = model.chosen
        sets = [part.mean + part.sd * model.sample(rng, len(part.test)) for _ in range(job.n_sets)]
        found[name] = measured(part, job.seed, sets, lambda z, effort, model=model: model.log_density(z))
    return found, spent, chosen


def measured(
    table: datasets.Table,
    seed: int,
    sets: list[FloatArray],
    scores: Callable[[FloatArray, int], FloatArray],
) -> dict[str, Any]:
    """Distances of fantasies from the test half with either kernel, and the density of its points with noise.

    The noise and the points at which densities are compared depend on the seed alone: all models meet the same.
    """
    found: dict[str, Any] = {kernel: distances(table, seed, sets, kernel) for kernel in KERNELS}
    test = table.standardised()[1]
    few = test.shape[1] <= FEW_DIMENSIONS
    n_scored, n_doubled = (len(test), len(test)) if few else (N_SCORED, N_DOUBLED)
    noisy = alternatives.with_noise(np.random.default_rng([seed, 47]), test)[:n_scored]
    logs, again = scores(noisy, 1), scores(noisy[:n_doubled], 2)
    found["log_likelihood"] = {
        "points": len(logs),
        "mean": float(logs.mean()),
        "sd": float(logs.std(ddof=1)),
        "median": float(np.median(logs)),
        "each": [round(float(one), 4) for one in logs],
        "doubled": {
            "points": len(again),
            "mean": [float(some.mean()) for some in (logs[: len(again)], again)],
            "median": [float(np.median(some)) for some in (logs[: len(again)], again)],
        },
    }
    return found


def distances(table: datasets.Table, seed: int, sets: list[FloatArray], kernel: str) -> dict[str, Any]:
    """Hellinger distances of sets of points from the test half; as many times those of the training half; the ratio."""
    test, found = table.to_unit(table.test), {}
    for name, some in (("", sets), ("baseline_", [table.train] * len(sets))):
        rng = np.random.default_rng([seed, 53])
        each = [metrics.hellinger(table.to_unit(points), test, covariance=kernel, rng=rng) for points in some]
        found[f"{name}distance"] = mean_and_sd([one.distance for one in each])
        found[f"{name}corrected"] = mean_and_sd([one.corrected for one in each])
    return found | {"ratio": found["distance"][0] / found["baseline_distance"][0]}


def mean_and_sd(values: ArrayLike) -> list[float]:
    """Mean and standard deviation; the latter nan for one value."""
    some = np.asarray(values, dtype=np.float64)
    return [float(some.mean()), float(some.std(ddof=1)) if some.size > 1 else math.nan]


def about(model: SigmoidNetwork) -> dict[str, Any]:
    """How large the networks are, in the mean over chains, and whether chains agree (R-hat and effective sizes)."""
    trace = model.trace_
    found: dict[str, Any] = {
        "draws": [len(chain) for chain in trace.chains],
        "hidden": mean_and_sd([chain.dags.n_hidden.mean() for chain in trace.chains]),
        "edges": mean_and_sd([chain.dags.n_edges.mean() for chain in trace.chains]),
        "hyperparameters": {
            name: mean_and_sd(trace.scalar(name)) for name in ("alpha", "gamma", "phi") if name in _scalars(trace)
        },
    }
    chains = [chain for chain in trace.chains if len(chain)]
    watched = {
        "n_hidden": [chain.dags.n_hidden for chain in chains],
        "n_edges": [chain.dags.n_edges for chain in chains],
        "log_likelihood": [chain.scalars["log_likelihood"] for chain in chains],
    }
    diagnoses = {name: diagnose(numbers) for name, numbers in watched.items()}
    found["rhat"] = {name: d.r_hat for name, d in diagnoses.items()}
    found["ess"] = {name: d.n_effective for name, d in diagnoses.items()}
    return found


def _scalars(trace: Any) -> set[str]:
    return {name for chain in trace.chains for name in chain.scalars}


def versions(model: str) -> dict[str, str]:
    """Versions of what a model is computed with."""
    used = ("chefs", "numpy", "numba") if model in PRIORS else ("chefs", "numpy", "scikit-learn")
    used += ("torch", "zuko") if model == "flow" else ()
    return {"python": platform.python_version()} | {name: version(name) for name in used}


def finite(value: Any) -> Any:
    """The same with "-inf" for that, and None for other numbers that JSON does not know."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and value == -math.inf:
        return "-inf"
    return None if isinstance(value, float) and not math.isfinite(value) else value


def results_in(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The results in a folder, each with its file; other files are left alone."""
    found, models = [], "|".join((*PRIORS, *alternatives.ALTERNATIVES))
    ours = re.compile(rf"({'|'.join(DATASETS)})-({models})-\d+\.json")
    for path in sorted(path for path in folder.glob("*.json") if ours.fullmatch(path.name)):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            result = {}
        missing = [name for name in NEEDED if not isinstance(result, dict) or name not in result]
        if missing:
            raise ValueError(f"{path} is not the result of a fit (no {missing[0]}): delete it to have it made again")
        found.append((path, result))
    return found


def default_minutes(data: str) -> float:
    """Minutes of one fit, if nobody says: 2 in two dimensions, 4 in more."""
    flat = data in datasets.TOYS or data == "geyser"
    return MINUTES_FLAT if flat else MINUTES_BEYOND


def default_sets(data: str) -> int:
    """Sets of fantasy points, if nobody says."""
    return N_SETS_SMALL if data in SMALL else N_SETS


def made_folder(out: Path) -> None:
    """Make a folder, unless it is there."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out} is a file: choose a folder")
    out.mkdir(parents=True, exist_ok=True)


def check_known(name: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    """Raise where something is asked for that there is not."""
    unknown = [one for one in wanted if one not in known]
    if unknown:
        raise ValueError(f"{name} has {unknown[0]!r}: choose among {', '.join(known)}")
