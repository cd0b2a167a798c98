"""Drawing from tables and counting what was drawn.

A hash table with linear probing maps keys to places in arrays that grow at their end: ``slots`` holds place + 1, or 0.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.random import GOLDEN, first_above, uniform


@njit(cache=True, inline="always")
def _slot(key: int, slots: Indices, keys: Indices) -> int:
    """Where a key is in the hash table, or where it belongs; the size of ``slots`` is a power of two."""
    mask = np.uint64(slots.size - 1)
    z = np.uint64(key) * GOLDEN
    at = (z ^ (z >> np.uint64(32))) & mask
    while slots[at] != 0 and keys[slots[at] - 1] != key:
        at = (at + np.uint64(1)) & mask
    return int(at)


@njit(cache=True)
def fill_slots(slots: Indices, keys: Indices, used: int) -> None:
    """Enter the first ``used`` keys, all different, into an empty hash table."""
    for place in range(used):
        slots[_slot(keys[place], slots, keys)] = place + 1


@njit(cache=True)
def tally(
    slots: Indices,
    keys: Indices,
    count: Indices,
    first: Array,
    shift: Array,
    square: Array,
    used: int,
    new_keys: Indices,
    new_count: Indices,
    new_first: Array,
    new_shift: Array,
    new_square: Array,
) -> int:
    """Add groups of rewards; returns how many different keys there are now. The arrays must have room.

    A group is its size, one of its rewards, and the sums of deviations from that reward and of their squares.
    """
    for i in range(new_keys.size):
        at = _slot(new_keys[i], slots, keys)
        if slots[at] == 0:
            keys[used], first[used] = new_keys[i], new_first[i]
            used += 1
            slots[at] = used
        place = slots[at] - 1
        n, move = new_count[i], new_first[i] - first[place]
        count[place] += n
        shift[place] += new_shift[i] + n * move
        square[place] += new_square[i] + 2 * move * new_shift[i] + n * move * move
    return used


@njit(cache=True)
def draw_hits(indptr: Indices, cumulative: Array, sizes: Indices, seed: np.uint64, hits: Indices) -> None:
    """Draw ``sizes[row]`` successors of every row and count, in ``hits``, which stored entries came out."""
    counter = np.uint64(0)
    for row in range(sizes.size):
        first, last = indptr[row], indptr[row + 1] - 1
        for _ in range(sizes[row]):
            u = uniform(seed, counter)
            counter += np.uint64(1)
            hits[first_above(cumulative, first, last, u)] += 1
