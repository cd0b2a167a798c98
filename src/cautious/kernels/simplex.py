"""Distributions nearest to given numbers."""

import numpy as np
from numba import njit

from cautious.arrays import Array


@njit(cache=True, nogil=True, error_model="numpy")
def level(x: Array, mass: float) -> float:
    """The number that the entries above it exceed by ``mass`` together; -inf takes no part, and without others is it.

    Entries below the level drop out, which raises it, until none does (Michelot): mostly a few passes, no sorting.
    """
    found, kept = -np.inf, x.size + 1
    while True:
        total, count = 0.0, 0
        for i in range(x.size):
            if x[i] > found:
                total += x[i]
                count += 1
        # rounding may lower the level and let entries back in: whoever dropped out stays out
        if count == 0 or count >= kept:
            return found
        kept, found = count, (total - mass) / count
