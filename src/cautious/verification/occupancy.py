"""Where a policy spends its time, and how far the exact answer can be from that; discounted, without an end."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.verification.claim import Model
from cautious.verification.exact import Integers, bits_of, ceil_ratio, dot, fraction, integers
from cautious.verification.flow import Rows, reachable
from cautious.verification.visits import MASS_BITS, STEP_BITS, PolicyChain


@dataclass(frozen=True)
class Occupancy:
    """Where a policy spends its time: ``mass`` of the pairs of ``rows``, integers of 2^-``bits``, not negative.

    The exact occupancy uses no other pairs, and differs from this one by at most ``distance`` in the 1-norm. It sums
    to one, or it is one of expected visits.
    """

    rows: Rows
    mass: Integers
    bits: int
    distance: Fraction

    def mean(self, numerator: Integers, denominator: Any, bits: int) -> tuple[Fraction, Fraction]:
        """Of a table of fractions, numerators of 2^-bits: the ends of an interval with the exact occupancy's mean."""
        # quotients on a finer grid, rounded both ways
        below, above = (numerator << self.bits) // denominator, ceil_ratio(numerator << self.bits, denominator)
        most = max(abs(int(np.min(below, initial=0))), abs(int(np.max(above, initial=0))))
        largest = fraction(most, bits + self.bits)
        low, high = (fraction(dot(self.mass, table), bits + 2 * self.bits) for table in (below, above))
        return low - largest * self.distance, high + largest * self.distance

    @cached_property
    def of_states(self) -> Integers:
        """The state marginal (S,)."""
        sums = np.zeros(self.rows.model.shape[0], dtype=object)
        np.add.at(sums, self.rows.states, self.mass)
        return sums


def occupancy(model: Model, policy: Array) -> Occupancy:
    """The discounted occupancy of a policy (S, A)."""
    used = policy > 0
    here = reachable(model, used)
    rows = Rows(model, used & here[:, None])
    chain, gamma = PolicyChain(rows, policy, here), Fraction(model.discount)
    start = integers(model.start, bits_of(model.start))
    entering = (start << MASS_BITS) * (gamma.denominator - gamma.numerator) // (int(start.sum()) * gamma.denominator)
    # discounted, no state is further from the end
    steps = ceil_ratio(gamma.denominator << STEP_BITS, gamma.denominator - gamma.numerator)
    found = chain.visits(entering, np.full(start.size, steps, dtype=object))
    return Occupancy(rows, chain.mass(found.states), MASS_BITS, found.distance)
