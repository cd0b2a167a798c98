"""Loops over the rows of the transition matrix.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); ``allowed`` (S*A,) which pairs exist.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask

ZERO, ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def reach(indptr: Indices, indices: Indices, allowed: Mask, start: Mask) -> Mask:
    """States (S,) that some policy using allowed pairs can visit from the start states."""
    if start.all():
        return start.copy()
    n_states = start.size
    n_actions = allowed.size // n_states
    seen = start.copy()
    stack = np.empty(n_states, dtype=np.int64)
    top = 0
    for s in range(n_states):
        if seen[s]:
            stack[top] = s
            top += 1
    while top > 0:
        top -= 1
        s = stack[top]
        for row in range(s * n_actions, (s + 1) * n_actions):
            if allowed[row]:
                for k in range(indptr[row], indptr[row + 1]):
                    j = np.int64(indices[k])
                    if not seen[j]:
                        seen[j] = True
                        stack[top] = j
                        top += 1
    return seen


@njit(cache=True, nogil=True)
def keep_safe(indptr: Indices, indices: Indices, allowed: Mask, n_states: int) -> Mask:
    """Largest set of pairs (S*A,) with which an agent can go on for ever without leaving that set.

    A pair goes when one of its successors has no pair left; repeated until nothing changes.
    """
    n_actions = allowed.size // n_states
    kept = allowed.copy()
    changed = True
    while changed:
        changed = False
        alive = np.zeros(n_states, dtype=np.bool_)
        for row in range(kept.size):
            if kept[row]:
                alive[row // n_actions] = True
        for row in range(kept.size):
            if kept[row]:
                for k in range(indptr[row], indptr[row + 1]):
                    if not alive[indices[k]]:
                        kept[row] = False
                        changed = True
                        break
    return kept


@njit(cache=True, nogil=True)
def row_lengths(indptr: Indices, n_states: int) -> tuple[int, int]:
    """The length of the longest row, and the sum over the states of the longest of each."""
    n_actions = (indptr.size - 1) // n_states
    widest, together = 0, 0
    for s in range(n_states):
        longest = 0
        for row in range(s * n_actions, (s + 1) * n_actions):
            longest = max(longest, int(indptr[row + 1]) - int(indptr[row]))
        widest, together = max(widest, longest), together + longest
    return widest, together


@njit(cache=True, nogil=True)
def well_formed(indptr: Indices, indices: Indices, n_states: int) -> bool:
    """Whether the rows lie one after the other, each sorted, without duplicates and within bounds.

    Indices are unsigned, so a negative one counts as too large.
    """
    n_rows, n_entries = np.uint64(indptr.size - 1), np.uint64(indices.size)
    if indptr[0] != 0 or indptr[n_rows] != n_entries:
        return False
    fine = True
    for row in range(n_rows):
        fine &= indptr[row] <= indptr[row + ONE]
    for k in range(n_entries):
        fine &= indices[k] < n_states
    if not fine:
        return False
    # entries that are not larger than the one before must all be the first of their rows; counted apart from the rows,
    # because loops over short rows are slow
    drops = 0
    for k in range(ONE, n_entries):
        drops += indices[k] <= indices[k - ONE]
    for row in range(n_rows):
        start = np.uint64(indptr[row])
        if ZERO < start < indptr[row + ONE]:
            drops -= indices[start] <= indices[start - ONE]
    return drops == 0


@njit(cache=True, nogil=True)
def are_probabilities(indptr: Indices, data: Array, allowed: Mask, eps: float) -> bool:
    """Whether the rows need no repair: no stored zeros, sums of one to rounding, nothing where not allowed."""
    for row in range(allowed.size):
        length = np.int64(indptr[row + 1]) - np.int64(indptr[row])
        if (length > 0) != allowed[row]:
            return False
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            if not data[k] > 0.0:
                return False
            total += data[k]
        if length > 0 and not abs(total - 1.0) <= eps * (2 + length):
            return False
    return True
