"""Vectors of four and eight numbers in compiled loops, against NumPy."""

import numpy as np
from numba import njit

from cautious.kernels.vector_ratios import larger, over
from cautious.kernels.vectors import (
    fetch,
    load,
    load_eight,
    minus_product,
    plus,
    plus_product,
    spread,
    spread_eight,
    store,
    times,
    total,
)


@njit
def every_operation(a, b, out):
    """Each operation once, into the next four numbers of ``out``."""
    # asking changes nothing, also where there is nothing
    fetch(a, 1)
    fetch(b, 10**6)
    p, q = load(a, 1), load(b, 2)
    store(out, 0, p)
    store(out, 4, spread(a[0]))
    store(out, 8, plus(p, q))
    store(out, 12, times(p, q))
    store(out, 16, plus_product(p, q, spread(3.0)))
    store(out, 20, minus_product(p, q, spread(3.0)))
    return total(p)


def test_operations():
    rng = np.random.default_rng(0)
    a, b, out = rng.normal(size=6), rng.normal(size=6), np.zeros(25)
    summed = every_operation(a, b, out)
    p, q = a[1:5], b[2:6]
    expected = [p, np.full(4, a[0]), p + q, p * q, p + 3 * q, p - 3 * q, [0.0]]
    assert np.allclose(out, np.concatenate(expected), rtol=1e-14)
    assert np.isclose(summed, p.sum(), rtol=1e-14)


@njit
def every_operation_on_eight(a, b, out):
    p, q = load_eight(a, 1), load_eight(b, 2)
    store(out, 0, plus_product(p, q, spread_eight(3.0)))
    store(out, 8, minus_product(p, q, times(p, p)))
    store(out, 16, larger(p, q))
    store(out, 24, over(p, plus(q, q)))


def test_operations_on_eight():
    rng = np.random.default_rng(1)
    a, b, out = rng.normal(size=9), rng.normal(size=10), np.zeros(33)
    every_operation_on_eight(a, b, out)
    p, q = a[1:9], b[2:10]
    expected = [p + 3 * q, p - q * p * p, np.maximum(p, q), p / (2 * q), [0.0]]
    assert np.allclose(out, np.concatenate(expected), rtol=1e-13)
