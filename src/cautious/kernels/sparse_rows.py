"""Draws from the rows of the transition matrix.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a).
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.random import first_above


@njit(cache=True, nogil=True)
def running_sums(indptr: Indices, data: Array) -> Array:
    """Running sums that restart in every row: one over all rows would lose digits in large models."""
    out = np.empty_like(data)
    for row in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k]
            out[k] = total
    return out


@njit(cache=True, nogil=True)
def draw_successors(indptr: Indices, cumulative: Array, rows: Indices, uniforms: Array) -> Indices:
    """For each row, the position in the CSR arrays of the successor that a uniform number selects."""
    out = np.empty(rows.size, dtype=np.int64)
    for i in range(rows.size):
        out[i] = first_above(cumulative, indptr[rows[i]], indptr[rows[i] + 1] - 1, uniforms[i])
    return out
