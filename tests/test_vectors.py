"""Short vectors in compiled loops, against NumPy."""

import numpy as np
import pytest
from numba import njit

from cautious.kernels.vector_ratios import larger, over
from cautious.kernels.vectors import (
    alike,
    alike_four,
    fetch,
    lanes,
    load,
    load_eight,
    load_four,
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
    """Each operation once, into the next numbers of ``out``."""
    # asking changes nothing, also where there is nothing
    fetch(a, 1)
    fetch(b, 10**6)
    p, q, three, n = load(a, 1), load(b, 2), alike(a, 3.0), lanes(a)
    store(out, 0, p)
    store(out, n, alike(a, a[0]))
    store(out, 2 * n, plus(p, q))
    store(out, 3 * n, times(p, q))
    store(out, 4 * n, plus_product(p, q, three))
    store(out, 5 * n, minus_product(p, q, three))
    return total(p)


@pytest.mark.parametrize(("precision", "n", "error"), [(np.float64, 4, 1e-14), (np.float32, 8, 1e-5)])
def test_operations(precision, n, error):
    rng = np.random.default_rng(0)
    a, b, out = rng.normal(size=n + 2), rng.normal(size=n + 2), np.zeros(6 * n + 1, precision)
    a, b = a.astype(precision), b.astype(precision)
    summed = every_operation(a, b, out)
    p, q = a[1 : n + 1], b[2:]
    expected = [p, np.full(n, a[0]), p + q, p * q, p + 3 * q, p - 3 * q, [0.0]]
    assert np.allclose(out, np.concatenate(expected), rtol=error, atol=error)
    assert np.isclose(summed, p.sum(), rtol=error)


@njit
def half_of_it(a, out):
    store(out, 1, plus(load_four(a, 2), alike_four(a, a[0])))
    return total(load_four(a, 1))


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_four_of_either_precision(precision):
    a, out = np.arange(3.0, 9.0).astype(precision), np.zeros(6, precision)
    assert half_of_it(a, out) == a[1:5].sum()
    assert np.array_equal(out, [0, *(a[2:] + a[0]), 0])


@njit
def four_times(number, out):
    store(out, 0, spread(number))


def test_the_same_number():
    out = np.zeros(5)
    four_times(2.0, out)
    assert np.array_equal(out, [2, 2, 2, 2, 0])


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
