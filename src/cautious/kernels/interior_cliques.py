"""Which unknowns the pairs of each state meet in the flow, and with which coefficients.

Legend: pairs ``pair_start[s]:pair_start[s+1]`` belong to state s; their rows of B = gamma P - E live on the unknowns
``members[start[s]:start[s+1]]`` and are stored densely, member by member, from ``coefficient_start[s]``.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask


@njit(cache=True, nogil=True)
def clique_sizes(indptr: Indices, indices: Indices, active: Mask, extra: bool) -> tuple[Indices, Indices]:
    """(start, coefficient_start) of every state; inactive states have neither pairs nor members."""
    n_states, n_actions = active.shape
    start, coefficient_start = np.zeros(n_states + 1, np.int64), np.zeros(n_states + 1, np.int64)
    mark = np.full(n_states, -1, np.int64)
    for s in range(n_states):
        size, pairs = 0, 0
        for a in range(n_actions):
            if active[s, a]:
                if pairs == 0:
                    mark[s] = s
                    size = 2 if extra else 1
                pairs += 1
                for k in range(indptr[s * n_actions + a], indptr[s * n_actions + a + 1]):
                    if mark[indices[k]] != s:
                        mark[indices[k]] = s
                        size += 1
        start[s + 1], coefficient_start[s + 1] = start[s] + size, coefficient_start[s] + size * pairs
    return start, coefficient_start


@njit(cache=True, nogil=True)
def fill_blocks(
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    active: Mask,
    extra: bool,
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
) -> None:
    """Members are the state, its successors and, if ``extra``, the unknown n_states + s with coefficient -1."""
    n_states, n_actions = active.shape
    local, mark = np.zeros(n_states, np.int64), np.full(n_states, -1, np.int64)
    for s in range(n_states):
        size, pairs = start[s + 1] - start[s], pair_start[s + 1] - pair_start[s]
        if size == 0:
            continue
        mark[s], local[s], filled = s, 0, 1
        members[start[s]] = s
        at = coefficient_start[s]
        for a in range(n_actions):
            if active[s, a]:
                coefficients[at] -= 1.0
                for k in range(indptr[s * n_actions + a], indptr[s * n_actions + a + 1]):
                    t = indices[k]
                    if mark[t] != s:
                        mark[t], local[t] = s, filled
                        members[start[s] + filled] = t
                        filled += 1
                    coefficients[at + local[t] * pairs] += gamma * data[k]
                if extra:
                    coefficients[at + (size - 1) * pairs] = -1.0
                at += 1
        if extra:
            members[start[s] + size - 1] = n_states + s
