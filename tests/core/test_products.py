"""Products of few rows and many points are those of NumPy, whatever the numbers of rows and points."""

import numpy as np
import pytest

from chefs._core.jit import COMPILED
from chefs._core.products import BLOCK, add_inner, add_product, copy_block, inner_products, padded, tile_for

SIZES = [(1, 1, 1), (2, 1, 7), (4, 4, BLOCK), (5, 3, BLOCK + 1), (9, 8, 3 * BLOCK - 1), (42, 41, 2 * BLOCK)]


@pytest.mark.parametrize("n, n_rows, n_points", SIZES)
def test_inner_products_are_those_of_numpy(n, n_rows, n_points):
    rng = np.random.default_rng(1)
    u, a = rng.normal(size=(n_rows, n_points)), rng.normal(size=(n, n_points))
    uu, ua = inner_products(u, a)
    np.testing.assert_allclose(uu, u @ u.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(ua, u @ a.T, rtol=1e-10, atol=1e-10)
    assert np.array_equal(uu, uu.T)


def test_rows_of_a_larger_array_are_taken_as_they_are():
    rng = np.random.default_rng(2)
    u, a = rng.normal(size=(6, 300))[:5], rng.normal(size=(8, 300))[:3]
    np.testing.assert_allclose(inner_products(u, a)[1], u @ a.T, rtol=1e-10)


@pytest.mark.parametrize("n, n_rows, n_points", SIZES)
@pytest.mark.parametrize("density", [0.1, 0.5, 1.0])
def test_a_product_is_added_and_nothing_beyond_the_points_is_touched(n, n_rows, n_points, density):
    rng = np.random.default_rng(3)
    w = rng.normal(size=(n, n_rows)) * (rng.random((n, n_rows)) < density)
    u, before = rng.normal(size=(n_rows, n_points)), rng.normal(size=(n, n_points))
    size = min(n_points, BLOCK)
    tile, out = tile_for(n_rows), tile_for(n)
    copy_block(tile, u, n_points - size, size)
    copy_block(out, before, n_points - size, size)
    out[:, size:] = 7.0
    add_product(out, padded(w), tile, size)
    expected = before[:, n_points - size :] + w @ u[:, n_points - size :]
    np.testing.assert_allclose(out[:n, :size], expected, rtol=1e-10, atol=1e-10)
    assert (out[:, size:] == 7.0).all()


def test_tiles_that_are_zero_cost_nothing_even_times_infinity():
    tile, out = tile_for(8), tile_for(4)
    tile[4:] = np.inf
    w = np.zeros((4, 8))
    w[:, :4] = 1.0
    add_product(out, w, tile, 10)
    assert np.isfinite(out).all()


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled here")
@pytest.mark.parametrize("size", [1, 20, BLOCK])
def test_plain_python_has_the_same_sums_to_rounding(size):
    rng = np.random.default_rng(4)
    tiles = [rng.normal(size=(8, BLOCK)) for _ in range(2)]
    found = []
    for add_in, add in ((add_inner, add_product), (add_inner.py_func, add_product.py_func)):
        sums, products = np.zeros((8, 8)), np.zeros((8, BLOCK))
        add_in(sums, *tiles, size, False)
        add(products, sums, tiles[0], size)
        found.append((sums, products))
    for ours, theirs in zip(*found, strict=True):
        assert ours.any()
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)
