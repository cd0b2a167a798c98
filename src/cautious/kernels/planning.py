"""Bellman sweeps.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); ``r`` (S*A,) a reward table, minus
infinity on pairs that may not be used; ``gamma`` the discount; ``v`` (S,) values; (pointer, successor, chance) the
chain P_pi of one policy and ``b`` (S,) its reward. Loops run over pieces of ``PIECE`` states, ``first`` to ``last``.
All indices are unsigned: the compiler need not test for negative ones, which halves the time.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.threads import PIECE

ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def expectation(pointer: Indices, successor: Indices, chance: Array, v: Array, row: int) -> float:
    """Mean of v over one row."""
    total = 0.0
    for k in range(pointer[row], pointer[row + ONE]):
        total += chance[k] * v[successor[k]]
    return total


@njit(cache=True, nogil=True)
def bellman(
    indptr: Indices,
    indices: Indices,
    data: Array,
    r: Array,
    gamma: float,
    v: Array,
    scope: Mask,
    xi: Array,
    action: Indices,
    out: Array,
    facts: Array,
    first: int,
    last: int,
) -> None:
    """One optimality sweep: ``out`` = T v (S,), and the best ``action`` (S,), which stays where it ties.

    ``facts`` (pieces, 5): over the states in ``scope`` the least and the largest entry of T v - v; over all states the
    largest |T v|, <xi, T v> and how many actions changed. A state without pairs keeps its value.
    """
    n_actions = np.uint64(r.size // v.size)
    q = np.empty(n_actions)
    for piece in range(first, last):
        states = range(np.uint64(piece * PIECE), np.uint64(min((piece + 1) * PIECE, v.size)))
        changed = 0
        for s in states:
            best = -np.inf
            for a in range(n_actions):
                row = s * n_actions + a
                q[a] = r[row] + gamma * expectation(indptr, indices, data, v, row)
                best = max(best, q[a])
            # looking for the best action only where it changed keeps hard-to-predict branches out of the loop above
            if q[action[s]] < best:
                changed += 1
                # the first of the best
                action[s] = np.argmax(q)
            out[s] = best if best > -np.inf else v[s]
        low, high, largest, mean = np.inf, -np.inf, 0.0, 0.0
        for s in states:
            mean += xi[s] * out[s]
            largest = max(largest, abs(out[s]))
            if scope[s]:
                low, high = min(low, out[s] - v[s]), max(high, out[s] - v[s])
        facts[piece, 0], facts[piece, 1], facts[piece, 2] = low, high, largest
        facts[piece, 3], facts[piece, 4] = mean, changed


@njit(cache=True, nogil=True)
def evaluate(
    pointer: Indices,
    successor: Indices,
    chance: Array,
    b: Array,
    gamma: float,
    old: Array,
    new: Array,
    first: int,
    last: int,
) -> None:
    """new = b + gamma P_pi old."""
    for s in range(np.uint64(first * PIECE), np.uint64(min(last * PIECE, old.size))):
        new[s] = b[s] + gamma * expectation(pointer, successor, chance, old, s)


@njit(cache=True, nogil=True)
def evaluate_passes(
    pointer: Indices, successor: Indices, chance: Array, b: Array, gamma: float, v: Array, passes: int
) -> Array:
    """The evaluation operator of a policy applied ``passes`` times."""
    old, new = v.copy(), np.empty_like(v)
    for _ in range(passes):
        evaluate(pointer, successor, chance, b, gamma, old, new, 0, -(-v.size // PIECE))
        old, new = new, old
    return old


@njit(cache=True, nogil=True)
def bellman_in_place(
    indptr: Indices, indices: Indices, data: Array, r: Array, gamma: float, v: Array, backwards: bool
) -> None:
    """v <- T v, state by state, each seeing what those before it have just become: news travels far in one sweep."""
    n_states, n_actions = np.uint64(v.size), np.uint64(r.size // v.size)
    for i in range(n_states):
        s = n_states - ONE - i if backwards else i
        best = -np.inf
        for row in range(s * n_actions, (s + ONE) * n_actions):
            best = max(best, r[row] + gamma * expectation(indptr, indices, data, v, row))
        if best > -np.inf:
            v[s] = best
