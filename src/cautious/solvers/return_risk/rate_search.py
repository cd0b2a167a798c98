"""Branch and bound over the rate of the entropic value at risk.

With caution k and the tail 1 - level, and L = log(1 / (1 - level)),

    E R - k EVaR  =  max over rates b of  E R - k Ent_b - k L / b.

Entropic risks Ent_b grow with the rate, from minus the mean. So for all rates from b to c, no policy exceeds
J(b) - k L / c, where J(b) bounds  E R - k Ent_b  over all policies; below the first rate, Ent_b is at least minus the
mean. Ranges that can hold the best rate are cut in two, until what they promise has been reached.
"""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cautious.models.encodings import EPS
from cautious.returns.earnings import Earnings
from cautious.returns.forward import follow
from cautious.returns.memory_policy import MemoryPolicy
from cautious.risks.returns import ReturnEntropic, ReturnEVaR
from cautious.solvers.return_risk.objectives import EntropicObjective
from cautious.solvers.return_risk.search import Best, Search

# products of a value and a probability: of one plan, and of all
PRODUCTS_OF_PLAN, PRODUCTS_IN_ALL = 5e8, 1e10
# ranges of rates that are looked at
MOST_RANGES = 200
# of what a range promises beyond the best policy, what may be left open about its first rate
SHARE_OF_RATE = 0.3
# the first of all rates are so many times apart
FIRST_RATIO = 4.0
# a policy is worth a look at all its rates if at its own it is that near to the best one, as a share of the gap
PROMISING_SHARE = 0.5


@dataclass
class Range:
    """Rates from ``search.rate`` to ``end``, with what is known about the first one."""

    search: Search
    rounds: Iterator[None]
    rate: float
    end: float
    ended: bool = False


class RateSearch:
    """As ``Search``, for the entropic value at risk; with ``patience`` so many times the work."""

    def __init__(
        self, earnings: Earnings, risk: ReturnEVaR, caution: float, over: Callable[[], bool], patience: float = 1.0
    ) -> None:
        self.patience = patience
        self.earnings, self.risk, self.caution, self.over = earnings, risk, caution, over
        self.best: Best | None = None
        self.ranges: list[Range] = []
        self._allowed = 0.0
        self._seen: dict[float, Best] = {}
        size = float(np.ptp(earnings.earned)) or 1.0
        first = self._search(1 / size)
        self.mean = first.mean + earnings.offset
        assert first.best is not None
        self._consider(first.best.policy)
        # what no policy exceeds with a rate below the first one, and with any
        self.upper = self.mean * (1 + caution) + 8 * EPS * abs(self.mean) * (1 + caution)

    @property
    def known(self) -> float:
        """The objective of the best policy, without what rounding may have added."""
        return -np.inf if self.best is None else self.best.objective - self.best.error

    @property
    def gap(self) -> float:
        """Between the bound and the best policy."""
        return self.upper - self.known

    def rounds(self, allowance: Callable[[float], float]) -> Iterator[None]:
        """Until the gap is allowed, time is over, or the work."""
        assert self.best is not None
        most, cost = self.upper, self.caution * self.risk.log_tail
        allowed = allowance(self.best.objective)
        if not np.isfinite(self.known) or most - self.known <= allowed:
            return
        # at smaller rates not even a certain return of the largest mean is better than what is known
        least = cost / (most - self.known)
        if least < sys.float_info.min:
            # doubles have no such rates
            return
        self._add(least, math.inf)
        below = self.known
        while not self.over():
            allowed = allowance(self.best.objective)
            self._consider_ranges()
            top = max(self.ranges, key=self._promise)
            self.upper = min(self.upper, max(below, self._promise(top)))
            yield
            spent = self._products() > self.patience * PRODUCTS_IN_ALL or len(self.ranges) > self.patience * MOST_RANGES
            if self.gap <= allowed or spent:
                return
            left_open = self._promise(top) - self.known
            self._allowed = max(SHARE_OF_RATE * left_open, 0.1 * allowed)
            if top.search.gap > self._allowed and not top.ended:
                top.ended = next(top.rounds, self) is self
                continue
            middle = top.rate * FIRST_RATIO if math.isinf(top.end) else math.sqrt(top.rate * top.end)
            if not top.rate * (1 + 1e-9) < middle < 1e300:
                return
            end, top.end = top.end, middle
            self._add(middle, end)

    def _add(self, rate: float, end: float) -> None:
        search = self._search(rate)
        self.ranges.append(Range(search, search.rounds(lambda _: self._allowed), rate, end))

    def _search(self, rate: float) -> Search:
        objective = EntropicObjective(ReturnEntropic(rate), self.caution, self.earnings.offset)
        return Search(self.earnings, objective, self.over, self.patience * PRODUCTS_OF_PLAN, even=True)

    def _promise(self, one: Range) -> float:
        """What no policy exceeds with a rate of this range."""
        promise = one.search.upper - self.caution * self.risk.log_tail / one.end
        return promise + 8 * EPS * (abs(one.search.upper) + self.caution * self.risk.log_tail / one.end)

    def _products(self) -> float:
        return sum(one.search.products for one in self.ranges)

    def _consider_ranges(self) -> None:
        """The policies of ranges whose searches found something that may be better."""
        for one in self.ranges:
            found = one.search.best
            assert found is not None
            worth = found.objective - self.caution * self.risk.log_tail / one.rate
            if self._seen.get(one.rate) is not found and worth > self.known - PROMISING_SHARE * self.gap:
                self._seen[one.rate] = found
                self._consider(found.policy)

    def _consider(self, policy: MemoryPolicy) -> None:
        """Keep a policy that is better than the best one."""
        earnings = self.earnings.with_steps(policy.n_steps)
        _, risk, followed = self.risk.of(lambda rate: follow(earnings, policy, rate), self.over)
        objective = EntropicObjective(ReturnEntropic(followed.returns.rate), self.caution, self.earnings.offset)
        mean, error = followed.returns.expectation, objective.rounding_of(followed.returns)
        found = Best(policy, followed, mean, risk, mean - self.caution * risk, error)
        if self.best is None or found.objective - found.error > self.known:
            self.best = found
