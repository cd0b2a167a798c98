"""The m features of a problem as rows: barriers and worst cases, for the solvers that work with their prices."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.problem import Problem

MIN_PRICE = 1e-300


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

    @cached_property
    def sign(self) -> Array:
        """What more of a number is worth: one for barriers, minus one for worst cases; (m,)."""
        return np.where(self.barrier, 1.0, -1.0)

    @cached_property
    def members(self) -> tuple[Indices, ...]:
        """The rows of every worst case."""
        return tuple(np.flatnonzero(self.group == g) for g in range(self.group_caution.size))

    @cached_property
    def first(self) -> Indices:
        """One row of every worst case."""
        return np.array([rows[0] for rows in self.members], dtype=np.int64)

    @cached_property
    def largest_caution(self) -> float:
        """Of any row or worst case."""
        return float(max(self.caution.max(initial=0.0), self.group_caution.max(initial=0.0)))

    @cached_property
    def all_barriers(self) -> bool:
        """Whether there is no worst case."""
        return self.group_caution.size == 0

    def levelled(self, size: Array) -> Array:
        """Sizes (m,), those of a worst case all as large as the largest of them; in place."""
        for rows in self.members:
            size[rows] = size[rows].max()
        return size

    def value(self, expected: float, numbers: Array) -> float:
        """The objective of a behaviour with this return and these numbers (m,); -inf when a floor is missed."""
        tops = sum(c * float(numbers[rows].max()) for rows, c in zip(self.members, self.group_caution, strict=True))
        if not self.barrier.any():
            return float(expected - tops)
        bar = self.barrier
        slack = numbers[bar] - self.floor[bar]
        if np.any(slack <= 0):
            return -np.inf
        return float(expected + self.caution[bar] @ np.log(slack) - tops)

    def normalised(self, prices: Array) -> Array:
        """Positive prices (m,), those of a worst case scaled such that they sum to its caution."""
        out = np.maximum(prices, MIN_PRICE)
        for rows, caution in zip(self.members, self.group_caution, strict=True):
            out[rows] *= caution / out[rows].sum()
        return out

    def even(self) -> Array:
        """Prices (m,) that spread every worst case evenly over its rows; none for barriers."""
        out = np.zeros(self.group.size)
        for rows, caution in zip(self.members, self.group_caution, strict=True):
            out[rows] = caution / rows.size
        return out

    def intercept(self, prices: Array) -> float:
        """What the lines of the barriers add, in units of the objective."""
        bar = self.barrier
        if not bar.any():
            return 0.0
        c, b, u = self.caution[bar], self.floor[bar], prices[bar]
        return float(np.sum(c * (1 + np.log(u / c)) + u * b))


def all_features(problem: Problem) -> sp.csr_array:
    """The features (m, S*A) of all terms that have any; there must be one."""
    blocks = [term.risk.features for term in problem.parts.features]
    return blocks[0] if len(blocks) == 1 else sp.csr_array(sp.vstack(blocks))


def feature_rows(problem: Problem) -> Rows:
    """What kind each of these features is, and how much it counts; there may be none."""
    caution: list[float] = []
    floor: list[float] = []
    group: list[int] = []
    group_caution: list[float] = []
    for term in problem.parts.features:
        m = len(term.risk.names)
        if term.risk.is_barrier:
            caution, group = caution + [term.weight] * m, group + [-1] * m
        else:
            caution, group = caution + [0.0] * m, group + [len(group_caution)] * m
            group_caution.append(term.weight)
        floor += term.risk.floors.tolist()
    return Rows(np.array(caution), np.array(floor), np.array(group, dtype=np.int64), np.array(group_caution))
