"""Loops over the rows of the transition matrix.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); ``r`` (S*A,) a reward table;
``allowed`` (S*A,) which pairs exist; ``gamma`` the discount; ``v`` (S,) values.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.random import first_above


@njit(cache=True)
def bellman(
    indptr: Indices, indices: Indices, data: Array, r: Array, allowed: Mask, gamma: float, v: Array, action: Indices
) -> Array:
    """One optimality sweep: returns T v (S,) and overwrites ``action`` (S,), keeping it where it ties for best.

    A state without pairs keeps its value: nothing that is kept leads there.
    """
    n_states = v.size
    n_actions = r.size // n_states
    out = np.empty(n_states)
    for s in range(n_states):
        best = -np.inf
        kept = -np.inf
        best_action = action[s]
        for a in range(n_actions):
            row = s * n_actions + a
            if allowed[row]:
                total = 0.0
                for k in range(indptr[row], indptr[row + 1]):
                    total += data[k] * v[indices[k]]
                q = r[row] + gamma * total
                if a == action[s]:
                    kept = q
                if q > best:
                    best = q
                    best_action = a
        if kept < best:
            action[s] = best_action
        out[s] = best if best > -np.inf else v[s]
    return out


@njit(cache=True)
def evaluate_passes(
    indptr: Indices,
    indices: Indices,
    data: Array,
    r: Array,
    allowed: Mask,
    gamma: float,
    v: Array,
    action: Indices,
    passes: int,
) -> Array:
    """Apply the evaluation operator of a deterministic policy ``passes`` times."""
    n_states = v.size
    n_actions = r.size // n_states
    old, new = v.copy(), np.empty(n_states)
    for _ in range(passes):
        for s in range(n_states):
            row = s * n_actions + action[s]
            if not allowed[row]:
                new[s] = old[s]
                continue
            total = 0.0
            for k in range(indptr[row], indptr[row + 1]):
                total += data[k] * old[indices[k]]
            new[s] = r[row] + gamma * total
        old, new = new, old
    return old


@njit(cache=True)
def reach(indptr: Indices, indices: Indices, allowed: Mask, start: Mask) -> Mask:
    """States (S,) that some policy using allowed pairs can visit from the start states."""
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
                    j = indices[k]
                    if not seen[j]:
                        seen[j] = True
                        stack[top] = j
                        top += 1
    return seen


@njit(cache=True)
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


@njit(cache=True)
def running_sums(indptr: Indices, data: Array) -> Array:
    """Running sums that restart in every row: one over all rows would lose digits in large models."""
    out = np.empty_like(data)
    for row in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k]
            out[k] = total
    return out


@njit(cache=True)
def draw_successors(indptr: Indices, cumulative: Array, rows: Indices, uniforms: Array) -> Indices:
    """For each row, the position in the CSR arrays of the successor that a uniform number selects."""
    out = np.empty(rows.size, dtype=np.int64)
    for i in range(rows.size):
        out[i] = first_above(cumulative, indptr[rows[i]], indptr[rows[i] + 1] - 1, uniforms[i])
    return out
