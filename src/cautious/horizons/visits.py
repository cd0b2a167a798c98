"""``PolicyOccupancy``: where a policy goes, and how exactly that is known."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cautious.arrays import Array, Mask


def over_time(occupancy: Array) -> Array:
    """An occupancy as risks see it, (S, A): that of a finite horizon (T, S, A) is summed over the steps."""
    return np.asarray(occupancy.sum(axis=0)) if occupancy.ndim == 3 else occupancy


@dataclass(frozen=True)
class PolicyOccupancy:
    """The occupancy of a policy in a model, and how wrong it can be.

    ``occupancy`` (S, A), or (T, S, A) with a finite horizon; ``reached`` (S,) states the policy visits; ``error``
    bounds the 1-norm distance to the exact occupancy, rounding included.
    """

    occupancy: Array
    reached: Mask
    error: float

    @cached_property
    def pairs(self) -> Array:
        """The occupancy as risks see it; (S, A)."""
        return over_time(self.occupancy)
