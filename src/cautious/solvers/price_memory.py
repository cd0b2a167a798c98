"""What plans at other prices of the features say about the next one: where to plan, and from which values.

With h(p) the best priced return at prices p (m,), a plan gives h and its slope, the features of its behaviour. A model
has so many policies that h, a maximum of planes, looks smooth: slopes of near plans fit a line, and the bound

    h(p) - intercept(p),     prices of each worst case adding up to its caution,

becomes a small smooth problem, solved by Newton's method with a barrier for positive prices. The columns alone, read as
cuts, know nothing of the curvature between them and ask for far prices again and again. Likewise the values of one
policy are linear in the prices, so the combination of near plans that reproduces the new prices is a good start.

Nothing here is needed for a proof.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.planning import Plan
from cautious.solvers.mixing import Rows

# plans remembered, and how many of the nearest are fitted for every feature
MOST = 400
PLANS_PER_ROW = 3
# how much the curvature is drawn to the typical one, and the least of it in any direction, as a share of that
STEADY, LEAST_CURVE = 1e-2, 1e-3
# prices so many times farther away than the fitted plans are no longer believed
REACH = 3.0
NEWTON_STEPS, NEWTON_PRECISION = 60, 1e-6
FIRST_BARRIER, LAST_BARRIER, BARRIER_FALL = 0.1, 1e-10, 0.1
# what the distance of a plan costs it in a combination
FAR = 1e-3


@dataclass(frozen=True)
class Suggestion:
    """Prices (m,), positive, and the typical ``curvature`` of h there, per unit of the features' largest size."""

    prices: Array
    curvature: float


@dataclass(frozen=True)
class Planned:
    """A plan at signed ``prices`` (m,): ``values`` (S,), and ``actions`` (S,) and state marginal (S,) of its policy."""

    prices: Array
    values: Array
    actions: np.ndarray
    states: Array


class PriceMemory:
    """Plans of one reward table: signed prices (m,) and features (m,) of many, and the last few as a whole."""

    def __init__(self) -> None:
        self.prices: list[Array] = []
        self.features: list[Array] = []
        self.recent: list[Planned] = []

    def add(self, prices: Array, features: Array) -> None:
        """One more plan."""
        self.prices, self.features = [*self.prices, prices][-MOST:], [*self.features, features][-MOST:]

    def keep(self, planned: Planned, most: int) -> None:
        """Have a plan at hand as a whole, as one of at most so many."""
        self.recent = [*self.recent, planned][-min(most, planned.prices.size + 3) :]

    def start(self, prices: Array) -> tuple[Plan, Array] | None:
        """Where to start planning at other prices, and a guess of the state marginal there."""
        if len(self.recent) < 2:
            return None
        away = np.stack([one.prices for one in self.recent]) - prices
        distance = np.sum(away**2, axis=1)
        # the combination with weights of sum one that comes nearest to these prices, far plans with small weights
        penalty = FAR * (distance + 1e-6 * float(distance.max())) + 1e-300
        matrix = away @ away.T + np.diag(penalty)
        if not np.isfinite(matrix).all():
            return None
        weights = np.linalg.solve(matrix / float(np.trace(matrix)), np.ones(distance.size))
        weights /= weights.sum()
        values, states = np.zeros_like(self.recent[0].values), np.zeros_like(self.recent[0].states)
        for weight, one in zip(weights, self.recent, strict=True):
            values += weight * one.values
            states += weight * one.states
        nearest = self.recent[int(np.argmin(distance))]
        return Plan(nearest.actions.astype(np.int64), values, -np.inf, np.inf), np.maximum(states, 0.0)

    def suggestion(self, rows: Rows, near: Array) -> Suggestion | None:
        """The prices that minimise the bound, by the plans nearest to ``near`` (m,); None when they say too little."""
        m = near.size
        if len(self.prices) <= m:
            return None
        sign = np.where(rows.barrier, 1.0, -1.0)
        slopes = sign * np.stack(self.features)
        size = np.maximum(np.abs(slopes).max(axis=0), 1e-300)
        for g in range(rows.group_caution.size):
            size[rows.group == g] = size[rows.group == g].max()
        asked, slopes = sign * np.stack(self.prices) * size, slopes / size
        chosen = np.argsort(np.sum((asked - near * size) ** 2, axis=1), kind="stable")[: PLANS_PER_ROW * m + 1]
        centre, slope = asked[chosen[0]], slopes[chosen[0]]
        steps, rises = asked[chosen[1:]] - centre, slopes[chosen[1:]] - slope
        lengths = np.sum(steps**2, axis=1)
        apart = lengths > 1e-12 * float(lengths.max())
        if not apart.any():
            return None
        try:
            curve = _curvature(steps[apart], rises[apart], lengths[apart])
            found = _least_bound(rows, size, near * size, centre, slope, curve)
        except np.linalg.LinAlgError:
            # numbers beyond double precision: the columns alone must do
            return None
        if found is None or np.sum((found - centre) ** 2) > REACH**2 * float(lengths.max()):
            return None
        return Suggestion(found / size, float(np.trace(curve)) / m)


def _curvature(steps: Array, rises: Array, lengths: Array) -> Array:
    """The symmetric positive matrix (m, m) that best explains how slopes rise, each plan by its relative error."""
    typical = max(float(np.median(np.sum(steps * rises, axis=1) / lengths)), 1e-300)
    weighted, little = steps / lengths[:, None], STEADY * np.eye(steps.shape[1])
    matrix = np.linalg.solve(weighted.T @ steps + little, weighted.T @ rises + typical * little)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, LEAST_CURVE * typical)) @ vectors.T)


def _least_bound(rows: Rows, size: Array, start: Array, centre: Array, slope: Array, curve: Array) -> Array | None:
    """Minimise  slope (y - centre) + (y - centre) curve (y - centre) / 2 - intercept(y),  y = prices * size."""
    m, k = start.size, rows.group_caution.size
    system = np.zeros((m + k, m + k))
    y = np.maximum(start, 1e-9 * float(start.max()))
    for g, caution in enumerate(rows.group_caution):
        here = rows.group == g
        y[here] *= caution * size[here][0] / y[here].sum()
        system[m + g, :m] = system[:m, m + g] = here
    fixed = slope - np.where(rows.barrier, rows.floor / size, 0.0)
    mu = FIRST_BARRIER * float(np.abs(slope) @ y) / m
    last, every = LAST_BARRIER * mu, np.arange(m)
    for _ in range(NEWTON_STEPS):
        pull = np.where(rows.barrier, rows.caution, mu)
        right = np.zeros(m + k)
        right[:m] = pull / y - fixed - curve @ (y - centre)
        system[:m, :m] = curve
        system[every, every] += pull / y**2
        step = np.linalg.solve(system, right)[:m]
        falling = step < 0
        length = min(1.0, 0.95 * float((-y[falling] / step[falling]).min(initial=np.inf)))
        y = y + length * step
        if not np.isfinite(y).all():
            return None
        if float(np.abs(step / y).max()) < NEWTON_PRECISION and (mu <= last or k == 0):
            return np.asarray(y)
        mu = max(BARRIER_FALL * mu, last) if length > 0.5 else mu
    return None
