"""SigmoidNetwork: the belief network as a scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from chefs._limits import Prior
from chefs.buffets import CascadingBuffet, ExtendedBuffet, IndianBuffet
from chefs.dag import FloatArray, shown
from chefs.kernels import Hyperpriors
from chefs.network.asked import asked
from chefs.network.kernel import MOVES, NetworkKernel
from chefs.network.predictive import Method, fantasies, imputations, log_density, mean_outputs
from chefs.network.start import GradientStart, Start
from chefs.network.tables import CLIP, Scale, check_finite, check_numbers, orders_of
from chefs.prior import ChefsProcess
from chefs.running import Plan
from chefs.sampling import check_jobs, kept, sample, turns
from chefs.trace import Trace

USUAL = 1000  # draws, and steps of warm-up
ENDLESS = 1_000_000  # of them, where minutes decide
START_UNITS, POINTS_A_UNIT = (8, 40), 50  # units of a start, but no more than one for so many points, or LEAST_UNITS
LEAST_UNITS = 5
START_SHARE = 0.35  # of the minutes there are, at most
LEARNT: dict[str, type[Prior]] = {
    "icp": ChefsProcess,
    "cibp": CascadingBuffet,
    "ecibp": ExtendedBuffet,
    "ibp": IndianBuffet,
}
RandomState = int | np.random.Generator | np.random.RandomState | None


class Imputation(NamedTuple):
    """Rows with their missing entries filled in, on the scale of the data."""

    mean: FloatArray  # (rows, columns)
    draws: FloatArray  # (draws, rows, columns)


class SigmoidNetwork(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, BaseEstimator):
    """A belief network whose structure, hidden units and weights are learnt from a table of numbers.

    a_i ~ N(b_i + Σ_k Z_ki W_ki u_k, 1/ρ_i), u_i = 1/(1 + exp(−a_i)), W, b ~ N(0, 1), ρ ~ Gamma(½, rate ½); the graph Z
    and the number of hidden units have the Indian Chefs Process as their prior. Columns are scaled to mean 0 and
    standard deviation 1 by the training data; nan means missing.

    Reference: P. Dallaire et al., The Indian Chefs Process, UAI 2020.

    Args:
        prior: The prior over graphs, with its hyperparameters; "icp" (or None), "cibp", "ecibp" or "ibp" for the
            chefs', the cascading, the extended or the Indian buffet's, whose hyperparameters are learnt as well.
        orders: Orders of the columns: one number, one for each, or a mapping from names (others are at 0); nan where
            free. A column can have parents of greater order only: inputs at 1 and outputs at 0 make a regression.
        draws: Draws of each chain; None for 1000 or, where `minutes` are given, for as many as they allow.
        warmup: Steps of each chain before its first draw; None for 1000 or, where `minutes` are given, half of them.
        thin: Steps from one draw to the next.
        chains: Independent chains, pooled.
        minutes: Stop after so many minutes, with what was reached; such a fit cannot be repeated draw for draw. Where
            `draws` are given as well, whichever comes first ends it.
        n_jobs: Chains (and in the methods, draws) at a time; None for as many as there are cores.
        random_state: Seed of the fit.
        checkpoint: A new folder to which the run is written while it goes on; `load` reads it, `chefs.resume`
            continues it.
        progress: Whether to show progress; None for: on a terminal.
        moves: Which moves the chain makes, as for `NetworkKernel`; None for its default ones. Hyperparameters are
            learnt only if "hyperparameters" is among them.
        start: "empty" or None for no hidden unit; "gradient" for a network that each chain fits by stochastic gradient,
            no larger than the data need (where any order is free, which is a question of structure, or all are 1,
            chains start empty); or a network to start from.
        max_hidden: The largest number of hidden units.
        required: Edges (parent, child) among columns, by number or name, that every graph must have.
        forbidden: Edges among columns that no graph may have.
        temperatures: For parallel tempering: how many copies of each chain from the posterior to the prior, or their
            temperatures 1 < 2 < …, as for `chefs.sample`.
        keep_activations: Whether the trace keeps the pre-activations of all nodes, of columns as they are scaled: 8
            bytes for each draw, node and row.

    Attributes:
        trace_: The draws: graphs, weights, biases, precisions, hyperparameters; `trace_.stats` says how often each move
            was made and accepted, and how long it took.
        n_features_in_: Number of columns.
        feature_names_in_: Their names, where the table had any.
        mean_: Mean of each column.
        scale_: Standard deviation of each column.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(50, 2)) * [1.0, 3.0]
    >>> model = SigmoidNetwork(draws=5, warmup=5, chains=1, start="empty", random_state=0, progress=False).fit(x)
    >>> model.sample(4, random_state=0).shape, model.score_samples(x).shape
    ((4, 2), (50,))
    """

    trace_: Trace
    mean_: FloatArray
    scale_: FloatArray
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        prior: Prior | str | None = None,
        *,
        orders: float | Sequence[float] | Mapping[str, float] = 0.0,
        draws: int | None = None,
        warmup: int | None = None,
        thin: int = 1,
        chains: int = 2,
        minutes: float | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        moves: Sequence[str] | str | None = None,
        start: str | Start | GradientStart | None = "gradient",
        max_hidden: int | None = None,
        required: Sequence[tuple[Any, Any]] = (),
        forbidden: Sequence[tuple[Any, Any]] = (),
        temperatures: int | Sequence[float] | None = None,
        keep_activations: bool = False,
    ) -> None:
        self.prior = prior
        self.orders = orders
        self.draws = draws
        self.warmup = warmup
        self.thin = thin
        self.chains = chains
        self.minutes = minutes
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.progress = progress
        self.moves = moves
        self.start = start
        self.max_hidden = max_hidden
        self.required = required
        self.forbidden = forbidden
        self.temperatures = temperatures
        self.keep_activations = keep_activations

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn networks from a table, a row a point; nan means missing.

        Args:
            X: An array or a pandas frame.
            y: Ignored.
        """
        with _as_it_was(self):
            return self._fit(self._checked(X, training=True))

    def fit_table(self, x: FloatArray, names: Sequence[str] | None, compiled: Callable[[], None] | None = None) -> Self:
        """`fit` for an array whose columns have names; `compiled` is called between the checks and the work."""
        with _as_it_was(self):
            return self._fit(self._checked(x, training=True, names=names), compiled)

    def _fit(self, x: FloatArray, compiled: Callable[[], None] | None = None) -> Self:
        plan = self._plan()
        _check_count("chains", self.chains)
        check_jobs(self.n_jobs)
        scale = Scale.of(x, self._names)
        kernel = self._kernel(np.clip(scale.to_z(x), -CLIP, CLIP))
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        (compiled or have_compiled)()
        if kernel.moves != MOVES:
            have_compiled(kernel.moves)
        self.trace_ = sample(
            generator(self.random_state),
            kernel,
            draws=plan.draws,
            warmup=plan.warmup,
            thin=plan.thin,
            chains=self.chains,
            minutes=plan.minutes,
            temperatures=self.temperatures,
            names=names,
            n_jobs=self.n_jobs,
            checkpoint=self.checkpoint,
            progress=self.progress,
            about={
                "model": "SigmoidNetwork",
                "mean": scale.mean.tolist(),
                "sd": scale.sd.tolist(),
                "names": names,
                "asked": asked(kernel, plan, self.random_state, self.temperatures),
            },
            keep={"table": x},
        )
        self.mean_, self.scale_ = scale
        self._training = x
        return self

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The model in the folder of a run, finished or not, that `fit` was given as `checkpoint`.

        Its parameters are the defaults, for a start or a generator cannot be had back: `trace_.about["asked"]` says
        what was asked for.
        """
        trace = Trace.load(path)
        if trace.about.get("model") != "SigmoidNetwork":
            raise ValueError(f"{path} does not hold a SigmoidNetwork, but another run: read it with Trace.load")
        if not len(trace):
            raise ValueError(f"{path} has no draws yet: wait, or continue the run with chefs.resume")
        model = cls()
        model.trace_, model._training = trace, kept(path).get("table")
        model.mean_, model.scale_ = np.array(trace.about["mean"]), np.array(trace.about["sd"])
        model.n_features_in_ = trace.n_observed
        if trace.about["names"] is not None:
            model.feature_names_in_ = np.array(trace.about["names"], dtype=object)
        return model

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> FloatArray:
        """Fantasy points on the scale of the data, each from one draw of the posterior, over all chains."""
        check_is_fitted(self, "trace_")
        _check_count("n_samples", n_samples)
        return self._scale.to_x(fantasies(generator(random_state), self.trace_, n_samples))

    def score_samples(
        self, X: Any, *, method: Method = "auto", effort: int = 1, return_doubled: bool = False, seed: int = 0
    ) -> Any:
        """Log posterior-predictive density of each row on the scale of the data; missing entries are integrated out.

        The mean over draws of the posterior of an estimate that is unbiased for the density, so its logarithm is biased
        low: look whether it stands still when the effort is doubled. The same seed gives the same walks to every row.

        Args:
            X: Rows, with the columns of the training table.
            method: "walks" (20 000 walks down 100 networks), "annealed" (500 temperatures in each of 25 networks), or
                "auto": walks where no more than four columns have parents, in any draw.
            effort: How many times as many walks, or networks and temperatures.
            return_doubled: Return two arrays, at this effort and at twice that.
            seed: Seed of the walks.
        """
        x = self._checked(X)
        _check_count("effort", effort)
        _check_count("seed", seed, least=0)
        efforts = (effort, 2 * effort) if return_doubled else (effort,)
        z, jacobian = self._scale.to_z(x), self._scale.log_jacobian(x)
        logs = [jacobian + log_density(self.trace_, z, method, times, seed, self.n_jobs) for times in efforts]
        return tuple(logs) if return_doubled else logs[0]

    def score(self, X: Any, y: Any = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Mean log posterior-predictive density of the rows."""
        return float(self.score_samples(X).mean())

    def impute(
        self, X: Any = None, *, draws: int = 100, method: Method = "auto", random_state: RandomState = None
    ) -> Imputation:
        """Draws and means of missing entries, given what is seen of their rows.

        Given a network rows are independent, so each draw is of p(missing | seen, network), by importance resampling:
        approximately, the better the more walks pass near what is seen. The networks are those of the posterior; for
        new rows, each by itself, they count in proportion to p(seen | network).

        Args:
            X: New rows, nan where missing; None for the rows of the training table.
            draws: How many draws.
            method: "walks" or "annealed", as for `score_samples`.
            random_state: Seed.
        """
        check_is_fitted(self, "trace_")
        _check_count("draws", draws)
        x = self._training if X is None else self._checked(X)
        if x is None:
            raise ValueError("the training table was not kept with this run: give the rows to impute as X")
        if X is None and not np.isnan(x).any():
            raise ValueError("the training table has no missing entries: give the rows to impute as X")
        rng, rows = generator(random_state), np.flatnonzero(np.isnan(x).any(axis=1))
        filled = np.repeat(x[None], draws, axis=0)
        if rows.size:
            z = self._scale.to_z(x[rows])
            z = np.clip(z, -CLIP, CLIP) if X is None else z
            values = self._scale.to_x(imputations(rng, self.trace_, z, draws, method, X is not None, self.n_jobs))
            filled[:, rows] = np.where(np.isnan(x[rows]), values, x[rows])
        with np.errstate(over="ignore"):  # of what is seen, whose mean is not used
            return Imputation(np.where(np.isnan(x), filled.mean(axis=0), x), filled)

    def transform(self, X: Any) -> FloatArray:
        """Mean outputs u of the hidden units given each row, in the draw of the most probable structure."""
        x = self._checked(X)
        chain, draw = self.trace_.most_probable_draw()
        number = sum(len(earlier) for earlier in self.trace_.chains[:chain]) + draw
        return mean_outputs(self.trace_, number, self._scale.to_z(x))

    def _plan(self) -> Plan:
        """How long to run, checked."""
        default = USUAL if self.minutes is None else ENDLESS
        draws, warmup = (default if n is None else n for n in (self.draws, self.warmup))
        return Plan(draws, warmup, self.thin, self.minutes)

    @property
    def _scale(self) -> Scale:
        return Scale(self.mean_, self.scale_)

    @property
    def _names(self) -> list[str]:
        return [str(name) for name in getattr(self, "feature_names_in_", range(self.n_features_in_))]

    @property
    def _n_features_out(self) -> int:
        return self.trace_.most_probable().n_hidden

    def _checked(self, X: Any, *, training: bool = False, names: Sequence[str] | None = None) -> FloatArray:
        """X as an array of numbers with the right columns, or one sentence that says what is wrong with it."""
        if not training:
            check_is_fitted(self, "trace_")
        check_numbers(X)
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.result_type(X.dtype, np.float64)), np.nan)
        numbers: dict[str, Any] = {"dtype": np.float64, "order": "C"}  # the kernels are compiled for one layout
        least = 2 if training else 1
        x: Any = validate_data(self, X, reset=training, ensure_all_finite=False, ensure_min_samples=least, **numbers)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        check_finite(x, self._names)
        return x

    def _kernel(self, z: FloatArray) -> NetworkKernel:
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else list(names)
        orders = orders_of(self.orders, names, z.shape[1])
        prior, hyperpriors = self._prior()
        if np.isnan(orders).any() and not isinstance(prior, ChefsProcess):
            raise ValueError("a buffet has its observed columns at order 0, none is free: give orders=0")
        if not (isinstance(self.moves, str | None) or _are_strings(self.moves)):
            raise TypeError(f"moves must be None, 'paper' or a list of names of moves; found {shown(self.moves)}")
        options: dict[str, Any] = {} if self.moves is None else {"moves": self.moves}
        return NetworkKernel(
            prior,
            orders,
            z,
            hyperpriors=hyperpriors,
            required=_by_number(self.required, names),
            forbidden=_by_number(self.forbidden, names),
            max_hidden=self.max_hidden,
            start=self._start(orders, len(z)),
            keep_activations=self.keep_activations,
            **options,
        )

    def _prior(self) -> tuple[Prior, Hyperpriors | None]:
        """The prior over graphs, and those of its hyperparameters where they are learnt."""
        if isinstance(self.prior, Prior):
            return self.prior, None
        name = "icp" if self.prior is None else self.prior
        if not isinstance(name, str) or name not in LEARNT:
            known = ", ".join(map(repr, LEARNT))
            raise TypeError(f"prior must be a ChefsProcess, a buffet, {known} or None; found {shown(self.prior)}")
        return LEARNT[name](), Hyperpriors()

    def _start(self, orders: FloatArray, n_points: int) -> Start | GradientStart | None:
        """Where each chain starts; fits that have no limit of their own have a share of the minutes."""
        start = self._fitted(orders, n_points) if isinstance(self.start, str) else self.start
        if self.minutes is None or not isinstance(start, GradientStart) or start.seconds < math.inf:
            return start
        ladder: Any = 1 if self.temperatures is None else self.temperatures
        copies = ladder if isinstance(ladder, int | np.integer) else np.size(ladder)  # each has a start of its own
        rounds = turns(self.chains, self.n_jobs)[1] * max(copies, 1)
        return replace(start, seconds=START_SHARE * 60 * self.minutes / rounds)

    def _fitted(self, orders: FloatArray, n_points: int) -> GradientStart | None:
        """What is fitted where "gradient" is asked for: few units, or many, as far as points and `max_hidden` allow."""
        if self.start not in ("gradient", "empty"):
            raise ValueError(f"start must be 'gradient', 'empty' or a network; found {shown(self.start)}")
        most = max(n_points // POINTS_A_UNIT, LEAST_UNITS)
        if self.max_hidden is not None:
            _check_count("max_hidden", self.max_hidden, least=0)
            most = min(most, int(self.max_hidden))
        if self.start == "empty" or np.isnan(orders).any() or (orders == 1).all() or most < 1:
            return None
        few, many = (min(size, most) for size in START_UNITS)
        return GradientStart((few, many) if many >= 2 * few else many)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags


@contextmanager
def _as_it_was(model: SigmoidNetwork) -> Iterator[None]:
    """A fit that fails, or is interrupted, leaves a model with what it had learnt before."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


def have_compiled(moves: Sequence[str] = MOVES) -> None:
    """Take one step somewhere small: what it compiles is kept on disk, so that chains find it and lose no time."""
    rng = np.random.default_rng(0)
    start, data = GradientStart(2, 1), rng.standard_normal((4, 2))
    kernel = NetworkKernel(ChefsProcess(), np.zeros(2), data, start=start, moves=tuple(moves))
    chain = kernel.init(rng)
    kernel.draw(kernel.step(rng, chain)[0])
    start(rng, data, orders=np.array([1.0, 0.0]))


def generator(random_state: RandomState) -> np.random.Generator:
    """A NumPy generator from whatever scikit-learn calls a random state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(f"random_state must be None, a seed or a generator; found {shown(random_state)}") from None


def _by_number(edges: Any, names: list[str] | None) -> Any:
    """Edges with the numbers of columns in place of their names; what are no edges is left for the kernel to refuse."""
    numbers = {name: number for number, name in enumerate(names or ())}
    try:
        return [tuple(numbers.get(node, node) for node in edge) for edge in edges]
    except TypeError:
        return edges


def _are_strings(values: Any) -> bool:
    return isinstance(values, Collection) and all(isinstance(value, str) for value in values)


def _check_count(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}; found {shown(value)}")
