"""Affine functions below a risk, and their exact sum with the reward: what is left is a problem without a risk."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cautious.verification.exact import Integers

# scales are used as they are up to so many bits, and enclosed with this relative precision beyond
MAX_SCALE_BITS, SCALE_BITS = 2048, 256


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
        low, high = _enclosed(price * self.factor)
        if low == high:
            return np.asarray(reward - (low.numerator * self.slope) // low.denominator, dtype=object)
        # both ends over one denominator, and the smaller product
        ends = np.array([high.numerator * low.denominator, low.numerator * high.denominator], dtype=object)
        least = ends[np.asarray(self.slope > 0, dtype=np.int64)] * self.slope
        return np.asarray(reward - least // (low.denominator * high.denominator), dtype=object)


def _enclosed(number: Fraction) -> tuple[Fraction, Fraction]:
    """Fractions of few bits on both sides; powers of a discount have many, and there is a product for every pair."""
    bits = number.denominator.bit_length()
    if bits <= MAX_SCALE_BITS:
        return number, number
    fine = 1 << max(0, SCALE_BITS + bits - number.numerator.bit_length())
    below = (number * fine).__floor__()
    return Fraction(below, fine), Fraction(below + 1, fine)
