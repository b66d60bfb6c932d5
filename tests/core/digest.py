"""Draws of every generator as one digest: `python -m tests.core.digest` prints it, with or without the JIT."""

import hashlib

import numpy as np

from chefs._core import generate, restaurant

ORDERS = (
    np.array([0.0, 0.0, 0.3, 1.0]),
    np.array([np.nan, np.nan, np.nan]),
    np.array([0.5, np.nan, 0.5, np.nan]),
)
HYPER = ((1.3, 1.5, 1.0), (0.2, 3.0, 5.0), (30.0, 0.7, 0.1))


def draws(rng, orders, alpha, gamma, phi):
    """Everything that the kernels draw, as arrays."""
    yield from generate.sweep(rng, orders, alpha, gamma, phi, 40)
    yield from generate.finite(rng, orders, alpha, gamma, phi, 25, 10)
    yield from generate.buffet(rng, orders.size, alpha, gamma, 40)
    hyper = np.array([alpha, gamma, phi])
    graph = np.empty(0), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    for star in range(4):
        graph = restaurant.one_more_star(rng, *graph, star, rng.random(), hyper)
        yield from graph


def digest():
    """One hexadecimal number for each combination of orders and hyperparameters."""
    lines = []
    for seed, (orders, hyper) in enumerate((o, h) for o in ORDERS for h in HYPER):
        rng = np.random.default_rng(seed)
        total = hashlib.sha256()
        for array in draws(rng, orders, *hyper):
            total.update(str(array.shape).encode())
            total.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
        total.update(str(rng.bit_generator.state).encode())
        lines.append(total.hexdigest())
    return lines


if __name__ == "__main__":
    print("compiled" if hasattr(generate.sweep, "py_func") else "interpreted")
    print("\n".join(digest()))
