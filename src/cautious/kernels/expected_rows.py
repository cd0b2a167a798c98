"""One step along many rows of a sparse matrix at once:  out = b + gamma * (mean of v over each row).

Rows of one length run at up to twice the speed if the compiler knows that length. So rows are taken in blocks, and each
block remembers how long all its rows are.

Legend: (pointer, successor, chance) rows of probabilities with unsigned indices; ``v`` (S,) values; ``b`` one number
per row; ``width`` the length of every row of a block, 0 where they differ.
"""

from typing import Any

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices

# states in a block; a piece of work for a thread is a whole number of blocks
BLOCK = 256
ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def block_widths(pointer: Indices, rows_per_block: int) -> Indices:
    """For each block of rows how long they all are; 0 where they differ."""
    n_rows = pointer.size - 1
    out = np.zeros(-(-n_rows // rows_per_block), np.int64)
    for block in range(out.size):
        first, last = block * rows_per_block, min((block + 1) * rows_per_block, n_rows)
        width = np.int64(pointer[first + 1]) - np.int64(pointer[first])
        same = True
        for row in range(first, last):
            same &= np.int64(pointer[row + 1]) - np.int64(pointer[row]) == width
        out[block] = width if same else 0
    return out


def _rows_of(length: int) -> Any:
    """The loop over rows of one length, which the compiler unrolls."""
    width = np.uint64(length)

    @njit(cache=True, nogil=True)
    def fill(
        start: int, successor: Indices, chance: Array, v: Array, b: Array, gamma: float, first: int, out: Array
    ) -> None:
        for i in range(np.uint64(out.size)):
            at, total = start + i * width, 0.0
            for k in range(width):
                total += chance[at + k] * v[successor[at + k]]
            out[i] = b[first + i] + gamma * total

    return fill


_rows_of_1, _rows_of_2, _rows_of_3, _rows_of_4, _rows_of_5 = (_rows_of(length) for length in range(1, 6))


@njit(cache=True, nogil=True)
def _rows(
    pointer: Indices, successor: Indices, chance: Array, v: Array, b: Array, gamma: float, first: int, out: Array
) -> None:
    """Rows of any length."""
    for i in range(np.uint64(out.size)):
        total = 0.0
        for k in range(np.uint64(pointer[first + i]), np.uint64(pointer[first + i + ONE])):
            total += chance[k] * v[successor[k]]
        out[i] = b[first + i] + gamma * total


@njit(cache=True, nogil=True)
def step_rows(
    pointer: Indices,
    successor: Indices,
    chance: Array,
    width: int,
    v: Array,
    b: Array,
    gamma: float,
    first: int,
    out: Array,
) -> None:
    """out[i] = b + gamma * mean of v, of row first + i, for as many rows as ``out`` has room; ``first`` is unsigned."""
    start = np.uint64(pointer[first])
    if width == 1:
        _rows_of_1(start, successor, chance, v, b, gamma, first, out)
    elif width == 2:
        _rows_of_2(start, successor, chance, v, b, gamma, first, out)
    elif width == 3:
        _rows_of_3(start, successor, chance, v, b, gamma, first, out)
    elif width == 4:
        _rows_of_4(start, successor, chance, v, b, gamma, first, out)
    elif width == 5:
        _rows_of_5(start, successor, chance, v, b, gamma, first, out)
    else:
        _rows(pointer, successor, chance, v, b, gamma, first, out)
