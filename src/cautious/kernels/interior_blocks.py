"""The flow operator state by state, and its normal matrix, for methods that eliminate the pairs of each state.

Legend: pairs ``pair_start[s]:pair_start[s+1]`` belong to state s; their rows of B = gamma P - E live on the unknowns
``members[start[s]:start[s+1]]`` and are stored densely, pair by pair, from ``coefficient_start[s]``. ``stiffness`` D^-1
(pairs,) and ``coupling`` h (states,) are the Hessian diag(D^-1) + h 1 1' of each state; its inverse is W.
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
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
) -> None:
    """Members are the state, its successors and, if ``extra``, the unknown n_states + s with coefficient -1."""
    n_states, n_actions = active.shape
    local, mark = np.zeros(n_states, np.int64), np.full(n_states, -1, np.int64)
    for s in range(n_states):
        size = start[s + 1] - start[s]
        if size == 0:
            continue
        mark[s], local[s], filled = s, 0, 1
        members[start[s]] = s
        row = coefficient_start[s]
        for a in range(n_actions):
            if active[s, a]:
                coefficients[row] -= 1.0
                for k in range(indptr[s * n_actions + a], indptr[s * n_actions + a + 1]):
                    t = indices[k]
                    if mark[t] != s:
                        mark[t], local[t] = s, filled
                        members[start[s] + filled] = t
                        filled += 1
                    coefficients[row + local[t]] += gamma * data[k]
                if extra:
                    coefficients[row + size - 1] = -1.0
                row += size
        if extra:
            members[start[s] + size - 1] = n_states + s


@njit(cache=True, nogil=True)
def forward(
    pair_start: Indices, start: Indices, coefficient_start: Indices, members: Indices, coefficients: Array, x: Array
) -> Array:
    """B x on the active pairs."""
    out = np.empty(pair_start[-1])
    for s in range(start.size - 1):
        at = coefficient_start[s]
        for p in range(pair_start[s], pair_start[s + 1]):
            total = 0.0
            for e in range(start[s], start[s + 1]):
                total += coefficients[at] * x[members[e]]
                at += 1
            out[p] = total
    return out


@njit(cache=True, nogil=True)
def backward(
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
    y: Array,
    out: Array,
) -> None:
    """out = B' y."""
    out[:] = 0.0
    for s in range(start.size - 1):
        at = coefficient_start[s]
        for p in range(pair_start[s], pair_start[s + 1]):
            mass = y[p]
            for e in range(start[s], start[s + 1]):
                out[members[e]] += coefficients[at] * mass
                at += 1


@njit(cache=True, nogil=True)
def weigh(pair_start: Indices, stiffness: Array, coupling: Array, y: Array, out: Array, shift: Array) -> None:
    """out = W y, state by state (Sherman and Morrison); ``shift`` (S,) is coupling times the sums of ``out``.

    The shift is taken before the division: afterwards a stiff coupling would magnify rounding.
    """
    for s in range(pair_start.size - 1):
        mass, total = 0.0, 0.0
        for p in range(pair_start[s], pair_start[s + 1]):
            total += y[p] / stiffness[p]
            mass += 1 / stiffness[p]
        shift[s] = coupling[s] * total / (1 + coupling[s] * mass)
        for p in range(pair_start[s], pair_start[s + 1]):
            out[p] = (y[p] - shift[s]) / stiffness[p]


@njit(cache=True, nogil=True)
def assemble(
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    coefficients: Array,
    stiffness: Array,
    coupling: Array,
    entry_start: Indices,
    entries: Indices,
    values: Array,
) -> None:
    """Add B' W B to ``values``: per state the spread of its rows around their mean, plus the softened mean itself.

    Written like this nothing cancels, however stiff the coupling is.
    """
    widest = 1
    for s in range(start.size - 1):
        widest = max(widest, start[s + 1] - start[s])
    mean, row = np.empty(widest), np.empty(widest)
    for s in range(start.size - 1):
        size, mass, at = start[s + 1] - start[s], 0.0, coefficient_start[s]
        mean[:size] = 0.0
        for p in range(pair_start[s], pair_start[s + 1]):
            mass += 1 / stiffness[p]
            for e in range(size):
                mean[e] += coefficients[at] / stiffness[p]
                at += 1
        if coupling[s] == 0.0:
            mean[:size] = 0.0
        elif size > 0:
            mean[:size] /= mass
            add_square(mean, size, mass / (1 + coupling[s] * mass), entries, entry_start[s], values)
        at = coefficient_start[s]
        for p in range(pair_start[s], pair_start[s + 1]):
            for e in range(size):
                row[e] = coefficients[at] - mean[e]
                at += 1
            add_square(row, size, 1 / stiffness[p], entries, entry_start[s], values)


@njit(cache=True, nogil=True)
def add_square(row: Array, size: int, weight: float, entries: Indices, at: int, values: Array) -> None:
    """Add weight * row row' to the entries of a clique."""
    for a in range(size):
        scaled = weight * row[a]
        for b in range(a + 1):
            values[entries[at]] += scaled * row[b]
            at += 1


@njit(cache=True, nogil=True)
def longest_step(x: Array, change: Array) -> float:
    """The largest step, at most 1e30, that keeps x + step * change >= 0."""
    step = 1e30
    for i in range(x.size):
        if change[i] < 0 and -x[i] > step * change[i]:
            step = -x[i] / change[i]
    return step


@njit(cache=True, nogil=True)
def add_edges(weights: Array, entries: Indices, at: int, values: Array) -> None:
    """Add the Laplacian of weighted edges, each a clique of two whose entries begin at ``at``."""
    for weight in weights:
        values[entries[at]] += weight
        values[entries[at + 1]] -= weight
        values[entries[at + 2]] += weight
        at += 3
