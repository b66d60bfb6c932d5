"""The building blocks of the generators have the laws they claim, and draw the same with the JIT on and off."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, comb, digamma

from chefs._core import generate, restaurant
from chefs._core.jit import COMPILED
from tests.core.digest import digest
from tests.helpers import packed

N_DRAWS = 20_000


def fits(found, probabilities):
    """χ² of counts against probabilities; cells of little expectation are put together."""
    expected = probabilities / probabilities.sum() * len(found)
    counts = np.bincount(found, minlength=expected.size)
    assert counts.size == expected.size
    small = expected < 5
    counts = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    keep = expected > 0
    assert counts[~keep].sum() == 0
    return stats.chisquare(counts[keep], expected[keep]).pvalue if keep.sum() > 1 else 1.0


@pytest.mark.skipif(not COMPILED, reason="numba is not installed")
@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="the JIT is off already")
def test_the_same_seed_gives_the_same_draws_without_the_jit():
    run = subprocess.run(
        [sys.executable, "-m", "tests.core.digest"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    kind, *interpreted = run.stdout.split()
    assert kind == "interpreted"
    assert hasattr(generate.sweep, "py_func")
    assert interpreted == digest()
    assert len(set(interpreted)) == len(interpreted)


@pytest.mark.parametrize("alpha", [0.01, 1.0, 40.0])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_children_of_a_hidden_node(n, alpha):
    rng = np.random.default_rng(n)
    harmonic = digamma(alpha + n) - digamma(alpha)
    found = [generate.n_children_hidden(rng, n, alpha, harmonic) for _ in range(N_DRAWS)]
    m = np.arange(1, n + 1)
    weights = comb(n, m) * np.exp(betaln(m, alpha + n - m))
    assert weights.sum() == pytest.approx(harmonic)
    assert min(found) >= 1
    assert fits(np.array(found), np.append(0.0, weights)) > 1e-4


@pytest.mark.parametrize("n,head,tail", [(0, 1.0, 1.0), (1, 0.3, 2.0), (7, 1.0, 1.0), (7, 0.02, 30.0), (9, 50.0, 0.1)])
@pytest.mark.parametrize("by_urn", [False, True])
def test_children_of_an_observed_node(n, head, tail, by_urn):
    """Beta-Binomial, both by inversion and by the urn that takes over where P(m = 0) is next to nothing."""
    rng = np.random.default_rng(n)
    law = stats.betabinom(n, head, tail)
    none = 0.0 if by_urn else float(law.pmf(0))
    found = [int(generate.n_children_binomial(rng, n, head, tail, none)) for _ in range(N_DRAWS)]
    assert fits(np.array(found), law.pmf(np.arange(n + 1))) > 1e-4


def test_children_are_chosen_uniformly():
    rng = np.random.default_rng(0)
    placed = np.array([7, 3, 5, 0, 9], dtype=np.int32)
    chosen = np.zeros(10, dtype=bool)
    parent, child = np.zeros(3, dtype=np.int32), np.zeros(3, dtype=np.int32)
    sets = {}
    for _ in range(N_DRAWS):
        assert generate.connect(rng, 4, 2, 4, placed, chosen, parent, child, 1) == 3
        assert parent.tolist() == [0, 4, 4]
        assert not chosen.any()
        pair = frozenset(child[1:].tolist())
        sets[pair] = sets.get(pair, 0) + 1
    assert set().union(*sets) == {7, 3, 5, 0}
    assert sorted(map(len, sets)) == [2] * 6
    assert stats.chisquare(list(sets.values())).pvalue > 1e-4


def test_fitted_keeps_what_is_there():
    array = np.arange(1.0, 4.0)
    assert generate.fitted(array, 3) is array or (generate.fitted(array, 3) == array).all()
    for needed in (4, 6, 50):
        longer = generate.fitted(array, needed)
        assert longer.size >= needed
        assert longer[:3].tolist() == [1.0, 2.0, 3.0]
        assert not longer[3:].any()


def test_free_orders_are_drawn_and_given_ones_kept():
    given = np.array([0.5, np.nan, 0.5, 0.0, np.nan])
    orders, ranking = np.zeros(5), np.zeros(5, dtype=np.int64)
    rng = np.random.default_rng(0)
    free = []
    for _ in range(2000):
        generate.draw_orders(rng, given, orders, 0, ranking)
        assert orders[[0, 2, 3]].tolist() == [0.5, 0.5, 0.0]
        assert (np.diff(orders[ranking]) >= 0).all()
        assert ranking.tolist().index(0) < ranking.tolist().index(2)
        free.extend(orders[[1, 4]])
    assert stats.kstest(free, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("n", [1, 5, 32, 33, 200])
def test_few_and_many_nodes_are_ranked_alike(n):
    rng = np.random.default_rng(n)
    given = rng.integers(0, 10, n) / 10  # many ties: equal orders keep their numbers' order
    orders, ranking = np.zeros(n), np.zeros(n, dtype=np.int64)
    generate.draw_orders(rng, given, orders, 0, ranking)
    assert ranking.tolist() == sorted(range(n), key=lambda i: given[i])


def test_served_chefs_below():
    state = packed(set(), [0.0, 0.5, 0.5, 1.0], 4, (1.0, 1.0, 1.0))
    served = np.array([True, True, False, True, True, True, True, True])
    counts = [restaurant.n_served_below(state, served, height) for height in (0.0, 0.5, 0.6, 1.0)]
    assert counts == [0, 1, 2, 2]
