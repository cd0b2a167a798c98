"""``PolicyOccupancy``: where a policy goes, and how exactly that is known."""

from dataclasses import dataclass

from cautious.arrays import Array, Mask


@dataclass(frozen=True)
class PolicyOccupancy:
    """The occupancy of a policy in a model, and how wrong it can be.

    ``occupancy`` (S, A); ``reached`` (S,) states the policy visits; ``error`` bounds the 1-norm distance to the
    exact occupancy, rounding included.
    """

    occupancy: Array
    reached: Mask
    error: float
