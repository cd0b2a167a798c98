"""Prices of features beside an entropy: the m extra variables of its dual.

A feature f_j enters the exponents as  sign_j omega_j f_j.  With s_j its slack, a barrier row asks for  omega_j s_j =
target (its own caution), where  s_j = <f_j, y> - floor_j;  the rows of a worst case ask for the same with s_j = t -
<f_j, y>  and a target that goes to zero, and their prices add up to the caution of the worst case. The last is kept
by moving in the directions ``basis`` only. Everything is in units of the entropy's caution, and rows are scaled to
size one.
"""

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from cautious.arrays import Array
from cautious.problem import Problem
from cautious.solvers.feature_rows import Rows, all_features, feature_rows

# of the way to where a price or a slack is zero, how much is gone at most
BOUNDARY_FRACTION = 0.995
# slacks stay within this factor of target / price
MAX_SLACK_RATIO = 1e3
# a price of a barrier beyond so many targets, the inverse of a slack in units of its row, has diverged
MAX_PRICE_RATIO = 1e12
# of a neighbour's prices: the part that is spread evenly, and the first target in units of all prices
UNIFORM_PRICE_SHARE, WARM_TARGET_SHARE = 0.01, 1e-6


class ScaledFeatures:
    """The features (m, S*A) with their sign and in units of their ``size`` (m,): no caution changes them."""

    def __init__(self, problem: Problem) -> None:
        rows = feature_rows(problem)
        self.size, self.basis = np.zeros(0), np.zeros((0, 0))
        # matrices without rows take a tenth of a small solve to make
        if not rows.group.size:
            return
        features = all_features(problem)
        size = np.maximum(np.asarray(abs(features).max(axis=1).todense()).ravel(), np.abs(rows.floor))
        self.size = rows.levelled(np.where(size > 0, size, 1.0))
        self.features = sp.csr_array(sp.diags_array(rows.sign / self.size) @ features)
        self.by_pair = self.features.T
        self.basis = _directions(rows)


class Prices:
    """The prices ``omega`` (m,), their slacks and targets; m may be 0."""

    def __init__(self, problem: Problem, caution: float, scaled: ScaledFeatures) -> None:
        self.problem, self.caution, self.scaled, rows = problem, caution, scaled, feature_rows(problem)
        self.barrier, self.groups = rows.barrier, rows.members
        self.size, self.basis = scaled.size, scaled.basis
        self.floor = rows.floor / self.size
        self.target = rows.caution / caution
        # prices of a worst case add up to its caution, in units of its size
        self.total = rows.group_caution / caution * self.size[rows.first]
        self.omega, self.slack = np.ones(rows.group.size), np.ones(rows.group.size)
        self.initialise(np.zeros(rows.group.size))

    def initialise(self, numbers: Array) -> None:
        """First prices and slacks, where the scaled, signed features are ``numbers`` (m,)."""
        for group, total in zip(self.groups, self.total, strict=True):
            self.omega[group] = total / group.size
            self.target[group] = 0.1 * total / group.size * max(float(np.ptp(numbers[group])), 1e-3)
        bar = self.barrier
        self.omega[bar] = self.target[bar] / np.maximum(numbers[bar] - self.floor[bar], 0.05)
        self.slack = self.target / self.omega

    def warm_start(self, prices: Array) -> None:
        """Start from the prices of a neighbouring problem, in its units."""
        self.omega = np.maximum(prices * self.size / self.caution, 1e-300)
        for group, total in zip(self.groups, self.total, strict=True):
            kept = (1 - UNIFORM_PRICE_SHARE) * self.omega[group] * (total / self.omega[group].sum())
            self.omega[group] = kept + UNIFORM_PRICE_SHARE * total / group.size
            self.target[group] = WARM_TARGET_SHARE * total / group.size
        self.slack = self.target / self.omega

    @property
    def loss(self) -> float:
        """What the targets of the worst cases leave open, in units of the caution."""
        return float(self.target[~self.barrier].sum())

    def lost(self, numbers: Array) -> float:
        """What a point with these scaled features (m,) loses by prices of rows that are not the worst."""
        return float(sum(self.omega[group] @ (numbers[group] - numbers[group].min()) for group in self.groups))

    def tighten(self, share: float, least: float) -> None:
        """Lower the targets of worst cases, to a loss of ``least`` at most."""
        if self.loss > least:
            self.target[~self.barrier] *= max(share, least / self.loss)

    @property
    def diverged(self) -> bool:
        """Whether a barrier's price has grown beyond anything a reachable floor could ask for."""
        bar = self.barrier
        return bool(np.any(self.omega[bar] > MAX_PRICE_RATIO * self.target[bar]))

    def exponents(self, omega: Array) -> Array:
        """What prices add to the exponents; (S*A,)."""
        return np.asarray(self.scaled.by_pair @ omega)

    def numbers(self, y: Array) -> Array:
        """The scaled features (m,) of weights y (S*A,)."""
        return np.asarray(self.scaled.features @ y) if self.size.size else np.zeros(0)

    def slopes(self, numbers: Array) -> Array:
        """Derivative of the dual in the prices, barriers included; ``numbers`` (m,) are the scaled features of y."""
        return np.asarray(numbers - np.where(self.barrier, self.floor, 0.0) - self.target / self.omega)

    def line_derivatives(self, change: Array, length: float) -> tuple[float, float]:
        """First and second derivative, along a line, of what the prices themselves add to the dual with its barrier."""
        now = self.omega + length * change
        ratio = change / now
        first = -float(self.floor[self.barrier] @ change[self.barrier]) - float(self.target @ ratio)
        return first, float(self.target @ ratio**2)

    def max_step_length(self, change: Array) -> float:
        """How far prices can move and stay positive."""
        falling = change < 0
        return float(min((-BOUNDARY_FRACTION * self.omega[falling] / change[falling]).min(initial=np.inf), 1e300))

    def move(self, change: Array, length: float) -> None:
        """Prices along the line; slacks by their own linear model, not further than positive."""
        towards = self.target / self.omega - self.slack - self.slack / self.omega * change
        falling = towards < 0
        reach = min(1.0, float((-BOUNDARY_FRACTION * self.slack[falling] / towards[falling]).min(initial=1.0)))
        self.omega = self.omega + length * change
        centre = self.target / self.omega
        self.slack = np.clip(self.slack + reach * towards, centre / MAX_SLACK_RATIO, centre * MAX_SLACK_RATIO)

    def unscaled(self) -> Array:
        """The prices in units of the objective per unit of each feature; (m,)."""
        return np.asarray(self.caution * self.omega / self.size)


def _directions(rows: Rows) -> Array:
    """Columns (m, k): each barrier on its own, and what keeps the sum of a worst case."""
    blocks = [np.eye(rows.group.size)[:, rows.barrier]]
    for group in rows.members:
        block = np.zeros((rows.group.size, group.size - 1))
        block[group] = sla.null_space(np.ones((1, group.size)))
        blocks.append(block)
    return np.hstack(blocks)
