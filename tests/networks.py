"""Small networks with known weights, what quadrature says of them, and models that hold them as their posterior."""

import numpy as np
from scipy import special, stats

from chefs import Draw, Trace
from chefs._core.walks import network_of
from chefs.draws import ChainDraws

GRID = np.linspace(-8.5, 8.5, 20_001)


def one_unit(rng, d, precision=8.0, unit_precision=0.3):
    """A draw: one hidden unit above `d` observed nodes."""
    order = np.append(np.zeros(d), 0.5)
    weight = rng.uniform(1.0, 3.0, d) * rng.choice([-1, 1], d)
    rho = np.append(precision * rng.uniform(0.5, 2.0, d), unit_precision)
    parent, child = np.full(d, d, dtype=np.int32), np.arange(d, dtype=np.int32)
    numbers = {"bias": rng.normal(size=d + 1), "precision": rho}
    return Draw(order, parent, child, {"log_prob": 0.0}, numbers, {"weight": weight})


def crossing(rng):
    """A draw in which an observed node is the parent of a hidden unit, and both are parents of other observed nodes."""
    order = np.array([0.0, 0.9, 0.3, 0.6, 1.0])  # three observed nodes, two hidden units
    parent = np.array([1, 3, 1, 4, 3, 2, 4], dtype=np.int32)
    child = np.array([3, 0, 0, 1, 2, 0, 3], dtype=np.int32)
    numbers = {"bias": rng.normal(size=5), "precision": rng.uniform(0.5, 3.0, 5)}
    return Draw(order, parent, child, {"log_prob": 0.0}, numbers, {"weight": 2 * rng.normal(size=7)})


def network(draw, n_observed):
    return network_of(
        draw.order, draw.parent, draw.child, draw.edge["weight"], draw.node["bias"], draw.node["precision"], n_observed
    )


def posterior(draw, row):
    """Of `one_unit`: log p(what is seen of the row), outputs u on a grid, and the weights of the grid given it."""
    d = draw.order.size - 1
    bias, rho, weight = draw.node["bias"], draw.node["precision"], draw.edge["weight"]
    u = special.expit(bias[d] + GRID / np.sqrt(rho[d]))
    logs = stats.norm.logpdf(GRID) + np.log(GRID[1] - GRID[0])
    for i in np.flatnonzero(~np.isnan(row)):
        logs = logs + stats.norm.logpdf(row[i], bias[i] + weight[i] * u, rho[i] ** -0.5)
    total = special.logsumexp(logs)
    return total, u, np.exp(logs - total)


def model_of(draws, mean, sd, n_observed=None):
    """A fitted `SigmoidNetwork` whose posterior is these draws."""
    from chefs import SigmoidNetwork

    n = len(mean) if n_observed is None else n_observed
    model = SigmoidNetwork(n_jobs=1)
    model.trace_ = Trace([ChainDraws.from_draws(n, [draw]) for draw in draws])
    model.mean_, model.scale_ = np.asarray(mean, float), np.asarray(sd, float)
    model.n_features_in_, model._training = n, None
    return model
