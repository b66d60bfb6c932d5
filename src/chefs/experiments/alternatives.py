"""What people would use instead of a belief network: Gaussian mixture, kernel density, neural spline flow.

And the training points drawn again, which is no model, but what one has that knows them by heart and nothing else.

Columns that are discrete, or nearly constant, have no density, and a model that puts a narrow enough peak on an atom
reaches any likelihood. So every model here, and the network beside it (`with_floor`), is made a density of z + FLOOR ε,
with ε standard normal and z the standardised columns, and all are scored at the same noisy test points. No peak can
then be narrower than FLOOR, and none is worth more than it should be: the true density has the largest expected score.
Points that are drawn, for the distance from data without noise, are of z itself; only the flow cannot undo it.
"""

from __future__ import annotations

import copy
import functools
import math
import time
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chefs.dag import FloatArray
from chefs.draws import ChainDraws
from chefs.trace import Trace

if TYPE_CHECKING:
    from chefs.network.estimator import SigmoidNetwork

FLOOR = 0.05  # standard deviations of each column
COMPONENTS = (*range(1, 11), 12, 14, 17, 20, 25, 30, 40, 50)
PATIENCE = 3  # numbers of components that may be worse, one after the other, before the search ends
BANDWIDTHS = np.geomspace(FLOOR, 2.0, 30)
FOLDS = 5
BOUND, BINS = 9.0, 12  # of the flow's splines: points go to ±8, and beyond its bound a spline is the identity
WAIT, MOST_PASSES = 50, 2000  # passes over the points: without improvement, and in all
NEEDS_ZUKO = "the flow needs zuko and torch: pip install 'chefs[compare]'"


class Density(Protocol):
    """A density that can be evaluated and drawn from, and how it was chosen."""

    chosen: dict[str, Any]

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` points, a row each."""
        ...

    def log_density(self, z: FloatArray) -> FloatArray:
        """Log density of each row."""
        ...


@dataclass
class Mixture:
    """A mixture of Gaussians with full covariances, of as many components as the Bayesian information criterion says.

    FLOOR² is added to the variances, which is to mix Gaussians for z + FLOOR ε.
    """

    model: Any
    chosen: dict[str, Any]

    @classmethod
    def fit(cls, rng: np.random.Generator, z: FloatArray, seconds: float = math.inf) -> Mixture:
        """More and more components, until that has made it worse three times, or the time is over."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture

        best, least, worse, end = None, math.inf, 0, time.monotonic() + seconds
        for n in COMPONENTS:
            if n > len(z) or worse == PATIENCE or (best is not None and time.monotonic() > end):
                break
            model = GaussianMixture(n, reg_covar=FLOOR**2, n_init=3, max_iter=500, random_state=_seed(rng))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # then another number of components has a lower BIC
                score = model.fit(z).bic(z)
            best, least, worse = (model, score, 0) if score < least else (best, least, worse + 1)
        assert best is not None  # the first score is finite
        return cls(best, {"components": int(best.n_components), "bic": float(least)})

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Points of the mixture without the noise, in random sequence."""
        which = rng.choice(self.model.n_components, n, p=self.model.weights_)
        roots = []
        for covariance in self.model.covariances_:
            variances, axes = np.linalg.eigh(covariance)
            roots.append(axes * np.sqrt(np.maximum(variances - FLOOR**2, 0.0)))
        noise = rng.standard_normal((n, len(roots[0])))
        return self.model.means_[which] + np.einsum("nij,nj->ni", np.array(roots)[which], noise)

    def log_density(self, z: FloatArray) -> FloatArray:
        """Log density of each row."""
        return self.model.score_samples(z)


@dataclass
class Kernels:
    """A Gaussian kernel density estimate whose bandwidth, at least FLOOR, is chosen by cross-validation."""

    model: Any
    chosen: dict[str, Any]

    @classmethod
    def fit(cls, rng: np.random.Generator, z: FloatArray, seconds: float = math.inf) -> Kernels:
        """The bandwidth for which noisy points left out have the largest density, in five folds; takes no long time."""
        from sklearn.neighbors import KernelDensity

        fold = rng.permutation(len(z)) % FOLDS
        noisy = with_noise(rng, z)
        scores = [
            sum(KernelDensity(bandwidth=h).fit(z[fold != f]).score(noisy[fold == f]) for f in range(FOLDS))
            for h in BANDWIDTHS
        ]
        bandwidth = float(BANDWIDTHS[int(np.argmax(scores))])
        return cls(KernelDensity(bandwidth=bandwidth).fit(z), {"bandwidth": bandwidth})

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Points of the estimate without the noise."""
        points = rng.choice(np.asarray(self.model.tree_.data), n)
        return points + math.sqrt(self.model.bandwidth**2 - FLOOR**2) * rng.standard_normal(points.shape)

    def log_density(self, z: FloatArray) -> FloatArray:
        """Log density of each row."""
        return self.model.score_samples(z)


@dataclass
class Bootstrap:
    """The training points, drawn with replacement; with the noise, kernels as narrow as the floor around them."""

    z: FloatArray
    chosen: dict[str, Any]

    @classmethod
    def fit(cls, rng: np.random.Generator, z: FloatArray, seconds: float = math.inf) -> Bootstrap:
        """Nothing to do."""
        return cls(z, {})

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Training points."""
        return rng.choice(self.z, n)

    def log_density(self, z: FloatArray) -> FloatArray:
        """Log density of each row."""
        from sklearn.neighbors import KernelDensity

        return KernelDensity(bandwidth=FLOOR).fit(self.z).score_samples(z)


@dataclass
class Flow:
    """A neural spline flow (zuko), trained on points with new noise in every pass and stopped by a fifth of them.

    Reference: C. Durkan et al., Neural spline flows, 2019.
    """

    model: Any
    chosen: dict[str, Any]

    @classmethod
    def fit(cls, rng: np.random.Generator, z: FloatArray, seconds: float = math.inf) -> Flow:
        """Adam until 50 passes have not helped the points held out, or the time is over; the best pass is kept."""
        torch, zuko = _flow_packages()
        torch.set_num_threads(1)
        torch.manual_seed(_seed(rng))
        mixed = rng.permutation(z)
        held, points = np.split(mixed, [max(1, len(mixed) // 5)])
        check = torch.from_numpy(np.concatenate([with_noise(rng, held) for _ in range(5)])).float()
        spline = functools.partial(zuko.transforms.MonotonicRQSTransform, bound=BOUND)
        shapes = [(BINS,), (BINS,), (BINS - 1,)]  # widths and heights of the bins, slopes between them
        flow = zuko.flows.MAF(z.shape[1], univariate=spline, shapes=shapes, transforms=3, hidden_features=(64, 64))
        adam = torch.optim.Adam(flow.parameters(), lr=2e-3)
        best, least, waited, passes, end = flow.state_dict(), math.inf, 0, 0, time.monotonic() + seconds
        while waited < WAIT and passes < MOST_PASSES and time.monotonic() < end:
            noisy = torch.from_numpy(rng.permutation(with_noise(rng, points))).float()
            for batch in noisy.split(256):
                loss = -flow().log_prob(batch).mean()
                adam.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
                adam.step()
            with torch.no_grad():
                score = -float(flow().log_prob(check).mean())
            passes, waited = passes + 1, waited + 1
            if score < least:
                best, least, waited = copy.deepcopy(flow.state_dict()), score, 0
        flow.load_state_dict(best)
        return cls(flow, {"passes": passes, "held_out": -least})

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Points of the flow."""
        torch, _ = _flow_packages()
        torch.manual_seed(_seed(rng))
        with torch.no_grad():
            return self.model().sample((n,)).numpy().astype(np.float64)

    def log_density(self, z: FloatArray) -> FloatArray:
        """Log density of each row."""
        torch, _ = _flow_packages()
        with torch.no_grad():
            return self.model().log_prob(torch.from_numpy(z).float()).numpy().astype(np.float64)


ALTERNATIVES: dict[str, Any] = {"mixture": Mixture, "kernel": Kernels, "flow": Flow, "bootstrap": Bootstrap}


def fit(name: str, rng: np.random.Generator, z: FloatArray, seconds: float = math.inf) -> Density:
    """One of the alternatives, fitted to standardised points.

    >>> rng = np.random.default_rng(0)
    >>> mixture = fit("mixture", rng, rng.normal(size=(200, 2)))
    >>> mixture.chosen["components"], mixture.sample(rng, 5).shape
    (1, (5, 2))
    """
    if name not in ALTERNATIVES:
        raise ValueError(f"there is no alternative {name!r}: choose among {', '.join(ALTERNATIVES)}")
    return ALTERNATIVES[name].fit(rng, z, seconds)


def has_flow() -> bool:
    """Whether the packages that the flow needs are installed."""
    return find_spec("zuko") is not None and find_spec("torch") is not None


def with_noise(rng: np.random.Generator, z: FloatArray) -> FloatArray:
    """Standardised points with the noise that all densities here are densities of."""
    return z + FLOOR * rng.standard_normal(z.shape)


def with_floor(model: SigmoidNetwork) -> SigmoidNetwork:
    """The same fitted network as a density of z + FLOOR ε: every observed variance 1/ρ becomes 1/ρ + FLOOR².

    This is exact where no observed node has children, as it is where all are at order 0.
    """
    trace = model.trace_
    if any((chain.dags.parent < trace.n_observed).any() for chain in trace.chains):
        raise ValueError("the floor is for networks whose observed nodes have no children: leave orders at 0")
    floored = copy.copy(model)
    floored.trace_ = Trace([_floored(chain) for chain in trace.chains], trace.stats, trace.names, trace.about)
    return floored


def _floored(chain: ChainDraws) -> ChainDraws:
    observed = (chain.dags.node_start[:-1, None] + np.arange(chain.dags.n_observed)).ravel()
    precision = chain.node["precision"].copy()
    precision[observed] = 1.0 / (1.0 / precision[observed] + FLOOR**2)
    return ChainDraws(chain.dags, chain.scalars, {**chain.node, "precision": precision}, chain.edge)


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _flow_packages() -> tuple[Any, Any]:
    try:
        import torch
        import zuko
    except ImportError:
        raise ImportError(NEEDS_ZUKO) from None
    return torch, zuko
