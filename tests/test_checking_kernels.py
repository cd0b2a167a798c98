"""The certificate's loops and the flow operator against plain NumPy and exact sums."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from cautious._core import flow
from cautious.kernels import checking

GAMMA = 0.9


def model(seed, n=8, m=3):
    rng = np.random.default_rng(seed)
    dense = rng.random((n * m, n)) * (rng.random((n * m, n)) < 0.5)
    dense[np.arange(n * m), rng.integers(n, size=n * m)] += 0.1
    dense /= dense.sum(axis=1, keepdims=True)
    csr = sp.csr_array(dense)
    return (csr.indptr, csr.indices, csr.data), dense, rng


@pytest.mark.parametrize("seed", range(20))
def test_largest_advantage(seed):
    csr, dense, rng = model(seed)
    r, v, active = rng.normal(size=24), rng.normal(size=8), rng.random(24) < 0.6
    active[0] = True
    plain = (r + GAMMA * dense @ v - np.repeat(v, 3))[active].max()
    found = checking.largest_advantage(*csr, r, np.abs(r), active, GAMMA, v, 0.0)
    assert found == pytest.approx(plain, rel=1e-13)
    # with its rounding it lies above the exact number, and not far
    raised = checking.largest_advantage(*csr, r, np.abs(r), active, GAMMA, v, 2 * np.finfo(float).eps)
    rows = [
        Fraction(r[row])
        + Fraction(GAMMA) * sum(Fraction(p) * Fraction(x) for p, x in zip(dense[row], v, strict=True))
        - Fraction(v[row // 3])
        for row in np.flatnonzero(active)
    ]
    assert Fraction(raised) >= max(rows)
    assert raised - found < 1e-13


def test_largest_advantage_never_hides_a_nan():
    csr, _, rng = model(0)
    r, v = rng.normal(size=24), rng.normal(size=8)
    r[5] = np.nan
    everything = np.ones(24, dtype=bool)
    assert math.isnan(checking.largest_advantage(*csr, r, np.abs(r), everything, GAMMA, v, 1e-16))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_largest_advantage_believes_finite_numbers_only(bad):
    """A reward or a multiplier that is not finite counts where it is active, and nowhere else."""
    csr, _, rng = model(0)
    r, v, everything = rng.normal(size=24), rng.normal(size=8), np.ones(24, dtype=bool)
    for table, place in ((r, 5), (v, 3)):
        kept, table[place] = table[place], bad
        assert math.isnan(checking.largest_advantage(*csr, r, np.abs(r), everything, GAMMA, v, 1e-16))
        table[place] = kept
    r[5], others = bad, np.arange(24) != 5
    assert math.isfinite(checking.largest_advantage(*csr, r, np.abs(r), others, GAMMA, v, 1e-16))


def test_careful_dot_keeps_what_plain_sums_lose():
    x = np.array([1e16, 1.0, -1e16, 1.0] * 1000)
    total, size = checking.careful_dot(x, np.ones(x.size))
    assert total == math.fsum(x)
    assert np.sum(x) != total
    assert size == pytest.approx(np.abs(x).sum())


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100, 4001])
def test_careful_dot_of_any_length(count):
    rng = np.random.default_rng(count)
    x, y = rng.normal(size=count) * 10.0 ** rng.integers(-8, 8, size=count), rng.normal(size=count)
    total, size = checking.careful_dot(x, y)
    # only the products are rounded, and the sum once more
    assert total == pytest.approx(math.fsum(x * y), rel=3e-16, abs=1e-300)
    assert size == pytest.approx(math.fsum(np.abs(x * y)), rel=1e-13)
    # numbers that are not next to each other
    apart = np.stack([x, y], axis=1)
    assert checking.careful_dot(apart[:, 0], apart[:, 1]) == (total, size)


def test_careful_dot_never_hides_a_nan():
    x = np.ones(20)
    for place in (0, 19):
        assert math.isnan(checking.careful_dot(np.where(np.arange(20) == place, np.nan, x), x)[0])


def test_charges():
    rng = np.random.default_rng(4)
    r, slope, active = rng.normal(size=24), rng.normal(size=24), rng.random(24) < 0.5
    paid, size = r.copy(), np.abs(r)
    steepest = checking.charge(slope, 0.3, active, paid, size)
    np.testing.assert_allclose(paid, r - 0.3 * slope, rtol=1e-15)
    np.testing.assert_allclose(size, np.abs(r) + np.abs(0.3 * slope), rtol=1e-15)
    assert steepest == np.abs(slope[active]).max()
    assert checking.charge(slope, 0.3, np.zeros(24, bool), paid, size) == 0.0
    slope[np.argmax(active)] = np.nan
    assert math.isnan(checking.charge(slope, 0.3, active, paid, size))


def test_largest_payment_is_of_pairs_that_are_taken():
    rng = np.random.default_rng(4)
    r, policy, reached = rng.normal(size=(8, 3)), rng.random((8, 3)) * (rng.random((8, 3)) < 0.5), rng.random(8) < 0.5
    used = reached[:, None] & (policy > 0)
    assert checking.largest_payment(r.ravel(), policy.ravel(), reached) == np.abs(r[used]).max()
    assert checking.largest_payment(r.ravel(), policy.ravel(), np.zeros(8, bool)) == 0.0


@pytest.mark.parametrize("seed", range(10))
def test_flow_operator(seed):
    csr, dense, rng = model(seed)
    b = GAMMA * dense - np.repeat(np.eye(8), 3, axis=0)
    x, y, w = rng.normal(size=8), rng.normal(size=24), rng.random(24) * (rng.random(24) < 0.7)
    rows, columns, product, diagonal = np.empty(24), np.empty(8), np.empty(8), np.empty(8)
    flow.flow_rows(*csr, GAMMA, x, rows)
    flow.flow_columns(*csr, GAMMA, y, columns)
    flow.normal_product(*csr, GAMMA, w, x, product)
    flow.normal_diagonal(*csr, GAMMA, w, diagonal)
    np.testing.assert_allclose(rows, b @ x, atol=1e-13)
    np.testing.assert_allclose(columns, b.T @ y, atol=1e-13)
    np.testing.assert_allclose(product, b.T @ (w * (b @ x)), atol=1e-13)
    np.testing.assert_allclose(diagonal, np.diag(b.T @ (w[:, None] * b)), atol=1e-13)
