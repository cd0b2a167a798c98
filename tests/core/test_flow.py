"""The flow operator against plain NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from cautious._core import flow

GAMMA = 0.9


def model(seed, n=8, m=3):
    rng = np.random.default_rng(seed)
    dense = rng.random((n * m, n)) * (rng.random((n * m, n)) < 0.5)
    dense[np.arange(n * m), rng.integers(n, size=n * m)] += 0.1
    dense /= dense.sum(axis=1, keepdims=True)
    csr = sp.csr_array(dense)
    return (csr.indptr, csr.indices, csr.data), dense, rng


@pytest.mark.parametrize("seed", range(10))
def test_flow_operator(seed):
    csr, dense, rng = model(seed)
    b = GAMMA * dense - np.repeat(np.eye(8), 3, axis=0)
    x, y, w = rng.normal(size=8), rng.normal(size=24), rng.random(24) * (rng.random(24) < 0.7)
    rows, columns, diagonal = np.empty(24), np.empty(8), np.empty(8)
    flow.flow_rows(*csr, GAMMA, x, rows)
    flow.flow_columns(*csr, GAMMA, y, columns)
    flow.normal_diagonal(*csr, GAMMA, w, diagonal)
    np.testing.assert_allclose(rows, b @ x, atol=1e-13)
    np.testing.assert_allclose(columns, b.T @ y, atol=1e-13)
    np.testing.assert_allclose(diagonal, np.diag(b.T @ (w[:, None] * b)), atol=1e-13)
