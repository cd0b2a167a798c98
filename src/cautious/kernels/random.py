"""Random numbers inside kernels: a counter is mixed into a number, so any draw can be repeated from (seed, counter)."""

import numpy as np
from numba import njit

from cautious.arrays import Array

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
UNIT = 1.0 / 9007199254740992.0


@njit(cache=True, inline="always")
def uniform(seed: np.uint64, counter: np.uint64) -> float:
    """The number in [0, 1) at this place of the stream of this seed: splitmix64 (Steele, Lea, Flood 2014)."""
    z = seed + (counter + np.uint64(1)) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * UNIT


@njit(cache=True, inline="always")
def first_above(cumulative: Array, low: int, high: int, u: float) -> int:
    """The first place in [low, high] with a running sum above u; the last one when rounding leaves none."""
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= u:
            low = middle + 1
        else:
            high = middle
    return low
