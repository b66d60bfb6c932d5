"""Obvious pure-Python twins of the compiled kernels: the reference that they are tested and timed against.

Nothing here is clever and nothing here is to be made fast. A graph is a set of edges (parent, child), a list of
orders, and the number of observed nodes, which come first.
"""

import math
import random


def n_below(order, k):
    return sum(1 for other in order if other < order[k])


def n_children(edges, k):
    return sum(1 for parent, _ in edges if parent == k)


def log_rising(x, n):
    return sum(math.log(x + i) for i in range(n))


def log_prob(edges, order, n_observed, alpha, gamma, phi):
    """Eq. 9 of the paper without its 1/K⁺!, term by term."""
    if any(not order[k] > order[i] for k, i in edges):
        return -math.inf
    total = 0.0
    heights = [*sorted(order), 1.0]
    for j in range(1, len(order) + 1):
        gap = heights[j] - heights[j - 1]
        total -= alpha * gamma * gap * sum(1 / (alpha + i) for i in range(j))
    for k in range(len(order)):
        m, below = n_children(edges, k), n_below(order, k)
        if k < n_observed:
            total += log_rising(phi, m) + log_rising(alpha, below - m) - log_rising(alpha + phi, below)
        elif m == 0:
            return -math.inf
        else:
            total += math.log(alpha * gamma) + math.lgamma(m) - log_rising(alpha + below - m, m)
    return total


def sweep(rng: random.Random, observed, alpha, gamma, phi):
    """One exact draw: walk upwards, wait for hidden nodes, insert the observed ones at their orders."""
    order = [rng.random() if math.isnan(o) else o for o in observed]
    n_observed = len(order)
    edges = set()
    placed = []
    theta = 0.0
    for star in sorted(range(n_observed), key=lambda i: order[i]):
        theta = _hidden_until(rng, theta, order[star], order, placed, edges, alpha, gamma)
        below = [i for i in placed if order[i] < order[star]]
        pi = rng.betavariate(phi, alpha)
        edges.update((star, i) for i in below if rng.random() < pi)
        placed.append(star)
    _hidden_until(rng, theta, 1.0, order, placed, edges, alpha, gamma)
    return edges, order, n_observed


def _hidden_until(rng, theta, end, order, placed, edges, alpha, gamma):
    while placed:
        n = len(placed)
        theta += rng.expovariate(alpha * gamma * sum(1 / (alpha + i) for i in range(n)))
        if theta >= end:
            break
        weights = [
            math.exp(
                math.lgamma(n + 1)
                - math.lgamma(n - m + 1)
                - math.log(m)
                + math.lgamma(alpha + n - m)
                - math.lgamma(alpha + n)
            )
            for m in range(1, n + 1)
        ]
        m = rng.choices(range(1, n + 1), weights)[0]
        order.append(theta)
        edges.update((len(order) - 1, i) for i in rng.sample(placed, m))
        placed.append(len(order) - 1)
    return end


def finite(rng: random.Random, observed, alpha, gamma, phi, K):
    """Section 2 of the paper, literally: all K nodes, the whole matrix, then the active part."""
    n_observed = len(observed)
    order = [rng.random() if i >= n_observed or math.isnan(observed[i]) else observed[i] for i in range(K)]
    mass = alpha * gamma / K
    edges = set()
    for k in range(K):
        pi = rng.betavariate(mass + phi * (k < n_observed), alpha - mass)
        edges.update((k, i) for i in range(K) if order[k] > order[i] and rng.random() < pi)
    active = set(range(n_observed))
    grew = True
    while grew:
        more = {k for k, i in edges if i in active} - active
        active |= more
        grew = bool(more)
    kept = sorted(active)
    name = {k: new for new, k in enumerate(kept)}
    return (
        {(name[k], name[i]) for k, i in edges if k in active and i in active},
        [order[k] for k in kept],
        n_observed,
    )


def chain(rng: random.Random, graph, alpha, gamma, phi, n_moves):
    """The paper's sampler with the whole density in every ratio. `graph` is (edges, order, n_observed, fixed)."""
    edges, order, n_observed, fixed = graph
    edges, order = set(edges), list(order)

    def density(some_edges, some_order):
        return log_prob(some_edges, some_order, n_observed, alpha, gamma, phi)

    for _ in range(n_moves):
        n = len(order)
        i = rng.randrange(n)
        above = sorted(order[k] for k in range(n) if order[k] > order[i])
        move = rng.randrange(4)
        if move == 0 and above:
            k = rng.choice([k for k in range(n) if order[k] > order[i]])
            flipped = edges ^ {(k, i)}
            if math.log(1 - rng.random()) < density(flipped, order) - density(edges, order):
                edges = flipped
        elif move == 1:
            orphans = _singleton_orphans(edges, n, n_observed, i)
            cuts = [order[i], *above, 1.0]
            j = rng.randrange(len(cuts) - 1)
            new_order = [*order, rng.uniform(cuts[j], cuts[j + 1])]
            factor = (cuts[j + 1] - cuts[j]) * (len(above) + 1) * n / ((len(orphans) + 1) * (n + 1))
            if factor > 0 and new_order[-1] > order[i]:
                ratio = density(edges | {(n, i)}, new_order) - density(edges, order) + math.log(factor)
                if math.log(1 - rng.random()) < ratio:
                    edges, order = edges | {(n, i)}, new_order
        elif move == 2:
            orphans = _singleton_orphans(edges, n, n_observed, i)
            if orphans:
                k = rng.choice(orphans)
                rest = sorted([*(order[j] for j in range(n) if j != k), 0.0, 1.0])
                high = next(t for t in rest if t > order[k])
                low = max(order[i], max(t for t in rest if t <= order[k]))
                factor = len(orphans) * n / ((high - low) * (n - 1) * len(above))
                new_order = order[:k] + order[k + 1 :]
                new_edges = {(a - (a > k), b - (b > k)) for a, b in edges if a != k}
                ratio = density(new_edges, new_order) - density(edges, order) + math.log(factor)
                if math.log(1 - rng.random()) < ratio:
                    edges, order = new_edges, new_order
        elif move == 3 and not (i < n_observed and fixed[i]):
            low = max([order[c] for p, c in edges if p == i], default=0.0)
            high = min([order[p] for p, c in edges if c == i], default=1.0)
            new_order = list(order)
            new_order[i] = rng.uniform(low, high)
            if math.log(1 - rng.random()) < density(edges, new_order) - density(edges, order):
                order = new_order
    return edges, order, n_observed


def _singleton_orphans(edges, n, n_observed, i):
    return [
        k
        for k in range(n_observed, n)
        if (k, i) in edges and n_children(edges, k) == 1 and not any(child == k for _, child in edges)
    ]
