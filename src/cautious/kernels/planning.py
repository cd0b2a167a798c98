"""What ``krylov.py`` and ``policy_systems.py`` need; the other loops of planning are in ``_core/planning.hpp``."""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices

ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def expectation(pointer: Indices, successor: Indices, chance: Array, v: Array, row: int) -> float:
    """Mean of v over one row."""
    total = 0.0
    for k in range(pointer[row], pointer[row + ONE]):
        total += chance[k] * v[successor[k]]
    return total
