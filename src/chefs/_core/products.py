"""Products of matrices with few rows and many points, four by four entries at a time.

Points are copied, a block at a time, to tiles: arrays whose number of rows is a multiple of four, where rows that
nothing is copied to are zero. A tile stays in the fast memory, and what is multiplied at once in the registers: a
general library of linear algebra is about half as fast where rows are so few.
"""

import numpy as np

from chefs._core.jit import jit, jit_loops, jit_sums

BLOCK = 256  # points: few enough for the fast memory
FOUR = 4  # rows that are multiplied at once


@jit
def tile_for(n_rows):
    """A tile of zeros with room for so many rows."""
    return np.zeros((-(-n_rows // FOUR) * FOUR, BLOCK))


@jit
def padded(matrix):
    """The matrix with zeros below and to the right, for numbers of rows and columns that are multiples of four."""
    n_rows, n_columns = matrix.shape
    larger = np.zeros((-(-n_rows // FOUR) * FOUR, -(-n_columns // FOUR) * FOUR))
    larger[:n_rows, :n_columns] = matrix
    return larger


@jit_loops
def copy_block(tile, rows, begin, size):
    """Copy `size` points of the rows, from `begin` on."""
    for k in range(rows.shape[0]):
        row = rows[k, begin : begin + size]
        for t in range(size):
            tile[k, t] = row[t]


@jit_loops
def add_product(out, w, u, size):
    """Add w u to `out`, for the first points; four by four entries of w that are all zero cost nothing."""
    for i in range(0, w.shape[0], FOUR):
        for k in range(0, w.shape[1], FOUR):
            if not w[i : i + FOUR, k : k + FOUR].any():
                continue
            w00, w01, w02, w03 = w[i, k], w[i, k + 1], w[i, k + 2], w[i, k + 3]
            w10, w11, w12, w13 = w[i + 1, k], w[i + 1, k + 1], w[i + 1, k + 2], w[i + 1, k + 3]
            w20, w21, w22, w23 = w[i + 2, k], w[i + 2, k + 1], w[i + 2, k + 2], w[i + 2, k + 3]
            w30, w31, w32, w33 = w[i + 3, k], w[i + 3, k + 1], w[i + 3, k + 2], w[i + 3, k + 3]
            for t in range(size):
                u0, u1, u2, u3 = u[k, t], u[k + 1, t], u[k + 2, t], u[k + 3, t]
                out[i, t] += w00 * u0 + w01 * u1 + w02 * u2 + w03 * u3
                out[i + 1, t] += w10 * u0 + w11 * u1 + w12 * u2 + w13 * u3
                out[i + 2, t] += w20 * u0 + w21 * u1 + w22 * u2 + w23 * u3
                out[i + 3, t] += w30 * u0 + w31 * u1 + w32 * u2 + w33 * u3


@jit_sums
def add_inner(out, u, v, size, lower):
    """Add u vᵀ to `out`, over the first points; `lower`: nothing above the four by four entries of the diagonal."""
    for i in range(0, u.shape[0], FOUR):
        for k in range(0, min(v.shape[0], i + FOUR) if lower else v.shape[0], FOUR):
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
            for t in range(size):
                u0, u1, u2, u3 = u[i, t], u[i + 1, t], u[i + 2, t], u[i + 3, t]
                v0, v1, v2, v3 = v[k, t], v[k + 1, t], v[k + 2, t], v[k + 3, t]
                s00, s01, s02, s03 = s00 + u0 * v0, s01 + u0 * v1, s02 + u0 * v2, s03 + u0 * v3
                s10, s11, s12, s13 = s10 + u1 * v0, s11 + u1 * v1, s12 + u1 * v2, s13 + u1 * v3
                s20, s21, s22, s23 = s20 + u2 * v0, s21 + u2 * v1, s22 + u2 * v2, s23 + u2 * v3
                s30, s31, s32, s33 = s30 + u3 * v0, s31 + u3 * v1, s32 + u3 * v2, s33 + u3 * v3
            sums = (s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33)
            for entry, total in enumerate(sums):
                out[i + entry // FOUR, k + entry % FOUR] += total


@jit_sums
def inner(x, y):
    """Σ x y of two rows."""
    total = x.dtype.type(0.0)
    for t in range(x.size):
        total += x[t] * y[t]
    return total


@jit
def inner_products(u, a):
    """The matrices u uᵀ and u aᵀ: sums over all points."""
    n_rows, n, n_points = u.shape[0], a.shape[0], u.shape[1]
    u_tile, a_tile = tile_for(n_rows), tile_for(n)
    uu = np.zeros((u_tile.shape[0], u_tile.shape[0]))
    ua = np.zeros((u_tile.shape[0], a_tile.shape[0]))
    for begin in range(0, n_points, BLOCK):
        size = min(BLOCK, n_points - begin)
        copy_block(u_tile, u, begin, size)
        copy_block(a_tile, a, begin, size)
        add_inner(uu, u_tile, u_tile, size, True)
        add_inner(ua, u_tile, a_tile, size, False)
    for i in range(n_rows):
        for k in range(i):
            uu[k, i] = uu[i, k]
    return uu[:n_rows, :n_rows].copy(), ua[:n_rows, :n].copy()
