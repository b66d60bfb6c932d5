"""The Indian Chefs Process: a probability distribution over every DAG with observed and hidden nodes (section 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, overload, runtime_checkable

import numpy as np

from chefs.dag import Dag, FloatArray, IntArray, checked_dag, shown
from chefs.dags import Dags
from chefs.patience import patient

if TYPE_CHECKING:
    from chefs._core.generate import Ragged

MOST_EXPECTED = 10_000
Observed = int | Sequence[float] | FloatArray


@runtime_checkable
class DagPrior(Protocol):
    """A distribution over graphs, each a `Dag`, that can be drawn from and scored."""

    def sample(self, rng: np.random.Generator, observed: Observed, size: int | None = None) -> Any:
        """One draw, or a sequence of `size` draws."""
        ...

    def log_prob(self, dag: Dag) -> float:
        """Logarithm of the density at `dag`."""
        ...


@dataclass(frozen=True, slots=True)
class ChefsProcess:
    r"""The Indian Chefs Process with concentration `alpha`, mass `gamma` and popularity `phi` of observed nodes.

    Every node has an order, uniform on [0, 1] unless it is given; a node connects to each active node below it with a
    probability of its own, its popularity, which is integrated out. The density, with respect to Lebesgue measure on
    the sorted orders of the hidden nodes and the free orders of the observed ones, is Eq. 9 of the paper without 1/K⁺!:

    f(Z, θ) = exp(−αγ Σ_j (θ_(j+1) − θ_(j)) [ψ(α+j) − ψ(α)])
              Π_hidden αγ (m−1)! / (α+↓−m)^(rising m)  Π_observed φ^(rising m) α^(rising ↓−m) / (α+φ)^(rising ↓)

    with m the number of children of a node and ↓ the number of nodes strictly below it. Larger `gamma` makes larger
    graphs, smaller `alpha` denser ones, larger `phi` more edges out of observed nodes.

    Reference: P. Dallaire et al., The Indian Chefs Process, UAI 2020.

    >>> import numpy as np
    >>> prior = ChefsProcess(alpha=1.0, gamma=2.0, phi=1.0)
    >>> dag = prior.sample(np.random.default_rng(0), observed=[0.0, 0.0, 0.0])
    >>> bool(np.isfinite(prior.log_prob(dag)))
    True
    >>> round(prior.expected_nodes([0.0, 0.0, 0.0]), 3)
    7.486
    """

    alpha: float = 1.0
    gamma: float = 1.0
    phi: float = 1.0

    def __post_init__(self) -> None:
        for name in ("alpha", "gamma", "phi"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))

    @property
    def _hyper(self) -> FloatArray:
        return np.array([self.alpha, self.gamma, self.phi])

    def log_prob(self, dag: Dag) -> float:
        """Logarithm of the density at `dag`; finite for every `Dag`.

        >>> ChefsProcess(1.0, 1.0, 1.0).log_prob(Dag([[0]], [0.0], n_observed=1))
        -1.0
        """
        from chefs._core.density import log_prob

        heights, n_children, n_below = _counts(checked_dag(dag))
        return log_prob(heights, n_children, n_below, dag.n_observed, self.alpha, self.gamma, self.phi)

    @overload
    def sample(self, rng: np.random.Generator, observed: Observed) -> Dag: ...
    @overload
    def sample(self, rng: np.random.Generator, observed: Observed, size: int) -> Dags: ...
    def sample(self, rng: np.random.Generator, observed: Observed, size: int | None = None) -> Dag | Dags:
        """Exact, independent draws, in time linear in their nodes and edges.

        Args:
            rng: A NumPy generator.
            observed: How many observed nodes (free orders), or a sequence of their orders, nan where free.
            size: None for one `Dag`, or the number of draws of a `Dags` sequence.
        """
        from chefs._core.generate import sweep

        orders, count = observed_orders(observed), checked_size(size)
        with patient():
            ragged = sweep(checked_rng(rng), orders, self.alpha, self.gamma, self.phi, count)
        return as_dags(ragged, orders.size, size)

    def restaurant(self, rng: np.random.Generator, observed: Observed) -> Dag:
        """One draw by the process that gave the distribution its name: star chefs enter one after another.

        The same law as `sample`, in cubic time. The paper's description is corrected in two places: see
        `extend`.
        """
        dag = None
        for order in observed_orders(observed):
            dag = self._one_more(checked_rng(rng), dag, order)
        assert dag is not None
        return dag

    def extend(self, rng: np.random.Generator, dag: Dag, order: float = math.nan) -> Dag:
        """The graph with one more observed node, drawn given the graph: one round of the restaurant.

        The new star chef is proposed to the chefs below it (Beta-Binomial: its popularity is drawn once), chooses among
        the chefs above, and finds new regular chefs, who do likewise. Only chefs that have already chosen count. The
        new node has the number `dag.n_observed`; hidden nodes move up by one.

        Args:
            rng: A NumPy generator.
            dag: Any graph.
            order: Order of the new observed node; drawn uniformly where nan.

        >>> rng = np.random.default_rng(1)
        >>> prior = ChefsProcess(1.0, 2.0, 1.0)
        >>> prior.extend(rng, prior.sample(rng, observed=2)).n_observed
        3
        """
        if not isinstance(order, int | float | np.number) or not (math.isnan(order) or 0 <= order <= 1):
            raise ValueError(f"order must lie in [0, 1] or be nan (free); found {shown(order)}")
        return self._one_more(checked_rng(rng), checked_dag(dag), order)

    def _one_more(self, rng: np.random.Generator, dag: Dag | None, order: float) -> Dag:
        from chefs._core.restaurant import one_more_star

        height = rng.random() if math.isnan(order) else float(order)
        if dag is None:
            orders, pairs, n_observed = np.empty(0), np.empty((0, 2), dtype=np.int64), 0
        else:
            orders, pairs, n_observed = dag.order.copy(), np.argwhere(dag.edges), dag.n_observed
        parents, children = np.ascontiguousarray(pairs.T)
        new = one_more_star(rng, orders, parents, children, n_observed, height, self._hyper)
        return Dag._trusted(*new, n_observed + 1)

    def finite(self, K: int) -> FiniteChefs:
        """The finite model with `K` nodes in all, whose limit for K → ∞ this process is."""
        return FiniteChefs(self.alpha, self.gamma, self.phi, K)

    def n_active_pmf(self, observed: Observed) -> FloatArray:
        """P(K⁺ = n) for n = 0, 1, 2, …: the exact distribution of the number of nodes, observed ones included.

        >>> pmf = ChefsProcess(1.0, 2.0, 1.0).n_active_pmf([0.0])
        >>> round(float(pmf.sum()), 9), round(float(pmf[1]), 4)
        (1.0, 0.1353)
        """
        from chefs._core.moments import size_distribution

        return size_distribution(observed_orders(observed), self._hyper)[0]

    def expected_nodes(self, observed: Observed) -> float:
        """E[K⁺], exactly: observed and hidden nodes."""
        pmf = self.n_active_pmf(observed)
        return float(pmf @ np.arange(pmf.size))

    def expected_edges(self, observed: Observed) -> float:
        """Expected number of edges, exactly.

        >>> round(ChefsProcess(1.0, 2.0, 5.0).expected_edges([1.0, 0.0]), 3)
        7.96
        """
        from chefs._core.moments import size_distribution

        return float(size_distribution(observed_orders(observed), self._hyper)[1])

    @classmethod
    def with_expected_nodes(
        cls,
        nodes: float,
        observed: Observed,
        *,
        alpha: float | None = None,
        gamma: float | None = None,
        phi: float = 1.0,
    ) -> ChefsProcess:
        """The process with E[K⁺] = `nodes`, given `alpha` or given `gamma`; the other one is solved for.

        >>> prior = ChefsProcess.with_expected_nodes(10, observed=3, alpha=1.0)
        >>> round(prior.expected_nodes(3), 6)
        10.0
        """
        if (alpha is None) == (gamma is None):
            raise ValueError("give exactly one of alpha and gamma: the other one is solved for")
        orders, nodes = observed_orders(observed), positive("nodes", nodes)
        if nodes <= orders.size:
            raise ValueError(f"nodes must be greater than the number of observed nodes, {orders.size}; found {nodes:g}")
        if nodes > MOST_EXPECTED:
            raise ValueError(f"nodes must be at most {MOST_EXPECTED} for exact sizes to be computed; found {nodes:g}")
        if (orders == 1).all():
            raise ValueError(
                "nodes cannot be reached: every order in observed is 1, so there is no room above for a hidden node"
            )
        if gamma is None:
            assert alpha is not None
            return cls._solved(nodes, orders, lambda x: cls(alpha, math.exp(x), phi), "gamma", 40.0)
        return cls._solved(nodes, orders, lambda x: cls(math.exp(x), gamma, phi), "alpha", 16.0)

    @staticmethod
    def _solved(nodes: float, orders: FloatArray, process, unknown: str, limit: float) -> ChefsProcess:
        """Widen a bracket on log `unknown` from a good guess: far beyond the solution the sizes are out of reach."""
        from scipy.optimize import brentq

        from chefs._core.moments import mean_field_nodes

        @cache
        def excess(x: float) -> float:
            return process(x).expected_nodes(orders) - nodes

        guess = -limit  # where the mean-field path, which is quick to compute, ends at `nodes`
        while guess < limit and mean_field_nodes(orders, process(guess)._hyper) < nodes:
            guess += 0.25
        low = high = guess
        while excess(low) > 0 and low > -limit:
            low -= 0.5
        while excess(high) < 0 and high < limit:
            high += 0.25
        if excess(low) > 0 or excess(high) < 0:
            side, found = ("more", excess(low)) if excess(low) > 0 else ("fewer", excess(high))
            raise ValueError(
                f"no {unknown} gives nodes = {nodes:g}: with the other parameters as they are there are always {side}, "
                f"at the closest {found + nodes:.6g}"
            )
        return process(brentq(excess, low, high, xtol=1e-12) if low < high else low)

    def popularity(self, dag: Dag):
        """The posterior of every node's popularity π given the graph: a frozen `scipy.stats.beta`, one entry a node.

        Beta(m, α+↓−m) for a hidden node and Beta(φ+m, α+↓−m) for an observed one.

        >>> dag = Dag([[0, 0], [1, 0]], [0.0, 0.5], n_observed=1)
        >>> ChefsProcess(1.0, 1.0, 1.0).popularity(dag).mean().tolist()
        [0.5, 0.5]
        """
        from scipy.stats import beta

        _, n_children, n_below = _counts(checked_dag(dag))
        observed = np.arange(dag.n_nodes) < dag.n_observed
        return beta(n_children + self.phi * observed, self.alpha + n_below - n_children)


@dataclass(frozen=True, slots=True)
class FiniteChefs:
    """The finite model of section 2 of the paper: K nodes with popularities Beta(αγ/K + φ·observed, α − αγ/K).

    Only the active nodes are kept. `log_prob` is Eq. 8 without 1/K⁺!, with respect to the same measure as that of
    `ChefsProcess`, to which it converges as K grows.

    >>> finite = ChefsProcess(1.0, 1.0, 1.0).finite(100_000)
    >>> round(finite.log_prob(Dag([[0]], [0.0], n_observed=1)), 4)
    -1.0
    """

    alpha: float
    gamma: float
    phi: float
    K: int

    def __post_init__(self) -> None:
        for name in ("alpha", "gamma", "phi"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        if isinstance(self.K, bool) or not isinstance(self.K, int | np.integer) or self.K < 1:
            raise ValueError(f"K must be a whole number of nodes, at least 1; found {shown(self.K)}")
        if self.gamma >= self.K:
            raise ValueError(
                f"K must be greater than gamma = {self.gamma:g}, so that α − αγ/K > 0; found {shown(self.K)}"
            )

    @overload
    def sample(self, rng: np.random.Generator, observed: Observed) -> Dag: ...
    @overload
    def sample(self, rng: np.random.Generator, observed: Observed, size: int) -> Dags: ...
    def sample(self, rng: np.random.Generator, observed: Observed, size: int | None = None) -> Dag | Dags:
        """Draws of the active part; arguments as for `ChefsProcess.sample`."""
        from chefs._core.generate import finite

        orders, count = observed_orders(observed), checked_size(size)
        if orders.size > self.K:
            raise ValueError(f"{orders.size} observed nodes do not fit into a model of K = {self.K} nodes")
        with patient():
            ragged = finite(checked_rng(rng), orders, self.alpha, self.gamma, self.phi, self.K, count)
        return as_dags(ragged, orders.size, size)

    def log_prob(self, dag: Dag) -> float:
        """Logarithm of the density at `dag`; −∞ where it has more than K nodes."""
        from chefs._core.density import log_rising

        n_nodes, n_observed = checked_dag(dag).n_nodes, dag.n_observed
        if n_nodes > self.K:
            return -math.inf
        heights, n_children, n_below = _counts(dag)
        mass = self.alpha * self.gamma / self.K
        total = 0.0
        for k, (m, below) in enumerate(zip(n_children.tolist(), n_below.tolist(), strict=True)):
            head = mass + self.phi * (k < n_observed)
            total += log_rising(head, m) + log_rising(self.alpha - mass, below - m)
            total -= log_rising(head + self.alpha - mass, below)
        # An inactive node among j active ones connects to none with probability Π_{i<j} (1 − (αγ/K) / (α + i)); its
        # distance from one is kept, because K − K⁺ such nodes raise it to a high power.
        log_silent = np.concatenate([[0.0], np.cumsum(np.log1p(-mass / (self.alpha + np.arange(n_nodes))))])
        gaps = np.diff(np.concatenate([[0.0], heights, [1.0]]))
        total += (self.K - n_nodes) * math.log1p(float(gaps @ np.expm1(log_silent)))
        names = np.log(self.K - np.arange(n_observed, n_nodes)).sum()  # which of the K − D are the hidden ones
        return float(names + total)


def _counts(dag: Dag) -> tuple[FloatArray, IntArray, IntArray]:
    """The sorted orders, and for each node its numbers of children and of nodes below."""
    heights = np.sort(dag.order)
    return heights, np.count_nonzero(dag.edges, axis=1), np.searchsorted(heights, dag.order, side="left")


def positive(name: str, value: float) -> float:
    """`value` as a float, or one sentence that says what is wrong with it."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a positive number; found {shown(value)}") from None
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be positive and finite; found {number:g}")
    if not 1e-100 <= number <= 1e100:
        raise ValueError(f"{name} must lie between 1e-100 and 1e100; found {number:g}")
    return number


def checked_rng(rng: np.random.Generator) -> np.random.Generator:
    """`rng`, if it is a NumPy generator."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, such as np.random.default_rng(0); found {shown(rng)}")
    return rng


def checked_size(size: int | None) -> int:
    """How many draws `size` asks for."""
    if size is None:
        return 1
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise ValueError(f"size must be None or a whole number of draws; found {shown(size)}")
    return int(size)


def observed_orders(observed: Observed) -> FloatArray:
    """The orders of the observed nodes, nan where free, from what `sample` accepts as `observed`."""
    if isinstance(observed, bool):
        raise ValueError("observed must be a number of nodes or a sequence of orders")
    if isinstance(observed, int | np.integer):
        if observed < 1:
            raise ValueError(
                f"observed must be at least 1: without observed nodes no node is active; found {shown(observed)}"
            )
        return np.full(int(observed), np.nan)
    try:
        if np.asarray(observed).dtype.kind in "USc":
            raise TypeError
        orders = np.array(observed, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"observed must be a number of nodes or a sequence of orders; found {shown(observed)}"
        ) from None
    if orders.ndim != 1 or orders.size == 0:
        raise ValueError("observed must be a number of nodes or a sequence of at least one order, nan where it is free")
    bad = orders[~(np.isnan(orders) | ((orders >= 0) & (orders <= 1)))]
    if bad.size:
        raise ValueError(f"every order in observed must lie in [0, 1] or be nan (free); found {bad[0]:g}")
    return orders


def as_dags(ragged: Ragged, n_observed: int, size: int | None) -> Dag | Dags:
    """What `sample` returns: the sequence, or its only member where no size was asked for."""
    dags = Dags(n_observed, *ragged)
    return dags[0] if size is None else dags
