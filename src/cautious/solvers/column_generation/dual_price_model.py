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

from cautious._core.restricted_master import least_by_plans, solve_linear
from cautious.arrays import Array
from cautious.planning import Plan
from cautious.solvers.column_generation.restricted_master import Rows

# plans remembered, and how many of the nearest are fitted for every feature
MOST = 400
PLANS_PER_ROW = 3
# prices so many times farther away than the fitted plans are no longer believed
REACH = 3.0
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


class _Recent:
    """The last few plans in tables with one row each; a new one takes the place of the oldest."""

    def __init__(self, room: int, like: Planned) -> None:
        n_states = like.values.size
        self.count = 0
        self.prices = np.empty((room, like.prices.size))
        self.values, self.states = np.empty((room, n_states)), np.empty((room, n_states))
        self.actions = np.empty((room, n_states), like.actions.dtype)

    @property
    def known(self) -> slice:
        """The rows in use."""
        return slice(min(self.count, len(self.prices)))

    def put(self, planned: Planned) -> None:
        """Copy a plan."""
        row = self.count % len(self.prices)
        self.prices[row], self.values[row] = planned.prices, planned.values
        self.states[row], self.actions[row] = planned.states, planned.actions
        self.count += 1


class PriceMemory:
    """Plans of one reward table: signed prices (m,) and features (m,) of many, and the last few as a whole."""

    def __init__(self) -> None:
        self.prices, self.features = np.empty((0, 0)), np.empty((0, 0))
        self._recent: _Recent | None = None

    def add(self, prices: Array, features: Array) -> None:
        """One more plan."""
        size = (-1, prices.size)
        self.prices = np.concatenate([self.prices.reshape(size), prices[None]])[-MOST:]
        self.features = np.concatenate([self.features.reshape(size), features[None]])[-MOST:]

    def keep(self, planned: Planned, most: int) -> None:
        """Have a plan at hand as a whole, as one of at most so many."""
        room = min(most, planned.prices.size + 3)
        if self._recent is None:
            self._recent = _Recent(room, planned)
        self._recent.put(planned)

    def start(self, prices: Array) -> tuple[Plan, Array] | None:
        """Where to start planning at other prices, and a guess of the state marginal there."""
        recent = self._recent
        if recent is None or recent.count < 2:
            return None
        known = recent.known
        away = recent.prices[known] - prices
        distance = np.sum(away**2, axis=1)
        # the combination with weights of sum one that comes nearest to these prices, far plans with small weights
        penalty = FAR * (distance + 1e-6 * float(distance.max())) + 1e-300
        matrix = away @ away.T + np.diag(penalty)
        size = float(np.trace(matrix))
        if not np.isfinite(size):
            return None
        weights = np.ones(distance.size)
        solve_linear(matrix / size, weights)
        weights /= weights.sum()
        values, states = weights @ recent.values[known], weights @ recent.states[known]
        actions = recent.actions[int(np.argmin(distance))].astype(np.int64)
        return Plan(actions, values, -np.inf, np.inf), np.maximum(states, 0.0)

    def suggestion(self, rows: Rows, near: Array) -> Suggestion | None:
        """The prices that minimise the bound, by the plans nearest to ``near`` (m,); None when they say too little."""
        m = near.size
        if len(self.prices) <= m:
            return None
        slopes = rows.sign * self.features
        size = rows.levelled(np.maximum(np.abs(slopes).max(axis=0), 1e-300))
        found, curvature = least_by_plans(
            rows.sign * self.prices * size,
            slopes / size,
            near * size,
            PLANS_PER_ROW * m + 1,
            REACH,
            rows.caution,
            rows.floor / size,
            rows.group,
            rows.group_caution * size[rows.first],
        )
        return Suggestion(found / size, curvature) if curvature > 0 else None
