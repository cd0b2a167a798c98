"""Compiled loops against plain NumPy references."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from cautious.kernels import krylov, policy_systems, residuals, sparse_rows
from cautious.models.encodings import EPS, frozen

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


def unsigned(csr):
    kind = np.dtype(f"u{csr[1].itemsize}")
    return frozen(csr[0]).view(kind), frozen(csr[1]).view(kind), frozen(csr[2])


def chain_of(seed):
    """A random chain in our form, and as a dense matrix; one state only stays where it is."""
    rng = np.random.default_rng(seed)
    dense = rng.random((12, 12)) * (rng.random((12, 12)) < 0.3) + 0.2 * np.eye(12)
    dense[3] = np.eye(12)[3]
    dense /= dense.sum(axis=1, keepdims=True)
    rows = sp.csr_array(dense)
    return unsigned((rows.indptr, rows.indices, rows.data)), dense, rng


@pytest.mark.parametrize("seed", range(10))
def test_choose_rows_is_one_row_per_state(seed):
    csr, dense, rewards, allowed, rng = rows_of(seed)
    actions = rng.integers(3, size=9)
    rows, paid = np.arange(9) * 3 + actions, np.where(allowed, rewards, -np.inf)
    room = np.empty(10, np.uint32), np.empty(dense.size, np.uint32), np.empty(dense.size)
    gain = np.empty(9)
    policy_systems.choose_rows(*unsigned(csr), frozen(paid), actions.astype(np.uint64), *room, gain)
    assert np.array_equal(dense_of(*room), dense[rows])
    assert np.array_equal(gain, np.where(allowed[rows], rewards[rows], 0.0))


@pytest.mark.parametrize("seed", range(20))
def test_mix_rows_adds_what_has_the_same_successor(seed):
    csr, dense, _, _, rng = rows_of(seed)
    policy = rng.dirichlet(np.ones(3), size=9) * (rng.random((9, 3)) < 0.7)
    room = np.empty(10, np.uint32), np.empty(dense.size, np.uint32), np.empty(dense.size)
    policy_systems.mix_rows(*unsigned(csr), frozen(policy.ravel()), *room)
    expected = np.einsum("sa,sat->st", policy, dense.reshape(9, 3, 9))
    np.testing.assert_allclose(dense_of(*room), expected, rtol=1e-14, atol=1e-16)
    assert room[0][-1] == np.count_nonzero(expected)


def dense_of(pointer, successor, chance):
    n = int(pointer[-1])
    shape = (pointer.size - 1, pointer.size - 1)
    return sp.csr_array((chance[:n], successor[:n].astype(int), pointer.astype(int)), shape=shape).toarray()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.9999])
def test_bicgstab_solves_both_systems(gamma, transposed):
    for seed in range(10):
        chain, dense, rng = chain_of(seed)
        weight, inverse = krylov.scaled_rows(*chain, gamma)
        np.testing.assert_allclose(inverse, 1 / (1 - gamma * np.diag(dense)), rtol=1e-11)
        others = gamma * inverse[:, None] * (dense - np.diag(np.diag(dense)))
        np.testing.assert_allclose(dense_of(*chain[:2], weight), others, rtol=1e-11)
        right = rng.normal(size=12)
        found, room = np.full(12, np.nan), np.full((krylov.ROOM, 12), np.nan)
        steps = krylov.bicgstab(*chain[:2], weight, inverse, transposed, right, 1e-12, 200, found, room)
        system = np.eye(12) - gamma * (dense.T if transposed else dense)
        np.testing.assert_allclose(system @ found, right, atol=1e-9)
        assert 0 < steps < 40


@pytest.mark.parametrize("seed", range(5))
def test_balance_is_the_exact_residual(seed):
    """Against fractions, where the residual is far below the rounding of its terms."""
    csr, dense, _, _, rng = rows_of(seed)
    policy, start = rng.dirichlet(np.ones(3), size=9), rng.dirichlet(np.ones(9))
    chain = np.einsum("sa,sat->st", policy, dense.reshape(9, 3, 9))
    x = np.linalg.solve(np.eye(9) - GAMMA * chain.T, (1 - GAMMA) * start)
    found, norm = residuals.balance(*unsigned(csr), frozen(policy.ravel()), x, frozen(start), GAMMA)
    gamma = Fraction(GAMMA)
    exact = [(1 - gamma) * Fraction(start[j]) - Fraction(x[j]) for j in range(9)]
    for s, a, j in np.ndindex(9, 3, 9):
        exact[j] += gamma * Fraction(policy[s, a]) * Fraction(x[s]) * Fraction(dense[3 * s + a, j])
    expected = np.array([float(number) for number in exact])
    assert np.abs(expected).sum() < 1e-14
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-28)
    assert norm == pytest.approx(np.abs(expected).sum(), rel=1e-10)


def test_masses_are_spread_by_the_policy():
    rng = np.random.default_rng(3)
    policy, x = rng.dirichlet(np.ones(3), size=9), rng.random(9)
    found = residuals.pairs_of(frozen(policy.ravel()), x, 2.5)
    np.testing.assert_array_equal(found.reshape(9, 3), policy * (x / 2.5)[:, None])


def test_exact_parts_lose_nothing():
    rng = np.random.default_rng(0)
    for a, b in rng.normal(size=(200, 2)) * 10.0 ** rng.integers(-8, 8, size=(200, 2)):
        for parts, truth in (
            (residuals.exact_product(a, b), Fraction(a) * Fraction(b)),
            (residuals.exact_sum(a, b), Fraction(a) + Fraction(b)),
        ):
            assert Fraction(parts[0]) + Fraction(parts[1]) == truth


BAD_STRUCTURES = {
    "pointer starts late": ([1, 2, 4], [0, 1, 0, 2]),
    "pointer falls": ([0, 5, 4], [0, 1, 0, 2]),
    "pointer ends early": ([0, 2, 3], [0, 1, 0, 2]),
    "not sorted": ([0, 2, 4], [1, 0, 0, 2]),
    "duplicate": ([0, 2, 4], [0, 0, 0, 2]),
    "too large": ([0, 2, 4], [0, 1, 0, 3]),
    "negative": ([0, 2, 4], [0, 1, -1, 2]),
}


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("name", BAD_STRUCTURES)
def test_well_formed_refuses(name, kind):
    def verdict(pointer, places):
        return sparse_rows.well_formed(*unsigned((np.array(pointer, kind), np.array(places, kind), np.ones(1)))[:2], 3)

    assert verdict([0, 2, 4], [0, 1, 0, 2])
    assert verdict([0, 0, 4], [0, 1, 2, 2]) is False
    assert not verdict(*BAD_STRUCTURES[name])


@pytest.mark.parametrize(
    ("data", "allowed", "good"),
    [
        ([0.5, 0.5, 1.0], [True, True, False], True),
        ([0.5, 0.5 + 2e-15, 1.0], [True, True, False], False),
        ([1.0, 0.0, 1.0], [True, True, False], False),
        ([1.5, -0.5, 1.0], [True, True, False], False),
        ([0.5, np.nan, 1.0], [True, True, False], False),
        ([0.5, 0.5, 1.0], [True, False, False], False),
        ([0.5, 0.5, 1.0], [True, True, True], False),
    ],
)
def test_are_probabilities(data, allowed, good):
    pointer = frozen(np.array([0, 2, 3, 3], np.int32))
    found = sparse_rows.are_probabilities(pointer, frozen(np.array(data)), frozen(np.array(allowed)), EPS)
    assert found is good


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
