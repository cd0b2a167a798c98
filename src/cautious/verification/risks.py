"""The convex risks: for each kind an affine function below it, and a number that its value does not exceed.

``line`` turns what a witness says, ``given``, into a ``Line``. Any numbers give a line that is valid; bad ones give a
line far below the risk. ``value`` bounds the risk of an ``Occupancy`` from above, for every occupancy within its
``distance``; None where it may be infinite. With x the occupancy or its state marginal, p the prior, h the
length of the horizon, 1/(1-gamma) without an end:

    SafeSet, TaskFloors     - sum_j log(n_j - b_j), n_j linear        -log y >= 1 + log w - w y  for any w > 0
    PeakExposure, WorstTask  max_j n_j, n_j linear                     sum_j w_j n_j             for weights of sum one
    Linear                   sum_k w_k <table_k, d>, h times where paid        itself
    KL, Entropy              sum x log(x/p)                            <u, x> - log sum p e^u    for any u
    TotalVariation           1/2 |x - p|_1                             <f, x - p>                for any f in [0, 1]
    Quadratic                1/2 |x - p|^2                             <g, x - p> - 1/2 |g|^2    for any g
    Wasserstein              cheapest transport from x to p            <f, x> - sum_j p_j max_i (f_i - D_ij)
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from cautious.arrays import Array, Mask
from cautious.errors import InputError
from cautious.verification.claim import Model, Term
from cautious.verification.exact import (
    Integers,
    at_bits,
    ball,
    balls,
    bits_of,
    dot,
    fraction,
    integers,
    least,
    log_below,
    sum_of_balls,
)
from cautious.verification.flow import ExactModel, Rows
from cautious.verification.lines import Line
from cautious.verification.occupancy import Occupancy
from cautious.verification.total import ended_states
from cautious.verification.transport import graph_cost, graph_prices, matrix_cost, matrix_prices

SMALLEST_WEIGHT = 1e-300
WEIGHT_BITS = 128


class Kind(ABC):
    """One risk of the problem; see the module's text."""

    def __init__(self, term: Term, model: Model) -> None:
        self.data, self.model = term.data, model
        self.length = model.length

    def permitted(self) -> Mask | None:
        """Pairs (S, A) of finite risk; None if all are."""
        return None

    def permitted_below(self, bound: Fraction | None, usable: Mask) -> list[Mask]:
        """Masks (S, A) of the only pairs that an occupancy of at most this risk, or of finite risk, can use.

        ``usable`` (S, A) has all pairs that any occupancy uses.
        """
        mask = self.permitted()
        return [] if mask is None else [mask]

    def at_most(self, d: Occupancy, bound: Fraction) -> bool:
        """Whether the risk of an occupancy is proved to be at most the bound."""
        value = self.value(d)
        return value is not None and value <= bound

    @abstractmethod
    def line(self, exact: ExactModel, given: Array) -> Line:
        """An affine function below the risk."""

    @abstractmethod
    def value(self, d: Occupancy) -> Fraction | None:
        """A number that the risk does not exceed."""


class LinearKind(Kind):
    """Risks that are the largest of numbers which are linear in the occupancy."""

    @abstractmethod
    def on_pairs(self, rows: Rows) -> list[tuple[Integers, Any]]:
        """What each of these pairs counts of every number: numerators and positive denominators."""

    @abstractmethod
    def most(self, d: Occupancy) -> list[Fraction]:
        """What each number does not exceed."""

    def permitted_below(self, bound: Fraction | None, usable: Mask) -> list[Mask]:
        """If no pair is below the bound, only those reach it that have it exactly."""
        if bound is None:
            return []
        rows = Rows(self.model, usable)
        found = [self._only_at(rows, *one, bound) for one in self.on_pairs(rows)]
        return [mask for mask in found if mask is not None]

    def at_most(self, d: Occupancy, bound: Fraction) -> bool:
        """By what is known of the numbers, or because no pair that is used exceeds the bound."""
        return all(
            most <= bound or self._nowhere_above(*one, bound)
            for most, one in zip(self.most(d), self.on_pairs(d.rows), strict=True)
        )

    def at_most_exactly(self, rows: Rows, masses: Sequence[Fraction], bound: Fraction) -> bool:
        """Whether the numbers are at most the bound, where the mass of every pair is known exactly."""
        return all(
            sum(
                mass * Fraction(int(n), int(divisor))
                for mass, n, divisor in zip(masses, numerators, np.broadcast_to(over, numerators.shape), strict=True)
            )
            <= bound
            for numerators, over in self.on_pairs(rows)
        )

    def _only_at(self, rows: Rows, numerators: Integers, denominators: Any, bound: Fraction) -> Mask | None:
        """The only pairs (S, A) that can be used with a number of at most ``bound``; None if others can make up for it.

        If no pair is below the bound, all time is spent where it is met exactly. Visits have no fixed sum: a number
        that is never negative can be zero only where nothing is counted.
        """
        above = numerators * bound.denominator - denominators * bound.numerator
        if np.any(numerators < 0) or bound > 0 if self.model.counts_visits else np.any(above < 0):
            return None
        mask = np.ones(self.model.shape, dtype=np.bool_)
        mask.ravel()[rows.pairs] = above <= 0
        return mask

    def _nowhere_above(self, numerators: Integers, denominators: Any, bound: Fraction) -> bool:
        """Whether what is counted at any pair keeps the mean, or the sum over all visits, within the bound."""
        if self.model.counts_visits:
            return bound >= 0 and bool(np.all(numerators <= 0))
        return bool(np.all(numerators * bound.denominator <= denominators * bound.numerator))


class Numbers(Kind):
    """Risks of m numbers, factor * <table_j, d>."""

    def tables(self, rows: Rows) -> tuple[list[Integers], int, Fraction]:
        """Tables over these pairs as integers of 2^-bits, the bits, and the factor."""
        if "task_rewards" in self.data:
            tasks = self.data["task_rewards"]
            bits = bits_of(tasks)
            return [integers(rows.pick(task), bits) for task in tasks], bits, self.length
        return [rows.pick(one).astype(np.int64).astype(object) for one in self.sets()], 0, Fraction(1)

    def sets(self) -> Any:
        """Masks (m, S) of states, for numbers that are shares of time."""
        return self.data["sets"]

    def means(self, d: Occupancy) -> list[tuple[Fraction, Fraction]]:
        """An interval for every number of an occupancy."""
        tables, bits, factor = self.tables(d.rows)
        found = [d.mean(table, 1, bits) for table in tables]
        return [(factor * low, factor * high) for low, high in found]

    def weighted(self, exact: ExactModel, weights: Integers, weight_bits: int) -> tuple[Integers, Fraction]:
        """sum_j w_j table_j over the active pairs, rounded down, and the factor."""
        tables, bits, factor = self.tables(exact.rows)
        total = sum((weight * table for weight, table in zip(weights, tables, strict=True)), 0 * tables[0])
        return at_bits(total, bits + weight_bits, exact.bits), factor


class Barrier(Numbers):
    """SafeSet and TaskFloors: minus the logarithms of what the numbers exceed their floors by."""

    def sets(self) -> Any:
        """The safe set."""
        return np.isin(np.arange(self.model.shape[0]), self.data["states"])[None]

    @property
    def floors(self) -> list[Fraction]:
        """What each number must exceed."""
        if "slack" in self.data:
            return [1 - Fraction(self.data["slack"])]
        return [Fraction(float(floor)) for floor in self.data["floors"]]

    def line(self, exact: ExactModel, given: Array) -> Line:
        """Tangents of the logarithms."""
        weights = np.maximum(given, SMALLEST_WEIGHT)
        intercept = Fraction(0)
        for weight, floor in zip(map(Fraction, weights.tolist()), self.floors, strict=True):
            intercept += 1 + log_below(weight) + weight * floor
        slope, factor = self.minus_sum(exact, weights)
        return Line(slope, intercept, factor)

    def minus_sum(self, exact: ExactModel, weights: Array) -> tuple[Integers, Fraction]:
        """Minus the weighted sum of the numbers, as a slope rounded down and its factor."""
        bits = bits_of(weights)
        return self.weighted(exact, -integers(weights, bits), bits)

    def value(self, d: Occupancy) -> Fraction | None:
        """Finite if every number is proved to exceed its floor."""
        slacks = [low - floor for (low, _), floor in zip(self.means(d), self.floors, strict=True)]
        if min(slacks) <= 0:
            return None
        return -sum((log_below(slack) for slack in slacks), Fraction(0))


class Worst(Numbers, LinearKind):
    """PeakExposure and WorstTask: the largest of the numbers."""

    sign: ClassVar[int] = 1

    def on_pairs(self, rows: Rows) -> list[tuple[Integers, Any]]:
        """The tables of the numbers."""
        tables, bits, factor = self.tables(rows)
        return [(factor.numerator * table, factor.denominator << bits) for table in tables]

    def most(self, d: Occupancy) -> list[Fraction]:
        """The upper ends."""
        return [high for _, high in self.means(d)]

    def tables(self, rows: Rows) -> tuple[list[Integers], int, Fraction]:
        """Losses, so minus the returns of tasks."""
        tables, bits, factor = super().tables(rows)
        return [self.sign * table for table in tables], bits, factor

    def line(self, exact: ExactModel, given: Array) -> Line:
        """Weights that are not negative and sum to one exactly."""
        weights = np.maximum(given, 0.0)
        whole = integers(weights, bits_of(weights)) if weights.sum() > 0 else np.ones(len(given), dtype=object)
        shares = (whole << WEIGHT_BITS) // int(whole.sum())
        shares[np.argmax(weights)] += (1 << WEIGHT_BITS) - int(shares.sum())
        slope, factor = self.weighted(exact, shares, WEIGHT_BITS)
        return Line(slope, Fraction(0), factor)

    def value(self, d: Occupancy) -> Fraction | None:
        """The largest."""
        return max(self.most(d))


class Linear(LinearKind):
    """One number: a sum of shares of time, returns and chances to enter states, with weights of either sign.

    ``tables`` are (k, S, A), or (k, nnz) by outcome if what is counted depends on the next state. ``starting`` (k, S)
    are states whose share of the start is added.
    """

    def table(self, rows: Rows) -> tuple[Integers, Any, int, Fraction]:
        """Numerators of 2^-bits over these pairs, denominators, the bits, and the factor of all."""
        weights, given, paid = (self.data[name] for name in ("weights", "tables", "paid"))
        weight_bits, bits, length = bits_of(weights), bits_of(given), self.length
        pick = rows.pick if given.ndim == 3 else rows.entry
        # the length is a fraction; where only some of the tables are paid, its denominator is taken out
        if np.all(paid) or not np.any(paid):
            per_step, paid_per_step, factor = 1, 1, length if np.all(paid) else Fraction(1)
        else:
            per_step, paid_per_step, factor = length.denominator, length.numerator, Fraction(1, length.denominator)
        total: Any = 0
        for weight, table, is_paid in zip(integers(weights, weight_bits), given, paid, strict=True):
            total = total + weight * (paid_per_step if is_paid else per_step) * integers(pick(table), bits)
        numerators, denominators = (total, 1) if given.ndim == 3 else rows.of_outcomes(total)
        bits += weight_bits
        share = self._share_of_start()
        if share == 0:
            return numerators, denominators, bits, factor
        # a constant is counted at every pair, or where visits come to an end, which happens once
        ends, over = self._once(rows)
        share = share / over / factor
        first, second = share.denominator * rows.totals, (share.numerator << bits) * ends
        return numerators * first + second * denominators, denominators * first, bits, factor

    def _share_of_start(self) -> Fraction:
        """What the shares of the start add to the measure."""
        start = integers(self.model.start, bits_of(self.model.start))
        shares = [Fraction(int(start[states].sum()), int(start.sum())) for states in self.data["starting"]]
        weights = map(Fraction, self.data["weights"].tolist())
        return sum((weight * share for weight, share in zip(weights, shares, strict=True)), Fraction(0))

    def _once(self, rows: Rows) -> tuple[Integers, Fraction]:
        """What every policy counts of a table over ``rows.totals``: the same number, which is the second."""
        if not self.model.counts_visits:
            return rows.totals, Fraction(1)
        ended, start = ended_states(self.model), integers(self.model.start, bits_of(self.model.start))
        going = Fraction(int(start[~ended].sum()), int(start.sum()))
        if going == 0:
            raise InputError("every start state is an end already")
        ends = rows.sums(np.where(ended[rows.next_states], rows.chances, 0))
        return np.where(ended[rows.states], 0, ends), going

    def on_pairs(self, rows: Rows) -> list[tuple[Integers, Any]]:
        """The one number."""
        numerators, denominators, bits, factor = self.table(rows)
        return [(factor.numerator * numerators, denominators * (factor.denominator << bits))]

    def most(self, d: Occupancy) -> list[Fraction]:
        """The end of its interval."""
        numerators, denominators, bits, factor = self.table(d.rows)
        return [factor * d.mean(numerators, denominators, bits)[1]]

    def line(self, exact: ExactModel, given: Array) -> Line:
        """The measure itself."""
        numerators, denominators, bits, factor = self.table(exact.rows)
        slope = (numerators << exact.bits) // (denominators << bits)
        return Line(np.asarray(slope, dtype=object), Fraction(0), factor)

    def value(self, d: Occupancy) -> Fraction | None:
        """The one number."""
        return self.most(d)[0]


class WorstLoss(Worst):
    """WorstTask: the numbers are minus the returns."""

    sign = -1


class Prior(Kind):
    """Risks that compare the pairs (S, A), or the state marginal (S,), with a prior; the prior sums to one exactly."""

    @property
    def prior(self) -> Array:
        """As it is stored."""
        return np.asarray(self.data["prior"])

    def exact_prior(self) -> tuple[Integers, int]:
        """Integers (n,) and their sum."""
        prior = integers(self.prior.ravel(), bits_of(self.prior))
        return prior, int(prior.sum())

    def active(self, exact: ExactModel) -> Mask:
        """Entries (n,) that can have mass."""
        return (exact.active.any(axis=1) if self.prior.ndim == 1 else exact.active).ravel()

    def slope(self, exact: ExactModel, given: Array) -> Integers:
        """Numbers of the entries as a table over the active pairs."""
        return integers(exact.rows.pick(given), exact.bits)

    def entries(self, d: Occupancy) -> Integers:
        """The mass of every entry; (n,)."""
        if self.prior.ndim == 1:
            return d.of_states
        table = np.zeros(self.prior.size, dtype=object)
        table[d.rows.pairs] = d.mass
        return table


class Entropic(Prior):
    """KL and Entropy."""

    @property
    def prior(self) -> Array:
        """Ones for the negative entropy."""
        return np.asarray(self.data.get("prior", np.ones(self.model.shape)))

    def exact_prior(self) -> tuple[Integers, int]:
        """Ones are not normalised."""
        prior, total = super().exact_prior()
        return prior, total if "prior" in self.data else 1

    def permitted(self) -> Mask | None:
        """Where the prior is positive."""
        positive = self.prior > 0
        return np.broadcast_to(positive[:, None], self.model.shape) if positive.ndim == 1 else positive

    def line(self, exact: ExactModel, given: Array) -> Line:
        """The conjugate of the relative entropy is a logarithm of a sum of exponentials."""
        here, (prior, total), arb = self.active(exact), self.exact_prior(), balls()
        top = float(given.ravel()[here].max())
        # every exponent is the difference of two doubles, which a ball holds exactly
        terms = (
            arb(int(p)) * (arb(float(u)) - arb(top)).exp()
            for p, u in zip(prior[here], given.ravel()[here], strict=True)
        )
        logarithm_of_sum = (sum_of_balls(terms) / arb(total)).log() + arb(top)
        return Line(self.slope(exact, given), least(-logarithm_of_sum))

    def value(self, d: Occupancy) -> Fraction | None:
        """At the point itself, and what x log x and x log p can change within the distance.

        For numbers of [0, 1] no further than delta <= 1/2 apart, x log x differs by at most -delta log delta; over n
        entries with a total of epsilon that is at most epsilon log(n / epsilon).
        """
        x, (prior, total), arb = self.entries(d), self.exact_prior(), balls()
        reached = d.rows.pairs if self.prior.ndim == 2 else np.unique(d.rows.states)
        one, epsilon = 1 << d.bits, d.distance
        # no share exceeds one, so what the point exceeds it by only took it away from the exact occupancy
        x, prior = np.minimum(x[reached], one), prior[reached]
        if np.any(prior == 0) or epsilon > Fraction(1, 4):
            return None
        logarithms = [(arb(int(p)) / arb(total)).log() for p in prior]
        shares = [arb(int(mass)) / arb(one) for mass in x]
        point = sum_of_balls(
            share * (share.log() - log_prior)
            for mass, share, log_prior in zip(x, shares, logarithms, strict=True)
            if mass > 0
        )
        steepest = max(-least(-abs(log_prior)) for log_prior in logarithms)
        # a point that is the exact occupancy changes by nothing
        change = ball(epsilon) * ball(reached.size / epsilon).log() if epsilon else ball(epsilon)
        return epsilon * steepest - least(-point - change)


class HalfL1(Prior):
    """TotalVariation."""

    def line(self, exact: ExactModel, given: Array) -> Line:
        """The slope, moved so that its largest entry is one, and cut off at zero."""
        here = self.active(exact).reshape(given.shape)
        f = np.where(here, np.clip(1.0 + _below_top(given, here), 0.0, 1.0), 0.0)
        prior, total = self.exact_prior()
        bits = bits_of(f)
        return Line(self.slope(exact, f), -fraction(dot(prior, integers(f.ravel(), bits)), bits) / total)

    def value(self, d: Occupancy) -> Fraction | None:
        """Half the 1-norm, which changes by at most half the distance."""
        prior, total = self.exact_prior()
        apart = int(np.sum(np.abs(self.entries(d) * total - (prior << d.bits))))
        return (fraction(apart, d.bits) / total + d.distance) / 2


class HalfSquares(Prior):
    """Quadratic."""

    def line(self, exact: ExactModel, given: Array) -> Line:
        """The tangent at the projection of prior + slope on the distributions, found in floating point."""
        here = self.active(exact).reshape(given.shape)
        slope = np.where(here, _projected(self.prior + given, here) - self.prior, 0.0)
        prior, total = self.exact_prior()
        bits = bits_of(slope)
        g, outside = integers(slope.ravel(), bits), prior[~here.ravel()]
        intercept = -fraction(dot(prior, g), bits) / total - fraction(dot(g, g), 2 * bits) / 2
        return Line(self.slope(exact, slope), intercept + Fraction(dot(outside, outside), 2 * total**2))

    def value(self, d: Occupancy) -> Fraction | None:
        """Half the square; its gradient between two distributions has no entry beyond one."""
        prior, total = self.exact_prior()
        apart = self.entries(d) * total - (prior << d.bits)
        return fraction(dot(apart, apart), 2 * d.bits) / (2 * total**2) + d.distance * (1 + d.distance)


def _below_top(given: Array, here: Mask) -> Array:
    """Numbers minus the largest of those that count; what is further below than double precision has is infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(given - given[here].max())


def _projected(wanted: Array, here: Mask) -> Array:
    """The nearest distribution to the entries ``here`` of an array; zero elsewhere."""
    # a distribution has no mass where an entry is further than one below the largest
    falling = np.sort(np.maximum(_below_top(wanted, here)[here], -2.0))[::-1]
    levels = (np.cumsum(falling) - 1) / np.arange(1, falling.size + 1)
    level = levels[int(np.flatnonzero(falling > levels)[-1])]
    return np.where(here, np.maximum(_below_top(wanted, here) - level, 0.0), 0.0)


class Transport(Prior):
    """Wasserstein."""

    def line(self, exact: ExactModel, given: Array) -> Line:
        """Prices to pay at every state of the prior, and the largest potentials that are covered by them."""
        here, (prior, total) = self.active(exact), self.exact_prior()
        if "distance" in self.data:
            potentials, prices = matrix_prices(self.data["distance"], given, here)
            bits = bits_of(prices)
            paid = fraction(dot(prior, integers(prices, bits)), bits)
            return Line(self.slope(exact, potentials), -paid / total)
        whole, bits = graph_prices(self.data, given, here)
        slope = at_bits(exact.rows.pick(whole), bits, exact.bits)
        return Line(slope, -fraction(dot(prior, whole), bits) / total)

    def value(self, d: Occupancy) -> Fraction | None:
        """The cost of one plan: that of the tree in the witness."""
        prior, total = self.exact_prior()
        mass = int(d.of_states.sum())
        # supply minus demand, in units of 1 / (mass * total); making the mass one at most doubles the distance
        found = (matrix_cost if "distance" in self.data else graph_cost)(self.data, d.of_states * total, prior * mass)
        if found is None:
            return None
        cost, largest = found
        return cost / (mass * total) + largest * d.distance


KINDS: dict[str, type[Kind]] = {
    "SafeSet": Barrier,
    "TaskFloors": Barrier,
    "PeakExposure": Worst,
    "WorstTask": WorstLoss,
    "KL": Entropic,
    "Entropy": Entropic,
    "TotalVariation": HalfL1,
    "Quadratic": HalfSquares,
    "Wasserstein": Transport,
    "Linear": Linear,
}
