"""What the search for the target maximises, for each return risk.

With caution k, the objective of a policy is a maximum over targets x of  a(x) + b E[R - loss(x - R)]:

    variance    E R - k Var R        = max over x of  x - 1/(4k) - k E (x - R)^2
    CVaR        E R - k CVaR         = max over x of  k x + E[ R - k/(1 - level) max(x - R, 0) ]
    entropic    E R - k Ent          = max over x of  k x + E[ R - k/rate (exp(rate (x - R)) - 1) ]
    below       E R - k P(R < c)     = E[ R - k [R < c] ],   x = c

For the best policy of every target the mean of the utility is V(x), which is known at nodes. Between two nodes it is
bounded by the rule of its kind, and the objective of a target by the maximum of  a(x) + b (that bound), in closed form.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.models.encodings import EPS
from cautious.returns.backward import Utility
from cautious.returns.forward import ReturnDistribution
from cautious.risks.returns import ReturnBelow, ReturnCVaR, ReturnEntropic, ReturnRisk, ReturnVariance


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of the objective for targets between neighbouring nodes, and the target where each is reached."""

    upper: Array
    target: Array

    @property
    def largest(self) -> float:
        """Of all targets."""
        return float(self.upper.max())

    @property
    def best_target(self) -> float:
        """Where it is reached."""
        return float(self.target[np.argmax(self.upper)])


@dataclass(frozen=True)
class ReturnObjective(ABC):
    """``E R - caution * risk``; targets and returns are shifted by ``offset``."""

    risk: ReturnRisk
    caution: float
    offset: float

    # whether errors fall like the step, and not like its square; planning for a bound and for a policy then differ
    sharp = False
    # whether the risk of a certain return is minus that return, and not zero
    monetary = True

    @abstractmethod
    def utility(self, pessimistic: bool = False) -> Utility:
        """What planning maximises for a target."""

    @abstractmethod
    def targets(self, mean: float, known: float, low: float, high: float) -> tuple[float, float]:
        """Where the best target is: the largest mean, a ``known`` objective, and the range of the return are given."""

    def beyond(self, first: float, last: float, mean: float) -> float:
        """What no objective exceeds whose best target is not between these; the largest mean is given."""
        return -np.inf

    @abstractmethod
    def within(self, a: Array, b: Array, left: Array, right: Array) -> Bounds:
        """For the targets of intervals from ``a`` to ``b``, with the values from the start at their ends; (n,)."""

    @abstractmethod
    def left_open(self, width: float, means: float = 0.0, deviation: float = 0.0) -> float:
        """About what may be lost by not knowing more of a return than its mean, if it lies in a range so wide.

        Means of what is earned later differ by ``means``, and what was earned before has this standard ``deviation``.
        """

    def bounds(self, nodes: Array, values: Array) -> Bounds:
        """For values (n,) from the start at these targets, which ascend."""
        if nodes.size == 1:
            return self.within(nodes, nodes, values, values)
        return self.within(nodes[:-1], nodes[1:], values[:-1], values[1:])

    def at_nodes(self, nodes: Array, values: Array) -> Bounds:
        """At the nodes alone."""
        return self.within(nodes, nodes, values, values)

    def least_loss(self, mean: float) -> float:
        """What no objective exceeds, by Jensen's inequality: that of a certain return of the largest mean."""
        whole = mean + self.offset
        return whole + self.caution * whole if self.monetary else whole

    @property
    def value_weight(self) -> float:
        """How much a unit of the values counts."""
        return 1.0

    @property
    def rate(self) -> float:
        """Of exponentials that the distribution of the return must know; 0 for none."""
        return 0.0

    def risk_of(self, returns: ReturnDistribution) -> tuple[float, float]:
        """The risk of a distribution of the return, from below and above."""
        return self.risk.interval(returns)

    def rounding_of(self, returns: ReturnDistribution) -> float:
        """What rounding can have done to the objective of a policy."""
        size = float(np.abs(returns.mean).max(initial=0.0))
        return (1 + self.caution) * (returns.error + returns.relative * size)

    def constant_size(self, x: float) -> float:
        """The largest number that is added to V for targets up to x."""
        return (1 + self.caution) * abs(self.offset) + self.caution * abs(x)


class VarianceObjective(ReturnObjective):
    """The values are F = V + x^2."""

    monetary = False

    def utility(self, pessimistic: bool = False) -> Utility:
        """The square."""
        return Utility("variance")

    def targets(self, mean: float, known: float, low: float, high: float) -> tuple[float, float]:
        """The best target is the mean of the best policy and 1 / (2k); that mean is no less than a known objective."""
        least = min(max(low, known - self.offset), mean)
        return least + 0.5 / self.caution, mean + 0.5 / self.caution

    def beyond(self, first: float, last: float, mean: float) -> float:
        """An objective is no more than its mean, which is 1 / (2k) below its target."""
        return self.offset + first - 0.5 / self.caution

    def within(self, a: Array, b: Array, left: Array, right: Array) -> Bounds:
        """A chord less a parabola."""
        k = self.caution
        slope = (right - left) / np.maximum(b - a, 1e-300)
        x = np.clip((1 + k * slope) / (2 * k), a, b)
        # x - 1/(4k) - k x^2  is  - k (x - 1/(2k))^2
        upper = self.offset + k * (left + slope * (x - a)) - k * (x - 0.5 / k) ** 2
        return Bounds(upper, x)

    def constant_size(self, x: float) -> float:
        """The parabola."""
        return abs(self.offset) + self.caution * (abs(x) + 0.5 / self.caution) ** 2

    def rounding_of(self, returns: ReturnDistribution) -> float:
        """A variance changes by twice the standard deviation a unit."""
        error = returns.error + returns.relative * float(np.abs(returns.mean).max(initial=0.0))
        spread = 2 * float(np.sqrt(returns.variance)) * error + error**2 + returns.relative * returns.variance
        return error + self.caution * spread

    def left_open(self, width: float, means: float = 0.0, deviation: float = 0.0) -> float:
        """The largest variance; and the least mean is best where more was earned than the target."""
        return self.caution * (width**2 / 4 + deviation * means)

    @property
    def value_weight(self) -> float:
        """The squares are weighed here."""
        return self.caution


class CVaRObjective(ReturnObjective):
    """Values fall by at most kappa = k / (1 - level) a unit."""

    risk: ReturnCVaR
    sharp = True

    @property
    def kappa(self) -> float:
        """What a unit of shortfall costs."""
        return self.caution / (1 - self.risk.level)

    def utility(self, pessimistic: bool = False) -> Utility:
        """The shortfall."""
        return Utility("shortfall", weight=self.kappa, pessimistic=pessimistic)

    def targets(self, mean: float, known: float, low: float, high: float) -> tuple[float, float]:
        """The best target is a quantile, and worth no less than what is known."""
        k, known = self.caution, known - (1 + self.caution) * self.offset
        least, most = max(low, (known - mean) / k), high
        if self.kappa > k:
            most = min(most, (mean * (1 + self.kappa) - known) / (self.kappa - k))
        return least, max(least, most)

    def beyond(self, first: float, last: float, mean: float) -> float:
        """On the left without a shortfall, on the right with that of a certain return."""
        right = self.caution * last + mean - self.kappa * (last - mean) if self.risk.level > 0 else -np.inf
        return (1 + self.caution) * self.offset + max(self.caution * first + mean, right)

    def left_open(self, width: float, means: float = 0.0, deviation: float = 0.0) -> float:
        """The largest shortfall of a return with a given mean."""
        return self.kappa * width / 4

    def within(self, a: Array, b: Array, left: Array, right: Array) -> Bounds:
        """Where the value at the left node meets the line of slope -kappa through the value at the right one."""
        x = np.clip(b - (left - right) / self.kappa, a, b)
        return Bounds((1 + self.caution) * self.offset + self.caution * x + left, x)

    def rounding_of(self, returns: ReturnDistribution) -> float:
        """Chances count more in the tail."""
        spread = float(returns.mean.max(initial=0.0) - returns.mean.min(initial=0.0))
        return super().rounding_of(returns) + self.kappa * returns.relative * spread


class EntropicObjective(ReturnObjective):
    """Values lie below chords over exp(rate x)."""

    risk: ReturnEntropic

    @property
    def rate(self) -> float:
        """Of the risk."""
        return self.risk.rate

    def utility(self, pessimistic: bool = False) -> Utility:
        """The exponential."""
        return Utility("entropic", weight=self.caution / self.rate, rate=self.rate)

    def targets(self, mean: float, known: float, low: float, high: float) -> tuple[float, float]:
        """The best target is a certainty equivalent, which is between the least return and the largest mean."""
        known = known - (1 + self.caution) * self.offset
        return min(max(low, (known - mean) / self.caution), mean), mean

    def beyond(self, first: float, last: float, mean: float) -> float:
        """A target is minus the risk of its policy."""
        return (1 + self.caution) * self.offset + self.caution * first + mean

    def left_open(self, width: float, means: float = 0.0, deviation: float = 0.0) -> float:
        """Hoeffding's bound of the entropic risk, and that by the range."""
        return self.caution * width * min(self.rate * width / 8, 1.0)

    def within(self, a: Array, b: Array, left: Array, right: Array) -> Bounds:
        """A line, less an exponential: concave, with its largest value where the slopes cancel."""
        k, rate = self.caution, self.rate
        with np.errstate(over="ignore", divide="ignore"):
            slope = np.minimum((right - left) / np.maximum(np.expm1(rate * (b - a)), 1e-300), 0.0)
            x = a + np.where(slope < 0, np.log(k / np.maximum(-slope * rate, 1e-300)) / rate, b - a)
        x = np.clip(x, a, b)
        with np.errstate(over="ignore", invalid="ignore"):
            fall = np.where(slope < 0, slope * np.expm1(rate * (x - a)), 0.0)
        return Bounds((1 + k) * self.offset + k * x + left + fall, x)

    def rounding_of(self, returns: ReturnDistribution) -> float:
        """A logarithm, divided by the rate."""
        return super().rounding_of(returns) + self.caution * returns.relative / self.rate


class BelowObjective(ReturnObjective):
    """There is one target: the threshold."""

    risk: ReturnBelow
    sharp = True
    monetary = False

    def utility(self, pessimistic: bool = False) -> Utility:
        """The threshold."""
        return Utility("threshold", weight=self.caution, pessimistic=pessimistic)

    def targets(self, mean: float, known: float, low: float, high: float) -> tuple[float, float]:
        """The threshold."""
        return self.risk.threshold - self.offset, self.risk.threshold - self.offset

    def left_open(self, width: float, means: float = 0.0, deviation: float = 0.0) -> float:
        """A chance for every return within the range, which is not known: as if the density were one."""
        return self.caution * min(1.0, width)

    def within(self, a: Array, b: Array, left: Array, right: Array) -> Bounds:
        """The value itself."""
        return Bounds(self.offset + left, a)

    def rounding_of(self, returns: ReturnDistribution) -> float:
        """Of the mean, and of the chances."""
        size = float(np.abs(returns.mean).max(initial=0.0))
        return returns.error + returns.relative * (size + self.caution) + 4 * EPS * size


_OBJECTIVES: dict[type[ReturnRisk], type[ReturnObjective]] = {
    ReturnVariance: VarianceObjective,
    ReturnCVaR: CVaRObjective,
    ReturnEntropic: EntropicObjective,
    ReturnBelow: BelowObjective,
}


def objective_of(risk: ReturnRisk, caution: float, offset: float) -> ReturnObjective:
    """The objective of a return risk that is a minimum over one target."""
    return _OBJECTIVES[type(risk)](risk, caution, offset)
