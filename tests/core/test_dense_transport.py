"""The passes of the dense interior point against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from cautious._core import dense_transport as kernels

SHAPES = [(4, 6), (1, 1), (3, 0), (0, 3), (1, 40), (5, 33), (2, 16)]


def tables(shape):
    rng = np.random.default_rng(3)
    amount, slack, cost = (0.1 + rng.random(shape) for _ in range(3))
    d_amount, d_slack = rng.standard_normal((2, *shape))
    f, g = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    return amount, slack, cost, d_amount, d_slack, f, g


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_and_excesses(shape):
    amount, slack, cost, d_amount, d_slack, f, g = tables(shape)
    weight, rows, columns = np.empty(shape), np.empty(shape[0]), np.empty(shape[1])
    kernels.weights(amount, slack, weight, rows, columns)
    assert_array_equal(weight, amount / slack)
    assert_allclose(rows, weight.sum(axis=1))
    assert_allclose(columns, weight.sum(axis=0))
    missing = cost + f[:, None] - g - slack
    over = weight * missing - (0.3 - amount * slack - d_amount * d_slack) / slack
    kernels.excess(cost, f, g, amount, slack, d_amount, d_slack, 0.3, rows, columns)
    assert_allclose(rows, over.sum(axis=1))
    assert_allclose(columns, over.sum(axis=0), atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_changes(shape):
    amount, slack, cost, d_amount, d_slack, f, g = tables(shape)
    rng = np.random.default_rng(4)
    df, dg = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    wanted = 0.3 - amount * slack - d_amount * d_slack
    expected_slack = cost + f[:, None] - g - slack + df[:, None] - dg
    expected = (wanted - amount * expected_slack) / slack
    primal, dual = kernels.changes(cost, f, g, amount, slack, d_amount, d_slack, 0.3, df, dg)
    assert_array_equal(d_slack, expected_slack)
    assert_array_equal(d_amount, expected)
    for x, dx, most in ((amount, expected, primal), (slack, expected_slack, dual)):
        assert_allclose(most, min(1.0, (-x / dx)[dx < 0].min(initial=np.inf)))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_normal_matrix(index):
    rng = np.random.default_rng(5)
    matrix = sp.csr_array(sp.random_array((7, 5), density=0.4, rng=rng))
    csr = matrix.indptr.astype(index), matrix.indices.astype(index), matrix.data
    w, out = rng.random(7), np.ones((5, 5))
    kernels.add_normal_matrix(*csr, w, out)
    assert_allclose(out, 1 + (matrix.T * w) @ matrix.toarray())


def test_tables_that_do_not_fit_are_refused():
    amount, slack, cost, d_amount, d_slack, f, g = tables((4, 6))
    rows, columns = np.empty(4), np.empty(6)
    with pytest.raises(ValueError, match="weights needs same_shape"):
        kernels.weights(amount, slack[:3], np.empty((4, 6)), rows, columns)
    with pytest.raises(ValueError, match=r"excess needs rows\.size"):
        kernels.excess(cost, f, g, amount, slack, d_amount, d_slack, 0.3, columns, rows)
    with pytest.raises(ValueError, match=r"changes needs df\.size"):
        kernels.changes(cost, f, g, amount, slack, d_amount, d_slack, 0.3, f[1:], g)
    with pytest.raises(TypeError, match="contiguous"):
        kernels.weights(amount[:, ::2], slack, np.empty((4, 6)), rows, columns)
    indptr, indices, data = np.array([0, 1]), np.array([0]), np.ones(1)
    with pytest.raises(ValueError, match="add_normal_matrix needs"):
        kernels.add_normal_matrix(indptr, indices, data, np.ones(1), np.ones((1, 2)))
