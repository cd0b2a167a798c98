"""The loops of ``interior_blocks`` for four states at once: sums over pairs and members need no shuffling then.

Legend: group g are the states ``first[g]`` to ``first[g] + 3``, which follow each other and have four pairs each.
Vectors hold one number of each state. From ``begin[g]`` on, ``members`` (rows of four) are unknowns, and
``coefficients`` (rows of sixteen: four pairs, four states each) those of B = gamma P - E; states with fewer members
than others of their group repeat their first one, with coefficients of zero. ``entries`` (rows of four, from
``entry_begin[g]`` on) are where the lower triangle of each state's block goes. The rest as in ``interior_blocks``.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.vector_lanes import add_at, backs, evens, fronts, gathered, odds, subtract_at
from cautious.kernels.vector_ratios import over
from cautious.kernels.vectors import LANES, fetch, load, minus_product, plus, plus_product, spread, store, times

TABLE = LANES * LANES
# how far ahead coefficients are asked for, and numbers that arrive together
AHEAD, LINE = 64 * LANES, 8
# states share a group unless more than half of its members would be repeated ones
WASTE = 2


@njit(cache=True, nogil=True)
def groups(pair_start: Indices, start: Indices) -> tuple[Indices, Indices, Indices]:
    """(first, begin, others): groups of states that follow each other, where they begin, and states without one."""
    n, found, s = start.size - 1, 0, 0
    first, begin = np.empty(n // LANES, np.int64), np.zeros(n // LANES + 1, np.int64)
    others, left = np.empty(n, np.int64), 0
    while s < n:
        alike, most, until = s + LANES <= n, 0, min(s + LANES, n)
        for t in range(s, until):
            alike = alike and pair_start[t + 1] - pair_start[t] == LANES
            most = max(most, start[t + 1] - start[t])
        if alike and LANES * most <= WASTE * (start[until] - start[s]):
            first[found], begin[found + 1] = s, begin[found] + most
            found, s = found + 1, until
        else:
            others[left] = s
            left, s = left + 1, s + 1
    return first[:found], begin[: found + 1], others[:left]


@njit(cache=True, nogil=True)
def fill_groups(
    first: Indices,
    begin: Indices,
    start: Indices,
    coefficient_start: Indices,
    all_members: Indices,
    all_coefficients: Array,
    members: Indices,
    coefficients: Array,
) -> None:
    """Members and coefficients of all groups, from those of each state."""
    for g in range(first.size):
        for lane in range(LANES):
            s = first[g] + lane
            for e in range(begin[g + 1] - begin[g]):
                row, own = begin[g] + e, e < start[s + 1] - start[s]
                members[row * LANES + lane] = all_members[start[s] + (e if own else 0)]
                for c in range(LANES):
                    number = all_coefficients[coefficient_start[s] + e * LANES + c] if own else 0.0
                    coefficients[row * TABLE + c * LANES + lane] = number


@njit(cache=True, nogil=True)
def without_groups(others: Indices, coefficient_start: Indices, coefficients: Array) -> tuple[Indices, Array]:
    """Where the coefficients of states without a group begin, and these coefficients."""
    start = np.zeros_like(coefficient_start)
    for s in others:
        start[s + 1] = coefficient_start[s + 1] - coefficient_start[s]
    start = np.cumsum(start)
    kept = np.empty(start[-1])
    for s in others:
        kept[start[s] : start[s + 1]] = coefficients[coefficient_start[s] : coefficient_start[s + 1]]
    return start, kept


@njit(cache=True, nogil=True)
def group_entries(
    first: Indices, begin: Indices, entry_start: Indices, all_entries: Indices
) -> tuple[Indices, Indices]:
    """(entry_begin, entries) from those of each state; what repeated members add is nothing, to any entry."""
    entry_begin = np.zeros(first.size + 1, np.int64)
    for g in range(first.size):
        size = begin[g + 1] - begin[g]
        entry_begin[g + 1] = entry_begin[g] + size * (size + 1) // 2
    entries = np.empty(entry_begin[-1] * LANES, np.int32)
    for g in range(first.size):
        rows = (entry_begin[g + 1] - entry_begin[g]) * LANES
        for lane in range(LANES):
            s = first[g] + lane
            own, at = entry_start[s + 1] - entry_start[s], entry_begin[g] * LANES + lane
            for k in range(rows // LANES):
                # the triangle of a state's own members comes first
                entries[at + k * LANES] = all_entries[entry_start[s] + (k if k < own else 0)]
    return entry_begin, entries


@njit(cache=True, nogil=True)
def ask_ahead(coefficients: Array, at: int) -> None:
    """Ask for the coefficients of a member that will come."""
    fetch(coefficients, at + AHEAD)
    fetch(coefficients, at + AHEAD + LINE)


@njit(cache=True, nogil=True)
def backward(
    first: Indices,
    begin: Indices,
    members: Indices,
    coefficients: Array,
    pair_start: Indices,
    y: Array,
    sums: Array,
    missing: Array,
) -> None:
    """sums over the pairs of each state,  missing -= B' y."""
    for g in range(first.size):
        s = first[g]
        pair = pair_start[s]
        p, q = load(y, pair), load(y, pair + LANES)
        r, t = load(y, pair + 2 * LANES), load(y, pair + 3 * LANES)
        even, odd, even_two, odd_two = evens(p, q), odds(p, q), evens(r, t), odds(r, t)
        p, q, r, t = fronts(even, even_two), fronts(odd, odd_two), backs(even, even_two), backs(odd, odd_two)
        store(sums, s, plus(plus(p, q), plus(r, t)))
        for e in range(begin[g], begin[g + 1]):
            at = e * TABLE
            ask_ahead(coefficients, at)
            one = plus_product(times(load(coefficients, at), p), load(coefficients, at + LANES), q)
            two = times(load(coefficients, at + 2 * LANES), r)
            two = plus_product(two, load(coefficients, at + 3 * LANES), t)
            subtract_at(missing, members, e * LANES, plus(one, two))


@njit(cache=True, nogil=True, error_model="numpy")
def respond(
    first: Indices,
    begin: Indices,
    members: Indices,
    coefficients: Array,
    pair_start: Indices,
    softness: Array,
    coupling: Array,
    push: Array,
    lift: Array,
    x: Array,
    out: Array,
    shift: Array,
    missing: Array,
) -> None:
    """out = W (push + lift + B x),  shift = coupling times its sums,  missing -= B' out, as in ``interior_blocks``."""
    one = spread(1.0)
    for g in range(first.size):
        s = first[g]
        pair, lifted = pair_start[s], load(lift, s)
        p, q = load(push, pair), load(push, pair + LANES)
        r, t = load(push, pair + 2 * LANES), load(push, pair + 3 * LANES)
        even, odd, even_two, odd_two = evens(p, q), odds(p, q), evens(r, t), odds(r, t)
        p, q = plus(fronts(even, even_two), lifted), plus(fronts(odd, odd_two), lifted)
        r, t = plus(backs(even, even_two), lifted), plus(backs(odd, odd_two), lifted)
        if x.size > 0:
            for e in range(begin[g], begin[g + 1]):
                at, value = e * TABLE, gathered(x, members, e * LANES)
                ask_ahead(coefficients, at)
                p = plus_product(p, load(coefficients, at), value)
                q = plus_product(q, load(coefficients, at + LANES), value)
                r = plus_product(r, load(coefficients, at + 2 * LANES), value)
                t = plus_product(t, load(coefficients, at + 3 * LANES), value)
        a, b = load(softness, pair), load(softness, pair + LANES)
        c, d = load(softness, pair + 2 * LANES), load(softness, pair + 3 * LANES)
        even, odd, even_two, odd_two = evens(a, b), odds(a, b), evens(c, d), odds(c, d)
        a, b, c, d = fronts(even, even_two), fronts(odd, odd_two), backs(even, even_two), backs(odd, odd_two)
        stiff, mass = load(coupling, s), plus(plus(a, b), plus(c, d))
        paid = plus(plus_product(times(a, p), b, q), plus_product(times(c, r), d, t))
        # taken before they are divided, as in ``balanced``
        taken = over(times(stiff, paid), plus_product(one, stiff, mass))
        store(shift, s, taken)
        p, q = times(a, minus_product(p, taken, one)), times(b, minus_product(q, taken, one))
        r, t = times(c, minus_product(r, taken, one)), times(d, minus_product(t, taken, one))
        even, odd, even_two, odd_two = evens(p, q), odds(p, q), evens(r, t), odds(r, t)
        store(out, pair, fronts(even, even_two))
        store(out, pair + LANES, fronts(odd, odd_two))
        store(out, pair + 2 * LANES, backs(even, even_two))
        store(out, pair + 3 * LANES, backs(odd, odd_two))
        if missing.size > 0:
            for e in range(begin[g], begin[g + 1]):
                at = e * TABLE
                if x.size == 0:
                    ask_ahead(coefficients, at)
                half = plus_product(times(load(coefficients, at), p), load(coefficients, at + LANES), q)
                other = times(load(coefficients, at + 2 * LANES), r)
                other = plus_product(other, load(coefficients, at + 3 * LANES), t)
                subtract_at(missing, members, e * LANES, plus(half, other))


@njit(cache=True, nogil=True, error_model="numpy")
def assemble(
    first: Indices,
    begin: Indices,
    coefficients: Array,
    pair_start: Indices,
    softness: Array,
    coupling: Array,
    entry_begin: Indices,
    entries: Indices,
    values: Array,
) -> None:
    """Add B' W B of all groups to ``values``, from what rows are away from their mean, as in ``interior_blocks``."""
    most = 1
    for g in range(first.size):
        most = max(most, begin[g + 1] - begin[g])
    block, mean = np.empty(most * TABLE), np.empty(most * LANES)
    for g in range(first.size):
        s, size, entry = first[g], begin[g + 1] - begin[g], entry_begin[g] * LANES
        pair = pair_start[s]
        a, b = load(softness, pair), load(softness, pair + LANES)
        c, d = load(softness, pair + 2 * LANES), load(softness, pair + 3 * LANES)
        even, odd, even_two, odd_two = evens(a, b), odds(a, b), evens(c, d), odds(c, d)
        a, b, c, d = fronts(even, even_two), fronts(odd, odd_two), backs(even, even_two), backs(odd, odd_two)
        mass = plus(plus(a, b), plus(c, d))
        # means are negative throughout: they are added to what they are taken from, and their products are the same
        share = over(spread(-1.0), mass)
        weight = over(mass, plus_product(spread(1.0), load(coupling, s), mass))
        for e in range(size):
            at, to = (begin[g] + e) * TABLE, e * TABLE
            ask_ahead(coefficients, at)
            p, q = load(coefficients, at), load(coefficients, at + LANES)
            r, t = load(coefficients, at + 2 * LANES), load(coefficients, at + 3 * LANES)
            less = times(share, plus(plus_product(times(a, p), b, q), plus_product(times(c, r), d, t)))
            store(mean, e * LANES, less)
            store(block, to, plus(p, less))
            store(block, to + LANES, plus(q, less))
            store(block, to + 2 * LANES, plus(r, less))
            store(block, to + 3 * LANES, plus(t, less))
        for e in range(size):
            at = e * TABLE
            p, q = times(load(block, at), a), times(load(block, at + LANES), b)
            r, t = times(load(block, at + 2 * LANES), c), times(load(block, at + 3 * LANES), d)
            softened = times(load(mean, e * LANES), weight)
            for f in range(e + 1):
                at = f * TABLE
                one = times(softened, load(mean, f * LANES))
                one = plus_product(plus_product(one, p, load(block, at)), q, load(block, at + LANES))
                two = times(r, load(block, at + 2 * LANES))
                two = plus_product(two, t, load(block, at + 3 * LANES))
                add_at(values, entries, entry, plus(one, two))
                entry += LANES
