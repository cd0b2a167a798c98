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
DEPTH = 64


@njit(cache=True, nogil=True)
def factor_panel(blocks: Array, begin: int, columns: int, size: int, least: Array, own: int) -> int:
    """Eliminate the columns of the panel at ``begin``, four at a time; returns how many pivots vanished.

    ``least`` of its pivots is from ``own`` on; what comes after the last column is nobody's, and may be anything.
    """
    width, bad, tile = padded(size), 0, 2 * lanes(blocks)
    for start in range(0, columns, DEPTH):
        stop, first = min(start + DEPTH, columns), begin + start * width
        for j in range(start, stop, ROWS):
            at = begin + j * width
            if j > start:
                for low in range(j - j % tile, size, tile):
                    subtract_tile(blocks, at + low, width, blocks, first, width, j - start, j, low, False)
            bad += eliminate_four(blocks, at, width, j, least, own + j, columns - j)
        for low in range(stop, size, tile):
            for j in range(stop, min(low + tile, columns), ROWS):
                subtract_tile(blocks, begin + j * width + low, width, blocks, first, width, DEPTH, j, low, False)
    return bad


@njit(cache=True, nogil=True)
def make_rest(blocks: Array, begin: int, columns: int, size: int, rests: Array, place: int) -> None:
    """What the columns of the panel contribute to the rest at ``place``, which is blank."""
    width, left = padded(size), size - columns
    stride, tile = padded(left), 2 * lanes(blocks)
    for start in range(0, columns, DEPTH):
        count, first, blank = min(DEPTH, columns - start), begin + start * width, start == 0
        for low in range(0, left, tile):
            for i in range(0, min(low + tile, left), ROWS):
                corner = place + i * stride + low
                subtract_tile(rests, corner, stride, blocks, first, width, count, columns + i, columns + low, blank)


@njit(cache=True, nogil=True)
def add_to_panel(blocks: Array, begin: int, columns: int, size: int, rests: Array, child: int, inside: Indices) -> None:
    """Add those rows of the rest at ``child`` that belong to the panel's columns, at its places ``inside``."""
    n, stride = np.uint64(inside.size), np.uint64(padded(inside.size))
    width, until = np.uint64(padded(size)), np.uint64(np.searchsorted(inside, columns))
    for j in range(until):
        of, row = np.uint64(child) + j * stride, np.uint64(begin) + np.uint64(inside[j]) * width
        for i in range(j, n):
            blocks[row + np.uint64(inside[i])] += rests[of + i]


@njit(cache=True, nogil=True)
def add_to_rest(columns: int, size: int, rests: Array, place: int, child: int, inside: Indices) -> None:
    """Add the other rows of the rest at ``child`` to the rest at ``place``."""
    n, own, stride = np.uint64(inside.size), np.uint64(columns), np.uint64(padded(inside.size))
    width, begin = np.uint64(padded(size - columns)), np.uint64(np.searchsorted(inside, columns))
    for j in range(begin, n):
        of, row = np.uint64(child) + j * stride, np.uint64(place) + (np.uint64(inside[j]) - own) * width - own
        for i in range(j, n):
            rests[row + np.uint64(inside[i])] += rests[of + i]


@njit(cache=True, nogil=True)
def least_pivots(values: Array, diagonal: Indices, share: float, least: Array) -> None:
    """``least``: this share of each diagonal entry; entries of zero become one."""
    for i in range(np.uint64(diagonal.size)):
        at = np.uint64(diagonal[i])
        if values[at] == 0.0:
            values[at] = 1.0
        least[i] = share * values[at]


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
    """L into ``blocks``; pivots not above ``least`` (n + ROWS,) count as zero. Returns how many did.

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
        panel, children = blocks[begin : block_start[k + 1]], waiting[held - n_children[k] : held]
        panel[:] = 0.0
        for e in range(np.uint64(entry_start[k]), np.uint64(entry_start[k + 1])):
            panel[np.uint64(entry_place[e])] += values[e]
        # in the order of the tree a supernode's children are the last that wait
        for child in children:
            low, high = row_start[child] + first[child + 1] - first[child], row_start[child + 1]
            add_to_panel(blocks, begin, columns, size, rests, rest_start[child], inside[low:high])
        bad += factor_panel(blocks, begin, columns, size, least, first[k])
        eliminate(k, first, row_start, rows, block_start, blocks, here, x)
        if above[k] >= 0:
            make_rest(blocks, begin, columns, size, rests, rest_start[k])
            for child in children:
                low, high = row_start[child] + first[child + 1] - first[child], row_start[child + 1]
                add_to_rest(columns, size, rests, rest_start[k], rest_start[child], inside[low:high])
        held -= n_children[k]
        if above[k] >= 0:
            waiting[held] = k
            held += 1
    return bad
