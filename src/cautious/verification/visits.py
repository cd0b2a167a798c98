"""How often a policy visits each state, in exact arithmetic: by corrections until the exact residual is small.

Visits x (S,) of some states, of which what leaves them is lost, solve  x = entering + gamma P' x.  If x~ has the
residuals e (S,), it is away from x, in the 1-norm, by at most

    sum_s |e(s)| w(s)    for any w >= 0 with  w(s) >= 1 + gamma E[w(s')]  at every one of these states:

w bounds the (discounted) number of steps from s, so that any such w also proves that the visits are finite.
Floating point finds x~ and w; the residual and the inequality are exact.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from cautious.arrays import Array, Mask
from cautious.verification.exact import Integers, bits_of, ceil_ratio, fraction, integers
from cautious.verification.flow import Rows

# masses are integers of 2^-MASS_BITS, numbers of steps of 2^-STEP_BITS
MASS_BITS, STEP_BITS = 256, 64
# how close corrections go, if they can, as a share of the visits, and how many there are at most
CLOSE_ENOUGH, MAX_ROUNDS = Fraction(1, 1 << 140), 12
KRYLOV_REDUCTION, KRYLOV_STEPS, KRYLOV_RESTARTS, SUFFICIENT_RESIDUAL_SHARE = 1e-10, 40, 10, 1e-3
CORRECTION_BITS = 106


@dataclass(frozen=True)
class StateVisits:
    """``states`` (S,), integers of 2^-MASS_BITS, not negative; ``distance`` to the exact visits in the 1-norm."""

    states: Integers
    distance: Fraction


def units(states: Mask) -> Integers:
    """One for each of these states (S,), in units of 2^-MASS_BITS."""
    return np.asarray(states.astype(np.int64).astype(object) << MASS_BITS, dtype=object)


class PolicyChain:
    """The chain of a policy (S, A) on the states ``inside`` (S,); ``rows`` are the pairs that it uses there.

    In whole numbers for residuals and in floating point for corrections.
    """

    def __init__(self, rows: Rows, policy: Array, inside: Mask) -> None:
        self.rows, self.inside, self.gamma = rows, inside, Fraction(rows.model.discount)
        shares, n = rows.pick(policy), len(policy)
        self.shares, self.share_totals = integers(shares, bits_of(shares)), np.zeros(n, dtype=object)
        np.add.at(self.share_totals, rows.states, self.shares)
        self.chance_bits = bits_of(rows.model.probabilities)
        weights = (shares / policy.sum(axis=1)[rows.states])[rows.owner] * rows.model.probabilities[rows.entries]
        kept = inside[rows.next_states] & inside[rows.states][rows.owner]
        chain = sp.csr_array((weights[kept], (rows.next_states[kept], rows.states[rows.owner][kept])), shape=(n, n))
        self.matrix = sp.csc_array(sp.eye_array(n) - rows.model.discount * chain)
        self.factors: Any = None

    def visits(self, entering: Integers, steps: Integers) -> StateVisits:
        """The visits that ``entering`` (S,) leads to; ``steps`` (S,) are numbers w in units of 2^-STEP_BITS."""
        x = np.zeros(entering.size, dtype=object)
        residual, distance = self._measured(x, entering, steps)
        for _ in range(MAX_ROUNDS):
            enough = CLOSE_ENOUGH * max(Fraction(1), fraction(int(x.sum()), MASS_BITS))
            correction = None if distance <= enough else self.solved(residual)
            if correction is None:
                break
            new = np.where(self.inside, np.maximum(x + correction, 0), 0)
            new_residual, new_distance = self._measured(new, entering, steps)
            if new_distance >= distance:
                break
            x, residual, distance = new, new_residual, new_distance
        return StateVisits(x, distance)

    def mass(self, x: Integers) -> Integers:
        """The mass of the pairs at a state marginal, rounded down."""
        rows = self.rows
        return np.asarray(x[rows.states] * self.shares // self.share_totals[rows.states], dtype=object)

    def outflow(self, x: Integers) -> Integers:
        """Where the mass goes that visits x bring along; (S,)."""
        rows, gamma = self.rows, self.gamma
        flow = (gamma.numerator * self.mass(x) << self.chance_bits) // (gamma.denominator * rows.totals)
        inflow = np.zeros(x.size, dtype=object)
        np.add.at(inflow, rows.next_states, flow[rows.owner] * rows.chances)
        return np.asarray(inflow >> self.chance_bits, dtype=object)

    @property
    def unit(self) -> Fraction:
        """What rounding can have done to all flows: two quotients for every state and every pair, or little more."""
        return Fraction(2 * self.inside.size + 4 * self.rows.pairs.size, 1 << MASS_BITS)

    def _measured(self, x: Integers, entering: Integers, steps: Integers) -> tuple[Integers, Fraction]:
        """The residual of visits x, and how far away the exact ones can be, with the mass of the pairs."""
        residual = np.where(self.inside, entering + self.outflow(x) - x, 0)
        most = fraction(int(np.max(steps, initial=0)), STEP_BITS)
        size = fraction(int(np.sum(np.abs(residual) * steps)), MASS_BITS + STEP_BITS)
        return residual, size + self.unit * (most + 1)

    @cached_property
    def steps(self) -> Integers | None:
        """Numbers of steps w (S,), in units of 2^-STEP_BITS; None if the visits are not proved to be finite."""
        ones = units(self.inside)
        found = self.solved(ones, transposed=True)
        if found is None:
            return None
        w = np.where(self.inside, np.maximum(found, 0), 0)
        rows, gamma = self.rows, self.gamma
        sums = gamma.numerator * rows.sums(rows.chances * w[rows.next_states])
        ahead = np.zeros(w.size, dtype=object)
        np.add.at(ahead, rows.states, self.shares * ceil_ratio(sums, gamma.denominator * rows.totals))
        fall = (w - ceil_ratio(ahead, np.maximum(self.share_totals, 1)))[self.inside]
        least = int(np.min(fall, initial=1 << MASS_BITS))
        return None if least <= 0 else np.asarray(ceil_ratio(w << STEP_BITS, least), dtype=object)

    def solved(self, right: Integers, transposed: bool = False) -> Integers | None:
        """About the solution for a right side, in its units: by a Krylov method, else by sparse factors, or None."""
        largest = max(1, int(np.max(np.abs(right))))
        scaled = np.array([float(Fraction(int(entry), largest)) for entry in right])
        matrix = sp.csc_array(self.matrix.T) if transposed else self.matrix
        found = _krylov(matrix, scaled) if self.factors is None else None
        if found is None:
            try:
                self.factors = sla.splu(self.matrix) if self.factors is None else self.factors
            except RuntimeError:
                # singular in floating point, as a discount of 1 - 1e-16 may be
                return None
            found = self.factors.solve(scaled, "T" if transposed else "N")
        if not np.isfinite(found).all():
            return None
        return np.asarray((integers(found, CORRECTION_BITS) * largest) >> CORRECTION_BITS, dtype=object)


def _krylov(matrix: Any, right: Array) -> Array | None:
    found: Array = sla.gmres(matrix, right, rtol=KRYLOV_REDUCTION, restart=KRYLOV_STEPS, maxiter=KRYLOV_RESTARTS)[0]
    left_over = float(np.linalg.norm(right - matrix @ found))
    return found if left_over <= SUFFICIENT_RESIDUAL_SHARE * float(np.linalg.norm(right)) else None
