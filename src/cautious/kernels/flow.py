"""The flow operator of a model and its adjoint, without building a matrix.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); B = gamma P - E (S*A, S), where E
picks the state of a pair; ``x`` (S,), ``y`` (S*A,), ``w`` (S*A,) weights. Pairs of weight zero are skipped.

Unsigned indices spare numba's test for negative ones, which is half of the time.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices


@njit(cache=True, nogil=True)
def flow_rows(indptr: Indices, indices: Indices, data: Array, gamma: float, x: Array, out: Array) -> None:
    """out = B x on all pairs: gamma E[x(s')] - x(s)."""
    n_actions = out.size // x.size
    row, one = np.uint64(0), np.uint64(1)
    for s in range(x.size):
        for _ in range(n_actions):
            total = 0.0
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + one])):
                total += data[k] * x[np.uint64(indices[k])]
            out[row] = gamma * total - x[s]
            row += one


@njit(cache=True, nogil=True)
def flow_columns(indptr: Indices, indices: Indices, data: Array, gamma: float, y: Array, out: Array) -> None:
    """out = B' y: gamma times what arrives in each state, minus what leaves it."""
    n_actions = y.size // out.size
    row, one = np.uint64(0), np.uint64(1)
    out[:] = 0.0
    for s in range(out.size):
        leaving = 0.0
        for _ in range(n_actions):
            mass = y[row]
            if mass != 0.0:
                leaving += mass
                mass *= gamma
                for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + one])):
                    out[np.uint64(indices[k])] += mass * data[k]
            row += one
        out[s] -= leaving


@njit(cache=True, nogil=True)
def normal_product(
    indptr: Indices, indices: Indices, data: Array, gamma: float, w: Array, x: Array, out: Array
) -> None:
    """out = B' diag(w) B x in one pass over the transitions."""
    n_actions = w.size // x.size
    row, one = np.uint64(0), np.uint64(1)
    out[:] = 0.0
    for s in range(x.size):
        leaving = 0.0
        for _ in range(n_actions):
            if w[row] != 0.0:
                first, last = np.uint64(indptr[row]), np.uint64(indptr[row + one])
                total = 0.0
                for k in range(first, last):
                    total += data[k] * x[np.uint64(indices[k])]
                total = w[row] * (gamma * total - x[s])
                leaving += total
                total *= gamma
                for k in range(first, last):
                    out[np.uint64(indices[k])] += total * data[k]
            row += one
        out[s] -= leaving


@njit(cache=True, nogil=True)
def normal_diagonal(indptr: Indices, indices: Indices, data: Array, gamma: float, w: Array, out: Array) -> None:
    """The diagonal of B' diag(w) B."""
    n_actions = w.size // out.size
    out[:] = 0.0
    for row in range(w.size):
        weight = w[row]
        if weight != 0.0:
            s = row // n_actions
            own = -1.0
            for k in range(indptr[row], indptr[row + 1]):
                if indices[k] == s:
                    own += gamma * data[k]
                else:
                    out[indices[k]] += weight * (gamma * data[k]) ** 2
            out[s] += weight * own * own
