"""Variance and CVaR: risks that are a minimum over one number t. A cover of the range of t proves a bound.

Every occupancy d has a best number for each such risk. Boxes cover all numbers there can be; for the occupancies whose
best number lies in (low, high] the risk stays above a line, for any ``at``:

    Variance   E[(r - at)^2] - (m - at)^2 with m the mean: the second part is largest at an end of the range.
    CVaR       With the loss l = -r and tail = 1 - level, the best number t has P(l > low) >= tail >= P(l > high). So
               at + E[l - at; l > low] / tail does not rise with ``at``, at + E[l - at; l > high] / tail does not fall.
               At t itself both are at most the CVaR: the first is for ``at`` beyond the largest loss in the range, the
               second for ``at`` before the smallest, and averages of the two are in between.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import floor

import numpy as np

from cautious.verification.claim import Box, Term
from cautious.verification.exact import Integers, bits_of, ceil_ratio, fraction, integers
from cautious.verification.flow import ExactModel, Rows
from cautious.verification.lines import Line
from cautious.verification.occupancy import Occupancy

SHARE_BITS = 64


class ScalarKind(ABC):
    """One risk of the problem; see the module's text."""

    def __init__(self, term: Term, exact: ExactModel) -> None:
        self.data, self.exact, self.model = term.data, exact, exact.model

    @cached_property
    @abstractmethod
    def ends(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest number that can be best."""

    @abstractmethod
    def line(self, low: Fraction, high: Fraction, at: float) -> Line:
        """An affine function below the risk of the occupancies whose best number is in (low, high]."""

    @abstractmethod
    def value(self, d: Occupancy) -> Fraction:
        """A number that the risk does not exceed."""

    def rewards(self, rows: Rows) -> tuple[Integers, int]:
        """Every reward that can be paid, by outcome or by pair, and its bits."""
        if self.model.outcome_rewards is None:
            return integers(rows.pick(self.model.rewards), self.exact.reward_bits), self.exact.reward_bits
        return integers(self.model.outcome_rewards[rows.entries], self.exact.reward_bits), self.exact.reward_bits

    def expected(self, rows: Rows, numbers: Integers) -> tuple[Integers, Integers]:
        """Expectation over each pair of a number given per reward that can be paid: numerators and denominators."""
        if self.model.outcome_rewards is None:
            return numbers, np.ones(rows.pairs.size, dtype=object)
        return rows.of_outcomes(numbers)


class Variance(ScalarKind):
    """Variance of the reward of a step."""

    @cached_property
    def active_moments(self) -> tuple[Integers, Integers, Integers, int]:
        """Of the active pairs."""
        return self.moments(self.exact.rows)

    def moments(self, rows: Rows) -> tuple[Integers, Integers, Integers, int]:
        """Numerators of E[r] in units of 2^-bits and of E[r^2] in squares of these, denominators, and the bits."""
        given, (rewards, bits) = self.model.reward_square, self.rewards(rows)
        fine = max(bits, 0 if given is None else bits_of(given))
        rewards = rewards << (fine - bits)
        first, denominator = self.expected(rows, rewards)
        second, _ = self.expected(rows, rewards**2)
        if given is not None:
            # a given second moment counts where it exceeds the square and is not the rounded square itself
            with np.errstate(over="ignore"):
                own = rows.pick(given) != rows.pick(self.model.rewards) ** 2
            second = np.where(own, np.maximum(integers(rows.pick(given), fine) << fine, second), second)
        return first, second, denominator, fine

    @cached_property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The mean lies between the smallest and the largest expected reward of a pair."""
        first, _, denominator, bits = self.active_moments
        distinct = set(zip(first.tolist(), denominator.tolist(), strict=True))
        means = [Fraction(numerator, divisor << bits) for numerator, divisor in distinct]
        return min(means), max(means)

    def line(self, low: Fraction, high: Fraction, at: float) -> Line:
        """The table E[(r - at)^2]."""
        first, second, denominator, bits = self.active_moments
        t, (least, most) = Fraction(at), self.ends
        # numerators in units of (2^-bits / denominator of t)^2
        step = t.numerator << bits
        table = second * t.denominator**2 - 2 * step * t.denominator * first + step**2 * denominator
        slope = (table << self.exact.bits) // (denominator * (t.denominator**2 << 2 * bits))
        return Line(slope, -max((max(low, least) - t) ** 2, (min(high, most) - t) ** 2))

    def value(self, d: Occupancy) -> Fraction:
        """E[r^2] from above minus the square of the mean from below."""
        first, second, denominator, bits = self.moments(d.rows)
        low, high = d.mean(first, denominator, bits)
        least = Fraction(0) if low <= 0 <= high else min(low**2, high**2)
        return d.mean(second, denominator, 2 * bits)[1] - least


class CVaR(ScalarKind):
    """Mean loss of the worst share of steps."""

    @property
    def tail(self) -> Fraction:
        """That share."""
        return 1 - Fraction(self.data["level"])

    @cached_property
    def losses(self) -> list[int]:
        """The losses that the active pairs can have, sorted."""
        return sorted({-reward for reward in self.rewards(self.exact.rows)[0].tolist()})

    @cached_property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest loss."""
        bits = self.exact.reward_bits
        return fraction(self.losses[0], bits), fraction(self.losses[-1], bits)

    def line(self, low: Fraction, high: Fraction, at: float) -> Line:
        """One of the two lines, or an average of both."""
        t, bits = Fraction(at), self.exact.reward_bits
        first, end = (bisect_right(self.losses, self._before(edge)) for edge in (low, high))
        least, most = (fraction(self.losses[k], bits) for k in (first, end - 1)) if first < end else (t, t)
        if t >= most or t <= least:
            return Line(self._beyond(low if t >= most else high, t), t, 1 / self.tail)
        share = int((t - least) / (most - least) * (1 << SHARE_BITS))
        rest = (1 << SHARE_BITS) - share
        slope = (share * self._beyond(low, most) + rest * self._beyond(high, least)) >> SHARE_BITS
        return Line(slope, (share * most + rest * least) / (1 << SHARE_BITS), 1 / self.tail)

    def _before(self, edge: Fraction) -> int:
        """The largest whole number of the losses' grid that is not beyond an edge."""
        return floor(edge * (1 << self.exact.reward_bits))

    def _beyond(self, edge: Fraction, at: Fraction) -> Integers:
        """E[l - at; l > edge] of every active pair, rounded down."""
        rewards, bits = self.rewards(self.exact.rows)
        excess = np.where(-rewards > self._before(edge), -rewards * at.denominator - (at.numerator << bits), 0)
        numerator, denominator = self.expected(self.exact.rows, excess)
        return np.asarray((numerator << self.exact.bits) // (denominator * (at.denominator << bits)), dtype=object)

    def value(self, d: Occupancy) -> Fraction:
        """t + E[(l - t)+] / tail, which no t makes smaller than the CVaR, at the quantile t, which makes it smallest.

        It changes with d by no more than the spread of the losses times the distance.
        """
        rows, (rewards, bits) = d.rows, self.rewards(d.rows)
        mass = d.mass
        if self.model.outcome_rewards is not None:
            # rounded up: more mass only makes the bound larger
            mass = ceil_ratio(d.mass[rows.owner] * rows.chances, rows.totals[rows.owner])
        masses: dict[int, int] = {}
        for reward, amount in zip(rewards.tolist(), mass.tolist(), strict=True):
            masses[-reward] = masses.get(-reward, 0) + amount
        beyond, excess, t = 0, 0, max(masses)
        for loss in sorted(masses, reverse=True):
            if fraction(beyond, d.bits) > self.tail:
                break
            # as t falls to this loss, all that lies beyond it exceeds it by more
            excess, t = excess + beyond * (t - loss), loss
            beyond += masses[loss]
        spread = fraction(max(masses) - min(masses), bits)
        return fraction(t, bits) + (fraction(excess, bits + d.bits) + spread * d.distance) / self.tail


SCALARS: dict[str, type[ScalarKind]] = {"Variance": Variance, "CVaR": CVaR}


def widened(boxes: Sequence[Box], ends: Sequence[tuple[Fraction, Fraction]]) -> list[list[tuple[Fraction, Fraction]]]:
    """The ranges of every box; those at the border of all boxes are widened to hold the ends of the scalars.

    Rounding may have put the border of the boxes just inside of the exact range. Ranges leave out their start.
    """
    lowest = np.min([box.lows for box in boxes], axis=0)
    highest = np.max([box.highs for box in boxes], axis=0)
    ranges = []
    for box in boxes:
        sides = []
        for k, (least, most) in enumerate(ends):
            low, high = Fraction(float(box.lows[k])), Fraction(float(box.highs[k]))
            if low < least or box.lows[k] == lowest[k]:
                low = least - 1
            if high > most or box.highs[k] == highest[k]:
                high = most
            sides.append((low, high))
        ranges.append(sides)
    return ranges


def covers(ranges: Sequence[Sequence[tuple[Fraction, Fraction]]], ends: Sequence[tuple[Fraction, Fraction]]) -> bool:
    """Whether every point of the ``ends``' intervals lies in some box: every cell between neighbouring edges does."""
    edges = []
    for k, (least, most) in enumerate(ends):
        inner = {edge for box in ranges for edge in box[k] if least <= edge < most}
        edges.append([least - 1, *sorted(inner | {most})])
    covered = np.zeros([len(line) - 1 for line in edges], dtype=np.bool_)
    for box in ranges:
        cells = [
            np.array([low <= start and end <= high for start, end in pairwise(line)])
            for line, (low, high) in zip(edges, box, strict=True)
        ]
        covered[np.ix_(*cells)] = True
    return bool(covered.all())
