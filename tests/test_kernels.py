"""Compiled loops against plain NumPy references."""

import numpy as np
import pytest
import scipy.sparse as sp

from cautious.kernels import sparse_rows

GAMMA = 0.9


def rows_of(seed, n=9, m=3, density=0.4):
    """CSR arrays of random rows, the dense table, rewards, and a mask that may leave a state without pairs."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n * m, n)) * (rng.random((n * m, n)) < density)
    dense[np.arange(n * m), rng.integers(n, size=n * m)] += 0.1
    dense /= dense.sum(axis=1, keepdims=True)
    csr = sp.csr_array(dense)
    allowed = rng.random(n * m) < 0.7
    rewards = rng.integers(-2, 3, size=n * m).astype(float)
    return (csr.indptr, csr.indices, csr.data), dense, rewards, allowed, rng


def bellman_reference(dense, rewards, allowed, values, actions):
    n, m = values.size, rewards.size // values.size
    q = np.where(allowed, rewards + GAMMA * dense @ values, -np.inf).reshape(n, m)
    best = q.max(axis=1)
    kept = q[np.arange(n), actions] == best
    return np.where(best > -np.inf, best, values), np.where(kept, actions, np.argmax(q, axis=1)), q


@pytest.mark.parametrize("seed", range(30))
def test_bellman(seed):
    csr, dense, rewards, allowed, rng = rows_of(seed)
    values, actions = rng.normal(size=9), rng.integers(3, size=9)
    expected, choice, q = bellman_reference(dense, rewards, allowed, values, actions)
    found_actions = actions.copy()
    found = sparse_rows.bellman(*csr, rewards, allowed, GAMMA, values, found_actions)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
    alive = allowed.reshape(9, 3).any(axis=1)
    # sums in another order may swap exact ties, so the chosen action is compared by its worth
    np.testing.assert_allclose(q[alive, found_actions[alive]], q[alive, choice[alive]], rtol=1e-14, atol=1e-14)


def test_bellman_keeps_an_action_that_ties():
    csr, _, _, _, _ = rows_of(0)
    actions = np.full(9, 2)
    sparse_rows.bellman(*csr, np.zeros(27), np.ones(27, bool), GAMMA, np.zeros(9), actions)
    assert np.all(actions == 2)


@pytest.mark.parametrize("passes", [0, 1, 2, 7])
def test_evaluate_passes(passes):
    csr, dense, rewards, allowed, rng = rows_of(passes)
    values, actions = rng.normal(size=9), rng.integers(3, size=9)
    before = values.copy()
    rows = np.arange(9) * 3 + actions
    expected = values
    for _ in range(passes):
        expected = np.where(allowed[rows], rewards[rows] + GAMMA * dense[rows] @ expected, expected)
    found = sparse_rows.evaluate_passes(*csr, rewards, allowed, GAMMA, values, actions, passes)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    assert np.array_equal(values, before)


@pytest.mark.parametrize("seed", range(30))
def test_reach(seed):
    csr, dense, _, allowed, rng = rows_of(seed, density=0.05)
    start = rng.random(9) < 0.3
    steps = ((dense > 0) & allowed[:, None]).reshape(9, 3, 9).any(axis=1)
    expected = start.copy()
    for _ in range(9):
        expected |= steps[expected].any(axis=0)
    assert np.array_equal(sparse_rows.reach(csr[0], csr[1], allowed, start), expected)


@pytest.mark.parametrize("seed", range(30))
def test_keep_safe(seed):
    csr, dense, _, allowed, _ = rows_of(seed, density=0.1)
    expected = allowed.copy()
    while True:
        alive = expected.reshape(9, 3).any(axis=1)
        smaller = expected & ~((dense > 0) & ~alive).any(axis=1)
        if np.array_equal(smaller, expected):
            break
        expected = smaller
    assert np.array_equal(sparse_rows.keep_safe(csr[0], csr[1], allowed, 9), expected)


@pytest.mark.parametrize("seed", range(10))
def test_draw_successors(seed):
    csr, dense, _, _, rng = rows_of(seed)
    cumulative = np.concatenate([np.cumsum(csr[2][a:b]) for a, b in zip(csr[0][:-1], csr[0][1:], strict=True)])
    rows, uniforms = rng.integers(27, size=500), rng.random(500)
    found = sparse_rows.draw_successors(csr[0], cumulative, rows, uniforms)
    for row, uniform, position in zip(rows, uniforms, found, strict=True):
        inside = np.flatnonzero(dense[row])
        expected = inside[min(int(np.sum(np.cumsum(dense[row, inside]) <= uniform)), inside.size - 1)]
        assert csr[1][position] == expected


def test_draw_successors_stays_in_its_row_when_sums_fall_short():
    """Rounding may leave the last sum below one; a uniform number above it takes the last successor."""
    indptr, cumulative = np.array([0, 2, 4]), np.array([0.5, 1 - 1e-12, 0.25, 1 - 1e-12])
    found = sparse_rows.draw_successors(indptr, cumulative, np.array([0, 1]), np.array([1 - 1e-16, 1 - 1e-16]))
    assert found.tolist() == [1, 3]
