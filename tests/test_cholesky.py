"""The sparse factorisation against dense NumPy, on patterns of every kind."""

import numpy as np
import pytest

from cautious.kernels import (
    cholesky_counts,
    cholesky_numeric,
    cholesky_order,
    cholesky_pattern,
    cholesky_symbolic,
    cholesky_tiles,
)
from cautious.solvers.interior_factor import Factor, ordered


def cliques(rng, kind, n):
    """Random cliques, as lists of unknowns."""
    if kind == "diagonal":
        return [[i] for i in range(n)]
    if kind == "dense":
        return [list(range(n))]
    if kind == "star":
        return [[0, i] for i in range(1, n)]
    if kind == "path":
        return [[i, i + 1] for i in range(n - 1)]
    if kind == "islands":
        return [sorted({int(i) for i in 10 * (c % (n // 10)) + rng.integers(10, size=3)}) for c in range(n)]
    if kind == "grid":
        side = int(n**0.5)
        return [[i, *([i + 1] if i % side < side - 1 else []), *([i + side] if i + side < n else [])] for i in range(n)]
    return [sorted({int(i) for i in rng.integers(n, size=rng.integers(1, 6))}) for _ in range(n)]


def packed(blocks):
    start = np.concatenate([[0], np.cumsum([len(block) for block in blocks])]).astype(np.int64)
    return start, np.concatenate(blocks).astype(np.int64)


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


@pytest.mark.parametrize("kind", ["diagonal", "dense", "star", "path", "islands", "grid", "random"])
@pytest.mark.parametrize("n", [10, 121, 400])
@pytest.mark.parametrize(("precision", "error"), [(np.float64, 1e-8), (np.float32, 0.2)])
def test_solves_like_dense(kind, n, precision, error):
    rng = np.random.default_rng([n, len(kind)])
    blocks = [[i for i in block if i < n] for block in cliques(rng, kind, n)]
    start, members = packed(blocks)
    pattern = ordered(start, members, n)
    factor = Factor(pattern, start, members)
    for _ in range(2):
        squares = []
        for block in blocks:
            half = rng.normal(size=(len(block), len(block)))
            squares.append(half @ half.T)
        values, dense = fill(factor, blocks, squares, n)
        right, other = rng.normal(size=(2, n))
        found = factor.update(values, right, precision), factor.solve(right), factor.solve(other)
        assert factor.vanished == 0
        for x, asked in zip(found, (right, right, other), strict=True):
            expected = np.linalg.solve(dense, asked)
            assert np.abs(x - expected).max() <= error * np.abs(expected).max()
            # refinement does the rest
            for _ in range(5 if precision == np.float32 else 0):
                x += factor.solve(asked - dense @ x)
            assert np.abs(x - expected).max() <= 1e-8 * np.abs(expected).max()


@pytest.mark.parametrize("kind", ["star", "grid", "random"])
def test_counts_are_those_of_the_dense_factor(kind):
    rng, n = np.random.default_rng(3), 64
    blocks = [[i for i in block if i < n] for block in cliques(rng, kind, n)]
    pattern = ordered(*packed(blocks), n)
    matrix = 100.0 * n * np.eye(n)
    for block in blocks:
        matrix[np.ix_(block, block)] += rng.uniform(0.5, 1, size=(len(block), 1)) + np.ones(len(block))
    matrix = np.tril(matrix) + np.tril(matrix, -1).T
    lower = np.linalg.cholesky(matrix[np.ix_(pattern.order, pattern.order)])
    assert pattern.nonzeros == np.count_nonzero(lower)
    assert np.array_equal(pattern.counts, np.count_nonzero(lower, axis=0))


def test_dissection_is_an_order_and_keeps_grids_sparse():
    n = 1600
    start, members = packed(cliques(np.random.default_rng(0), "grid", n))
    indptr, indices = cholesky_pattern.neighbours(start, members, n)
    order = cholesky_order.dissect(indptr, indices)
    assert np.array_equal(np.sort(order), np.arange(n))
    rows = np.arange(n)
    tree = cholesky_symbolic.elimination_tree(indptr, indices, rows, rows)
    row_by_row = cholesky_counts.column_counts(indptr, indices, rows, rows, tree, rows)
    assert ordered(start, members, n).nonzeros < 0.6 * row_by_row.sum()


def test_vanishing_pivots_leave_their_unknown_at_zero():
    start, members = packed([[0, 1], [2]])
    factor = Factor(ordered(start, members, 3), start, members)
    values = np.zeros(factor.n_entries)
    values[factor.clique_entries] = [1.0, 1.0, 1.0, 4.0]
    x = factor.update(values, np.array([2.0, 2.0, 4.0]))
    assert factor.vanished == 1
    assert x[2] == pytest.approx(1.0)
    assert sorted(np.abs(x[:2])) == pytest.approx([0.0, 2.0])


def panel_of(matrix, columns, precision):
    """The first columns of a symmetric matrix as a panel with room around it, and its width."""
    size = matrix.shape[0]
    width = cholesky_tiles.padded(size)
    flat = np.zeros((columns + cholesky_tiles.ROWS) * width + cholesky_tiles.WIDTH, precision)
    for j in range(columns):
        flat[j * width + j : j * width + size] = matrix[j:, j]
    # what comes next in memory must not matter
    flat[columns * width :] = np.nan
    return flat, width


@pytest.mark.parametrize(("columns", "left"), [(1, 0), (3, 1), (4, 8), (7, 29), (33, 12), (150, 21)])
@pytest.mark.parametrize(("precision", "error"), [(np.float64, 1e-8), (np.float32, 1e-3)])
def test_fronts_like_dense(columns, left, precision, error):
    rng, size = np.random.default_rng(columns), columns + left
    half = rng.normal(size=(size, size))
    matrix = half @ half.T + np.eye(size)
    flat, width = panel_of(matrix, columns, precision)
    assert cholesky_numeric.factor_panel(flat, 0, columns, size, np.zeros(columns + 4), 0) == 0
    lower = np.linalg.cholesky(matrix)
    found = flat[: columns * width].reshape(columns, width)[:, :size]
    own = np.arange(columns)
    # in the place of the diagonal there is one over it
    assert np.allclose(found[own, own] * np.diag(lower)[:columns], 1.0, atol=error)
    assert np.allclose(np.triu(found, 1), np.triu(lower[:, :columns].T, 1), atol=error * size)
    stride = cholesky_tiles.padded(left)
    rests = np.full(5 + stride**2 + cholesky_tiles.WIDTH, 7.0, precision)
    cholesky_numeric.make_rest(flat, 0, columns, size, rests, 5)
    expected = -lower[columns:, :columns] @ lower[columns:, :columns].T
    rest = rests[5 : 5 + stride**2].reshape(stride, stride)[:left, :left]
    assert np.allclose(np.triu(rest), np.triu(expected), atol=error * size)
    # nothing is written outside
    assert np.all(rests[:5] == 7)
    assert np.all(rests[5 + stride**2 :] == 7)


def test_a_rest_is_added_to_panel_and_rest_of_its_parent():
    rng, columns, size, inside = np.random.default_rng(9), 5, 14, np.array([1, 3, 4, 6, 9, 13])
    width, stride, of = (cholesky_tiles.padded(n) for n in (size, size - columns, inside.size))
    blocks, rests = rng.random(2 + columns * width), rng.random(3 + stride**2 + of**2)
    child = 3 + stride**2
    whole, more = np.zeros((size, size)), rests[child:].reshape(of, of)[: inside.size, : inside.size].copy()
    whole[np.ix_(inside, inside)] = np.triu(more)
    expected_blocks, expected_rests = blocks.copy(), rests.copy()
    expected_blocks[2:].reshape(columns, width)[:, :size] += whole[:columns]
    expected_rests[3:child].reshape(stride, stride)[: size - columns, : size - columns] += whole[columns:, columns:]
    cholesky_numeric.add_to_panel(blocks, 2, columns, size, rests, child, inside)
    cholesky_numeric.add_to_rest(columns, size, rests, 3, child, inside)
    assert np.allclose(blocks, expected_blocks)
    assert np.allclose(rests, expected_rests)


def test_rests_do_not_meet_while_they_are_needed():
    rng, n = np.random.default_rng(8), 300
    start, members = packed(cliques(rng, "random", n))
    factor = Factor(ordered(start, members, n), start, members)
    left = np.diff(factor.row_start) - np.diff(factor.first)
    sizes = np.array([cholesky_tiles.padded(int(number)) ** 2 for number in left])
    waiting = []
    for k in range(factor.above.size):
        begin, end = factor.rest_start[k], factor.rest_start[k] + sizes[k]
        assert end <= factor.room[1]
        for other in waiting:
            assert end <= factor.rest_start[other] or factor.rest_start[other] + sizes[other] <= begin
        waiting = [other for other in waiting if factor.above[other] != k] + ([k] if factor.above[k] >= 0 else [])
    assert not waiting
