"""Vectors in twice the working precision: the exact sums of a vector and of what its rounding left out."""

import numpy as np

from cautious.arrays import Array


def twofold_sum(values: Array, rest: Array, step: Array) -> tuple[Array, Array]:
    """values + rest + step, as rounded sums and what rounding left out of them (Knuth's two-sum)."""
    total, left_out = _two_sum(values, step)
    return _two_sum(total, rest + left_out)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    moved = total - a
    return total, np.asarray((a - (total - moved)) + (b - moved))
