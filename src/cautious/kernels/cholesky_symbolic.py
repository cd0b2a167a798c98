"""What a sparse Cholesky factor will look like, before any number is known.

Legend: ``order`` (n,) position -> node, ``place`` its inverse; ``parent`` (n,) elimination tree (-1 at roots);
``counts`` (n,) entries per column of L, diagonal included. A *supernode* is a range of columns ``first[k]:first[k+1]``
stored as one dense block on the common rows ``rows[row_start[k]:row_start[k+1]]`` (own columns first, ascending).
"""

import numpy as np
from numba import njit

from cautious.arrays import Indices
from cautious.kernels.cholesky_tiles import padded

# a child joins its parent when the block gets at most this share of zeros, by the columns of the union
SMALL, MIDDLE, LARGE = 16, 32, 64
ZEROS_SMALL, ZEROS_MIDDLE, ZEROS_LARGE, ZEROS_ANY = 0.8, 0.3, 0.1, 0.03


@njit(cache=True, nogil=True)
def elimination_tree(indptr: Indices, indices: Indices, order: Indices, place: Indices) -> Indices:
    """Liu's algorithm with path compression."""
    n = order.size
    parent, ancestor = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for i in range(n):
        node = order[i]
        for k in range(indptr[node], indptr[node + 1]):
            j = place[indices[k]]
            while j != -1 and j < i:
                following = ancestor[j]
                ancestor[j] = i
                if following == -1:
                    parent[j] = i
                j = following
    return parent


@njit(cache=True, nogil=True)
def postorder(parent: Indices, counts: Indices) -> Indices:
    """Children before parents, the fullest child last: it can then be joined with its parent."""
    n = parent.size
    head, following = np.full(n + 1, -1, np.int64), np.full(n, -1, np.int64)
    fullest = np.full(n + 1, -1, np.int64)
    for j in range(n):
        p = parent[j] if parent[j] >= 0 else n
        if fullest[p] < 0 or counts[j] > counts[fullest[p]]:
            fullest[p] = j
    for j in range(n - 1, -1, -1):
        p = parent[j] if parent[j] >= 0 else n
        if fullest[p] != j:
            following[j] = head[p]
            head[p] = j
    # the stack hands out the last pushed first, so that reversing its order puts the fullest child last
    out, stack, filled = np.empty(n, np.int64), np.empty(n + 1, np.int64), n
    stack[0], top = n, 1
    while top > 0:
        top -= 1
        node = stack[top]
        if node < n:
            filled -= 1
            out[filled] = node
        child = head[node]
        while child >= 0:
            stack[top] = child
            top += 1
            child = following[child]
        if fullest[node] >= 0:
            stack[top] = fullest[node]
            top += 1
    return out


@njit(cache=True, nogil=True)
def supernodes(parent: Indices, counts: Indices) -> Indices:
    """First columns of the supernodes, and n: columns of equal structure, then relaxed by joining last children."""
    n = parent.size
    first, until = np.empty(n + 1, np.int64), np.zeros(n + 1, np.int64)
    until[1:] = np.cumsum(counts)
    made, j = 0, 0
    while j < n:
        end = j + 1
        while end < n and parent[end - 1] == end and counts[end] == counts[end - 1] - 1:
            end += 1
        begin = j
        while made > 0 and begin <= parent[begin - 1] < end:
            child = first[made - 1]
            columns = end - child
            # the union's own columns plus the rows of the parent
            stored = columns * (columns + counts[end - 1] - 1) - columns * (columns - 1) // 2
            zero_share = (stored - until[end] + until[child]) / stored
            allowed = ZEROS_ANY
            if columns <= SMALL:
                allowed = ZEROS_SMALL
            elif columns <= MIDDLE:
                allowed = ZEROS_MIDDLE
            elif columns <= LARGE:
                allowed = ZEROS_LARGE
            if zero_share > allowed:
                break
            begin = child
            made -= 1
        first[made] = begin
        made += 1
        j = end
    first[made] = n
    return first[: made + 1].copy()


@njit(cache=True, nogil=True)
def block_parents(first: Indices, parent: Indices) -> tuple[Indices, Indices]:
    """Supernode of each column, and parent of each supernode (-1 at roots)."""
    n, made = parent.size, first.size - 1
    block, above = np.empty(n, np.int64), np.full(made, -1, np.int64)
    for k in range(made):
        block[first[k] : first[k + 1]] = k
    for k in range(made):
        p = parent[first[k + 1] - 1]
        if p >= 0:
            above[k] = block[p]
    return block, above


@njit(cache=True, nogil=True)
def block_rows(
    indptr: Indices, indices: Indices, order: Indices, place: Indices, first: Indices, above: Indices, counts: Indices
) -> tuple[Indices, Indices]:
    """(row_start, rows): the rows of every supernode, its own columns first."""
    made = above.size
    row_start = np.zeros(made + 1, np.int64)
    for k in range(made):
        row_start[k + 1] = row_start[k] + first[k + 1] - first[k] + counts[first[k + 1] - 1] - 1
    rows, mark = np.empty(row_start[made], np.int64), np.full(order.size, -1, np.int64)
    head, following = np.full(made, -1, np.int64), np.full(made, -1, np.int64)
    for k in range(made):
        begin, end, filled = first[k], first[k + 1], row_start[k]
        for j in range(begin, end):
            rows[filled] = j
            filled += 1
        own = filled
        for j in range(begin, end):
            node = order[j]
            for e in range(indptr[node], indptr[node + 1]):
                i = place[indices[e]]
                if i >= end and mark[i] != k:
                    mark[i] = k
                    rows[filled] = i
                    filled += 1
        child = head[k]
        while child >= 0:
            for e in range(row_start[child] + first[child + 1] - first[child], row_start[child + 1]):
                i = rows[e]
                if i >= end and mark[i] != k:
                    mark[i] = k
                    rows[filled] = i
                    filled += 1
            child = following[child]
        rows[own:filled].sort()
        if above[k] >= 0:
            following[k] = head[above[k]]
            head[above[k]] = k
    return row_start, rows


@njit(cache=True, nogil=True)
def places_in_parent(row_start: Indices, rows: Indices, first: Indices, above: Indices) -> Indices:
    """For every row of a supernode below its own columns: its position in the parent's rows."""
    inside = np.zeros(rows.size, np.int64)
    for k in range(above.size):
        p, begin, end = above[k], row_start[k] + first[k + 1] - first[k], row_start[k + 1]
        if p < 0:
            continue
        at = row_start[p]
        for e in range(begin, end):
            while rows[at] != rows[e]:
                at += 1
            inside[e] = at - row_start[p]
    return inside


@njit(cache=True, nogil=True)
def rest_places(row_start: Indices, first: Indices, above: Indices) -> tuple[Indices, int]:
    """Where the rests of the supernodes wait for their parents, and how many numbers that takes.

    There are two stacks, one for every second generation: a rest is made while those of the children are still needed.
    """
    made = above.size
    side, start, top, peak = (
        np.zeros(made, np.int64),
        np.zeros(made, np.int64),
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
    )
    held = np.zeros(made, np.int64)
    for k in range(made - 1, -1, -1):
        if above[k] >= 0:
            side[k] = 1 - side[above[k]]
    for k in range(made):
        left = row_start[k + 1] - row_start[k] - first[k + 1] + first[k]
        own, other = padded(left) ** 2, 1 - side[k]
        start[k] = top[side[k]]
        top[side[k]] += own
        peak[side[k]] = max(peak[side[k]], top[side[k]])
        top[other] -= held[k]
        if above[k] >= 0:
            held[above[k]] += own
        else:
            top[side[k]] -= own
    for k in range(made):
        start[k] += side[k] * peak[0]
    return start, peak[0] + peak[1]
