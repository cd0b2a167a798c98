"""A first idea of the values: every move is repeated until its likeliest outcome happens.

Meanwhile one stays where one is, and is paid. With p the largest chance of a pair's row and s' the state it leads to,
this world's values times (1 - gamma) are the w with

    w(s) = max over a of (1 - beta) r(s, a) + beta w(s'),     beta = gamma p / (1 - gamma (1 - p)),  0 if s' = s.

Each pair has one successor, so a sweep in place carries good news to the end of the world, which sweeps over the model
itself do a step at a time. Nothing is proved by it.

A policy has one likely path from every state. All of them end in cycles, so a few more lines solve  z = r + gamma P z
exactly in this world.

Legend: (indptr, indices, data) the transitions, row ``s*A + a``; ``r`` (S*A,) rewards, minus infinity on pairs that may
not be used; ``target`` (S*A,) is s', ``weight`` (S*A,) is beta; of a policy's own moves both are (S,); ``order`` (S,)
its states, each after the one it leads to, but for the states in ``closes`` (S,), one of each cycle.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask

ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def meant_share(indptr: Indices, data: Array, rows: int) -> float:
    """The largest chance of a pair, on average over about so many pairs."""
    n_rows = indptr.size - 1
    total, count = 0.0, 0
    for row in range(0, n_rows, max(1, n_rows // rows)):
        if indptr[row] < indptr[row + 1]:
            largest = 0.0
            for k in range(indptr[row], indptr[row + 1]):
                largest = max(largest, data[k])
            total += largest
            count += 1
    return total / max(count, 1)


@njit(cache=True, nogil=True)
def likeliest(
    indptr: Indices, indices: Indices, data: Array, gamma: float, row: int, own: int
) -> tuple[np.uint64, float]:
    """Where one pair of the state ``own`` most likely leads, and the discount on the way."""
    to, largest = np.uint64(own), 0.0
    for k in range(indptr[row], indptr[row + ONE]):
        if data[k] > largest:
            largest = data[k]
            to = np.uint64(indices[k])
    return to, gamma * largest / (1.0 - gamma * (1.0 - largest)) if to != own else 0.0


@njit(cache=True, nogil=True)
def likely_moves(indptr: Indices, indices: Indices, data: Array, gamma: float, n_states: int) -> tuple[Indices, Array]:
    """``target`` and ``weight``; a pair without outcomes stays."""
    target, weight = np.empty(indptr.size - 1, indices.dtype), np.empty(indptr.size - 1)
    n_actions = np.uint64(weight.size // n_states)
    for own in range(np.uint64(n_states)):
        for row in range(own * n_actions, (own + ONE) * n_actions):
            target[row], weight[row] = likeliest(indptr, indices, data, gamma, row, own)
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


@njit(cache=True, nogil=True)
def change_moves(
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    action: Indices,
    held: Indices,
    target: Indices,
    weight: Array,
) -> bool:
    """Bring the likely moves of the ``held`` actions (S,) to those of ``action``; whether one of them changed."""
    n_actions = np.uint64((indptr.size - 1) // action.size)
    changed = False
    for s in range(np.uint64(action.size)):
        if action[s] != held[s]:
            held[s] = action[s]
            target[s], weight[s] = likeliest(indptr, indices, data, gamma, s * n_actions + action[s], s)
            changed = True
    return changed


@njit(cache=True, nogil=True)
def order_moves(target: Indices, order: Indices, closes: Mask) -> None:
    """Fill ``order`` and ``closes``."""
    new, on_path, placed = 0, 1, 2
    place, path, filled = np.zeros(target.size, np.uint8), np.empty_like(order), np.uint64(0)
    closes[:] = False
    for first in range(np.uint64(target.size)):
        s, length = np.uint64(first), np.uint64(0)
        while place[s] == new:
            place[s] = on_path
            path[length] = s
            length += ONE
            s = np.uint64(target[s])
        if place[s] == on_path:
            closes[s] = True
            order[filled] = s
            filled += ONE
            place[s] = placed
        while length > 0:
            length -= ONE
            s = np.uint64(path[length])
            if place[s] != placed:
                order[filled] = s
                filled += ONE
                place[s] = placed


@njit(cache=True, nogil=True)
def add_up(target: Indices, weight: Array, order: Indices, closes: Mask, gamma: float, r: Array, z: Array) -> None:
    """z (S,): what r (S,) adds up to, discounted, along the likely path from each state."""
    horizon = 1.0 / (1.0 - gamma)
    for i in range(np.uint64(order.size)):
        s = order[i]
        if closes[s]:
            total, share, j = 0.0, 1.0, s
            while True:
                total += share * (1.0 - weight[j]) * r[j]
                share *= weight[j]
                j = target[j]
                if j == s:
                    break
            z[s] = horizon * total / (1.0 - share)
        else:
            z[s] = horizon * (1.0 - weight[s]) * r[s] + weight[s] * z[target[s]]
