"""Buffets: priors over layered graphs, with the same protocol as the Indian Chefs Process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, overload

import numpy as np

from chefs.dag import Dag, IntArray, checked_dag
from chefs.dags import Dags
from chefs.patience import patient
from chefs.prior import Observed, as_dags, checked_rng, checked_size, observed_orders, positive

if TYPE_CHECKING:
    from chefs._core.generate import Ragged


@dataclass(frozen=True, slots=True)
class _Buffet:
    """What buffets have in common: a concentration `alpha`, a mass `gamma`, and observed nodes at order 0."""

    alpha: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        for name in ("alpha", "gamma"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))

    @overload
    def sample(self, rng: np.random.Generator, observed: Observed) -> Dag: ...
    @overload
    def sample(self, rng: np.random.Generator, observed: Observed, size: int) -> Dags: ...
    def sample(self, rng: np.random.Generator, observed: Observed, size: int | None = None) -> Dag | Dags:
        """Independent draws; `observed` is the number of observed nodes, or their orders, which must be 0 or free."""
        n, count = n_customers(observed), checked_size(size)
        with patient():
            ragged = self._served(checked_rng(rng), n, count)
        return as_dags(ragged, n, size)

    def _served(self, rng: np.random.Generator, n: int, size: int) -> Ragged:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class IndianBuffet(_Buffet):
    """The two-parameter Indian buffet process as a prior over graphs: observed nodes at order 0, hidden ones at 1.

    The Indian Chefs Process becomes it when the orders are fixed so. Each of the n observed nodes is a customer, each
    hidden node a dish; the probability of a graph, up to renaming hidden nodes, is

    P(Z) = exp(−αγ Σ_{j<n} 1/(α+j)) Π_k αγ B(m_k, n−m_k+α) / Π_h K_h!

    with m_k the children of dish k and K_h the number of dishes with the same set h of children. Here `alpha` is the
    concentration and `gamma` the mass (the expected number of parents of an observed node).

    Reference: Z. Ghahramani, T. Griffiths, P. Sollich, Bayesian nonparametric latent feature models, 2007.

    >>> buffet = IndianBuffet(alpha=1.0, gamma=2.0)
    >>> buffet.sample(np.random.default_rng(0), observed=3).n_observed
    3
    """

    def _served(self, rng: np.random.Generator, n: int, size: int) -> Ragged:
        from chefs._core.generate import buffet

        return buffet(rng, n, self.alpha, self.gamma, size)

    def log_prob(self, dag: Dag) -> float:
        """Logarithm of the probability of `dag` up to renaming hidden nodes; −∞ where orders are not 0 and 1.

        >>> round(IndianBuffet(1.0, 2.0).log_prob(Dag([[0]], [0.0], n_observed=1)), 6)
        -2.0
        """
        from scipy.special import betaln

        n = checked_dag(dag).n_observed
        if dag.order[:n].any() or not (dag.order[n:] == 1).all():
            return -math.inf
        dishes = dag.edges[n:, :n]
        m = np.count_nonzero(dishes, axis=1)
        harmonic = (1.0 / (self.alpha + np.arange(n))).sum()
        total = -self.alpha * self.gamma * harmonic
        total += dag.n_hidden * math.log(self.alpha * self.gamma) + betaln(m, n - m + self.alpha).sum()
        repeats = np.unique(dishes, axis=0, return_counts=True)[1] if dag.n_hidden else []
        return float(total - sum(math.lgamma(count + 1) for count in repeats))

    def expected_nodes(self, observed: Observed) -> float:
        """Expected number of nodes, observed and hidden.

        >>> IndianBuffet(1.0, 2.0).expected_nodes(2)
        5.0
        """
        n = n_customers(observed)
        return n + self.alpha * self.gamma * float((1.0 / (self.alpha + np.arange(n))).sum())

    def expected_edges(self, observed: Observed) -> float:
        """Expected number of edges: each observed node has `gamma` parents in the mean."""
        return self.gamma * n_customers(observed)


@dataclass(frozen=True, slots=True)
class _Cascade(_Buffet):
    """Buffets one above the other: the dishes of each are the customers of the next."""

    _extended: ClassVar[bool]

    def _served(self, rng: np.random.Generator, n: int, size: int) -> Ragged:
        from chefs._core.generate import cascade

        return cascade(rng, n, self.alpha, self.gamma, self._extended, size)

    def log_prob(self, dag: Dag) -> float:
        """Logarithm of the density at `dag`; −∞ where its orders are not layered, or its edges not possible in layers.

        >>> round(CascadingBuffet(1.0, 2.0).log_prob(Dag([[0]], [0.0], n_observed=1)), 6)
        -2.0
        """
        from chefs._core.density import log_prob_of_state
        from chefs._core.state import CASCADING, EXTENDED, FAMILY, NO_LIMIT, pack

        if not self._possible(checked_dag(dag)):
            return -math.inf
        parents, children = np.nonzero(dag.edges)
        bottom = np.zeros(dag.n_observed)
        locked = np.zeros((dag.n_observed, dag.n_observed), dtype=np.bool_)
        hyper = np.array([self.alpha, self.gamma, 1.0])
        state = pack(dag.order.copy(), parents, children, bottom, bottom, locked, hyper, NO_LIMIT)
        state.size[FAMILY] = EXTENDED if self._extended else CASCADING
        return log_prob_of_state(state, self.alpha, self.gamma, 1.0)

    def _possible(self, dag: Dag) -> bool:
        """Whether every unit has a child in the layer just below, and none where it may not have one."""
        layers = _layers(dag)
        if layers is None:
            return False
        steps = np.where(dag.edges, layers[:, None] - layers[None, :], 1)  # 1, as it should be, where there is no edge
        near = (dag.edges & (steps == 1)).any(axis=1)
        return bool(near[dag.n_observed :].all() and (steps >= 1 if self._extended else steps == 1).all())


@dataclass(frozen=True, slots=True)
class CascadingBuffet(_Cascade):
    """The cascading Indian buffet process: hidden units in layers, edges from each layer to the one below it.

    The units of layer l are the customers of an Indian buffet whose dishes are the units of layer l+1. It ends with
    the first layer that takes nothing, at the latest with layer 40. The order of a unit says its layer: it is uniform
    in [1 − 2^−l, 1 − 2^−(l+1)), and `layer` reads it back. The density, with respect to Lebesgue measure on the sorted
    orders of the hidden nodes, is

    f(Z, θ) = exp(−αγ Σ_{l<40} Σ_{j<K_l} 1/(α+j)) Π_k αγ B(m_k, α+K_(l−1)−m_k) 2^(l+1)

    over units k of layers l ≥ 1, with m_k children, and K_l the units of layer l. Here `alpha` is the concentration and
    `gamma` the mass (the expected number of parents of a unit), in the original β and α.

    Reference: R. Adams, H. Wallach, Z. Ghahramani, Learning the structure of deep sparse graphical models, 2010.

    >>> buffet = CascadingBuffet(alpha=1.0, gamma=1.0)
    >>> dag = buffet.sample(np.random.default_rng(2), observed=3)
    >>> layer(dag).tolist()
    [0, 0, 0, 1, 2]
    """

    _extended = False


@dataclass(frozen=True, slots=True)
class ExtendedBuffet(_Cascade):
    """The cascading buffet with edges that skip layers.

    Given its m children among the K units of the layer below, the popularity of a unit is Beta(m, α+K−m); with this
    probability, integrated out, it is a parent of each node of the layers further down as well. So the density is that
    of `CascadingBuffet` with α+T_l−m_k in the place of α+K_(l−1)−m_k, m_k all children of a unit and T_l all nodes in
    layers below l; every unit has a child in the layer just below.

    This is our understanding of a paper that we have not read: P. Dallaire, P. Giguère, B. Chaib-draa, Learning the
    structure of probabilistic graphical models with an extended cascading Indian buffet process, AAAI 2014.

    >>> buffet = ExtendedBuffet(alpha=1.0, gamma=1.0)
    >>> buffet.sample(np.random.default_rng(0), observed=3).n_observed
    3
    """

    _extended = True


def layer(dag: Dag) -> IntArray:
    """The layer of each node of a graph that a buffet could have drawn: 0 for observed nodes.

    >>> layer(Dag([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [0.0, 0.6, 0.8], n_observed=1)).tolist()
    [0, 1, 2]
    """
    if (checked_dag(dag).order == (np.arange(dag.n_nodes) >= dag.n_observed)).all():
        return dag.order.astype(np.int64)  # the Indian buffet: observed nodes at 0, hidden ones at 1
    layers = _layers(dag)
    if layers is None:
        raise ValueError(
            "dag is not layered: observed nodes must be at order 0, hidden ones all at 1 or within [1/2, 1 − 2^−41)"
        )
    return layers


def _layers(dag: Dag) -> IntArray | None:
    """The layers of a cascade, or None where the orders are not those of one."""
    from chefs._core.layers import MOST_LAYERS, cascade_floor

    hidden = dag.order[dag.n_observed :]
    if dag.order[: dag.n_observed].any() or not ((hidden >= 0.5) & (hidden < cascade_floor(MOST_LAYERS + 1))).all():
        return None
    fraction, exponent = np.frexp(1.0 - dag.order)  # 1 − order lies in (2^−(l+1), 2^−l]
    return (fraction == 0.5).astype(np.int64) - exponent


def n_customers(observed: Observed) -> int:
    """Number of observed nodes, all of which are at order 0 or free."""
    orders = observed_orders(observed)
    if (orders > 0).any():
        raise ValueError(f"the buffet has its observed nodes at order 0; found {orders[orders > 0][0]:g} in observed")
    return orders.size
