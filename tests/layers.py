"""Obvious twins of the buffets, and their graphs in the forms that laws and kernels take."""

import itertools
import math

import numpy as np

from chefs import Dag, Dags
from chefs._core.state import BUFFET, CASCADING, EXTENDED, FAMILY, NO_LIMIT, pack
from chefs.buffets import CascadingBuffet, ExtendedBuffet, IndianBuffet
from chefs.dags import starts

NUMBER = {IndianBuffet: BUFFET, CascadingBuffet: CASCADING, ExtendedBuffet: EXTENDED}
FAMILIES = {"buffet": IndianBuffet, "cascading": CascadingBuffet, "extended": ExtendedBuffet}


def floor(level):
    return 1 - 0.5**level


def layers_of(order):
    """The layer of each order, by looking for it; 1 is the layer of the Indian buffet's dishes."""
    return [1 if x == 1 else next(level for level in itertools.count() if x < floor(level + 1)) for x in order]


def log_density(kind, edges, layers, n_observed, alpha, gamma, most_layers=40):
    """The density of a layered graph, term by term, with the lengths of layers left out: as if each had length one.

    Dishes of the Indian buffet count as if they could be told apart.
    """
    sizes = [layers.count(level) for level in range(max(layers) + 2)]
    customers = sizes[:1] if kind is IndianBuffet else sizes[:most_layers]
    total = -alpha * gamma * sum(1 / (alpha + j) for size in customers for j in range(size))
    for k in range(n_observed, len(layers)):
        children = [i for parent, i in edges if parent == k]
        steps = [layers[k] - layers[i] for i in children]
        if 1 not in steps or min(steps) < 1 or (kind is not ExtendedBuffet and max(steps) > 1):
            return -math.inf
        m, below = len(children), sizes[layers[k] - 1]
        if kind is ExtendedBuffet:
            below = sum(sizes[: layers[k]])
        total += math.log(alpha * gamma) + math.lgamma(m) - sum(math.log(alpha + below - m + j) for j in range(m))
    return total


def literal(rng, kind, n, alpha, gamma):
    """Customers one after another: each takes dish k with probability η_k / (j+α), and Poisson(αγ / (j+α)) new ones."""
    layers, edges, first = [0] * n, [], 0
    for level in range(1, 2 if kind is IndianBuffet else 41):
        guests = [i for i, at in enumerate(layers) if at == level - 1]
        taken = []
        for j, guest in enumerate(guests):
            for dish in taken:
                if rng.random() < len(dish) / (alpha + j):
                    dish.append(guest)
            taken += [[guest] for _ in range(rng.poisson(alpha * gamma / (alpha + j)))]
        for dish in taken:
            popularity = rng.beta(len(dish), alpha + len(guests) - len(dish)) if kind is ExtendedBuffet else 0.0
            dish += [i for i in range(first) if rng.random() < popularity]
            edges += [(len(layers), i) for i in dish]
            layers.append(level)
        first += len(guests)
    matrix = np.zeros((len(layers), len(layers)), dtype=bool)
    for k, i in edges:
        matrix[k, i] = True
    order = [1.0 if kind is IndianBuffet else floor(at) + rng.random() * 0.5 ** (at + 1) for at in layers[n:]]
    return Dag(matrix, [0.0] * n + order, n)


def state_of(dag, prior, max_hidden=NO_LIMIT):
    """A compiled state of this family."""
    parents, children = np.ascontiguousarray(np.argwhere(dag.edges).T)
    bottom = np.zeros(dag.n_observed)
    locked = np.zeros((dag.n_observed, dag.n_observed), dtype=bool)
    hyper = np.array([prior.alpha, prior.gamma, 1.0])
    state = pack(dag.order.copy(), parents, children, bottom, bottom, locked, hyper, max_hidden)
    state.size[FAMILY] = NUMBER[type(prior)]
    return state


def gathered(graphs, n_observed):
    """(order, parent, child) of many graphs as `Dags`."""
    orders, parents, children = zip(*graphs, strict=True)
    return Dags(
        n_observed,
        starts(np.array([order.size for order in orders])),
        starts(np.array([parent.size for parent in parents])),
        *(np.concatenate(part) for part in (orders, parents, children)),
    )


def flat_layers(dags):
    """Layers of all nodes of many graphs, end to end."""
    order = np.where(dags.order == 1, 0.5, dags.order)
    return np.floor(-np.log2(1 - order)).astype(int)


def size_law(kind, n, alpha, gamma, most=120, most_layers=40):
    """Exactly: P(number of hidden units), and P(number of layers), from the Markov chain of layer sizes."""
    widest = min(most, 60) + 1
    harmonic = np.cumsum([0.0, *(1 / (alpha + j) for j in range(max(widest, n + 1)))])
    log_factorial = np.array([math.lgamma(k + 1) for k in range(widest)])

    def next_sizes(size):
        rate = alpha * gamma * harmonic[size]
        return np.exp(np.arange(widest) * math.log(rate) - rate - log_factorial) if size else np.eye(1, widest)[0]

    now = np.zeros((max(widest, n + 1), most + 1))  # P(size of this layer, units so far)
    now[n, 0] = 1.0
    total, depth = np.zeros(most + 1), []
    for _ in range(1 if kind is IndianBuffet else most_layers):
        new = np.zeros_like(now)
        for size in np.flatnonzero(now.sum(axis=1)):
            for more, p in enumerate(next_sizes(size)):
                if more <= most:
                    new[more, more:] += p * now[size, : most + 1 - more]
        total += new[0]
        depth.append(new[0].sum())
        new[0] = 0.0
        now = new
    return total + now.sum(axis=0), np.array([*depth, now.sum()])


def structures(kind, n_observed, sizes):
    """Every graph with these numbers of units in its layers: (edges, layers); units of a layer can be told apart."""
    layers = [0] * n_observed + [level for level, size in enumerate(sizes, 1) for _ in range(size)]
    choices = []
    for k in range(n_observed, len(layers)):
        near = [i for i in range(len(layers)) if layers[i] == layers[k] - 1]
        far = [i for i in range(len(layers)) if layers[i] < layers[k] - 1] if kind is ExtendedBuffet else []
        choices.append([a + b for a in nonempty(near) for b in (*nonempty(far), ())])
    for chosen in itertools.product(*choices):
        yield {(n_observed + k, i) for k, children in enumerate(chosen) for i in children}, layers


def nonempty(items):
    return [s for size in range(1, len(items) + 1) for s in itertools.combinations(items, size)]


def dag_of(edges, layers, n_observed, kind, fractions=None):
    """The graph, with its units in the given fractions of their layers; by default in ascending order."""
    if fractions is None:
        fractions = (np.arange(len(layers)) + 0.5) / len(layers)
    order = [
        0.0 if k < n_observed else 1.0 if kind is IndianBuffet else floor(at) + x * 0.5 ** (at + 1)
        for k, (at, x) in enumerate(zip(layers, fractions, strict=True))
    ]
    matrix = np.zeros((len(layers), len(layers)), dtype=bool)
    for k, i in edges:
        matrix[k, i] = True
    return Dag(matrix, order, n_observed)
