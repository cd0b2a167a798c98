"""The small problem inside column generation: how to mix K known behaviours.

    maximise over w >= 0, sum w = 1:   R w  +  sum_j c_j log( Y_j w - b_j )  -  sum_g c_g max over i in g of Y_i w

R (K,) are the returns of the columns, Y their features. ``kernels/mixing.py`` solves it, scaled to numbers of size one.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.mixing import central_mixture, use_up

SHARPEST = 1e-14
LEAST_WEIGHT = 1e-12


@dataclass(frozen=True)
class Mixture:
    """``weights`` (K,) of the columns, ``prices`` (m,) of the features, ``value`` of the best mixture."""

    weights: Array
    prices: Array
    value: float = -np.inf


@dataclass(frozen=True)
class Rows:
    """The m features: caution of each barrier row (0 for the others), floor, and group (-1 for barriers)."""

    caution: Array
    floor: Array
    group: Indices
    group_caution: Array

    @cached_property
    def barrier(self) -> Mask:
        """Which rows are barriers."""
        return np.asarray(self.group < 0)

    def value(self, expected: float, numbers: Array) -> float:
        """The objective of a behaviour with this return and these numbers (m,); -inf when a floor is missed."""
        bar = self.barrier
        slack = numbers[bar] - self.floor[bar]
        if np.any(slack <= 0):
            return -np.inf
        tops = (c * numbers[self.group == g].max() for g, c in enumerate(self.group_caution))
        return float(expected + self.caution[bar] @ np.log(slack) - sum(tops))

    def normalised(self, prices: Array) -> Array:
        """Prices of a worst case sum to its caution; those of a barrier are positive."""
        out = np.maximum(prices, 1e-300)
        for g, caution in enumerate(self.group_caution):
            here = self.group == g
            out[here] *= caution / out[here].sum()
        return out

    def even(self) -> Array:
        """Prices (m,) that spread every worst case evenly over its rows; none for barriers."""
        out = np.zeros(self.group.size)
        for g, caution in enumerate(self.group_caution):
            here = self.group == g
            out[here] = caution / here.sum()
        return out

    def intercept(self, prices: Array) -> float:
        """What the lines of the barriers add, in units of the objective."""
        bar = self.barrier
        c, b, u = self.caution[bar], self.floor[bar], prices[bar]
        return float(np.sum(c * (1 + np.log(u / c)) + u * b))


class SmallProblem:
    """The small problem of columns with these returns (K,) and features (m, K), scaled once for several solves."""

    def __init__(self, returns: Array, features: Array, rows: Rows) -> None:
        self.returns, self.features, self.rows = returns, features, rows
        bar = rows.barrier
        cautions = np.concatenate([rows.caution, rows.group_caution])
        self.scale = max(float(np.ptp(returns)), float(cautions.max(initial=0.0)), 1e-300)
        size = np.maximum(np.abs(features).max(axis=1), np.abs(rows.floor))
        size[size == 0] = 1.0
        tops = np.array([size[rows.group == g].max() for g in range(rows.group_caution.size)])
        size[~bar] = tops[rows.group[~bar]]
        self.size, self.sign = size, np.where(bar, 1.0, -1.0)
        self.scaled = (
            (returns - returns.mean()) / self.scale,
            rows.group_caution * tops / self.scale,
            np.ascontiguousarray((self.sign / size)[:, None] * features),
            np.where(bar, rows.floor / size, 0.0),
            rows.caution / self.scale,
            rows.group,
        )

    def best(self) -> Mixture | None:
        """The best mixture; None when rounding defeats it."""
        found = self._solved(SHARPEST, np.zeros(self.size.size), np.zeros(self.size.size))
        if found is None:
            return None
        value = self.rows.value(float(self.returns @ found.weights), self.features @ found.weights)
        return Mixture(found.weights, found.prices, value)

    def centred(self) -> Mixture | None:
        """Prices that spread a worst case over all its rows: a start, when nothing is known yet."""
        return self._solved(1.0, np.zeros(self.size.size), np.zeros(self.size.size))

    def near(self, centre: Array, stiffness: float) -> Mixture | None:
        """Prices (m,) of worst cases pay a penalty: stiffness / 2 times their squared distance to ``centre``."""
        held = np.where(self.rows.barrier, 0.0, stiffness)
        return self._solved(SHARPEST, held, centre * self.size / self.scale)

    def bound(self, prices: Array) -> float:
        """What no mixture of these columns exceeds, for any normalised prices (m,)."""
        priced = self.returns + (self.sign * prices) @ self.features
        return float(priced.max()) - self.rows.intercept(prices)

    def _solved(self, mu_end: float, held: Array, centre: Array) -> Mixture | None:
        weights, prices, amiss = central_mixture(*self.scaled, held, centre, mu_end)
        if not np.isfinite(amiss):
            return None
        weights = np.maximum(weights, 0.0)
        return Mixture(weights / weights.sum(), prices * self.scale / self.size)


def few(returns: Array, features: Array, weights: Array) -> Array:
    """Weights (K,) of at most m + 1 columns with the same features and no smaller return.

    While more columns carry weight, some change of their weights leaves the features and the sum as they are
    (Caratheodory); it is followed, return rising, until a weight is used up.
    """
    weights = np.where(weights > LEAST_WEIGHT * weights.max(), weights, 0.0)
    size = np.abs(features).max(axis=1, initial=0.0)
    system = np.vstack([features / np.where(size > 0, size, 1.0)[:, None], np.ones(weights.size)])
    use_up(returns, system, weights)
    return np.asarray(weights / weights.sum())
