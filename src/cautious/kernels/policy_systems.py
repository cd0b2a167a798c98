"""The chain of one policy, from the rows of the transitions.

Legend: (indptr, indices, data) the transitions, row ``s*A + a``; ``pi`` (S*A,) a policy; (pointer, successor, chance)
its chain P (S, S) by rows. All indices are unsigned.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.planning import ONE


@njit(cache=True, nogil=True)
def choose_rows(
    indptr: Indices,
    indices: Indices,
    data: Array,
    r: Array,
    action: Indices,
    pointer: Indices,
    successor: Indices,
    chance: Array,
    b: Array,
) -> None:
    """The chain of a deterministic policy and its reward ``b`` (S,): one row of the transitions per state.

    ``r`` (S*A,) is minus infinity on pairs that may not be used; a state that has no other is paid nothing.
    """
    n_actions = np.uint64(r.size // action.size)
    n = np.uint64(0)
    for s in range(np.uint64(action.size)):
        pointer[s] = n
        row = s * n_actions + action[s]
        for k in range(indptr[row], indptr[row + ONE]):
            successor[n] = indices[k]
            chance[n] = data[k]
            n += ONE
        b[s] = r[row] if r[row] > -np.inf else 0.0
    pointer[action.size] = n


@njit(cache=True, nogil=True)
def change_rows(
    indptr: Indices,
    indices: Indices,
    data: Array,
    r: Array,
    action: Indices,
    held: Indices,
    pointer: Indices,
    successor: Indices,
    chance: Array,
    b: Array,
) -> bool:
    """Bring the chain of the ``held`` actions (S,) to those of ``action``; False if a row has not the same length.

    Everything must be as ``choose_rows`` left it. After False the chain is of no use.
    """
    n_actions = np.uint64(r.size // action.size)
    for s in range(np.uint64(action.size)):
        if action[s] != held[s]:
            row, n = s * n_actions + action[s], pointer[s]
            if indptr[row + ONE] - indptr[row] != pointer[s + ONE] - n:
                return False
            for k in range(indptr[row], indptr[row + ONE]):
                successor[n] = indices[k]
                chance[n] = data[k]
                n += ONE
            b[s] = r[row] if r[row] > -np.inf else 0.0
            held[s] = action[s]
    return True


@njit(cache=True, nogil=True)
def mix_rows(
    indptr: Indices, indices: Indices, data: Array, pi: Array, pointer: Indices, successor: Indices, chance: Array
) -> None:
    """The chain of any policy: rows of the same state mixed, entries of the same successor added."""
    n_states = np.uint64(pointer.size - 1)
    n_actions = np.uint64(pi.size // (pointer.size - 1))
    place = np.zeros(pointer.size, np.uint64)
    n = np.uint64(0)
    for s in range(n_states):
        start = n
        pointer[s] = n
        for row in range(s * n_actions, (s + ONE) * n_actions):
            weight = pi[row]
            if weight > 0.0:
                for k in range(indptr[row], indptr[row + ONE]):
                    j = indices[k]
                    # a place counts only if it lies in this row and was made for this successor
                    at = place[j]
                    if start <= at < n and successor[at] == j:
                        chance[at] += weight * data[k]
                    else:
                        place[j] = n
                        successor[n] = j
                        chance[n] = weight * data[k]
                        n += ONE
    pointer[n_states] = n


@njit(cache=True, nogil=True)
def missing_flow(
    pointer: Indices, successor: Indices, chance: Array, gamma: float, b: Array, x: Array
) -> tuple[Array, float]:
    """b + gamma P' x - x, (S,), and its 1-norm."""
    out, size = b - x, 0.0
    for s in range(np.uint64(x.size)):
        carried = gamma * x[s]
        if carried != 0.0:
            for k in range(pointer[s], pointer[s + ONE]):
                out[successor[k]] += carried * chance[k]
    for s in range(out.size):
        size += abs(out[s])
    return out, size
