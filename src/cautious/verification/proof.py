"""The two halves of a proof: what the delivered policy reaches, and what no policy exceeds; or that none is feasible.

Upper bound. Affine functions below the risks leave a reward without a risk, of which no policy earns more than
multipliers prove. Beside Variance and CVaR this holds for the policies of one box of their scalars; boxes must cover
everything. Infeasible: weights w >= 0 for which no policy has  sum_j w_j (number_j - floor_j) > 0.
"""

from fractions import Fraction
from math import inf

import numpy as np

from cautious.verification.claim import Box, Claim
from cautious.verification.exact import Integers
from cautious.verification.flow import ExactModel
from cautious.verification.lines import Line
from cautious.verification.occupancy import occupancy
from cautious.verification.risks import KINDS, Barrier, Kind
from cautious.verification.scalars import SCALARS, ScalarKind, covers, widened

# exact, or an infinity
Number = Fraction | float


class Proof:
    """A claim with its risks and its model in exact arithmetic."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        terms = list(enumerate(claim.terms))
        self.convex: dict[int, Kind] = {
            number: KINDS[term.kind](term, claim.model) for number, term in terms if term.kind in KINDS
        }
        permitted = claim.model.allowed.copy()
        for risk in self.convex.values():
            mask = risk.permitted()
            permitted &= True if mask is None else mask
        self.exact = ExactModel(claim.model, permitted)
        self.scalars: dict[int, ScalarKind] = {
            number: SCALARS[term.kind](term, self.exact) for number, term in terms if term.kind in SCALARS
        }

    def price(self, number: int) -> Fraction:
        """What one unit of a risk costs."""
        return Fraction(self.claim.caution) * Fraction(self.claim.terms[number].weight)

    def objective(self) -> Number:
        """What the policy reaches at least."""
        d = occupancy(self.claim.model, self.claim.policy)
        numerator, denominator = self.exact.reward(d.rows)
        reached = self.exact.horizon * d.mean(numerator, denominator, self.exact.reward_bits)[0]
        for number, risk in (self.convex | self.scalars).items():
            value = risk.value(d)
            if value is None:
                return -inf
            reached -= self.price(number) * value
        return reached

    def upper_bound(self) -> Number:
        """What no policy exceeds: the largest bound of a box, if the boxes cover everything."""
        boxes, scalars = self.claim.boxes, list(self.scalars.values())
        if not boxes:
            return inf
        ends = [risk.ends for risk in scalars]
        ranges = widened(boxes, ends)
        if not covers(ranges, ends):
            return inf
        return max(self._box_bound(box, sides) for box, sides in zip(boxes, ranges, strict=True))

    def _box_bound(self, box: Box, sides: list[tuple[Fraction, Fraction]]) -> Fraction:
        lines: dict[int, Line] = {}
        for number, convex in self.convex.items():
            lines[number] = convex.line(self.exact, box.lines[number])
        for (number, scalar), (low, high), at in zip(self.scalars.items(), sides, box.at, strict=True):
            lines[number] = scalar.line(low, high, float(at))
        reward, intercept = self.exact.reward_above, Fraction(0)
        for number, line in lines.items():
            reward = line.taken_from(reward, (1 - self.exact.gamma) * self.price(number))
            intercept += self.price(number) * line.intercept
        return self.exact.greatest_return(reward, box.multipliers, box.rest) - intercept

    def conflict(self) -> Fraction | None:
        """What no policy exceeds of the weighted sum of (number - floor) of the barriers; None without a proof."""
        barriers = [risk for risk in self.convex.values() if isinstance(risk, Barrier)]
        floors = [floor for risk in barriers for floor in risk.floors]
        if self.claim.conflict is None or not barriers:
            return None
        weights, multipliers = self.claim.conflict
        if weights.size != len(floors) or np.any(weights < 0) or not np.any(weights > 0):
            return None
        # a weighted sum of numbers is a reward, counted per step
        reward: Integers = np.zeros(self.exact.rows.pairs.size, dtype=object)
        used = 0
        for risk in barriers:
            count = len(risk.floors)
            slope, factor = risk.minus_sum(self.exact, weights[used : used + count])
            reward, used = Line(slope, Fraction(0), factor).taken_from(reward, Fraction(1)), used + count
        most = (1 - self.exact.gamma) * self.exact.greatest_return(reward, multipliers)
        return most - sum((Fraction(float(w)) * b for w, b in zip(weights, floors, strict=True)), Fraction(0))
