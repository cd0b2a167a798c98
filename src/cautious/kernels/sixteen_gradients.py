"""Conjugate gradients on sixteen Newton systems of the entropic dual side by side, in single precision.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); B = gamma P - E (S*A, S). Tables
(n, 16) are flat, on a boundary of 64 bytes; number 16 i + l belongs to system l,  B' diag(w_l) B x_l = right_l.  All
systems read the same transitions, and sixteen numbers are one access to memory: they take 1.5 to 1.8 times as long as
one system in double precision. A step of Newton's method is right to the second order in its error, so that six digits
are plenty; ``w`` and ``right`` are at most one, because the range is short too.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask, Singles
from cautious.kernels.vector_ratios import larger, over, store_short
from cautious.kernels.vectors import (
    EIGHT_LANES,
    SIXTEEN_LANES,
    load_eight,
    load_sixteen,
    minus_product,
    plus,
    plus_product,
    spread_eight,
    spread_sixteen,
    store,
    times,
)

ONE = np.uint64(1)
TINY, NOTHING = 1e-290, np.float32(1e-30)
# how many last steps are looked at together: a third of all, within these; where progress is slow it also pauses
SHORTEST, WINDOW = 4, 8
# how much finer is worth going on for
FINER = 0.5
# so many states are summed in single precision
STRETCH = 256


@njit(cache=True, nogil=True)
def narrow(table: Array, first: int, out: Singles) -> Array:
    """A table (n, 8) in units of its largest numbers (8,), into the places from ``first`` on of a table (n, 16)."""
    largest, found = spread_eight(TINY), np.empty(EIGHT_LANES)
    for at in range(0, table.size, EIGHT_LANES):
        here = load_eight(table, at)
        largest = larger(larger(here, largest), minus_product(spread_eight(0.0), spread_eight(1.0), here))
    store(found, 0, largest)
    by = over(spread_eight(1.0), largest)
    for i in range(table.size // EIGHT_LANES):
        store_short(out, SIXTEEN_LANES * i + first, times(load_eight(table, EIGHT_LANES * i), by))
    return found


@njit(cache=True, nogil=True)
def _keep(part: Singles, sums: Array) -> None:
    """Add what a stretch came to; for ``part`` (16,) to be empty again is the caller's."""
    for lane in range(SIXTEEN_LANES):
        sums[lane] += part[lane]


@njit(cache=True, nogil=True)
def normal_product(
    indptr: Indices, indices: Indices, data: Singles, gamma: float, w: Singles, x: Singles, out: Singles, sums: Array
) -> None:
    """out = B' diag(w) B x for each, and ``sums`` (16,) = <x, out>."""
    n_actions, one, row = w.size // x.size, spread_sixteen(np.float32(1.0)), np.uint64(0)
    fading, part = spread_sixteen(np.float32(gamma)), np.empty(SIXTEEN_LANES, np.float32)
    out[:] = 0.0
    sums[:] = 0.0
    squares = spread_sixteen(np.float32(0.0))
    for s in range(x.size // SIXTEEN_LANES):
        leaving, here = spread_sixteen(np.float32(0.0)), load_sixteen(x, SIXTEEN_LANES * s)
        for _ in range(n_actions):
            first, last = np.uint64(indptr[row]), np.uint64(indptr[row + ONE])
            total = spread_sixteen(np.float32(0.0))
            for k in range(first, last):
                at = SIXTEEN_LANES * np.int64(indices[k])
                total = plus_product(total, spread_sixteen(data[k]), load_sixteen(x, at))
            total = minus_product(times(fading, total), one, here)
            weighted = times(total, load_sixteen(w, SIXTEEN_LANES * np.int64(row)))
            squares = plus_product(squares, total, weighted)
            leaving = plus(leaving, weighted)
            weighted = times(fading, weighted)
            for k in range(first, last):
                at = SIXTEEN_LANES * np.int64(indices[k])
                store(out, at, plus_product(load_sixteen(out, at), spread_sixteen(data[k]), weighted))
            row += ONE
        store(out, SIXTEEN_LANES * s, minus_product(load_sixteen(out, SIXTEEN_LANES * s), one, leaving))
        if s % STRETCH == STRETCH - 1:
            store(part, 0, squares)
            _keep(part, sums)
            squares = spread_sixteen(np.float32(0.0))
    store(part, 0, squares)
    _keep(part, sums)


@njit(cache=True, nogil=True)
def inverse_diagonals(indptr: Indices, indices: Indices, data: Singles, gamma: float, w: Singles, out: Singles) -> None:
    """out = one over the diagonal of B' diag(w) B for each; 0 where there is nothing."""
    n_actions, fading = w.size // out.size, np.float32(gamma)
    out[:] = 0.0
    for s in range(out.size // SIXTEEN_LANES):
        for row in range(s * n_actions, (s + 1) * n_actions):
            own, weight = np.float32(-1.0), load_sixteen(w, SIXTEEN_LANES * row)
            for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                chance = fading * data[k]
                if np.int64(indices[k]) == s:
                    own += chance
                else:
                    at = SIXTEEN_LANES * np.int64(indices[k])
                    store(out, at, plus_product(load_sixteen(out, at), spread_sixteen(chance * chance), weight))
            here = load_sixteen(out, SIXTEEN_LANES * s)
            store(out, SIXTEEN_LANES * s, plus_product(here, spread_sixteen(own * own), weight))
    for i in range(out.size):
        out[i] = np.float32(1.0) / out[i] if out[i] > NOTHING else np.float32(0.0)


@njit(cache=True, nogil=True)
def _go(by: Singles, inverse: Singles, image: Singles, residual: Singles, sums: Array) -> None:
    """residual -= by image, and ``sums`` (16,) = <residual, inverse residual>."""
    length, part = load_sixteen(by, 0), np.empty(SIXTEEN_LANES, np.float32)
    sums[:] = 0.0
    for first in range(0, residual.size, STRETCH * SIXTEEN_LANES):
        total = spread_sixteen(np.float32(0.0))
        for at in range(first, min(first + STRETCH * SIXTEEN_LANES, residual.size), SIXTEEN_LANES):
            rest = minus_product(load_sixteen(residual, at), length, load_sixteen(image, at))
            store(residual, at, rest)
            total = plus_product(total, rest, times(load_sixteen(inverse, at), rest))
        store(part, 0, total)
        _keep(part, sums)


@njit(cache=True, nogil=True)
def _turn(by: Singles, on: Singles, inverse: Singles, residual: Singles, x: Singles, direction: Singles) -> None:
    """x += by direction, and then direction = inverse residual + on direction."""
    length, kept = load_sixteen(by, 0), load_sixteen(on, 0)
    for at in range(0, x.size, SIXTEEN_LANES):
        here = load_sixteen(direction, at)
        store(x, at, plus_product(load_sixteen(x, at), length, here))
        ahead = times(load_sixteen(inverse, at), load_sixteen(residual, at))
        store(direction, at, plus_product(ahead, kept, here))


@njit(cache=True, nogil=True)
def unsolved(last: Array, gained: Array, share: Array, room: Array, reached: Array, going: Mask) -> None:
    """Which of the systems that are ``going`` (16,) go on, in place.

    Not those whose ``last`` steps added at most their ``share`` of all that was ``gained``; where that is small they go
    on at once, to ``room`` or to what Newton's method leaves anyway: a share as small as what was gained. ``reached``
    (16,) are the shares of the last steps.
    """
    for lane in range(SIXTEEN_LANES):
        if going[lane]:
            total = max(gained[lane], TINY)
            finer = max(total, room[lane] / total)
            reached[lane] = last[lane] / total
            going[lane] = reached[lane] > (finer if finer < FINER * share[lane] else share[lane])


@njit(cache=True, nogil=True)
def conjugate_gradients(
    indptr: Indices,
    indices: Indices,
    data: Singles,
    gamma: float,
    w: Singles,
    inverse: Singles,
    unit: Array,
    share: Array,
    room: Array,
    live: Mask,
    most: int,
    x: Singles,
    tables: Singles,
    gained: Array,
    reached: Array,
) -> int:
    """x from zero for every system that is ``live`` (16,), until it is solved or rounding ends it; steps made.

    ``tables`` (3 or more, 16 S) is room; its first row holds the right-hand sides. ``gained`` (16,) is <right, x> in
    units (16,).
    """
    residual, direction, image = tables[0], tables[1], tables[2]
    gains, before = np.zeros((WINDOW, SIXTEEN_LANES)), np.empty(SIXTEEN_LANES)
    curved, squared = np.empty(SIXTEEN_LANES), np.empty(SIXTEEN_LANES)
    length, back = np.zeros(SIXTEEN_LANES, np.float32), np.zeros(SIXTEEN_LANES, np.float32)
    going, recent = live.copy(), np.empty(SIXTEEN_LANES)
    x[:], direction[:], image[:], gained[:], reached[:] = 0.0, 0.0, 0.0, 0.0, 1.0
    _go(length, inverse, image, residual, squared)
    _turn(length, back, inverse, residual, x, direction)
    for step in range(most):
        normal_product(indptr, indices, data, gamma, w, direction, image, curved)
        for lane in range(SIXTEEN_LANES):
            going[lane] &= curved[lane] > 0.0 and squared[lane] > 0.0
            length[lane] = squared[lane] / curved[lane] if going[lane] else 0.0
            before[lane] = squared[lane]
            gains[step % WINDOW, lane] = unit[lane] * length[lane] * squared[lane]
            gained[lane] += gains[step % WINDOW, lane]
        _go(length, inverse, image, residual, squared)
        recent[:] = 0.0
        for ago in range(min(max((step + 1) // 3, SHORTEST), WINDOW)):
            recent += gains[(step - ago) % WINDOW]
        unsolved(recent, gained, share, room, reached, going)
        for lane in range(SIXTEEN_LANES):
            back[lane] = squared[lane] / before[lane] if going[lane] else 0.0
        _turn(length, back, inverse, residual, x, direction)
        if not going.any():
            return step + 1
    return most
