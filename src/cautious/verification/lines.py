"""Affine functions below a risk, and their exact sum with the reward: what is left is a problem without a risk."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cautious.verification.exact import Integers


@dataclass(frozen=True)
class Line:
    """risk(d) >= factor * <slope, d> + intercept  for every occupancy d on the active pairs.

    ``slope`` holds integers of 2^-bits of the active pairs, rounded down if at all, which keeps the line below.
    """

    slope: Integers
    intercept: Fraction
    factor: Fraction = Fraction(1)

    def taken_from(self, reward: Integers, price: Fraction) -> Integers:
        """reward - price * factor * slope, rounded up."""
        scale = price * self.factor
        return np.asarray(reward - (scale.numerator * self.slope) // scale.denominator, dtype=object)
