"""``Limit``: a constraint  measure(d) <= bound  in a model, as a risk that is 0 where it holds and infinite elsewhere.

For any price >= 0 and any line  measure(d) >= <u, d> + b,  the limit is at least  price * ( <u, d> + b - bound ):
that is at most zero where the limit holds. Prices and lines of the measures are therefore all that a proof needs.

A limit on a maximum of linear numbers is a few linear rows. What such a row can be lies between its least and its
largest entry. If it cannot be above the bound, the limit always holds; if it is always above, never. If it cannot be
below, the limit holds where no pair is used whose entry is above the bound, exactly: it forbids these pairs.
"""

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.errors import IncompatibleError, InputError
from cautious.models.encodings import EPS, check_magnitude
from cautious.models.horizons import TOTAL
from cautious.models.tabular import MDP
from cautious.risks.base import Constraint, Cut, Risk, Structure, terms_of
from cautious.risks.features import LogBarrier, WorstOf

# what the barrier of a limit is called
LIMIT_TITLE = "limit"


@dataclass(frozen=True)
class LimitWitness:
    """``price`` of one unit of a limit, and the witness of a line for every term of its measure.

    For a limit on the largest of some numbers, the one witness is the weights of these.
    """

    price: float
    lines: tuple[Any, ...]


@dataclass(frozen=True)
class Limit(Risk):
    """``measure`` is bound to a model; ``sign`` is -1 where the user wrote ``>=``, and then both are negated.

    ``source`` is the measure as it was written. ``sums_to_one``: occupancies of the model do; expected visits do not.
    ``usable`` (S, A) are the pairs that any policy uses.
    """

    measure: Risk
    bound: float
    sign: int
    name: str
    usable: Mask
    source: Risk
    sums_to_one: bool = True
    structure = Structure.LIMIT
    smooth = False

    @property
    def label(self) -> str:
        """The constraint as it was written."""
        return self.name

    @property
    def rows(self) -> WorstOf | None:
        """The linear rows, if that is all the limit is."""
        return self.measure if isinstance(self.measure, WorstOf) else None

    @property
    def linear(self) -> bool:
        """Whether the limit is one or more linear rows."""
        return self.rows is not None

    def value(self, d: Array) -> float:
        """0 where the limit is kept."""
        return 0.0 if self.measure.value(d) <= self.bound else np.inf

    def gradient(self, d: Array) -> Array:
        """Zeros: the limit does not change where it is kept."""
        return np.zeros_like(d)

    def value_and_gradient(self, d: Array, hint: Any = None, over: Any = None) -> tuple[float, Array | None]:
        """The value 0 at any occupancy, kept or not: that is decided by ``slack_range``."""
        return 0.0, np.zeros_like(d)

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """No error: ``slack_range`` says how exactly the limit is kept."""
        return 0.0

    def slack_range(self, d: Array, distance: float) -> tuple[float, float]:
        """The least and the largest slack, rounding included, of occupancies at most ``distance`` from d in the 1-norm.

        Minus infinity where the measure is infinite.
        """
        if self.always_holds:
            return 0.0, np.inf
        if self.forbids and self.excess.value(d) == 0:
            return 0.0, 0.0
        value, error = 0.0, 0.0
        for weight, risk in terms_of(self.measure):
            part, slope = risk.value_and_gradient(d)
            if slope is None:
                return -np.inf, -np.inf
            value += weight * part
            # 8 u: 2 for the product and the sum, the rest for more terms
            error += weight * risk.value_error(d, part, slope, distance) + 4 * EPS * abs(weight * part)
        slack = self.bound - value
        # 2 u for the difference, 2 for what is added to it
        error += 2 * EPS * (abs(slack) + error)
        return slack - error, slack + error

    def is_kept_by(self, numbers: Array, errors: Array) -> bool:
        """Whether a linear limit is kept by more than rounding, by its numbers (m,) and how far each can be off."""
        return bool(np.all(numbers + errors + 4 * EPS * np.abs(numbers) <= self.bound))

    def cut(self, witness: Any, active: Mask) -> Cut:
        """price * ( <u, d> + b - bound ), by the lines of the measure."""
        price = max(float(witness.price), 0.0)
        slopes: list[Array] = []
        sizes: list[Array] = []
        intercept, uncertain = -self.bound, abs(self.bound)
        for (weight, risk), given in zip(terms_of(self.measure), witness.lines, strict=True):
            line, share = risk.cut(given, active), price * weight
            slopes.append(share * line.slope)
            sizes.append(share * (np.abs(line.slope) if line.slope_size is None else line.slope_size))
            intercept += weight * line.intercept
            if line.intercept_size is None:
                steepest = float(np.abs(line.slope[active]).max(initial=0.0))
                uncertain += weight * (abs(line.intercept) + steepest)
            else:
                uncertain += weight * line.intercept_size
        return Cut(reduce(np.add, slopes), price * intercept, reduce(np.add, sizes), price * uncertain)

    def witness_at(self, d: Array, active: Mask) -> LimitWitness:
        """No price."""
        return LimitWitness(0.0, tuple(risk.witness_at(d, active) for _, risk in terms_of(self.measure)))

    def simple_witness(self, active: Mask) -> LimitWitness:
        """No price."""
        return LimitWitness(0.0, tuple(risk.simple_witness(active) for _, risk in terms_of(self.measure)))

    @cached_property
    def _usable_rows(self) -> sp.csr_array:
        """The rows of a linear limit (m, pairs) at the pairs that any policy uses."""
        assert self.rows is not None
        features, usable = self.rows.features, self.usable.ravel()
        return features if usable.all() else features[:, np.flatnonzero(usable)]

    @cached_property
    def _range(self) -> tuple[float, float]:
        """The least that any row of a linear limit can be, and the most."""
        if self.rows is None:
            return -np.inf, np.inf
        rows = self._usable_rows
        if rows.shape[1] == 0:
            # a part of the model without states
            return (np.inf, -np.inf) if self.sums_to_one else (0.0, 0.0)
        low, high = float(rows.min()), float(rows.max())
        if self.sums_to_one:
            return low, high
        return 0.0 if low >= 0 else -np.inf, 0.0 if high <= 0 else np.inf

    @property
    def always_holds(self) -> bool:
        """Whether every policy keeps a linear limit."""
        return self._range[1] <= self.bound

    @property
    def never_holds(self) -> bool:
        """Whether a row of a linear limit is above the bound for every policy, whatever the model is."""
        return self.rows is not None and len(self.rows.names) == 1 and self._range[0] > self.bound

    @cached_property
    def forbids(self) -> bool:
        """Whether a linear limit holds exactly where some pairs are not used."""
        if self.rows is None or self.always_holds or self.never_holds or self._range[0] < self.bound:
            return False
        # other entries are rounded, and may be on either side of a bound that they seem to meet
        return self.bound == 0 or (self.sums_to_one and bool(np.all(np.abs(self._usable_rows.data) == 1)))

    @cached_property
    def excess(self) -> WorstOf:
        """By how much the rows of a limit that forbids pairs exceed its bound: nowhere negative, zero if it is kept."""
        assert self.rows is not None
        if self.bound == 0:
            return self.rows
        above = np.where(self.usable.ravel(), self.rows.features.toarray() - self.bound, 0.0)
        return replace(self.rows, features=sp.csr_array(above))

    def permitted(self) -> Mask | None:
        """Pairs that the limit does not forbid, and where the measure is finite."""
        masks = [mask for _, risk in terms_of(self.measure) if (mask := risk.permitted()) is not None]
        if self.forbids:
            masks.append(self.excess.weighted(np.ones(len(self.excess.names))) <= 0)
        return np.logical_and.reduce(masks) if masks else None

    def restricted(self, mdp: MDP, states: Indices) -> "Limit | None":
        """The same limit on the measure in the smaller model."""
        smaller = self.measure.restricted(mdp, states)
        return None if smaller is None else replace(self, measure=smaller, usable=self.usable[states])

    @property
    def typical_slope(self) -> float:
        """Of the measure."""
        return sum(weight * risk.typical_slope for weight, risk in terms_of(self.measure))

    @cached_property
    def barrier(self) -> LogBarrier | None:
        """The rows of a linear limit as a barrier, which needs numbers strictly above floors; None if there are none.

        With a small weight mu it leaves a slack, its prices are mu / slack, and the product of both is mu.
        """
        rows = self.rows
        if rows is None or self.forbids or self.always_holds:
            return None
        m = len(rows.names)
        return LogBarrier(-rows.features, (self.name,) * m, rows.shape, LIMIT_TITLE, np.full(m, -self.bound))

    def witness_of(self, prices: Array) -> LimitWitness:
        """The witness for prices (m,) of the rows of a linear limit."""
        return LimitWitness(float(prices.sum()), (prices,))


def bound_limit(constraint: object, mdp: MDP, usable: Mask) -> Limit:
    """A constraint in a model whose policies use these pairs (S, A)."""
    if not isinstance(constraint, Constraint):
        raise IncompatibleError(
            f"constraints must hold comparisons like ca.Exposure(states) <= 0.02, found {type(constraint).__name__}"
        )
    check_magnitude(f"the limit of {constraint.measure.label}", np.array(constraint.bound))
    measure = constraint.measure.bind(mdp)
    for _, risk in terms_of(measure):
        if risk.structure is Structure.SCALAR or not risk.convex:
            raise IncompatibleError(f"{constraint!r}: {risk.label} is not convex and cannot be limited")
    if not terms_of(measure):
        raise InputError(f"{constraint!r}: every weight of the measure is zero")
    sums = mdp.horizon != TOTAL
    if constraint.sense == "<=":
        return Limit(measure, constraint.bound, 1, repr(constraint), usable, constraint.measure, sums)
    assert isinstance(measure, WorstOf)
    negated = replace(measure, features=-measure.features)
    return Limit(negated, -constraint.bound, -1, repr(constraint), usable, constraint.measure, sums)
