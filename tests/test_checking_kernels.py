"""The certificate's loops and the flow operator against plain NumPy and exact sums."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from cautious.kernels import checking, flow

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


def test_careful_dot_keeps_what_plain_sums_lose():
    x = np.array([1e16, 1.0, -1e16, 1.0] * 1000)
    total, size = checking.careful_dot(x, np.ones(x.size))
    assert total == math.fsum(x)
    assert np.sum(x) != total
    assert size == pytest.approx(np.abs(x).sum())


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
