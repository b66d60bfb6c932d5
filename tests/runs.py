"""Small runs for the tests of sampling, storage and faults."""

import math

import numpy as np

import chefs

PRIOR = chefs.ChefsProcess(1.0, 1.5, 1.0)
OBSERVED = [0.0, 0.3, math.nan]


def skewed(dag):
    """A likelihood with a preference."""
    return 1.5 * dag.edges[1, 0] - 0.4 * dag.n_edges + 0.2 * dag.n_hidden


def prior_kernel(**options):
    return chefs.PriorKernel(PRIOR, OBSERVED, **{"n_moves": 20, **options})


def likelihood_kernel(function=skewed, **options):
    return chefs.LikelihoodKernel(PRIOR, OBSERVED, function, **{"n_moves": 5, "max_hidden": 6, **options})


def same_draws(a, b):
    """Whether two traces hold the same draws, bit for bit."""
    assert a.n_chains == b.n_chains
    for x, y in zip(a.chains, b.chains, strict=True):
        assert x.dags.n_observed == y.dags.n_observed
        for name in ("n_nodes", "n_edges", "order", "parent", "child"):
            np.testing.assert_array_equal(getattr(x.dags, name), getattr(y.dags, name))
        for kind in ("scalars", "node", "edge"):
            ours, theirs = getattr(x, kind), getattr(y, kind)
            assert set(ours) == set(theirs)
            for name in ours:
                np.testing.assert_array_equal(ours[name], theirs[name])
    return True


def is_prefix(part, whole):
    """Whether each chain of `part` is the beginning of that of `whole`, bit for bit."""
    for c, chain in enumerate(part.chains):
        if len(chain):
            same_draws(part[c], whole[c, : len(chain)])
    return part.n_chains == whole.n_chains
