"""The restricted master problem of column generation: the best mixture of K known policies.

    maximise over w >= 0, sum w = 1:   R w  +  sum_j c_j log( Y_j w - b_j )  -  sum_g c_g max over i in g of Y_i w

R (K,) are the returns of the columns, Y (m, K) their features. ``_core/restricted_master.hpp`` solves it, scaled to
numbers of size one.
"""

from dataclasses import dataclass

import numpy as np

from cautious._core.restricted_master import central_point
from cautious.arrays import Array, Indices
from cautious.solvers.feature_rows import Rows

# the complementarity products at which the interior point ends
FINAL_BARRIER = 1e-14
# columns with a smaller share of the largest weight are left out of a mixture
MIN_RELATIVE_WEIGHT = 1e-12
# of more than MAX_FIRST_COLUMNS columns, only START_COLUMNS take part at first; columns that would add less than this
# share of the returns' range are not missed
START_COLUMNS, MAX_FIRST_COLUMNS = 40, 60
MIN_RELATIVE_GAIN = 1e-11


@dataclass(frozen=True)
class Mixture:
    """``weights`` (K,) of the columns, ``prices`` (m,) of the features, ``value`` of the best mixture."""

    weights: Array
    prices: Array
    value: float = -np.inf


class RestrictedMaster:
    """The problem of columns with these returns (K,) and features (m, K), scaled once for several solves.

    Of many columns most are far from any use. With ``prices`` (m,) that are about right, only the ``START_COLUMNS``
    columns that are worth most at these take part at first; ``best`` adds what turns out to be missing.
    """

    def __init__(self, returns: Array, features: Array, rows: Rows, prices: Array | None = None) -> None:
        self.returns, self.features, self.rows = returns, features, rows
        # units in which all numbers are about one: of the returns, and of each feature, those of a worst case alike
        self.scale = max(float(returns.max() - returns.min()), rows.largest_caution, 1e-300)
        size = np.maximum(np.abs(features).max(axis=1), np.abs(rows.floor))
        self.size = rows.levelled(np.where(size > 0, size, 1.0))
        self.chosen = np.arange(returns.size)
        if prices is not None and returns.size > MAX_FIRST_COLUMNS:
            self.chosen = np.sort(np.argsort(-self._worth(prices), kind="stable")[:START_COLUMNS])
        self._scaled = self._arrays()

    def _worth(self, prices: Array) -> Array:
        """What each column earns at these prices (m,)."""
        return np.asarray(self.returns + (self.rows.sign * prices) @ self.features)

    def _arrays(self) -> tuple[Array, Array, Array, Array, Array, Indices]:
        """What the kernel takes, of the columns that take part."""
        rows, chosen = self.rows, self.chosen
        profit = (self.returns[chosen] - self.returns.mean()) / self.scale
        columns = np.ascontiguousarray((rows.sign / self.size)[:, None] * self.features[:, chosen])
        tops = rows.group_caution * self.size[rows.first] / self.scale
        return profit, tops, columns, rows.floor / self.size, rows.caution / self.scale, rows.group

    def best(self) -> Mixture | None:
        """The best mixture; None when rounding prevents a solution."""
        found = self._best_of_chosen()
        while self.chosen.size < self.returns.size:
            missing = np.arange(self.returns.size)
            if found is not None and found.value > -np.inf:
                worth = self._worth(found.prices)
                missing = np.flatnonzero(worth > float(worth[self.chosen].max()) + MIN_RELATIVE_GAIN * self.scale)
                if missing.size == 0:
                    break
                missing = missing[np.argsort(-worth[missing], kind="stable")[:START_COLUMNS]]
            self.chosen = np.union1d(self.chosen, missing)
            self._scaled = self._arrays()
            found = self._best_of_chosen()
        return found

    def _best_of_chosen(self) -> Mixture | None:
        zero = np.zeros(self.size.size)
        found = self._solved(FINAL_BARRIER, zero, zero)
        if found is None:
            return None
        value = self.rows.value(float(self.returns @ found.weights), self.features @ found.weights)
        return Mixture(found.weights, found.prices, value)

    def centred(self) -> Mixture | None:
        """Prices that spread a worst case over all its rows: a start, when nothing is known yet."""
        zero = np.zeros(self.size.size)
        return self._solved(1.0, zero, zero)

    def near(self, centre: Array, penalty: float) -> Mixture | None:
        """The best mixture when prices (m,) of worst cases cost penalty / 2 times their squared distance to these."""
        penalties = np.where(self.rows.barrier, 0.0, penalty)
        return self._solved(FINAL_BARRIER, penalties, centre * self.size / self.scale)

    def bound(self, prices: Array) -> float:
        """An upper bound of all mixtures of these columns, for any normalised prices (m,)."""
        return float(self._worth(prices).max()) - self.rows.intercept(prices)

    def _solved(self, barrier: float, penalties: Array, centre: Array) -> Mixture | None:
        weights, prices, error = central_point(*self._scaled, penalties, centre, barrier)
        if not np.isfinite(error):
            return None
        weights = np.maximum(weights, 0.0)
        every = np.zeros(self.returns.size)
        every[self.chosen] = weights / weights.sum()
        return Mixture(every, prices * self.scale / self.size)


def reduce_support(returns: Array, features: Array, weights: Array) -> Array:
    """Weights (K,) of at most m + 1 columns with the same features and no smaller return.

    While more columns carry weight, some change of their weights leaves the features and the sum as they are
    (Caratheodory). It is followed in the direction of rising return until a weight becomes zero.
    """
    weights = np.where(weights > MIN_RELATIVE_WEIGHT * weights.max(), weights, 0.0)
    size = np.abs(features).max(axis=1, initial=0.0)
    system = np.vstack([features / np.where(size > 0, size, 1.0)[:, None], np.ones(weights.size)])
    used = np.flatnonzero(weights)
    while used.size > len(system):
        # one column more than equations always leaves a change; the smallest weights are taken first
        some = used[np.argsort(weights[used], kind="stable")[: len(system) + 1]]
        change = np.linalg.svd(system[:, some])[2][-1]
        change *= 1.0 if change @ returns[some] >= 0 else -1.0
        # the changes sum to zero, so some of them are negative
        lengths = np.where(change < 0, weights[some] / np.maximum(-change, 1e-300), np.inf)
        first = int(np.argmin(lengths))
        weights[some] = np.maximum(weights[some] + lengths[first] * change, 0.0)
        weights[some[first]] = 0.0
        used = np.flatnonzero(weights)
    return np.asarray(weights / weights.sum())
