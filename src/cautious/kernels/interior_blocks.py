"""The flow operator state by state, and its normal matrix, for methods that eliminate the pairs of each state.

Legend: pairs ``pair_start[s]:pair_start[s+1]`` belong to state s; their rows of B = gamma P - E live on the unknowns
``members[start[s]:start[s+1]]`` and are stored densely, member by member, from ``coefficient_start[s]``. ``softness`` D
(pairs,) and ``coupling`` h (states,) are the Hessian diag(D^-1) + h 1 1' of each state; its inverse is W. Loops are
over some ``states``; for others see ``interior_fours``.

Four pairs fit into a vector: states that have four are held in one.
"""

from typing import Any

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.vectors import LANES, fetch, load, plus, plus_product, spread, store, times, total

ONE = np.uint64(1)
# numbers that arrive together, and how far ahead coefficients are asked for: loops over states read many arrays at
# once, more than processors look ahead in by themselves
LINE, AHEAD = 8, 1024


@njit(cache=True, nogil=True)
def backward(
    states: Indices,
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
    y: Array,
    sums: Array,
    missing: Array,
) -> None:
    """sums (S,) over the pairs of each state,  missing -= B' y."""
    for s in states:
        i = np.uint64(s)
        at, begin, n = coefficient_start[i], pair_start[i], pair_start[i + ONE] - pair_start[i]
        member, size = start[i], start[i + ONE] - start[i]
        ask_ahead(coefficients, at)
        if n == LANES:
            sums[i] = total(load(y, begin))
            scatter_four(coefficients, at, members, member, size, load(y, begin), missing)
        else:
            sums[i] = 0.0
            for c in range(n):
                sums[i] += y[np.uint64(begin + c)]
            scatter(coefficients, at, members, member, size, y, begin, n, missing)


@njit(cache=True, nogil=True, error_model="numpy")
def respond(
    states: Indices,
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
    softness: Array,
    coupling: Array,
    push: Array,
    lift: Array,
    x: Array,
    out: Array,
    shift: Array,
    missing: Array,
) -> None:
    """out = W (push + lift + B x),  shift (S,) = coupling times its sums,  missing -= B' out: one pass over the pairs.

    ``lift`` (S,) is the same for all pairs of a state. An empty x stands for zeros; an empty ``missing`` is left alone.
    """
    for s in states:
        i = np.uint64(s)
        at, begin, n = coefficient_start[i], pair_start[i], pair_start[i + ONE] - pair_start[i]
        member, size = start[i], start[i + ONE] - start[i]
        ask_ahead(coefficients, at)
        if n == LANES:
            four = plus(load(push, begin), spread(lift[i]))
            if x.size > 0:
                for e in range(size):
                    value = spread(x[np.uint64(members[np.uint64(member + e)])])
                    four = plus_product(four, load(coefficients, at + e * LANES), value)
            soft = load(softness, begin)
            shift[i] = balanced(coupling[i], total(soft), total(times(soft, four)))
            four = times(soft, plus(four, spread(-shift[i])))
            store(out, begin, four)
            if missing.size > 0:
                scatter_four(coefficients, at, members, member, size, four, missing)
        else:
            pay(coefficients, at, members, member, size, push, lift[i], x, begin, n, out)
            mass, paid = 0.0, 0.0
            for p in range(begin, begin + n):
                mass += softness[p]
                paid += softness[p] * out[p]
            shift[i] = balanced(coupling[i], mass, paid)
            for p in range(begin, begin + n):
                out[p] = softness[p] * (out[p] - shift[i])
            if missing.size > 0:
                scatter(coefficients, at, members, member, size, out, begin, n, missing)


@njit(cache=True, nogil=True)
def ask_ahead(coefficients: Array, at: int) -> None:
    """Ask for about as many coefficients as a state has."""
    fetch(coefficients, at + AHEAD)
    fetch(coefficients, at + AHEAD + LINE)
    fetch(coefficients, at + AHEAD + 2 * LINE)


@njit(cache=True, nogil=True, error_model="numpy")
def balanced(coupling: float, mass: float, paid: float) -> float:
    """What a state's coupling takes from each of its pairs.

    Taken before they are divided: afterwards a stiff coupling would magnify rounding.
    """
    return coupling * paid / (1 + coupling * mass)


@njit(cache=True, nogil=True)
def pay(
    coefficients: Array,
    at: int,
    members: Indices,
    member: int,
    size: int,
    push: Array,
    lift: float,
    x: Array,
    begin: int,
    n: int,
    out: Array,
) -> None:
    """out = push + lift + B x on the n pairs of a state."""
    for p in range(begin, begin + n):
        out[p] = push[p] + lift
    if x.size > 0:
        for e in range(size):
            value = x[np.uint64(members[np.uint64(member + e)])]
            for c in range(n):
                out[np.uint64(begin + c)] += coefficients[np.uint64(at + e * n + c)] * value


@njit(cache=True, nogil=True)
def scatter(
    coefficients: Array,
    at: int,
    members: Indices,
    member: int,
    size: int,
    y: Array,
    begin: int,
    n: int,
    missing: Array,
) -> None:
    """missing -= B' y for the n pairs of a state."""
    for e in range(size):
        change = 0.0
        for c in range(n):
            change += coefficients[np.uint64(at + e * n + c)] * y[np.uint64(begin + c)]
        missing[np.uint64(members[np.uint64(member + e)])] -= change


@njit(cache=True, nogil=True)
def scatter_four(
    coefficients: Array, at: int, members: Indices, member: int, size: int, four: Any, missing: Array
) -> None:
    """The same for four pairs held in a vector."""
    for e in range(size):
        change = total(times(load(coefficients, at + e * LANES), four))
        missing[np.uint64(members[np.uint64(member + e)])] -= change


@njit(cache=True, nogil=True, error_model="numpy")
def assemble(
    states: Indices,
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
    widest, largest = 1, 1
    for s in states:
        widest = max(widest, start[s + 1] - start[s])
        largest = max(largest, coefficient_start[s + 1] - coefficient_start[s])
    mean, block = np.zeros(widest), np.empty(largest)
    for s in states:
        i = np.uint64(s)
        at, begin, n = coefficient_start[i], pair_start[i], pair_start[i + ONE] - pair_start[i]
        size, place = start[i + ONE] - start[i], entry_start[i]
        ask_ahead(coefficients, at)
        # the calls are written out: to give one array the name of another takes longer than most of them
        if coupling[i] != 0.0:
            mass = centre(coefficients, at, size, softness, begin, n, mean, block)
            weight = mass / (1 + coupling[i] * mass)
            if n == LANES:
                add_block_of_four(block, 0, size, load(softness, begin), weight, mean, entries, place, values)
            else:
                add_block(block, 0, size, softness, begin, n, weight, mean, entries, place, values)
        elif n == LANES:
            add_block_of_four(coefficients, at, size, load(softness, begin), 0.0, mean, entries, place, values)
        else:
            add_block(coefficients, at, size, softness, begin, n, 0.0, mean, entries, place, values)


@njit(cache=True, nogil=True)
def add_block(
    rows: Array,
    at: int,
    size: int,
    softness: Array,
    begin: int,
    n: int,
    weight: float,
    mean: Array,
    entries: Indices,
    place: int,
    values: Array,
) -> None:
    """Add rows' softness rows + weight mean' mean of a state, whose rows begin at ``at``, to its ``entries``."""
    entry = np.uint64(place)
    for a in range(size):
        for b in range(a + 1):
            product = weight * mean[np.uint64(a)] * mean[np.uint64(b)]
            for c in range(n):
                both = rows[np.uint64(at + a * n + c)] * rows[np.uint64(at + b * n + c)]
                product += softness[np.uint64(begin + c)] * both
            values[np.uint64(entries[entry])] += product
            entry += ONE


@njit(cache=True, nogil=True)
def add_block_of_four(
    rows: Array,
    at: int,
    size: int,
    soft: Any,
    weight: float,
    mean: Array,
    entries: Indices,
    place: int,
    values: Array,
) -> None:
    """The same for four pairs, whose softness is held in a vector."""
    entry = np.uint64(place)
    for a in range(size):
        row, softened = times(load(rows, at + a * LANES), soft), weight * mean[np.uint64(a)]
        for b in range(a + 1):
            product = total(times(row, load(rows, at + b * LANES)))
            values[np.uint64(entries[entry])] += product + softened * mean[np.uint64(b)]
            entry += ONE


@njit(cache=True, nogil=True, error_model="numpy")
def centre(
    coefficients: Array, at: int, size: int, softness: Array, begin: int, n: int, mean: Array, block: Array
) -> float:
    """Rows of a state less their weighed mean; returns the sum of the weights."""
    if n == LANES:
        soft = load(softness, begin)
        mass = total(soft)
        share = 1 / mass
        for e in range(size):
            row = load(coefficients, at + e * LANES)
            mean[np.uint64(e)] = total(times(row, soft)) * share
            store(block, e * LANES, plus(row, spread(-mean[np.uint64(e)])))
        return float(mass)
    mass = 0.0
    for p in range(begin, begin + n):
        mass += softness[p]
    for e in range(size):
        middle = 0.0
        for c in range(n):
            middle += coefficients[np.uint64(at + e * n + c)] * softness[np.uint64(begin + c)]
        mean[np.uint64(e)] = middle / mass
        for c in range(n):
            block[np.uint64(e * n + c)] = coefficients[np.uint64(at + e * n + c)] - mean[np.uint64(e)]
    return float(mass)


@njit(cache=True, nogil=True)
def add_edges(weights: Array, entries: Indices, at: int, values: Array) -> None:
    """Add the Laplacian of weighted edges, each a clique of two whose entries begin at ``at``."""
    for weight in weights:
        values[entries[at]] += weight
        values[entries[at + 1]] -= weight
        values[entries[at + 2]] += weight
        at += 3
