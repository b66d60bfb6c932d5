"""What the posterior says about points: fantasies, densities, and what is hidden or missing given what is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import joblib
import numpy as np

from chefs.dag import FloatArray, IntArray
from chefs.sampling import check_jobs
from chefs.trace import Trace

if TYPE_CHECKING:
    from chefs._core.walks import Network

LEAST_WEIGHED = 100  # networks that a new row chooses among, where there are as many
FEW_DIMENSIONS = 4  # columns below others, up to which plain walks meet a point often enough
Method = Literal["auto", "walks", "annealed"]


class Effort(NamedTuple):
    """How much work an estimate is worth: draws of the posterior, walks a draw, temperatures a walk."""

    n_draws: int
    n_walks: int
    n_temperatures: int

    def times(self, factor: int) -> Effort:
        """So many times the walks or, where they are annealed, draws and temperatures."""
        if self.n_temperatures == 1:
            return self._replace(n_walks=self.n_walks * factor)
        return self._replace(n_draws=self.n_draws * factor, n_temperatures=self.n_temperatures * factor)

    @property
    def powers(self) -> FloatArray:
        """Powers of the likelihood from 0 to 1, close together near 0 where the walks change most."""
        return np.linspace(0.0, 1.0, self.n_temperatures + 1) ** 3


DENSITY = {"walks": Effort(100, 200, 1), "annealed": Effort(25, 1, 500)}
CONDITIONAL = {"walks": Effort(100, 200, 1), "annealed": Effort(25, 4, 100)}


def checked_method(method: str, trace: Trace) -> Literal["walks", "annealed"]:
    """Which way to estimate, "auto" settled by the number of columns that have a parent in any draw.

    A column without parents, such as the input of a regression, is not what a walk must come near.
    """
    if method not in ("auto", "walks", "annealed"):
        raise ValueError(f"method must be 'auto', 'walks' or 'annealed'; found {method!r}")
    if method == "auto":
        below = [chain.dags.child[chain.dags.child < trace.n_observed] for chain in trace.chains]
        return "walks" if np.unique(np.concatenate(below)).size <= FEW_DIMENSIONS else "annealed"
    return "walks" if method == "walks" else "annealed"


def spread(trace: Trace, n: int) -> IntArray:
    """Numbers of `n` draws, equally many of each chain and spread evenly over it; where it has fewer, some come again.

    Chains count alike however many draws they have: where minutes end a run, those with small networks have more.
    """
    lengths = np.array([len(chain) for chain in trace.chains])
    firsts, lengths = (np.cumsum(lengths) - lengths)[lengths > 0], lengths[lengths > 0]
    chain, place = np.divmod((np.arange(n) + 0.5) / n * len(lengths), 1.0)
    chain = chain.astype(np.int64)
    return firsts[chain] + (place * lengths[chain]).astype(np.int64)


def networks(trace: Trace, numbers: Iterable[int]) -> list[Network]:
    """The networks of the draws with these numbers, counted through all chains."""
    from chefs._core.walks import network_of

    ends = np.cumsum([len(chain) for chain in trace.chains])
    found = []
    for number in numbers:
        c = int(np.searchsorted(ends, number, side="right"))
        chain, d = trace.chains[c], number - (ends[c] - len(trace.chains[c]))
        nodes = slice(chain.dags.node_start[d], chain.dags.node_start[d + 1])
        edges = slice(chain.dags.edge_start[d], chain.dags.edge_start[d + 1])
        graph = chain.dags.order[nodes], chain.dags.parent[edges], chain.dags.child[edges]
        numbers_of_nodes = chain.node["bias"][nodes], chain.node["precision"][nodes]
        found.append(network_of(*graph, chain.edge["weight"][edges], *numbers_of_nodes, trace.n_observed))
    return found


def fantasies(rng: np.random.Generator, trace: Trace, n: int) -> FloatArray:
    """`n` points on the scale of z, each from a draw of the posterior, equally many from each chain.

    No draw is used twice before all of its chain are once.
    """
    from chefs._core.walks import log_likelihood_of, new_place

    lengths = [len(chain) for chain in trace.chains if len(chain)]
    share, rest = divmod(n, len(lengths))
    shares = share + (rng.permutation(len(lengths)) < rest)
    firsts = np.cumsum([0, *lengths[:-1]])  # chains without draws have no numbers
    parts = [first + _each_once(rng, *of) for first, *of in zip(firsts, lengths, shares, strict=True)]
    numbers = rng.permutation(np.concatenate(parts))
    points, nothing = np.empty((n, trace.n_observed)), np.full((1, trace.n_observed), np.nan)
    for draw in np.unique(numbers):
        (net,) = networks(trace, [draw])
        place = new_place(net)
        for t in np.flatnonzero(numbers == draw):
            log_likelihood_of(net, place, nothing, rng.standard_normal(net.sequence.size))
            points[t] = place.a[: trace.n_observed]
    return points


def _each_once(rng: np.random.Generator, length: int, n: int) -> IntArray:
    """`n` numbers below `length` in random sequence, none twice before all are once."""
    return np.concatenate([rng.permutation(length) for _ in range(-(-n // length))] or [np.empty(0, np.int64)])[:n]


def log_density(trace: Trace, z: FloatArray, method: Method, times: int, seed: int, n_jobs: int | None) -> FloatArray:
    """Log of the mean over draws of estimates of p(z | draw), missing entries left out; `times` the usual effort."""
    from chefs._core.annealing import given
    from chefs._core.walks import log_mean_weights

    effort = DENSITY[checked_method(method, trace)].times(times)
    nets = networks(trace, spread(trace, effort.n_draws))

    def one(net: Network, rng: np.random.Generator) -> FloatArray:
        n = net.sequence.size
        if effort.n_temperatures == 1:
            return log_mean_weights(net, z, rng.standard_normal((effort.n_walks, n)))
        return given(net, z, effort.powers, *_noise(rng, n, (effort.n_walks, effort.n_temperatures), len(z)))[0]

    return log_mean(np.array(_each(one, nets, np.random.default_rng(seed), n_jobs)))


def mean_outputs(trace: Trace, number: int, z: FloatArray) -> FloatArray:
    """(rows, hidden units): mean outputs given each row, in the network of one draw."""
    from chefs._core.annealing import given

    (net,) = networks(trace, [number])
    effort = CONDITIONAL[checked_method("auto", trace)]
    shape = 5 * effort.n_walks, effort.n_temperatures  # one network alone can have more
    noise = _noise(np.random.default_rng(0), net.sequence.size, shape, len(z))
    return given(net, z, effort.powers, *noise)[2][:, trace.n_observed :]


def imputations(
    rng: np.random.Generator, trace: Trace, z: FloatArray, n: int, method: Method, new: bool, n_jobs: int | None
) -> FloatArray:
    """(n, rows, columns): draws of the missing entries of rows, and of all else; new rows choose their networks.

    Each is made for itself: where a row chooses one network again and again, its draws from that are independent.
    """
    from chefs._core.annealing import given_afresh

    effort = CONDITIONAL[checked_method(method, trace)]
    nets = networks(trace, spread(trace, max(n, LEAST_WEIGHED) if new else n))

    def seen(net: Network, rng: np.random.Generator) -> FloatArray:
        return given_afresh(rng, net, z, effort.powers, effort.n_walks)[0]

    if new:
        chosen = picked(rng, np.array(_each(seen, nets, rng, n_jobs)), n)
    else:
        chosen = np.repeat(np.arange(n)[:, None], len(z), axis=1)  # each network for all rows once
    wanted = [np.nonzero(chosen == number) for number in range(len(nets))]  # draws and rows that have chosen it

    def drawn(of: tuple[Network, IntArray], rng: np.random.Generator) -> FloatArray:
        net, rows = of
        return given_afresh(rng, net, z[rows], effort.powers, effort.n_walks)[1][:, : trace.n_observed]

    values = np.empty((n, *z.shape))
    used = [(net, *where) for net, where in zip(nets, wanted, strict=True) if where[0].size]
    found = _each(drawn, [(net, rows) for net, _, rows in used], rng, n_jobs)
    for (_, draws, rows), some in zip(used, found, strict=True):
        values[draws, rows] = some
    return values


def picked(rng: np.random.Generator, log_weights: FloatArray, n: int) -> IntArray:
    """(n, rows): numbers of networks for each row, drawn in proportion to the weights (networks, rows)."""
    log_weights = np.where(log_weights.max(axis=0) > -np.inf, log_weights, 0.0)  # too far off for all: all are equal
    total = np.cumsum(np.exp(log_weights - log_weights.max(axis=0)), axis=0)
    luck = rng.random((n, log_weights.shape[1])) * total[-1]
    return np.array([np.searchsorted(*column, side="right") for column in zip(total.T, luck.T, strict=True)]).T


def _each(
    work: Callable[[Any, np.random.Generator], Any], of: list, rng: np.random.Generator, n_jobs: int | None
) -> list:
    """`work` for every one, such as a network; the compiled kernels release the interpreter lock, so threads do."""
    check_jobs(n_jobs)
    jobs = zip(of, rng.spawn(len(of)), strict=True)
    at_once = min(joblib.cpu_count(), len(of)) if n_jobs is None else n_jobs
    return list(joblib.Parallel(n_jobs=at_once, prefer="threads")(joblib.delayed(work)(*job) for job in jobs))


def _noise(rng: np.random.Generator, n: int, shape: tuple[int, int], n_points: int) -> tuple[FloatArray, ...]:
    """What `given` takes, for a network of n nodes and a shape of (walks, temperatures)."""
    return rng.standard_normal((*shape, n + 1, 1)), rng.random((*shape, 4, 1)), rng.random((n_points, shape[0]))


def log_mean(logs: FloatArray) -> FloatArray:
    """Log of the mean of exp over the first axis."""
    top = logs.max(axis=0)
    top = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        return top + np.log(np.exp(logs - top).mean(axis=0))  # exactly 0 where all are
