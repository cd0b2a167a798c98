"""How many entries every column of a sparse Cholesky factor has, without making it (Gilbert, Ng and Peyton).

Row i of L is a subtree of the elimination tree: its leaves are some of the entries of row i of the matrix. A column
counts the rows whose subtree it is in, which are differences along the tree: plus one at every leaf, minus one where
two branches meet, and minus one above the root. Legend: see ``cholesky_symbolic``.
"""

import numpy as np
from numba import njit

from cautious.arrays import Indices


@njit(cache=True, nogil=True)
def meeting(ancestor: Indices, j: int) -> int:
    """Where the branch of a leaf met those before it; paths are shortened on the way."""
    root = j
    while ancestor[root] != root:
        root = ancestor[root]
    while j != root:
        following = ancestor[j]
        ancestor[j] = root
        j = following
    return root


@njit(cache=True, nogil=True)
def column_counts(
    indptr: Indices, indices: Indices, order: Indices, place: Indices, parent: Indices, children_first: Indices
) -> Indices:
    """Entries per column of L; ``children_first`` (n,) are the columns in an order of the tree (``postorder``)."""
    n = order.size
    counts, first = np.zeros(n, np.int64), np.full(n, -1, np.int64)
    for k in range(n):
        j = children_first[k]
        counts[j] = 1 if first[j] < 0 else 0
        while j >= 0 and first[j] < 0:
            first[j] = k
            j = parent[j]
    ancestor, latest, leaf = np.arange(n), np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    for j in children_first:
        if parent[j] >= 0:
            counts[parent[j]] -= 1
        node = order[j]
        for e in range(indptr[node], indptr[node + 1]):
            i = place[indices[e]]
            # a leaf of row i's subtree: nothing below it was seen before
            if i > j and first[j] > latest[i]:
                latest[i] = first[j]
                counts[j] += 1
                if leaf[i] >= 0:
                    counts[meeting(ancestor, leaf[i])] -= 1
                leaf[i] = j
        if parent[j] >= 0:
            ancestor[j] = parent[j]
    for j in range(n):
        if parent[j] >= 0:
            counts[parent[j]] += counts[j]
    return counts
