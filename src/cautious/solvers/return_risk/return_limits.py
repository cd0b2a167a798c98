"""The largest expected return with a limit on a risk of the return, over all policies that may remember.

For any price p >= 0 every policy that keeps  risk <= bound  earns

    E R  <=  E R - p (risk - bound)  <=  U(p) + p bound,

where U(p) is what no policy exceeds when the risk costs p a unit: the problem without the limit, for which there is a
search with bounds and policies. Policies for larger prices have smaller risks; the best one is delivered whose risk, as
it is known from above, keeps the limit. Between the last price whose policy breaks the limit and the first one whose
policy keeps it the next price makes both worth the same. Mixtures of the two at the start are not delivered, because
the risks are concave in the distribution: that of a mixture is larger than the mean of both. What this leaves open is
part of the gap.

No policy keeps the limit if  U(p) < least E R - p bound  for some price. Where the risk is minus a certainty
equivalent, E R is at least minus the risk; otherwise it is bounded by the rewards.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cautious.models.encodings import EPS
from cautious.problem import Problem
from cautious.returns.earnings import Earnings, earnings_of
from cautious.returns.grids import range_of_return
from cautious.risks.returns import ReturnBelow, ReturnLimit, ReturnVariance
from cautious.solvers.base import Progress, Target
from cautious.solvers.return_risk.objectives import VarianceObjective
from cautious.solvers.return_risk.rate_search import RateSearch
from cautious.solvers.return_risk.search import Best, Search
from cautious.solvers.return_risk.target_search import search_for

# prices that are tried, the ratio of the first ones, and the largest one relative to the first
MOST_PRICES, PRICE_RATIO, LARGEST_PRICE_RATIO = 40, 8.0, 1e9
# of the range of the return, the least standard deviation that the first price goes by
LEAST_SPREAD = 1e-2
# of the gap that is allowed, what the search for one price may leave open
SHARE_OF_PRICE = 0.3
# the same of what is open between the bound and the best policy, and products of a value and a probability
SHARE_OF_OPEN, PRODUCTS_OF_PRICE = 0.05, 1e9
# of no use to a limit that cannot be kept, but shown: the least risk, to this share, by so many more prices
SHARE_OF_LEAST, PRICES_OF_LEAST = 1e-4, 6
# policies are alike if their figures differ by less
SAME_SHARE = 1e-7
# of the distance of two prices, how close to one of them the next may be
LEAST_SHARE = 0.02


@dataclass
class LimitedReturn:
    """The best policy found that keeps the limit, the policy of the least risk, and what was proved.

    ``upper`` is what no policy that keeps the limit exceeds, by the ``price``; ``least_risk`` what no policy is below.
    """

    best: Best | None
    closest: Best
    upper: float
    price: float
    least_risk: float
    prices: int
    infeasible: bool = False


def largest_return(
    problem: Problem, target: Target, callback: Callable[[Progress], object] | None = None
) -> LimitedReturn:
    """Search until the gap is within the target's, the prices are as close as can be, or time is over."""
    # targets of hard numbers may overflow on the way; a bound that is not a number lowers nothing
    with np.errstate(all="ignore"):
        return _ReturnPrices(problem, target, callback).run()


class _ReturnPrices:
    """The prices that were tried."""

    def __init__(self, problem: Problem, target: Target, callback: Callable[[Progress], object] | None) -> None:
        self.limit: ReturnLimit = problem.parts.return_limits[0].risk
        self.problem, self.target, self.callback = problem, target, callback
        self.earnings: Earnings = target.workspace.of("target search", lambda: earnings_of(problem.mdp))
        # the policy of the largest mean is what every search begins with
        neutral = self._search(1.0)
        assert neutral.best is not None
        most = float(problem.mdp.start @ self.earnings.at(self.earnings.mean_most, 0)) + self.earnings.offset
        self.found = LimitedReturn(None, neutral.best, most, 0.0, -np.inf, 0)
        self._take(neutral.best)

    def run(self) -> LimitedReturn:
        """Larger and larger prices until a policy keeps the limit or none can; then between two prices."""
        found = self.found
        low: tuple[float, Best] = (0.0, found.closest)
        high: tuple[float, Best] | None = None
        if found.best is not None:
            found.upper = max(found.upper, found.best.expected_return)
            return found
        spread = float(np.sqrt(found.closest.followed.returns.variance))
        least, most = range_of_return(self.earnings)
        if np.isfinite(most - least):
            # a return that is nearly certain says little about what others risk
            spread = max(spread, LEAST_SPREAD * (most - least))
        price = first = self.limit.of.natural_caution(spread) / PRICE_RATIO
        while found.prices < MOST_PRICES and not self.target.over():
            best = self._priced(price)
            if found.infeasible:
                self._show_least(price)
                break
            if self._solved():
                break
            if high is not None and best is not None and _alike(best, low[1], high[1]):
                # at this price both are best: the bound cannot be lowered by another
                break
            if best is not None and self._keeps(best):
                high = price, best
            elif best is not None:
                low = price, best
            if high is None:
                price *= PRICE_RATIO
                if price > LARGEST_PRICE_RATIO * first:
                    break
                continue
            price = self._between(low, high)
            if not low[0] * (1 + 1e-12) < price < high[0] * (1 - 1e-12):
                break
        return found

    def _show_least(self, price: float) -> None:
        """No policy keeps the limit: larger prices show what the least risk is."""
        for _ in range(PRICES_OF_LEAST):
            missing = self.found.closest.risk - self.found.least_risk
            if self.target.over() or missing <= SHARE_OF_LEAST * max(1.0, abs(self.found.closest.risk)):
                break
            price *= PRICE_RATIO
            self._priced(price)

    def _between(self, low: tuple[float, Best], high: tuple[float, Best]) -> float:
        """The price at which both policies are worth the same, or one halfway if that is next to either."""
        lost, saved = low[1].expected_return - high[1].expected_return, low[1].risk - high[1].risk
        room = high[0] - low[0]
        same = lost / saved if saved > 0 else np.nan
        if low[0] + LEAST_SHARE * room < same < high[0] - LEAST_SHARE * room:
            return float(same)
        return float(np.sqrt(low[0] * high[0])) if low[0] > 0.1 * high[0] else low[0] + 0.5 * room

    def _priced(self, price: float) -> Best | None:
        """The best policy when the risk costs this; what it proves is noted."""
        found, target = self.found, self.target
        found.prices += 1
        search = self._search(price)
        known = found.closest if found.best is None else found.best
        open_gap = found.upper - known.expected_return
        allowed = max(
            SHARE_OF_PRICE * target.allowance(known.expected_return),
            SHARE_OF_OPEN * (open_gap if open_gap > 0 else 0.0),
        )
        for _ in search.rounds(lambda _: allowed):
            self._take(search.best)
        self._take(search.best)
        upper = search.upper + price * self.limit.bound
        upper += 8 * EPS * (abs(search.upper) + abs(price * self.limit.bound))
        if upper < found.upper:
            found.upper, found.price = upper, price
        found.least_risk = max(found.least_risk, self._least_risk(search.upper, price))
        found.infeasible = found.least_risk > self.limit.bound and found.best is None
        self._tell()
        return search.best

    def _least_risk(self, upper: float, price: float) -> float:
        """What the risk of no policy is below, where none is worth more than ``upper`` at this price."""
        earnings = self.earnings
        least = float(earnings.mdp.start @ earnings.at(earnings.mean_least, 0)) + earnings.offset
        found = (least - upper) / price
        if not isinstance(self.limit.of, ReturnVariance | ReturnBelow):
            found = max(found, -upper / (1 + price))
        return found - 8 * EPS * (abs(upper) + abs(least if np.isfinite(least) else 0.0)) / min(price, 1.0)

    def _search(self, price: float) -> Search | RateSearch:
        return search_for(self.earnings, self.limit.of, price, self.target, PRODUCTS_OF_PRICE)

    def _take(self, best: Best | None) -> None:
        if best is None:
            return
        if best.risk < self.found.closest.risk:
            self.found.closest = best
        known = self.found.best
        if self._keeps(best) and (known is None or best.expected_return > known.expected_return):
            self.found.best = best

    def _keeps(self, best: Best) -> bool:
        """Whether the risk of a policy is within the limit, by more than rounding."""
        return best.risk + self._unsure(best) <= self.limit.bound

    def _unsure(self, best: Best) -> float:
        returns = best.followed.returns
        if isinstance(self.limit.of, ReturnVariance):
            objective = VarianceObjective(self.limit.of, 1.0, 0.0)
            return objective.rounding_of(returns) - returns.error
        return 2 * (returns.error + returns.relative * max(1.0, abs(best.risk)))

    def _solved(self) -> bool:
        best = self.found.best
        return best is not None and self.found.upper - best.expected_return <= self.target.allowance(
            best.expected_return
        )

    def _tell(self) -> None:
        found, clock = self.found, self.target.clock
        objective = -np.inf if found.best is None else found.best.expected_return
        if self.callback is not None:
            told = Progress(found.prices, clock.seconds, objective, found.upper, found.upper - objective, "prices")
            clock.stop_requested |= self.callback(told) is True


def _alike(best: Best, *others: Best) -> bool:
    """Whether a policy earns and risks the same as one of the others."""
    return any(
        abs(best.expected_return - other.expected_return) <= SAME_SHARE * max(1e-300, abs(other.expected_return))
        and abs(best.risk - other.risk) <= SAME_SHARE * max(1e-300, abs(other.risk))
        for other in others
    )
