"""Convex risks of expected visits, which have no fixed sum: other lines than those below distances of distributions.

With x >= 0 the visits of pairs or of states and p the prior, which stands for its doubles as they are:

    KL               sum x log(x/p) - x + p     <u, x> - sum p (e^u - 1)      for any u
    Entropy          sum x log x                <u, x> - sum e^(u-1)          for any u
    TotalVariation   1/2 |x - p|_1              <f, x - p>                    for any f in [-1/2, 1/2]
    Quadratic        1/2 |x - p|^2              <g, x - p> - 1/2 |g|^2        for any g

Entries that no policy visits are zero, and count with what they are exactly.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.verification.exact import Integers, balls, bits_of, dot, fraction, integers, least, sum_of_balls
from cautious.verification.flow import ExactModel
from cautious.verification.lines import Line
from cautious.verification.occupancy import Occupancy
from cautious.verification.risks import KINDS, Entropic, HalfL1, HalfSquares, Kind, Prior


class VisitPrior(Prior):
    """Priors that are not divided by their sum."""

    def exact_prior(self) -> tuple[Integers, int]:
        """Integers (n,), and what stands for one."""
        bits = bits_of(self.prior)
        return integers(self.prior.ravel(), bits), 1 << bits


class EntropicVisits(VisitPrior, Entropic):
    """KL and Entropy."""

    @property
    def relative(self) -> int:
        """1 with the terms - x + p."""
        return 1 if "prior" in self.data else 0

    @property
    def all_of_prior(self) -> Fraction:
        """The sum of the prior, where it counts."""
        prior, one = self.exact_prior()
        return Fraction(self.relative * int(prior.sum()), one)

    def line(self, exact: ExactModel, given: Array) -> Line:
        """The conjugate is a sum of exponentials."""
        here, (prior, one), arb = self.active(exact), self.exact_prior(), balls()
        terms = (
            arb(int(p)) / arb(one) * (arb(float(u)) - arb(1 - self.relative)).exp()
            for p, u in zip(prior[here], given.ravel()[here], strict=True)
        )
        return Line(self.slope(exact, given), self.all_of_prior + least(-sum_of_balls(terms)))

    def value(self, d: Occupancy) -> Fraction | None:
        """Every entry is convex, and largest at an end of what it can be."""
        x, (prior, one), arb = self.entries(d), self.exact_prior(), balls()
        reached = d.rows.pairs if self.prior.ndim == 2 else np.unique(d.rows.states)
        if np.any(prior[reached] == 0):
            return None
        total = self.all_of_prior
        for mass, p in zip(x[reached].tolist(), prior[reached].tolist(), strict=True):
            middle = fraction(mass, d.bits)
            ends = max(middle - d.distance, Fraction(0)), middle + d.distance
            log_prior = (arb(p) / arb(one)).log()
            total += max(self._entry(end, log_prior) for end in ends)
        return total

    def _entry(self, x: Fraction, log_prior: Any) -> Fraction:
        """At least  x log(x/p) - x."""
        if x == 0:
            return x
        number = balls()(x.numerator) / balls()(x.denominator)
        return -least(-(number * (number.log() - log_prior - self.relative)))


class HalfL1Visits(VisitPrior, HalfL1):
    """TotalVariation."""

    def line(self, exact: ExactModel, given: Array) -> Line:
        """Slopes of the distance; an entry without visits is as far off as its prior is large."""
        here = self.active(exact).reshape(given.shape)
        f = np.where(here, np.clip(given, -0.5, 0.5), -0.5)
        prior, one = self.exact_prior()
        bits = bits_of(f)
        return Line(self.slope(exact, f), -fraction(dot(prior, integers(f.ravel(), bits)), bits) / one)


class HalfSquaresVisits(VisitPrior, HalfSquares):
    """Quadratic."""

    def line(self, exact: ExactModel, given: Array) -> Line:
        """The tangent where x - p is what is given."""
        here = self.active(exact).reshape(given.shape)
        slope = np.where(here, given, 0.0)
        prior, one = self.exact_prior()
        bits = bits_of(slope)
        g, outside = integers(slope.ravel(), bits), prior[~here.ravel()]
        intercept = -fraction(dot(prior, g), bits) / one - fraction(dot(g, g), 2 * bits) / 2
        return Line(self.slope(exact, slope), intercept + Fraction(dot(outside, outside), 2 * one**2))

    def value(self, d: Occupancy) -> Fraction | None:
        """Half the square, and what it can change."""
        prior, one = self.exact_prior()
        apart = self.entries(d) * one - (prior << d.bits)
        largest = fraction(int(np.max(np.abs(apart))), d.bits) / one
        return fraction(dot(apart, apart), 2 * d.bits) / (2 * one**2) + d.distance * (largest + d.distance)


KINDS_OF_VISITS: dict[str, type[Kind]] = {
    **KINDS,
    "KL": EntropicVisits,
    "Entropy": EntropicVisits,
    "TotalVariation": HalfL1Visits,
    "Quadratic": HalfSquaresVisits,
}
