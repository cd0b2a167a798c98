"""Variance and CVaR as rewards: at fixed numbers t both are expectations of a function of the reward of one step.

    payoff(r) = r - (1 - gamma) * ( sum of w (r - m)^2  +  sum of w (-r - t)_+ / (1 - level) )

A learner that is paid ``payoff`` maximises the objective plus ``offset`` = sum of w t over the CVaR terms. The best m
of a behaviour is its mean reward, the best t a quantile of its losses.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cautious.arrays import Array
from cautious.problem import Problem
from cautious.risks.scalar import CVaR, RewardRisk, Variance

BINS = 4096


@dataclass(frozen=True)
class Payoff:
    """``scalars``: (weight, risk) as in the task; ``at``: the number of each."""

    scalars: tuple[tuple[float, RewardRisk], ...]
    at: tuple[float, ...]
    discount: float

    @cached_property
    def squares(self) -> tuple[tuple[float, float], ...]:
        """(weight, m) of every variance."""
        pairs = zip(self.scalars, self.at, strict=True)
        return tuple((weight, t) for (weight, risk), t in pairs if isinstance(risk, Variance))

    @cached_property
    def tails(self) -> tuple[tuple[float, float], ...]:
        """(weight / (1 - level), t) of every CVaR."""
        pairs = zip(self.scalars, self.at, strict=True)
        return tuple((weight / (1 - risk.level), t) for (weight, risk), t in pairs if isinstance(risk, CVaR))

    def __call__(self, rewards: Array) -> Array:
        """What the learner is paid instead of these rewards."""
        paid = np.asarray(rewards, dtype=np.float64)
        penalty = np.zeros_like(paid)
        for (weight, risk), t in zip(self.scalars, self.at, strict=True):
            penalty += weight * risk.cost(paid, t)
        return paid - (1 - self.discount) * penalty

    def range(self, low: float, high: float) -> tuple[float, float]:
        """Smallest and largest payoff of rewards in [low, high].

        It is concave: the smallest is at an end; the largest at an end, at a kink -t, or where the slope is zero.
        """
        kinks = [-t for _, t in self.tails]
        points = [low, high, *kinks]
        if self.squares:
            curvature = 2 * (1 - self.discount) * sum(w for w, _ in self.squares)
            middle = 2 * (1 - self.discount) * sum(w * m for w, m in self.squares)
            # the slopes that the tails add to the payoff beyond all kinks, and just below each of them
            slopes = [0.0, *((1 - self.discount) * sum(w for w, t in self.tails if -t >= kink) for kink in kinks)]
            points += [(1 + slope + middle) / curvature for slope in slopes]
        found = self(np.clip(points, low, high))
        return float(found.min()), float(found.max())

    @property
    def offset(self) -> float:
        """What the payoff leaves out of the objective: <d, payoff> / (1 - gamma) - offset, without convex risks."""
        return sum(weight * risk.offset(t) for (weight, risk), t in zip(self.scalars, self.at, strict=True))


class RewardLaw:
    """The rewards seen so far, in a fixed amount of memory: counts and sums in ``BINS`` bins of the reward range.

    Rewards that take few values are kept exactly; else a bin's mean stands for all of its rewards.
    """

    def __init__(self, reward_range: tuple[float, float]) -> None:
        low, high = reward_range
        self.low, self.per_unit = low, BINS / (high - low) if high > low else 0.0
        # (2, BINS): how many, and their sum
        self.bins = np.zeros((2, BINS))

    def add(self, rewards: Array) -> None:
        """More rewards."""
        place = np.clip((rewards - self.low) * self.per_unit, 0, BINS - 1).astype(np.int64)
        self.bins[0] += np.bincount(place, minlength=BINS)
        self.bins[1] += np.bincount(place, weights=rewards, minlength=BINS)

    @property
    def atoms(self) -> tuple[Array, Array]:
        """Rewards in descending order, so losses ascend, and the share of each."""
        count, total = self.bins[:, ::-1]
        here = count > 0
        return total[here] / count[here], count[here] / count.sum()

    def best_scalar(self, risk: RewardRisk) -> float:
        """The number at which the penalty of these rewards is smallest: their mean, or a quantile of their losses."""
        rewards, shares = self.atoms
        return risk.best(rewards, shares)

    def penalty(self, risk: RewardRisk, t: float) -> float:
        """The risk of these rewards if t is the best number."""
        rewards, shares = self.atoms
        return float(shares @ risk.cost(rewards, t)) + risk.offset(t)

    def scalar_risk(self, risk: RewardRisk) -> float:
        """The risk of a reward drawn from this law."""
        return self.penalty(risk, self.best_scalar(risk))


def scalars_of(problem: Problem, d: Array) -> tuple[float, ...]:
    """The best number of every variance and CVaR, in units of rewards and losses."""
    return tuple(term.risk.best(d) for term in problem.parts.scalars)
