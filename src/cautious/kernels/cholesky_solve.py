"""Triangular solves with the panels of ``cholesky_numeric``, four columns and a vector of numbers at a time.

A factor is read once in either direction, and little is done with each number: so those that come next are asked for
while these are in use.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.cholesky_tiles import padded
from cautious.kernels.vectors import (
    alike,
    alike_four,
    fetch,
    lanes,
    load,
    load_four,
    minus_product,
    plus_product,
    store,
    times,
    total,
)

# how many vectors ahead numbers are asked for; two vectors arrive together
AHEAD = 256


@njit(cache=True, nogil=True)
def first_whole(begin: int, width: int, step: int) -> int:
    """Where, from ``begin`` on, whole vectors begin that end with the width."""
    return width - (width - begin) // step * step


@njit(cache=True, nogil=True)
def forward(panel: Array, columns: int, width: int, here: Array) -> None:
    """here <- L^-1 here for the own columns; what they contribute to the rows below is subtracted there."""
    whole, step = columns - columns % 4, lanes(panel)
    ahead, line = AHEAD * step, 2 * step
    for j in range(0, whole, 4):
        p, q, r, s = j * width, (j + 1) * width, (j + 2) * width, (j + 3) * width
        a = here[j] * panel[p + j]
        b = (here[j + 1] - panel[p + j + 1] * a) * panel[q + j + 1]
        c = (here[j + 2] - panel[p + j + 2] * a - panel[q + j + 2] * b) * panel[r + j + 2]
        d = here[j + 3] - panel[p + j + 3] * a - panel[q + j + 3] * b - panel[r + j + 3] * c
        d = d * panel[s + j + 3]
        here[j], here[j + 1], here[j + 2], here[j + 3] = a, b, c, d
        low = first_whole(j + 4, width, step)
        if low > j + 4:
            # half a vector of single precision
            h = j + 4
            part = minus_product(load_four(here, h), load_four(panel, p + h), alike_four(panel, a))
            part = minus_product(part, load_four(panel, q + h), alike_four(panel, b))
            part = minus_product(part, load_four(panel, r + h), alike_four(panel, c))
            store(here, h, minus_product(part, load_four(panel, s + h), alike_four(panel, d)))
        for i in range(low, width, step):
            fetch(panel, p + ahead + 4 * i)
            fetch(panel, p + ahead + 4 * i + line)
            one = minus_product(load(here, i), load(panel, p + i), alike(panel, a))
            two = minus_product(one, load(panel, q + i), alike(panel, b))
            three = minus_product(two, load(panel, r + i), alike(panel, c))
            store(here, i, minus_product(three, load(panel, s + i), alike(panel, d)))
    for j in range(whole, columns):
        p = j * width
        a = here[j] * panel[p + j]
        here[j] = a
        low = first_whole(whole + 4, width, step)
        for i in range(j + 1, low):
            here[i] -= panel[p + i] * a
        for i in range(low, width, step):
            store(here, i, minus_product(load(here, i), load(panel, p + i), alike(panel, a)))


@njit(cache=True, nogil=True)
def backward(panel: Array, columns: int, width: int, here: Array) -> None:
    """here <- L'^-1 here for the own columns, the rows below being known."""
    whole, step = columns - columns % 4, lanes(panel)
    ahead, line = AHEAD * step, 2 * step
    for j in range(columns - 1, whole - 1, -1):
        p, a, one = j * width, here[j], alike(panel, 0.0)
        low = first_whole(whole + 4, width, step)
        for i in range(j + 1, low):
            a -= panel[p + i] * here[i]
        for i in range(low, width, step):
            one = plus_product(one, load(panel, p + i), load(here, i))
        here[j] = (a - total(one)) * panel[p + j]
    for j in range(whole - 4, -1, -4):
        p, q, r, s = j * width, (j + 1) * width, (j + 2) * width, (j + 3) * width
        one = two = three = four = alike(panel, 0.0)
        low = first_whole(j + 4, width, step)
        for i in range(low, width, step):
            fetch(panel, p - ahead + 4 * i)
            fetch(panel, p - ahead + 4 * i + line)
            known = load(here, i)
            one, two = plus_product(one, load(panel, p + i), known), plus_product(two, load(panel, q + i), known)
            three, four = plus_product(three, load(panel, r + i), known), plus_product(four, load(panel, s + i), known)
        a, b, c, d = total(one), total(two), total(three), total(four)
        if low > j + 4:
            h = j + 4
            half = load_four(here, h)
            a, b = a + total(times(load_four(panel, p + h), half)), b + total(times(load_four(panel, q + h), half))
            c, d = c + total(times(load_four(panel, r + h), half)), d + total(times(load_four(panel, s + h), half))
        d = (here[j + 3] - d) * panel[s + j + 3]
        c = (here[j + 2] - c - panel[r + j + 3] * d) * panel[r + j + 2]
        b = (here[j + 1] - b - panel[q + j + 3] * d - panel[q + j + 2] * c) * panel[q + j + 1]
        a = here[j] - a - panel[p + j + 3] * d - panel[p + j + 2] * c - panel[p + j + 1] * b
        here[j], here[j + 1], here[j + 2], here[j + 3] = a * panel[p + j], b, c, d


@njit(cache=True, nogil=True)
def eliminate(
    k: int,
    first: Indices,
    row_start: Indices,
    rows: Indices,
    block_start: Indices,
    blocks: Array,
    here: Array,
    x: Array,
) -> None:
    """The part of x <- L^-1 x that supernode k does; ``here`` has room for its rows."""
    begin, columns, size = first[k], first[k + 1] - first[k], row_start[k + 1] - row_start[k]
    width, own = padded(size), x[begin : begin + columns]
    here[:columns] = own
    here[columns:width] = 0.0
    forward(blocks[block_start[k] :], columns, width, here)
    own[:] = here[:columns]
    at = row_start[k]
    for i in range(np.uint64(columns), np.uint64(size)):
        x[np.uint64(rows[np.uint64(at) + i])] += here[i]


@njit(cache=True, nogil=True)
def reordered(x: Array, order: Indices) -> Array:
    """x[order]."""
    out = np.empty_like(x)
    for i in range(np.uint64(x.size)):
        out[i] = x[np.uint64(order[i])]
    return out


@njit(cache=True, nogil=True)
def room_for_rows(row_start: Indices, blocks: Array) -> Array:
    """Room for the rows of any supernode, in the precision of the factor."""
    return np.zeros(padded(int(np.max(row_start[1:] - row_start[:-1]))), blocks.dtype)


@njit(cache=True, nogil=True)
def substitute(
    first: Indices, row_start: Indices, rows: Indices, block_start: Indices, blocks: Array, x: Array
) -> None:
    """x <- L'^-1 x, in the order of elimination."""
    here = room_for_rows(row_start, blocks)
    for k in range(first.size - 2, -1, -1):
        begin, columns, size = first[k], first[k + 1] - first[k], row_start[k + 1] - row_start[k]
        width, at = padded(size), row_start[k]
        for i in range(np.uint64(size)):
            here[i] = x[np.uint64(rows[np.uint64(at) + i])]
        # numbers beyond the rows may be anything but must not spoil sums
        here[size:width] = 0.0
        backward(blocks[block_start[k] :], columns, width, here)
        x[begin : begin + columns] = here[:columns]


@njit(cache=True, nogil=True)
def solve(first: Indices, row_start: Indices, rows: Indices, block_start: Indices, blocks: Array, x: Array) -> None:
    """x <- (L L')^-1 x, in the order of elimination."""
    here = room_for_rows(row_start, blocks)
    for k in range(first.size - 1):
        eliminate(k, first, row_start, rows, block_start, blocks, here, x)
    substitute(first, row_start, rows, block_start, blocks, x)
