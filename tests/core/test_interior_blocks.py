"""The state-by-state kernels of the interior point method against dense algebra."""

import numpy as np
import pytest
import scipy.sparse as sp

from cautious._core import interior_blocks
from cautious.solvers.balance import balance_of
from cautious.solvers.interior_point.newton_matrix import EMPTY, System, edges_of
from random_models import RawModel, random_model


def dense_operator(raw, extended):
    """B on the allowed pairs, with the columns of the potentials if asked for."""
    owner = np.repeat(np.arange(raw.n_states), raw.n_actions)
    flow = raw.discount * raw.kernel.reshape(-1, raw.n_states) - np.eye(raw.n_states)[owner]
    columns = [flow, -np.eye(raw.n_states)[owner]] if extended else [flow]
    return np.hstack(columns)[raw.allowed.ravel()], owner[raw.allowed.ravel()]


@pytest.mark.parametrize("seed", [5, 6, 7])
@pytest.mark.parametrize("extended", [False, True])
def test_kernels_match_dense_algebra(extended, seed):
    rng = np.random.default_rng(seed)
    compare_with_dense_algebra(random_model(rng, "small"), extended, rng)


def compare_with_dense_algebra(raw, extended, rng):
    mdp, n = raw.mdp(), raw.n_states
    path = sp.csr_array(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))
    edges = edges_of(path) if extended else None
    system = System(balance_of(mdp, mdp.allowed), mdp.allowed, edges)
    dense, owner = dense_operator(raw, extended)
    v, y, lift = rng.normal(size=system.size), rng.normal(size=owner.size), rng.normal(size=n)
    assert np.allclose(system.forward(y, lift, v), y + lift[owner] + dense @ v)
    sums, missing = system.backward(y)
    assert np.allclose(sums, np.bincount(owner, weights=y, minlength=n))
    assert np.allclose(missing, -dense.T @ y)
    stiffness, coupling = rng.exponential(size=owner.size) + 0.1, rng.exponential(size=n) * 10
    coupling[rng.random(n) < 0.3] = 0.0
    hessian = np.diag(stiffness) + coupling[owner][:, None] * (owner[:, None] == owner[None, :])
    right = rng.normal(size=system.size)
    response = np.empty(y.size)
    for x in (v, EMPTY):
        shift, missing = system.respond((1 / stiffness, coupling), y, lift, x, right, response)
        expected = np.linalg.solve(hessian, y + lift[owner] + (dense @ x if x.size else 0.0))
        assert np.allclose(response, expected)
        assert np.allclose(shift, coupling * np.bincount(owner, weights=expected, minlength=n))
        assert np.allclose(missing, right - dense.T @ expected)
    assert system.respond((1 / stiffness, coupling), y, lift, v, EMPTY, response)[1].size == 0
    assert np.allclose(response, np.linalg.solve(hessian, y + lift[owner] + dense @ v))
    matrix = dense.T @ np.linalg.solve(hessian, dense)
    conductance = None
    if extended:
        conductance = rng.exponential(size=n - 1)
        ends = np.eye(n)[:-1] - np.eye(n)[1:]
        matrix[n:, n:] += ends.T @ (conductance[:, None] * ends)
        matrix[n, n] *= 2
    assert np.allclose(matrix @ system.refactor((1 / stiffness, coupling), conductance, right), right, atol=1e-7)
    assert np.allclose(matrix @ system.factor.solve(right), right, atol=1e-7)


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("n_actions", [1, 2, 3, 4, 5, 6, 9])
def test_any_number_of_pairs_and_members(extended, n_actions):
    """One state reaches nearly all others, and some have fewer pairs."""
    rng = np.random.default_rng(n_actions)
    n = 27
    kernel = np.zeros((n, n_actions, n))
    for s in range(n):
        for a in range(n_actions):
            reached = rng.choice(n, 25 if s == 13 else rng.integers(1, 4), replace=False)
            kernel[s, a, reached] = rng.dirichlet(np.ones(reached.size))
    allowed = np.ones((n, n_actions), bool)
    allowed[[5, 20], -1] = n_actions == 1
    raw = RawModel(kernel, rng.normal(size=(n, n_actions)), 0.9, np.full(n, 1 / n), allowed)
    compare_with_dense_algebra(raw, extended, rng)


def blocks_of(transitions, active, extra, gamma=0.9, index=np.int64):
    """(pair_start, start, coefficient_start, members, coefficients)."""
    indptr, indices = transitions.indptr.astype(index), transitions.indices.astype(index)
    start, coefficient_start = interior_blocks.block_sizes(indptr, indices, active, extra)
    members, coefficients = np.empty(start[-1], np.int64), np.empty(coefficient_start[-1] + interior_blocks.SPARE)
    places = start, coefficient_start, members, coefficients
    interior_blocks.fill_blocks(indptr, indices, transitions.data, gamma, active, extra, *places)
    return np.append(0, np.cumsum(active.sum(axis=1))), *places


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("extra", [False, True])
def test_blocks_hold_the_rows_of_the_operator(index, extra):
    rng = np.random.default_rng(3)
    transitions = sp.random_array((18, 6), density=0.4, rng=rng, format="csr")
    active = rng.random((6, 3)) < 0.7
    active[4] = False
    dense = 0.9 * transitions.toarray() - np.repeat(np.eye(6), 3, axis=0)
    dense = np.hstack([dense, -np.repeat(np.eye(6), 3, axis=0)])
    pair_start, start, coefficient_start, members, coefficients = blocks_of(transitions, active, extra, index=index)
    for s in range(6):
        own, rows = members[start[s] : start[s + 1]], dense[3 * s : 3 * s + 3][active[s]]
        block = coefficients[coefficient_start[s] : coefficient_start[s + 1]].reshape(rows.shape[0], own.size)
        assert np.unique(own).size == own.size
        assert np.allclose(block, rows[:, own])
        assert (own.size > 0) == active[s].any()
        others = np.setdiff1d(np.arange(12 if extra else 6), own)
        assert not rows[:, others].any()
    assert pair_start[-1] == active.sum()


def test_entries_of_either_width():
    transitions = sp.csr_array(np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [0.3, 0.7]]))
    blocks = blocks_of(transitions, np.ones((2, 2), bool), False)
    softness, coupling = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1e12])
    entry_start, found = np.array([0, 3, 6]), []
    for index in (np.int32, np.int64):
        # the second state's first member is state 1
        entries, values = np.array([0, 1, 2, 2, 1, 0], index), np.zeros(3)
        interior_blocks.assemble(*blocks, softness, coupling, entry_start, entries, values)
        interior_blocks.add_edges(np.array([5.0]), np.append(entries[:0], [0, 1, 2]).astype(index), 0, values)
        found.append(values)
    dense = 0.9 * transitions.toarray() - np.repeat(np.eye(2), 2, axis=0)
    weights = np.diag(softness)
    # a stiff coupling leaves what is across the mean
    weights[2:, 2:] -= np.outer(softness[2:], softness[2:]) / (softness[2:].sum() + 1e-12)
    expected = dense.T @ weights @ dense + 5 * np.array([[1, -1], [-1, 1]])
    assert np.allclose(found, expected[np.tril_indices(2)])


def test_states_without_softness_add_nothing():
    blocks = blocks_of(sp.csr_array(np.ones((1, 1))), np.ones((1, 1), bool), False)
    values = np.zeros(1)
    interior_blocks.assemble(*blocks, np.zeros(1), np.zeros(1), np.array([0, 1]), np.zeros(1, np.int32), values)
    assert values[0] == 0.0


def test_wrong_arguments_are_refused():
    active = np.ones((2, 2), bool)
    transitions = sp.csr_array(np.full((4, 2), 0.5))
    blocks = blocks_of(transitions, active, False)
    y, sums, missing = np.ones(4), np.empty(2), np.zeros(2)
    interior_blocks.backward(*blocks, y, sums, missing)
    with pytest.raises(ValueError, match="n_states"):
        interior_blocks.backward(*blocks, y, sums, missing[:1])
    with pytest.raises(ValueError, match="fit"):
        interior_blocks.backward(*blocks[:4], blocks[4][:-1], y, sums, missing)
    with pytest.raises(ValueError, match="fit"):
        interior_blocks.backward(np.array([0, -4]), *blocks[1:], y, sums, missing)
    with pytest.raises(ValueError, match="softness"):
        interior_blocks.respond(*blocks, y[:3], sums, y, sums, EMPTY, y, sums, EMPTY)
    entries = np.zeros(5, np.int32)
    with pytest.raises(ValueError, match="entry_start"):
        interior_blocks.assemble(*blocks, y, sums, np.array([0, 3, 6]), entries, np.zeros(3))
    with pytest.raises(ValueError, match="first"):
        interior_blocks.add_edges(y, np.zeros(3, np.int32), -3, missing)
    with pytest.raises(TypeError, match="missing"):
        interior_blocks.backward(*blocks, y, sums, np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="count"):
        interior_blocks.block_sizes(transitions.indptr, transitions.indices, active[:1], False)
