"""Bellman sweeps.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); ``r`` (S*A,) a reward table, minus
infinity on pairs that may not be used; ``gamma`` the discount; ``v`` (S,) values; (pointer, successor, chance) the
chain P_pi of one policy and ``b`` (S,) its reward; ``widths`` how long the rows of each block of states are, 0 where
they differ. Loops run over pieces of ``PIECE`` states, ``first`` to ``last``.
All indices are unsigned: the compiler need not test for negative ones, which halves the time of a loop.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.expected_rows import BLOCK, step_rows
from cautious.kernels.threads import PIECE

ONE = np.uint64(1)
BLOCKS = PIECE // BLOCK


@njit(cache=True, nogil=True)
def expectation(pointer: Indices, successor: Indices, chance: Array, v: Array, row: int) -> float:
    """Mean of v over one row."""
    total = 0.0
    for k in range(pointer[row], pointer[row + ONE]):
        total += chance[k] * v[successor[k]]
    return total


@njit(cache=True, nogil=True)
def _choose(q: Array, v: Array, action: Indices, out: Array, first: int) -> int:
    """The best of the pairs' worth ``q`` for the states from ``first`` on; how many actions changed."""
    n_actions = np.uint64(q.size // out.size)
    changed = 0
    for i in range(np.uint64(out.size)):
        s, at, best = first + i, i * n_actions, q[i * n_actions]
        for a in range(ONE, n_actions):
            best = max(best, q[at + a])
        # looking for the best action only where it changed keeps hard-to-predict branches out of the loop above
        if q[at + action[s]] < best:
            changed += 1
            # the first of the best
            action[s] = np.argmax(q[at : at + n_actions])
        out[i] = best if best > -np.inf else v[s]
    return changed


@njit(cache=True, nogil=True)
def bellman(
    indptr: Indices,
    indices: Indices,
    data: Array,
    widths: Indices,
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
    largest |T v| or |v|, <xi, T v> and how many actions changed. A state without pairs keeps its value.
    """
    n_states, n_actions = np.uint64(v.size), np.uint64(r.size // v.size)
    q = np.empty(np.uint64(BLOCK) * n_actions)
    for piece in range(first, last):
        changed = 0
        for block in range(piece * BLOCKS, min((piece + 1) * BLOCKS, widths.size)):
            start = np.uint64(block * BLOCK)
            end = min(start + np.uint64(BLOCK), n_states)
            worth = q[: (end - start) * n_actions]
            step_rows(indptr, indices, data, widths[block], v, r, gamma, start * n_actions, worth)
            changed += _choose(worth, v, action, out[start:end], start)
        low, high, largest, mean = np.inf, -np.inf, 0.0, 0.0
        for s in range(np.uint64(piece * PIECE), np.uint64(min((piece + 1) * PIECE, v.size))):
            mean += xi[s] * out[s]
            largest = max(largest, abs(out[s]), abs(v[s]))
            if scope[s]:
                low, high = min(low, out[s] - v[s]), max(high, out[s] - v[s])
        facts[piece, 0], facts[piece, 1], facts[piece, 2] = low, high, largest
        facts[piece, 3], facts[piece, 4] = mean, changed


@njit(cache=True, nogil=True)
def all_pieces(facts: Array) -> tuple[float, float, float, float, float]:
    """The facts of all pieces together."""
    low, high, largest, mean, changed = np.inf, -np.inf, 0.0, 0.0, 0.0
    for piece in range(len(facts)):
        low, high = min(low, facts[piece, 0]), max(high, facts[piece, 1])
        largest = max(largest, facts[piece, 2])
        mean += facts[piece, 3]
        changed += facts[piece, 4]
    return low, high, largest, mean, changed


@njit(cache=True, nogil=True)
def evaluate(
    pointer: Indices,
    successor: Indices,
    chance: Array,
    widths: Indices,
    b: Array,
    gamma: float,
    old: Array,
    new: Array,
    first: int,
    last: int,
) -> None:
    """new = b + gamma P_pi old."""
    for block in range(first * BLOCKS, min(last * BLOCKS, widths.size)):
        start = np.uint64(block * BLOCK)
        step_rows(
            pointer, successor, chance, widths[block], old, b, gamma, start, new[start : start + np.uint64(BLOCK)]
        )


@njit(cache=True, nogil=True)
def evaluate_passes(
    pointer: Indices, successor: Indices, chance: Array, widths: Indices, b: Array, gamma: float, v: Array, passes: int
) -> Array:
    """The evaluation operator of a policy applied ``passes`` times."""
    old, new = v.copy(), np.empty_like(v)
    for _ in range(passes):
        evaluate(pointer, successor, chance, widths, b, gamma, old, new, 0, -(-v.size // PIECE))
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
