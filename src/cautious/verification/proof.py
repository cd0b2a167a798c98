"""The two halves of a proof: what the delivered policy reaches, and what no policy exceeds; or that none is feasible.

Upper bound. Affine functions below the risks leave a reward without a risk, of which no policy earns more than
multipliers prove. Beside Variance and CVaR this holds for the policies of one box of their scalars; boxes must cover
everything. A limit  measure <= bound  with a price p >= 0 takes  p * (measure - bound)  from the objective of a policy
that keeps it, which is at most zero; an affine function below the measure does the rest. Infeasible: weights w >= 0 and
prices for which no policy has  sum_j w_j (number_j - floor_j) > 0,  or at least 0 if there are only limits, where each
limit counts with its price times (bound - measure).
"""

from fractions import Fraction
from functools import cached_property
from math import inf

import numpy as np

from cautious.verification.claim import Box, Claim, Limit, PricedLimit
from cautious.verification.exact import Integers, Number
from cautious.verification.horizons import exact_model, occupancy_of
from cautious.verification.lines import Line
from cautious.verification.occupancy import Occupancy
from cautious.verification.risks import KINDS, Barrier, Kind, LinearKind
from cautious.verification.scalars import SCALARS, ScalarKind, covers, widened
from cautious.verification.small_chains import exact_masses
from cautious.verification.visit_risks import KINDS_OF_VISITS

# a limit that is missed by less may be met with equality
TIE = Fraction(1, 1 << 80)


class Proof:
    """A claim with its risks and its model in exact arithmetic."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        terms = list(enumerate(claim.terms))
        kinds = KINDS_OF_VISITS if claim.model.counts_visits else KINDS
        self.convex: dict[int, Kind] = {
            number: kinds[term.kind](term, claim.model) for number, term in terms if term.kind in kinds
        }
        self.limited: list[list[Kind]] = [
            [kinds[term.kind](term, claim.model) for term in limit.terms] for limit in claim.limits
        ]
        permitted = claim.model.allowed.copy()
        for risk in self.convex.values():
            mask = risk.permitted()
            permitted &= True if mask is None else mask
        usable = exact_model(claim.model, claim.model.allowed).active if claim.limits else claim.model.allowed
        # limits that leave pairs out: with more room these come back
        self.forbids: list[bool] = []
        for limit, risks in zip(claim.limits, self.limited, strict=True):
            bound = _single_bound(limit) if len(risks) == 1 else None
            masks = [mask for risk in risks for mask in risk.permitted_below(bound, usable)]
            self.forbids.append(any(np.any(claim.model.allowed & ~mask) for mask in masks))
            for mask in masks:
                permitted &= mask
        self.exact = exact_model(claim.model, permitted)
        self.exact.refine(claim.gap)
        self.scalars: dict[int, ScalarKind] = {
            number: SCALARS[term.kind](term, self.exact) for number, term in terms if term.kind in SCALARS
        }

    def price(self, number: int) -> Fraction:
        """What one unit of a risk costs."""
        return Fraction(self.claim.caution) * Fraction(self.claim.terms[number].weight)

    @cached_property
    def occupancy(self) -> Occupancy | None:
        """Of the delivered policy; None if it is not known."""
        return occupancy_of(self.claim.model, self.claim.policy)

    def missed(self) -> list[str]:
        """The names of the limits that the policy is not proved to keep."""
        pairs = zip(self.claim.limits, self.limited, strict=True)
        return [limit.name for limit, risks in pairs if not self._kept(limit, risks)]

    def _kept(self, limit: Limit, risks: list[Kind]) -> bool:
        d = self.occupancy
        if d is None:
            return False
        if len(risks) == 1:
            return risks[0].at_most(d, _single_bound(limit)) or self._kept_exactly(limit, risks[0], d)
        values = [risk.value(d) for risk in risks]
        total = Fraction(0)
        for term, value in zip(limit.terms, values, strict=True):
            if value is None:
                return False
            total += Fraction(term.weight) * value
        return total <= Fraction(limit.bound)

    def _kept_exactly(self, limit: Limit, risk: Kind, d: Occupancy) -> bool:
        """Where the bound may be met with equality: by fractions, if the model is small."""
        if not isinstance(risk, LinearKind) or not risk.at_most(d, _single_bound(limit) + TIE):
            return False
        pairs = np.zeros(self.claim.model.shape, dtype=np.bool_)
        pairs.ravel()[d.rows.pairs] = True
        found = exact_masses(self.claim.model, self.claim.policy, pairs)
        return found is not None and risk.at_most_exactly(*found, _single_bound(limit))

    def underpriced(self) -> list[str]:
        """The names of the limits of which one more unit may add more than the claimed price, as far as is proved.

        Beside scalars the price is that of one box, and limits that forbid pairs need no price in the proof.
        """
        if self.scalars:
            return []
        return [
            limit.name
            for box in self.claim.boxes
            for limit, priced, forbids in zip(self.claim.limits, box.limits, self.forbids, strict=True)
            if not forbids and not priced.price <= limit.price
        ]

    def objective(self) -> Number:
        """What the policy reaches at least."""
        d = self.occupancy
        if d is None:
            return -inf
        numerator, denominator = self.exact.reward(d.rows)
        reached = self.exact.length * d.mean(numerator, denominator, self.exact.reward_bits)[0]
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
        # no policy has its numbers in a box that lies beyond what these can be
        return max(
            self._box_bound(box, sides)
            for box, sides in zip(boxes, ranges, strict=True)
            if all(low <= most and least <= high for (low, high), (least, most) in zip(sides, ends, strict=True))
        )

    def _box_bound(self, box: Box, sides: list[tuple[Fraction, Fraction]]) -> Number:
        lines: dict[int, Line] = {}
        for number, convex in self.convex.items():
            lines[number] = convex.line(self.exact, box.lines[number])
        for (number, scalar), (low, high), at in zip(self.scalars.items(), sides, box.at, strict=True):
            lines[number] = scalar.line(low, high, float(at))
        reward, intercept = self.exact.reward_above, Fraction(0)
        for number, line in lines.items():
            reward = line.taken_from(reward, self.price(number) / self.exact.length)
            intercept += self.price(number) * line.intercept
        reward, less = self._priced_out(reward, box.limits, 1 / self.exact.length)
        return self.exact.greatest_return(reward, box.multipliers, box.rest) - intercept - less

    def _priced_out(
        self, reward: Integers, limits: tuple[PricedLimit, ...], unit: Fraction
    ) -> tuple[Integers, Fraction]:
        """The reward without  price * (measure - bound)  of every limit, and what is left to subtract.

        A unit of a measure costs its price times ``unit`` per step.
        """
        less = Fraction(0)
        for limit, risks, priced in zip(self.claim.limits, self.limited, limits, strict=True):
            price = Fraction(priced.price)
            less -= price * Fraction(limit.bound)
            for term, risk, given in zip(limit.terms, risks, priced.lines, strict=True):
                line, cost = risk.line(self.exact, given), price * Fraction(term.weight)
                reward, less = line.taken_from(reward, unit * cost), less + cost * line.intercept
        return reward, less

    def conflict(self) -> Number | None:
        """What no policy exceeds of the weighted sum of what is required; None without a proof."""
        barriers = [risk for risk in self.convex.values() if isinstance(risk, Barrier)]
        floors, claimed = [floor for risk in barriers for floor in risk.floors], self.claim.conflict
        if claimed is None or claimed.weights.size != len(floors) or np.any(claimed.weights < 0):
            return None
        if not np.any(claimed.weights > 0) and not any(limit.price > 0 for limit in claimed.limits):
            return None
        # a weighted sum of numbers is a reward, counted per step
        reward: Integers = np.zeros(self.exact.rows.pairs.size, dtype=object)
        used = 0
        for risk in barriers:
            count = len(risk.floors)
            slope, factor = risk.minus_sum(self.exact, claimed.weights[used : used + count])
            reward, used = Line(slope, Fraction(0), factor).taken_from(reward, Fraction(1)), used + count
        reward, less = self._priced_out(reward, claimed.limits, Fraction(1))
        most = self.exact.greatest_return(reward, claimed.multipliers, claimed.rest) / self.exact.length
        return (
            most
            - less
            - sum((Fraction(float(w)) * b for w, b in zip(claimed.weights, floors, strict=True)), Fraction(0))
        )

    def weighs_barriers(self) -> bool:
        """Whether the proof of conflict rests on a barrier."""
        return self.claim.conflict is not None and bool(np.any(self.claim.conflict.weights > 0))


def _single_bound(limit: Limit) -> Fraction:
    """The bound on the only term of a limit."""
    return Fraction(limit.bound) / Fraction(limit.terms[0].weight)
