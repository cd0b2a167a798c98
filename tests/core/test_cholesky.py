"""The sparse factorisation against dense NumPy, on patterns of every kind."""

import numpy as np
import pytest
import scipy.sparse as sp
from clique_patterns import KINDS, cliques, packed

from cautious._core import cholesky
from cautious._core import cholesky_analysis as analysis
from cautious.solvers.interior_point.sparse_cholesky import Factor, ordered

GUARD = 7


def fill(factor, blocks, squares, n):
    """The same matrix twice: entries for the factor, and dense."""
    values, dense = np.zeros(factor.n_entries), np.zeros((n, n))
    for c, (block, square) in enumerate(zip(blocks, squares, strict=True)):
        lower = [square[i, j] for i in range(len(block)) for j in range(i + 1)]
        places = factor.clique_entries[factor.clique_place[c] : factor.clique_place[c + 1]]
        np.add.at(values, places, lower)
        dense[np.ix_(block, block)] += square
    values[factor.diagonal_entries] += 1e-3
    return values, dense + 1e-3 * np.eye(n)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [10, 121, 400])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_solves_like_dense(kind, n, dtype):
    rng = np.random.default_rng([n, len(kind)])
    blocks = cliques(rng, kind, n)
    start, members = packed(blocks, dtype)
    factor = Factor(ordered(start, members, n), start, members)
    for _ in range(2):
        squares = []
        for block in blocks:
            half = rng.normal(size=(len(block), len(block)))
            squares.append(half @ half.T)
        values, dense = fill(factor, blocks, squares, n)
        right, other = rng.normal(size=(2, n))
        found = factor.update(values, right), factor.solve(right), factor.solve(other)
        assert factor.vanished == 0
        for x, asked in zip(found, (right, right, other), strict=True):
            expected = np.linalg.solve(dense, asked)
            assert np.abs(x - expected).max() <= 1e-8 * np.abs(expected).max()


def test_one_unknown():
    start, members = np.array([0, 1]), np.array([0])
    factor = Factor(ordered(start, members, 1), start, members)
    assert factor.update(np.array([4.0]), np.array([2.0])) == pytest.approx([0.5])
    assert factor.solve(np.array([8.0])) == pytest.approx([2.0])


def test_vanishing_pivots_leave_their_unknown_at_zero():
    start, members = packed([[0, 1], [2]])
    factor = Factor(ordered(start, members, 3), start, members)
    values = np.zeros(factor.n_entries)
    values[factor.clique_entries] = [1.0, 1.0, 1.0, 4.0]
    x = factor.update(values, np.array([2.0, 2.0, 4.0]))
    assert factor.vanished == 1
    assert x[2] == pytest.approx(1.0)
    assert sorted(np.abs(x[:2])) == pytest.approx([0.0, 2.0])


def test_diagonal_entries_of_zero_become_one():
    start, members = packed([[0], [1]])
    factor = Factor(ordered(start, members, 2), start, members)
    values = np.zeros(2)
    values[factor.diagonal_entries[factor.place[1]]] = 4.0
    assert factor.update(values, np.array([3.0, 2.0])) == pytest.approx([3.0, 0.5])
    assert sorted(values) == [1.0, 4.0]


def fronts(sizes, shares, seed=0):
    """A matrix with supernodes of these sizes: two children, their parent and its parent; its supernodes and tree.

    The children meet these shares of the rows above them, with gaps.
    """
    rng, first = np.random.default_rng(seed), np.concatenate([[0], np.cumsum(sizes)])
    n, tree = int(first[-1]), np.array([2, 2, 3, -1])
    half = rng.normal(size=(n, n))
    matrix = half @ half.T + n * np.eye(n)
    rows = [np.arange(first[2], n), np.arange(first[3], n)]
    for child, share in enumerate(shares):
        met = rng.random(n) < share
        # the first column of the parent is what makes it the parent
        met[: first[2]], met[first[2]] = False, True
        met[first[child] : first[child + 1]] = True
        own = slice(first[child], first[child + 1])
        matrix[own, ~met] = 0
        matrix[~met, own] = 0
        rows.insert(child, np.flatnonzero(met))
    row_start = np.concatenate([[0], np.cumsum([len(part) for part in rows])])
    return matrix, (first, row_start, np.concatenate(rows)), tree


def factored(matrix, supernodes, tree):
    """Arguments of ``factor_and_solve``: what is in its buffers before must not matter, what lies behind must stay."""
    n = matrix.shape[0]
    graph, order = sp.csr_array(matrix - np.diag(np.diag(matrix))), np.arange(n)
    column_start, entry_row, entry_place = analysis.number_entries(
        graph.indptr.astype(np.int64), graph.indices.astype(np.int64), order, order, *supernodes
    )
    values = matrix[entry_row, np.repeat(order, np.diff(column_start))]
    panel_start, panel_room = analysis.panel_places(*supernodes[:2])
    update_start, update_room = analysis.update_places(*supernodes[:2], tree)
    positions = analysis.positions_in_parent(*supernodes, tree)
    panels, updates = np.full(panel_room, np.nan), np.full(update_room + GUARD, np.nan)
    updates[update_room:] = GUARD
    entries = (values, column_start[:-1], 1e-15, column_start[supernodes[0]], entry_place)
    right = np.random.default_rng(1).normal(size=n)
    places = (*supernodes, panel_start, tree, positions, update_start, order)
    return *entries, *places, panels, updates[:], right, np.empty(n)


SIZES = [(1, 1, 1, 1), (3, 2, 1, 5), (4, 8, 5, 9), (7, 29, 12, 33), (33, 12, 64, 20), (150, 21, 70, 131)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("shares", [(1.0, 1.0), (0.5, 0.3)])
def test_fronts_like_dense(sizes, shares):
    matrix, (first, row_start, rows), tree = fronts(sizes, shares)
    arguments = factored(matrix, (first, row_start, rows), tree)
    panels, updates, right, solution = arguments[-4:]
    assert cholesky.factor_and_solve(*arguments) == 0
    lower, panel_start = np.linalg.cholesky(matrix), arguments[8]
    for k in range(4):
        own, columns = rows[row_start[k] : row_start[k + 1]], first[k + 1] - first[k]
        panel = panels[panel_start[k] : panel_start[k + 1]].reshape(columns, -1)[:, : own.size]
        expected = lower[np.ix_(own, own[:columns])].T.copy()
        # in the place of the diagonal there is one over it
        diagonal = np.arange(columns)
        expected[diagonal, diagonal] = 1 / expected[diagonal, diagonal]
        assert np.allclose(np.triu(panel), np.triu(expected), rtol=1e-10, atol=1e-10)
    assert np.all(updates[-GUARD:] == GUARD)
    assert np.allclose(solution, np.linalg.solve(matrix, right), rtol=1e-10, atol=1e-10)
    again = np.empty_like(solution)
    cholesky.solve_again(*arguments[5:9], arguments[12], panels, right, again)
    assert np.allclose(again, solution, rtol=1e-10, atol=1e-10)


def test_arrays_that_do_not_fit_are_refused():
    arguments = list(factored(*fronts((4, 8, 5, 9), (0.5, 0.3))))
    arguments[14] = arguments[14][:-GUARD]
    assert cholesky.factor_and_solve(*arguments) == 0
    again = [*arguments[5:9], arguments[12], arguments[13], *arguments[15:]]
    cholesky.solve_again(*again)
    for kernel, given in ((cholesky.factor_and_solve, arguments), (cholesky.solve_again, again)):
        for at, argument in enumerate(given):
            if isinstance(argument, float):
                continue
            for shorter in (argument[:-1].copy(), argument[:0]):
                with pytest.raises(ValueError, match="needs"):
                    kernel(*given[:at], shorter, *given[at + 1 :])
            with pytest.raises(TypeError, match="must be"):
                kernel(*given[:at], np.zeros(argument.size, np.int16), *given[at + 1 :])


@pytest.mark.parametrize("tree", [[2, 2, 2, -1], [1, 0, 3, -1], [2, 2, 4, -1]])
def test_trees_without_an_end_are_refused(tree):
    arguments = list(factored(*fronts((4, 8, 5, 9), (0.5, 0.3))))
    arguments[9] = np.array(tree)
    with pytest.raises(ValueError, match="fronts"):
        cholesky.factor_and_solve(*arguments)
