"""Chains of policies and their linear systems against dense tables."""

from itertools import pairwise

import numpy as np
import pytest
from sample_rows import GAMMA, KINDS, csr_of, dense_of, random_chain, random_rows

from cautious._core import chains

# the kinds of indices of a model and of its chain
PAIRS = ((np.int32, np.int32), (np.int64, np.int32), (np.int64, np.int64))


def room_for(n, size, kind):
    return np.empty(n + 1, kind), np.empty(size, kind), np.full(size, np.nan)


@pytest.mark.parametrize("kinds", PAIRS)
@pytest.mark.parametrize("seed", range(5))
def test_choose_rows_is_one_row_per_state(seed, kinds):
    rng = np.random.default_rng(seed)
    dense, reward, allowed = random_rows(rng), rng.normal(size=27), rng.random(27) < 0.7
    actions = rng.integers(3, size=9)
    chosen, paid = np.arange(9) * 3 + actions, np.where(allowed, reward, -np.inf)
    room, gain = room_for(9, dense.size, kinds[1]), np.empty(9)
    chains.choose_rows(*csr_of(dense, kinds[0]), paid, actions, *room, gain)
    assert np.array_equal(dense_of(*room), dense[chosen])
    assert np.array_equal(gain, np.where(allowed[chosen], reward[chosen], 0.0))


@pytest.mark.parametrize("kinds", PAIRS)
def test_change_rows_leaves_what_choose_rows_would(kinds):
    rng = np.random.default_rng(1)
    # all rows have six entries
    dense = np.stack([rng.permutation([1, 2, 3, 4, 5, 6, 0, 0, 0]) / 21.0 for _ in range(27)])
    csr, reward = csr_of(dense, kinds[0]), rng.normal(size=27)
    actions, other = rng.integers(3, size=(2, 9))
    room, gain, held = room_for(9, 54, kinds[1]), np.empty(9), actions.copy()
    chains.choose_rows(*csr, reward, actions, *room, gain)
    assert chains.change_rows(*csr, reward, other, held, *room, gain)
    assert np.array_equal(dense_of(*room), dense[np.arange(9) * 3 + other])
    assert np.array_equal(gain, reward[np.arange(9) * 3 + other])
    assert np.array_equal(held, other)


def test_change_rows_says_if_a_row_does_not_fit():
    dense = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.5, 0.5]])
    csr, reward, actions = csr_of(dense), np.zeros(4), np.zeros(2, np.int64)
    room, gain = room_for(2, 4, np.int32), np.empty(2)
    chains.choose_rows(*csr, reward, actions, *room, gain)
    assert not chains.change_rows(*csr, reward, np.array([0, 1]), actions.copy(), *room, gain)


@pytest.mark.parametrize("kinds", PAIRS)
@pytest.mark.parametrize("seed", range(10))
def test_mix_rows_adds_what_has_the_same_successor(seed, kinds):
    rng = np.random.default_rng(seed)
    dense = random_rows(rng)
    policy = rng.dirichlet(np.ones(3), size=9) * (rng.random((9, 3)) < 0.7)
    room = room_for(9, dense.size, kinds[1])
    room[0][0] = 0
    pointer, indices, data = csr_of(dense, kinds[0])
    # in one block, and in two, the second of which goes on where the first has ended
    for edges in ([0, 9], [0, 4, 9]):
        for first, last in pairwise(edges):
            begin, end = pointer[3 * first], pointer[3 * last]
            part = pointer[3 * first : 3 * last + 1] - begin, indices[begin:end], data[begin:end]
            chains.mix_rows(first, *part, policy, *room, np.empty(9, kinds[1]))
    expected = np.einsum("sa,sat->st", policy, dense.reshape(9, 3, 9))
    np.testing.assert_allclose(dense_of(*room), expected, rtol=1e-14, atol=1e-16)
    assert room[0][-1] == np.count_nonzero(expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 12, 50])
def test_missing_flow(n, kind):
    rng = np.random.default_rng(n)
    dense = random_chain(rng, n)
    b, x, out = rng.normal(size=n), rng.random(n) * (rng.random(n) < 0.8), np.empty(n)
    size = chains.missing_flow(*csr_of(dense, kind), GAMMA, b, x, out)
    np.testing.assert_allclose(out, b + GAMMA * dense.T @ x - x, atol=1e-14)
    assert size == pytest.approx(np.abs(out).sum(), rel=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [0.0, 1e-20, 0.9, 0.9999])
def test_scaled_rows(gamma, kind):
    for seed in range(10):
        dense = random_chain(np.random.default_rng(seed))
        chain = csr_of(dense, kind)
        weight, inverse = np.empty(chain[2].size), np.empty(12)
        chains.scaled_rows(*chain, gamma, weight, inverse)
        np.testing.assert_allclose(inverse, 1 / (1 - gamma * np.diag(dense)), rtol=1e-11)
        others = gamma * inverse[:, None] * (dense - np.diag(np.diag(dense)))
        np.testing.assert_allclose(dense_of(*chain[:2], weight), others, rtol=1e-11)


def solve(chain, gamma, transposed, right, tolerance=1e-12, most=200):
    n = right.size
    weight, inverse, found = np.empty(chain[2].size), np.empty(n), np.full(n, np.nan)
    chains.scaled_rows(*chain, gamma, weight, inverse)
    work = np.full((chains.WORK_VECTORS, n), np.nan)
    steps = chains.bicgstab(*chain[:2], weight, inverse, transposed, right, tolerance, most, found, work)
    return found, steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.9999])
def test_bicgstab_solves_both_systems(gamma, transposed, kind):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n = 12 + seed
        dense, right = random_chain(rng, n), rng.normal(size=n)
        found, steps = solve(csr_of(dense, kind), gamma, transposed, right)
        system = np.eye(n) - gamma * (dense.T if transposed else dense)
        np.testing.assert_allclose(system @ found, right, atol=1e-9)
        assert 0 < steps < 40


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 40_001])
def test_bicgstab_in_chains_of_any_size(n, transposed):
    """Large chains are swept in stretches; what is left over has its turn too."""
    rng = np.random.default_rng(n)
    rows, columns = np.repeat(np.arange(n), 3), rng.integers(n, size=(n, 3))
    columns.sort(axis=1)
    indptr = np.arange(0, 3 * n + 1, 3, dtype=np.int32)
    chain = indptr, columns.ravel().astype(np.int32), np.full(3 * n, 1 / 3)
    right = rng.normal(size=n)
    found, _ = solve(chain, 0.9, transposed, right)
    here, there = (rows, columns.ravel()) if transposed else (columns.ravel(), rows)
    carried = np.bincount(there, weights=found[here] / 3, minlength=n)
    np.testing.assert_allclose(found - 0.9 * carried, right, atol=1e-8)


def test_bicgstab_stops_at_numbers_that_are_not_finite():
    chain = csr_of(random_chain(np.random.default_rng(0)))
    for bad in (np.nan, np.inf):
        right = np.ones(12)
        right[5] = bad
        assert solve(chain, 0.9, True, right, most=10**18)[1] <= 2
        assert solve(chain, 0.9, False, right, most=10**18)[1] <= 2


def chain_of_blocks(rng, sizes):
    """A chain (S, S) that leaves its blocks forwards only, and loses mass in each; its states are shuffled.

    With it an order of its states in which that is so, and the number of the block of each state.
    """
    n, first = sum(sizes), 0
    dense = np.zeros((n, n))
    for size in sizes:
        block = slice(first, first + size)
        # around the block, and on to some of the later states
        dense[block, block] = rng.dirichlet(np.ones(size), size=size) * (rng.random((size, size)) < 0.5)
        dense[range(first, first + size), first + (np.arange(size) + 1) % size] += 0.3
        dense[block, first + size :] = rng.random((size, n - first - size)) * (
            rng.random((size, n - first - size)) < 0.2
        )
        first += size
    dense *= 0.95 / np.maximum(dense.sum(axis=1), 1.0)[:, None]
    order, block = rng.permutation(n), np.empty(n, np.int64)
    block[order] = np.repeat(np.arange(len(sizes)), sizes)
    place = np.argsort(order)
    return dense[np.ix_(place, place)], order, block


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [(1,), (1, 1, 1, 1), (5,), (3, 1, 1, 40, 2), (100, 1, 100)])
def test_substitution_solves_block_after_block(sizes, transposed, kind):
    rng = np.random.default_rng(sum(sizes))
    dense, order, block = chain_of_blocks(rng, sizes)
    right, x = rng.normal(size=len(dense)), np.empty(len(dense))
    chains.substitute(*csr_of(dense, kind), order, block, max(sizes), transposed, right, x)
    system = np.eye(len(dense)) - (dense.T if transposed else dense)
    np.testing.assert_allclose(x, np.linalg.solve(system, right), rtol=1e-10, atol=1e-12)


def test_substitution_refuses_longer_cycles_than_were_announced():
    dense, order, block = chain_of_blocks(np.random.default_rng(0), (2, 5, 1))
    with pytest.raises(ValueError, match="needs"):
        chains.substitute(*csr_of(dense), order, block, 4, False, np.ones(8), np.empty(8))


def test_substitution_refuses_an_order_that_leads_back():
    dense, order, block = chain_of_blocks(np.random.default_rng(0), (2, 5, 1))
    # the last state is reached from earlier blocks
    dense[order[7], order[0]] = 0.1
    with pytest.raises(ValueError, match="needs"):
        chains.substitute(*csr_of(dense), order, block, 5, False, np.ones(8), np.empty(8))


def test_bad_arguments_are_refused():
    rng = np.random.default_rng(0)
    csr, reward, actions = csr_of(random_rows(rng)), np.zeros(27), np.zeros(9, np.int64)
    room, gain, policy = room_for(9, 81, np.int32), np.empty(9), np.full(27, 1 / 3)
    chain, right, work = csr_of(random_chain(rng)), np.ones(12), np.empty((chains.WORK_VECTORS, 12))
    weight, inverse, x = chain[2].copy(), np.ones(12), np.empty(12)
    system, order = (*chain[:2], weight, inverse, False), (np.arange(12), np.zeros(12, np.int64))
    refused = {
        "little room": lambda: chains.choose_rows(*csr, reward, actions, *room_for(9, 3, np.int32), gain),
        "little room to mix": lambda: chains.mix_rows(
            0, *csr, policy, *room_for(9, 3, np.int32), np.empty(9, np.int32)
        ),
        "an action too large": lambda: chains.choose_rows(*csr, reward, actions + 3, *room, gain),
        "a negative action": lambda: chains.choose_rows(*csr, reward, actions - 1, *room, gain),
        "short rewards": lambda: chains.choose_rows(*csr, reward[:26], actions, *room, gain),
        "short pointers": lambda: chains.choose_rows(*csr, reward, actions, room[0][:9], *room[1:], gain),
        "no states": lambda: chains.mix_rows(0, *csr, policy, room[0][:1], *room[1:], np.empty(0, np.int32)),
        "short sides": lambda: chains.bicgstab(*system, right[:11], 0.0, 5, x, work),
        "short answer": lambda: chains.bicgstab(*system, right, 0.0, 5, x[:11], work),
        "little work": lambda: chains.bicgstab(*system, right, 0.0, 5, x, work[:5]),
        "negative steps": lambda: chains.bicgstab(*system, right, 0.0, -1, x, work),
        "a state that is none": lambda: chains.substitute(*chain, order[0] + 1, order[1], 5, False, right, x),
        "a short solution": lambda: chains.substitute(*chain, *order, 5, False, right, x[:11]),
        "no states in a block": lambda: chains.substitute(*chain, *order, 0, False, right, x),
        "a block that is too large": lambda: chains.substitute(*chain, *order, chains.MAX_BLOCK + 1, False, right, x),
        "short weights": lambda: chains.scaled_rows(*chain, GAMMA, weight[:3], inverse),
        "short flow": lambda: chains.missing_flow(*chain, GAMMA, right, x, x[:3]),
    }
    for call in refused.values():
        with pytest.raises(ValueError, match="needs"):
            call()
    with pytest.raises(TypeError, match="chance"):
        chains.choose_rows(*csr, reward, actions, *room[:2], room[2].astype(np.float32), gain)


@pytest.mark.parametrize("transposed", [False, True])
def test_krylov_steps_begin_anew_where_the_residual_is_orthogonal_to_the_first_one(transposed):
    """A start state that is never entered again: after one step the residual is zero there, and nowhere else."""
    rng, n = np.random.default_rng(0), 400
    table = np.zeros((n, n))
    for row in table:
        row[rng.choice(np.arange(1, n), 5, replace=False)] = rng.dirichlet(np.ones(5))
    right = np.zeros(n)
    right[0] = 0.05
    found, steps = solve(csr_of(table), 0.95, transposed, right)
    system = np.eye(n) - 0.95 * (table.T if transposed else table)
    assert steps < 60
    np.testing.assert_allclose(found, np.linalg.solve(system, right), atol=1e-10)
