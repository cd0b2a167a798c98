"""The flow operator state by state, and its normal matrix, for methods that eliminate the pairs of each state.

Legend: pairs ``pair_start[s]:pair_start[s+1]`` belong to state s; their rows of B = gamma P - E live on the unknowns
``members[start[s]:start[s+1]]`` and are stored densely, pair by pair, from ``coefficient_start[s]``. ``softness`` D
(pairs,) and ``coupling`` h (states,) are the Hessian diag(D^-1) + h 1 1' of each state; its inverse is W.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.vectors import LANES, load, plus_product, spread, store


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
        at = np.uint64(coefficient_start[s])
        for p in range(pair_start[s], pair_start[s + 1]):
            total = 0.0
            for e in range(np.uint64(start[s]), np.uint64(start[s + 1])):
                total += coefficients[at] * x[np.uint64(members[e])]
                at += np.uint64(1)
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
    """out += B' y."""
    for s in range(start.size - 1):
        at = np.uint64(coefficient_start[s])
        for p in range(pair_start[s], pair_start[s + 1]):
            mass = y[p]
            for e in range(np.uint64(start[s]), np.uint64(start[s + 1])):
                out[np.uint64(members[e])] += coefficients[at] * mass
                at += np.uint64(1)


@njit(cache=True, nogil=True)
def sums(pair_start: Indices, y: Array) -> Array:
    """Sums over the pairs of each state."""
    out = np.zeros(pair_start.size - 1)
    for s in range(out.size):
        for p in range(pair_start[s], pair_start[s + 1]):
            out[s] += y[p]
    return out


@njit(cache=True, nogil=True)
def respond(
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
    softness: Array,
    coupling: Array,
    push: Array,
    x: Array,
    out: Array,
    shift: Array,
    missing: Array,
) -> None:
    """out = W (push + B x),  shift (S,) = coupling times its sums,  missing -= B' out: one pass over the pairs.

    The numbers of a state's members are fetched once and returned once, not once per pair.
    """
    widest = np.uint64(np.max(start[1:] - start[:-1]))
    here, change = np.empty(widest), np.empty(widest)
    one = np.uint64(1)
    for s in range(start.size - 1):
        member, size = np.uint64(start[s]), np.uint64(start[s + 1] - start[s])
        begin, end = np.uint64(pair_start[s]), np.uint64(pair_start[s + 1])
        for e in range(size):
            here[e], change[e] = x[np.uint64(members[member + e])], 0.0
        at = np.uint64(coefficient_start[s])
        mass, paid = 0.0, 0.0
        for p in range(begin, end):
            total = push[p]
            for e in range(size):
                total += coefficients[at] * here[e]
                at += one
            out[p] = total
            paid += total * softness[p]
            mass += softness[p]
        # taken before the division: afterwards a stiff coupling would magnify rounding
        shift[s] = coupling[s] * paid / (1 + coupling[s] * mass)
        at = np.uint64(coefficient_start[s])
        for p in range(begin, end):
            total = (out[p] - shift[s]) * softness[p]
            out[p] = total
            for e in range(size):
                change[e] += coefficients[at] * total
                at += one
        for e in range(size):
            missing[np.uint64(members[member + e])] -= change[e]


@njit(cache=True, nogil=True)
def collect(
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
    softness: Array,
    coupling: Array,
    push: Array,
    missing: Array,
) -> None:
    """missing -= B' W push: as ``respond`` with x = 0, where nothing else is asked for."""
    change = np.empty(np.uint64(np.max(start[1:] - start[:-1])))
    one = np.uint64(1)
    for s in range(start.size - 1):
        member, size = np.uint64(start[s]), np.uint64(start[s + 1] - start[s])
        begin, end = np.uint64(pair_start[s]), np.uint64(pair_start[s + 1])
        shift = 0.0
        if coupling[s] != 0.0:
            mass, paid = 0.0, 0.0
            for p in range(begin, end):
                paid += push[p] * softness[p]
                mass += softness[p]
            shift = coupling[s] * paid / (1 + coupling[s] * mass)
        for e in range(size):
            change[e] = 0.0
        at = np.uint64(coefficient_start[s])
        for p in range(begin, end):
            total = (push[p] - shift) * softness[p]
            for e in range(size):
                change[e] += coefficients[at] * total
                at += one
        for e in range(size):
            missing[np.uint64(members[member + e])] -= change[e]


@njit(cache=True, nogil=True)
def assemble(
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    coefficients: Array,
    softness: Array,
    coupling: Array,
    entry_start: Indices,
    entries: Indices,
    values: Array,
) -> None:
    """Add B' W B to ``values``: per state the spread of its rows around their mean, plus the softened mean itself.

    Written like this nothing cancels, however stiff the coupling is.
    """
    widest = LANES
    for s in range(start.size - 1):
        widest = max(widest, start[s + 1] - start[s])
    wide = (widest + LANES - 1) // LANES * LANES
    mean, row, block = np.zeros(wide), np.zeros(wide), np.empty(widest * wide)
    for s in range(start.size - 1):
        size, begin, end = start[s + 1] - start[s], pair_start[s], pair_start[s + 1]
        if size == 0:
            continue
        block[: size * wide] = 0.0
        if coupling[s] != 0.0:
            mass = mean_row(coefficients, coefficient_start[s], size, softness[begin:end], mean)
            add_square(mean, size, mass / (1 + coupling[s] * mass), block, wide)
        else:
            mean[:] = 0.0
        at = coefficient_start[s]
        for p in range(begin, end):
            for e in range(size):
                row[e] = coefficients[at + e] - mean[e]
            at += size
            add_square(row, size, softness[p], block, wide)
        place = np.uint64(entry_start[s])
        for a in range(np.uint64(size)):
            for b in range(a + np.uint64(1)):
                values[np.uint64(entries[place])] += block[a * np.uint64(wide) + b]
                place += np.uint64(1)


@njit(cache=True, nogil=True)
def mean_row(coefficients: Array, at: int, size: int, softness: Array, mean: Array) -> float:
    """The weighted mean of a state's rows; returns the sum of the weights."""
    mass = 0.0
    mean[:] = 0.0
    for weight in softness:
        mass += weight
        for e in range(size):
            mean[e] += coefficients[at + e] * weight
        at += size
    mean[:] /= mass
    return mass


@njit(cache=True, nogil=True)
def add_square(row: Array, size: int, weight: float, block: Array, wide: int) -> None:
    """Add weight * row row' to the lower triangle of a block with rows of ``wide`` numbers.

    Vectors of four also write beyond the diagonal.
    """
    for a in range(size):
        scaled = spread(weight * row[a])
        for b in range(0, a + 1, LANES):
            store(block, a * wide + b, plus_product(load(block, a * wide + b), scaled, load(row, b)))


@njit(cache=True, nogil=True)
def add_edges(weights: Array, entries: Indices, at: int, values: Array) -> None:
    """Add the Laplacian of weighted edges, each a clique of two whose entries begin at ``at``."""
    for weight in weights:
        values[entries[at]] += weight
        values[entries[at + 1]] -= weight
        values[entries[at + 2]] += weight
        at += 3
