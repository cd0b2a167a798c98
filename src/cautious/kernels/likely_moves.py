"""A first idea of the values: every move is repeated until its likeliest outcome happens.

Meanwhile one stays where one is, and is paid. With p the largest chance of a pair's row and s' the state it leads to,
this world's values times (1 - gamma) are the w with

    w(s) = max over a of (1 - beta) r(s, a) + beta w(s'),     beta = gamma p / (1 - gamma (1 - p)),  0 if s' = s.

Each pair has one successor, so a sweep in place carries good news to the end of the world, which sweeps over the model
itself do a step at a time. Nothing is proved by it.

Legend: (indptr, indices, data) the transitions, row ``s*A + a``; ``r`` (S*A,) rewards, minus infinity on pairs that may
not be used; ``target`` (S*A,) is s', ``weight`` (S*A,) is beta.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices

ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def meant_share(indptr: Indices, data: Array, rows: int) -> float:
    """The largest chance of a pair, on average over about so many pairs."""
    n_rows = indptr.size - 1
    total, count = 0.0, 0
    for row in range(0, n_rows, max(1, n_rows // rows)):
        if indptr[row] < indptr[row + 1]:
            total += data[indptr[row] : indptr[row + 1]].max()
            count += 1
    return total / max(count, 1)


@njit(cache=True, nogil=True)
def likely_moves(indptr: Indices, indices: Indices, data: Array, gamma: float, n_states: int) -> tuple[Indices, Array]:
    """``target`` and ``weight``; a pair without outcomes stays."""
    target, weight = np.empty(indptr.size - 1, indices.dtype), np.zeros(indptr.size - 1)
    n_actions = np.uint64(weight.size // n_states)
    for row in range(np.uint64(weight.size)):
        own = row // n_actions
        target[row], largest = own, 0.0
        for k in range(indptr[row], indptr[row + ONE]):
            if data[k] > largest:
                largest = data[k]
                target[row] = indices[k]
        if target[row] != own:
            weight[row] = gamma * largest / (1.0 - gamma * (1.0 - largest))
    return target, weight


@njit(cache=True, nogil=True)
def follow_moves(target: Indices, weight: Array, r: Array, w: Array, backwards: bool) -> float:
    """Raise w (S,) in place to the best a pair offers, state by state; the largest rise."""
    n_states, n_actions = np.uint64(w.size), np.uint64(r.size // w.size)
    rise = 0.0
    for i in range(n_states):
        s = n_states - ONE - i if backwards else i
        best = w[s]
        for row in range(s * n_actions, (s + ONE) * n_actions):
            if r[row] > -np.inf:
                best = max(best, (1.0 - weight[row]) * r[row] + weight[row] * w[target[row]])
        rise = max(rise, best - w[s])
        w[s] = best
    return rise
