"""Sparse Cholesky by dense fronts (multifrontal).

Legend: see ``cholesky_symbolic``; ``values`` the entries of the matrix sorted by supernode: those of supernode k are
``entry_start[k]:entry_start[k+1]`` and go to ``entry_place`` of its panel. ``blocks`` holds L, supernode by supernode,
as *panels* (own columns, rows): a column of L lies along memory, with one over its diagonal entry in place of that,
``padded`` so that tiles never cross its end. What a supernode leaves for its parent, its *rest* (upper triangle, row by
row), waits at ``rest_start`` of ``rests``.

All sums are made tile by tile (``cholesky_tiles``). Tiles at an edge also write numbers nobody reads: before the
diagonal of a column, before the diagonal of a rest, and where the next panel will be.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.cholesky_solve import eliminate, room_for_rows
from cautious.kernels.cholesky_tiles import ROWS, eliminate_four, padded, subtract_tile
from cautious.kernels.vectors import lanes

# columns that contribute to others at once: their tiles then stay close to the processor; a multiple of WIDTH
DEPTH = 48


@njit(cache=True, nogil=True)
def factor_panel(blocks: Array, begin: int, columns: int, size: int, least: Array) -> int:
    """Eliminate the columns of the panel at ``begin``, four at a time; returns how many pivots vanished."""
    width, bad, here, tile = padded(size), 0, np.zeros(ROWS), 2 * lanes(blocks)
    for start in range(0, columns, DEPTH):
        stop, first = min(start + DEPTH, columns), begin + start * width
        for j in range(start, stop, ROWS):
            at = begin + j * width
            if j > start:
                for low in range(j - j % tile, size, tile):
                    subtract_tile(blocks, at + low, width, blocks, first, width, j - start, j, low)
            for i in range(ROWS):
                # what comes after the last column is nobody's
                here[i] = least[j + i] if j + i < columns else 0.0
            bad += eliminate_four(blocks, at, width, j, here, columns - j)
        for low in range(stop, size, tile):
            for j in range(stop, min(low + tile, columns), ROWS):
                subtract_tile(blocks, begin + j * width + low, width, blocks, first, width, DEPTH, j, low)
    return bad


@njit(cache=True, nogil=True)
def update_rest(blocks: Array, begin: int, columns: int, size: int, rests: Array, place: int) -> None:
    """Subtract from the rest at ``place`` what the columns of the panel contribute."""
    width, left = padded(size), size - columns
    stride, tile = padded(left), 2 * lanes(blocks)
    for start in range(0, columns, DEPTH):
        count, first = min(DEPTH, columns - start), begin + start * width
        for low in range(0, left, tile):
            for i in range(0, min(low + tile, left), ROWS):
                corner = place + i * stride + low
                subtract_tile(rests, corner, stride, blocks, first, width, count, columns + i, columns + low)


@njit(cache=True, nogil=True)
def extend_add(
    blocks: Array, begin: int, columns: int, size: int, rests: Array, place: int, child: int, inside: Indices
) -> None:
    """Add the rest at ``child`` to panel and rest, at its places ``inside``."""
    n, own, stride = np.uint64(inside.size), np.uint64(columns), np.uint64(padded(inside.size))
    width, rest_width = np.uint64(padded(size)), np.uint64(padded(size - columns))
    for j in range(n):
        of, at = np.uint64(child) + j * stride, np.uint64(inside[j])
        if at < own:
            row = np.uint64(begin) + at * width
            for i in range(j, n):
                blocks[row + np.uint64(inside[i])] += rests[of + i]
        else:
            row = np.uint64(place) + (at - own) * rest_width - own
            for i in range(j, n):
                rests[row + np.uint64(inside[i])] += rests[of + i]


@njit(cache=True, nogil=True)
def clear(rest: Array, left: int) -> None:
    """Zero the upper triangle."""
    stride = padded(left)
    for i in range(left):
        rest[i * stride + i : i * stride + left] = 0.0


@njit(cache=True, nogil=True)
def factor(
    values: Array,
    entry_start: Indices,
    entry_place: Indices,
    least: Array,
    first: Indices,
    above: Indices,
    row_start: Indices,
    rows: Indices,
    inside: Indices,
    block_start: Indices,
    rest_start: Indices,
    blocks: Array,
    rests: Array,
    x: Array,
) -> int:
    """L into ``blocks``; pivots not above ``least`` (n,) count as zero. Returns how many did.

    On the way x <- L^-1 x, in the order of elimination: a panel is at hand when it has just been made.
    """
    made, bad, here = above.size, 0, room_for_rows(row_start, blocks)
    n_children = np.zeros(made, np.int64)
    for k in range(made):
        if above[k] >= 0:
            n_children[above[k]] += 1
    waiting, held = np.empty(made, np.int64), 0
    for k in range(made):
        columns, size, begin = first[k + 1] - first[k], row_start[k + 1] - row_start[k], block_start[k]
        left = size - columns
        panel, rest = blocks[begin : block_start[k + 1]], rests[rest_start[k] :]
        panel[:] = 0.0
        clear(rest, left)
        for e in range(np.uint64(entry_start[k]), np.uint64(entry_start[k + 1])):
            panel[np.uint64(entry_place[e])] += values[e]
        # in the order of the tree a supernode's children are the last that wait
        for child in waiting[held - n_children[k] : held]:
            low, high = row_start[child] + first[child + 1] - first[child], row_start[child + 1]
            extend_add(blocks, begin, columns, size, rests, rest_start[k], rest_start[child], inside[low:high])
        held -= n_children[k]
        bad += factor_panel(blocks, begin, columns, size, least[first[k] : first[k + 1]])
        eliminate(k, first, row_start, rows, block_start, blocks, here, x)
        if above[k] >= 0:
            update_rest(blocks, begin, columns, size, rests, rest_start[k])
            waiting[held] = k
            held += 1
    return bad
