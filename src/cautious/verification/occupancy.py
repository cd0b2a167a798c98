"""Where a policy spends its discounted time, and how far the exact answer can be from that.

The state marginal of a policy solves  x = (1-gamma) start + gamma P' x.  Any x~ is away from it, in the 1-norm, by at
most  |residual of x~|_1 / (1-gamma),  because P' does not increase the 1-norm. Floating point finds x~; the residual is
exact.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from cautious.arrays import Array
from cautious.verification.claim import Model
from cautious.verification.exact import Integers, bits_of, ceil_ratio, dot, fraction, integers
from cautious.verification.flow import Rows, reachable

# masses are integers of 2^-BITS
BITS = 256
# how close to the exact occupancy corrections go, if they can, and how many there are at most
CLOSE_ENOUGH, ROUNDS = Fraction(1, 1 << 140), 12
KRYLOV_REDUCTION, KRYLOV_STEPS, KRYLOV_RESTARTS, KRYLOV_SUFFICES = 1e-10, 40, 10, 1e-3
CORRECTION_BITS = 106


@dataclass(frozen=True)
class Occupancy:
    """Where a policy spends its time: ``mass`` of the pairs of ``rows``, integers of 2^-``bits``, not negative.

    The exact occupancy uses no other pairs, and differs from this one by at most ``distance`` in the 1-norm.
    """

    rows: Rows
    mass: Integers
    bits: int
    distance: Fraction

    def mean(self, numerator: Integers, denominator: Any, bits: int) -> tuple[Fraction, Fraction]:
        """Of a table of fractions, numerators of 2^-bits: the ends of an interval with the exact occupancy's mean."""
        # quotients on a finer grid, rounded both ways
        below, above = (numerator << self.bits) // denominator, ceil_ratio(numerator << self.bits, denominator)
        largest = fraction(max(abs(int(np.min(below))), abs(int(np.max(above)))), bits + self.bits)
        low, high = (fraction(dot(self.mass, table), bits + 2 * self.bits) for table in (below, above))
        return low - largest * self.distance, high + largest * self.distance

    @cached_property
    def of_states(self) -> Integers:
        """The state marginal (S,)."""
        sums = np.zeros(self.rows.model.shape[0], dtype=object)
        np.add.at(sums, self.rows.states, self.mass)
        return sums


def occupancy(model: Model, policy: Array) -> Occupancy:
    """The occupancy of a policy (S, A): corrections until it is close enough or no correction helps."""
    used = policy > 0
    rows = Rows(model, used & reachable(model, used)[:, None])
    chain = _Chain(rows, policy)
    x = np.zeros(len(policy), dtype=object)
    mass, residual, distance = chain.measured(x)
    for _ in range(ROUNDS):
        correction = None if distance <= CLOSE_ENOUGH else chain.correction(residual)
        if correction is None:
            break
        x = np.maximum(x + correction, 0)
        better = chain.measured(x)
        if better[2] >= distance:
            break
        mass, residual, distance = better
    return Occupancy(rows, mass, BITS, distance)


class _Chain:
    """The chain of a policy, in whole numbers for the residual and in floating point for corrections."""

    def __init__(self, rows: Rows, policy: Array) -> None:
        self.rows, self.gamma = rows, Fraction(rows.model.discount)
        model, shares, n = rows.model, rows.pick(policy), len(policy)
        self.shares, self.share_totals = integers(shares, bits_of(shares)), np.zeros(n, dtype=object)
        np.add.at(self.share_totals, rows.states, self.shares)
        self.chance_bits = bits_of(model.probabilities)
        start, gamma = integers(model.start, bits_of(model.start)), self.gamma
        self.entering = (
            (start << BITS) * (gamma.denominator - gamma.numerator) // (int(start.sum()) * gamma.denominator)
        )
        weights = (shares / policy.sum(axis=1)[rows.states])[rows.owner] * model.probabilities[rows.entries]
        chain = sp.csr_array((weights, (rows.next_states, rows.states[rows.owner])), shape=(n, n))
        self.matrix = sp.csc_array(sp.eye_array(n) - model.discount * chain)
        self.factors: Any = None

    def measured(self, x: Integers) -> tuple[Integers, Integers, Fraction]:
        """The mass of the pairs at a state marginal x, its residual, and how far away the exact occupancy can be."""
        rows, gamma = self.rows, self.gamma
        mass = x[rows.states] * self.shares // self.share_totals[rows.states]
        flow = (gamma.numerator * mass << self.chance_bits) // (gamma.denominator * rows.totals)
        inflow = np.zeros(x.size, dtype=object)
        np.add.at(inflow, rows.next_states, flow[rows.owner] * rows.chances)
        residual = self.entering + (inflow >> self.chance_bits) - x
        # quotients were rounded twice for every state and every pair, each by less than one unit or little more
        unit = Fraction(2 * x.size + 4 * rows.pairs.size, 1 << BITS)
        return mass, residual, (fraction(int(np.sum(np.abs(residual))), BITS) + unit) / (1 - gamma) + unit

    def correction(self, residual: Integers) -> Integers | None:
        """What to add, in the units of the residual: by a Krylov method, by sparse factors if that fails, or None."""
        largest = max(1, int(np.max(np.abs(residual))))
        right = np.array([float(Fraction(int(entry), largest)) for entry in residual])
        found = self._krylov(right) if self.factors is None else None
        if found is None:
            try:
                self.factors = sla.splu(self.matrix) if self.factors is None else self.factors
            except RuntimeError:
                # singular in floating point, as a discount of 1 - 1e-16 may be
                return None
            found = self.factors.solve(right)
        if not np.isfinite(found).all():
            return None
        return np.asarray((integers(found, CORRECTION_BITS) * largest) >> CORRECTION_BITS, dtype=object)

    def _krylov(self, right: Array) -> Array | None:
        found: Array = sla.gmres(
            self.matrix, right, rtol=KRYLOV_REDUCTION, restart=KRYLOV_STEPS, maxiter=KRYLOV_RESTARTS
        )[0]
        left_over = float(np.linalg.norm(right - self.matrix @ found))
        return found if left_over <= KRYLOV_SUFFICES * float(np.linalg.norm(right)) else None
