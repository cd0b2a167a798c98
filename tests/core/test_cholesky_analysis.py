"""The analysis of sparse factors against dense NumPy, on patterns of every kind."""

import numpy as np
import pytest
import scipy.sparse as sp
from clique_patterns import KINDS, adjacency, cliques, dense_factor, packed

from cautious._core import cholesky_analysis as analysis
from cautious.solvers.interior_point import sparse_cholesky
from cautious.solvers.interior_point.sparse_cholesky import OutOfTime, dissected, ordered


def case(kind, n, seed=3):
    """The cliques as lists, their pattern as a table."""
    blocks = cliques(np.random.default_rng(seed), kind, n)
    return blocks, adjacency(blocks, n)


def graph_of(table, dtype=np.int64):
    graph = sp.csr_array(table)
    return graph.indptr.astype(dtype), graph.indices.astype(dtype)


def analysed(table, order, dtype=np.int64):
    """(graph, order, place), tree and counts of a pattern."""
    where = (*graph_of(table, dtype), order, np.argsort(order))
    parent = analysis.elimination_tree(*where)
    children_first = analysis.postorder(parent, np.zeros_like(parent))
    return where, parent, analysis.column_counts(*where, parent, children_first)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_neighbours_share_a_clique(kind, dtype):
    blocks, table = case(kind, 60)
    indptr = np.empty(61, np.int32)
    indices = analysis.neighbours(*packed(blocks, dtype), indptr)
    assert indptr[0] == 0
    assert indices.size == indptr[-1] == np.count_nonzero(table)
    for i in range(60):
        assert np.array_equal(np.sort(indices[indptr[i] : indptr[i + 1]]), np.flatnonzero(table[i]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 10, 121, 400])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_dissection_is_an_order(kind, n, dtype):
    if n == 1:
        kind = "diagonal"
    graph = graph_of(case(kind, n)[1], dtype)
    order = dissected(*graph)
    assert np.array_equal(np.sort(order), np.arange(n))
    # the same in many parts
    again, low, high, waiting, parts = np.arange(n), *waiting_pieces(n), 1, 0
    while waiting:
        waiting, parts = analysis.nested_dissection(*graph, again, low, high, waiting, 1), parts + 1
    assert np.array_equal(again, order)
    assert parts > 1 or kind != "grid" or n < 100


def waiting_pieces(n):
    """At first one piece waits."""
    high = np.zeros(n + 1, np.int64)
    high[0] = n
    return np.zeros(n + 1, np.int64), high


def test_dissection_ends_when_time_is_over(monkeypatch):
    """Time is asked for between its parts: they were one, of seconds in models of a million states."""
    monkeypatch.setattr(sparse_cholesky, "CLOCK_CHECK_ENTRIES", 2000)
    graph, asked = graph_of(case("grid", 400)[1], np.int32), []
    dissected(*graph, lambda: asked.append(None))
    assert len(asked) > 5
    left = iter([False] * 4)
    with pytest.raises(OutOfTime):
        dissected(*graph, lambda: next(left, True))


def test_dissection_keeps_grids_sparse():
    n = 1600
    blocks, table = case("grid", n)
    start, members = packed(blocks)
    _, _, row_by_row = analysed(table, np.arange(n))
    assert ordered(start, members, n).nonzeros < 0.6 * row_by_row.sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_tree_and_counts_are_those_of_the_dense_factor(kind, dtype):
    n = 70
    _, table = case(kind, n)
    for order in (np.arange(n), np.random.default_rng(5).permutation(n)):
        lower = dense_factor(table, order) != 0
        _, parent, counts = analysed(table, order, dtype)
        assert np.array_equal(counts, lower.sum(axis=0))
        below = np.tril(lower, -1)
        assert np.array_equal(parent, np.where(below.any(axis=0), below.argmax(axis=0), -1))


@pytest.mark.parametrize("kind", KINDS)
def test_postorder_visits_the_fullest_child_last(kind):
    n = 70
    _, parent, counts = analysed(case(kind, n)[1], np.arange(n))
    order = analysis.postorder(parent, counts)
    place = np.argsort(order)
    assert np.array_equal(np.sort(order), np.arange(n))
    for p in range(n):
        children = np.flatnonzero(parent == p)
        if children.size:
            # the last child comes right before its parent
            assert place[children].max() == place[p] - 1
            assert counts[order[place[p] - 1]] == counts[children].max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_supernodes_hold_the_dense_factor(kind, dtype):
    n = 90
    blocks, table = case(kind, n)
    pattern = ordered(*packed(blocks), n)
    lower = dense_factor(table, pattern.order) != 0
    where = (*graph_of(table, dtype), pattern.order, np.argsort(pattern.order))
    first = analysis.supernodes(pattern.parent, pattern.counts)
    tree = analysis.supernode_tree(first, pattern.parent)
    row_start, rows = analysis.supernode_rows(*where, first, tree, pattern.counts)
    positions = analysis.positions_in_parent(first, row_start, rows, tree)
    assert (first[0], first[-1]) == (0, n)
    for k in range(tree.size):
        own, columns = rows[row_start[k] : row_start[k + 1]], np.arange(first[k], first[k + 1])
        # own columns, then all rows of any of them below
        below = np.flatnonzero(lower[:, columns].any(axis=1))
        assert np.array_equal(own, np.union1d(columns, below))
        p = tree[k]
        if p < 0:
            assert own.size == columns.size
        else:
            assert first[p] <= own[columns.size] < first[p + 1]
            inside = positions[row_start[k] + columns.size : row_start[k + 1]]
            assert np.array_equal(rows[row_start[p] : row_start[p + 1]][inside], own[columns.size :])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_entries_are_numbered_by_column_and_found_by_clique(kind, dtype):
    n = 90
    blocks, table = case(kind, n)
    order = ordered(*packed(blocks), n).order
    where, parent, counts = analysed(table, order, dtype)
    first = analysis.supernodes(parent, counts)
    row_start, rows = analysis.supernode_rows(*where, first, analysis.supernode_tree(first, parent), counts)
    column_start, entry_row, entry_place = analysis.number_entries(*where, first, row_start, rows)
    column = np.repeat(np.arange(n), np.diff(column_start))
    found = np.zeros((n, n), dtype=int)
    np.add.at(found, (entry_row, column), 1)
    assert np.array_equal(found, np.tril(table[np.ix_(order, order)]) + np.eye(n))
    assert np.array_equal(entry_row[column_start[:-1]], np.arange(n))
    k = np.searchsorted(first, column, "right") - 1
    width = -(-np.diff(row_start) // analysis.PADDING) * analysis.PADDING
    assert np.array_equal(entry_place // width[k], column - first[k])
    assert np.array_equal(rows[row_start[k] + entry_place % width[k]], entry_row)
    place, entries = analysis.clique_entries(*packed(blocks, dtype), where[3], column_start, entry_row)
    expected = [
        sorted((where[3][i], where[3][j])) for block in blocks for a, i in enumerate(block) for j in block[: a + 1]
    ]
    assert np.array_equal(np.stack([column[entries], entry_row[entries]], axis=1), expected)
    assert np.array_equal(np.diff(place), [len(block) * (len(block) + 1) // 2 for block in blocks])


def test_update_matrices_do_not_meet_while_they_are_needed():
    n = 300
    blocks, table = case("random", n, seed=8)
    pattern = ordered(*packed(blocks), n)
    where = (*graph_of(table), pattern.order, np.argsort(pattern.order))
    first = analysis.supernodes(pattern.parent, pattern.counts)
    tree = analysis.supernode_tree(first, pattern.parent)
    row_start, _ = analysis.supernode_rows(*where, first, tree, pattern.counts)
    start, room = analysis.update_places(first, row_start, tree)
    left = np.diff(row_start) - np.diff(first)
    size = (-(-left // analysis.PADDING) * analysis.PADDING) ** 2
    waiting = []
    for k in range(tree.size):
        begin, end = start[k], start[k] + size[k]
        assert 0 <= begin <= end <= room
        for other in waiting:
            assert end <= start[other] or start[other] + size[other] <= begin
        waiting = [other for other in waiting if tree[other] != k] + ([k] if tree[k] >= 0 else [])
    assert not waiting


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_widest_level(seed, dtype):
    rng = np.random.default_rng(seed)
    table = rng.random((30, 2, 30)) * (rng.random((30, 2, 30)) < 0.05)
    table[np.arange(30), 0, rng.integers(30, size=30)] += 0.1
    chain = sp.csr_array(table.reshape(60, 30))
    linked, seen, widest = table.sum(axis=1) > 0, np.zeros(30, dtype=bool), 0
    for root in range(30):
        level = np.zeros(30, dtype=bool)
        level[root] = not seen[root]
        while level.any():
            seen |= level
            widest = max(widest, int(level.sum()))
            level = linked[level].any(axis=0) & ~seen
    assert analysis.widest_level(chain.indptr.astype(dtype), chain.indices.astype(dtype), 30) == widest


def test_no_unknowns():
    nothing, start = np.zeros(0, np.int64), np.zeros(1, np.int64)
    indptr = np.empty(1, np.int32)
    assert analysis.neighbours(start, nothing, indptr).size == 0
    assert indptr[0] == 0
    assert dissected(start, nothing).size == 0
    assert analysis.elimination_tree(start, nothing, nothing, nothing).size == 0
    assert analysis.postorder(nothing, nothing).size == 0
    assert analysis.column_counts(start, nothing, nothing, nothing, nothing, nothing).size == 0
    assert np.array_equal(analysis.supernodes(nothing, nothing), [0])
    assert analysis.supernode_tree(start, nothing).size == 0


# numbers that are refused by other kernels: no piece may wait, and any amount of work may be allowed
MEANINGFUL = {("nested_dissection", 5): {0}, ("nested_dissection", 6): {7, 2**62}}


def calls():
    """Arguments that every kernel accepts."""
    blocks, table = case("random", 40)
    start, members = packed(blocks)
    order = ordered(start, members, 40).order
    where, parent, counts = analysed(table, order)
    last = analysis.postorder(parent, counts)
    first = analysis.supernodes(parent, counts)
    tree = analysis.supernode_tree(first, parent)
    row_start, rows = analysis.supernode_rows(*where, first, tree, counts)
    column_start, entry_row, _ = analysis.number_entries(*where, first, row_start, rows)
    return {
        "neighbours": (start, members, np.empty(41, np.int32)),
        "nested_dissection": (*where[:2], np.arange(40), *waiting_pieces(40), 1, 100),
        "widest_level": (*where[:2], 40),
        "elimination_tree": where,
        "postorder": (parent, counts),
        "column_counts": (*where, parent, last),
        "supernodes": (parent, counts),
        "supernode_tree": (first, parent),
        "supernode_rows": (*where, first, tree, counts),
        "positions_in_parent": (first, row_start, rows, tree),
        "panel_places": (first, row_start),
        "update_places": (first, row_start, tree),
        "number_entries": (*where, first, row_start, rows),
        "clique_entries": (start, members, where[3], column_start, entry_row),
    }


@pytest.mark.parametrize("name", calls())
def test_arrays_that_do_not_fit_are_refused(name):
    kernel, arguments = getattr(analysis, name), calls()[name]
    kernel(*arguments)
    for at, argument in enumerate(arguments):
        before, after = arguments[:at], arguments[at + 1 :]
        if isinstance(argument, int):
            for other in {0, -1, 7, 2**62} - MEANINGFUL.get((name, at), set()):
                with pytest.raises(ValueError, match="needs"):
                    kernel(*before, other, *after)
            continue
        with pytest.raises(TypeError, match="must be"):
            kernel(*before, argument.astype(float), *after)
        # a graph of fewer unknowns is another graph
        if (name, at) not in {("neighbours", 0), ("neighbours", 2), ("clique_entries", 0)}:
            with pytest.raises(ValueError, match="needs"):
                kernel(*before, argument[:-1].copy(), *after)
        with pytest.raises(ValueError, match="needs"):
            kernel(*before, argument[:0], *after)


@pytest.mark.parametrize("parent", [[0, -1], [1, 0], [2, -1], [-2, -1]])
def test_trees_without_an_end_are_refused(parent):
    parent, ones = np.array(parent), np.ones(2, np.int64)
    with pytest.raises(ValueError, match="is_forest"):
        analysis.postorder(parent, ones)
    with pytest.raises(ValueError, match="is_forest"):
        analysis.supernodes(parent, ones)


def test_wrong_patterns_are_refused():
    # every node knows the next but not the one before
    n = 100
    with pytest.raises(ValueError, match="symmetric"):
        dissected(*graph_of(np.eye(n, k=1)))
    with pytest.raises(ValueError, match="a_piece"):
        analysis.nested_dissection(
            *graph_of(np.eye(3)), np.arange(3), np.array([0, 1, 0, 0]), np.array([2, 3, 0, 0]), 2, 1
        )
    path = np.eye(3, k=1) + np.eye(3, k=-1)
    where, parent, counts = analysed(path, np.arange(3))
    first, place = np.arange(4), np.arange(3)
    with pytest.raises(ValueError, match="filled == room"):
        analysis.supernode_rows(*where, first, parent, np.array([3, 2, 1]))
    row_start, rows = analysis.supernode_rows(*where, first, parent, counts)
    with pytest.raises(ValueError, match="parent_has_all_rows"):
        analysis.positions_in_parent(first, row_start, rows, np.array([2, 2, -1]))
    column_start, entry_row, _ = analysis.number_entries(*where, first, row_start, rows)
    with pytest.raises(ValueError, match="entry_is_in_the_pattern"):
        analysis.clique_entries(*packed([[0, 2]]), place, column_start, entry_row)
