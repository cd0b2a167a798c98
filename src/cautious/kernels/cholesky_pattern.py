"""From the cliques of a matrix to its pattern, and from its pattern to places in the fronts of a factorisation.

The matrices here are sums of small dense blocks, each on a *clique* of unknowns
``members[clique_start[c]:clique_start[c+1]]``. Entries of the lower triangle are numbered column by column in the order
of elimination, the diagonal first; ``column_start`` (n+1,) and ``entry_row`` say which they are.
"""

import numpy as np
from numba import njit

from cautious.arrays import Indices
from cautious.kernels.cholesky_tiles import padded


@njit(cache=True, nogil=True)
def cliques_of(clique_start: Indices, members: Indices, n: int) -> tuple[Indices, Indices]:
    """The cliques of every unknown, as (start, cliques)."""
    start = np.zeros(n + 1, np.int64)
    for e in range(members.size):
        start[members[e] + 1] += 1
    for i in range(n):
        start[i + 1] += start[i]
    place, cliques = start[:-1].copy(), np.empty(members.size, np.int64)
    for c in range(clique_start.size - 1):
        for e in range(clique_start[c], clique_start[c + 1]):
            i = members[e]
            cliques[place[i]] = c
            place[i] += 1
    return start, cliques


@njit(cache=True, nogil=True)
def neighbours(clique_start: Indices, members: Indices, n: int) -> tuple[Indices, Indices]:
    """The symmetric pattern without its diagonal, as CSR."""
    start, cliques = cliques_of(clique_start, members, n)
    mark, indptr = np.full(n, -1, np.int64), np.zeros(n + 1, np.int64)
    for i in range(n):
        mark[i] = i
        for k in range(start[i], start[i + 1]):
            c = cliques[k]
            for e in range(clique_start[c], clique_start[c + 1]):
                j = members[e]
                if mark[j] != i:
                    mark[j] = i
                    indptr[i + 1] += 1
        indptr[i + 1] += indptr[i]
    indices = np.empty(indptr[n], np.int32)
    mark[:] = -1
    for i in range(n):
        mark[i] = i
        filled = indptr[i]
        for k in range(start[i], start[i + 1]):
            c = cliques[k]
            for e in range(clique_start[c], clique_start[c + 1]):
                j = members[e]
                if mark[j] != i:
                    mark[j] = i
                    indices[filled] = j
                    filled += 1
    return indptr, indices


@njit(cache=True, nogil=True)
def number_entries(
    indptr: Indices,
    indices: Indices,
    order: Indices,
    place: Indices,
    first: Indices,
    row_start: Indices,
    rows: Indices,
) -> tuple[Indices, Indices, Indices]:
    """(column_start, entry_row, entry_place): the lower triangle's entries and where they go in their panels."""
    n = order.size
    total = n + indices.size // 2
    column_start, entry_row = np.zeros(n + 1, np.int64), np.empty(total, np.int64)
    entry_place, local, filled = np.empty(total, np.int64), np.empty(n, np.int64), 0
    for k in range(first.size - 1):
        begin, size = first[k], row_start[k + 1] - row_start[k]
        width = padded(size)
        for e in range(size):
            local[rows[row_start[k] + e]] = e
        for j in range(begin, first[k + 1]):
            entry_row[filled], entry_place[filled] = j, (j - begin) * width + j - begin
            filled += 1
            node = order[j]
            for e in range(indptr[node], indptr[node + 1]):
                i = place[indices[e]]
                if i > j:
                    entry_row[filled], entry_place[filled] = i, (j - begin) * width + local[i]
                    filled += 1
            column_start[j + 1] = filled
    return column_start, entry_row, entry_place


@njit(cache=True, nogil=True)
def clique_entries(
    clique_start: Indices, members: Indices, place: Indices, column_start: Indices, entry_row: Indices
) -> tuple[Indices, Indices]:
    """(start, entries): for every clique, row by row, the entries of the lower triangle of its block."""
    n_cliques = clique_start.size - 1
    start = np.zeros(n_cliques + 1, np.int64)
    for c in range(n_cliques):
        size = clique_start[c + 1] - clique_start[c]
        start[c + 1] = start[c] + size * (size + 1) // 2
    entries, filled = np.empty(start[n_cliques], np.int32), 0
    for c in range(n_cliques):
        begin = clique_start[c]
        for a in range(begin, clique_start[c + 1]):
            for b in range(begin, a + 1):
                i, j = place[members[a]], place[members[b]]
                at, row = column_start[min(i, j)], max(i, j)
                while entry_row[at] != row:
                    at += 1
                entries[filled] = at
                filled += 1
    return start, entries
