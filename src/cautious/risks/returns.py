"""Risks of the return: of what an episode earns from its start to its end, not of the reward of one step.

Write R for the return. Every one of these risks is a minimum over a number x (a target) of the mean of a loss of R:

    variance:   Var R                         = min over x of  E (x - R)^2
    CVaR:       minus the mean of the worst   = min over x of  E max(x - R, 0) / (1 - level) - x
    entropic:   (1/rate) log E exp(-rate R)   = min over x of  (E exp(rate (x - R)) - 1) / rate - x
    EVaR:       the smallest of  entropic(rate) + log(1 / (1 - level)) / rate  over all rates
    below:      P(R < threshold)              = E [R < threshold]

With a fixed target it takes planning on pairs of a state and what is still to be earned (``returns/backward.py``) to
find the best policy among all that may remember the past. These risks are functions of the distribution of R, and not
of an occupancy.
"""

import itertools
import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from cautious.arrays import Array
from cautious.checks import as_number
from cautious.errors import IncompatibleError
from cautious.models.encodings import EPS, check_magnitude
from cautious.models.horizons import AVERAGE
from cautious.models.tabular import MDP
from cautious.returns.backward import LARGEST_EXPONENT
from cautious.returns.forward import Followed, ReturnDistribution, TimeOverError
from cautious.risks.base import Constraint, Risk, Structure, UnboundRisk, terms_of

# rates of a policy, in logarithms, are known to this
RATE_PRECISION = 1e-4
# of the smallest and the largest rate that is tried
LEAST_LOGARITHM, LARGEST_LOGARITHM = math.log(sys.float_info.min), math.log(sys.float_info.max)
# of ReturnEVaR: at smaller ones the best rate is too small for exponentials to tell returns apart
LEAST_LEVEL = 1e-12
# targets at which the CVaR of one policy is looked at, and what is exact enough, as a share of CVaR or deviation
MOST_TARGETS, CVAR_PRECISION = 8, 1e-5


class ReturnRisk(UnboundRisk):
    """A risk of the return; write ``checked`` and ``interval``.

    ``needs_exponentials``: the distribution of the return must know the means of exponentials, not chances alone.
    """

    structure = Structure.RETURN
    convex = False
    smooth = False
    needs_exponentials: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """The name, with its number if it has one."""
        numbers = [repr(number) for number in vars(self).values()]
        return type(self).__name__ + (f"({', '.join(numbers)})" if numbers else "")

    def bind(self, mdp: MDP) -> Risk:
        """The same, if the model has a return, and says how its rewards are drawn."""
        # its label may be written only of numbers that make sense
        checked = self.checked()
        if mdp.horizon == AVERAGE:
            raise IncompatibleError(
                f'{checked.label} is a risk of what an episode earns, and with horizon="average" no episode ends; give '
                'a number of steps, horizon="total", or a discount below 1'
            )
        mdp.require_outcome_rewards(checked.label)
        return BoundReturnRisk(checked)

    def checked(self) -> "ReturnRisk":
        """The same with numbers that make sense; raises ``InputError`` otherwise."""
        return self

    @property
    def exponent(self) -> float:
        """The rate of the exponentials that the distribution of the return must know; 0 for none."""
        return 0.0

    @property
    def tail_level(self) -> float | None:
        """The risk is about the worst 1 - level share of the episodes; None for others."""
        return None

    def natural_caution(self, spread: float) -> float:
        """A caution at which return and risk weigh about alike, where returns have this standard deviation."""
        return 1.0

    def of(
        self, followed: Callable[..., Followed], over: Callable[[], bool] = lambda: False
    ) -> tuple[float, float, Followed]:
        """The risk of a policy from below and above, and how it was followed for that.

        It is ``followed`` with a rate, and if need be near some return; when time is ``over`` what is known must do.
        """
        found = followed(self.exponent)
        return *self.interval(found.returns), found

    @abstractmethod
    def interval(self, returns: ReturnDistribution) -> tuple[float, float]:
        """The risk of a distribution of the return, from below and above."""

    @abstractmethod
    def slope(self, returns: ReturnDistribution) -> Callable[[Array], Array]:
        """What a return adds to the risk of this distribution when it becomes more likely, up to a constant.

        The risk is concave in the distribution, and so no larger elsewhere than this says.
        """


@dataclass(frozen=True)
class BoundReturnRisk(Risk):
    """A return risk in a model. It has no value without a policy that says how the return is distributed."""

    of: ReturnRisk

    structure = Structure.RETURN
    convex = False
    smooth = False

    @property
    def label(self) -> str:
        """As it is called without a model."""
        return self.of.label

    def value(self, d: Array) -> float:
        """Not a function of the occupancy."""
        raise IncompatibleError(
            f"{self.label} depends on the distribution of the return, and the occupancy does not tell it; "
            "solution.risk has its value"
        )

    def gradient(self, d: Array) -> Array:
        """Not a function of the occupancy."""
        raise IncompatibleError(f"{self.label} has no gradient: it is not a function of the occupancy")


@dataclass(frozen=True)
class ReturnVariance(ReturnRisk):
    """The variance of the return of an episode, over everything that is random, the start included.

    Examples
    --------
    >>> import cautious as ca
    >>> solution = ca.solve(ca.Problem(ca.worlds.river_swim(), ca.ReturnVariance(), caution=1.0, horizon=20))
    >>> solution.status.name, solution.certificate.kind
    ('SOLVED', 'global')
    """

    summary = "the variance of what an episode earns"
    fields_in_files: ClassVar = {}

    def natural_caution(self, spread: float) -> float:
        """A variance is the square of it."""
        return 1 / spread if spread > 0 else 1.0

    def interval(self, returns: ReturnDistribution) -> tuple[float, float]:
        """Known exactly."""
        return returns.variance, returns.variance

    def slope(self, returns: ReturnDistribution) -> Callable[[Array], Array]:
        """The square of what differs from the mean."""
        return lambda earned: (earned - returns.expectation) ** 2


@dataclass(frozen=True)
class ReturnCVaR(ReturnRisk):
    """Minus the mean of the worst ``1 - level`` share of the returns; level in [0, 1).

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.ReturnCVaR(0.9), caution=1.0, horizon=20)
    >>> ca.solve(problem).status.name
    'SOLVED'
    """

    summary = "the mean loss of the worst episodes (expected shortfall of the return)"
    fields_in_files: ClassVar = {"level": "share"}

    level: float

    @property
    def tail_level(self) -> float:
        """Its level."""
        return self.level

    def checked(self) -> "ReturnCVaR":
        """With its level."""
        return ReturnCVaR(as_number("ReturnCVaR.level", self.level, 0, 1, open_ends=")"))

    def interval(self, returns: ReturnDistribution) -> tuple[float, float]:
        """From below and above."""
        if self.level == 0:
            return -returns.expectation, -returns.expectation
        return returns.cvar(self.level)

    def of(
        self, followed: Callable[..., Followed], over: Callable[[], bool] = lambda: False
    ) -> tuple[float, float, Followed]:
        """Followed near numbers that come closer and closer to the quantile, where the best target is.

        Near a target y both  E max(y - R, 0) / tail - y  and its slope are known well, and it is convex in y.
        """
        tail, found = 1 - self.level, followed(0.0)
        if self.level == 0:
            return *self.interval(found.returns), found
        first, low, high = found.returns, self.interval(found.returns)[0], np.inf
        # the two numbers that the quantile is known to be between, and how likely it is to earn less
        left, right = (float(first.least.min()), 0.0), (float(first.most.max()), 1.0)
        near, lines = _about_quantile(first, tail), list[tuple[float, float, float, float]]()
        for number in range(MOST_TARGETS):
            if over():
                high = min(high, self.interval(first)[1])
                break
            here = followed(0.0, near)
            short, below = here.returns.shortfall(near), here.returns.below(near)
            lines.append((near, short[0] / tail - near, below[0] / tail - 1, below[1] / tail - 1))
            above = min(short[1] / tail - near, self.interval(here.returns)[1])
            if above < high:
                high, found = above, here
            left = max(left, (near, below[1])) if below[1] <= tail else left
            right = min(right, (near, below[0])) if below[0] >= tail else right
            lowest, at = _least(lines, left[0], right[0])
            low = max(low, self.interval(here.returns)[0], lowest)
            if high - low <= CVAR_PRECISION * max(abs(high), first.variance**0.5) or not right[0] > left[0]:
                break
            density = (right[1] - left[1]) / (right[0] - left[0])
            aside = 2 * (below[1] - below[0]) / max(density, 1e-300)
            if below[0] < tail < below[1]:
                # too close to be told apart: on the side on which less is known
                near += aside if right[0] - near > near - left[0] else -aside
            else:
                # where the slopes cancel if the density is even, and where the lines meet if there is an atom
                near = left[0] + (tail - left[1]) / max(density, 1e-300) if number % 2 == 0 else at
            if not left[0] < near < right[0]:
                near = 0.5 * (left[0] + right[0])
            if not np.isfinite(near):
                break
        return min(low, high), high, found

    def slope(self, returns: ReturnDistribution) -> Callable[[Array], Array]:
        """What is missing to the quantile."""
        if self.level == 0:
            return lambda earned: -earned
        at = _about_quantile(returns, 1 - self.level)
        return lambda earned: np.maximum(at - earned, 0.0) / (1 - self.level)


@dataclass(frozen=True)
class ReturnEntropic(ReturnRisk):
    """(1 / rate) log E exp(-rate R): minus the certainty equivalent of a constant aversion to risk; rate above 0.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.ReturnEntropic(0.5), caution=1.0, horizon=20)
    >>> ca.solve(problem).status.name
    'SOLVED'
    """

    summary = "the entropic risk of what an episode earns"
    needs_exponentials = True
    fields_in_files: ClassVar = {"rate": "number"}

    rate: float

    @property
    def exponent(self) -> float:
        """Its rate."""
        return self.rate

    def checked(self) -> "ReturnEntropic":
        """With its rate."""
        return ReturnEntropic(as_number("ReturnEntropic.rate", self.rate, 0, open_ends="("))

    def interval(self, returns: ReturnDistribution) -> tuple[float, float]:
        """From below and above; the distribution must have been made with this rate."""
        assert returns.log_power is not None
        low, high = returns.log_power
        # no return is worse than the worst one
        return low / self.rate, float(np.fmin(high / self.rate, -returns.least.min()))

    def slope(self, returns: ReturnDistribution) -> Callable[[Array], Array]:
        """The exponential, relative to its mean."""
        return _exponential_slope(self.rate, returns)


@dataclass(frozen=True)
class ReturnEVaR(ReturnRisk):
    """The smallest of  ReturnEntropic(rate) + log(1 / (1 - level)) / rate  over all rates; level in [1e-12, 1).

    The entropic value at risk is never below ``ReturnCVaR`` of the same level.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.ReturnEVaR(0.9), caution=1.0, horizon=20)
    >>> ca.solve(problem, tolerance=1e-3).status.name
    'SOLVED'
    """

    summary = "the entropic value at risk of what an episode earns"
    needs_exponentials = True
    fields_in_files: ClassVar = {"level": "share"}

    level: float

    @property
    def tail_level(self) -> float:
        """Its level."""
        return self.level

    def checked(self) -> "ReturnEVaR":
        """With its level."""
        return ReturnEVaR(as_number("ReturnEVaR.level", self.level, LEAST_LEVEL, 1, open_ends=")"))

    def of(
        self, followed: Callable[..., Followed], over: Callable[[], bool] = lambda: False
    ) -> tuple[float, float, Followed]:
        """The smallest over all rates: a convex function of one over the rate; any rate bounds it from above."""
        found: dict[float, Followed] = {}

        def risk_at(logarithm: float) -> float:
            if found and over():
                raise TimeOverError
            # a rate of zero, or an infinite one, is none
            found[logarithm] = followed(math.exp(min(max(logarithm, LEAST_LOGARITHM), LARGEST_LOGARITHM)))
            return self.interval(found[logarithm].returns)[1]

        spread = math.sqrt(followed(0.0).returns.variance)
        first = 0.5 * math.log(2 * self.log_tail) - math.log(spread) if spread > 0 else 0.0
        with suppress(TimeOverError):
            minimize_scalar(risk_at, (first, first + 1.0), tol=RATE_PRECISION)
        best = min(found, key=lambda one: self.interval(found[one].returns)[1])
        return *self.interval(found[best].returns), found[best]

    def interval(self, returns: ReturnDistribution) -> tuple[float, float]:
        """With the rate that the distribution was made with: no more than from above."""
        assert returns.log_power is not None
        assert returns.rate > 0
        high = (returns.log_power[1] + self.log_tail) / returns.rate
        return -np.inf, float(np.fmin(high, -returns.least.min()))

    def slope(self, returns: ReturnDistribution) -> Callable[[Array], Array]:
        """That of the entropic risk with the rate of the distribution, if that is the best one."""
        return _exponential_slope(returns.rate, returns)

    @property
    def log_tail(self) -> float:
        """log(1 / (1 - level))."""
        return -float(np.log1p(-self.level))


@dataclass(frozen=True)
class ReturnBelow(ReturnRisk):
    """The probability that an episode earns less than ``threshold``.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.ReturnBelow(0.5), caution=1.0, horizon=20)
    >>> ca.solve(problem).status.name
    'SOLVED'
    """

    summary = "the probability to earn less than a threshold"
    fields_in_files: ClassVar = {"threshold": "number"}

    threshold: float

    def natural_caution(self, spread: float) -> float:
        """A chance has no unit."""
        return spread if spread > 0 else 1.0

    def checked(self) -> "ReturnBelow":
        """With its threshold."""
        return ReturnBelow(as_number("ReturnBelow.threshold", self.threshold))

    def interval(self, returns: ReturnDistribution) -> tuple[float, float]:
        """From below and above."""
        return returns.below(self.threshold)

    def of(
        self, followed: Callable[..., Followed], over: Callable[[], bool] = lambda: False
    ) -> tuple[float, float, Followed]:
        """Followed near the threshold."""
        found = followed(0.0, self.threshold)
        return *self.interval(found.returns), found

    def slope(self, returns: ReturnDistribution) -> Callable[[Array], Array]:
        """1 for what is below."""
        return lambda earned: (earned < self.threshold - returns.error).astype(np.float64)


def _about_quantile(returns: ReturnDistribution, share: float) -> float:
    """The mean of the cell that holds a quantile, if cells are in the order of their means."""
    reached = np.searchsorted(np.cumsum(returns.mass), share * (1 - 4 * EPS))
    return float(returns.mean[min(int(reached), returns.mean.size - 1)])


def _least(lines: list[tuple[float, float, float, float]], left: float, right: float) -> tuple[float, float]:
    """The least value between ``left`` and ``right`` of a convex function, and where that is.

    Known are values at some numbers, and between which two numbers the slope is there.
    """
    if not np.isfinite(right - left):
        return -np.inf, np.nan
    straight = [(value - slope * at, slope, at) for at, value, *slopes in lines for slope in slopes]
    crossings = [
        (one[0] - other[0]) / (other[1] - one[1])
        for one, other in itertools.combinations(straight, 2)
        if one[1] != other[1] and one[2] != other[2]
    ]
    places = [left, right, *(y for y in crossings if left < y < right)]
    return min((max(value + min(low * (y - at), high * (y - at)) for at, value, low, high in lines), y) for y in places)


def _exponential_slope(rate: float, returns: ReturnDistribution) -> Callable[[Array], Array]:
    assert returns.log_power is not None
    mean = returns.log_power[0]
    return lambda earned: np.exp(np.minimum(-rate * earned - mean, LARGEST_EXPONENT)) / rate


@dataclass(frozen=True)
class ReturnLimit(BoundReturnRisk):
    """``of <= bound``, as it was written: a constraint on a risk of the return in a model."""

    bound: float
    name: str

    structure = Structure.RETURN_LIMIT

    @property
    def label(self) -> str:
        """The constraint as it was written."""
        return self.name


def split_limits(
    constraints: Sequence[Constraint], risk: Risk | None, mdp: MDP
) -> tuple[list[Constraint], list[ReturnLimit]]:
    """The constraints on occupancies, and those on a risk of the return in a model; ``risk`` is bound.

    A return risk stands alone: sums with other risks are not planned, and neither are limits beside it, or two of them.
    """
    terms = [] if risk is None else [term for _, term in terms_of(risk)]
    labels = [term.label for term in terms if term.structure is Structure.RETURN]
    if labels and len(terms) > 1:
        raise IncompatibleError(
            f"{labels[0]} cannot be part of a sum ({', '.join(term.label for term in terms)}): its best policy "
            "remembers what was earned, and a policy that other risks are planned for does not; ask for one risk of "
            "the return alone, and weigh it with caution"
        )
    of_returns = [
        (one, [(weight, term) for weight, term in terms_of(one.measure) if isinstance(term, ReturnRisk)])
        for one in constraints
        if isinstance(one, Constraint)
    ]
    limited = [(one, found) for one, found in of_returns if found]
    if not limited:
        if labels and constraints:
            raise IncompatibleError(
                f"{labels[0]} cannot be combined with constraints: its best policy remembers what was earned, and "
                "policies that keep limits are searched for without that memory; leave out the constraints"
            )
        return list(constraints), []
    one, ((weight, term), *more) = limited[0]
    if more or len(terms_of(one.measure)) > 1 or weight <= 0:
        raise IncompatibleError(f"{one!r}: a limit on a risk of the return is one on that risk alone")
    if len(constraints) > 1 or terms:
        beside = (
            repr(next(other for other in constraints if other is not one)) if len(constraints) > 1 else terms[0].label
        )
        raise IncompatibleError(
            f"{one!r} cannot be combined with {beside}: the policy for a limit on a risk of the return remembers what "
            "was earned, and is searched for with the expected return alone; ask for that limit as the only one, "
            "without a risk"
        )
    term.bind(mdp)
    check_magnitude(f"the limit of {term.label}", np.array(one.bound))
    return [], [ReturnLimit(term.checked(), one.bound / weight, repr(one))]
