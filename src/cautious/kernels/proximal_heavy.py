"""The pairs whose answers to prices count in a Newton matrix, and a copy of their transitions.

Legend as in ``kernels.proximal``. A pair of weight w adds w b b' to the matrix, b its row of B. Where w b_j^2 is a
small share of every diagonal entry j it touches, the matrix, scaled to a unit diagonal, hardly notices that the pair is
missing.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask

ZERO, ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def mark_heavy(
    first: Indices,
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    free: Array,
    own: Array,
    share: float,
    heavy: Mask,
) -> tuple[int, int]:
    """Mark pairs that are more than a ``share`` of the diagonal ``own`` somewhere; how many, and their transitions."""
    n_rows, n_entries = ZERO, ZERO
    for s in range(np.uint64(own.size)):
        for row in range(first[s], first[s + ONE]):
            begin, end = np.uint64(indptr[row]), np.uint64(indptr[row + ONE])
            most = 1.0 / own[s]
            for k in range(begin, end):
                most = max(most, (gamma * data[k]) ** 2 / own[np.uint64(indices[k])])
            heavy[row] = free[row] * most > share
            if heavy[row]:
                n_rows += ONE
                n_entries += end - begin
    return int(n_rows), int(n_entries)


@njit(cache=True, nogil=True)
def copy_heavy(
    first: Indices,
    indptr: Indices,
    indices: Indices,
    data: Array,
    free: Array,
    heavy: Mask,
    new_first: Indices,
    new_indptr: Indices,
    new_indices: Indices,
    new_data: Array,
    new_free: Array,
) -> None:
    """The marked pairs alone, with their transitions and weights."""
    n_rows, n = ZERO, ZERO
    new_first[0], new_indptr[0] = 0, 0
    for s in range(np.uint64(first.size - 1)):
        for row in range(first[s], first[s + ONE]):
            if heavy[row]:
                for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + ONE])):
                    new_indices[n] = indices[k]
                    new_data[n] = data[k]
                    n += ONE
                new_free[n_rows] = free[row]
                n_rows += ONE
                new_indptr[n_rows] = n
        new_first[s + ONE] = n_rows
