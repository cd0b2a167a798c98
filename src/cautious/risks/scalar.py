"""Risks that are a minimum over one number: variance and conditional value at risk of the per-step reward.

    Variance:  <d, E[r^2]> - <d, r>^2       = min over m of  <d, E[r^2] - 2 m r> + m^2          (best m: the mean)
    CVaR:      mean loss of the worst share  = min over t of  <d, E[(-r - t)_+]> / (1-level) + t  (best t: a quantile)

Both are concave in d, so a deterministic policy is optimal, and fixing the number leaves an ordinary reward table.
The reward of a step is that of the outcome (s, a, s'), not its average over s'.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious._checks import as_number
from cautious.arrays import Array
from cautious.errors import IncompatibleError, InputError
from cautious.models.tabular import MDP
from cautious.risks.base import Recipe, ScalarRisk


@dataclass(frozen=True)
class RewardVariance(ScalarRisk):
    """``reward`` and ``square`` (S, A) are the first two moments of the reward minus ``centre``."""

    reward: Array
    square: Array
    centre: float

    @property
    def label(self) -> str:
        """The recipe's name."""
        return "Variance"

    def interval(self) -> tuple[float, float]:
        """The mean lies between the smallest and the largest reward."""
        return float(self.reward.min()), float(self.reward.max())

    def table(self, t: float) -> Array:
        """E[r^2] - 2 t r."""
        return self.square - 2 * t * self.reward

    def offset(self, t: float) -> float:
        """The square of t."""
        return t * t

    def best(self, d: Array) -> float:
        """The mean reward."""
        return float(np.sum(d * self.reward))

    def minorant(self, low: float, high: float, at: float) -> tuple[tuple[Array, float], tuple[Array, float]]:
        """The table is a line in t already; t^2 is kept above its tangent at ``at``."""
        return (self.table(low), at * (2 * low - at)), (self.table(high), at * (2 * high - at))

    def tangent_point(self, low: float, high: float, rise: float) -> float:
        """Where the bounds at both ends are equal; ``rise`` is per unit of weight."""
        return min(max(rise / (2 * (high - low)), low), high) if high > low else low

    def split(self, low: float, high: float) -> float | None:
        """The middle, until double precision ends."""
        middle = low + (high - low) / 2
        return middle if low < middle < high else None

    def gradient(self, d: Array) -> Array:
        """E[r^2] - 2 <d, r> r in the model's own units: the centring only adds a constant, taken out again."""
        t = self.best(d)
        return self.table(t) - self.centre * (self.centre + 2 * t)


@dataclass(frozen=True)
class Shortfall(ScalarRisk):
    """``atoms``: the sorted losses that can occur; expectations over outcomes come from ``mdp``."""

    mdp: MDP
    level: float
    atoms: Array

    @property
    def label(self) -> str:
        """The recipe's name and level."""
        return f"CVaR({self.level!r})"

    def interval(self) -> tuple[float, float]:
        """The quantile is one of the losses."""
        return float(self.atoms[0]), float(self.atoms[-1])

    def table(self, t: float) -> Array:
        """E[(-r - t)_+] / (1 - level)."""
        return self.mdp.outcome_expectation(lambda r: np.maximum(-r - t, 0.0)) / (1 - self.level)

    def slope(self, t: float) -> Array:
        """A derivative of ``table`` in t."""
        return -self.mdp.outcome_expectation(lambda r: (-r > t).astype(np.float64)) / (1 - self.level)

    def offset(self, t: float) -> float:
        """The number t itself."""
        return t

    def best(self, d: Array) -> float:
        """The smallest loss that is exceeded with probability at most 1 - level."""
        losses, weights = self._losses(d)
        order = np.argsort(losses, kind="stable")
        beyond = weights.sum() - np.cumsum(weights[order])
        return float(losses[order][int(np.argmax(beyond <= (1 - self.level)))])

    def minorant(self, low: float, high: float, at: float) -> tuple[tuple[Array, float], tuple[Array, float]]:
        """The table is convex in t: its tangent at ``at``."""
        table, slope = self.table(at), self.slope(at)
        return (table + (low - at) * slope, low), (table + (high - at) * slope, high)

    def split(self, low: float, high: float) -> float | None:
        """The middle one of the losses inside; between neighbouring losses the table is a straight line."""
        first, last = np.searchsorted(self.atoms, low, side="right"), np.searchsorted(self.atoms, high, side="left")
        return float(self.atoms[(first + last) // 2]) if first < last else None

    def _losses(self, d: Array) -> tuple[Array, Array]:
        mdp = self.mdp
        if mdp.outcome_rewards is None:
            return -mdp.rewards[mdp.allowed], d[mdp.allowed]
        per_row = np.repeat(np.ravel(d), np.diff(mdp.transitions.indptr))
        return -mdp.outcome_rewards, per_row * mdp.transitions.data


@dataclass(frozen=True)
class Variance(Recipe):
    """Variance of the reward of one step under the occupancy, outcomes included (not of the return)."""

    convex = False
    smooth = False

    def bind(self, mdp: MDP) -> RewardVariance:
        """The variance in this model; rewards are centred first, which changes nothing but the rounding."""
        low, high = mdp.reward_range
        centre = low + (high - low) / 2
        if not np.isfinite(mdp.reward_square).all() or max(abs(low), abs(high)) > 1e150:
            raise InputError(
                f"Variance: rewards up to {max(abs(low), abs(high)):g} have squares beyond double precision"
            )
        reward = np.where(mdp.allowed, mdp.rewards - centre, 0.0)
        if mdp.outcome_rewards is not None:
            square = mdp.outcome_expectation(lambda r: (r - centre) ** 2)
        else:
            square = np.maximum(mdp.reward_square - 2 * centre * mdp.rewards + centre**2, reward**2)
        return RewardVariance(reward, np.where(mdp.allowed, square, 0.0), centre)


@dataclass(frozen=True)
class CVaR(Recipe):
    """Expected shortfall of the per-step reward: the mean loss -r over the worst 1 - level share; level in [0, 1)."""

    level: float
    convex = False
    smooth = False

    @property
    def label(self) -> str:
        """The name and the level, as of the bound risk."""
        return f"CVaR({self.level!r})"

    def bind(self, mdp: MDP) -> Shortfall:
        """The shortfall in this model."""
        level = as_number("CVaR.level", self.level, 0, 1, open_ends=")")
        if mdp.has_reward_spread:
            raise IncompatibleError(
                "CVaR needs the rewards of the outcomes: this model has rewards (S, A) whose reward_square shows a "
                "spread; give rewards (S, A, S) or sparse (S*A, S)"
            )
        paid: Any = mdp.rewards[mdp.allowed] if mdp.outcome_rewards is None else mdp.outcome_rewards
        return Shortfall(mdp, level, np.unique(-paid))
