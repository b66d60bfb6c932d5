"""Buffets: priors over layered graphs, with the same protocol as the Indian Chefs Process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import overload

import numpy as np

from chefs.dag import Dag, checked_dag
from chefs.dags import Dags
from chefs.prior import Observed, as_dags, checked_rng, checked_size, observed_orders, positive


@dataclass(frozen=True, slots=True)
class IndianBuffet:
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
        from chefs._core.generate import buffet

        n, count = _n_customers(observed), checked_size(size)
        return as_dags(buffet(checked_rng(rng), n, self.alpha, self.gamma, count), n, size)

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
        n = _n_customers(observed)
        return n + self.alpha * self.gamma * float((1.0 / (self.alpha + np.arange(n))).sum())

    def expected_edges(self, observed: Observed) -> float:
        """Expected number of edges: each observed node has `gamma` parents in the mean."""
        return self.gamma * _n_customers(observed)


def _n_customers(observed: Observed) -> int:
    """Number of observed nodes, all of which are at order 0 or free."""
    orders = observed_orders(observed)
    if (orders > 0).any():
        raise ValueError(f"the buffet has its observed nodes at order 0; found {orders[orders > 0][0]:g} in observed")
    return orders.size
