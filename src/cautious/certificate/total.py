"""The upper bound until the end, undiscounted, from multipliers v (S,) that are zero in ended states.

If no active pair has  r + E[v] - v > 0,  then v is at least what any policy earns that ends with certainty: its visits
are finite, and what is left of v vanishes. Nothing bounds the visits of all policies, so that a positive entry, however
small, proves nothing. Differences of v are averaged, not v: where staying is free, an entry is exactly zero.
"""

import numpy as np

from cautious._core import certificate as kernels
from cautious.arrays import Array, Mask
from cautious.models.encodings import EPS, SMALLEST_NORMAL, read_only_view
from cautious.models.tabular import MDP


def total_bound(mdp: MDP, active: Mask, reward: Array, size: Array, v: Array) -> float:
    """What no policy that ends earns from a table (S, A), whose rounding is relative to ``size``."""
    worst = kernels.largest_rise(
        *mdp.csr,
        read_only_view(reward).ravel(),
        read_only_view(size).ravel(),
        read_only_view(active).ravel(),
        v,
        2 * EPS,
    )
    # a reward or a multiplier that is not a number proves nothing
    if not worst <= 0:
        return np.inf
    mean, magnitude = kernels.compensated_dot(mdp.start, v)
    # 16 u as in ``bounds``
    return float(mean + 8 * EPS * magnitude + SMALLEST_NORMAL)
