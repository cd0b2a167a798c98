"""Sparse Cholesky by dense fronts (multifrontal), and its triangular solves.

Legend: see ``cholesky_symbolic``; ``values`` the entries of the matrix sorted by supernode: those of supernode k are
``entry_start[k]:entry_start[k+1]`` and go to ``entry_place`` of its front (row by row). ``blocks`` holds L, supernode
by supernode, as (rows, own columns). A front collects the supernode's own entries and what its children left over; its
own columns are eliminated, and the rest is left for the parent on a stack.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices

BLOCK = 32
TINY_PIVOT = 1e-15
HUGE = 1e100


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def factor_corner(front: Array, begin: int, end: int, least: Array) -> int:
    """The square block begin:end of a front, already updated by the columns before. Returns how many pivots vanished.

    A vanishing pivot is replaced by a huge one: its unknown then stays zero.
    """
    bad = 0
    for j in range(begin, end):
        pivot = front[j, j]
        for t in range(begin, j):
            pivot -= front[j, t] * front[j, t]
        if not pivot > least[j]:
            pivot = HUGE
            bad += 1
        root = np.sqrt(pivot)
        front[j, j] = root
        for i in range(j + 1, end):
            total = front[i, j]
            for t in range(begin, j):
                total -= front[i, t] * front[j, t]
            front[i, j] = total / root
    return bad


@njit(cache=True, nogil=True, fastmath={"contract"})
def subtract(out: Array, size: int, turned: Array, weights: Array, count: int) -> None:
    """out[:size] -= weights[:count] @ turned[:count, :size], four rows at a time."""
    t = 0
    while t + 4 <= count:
        a, b, c, d = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        p, q, r, s = turned[t], turned[t + 1], turned[t + 2], turned[t + 3]
        for i in range(size):
            out[i] -= a * p[i] + b * q[i] + c * r[i] + d * s[i]
        t += 4
    while t < count:
        a, p = weights[t], turned[t]
        for i in range(size):
            out[i] -= a * p[i]
        t += 1


@njit(cache=True, nogil=True, fastmath={"contract"})
def subtract_two(one: Array, two: Array, size: int, turned: Array, u: Array, v: Array, count: int) -> None:
    """As ``subtract`` for two outputs at once: every number of ``turned`` that is read is used twice."""
    t = 0
    while t + 4 <= count:
        a, b, c, d = u[t], u[t + 1], u[t + 2], u[t + 3]
        e, f, g, h = v[t], v[t + 1], v[t + 2], v[t + 3]
        p, q, r, s = turned[t], turned[t + 1], turned[t + 2], turned[t + 3]
        for i in range(size):
            one[i] -= a * p[i] + b * q[i] + c * r[i] + d * s[i]
            two[i] -= e * p[i] + f * q[i] + g * r[i] + h * s[i]
        t += 4
    while t < count:
        a, e, p = u[t], v[t], turned[t]
        for i in range(size):
            one[i] -= a * p[i]
            two[i] -= e * p[i]
        t += 1


@njit(cache=True, nogil=True)
def factor_below(front: Array, begin: int, end: int, turned: Array) -> None:
    """The rows below a factored block; ``turned`` holds them as columns, so that loops run along memory."""
    rows, count = front.shape[0] - end, np.uint64(end - begin)
    for i in range(np.uint64(0), np.uint64(rows)):
        row = front[end + i, begin:end]
        for j in range(np.uint64(0), count):
            turned[j, i] = row[j]
    for j in range(end - begin):
        out, share = turned[j], 1 / front[begin + j, begin + j]
        subtract(out, rows, turned, front[begin + j, begin:end], j)
        for i in range(rows):
            out[i] *= share
    for i in range(np.uint64(0), np.uint64(rows)):
        row = front[end + i, begin:end]
        for j in range(np.uint64(0), count):
            row[j] = turned[j, i]


@njit(cache=True, nogil=True)
def update_rest(front: Array, begin: int, end: int, turned: Array) -> None:
    """Subtract what the columns begin:end contribute to everything after them (lower triangle)."""
    rows, count = front.shape[0] - end, end - begin
    for i in range(end, front.shape[0] - 1, 2):
        one, two = front[i, end:], front[i + 1, end:]
        # the first row's entry beyond its diagonal is nobody's
        subtract_two(one, two, i + 2 - end, turned, front[i, begin:end], front[i + 1, begin:end], count)
    if rows % 2 == 1:
        subtract(front[-1, end:], rows, turned, front[-1, begin:end], count)


@njit(cache=True, nogil=True)
def factor_front(front: Array, columns: int, least: Array, turned: Array) -> int:
    """Eliminate the first columns of a front."""
    bad = 0
    for begin in range(0, columns, BLOCK):
        end = min(begin + BLOCK, columns)
        bad += factor_corner(front, begin, end, least)
        factor_below(front, begin, end, turned)
        update_rest(front, begin, end, turned)
    return bad


@njit(cache=True, nogil=True)
def extend_add(front: Array, left_over: Array, inside: Indices) -> None:
    """Add a child's left-over (lower triangle) at its places in the front."""
    for i in range(inside.size):
        into, of = front[inside[i]], left_over[i]
        for j in range(np.uint64(0), np.uint64(i + 1)):
            into[np.uint64(inside[j])] += of[j]


@njit(cache=True, nogil=True)
def clear(front: Array) -> None:
    """Zero the lower triangle; what is above the diagonal is never read."""
    for i in range(front.shape[0]):
        row = front[i]
        for j in range(i + 1):
            row[j] = 0.0


@njit(cache=True, nogil=True)
def keep(front: Array, columns: int, block: Array, left_over: Array) -> None:
    """Copy the lower triangle: own columns into ``block``, what is left for the parent into ``left_over``."""
    for i in range(front.shape[0]):
        row, own = front[i], block[i]
        for j in range(min(i + 1, columns)):
            own[j] = row[j]
        if i >= columns and left_over.size > 0:
            rest, into = row[columns:], left_over[i - columns]
            for j in range(i + 1 - columns):
                into[j] = rest[j]


@njit(cache=True, nogil=True)
def factor(
    values: Array,
    entry_start: Indices,
    entry_place: Indices,
    diagonal: Array,
    first: Indices,
    above: Indices,
    row_start: Indices,
    inside: Indices,
    block_start: Indices,
    blocks: Array,
    space: Array,
    stack: Array,
) -> int:
    """L into ``blocks``; ``diagonal`` (n,) of the matrix says which pivots count as zero. Returns how many did."""
    made, bad, top = above.size, 0, 0
    turned = np.empty((BLOCK, int(np.max(row_start[1:] - row_start[:-1]))))
    n_children = np.zeros(made, np.int64)
    for k in range(made):
        if above[k] >= 0:
            n_children[above[k]] += 1
    # children lie on the stack in the order of the tree: the last ones are on top
    waiting = np.empty(made, np.int64)
    held = 0
    for k in range(made):
        columns, size = first[k + 1] - first[k], row_start[k + 1] - row_start[k]
        front = space[: size * size].reshape(size, size)
        flat = space[: size * size]
        clear(front)
        for e in range(np.uint64(entry_start[k]), np.uint64(entry_start[k + 1])):
            flat[np.uint64(entry_place[e])] += values[e]
        for _ in range(n_children[k]):
            held -= 1
            child = waiting[held]
            begin = row_start[child] + first[child + 1] - first[child]
            left = row_start[child + 1] - begin
            top -= left * left
            extend_add(front, stack[top : top + left * left].reshape(left, left), inside[begin : begin + left])
        bad += factor_front(front, columns, TINY_PIVOT * diagonal[first[k] : first[k + 1]], turned)
        left = size - columns if above[k] >= 0 else 0
        left_over = stack[top : top + left * left].reshape(left, left)
        keep(front, columns, blocks[block_start[k] : block_start[k + 1]].reshape(size, columns), left_over)
        if above[k] >= 0:
            top += left * left
            waiting[held] = k
            held += 1
    return bad


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def solve(first: Indices, row_start: Indices, rows: Indices, block_start: Indices, blocks: Array, x: Array) -> None:
    """x <- (L L')^-1 x, in the order of elimination."""
    made = first.size - 1
    for k in range(made):
        begin, columns, size = first[k], first[k + 1] - first[k], row_start[k + 1] - row_start[k]
        block, own = blocks[block_start[k] : block_start[k + 1]].reshape(size, columns), x[begin : begin + columns]
        for i in range(columns):
            total = own[i]
            for j in range(i):
                total -= block[i, j] * own[j]
            own[i] = total / block[i, i]
        for i in range(columns, size):
            total = 0.0
            for j in range(columns):
                total += block[i, j] * own[j]
            x[np.uint64(rows[row_start[k] + i])] -= total
    for k in range(made - 1, -1, -1):
        begin, columns, size = first[k], first[k + 1] - first[k], row_start[k + 1] - row_start[k]
        block, own = blocks[block_start[k] : block_start[k + 1]].reshape(size, columns), x[begin : begin + columns]
        for i in range(columns, size):
            weight = x[np.uint64(rows[row_start[k] + i])]
            for j in range(columns):
                own[j] -= block[i, j] * weight
        for i in range(columns - 1, -1, -1):
            own[i] /= block[i, i]
            for j in range(i):
                own[j] -= block[i, j] * own[i]
