"""Loops over the graph of a model.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); ``allowed`` (S*A,) which pairs exist.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cautious.arrays import Array, Indices, Mask


@njit(cache=True, nogil=True)
def strong_components(indptr: Indices, indices: Indices, kept: Mask, n_states: int) -> NDArray[np.int32]:
    """The strongly connected component of each state (S,), using only the kept pairs: Tarjan's method, with a stack.

    ``order`` is when a state was first seen, ``low`` the earliest open state known to be reached from it; the component
    of a state is -1 while it is open.
    """
    n_actions = kept.size // n_states
    component = np.full(n_states, -1, dtype=np.int32)
    order = np.full(n_states, -1, dtype=np.int64)
    low = np.empty(n_states, dtype=np.int64)
    row_at, entry_at = np.empty(n_states, dtype=np.int64), np.empty(n_states, dtype=np.int64)
    path, opened = np.empty(n_states, dtype=np.int64), np.empty(n_states, dtype=np.int64)
    seen, n_open, n_components = 0, 0, 0
    for root in range(n_states):
        if order[root] >= 0:
            continue
        depth, fresh = 0, np.int64(root)
        while True:
            if fresh >= 0:
                order[fresh] = low[fresh] = seen
                row_at[fresh] = fresh * n_actions
                entry_at[fresh] = np.int64(indptr[fresh * n_actions])
                opened[n_open], path[depth] = fresh, fresh
                seen, n_open, depth, fresh = seen + 1, n_open + 1, depth + 1, np.int64(-1)
            s = path[depth - 1]
            while row_at[s] < (s + 1) * n_actions:
                row = row_at[s]
                if not kept[row] or entry_at[s] >= np.int64(indptr[row + 1]):
                    row_at[s] = row + 1
                    entry_at[s] = np.int64(indptr[row + 1])
                    continue
                j = np.int64(indices[entry_at[s]])
                entry_at[s] += 1
                if order[j] < 0:
                    fresh = j
                    break
                if component[j] < 0:
                    low[s] = min(low[s], order[j])
            if fresh >= 0:
                continue
            if low[s] == order[s]:
                while True:
                    n_open -= 1
                    component[opened[n_open]] = n_components
                    if opened[n_open] == s:
                        break
                n_components += 1
            depth -= 1
            if depth == 0:
                break
            above = path[depth - 1]
            low[above] = min(low[above], low[s])
    return component


@njit(cache=True, nogil=True)
def drop_leaving(indptr: Indices, indices: Indices, kept: Mask, component: NDArray[np.int32]) -> int:
    """Drop the pairs (S*A,) with a successor outside the component of their state; how many there were."""
    n_actions, dropped = kept.size // component.size, 0
    for row in range(kept.size):
        if kept[row]:
            home = component[row // n_actions]
            for k in range(indptr[row], indptr[row + 1]):
                if component[indices[k]] != home:
                    kept[row] = False
                    dropped += 1
                    break
    return dropped


@njit(cache=True, nogil=True)
def absorbing(indptr: Indices, indices: Indices, allowed: Mask, n_states: int) -> Mask:
    """States (S,) that nothing leaves."""
    n_actions = allowed.size // n_states
    out = np.ones(n_states, dtype=np.bool_)
    for row in range(allowed.size):
        s = row // n_actions
        if allowed[row] and out[s]:
            for k in range(indptr[row], indptr[row + 1]):
                if np.int64(indices[k]) != s:
                    out[s] = False
                    break
    return out


@njit(cache=True, nogil=True)
def twins(
    indptr: Indices, indices: Indices, data: Array, reward: Array, pay: Array, allowed: Mask, n_states: int
) -> Indices:
    """How many states have two actions a < b that do and pay the same: (A, A).

    ``reward`` (S*A,) is the mean, ``pay`` the reward of each outcome, empty if rewards do not depend on it.
    """
    n_actions = allowed.size // n_states
    count = np.zeros((n_actions, n_actions), dtype=np.int64)
    for s in range(n_states):
        for a in range(n_actions):
            one = s * n_actions + a
            if not allowed[one]:
                continue
            for b in range(a + 1, n_actions):
                two = s * n_actions + b
                length = np.int64(indptr[one + 1]) - np.int64(indptr[one])
                other = np.int64(indptr[two + 1]) - np.int64(indptr[two])
                same = allowed[two] and length == other and reward[one] == reward[two]
                k = 0
                while same and k < length:
                    i, j = np.int64(indptr[one]) + k, np.int64(indptr[two]) + k
                    same = indices[i] == indices[j] and data[i] == data[j] and (pay.size == 0 or pay[i] == pay[j])
                    k += 1
                if same:
                    count[a, b] += 1
    return count
