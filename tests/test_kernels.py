"""Compiled loops against plain NumPy references."""

import numpy as np
import pytest
import scipy.sparse as sp

from cautious.kernels import planning, sparse_rows
from cautious.kernels.expected_rows import BLOCK, block_widths
from cautious.models.encodings import frozen

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


def bellman(csr, rewards, allowed, values, actions, scope, start):
    """The compiled sweep, called as planning calls it."""
    out, facts, chosen = np.empty(9), np.empty((1, 5)), actions.astype(np.uint64)
    paid = frozen(np.where(allowed, rewards, -np.inf))
    csr = unsigned(csr)
    widths = block_widths(csr[0], 3 * BLOCK)
    planning.bellman(*csr, widths, paid, GAMMA, values, scope, start, chosen, out, facts, 0, 1)
    return out, chosen.astype(np.int64), facts[0]


def unsigned(csr):
    kind = np.dtype(f"u{csr[1].itemsize}")
    return frozen(csr[0]).view(kind), frozen(csr[1]).view(kind), frozen(csr[2])


@pytest.mark.parametrize("seed", range(30))
def test_bellman(seed):
    csr, dense, rewards, allowed, rng = rows_of(seed)
    values, actions = rng.normal(size=9), rng.integers(3, size=9)
    scope, start = rng.random(9) < 0.6, rng.dirichlet(np.ones(9))
    scope[0] = True
    expected, choice, q = bellman_reference(dense, rewards, allowed, values, actions)
    found, found_actions, facts = bellman(csr, rewards, allowed, values, actions, scope, start)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
    alive = allowed.reshape(9, 3).any(axis=1)
    # sums in another order may swap exact ties, so the chosen action is compared by its worth
    np.testing.assert_allclose(q[alive, found_actions[alive]], q[alive, choice[alive]], rtol=1e-14, atol=1e-14)
    assert np.array_equal(found_actions[~alive], actions[~alive])
    change = (found - values)[scope]
    assert facts[:3].tolist() == [change.min(), change.max(), max(np.abs(found).max(), np.abs(values).max())]
    assert facts[3] == pytest.approx(float(start @ found), rel=1e-13, abs=1e-13)
    assert facts[4] == np.sum(found_actions != actions)


def test_bellman_keeps_an_action_that_ties():
    csr, _, _, _, _ = rows_of(0)
    every = np.ones(9, bool)
    _, actions, facts = bellman(csr, np.zeros(27), np.ones(27, bool), np.zeros(9), np.full(9, 2), every, every / 9)
    assert np.all(actions == 2)
    assert facts[4] == 0


@pytest.mark.parametrize("backwards", [False, True])
def test_bellman_in_place_uses_what_it_has_just_found(backwards):
    csr, dense, rewards, allowed, rng = rows_of(4)
    expected = rng.normal(size=9)
    found = expected.copy()
    paid = np.where(allowed, rewards, -np.inf)
    planning.bellman_in_place(*unsigned(csr), frozen(paid), GAMMA, found, backwards)
    for s in range(9)[:: -1 if backwards else 1]:
        best = (paid + GAMMA * dense @ expected).reshape(9, 3)[s].max()
        expected[s] = best if best > -np.inf else expected[s]
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


def chain_of(seed):
    """A random chain in our form, and as a dense matrix; one state only stays where it is."""
    rng = np.random.default_rng(seed)
    dense = rng.random((12, 12)) * (rng.random((12, 12)) < 0.3) + 0.2 * np.eye(12)
    dense[3] = np.eye(12)[3]
    dense /= dense.sum(axis=1, keepdims=True)
    rows = sp.csr_array(dense)
    return unsigned((rows.indptr, rows.indices, rows.data)), dense, rng


@pytest.mark.parametrize("passes", [0, 1, 2, 7])
def test_evaluate_passes(passes):
    chain, dense, rng = chain_of(passes)
    values, gain = rng.normal(size=12), rng.normal(size=12)
    before, expected = values.copy(), values
    for _ in range(passes):
        expected = gain + GAMMA * dense @ expected
    found = planning.evaluate_passes(*chain, block_widths(chain[0], BLOCK), gain, GAMMA, values, passes)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    assert np.array_equal(values, before)


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
