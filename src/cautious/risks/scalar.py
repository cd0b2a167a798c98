"""Risks that are a minimum over one number: variance and conditional value at risk of the per-step reward.

    Variance:  <d, E[r^2]> - <d, r>^2       = min over m of  <d, E[(r - m)^2]>                  (best m: the mean)
    CVaR:      mean loss of the worst share  = min over t of  <d, E[(-r - t)_+]> / (1-level) + t  (best t: a quantile)

Both are concave in d, so a deterministic policy is optimal, and fixing the number leaves an ordinary reward table.
The reward of a step is that of the outcome (s, a, s'), not its average over s'.

For a proof over all policies, occupancies are sorted by their best number. Those whose best number lies in (low, high]
share lines below their risk, one for every ``at``:

    Variance:  <d, E[(r - at)^2]> - (m - at)^2  for the mean m, which is furthest from ``at`` at an end of the range;
    CVaR:      with loss l = -r, P(l > low) > 1 - level >= P(l > high). Then  at + E[l - at; l > low] / (1-level)
               falls as ``at`` rises, and  at + E[l - at; l > high] / (1-level)  rises with it. At the best number
               neither exceeds the CVaR; so the first is below it for ``at`` beyond the largest loss in the range,
               the second before the smallest, and so are their averages.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from cautious.arrays import Array, Indices
from cautious.checks import as_number, picked
from cautious.errors import InputError
from cautious.models.encodings import EPS
from cautious.models.tabular import MDP
from cautious.risks.base import ScalarRisk, UnboundRisk, never


@dataclass(frozen=True)
class RewardVariance(ScalarRisk):
    """``reward`` and ``spread`` (S, A) are mean and variance of the reward of a pair; ``range``: of all rewards.

    Squares are taken about the number t itself: an entry then rounds relative to its own distance from t, however
    large the rewards of other pairs are.
    """

    reward: Array
    spread: Array
    range: tuple[float, float]

    @property
    def label(self) -> str:
        """The recipe's name."""
        return "Variance"

    def interval(self) -> tuple[float, float]:
        """The mean lies between the smallest and the largest reward."""
        return self.range

    @property
    def typical_slope(self) -> float:
        """The largest square of a distance between rewards."""
        low, high = self.range
        return (high - low) ** 2

    def restricted(self, mdp: MDP, states: Indices) -> "RewardVariance":
        """The moments in these states; the range stays, so that a proof over it is one for all states."""
        return replace(self, reward=self.reward[states], spread=self.spread[states])

    def table(self, t: float) -> Array:
        """E[(r - t)^2]."""
        return np.asarray(self.spread + (self.reward - t) ** 2)

    def offset(self, t: float) -> float:
        """Nothing."""
        return 0.0

    def best(self, d: Array) -> float:
        """The mean reward."""
        return float(np.sum(d * self.reward))

    def line(self, low: float, high: float, at: float) -> tuple[Array, float]:
        """The table of ``at``; see the module's text."""
        return self.table(at), -max((low - at) ** 2, (high - at) ** 2)

    def around(self, d: Array, room: float) -> tuple[float, float]:
        """The line of the middle loses the square of half the width."""
        t, width = self.best(d), float(np.sqrt(room))
        return t - width, t + width

    def gradient(self, d: Array) -> Array:
        """E[r^2] - 2 <d, r> r: the table of the mean up to a constant, which does not matter to distributions."""
        t = self.best(d)
        return self.table(t) - t * t

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """The variance changes by <table, e> - <r, e>^2 when d changes by e; the mean may be off as well."""
        t = self.best(d)
        table = self.table(t)
        first_order = distance * float(picked(table, d > 0).max(initial=0.0))
        return first_order + self.line_error(d, t, distance) + 32 * EPS * float(np.sum(d * table))

    def line_error(self, d: Array, t: float, distance: float) -> float:
        """The square of how far t is from the mean."""
        off = distance * float(np.abs(picked(self.reward - t, d > 0)).max(initial=0.0))
        return (off + 32 * EPS * float(np.sum(d * np.abs(self.reward)))) ** 2


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
        """The quantile is one of the losses; the start is left out of a range, so it comes just before them."""
        return float(np.nextafter(self.atoms[0], -np.inf)), float(self.atoms[-1])

    @property
    def typical_slope(self) -> float:
        """The largest difference of losses, as part of the tail."""
        return float(self.atoms[-1] - self.atoms[0]) / (1 - self.level)

    def restricted(self, mdp: MDP, states: Indices) -> "Shortfall":
        """The outcomes of these states; all losses stay, so that a proof over them is one for all states."""
        return Shortfall(mdp, self.level, self.atoms)

    def table(self, t: float) -> Array:
        """E[(-r - t)_+] / (1 - level)."""
        return self.mdp.outcome_expectation(lambda r: np.maximum(-r - t, 0.0)) / (1 - self.level)

    def offset(self, t: float) -> float:
        """The number t itself."""
        return t

    def best(self, d: Array) -> float:
        """The smallest loss that is exceeded with probability at most 1 - level."""
        losses, weights = self._losses(d)
        return _upper_quantile(losses, weights, 1 - self.level)

    def value_and_gradient(
        self, d: Array, hint: Any = None, over: Callable[[], bool] = never
    ) -> tuple[float, Array | None]:
        """Both, from one table."""
        t = self.best(d)
        table = self.table(t)
        return float(np.sum(d * table)) + self.offset(t), table

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """No mass can gain more than the difference of two losses that occur, as part of the tail."""
        losses, _ = self._losses(d)
        size = float(np.sum(d * np.abs(slope))) + abs(value) + abs(self.best(d))
        return distance * float(losses[-1] - losses[0]) / (1 - self.level) + 32 * EPS * size

    def line_error(self, d: Array, t: float, distance: float) -> float:
        """The mass that may be on the other side of t, times how far the quantile moves with it."""
        losses, weights = self._losses(d)
        off, tail = distance + 32 * EPS, 1 - self.level
        nearest, furthest = (_upper_quantile(losses, weights, share) for share in (tail + off, tail - off))
        return off * (furthest - nearest) / tail

    def line(self, low: float, high: float, at: float) -> tuple[Array, float]:
        """One of the two lines of the module's text beyond the losses of the range, their average between these."""
        least, most = self._losses_in(low, high)
        if at >= most or at <= least:
            return self._beyond(low if at >= most else high, at), at
        share = (at - least) / (most - least)
        table = share * self._beyond(low, most) + (1 - share) * self._beyond(high, least)
        return table, share * most + (1 - share) * least

    def _beyond(self, after: float, at: float) -> Array:
        """E[l - at; l > after] / (1 - level) for every pair, l = -r the loss."""
        return self.mdp.outcome_expectation(lambda r: np.where(-r > after, -r - at, 0.0)) / (1 - self.level)

    def touch(self, low: float, high: float, incumbent: float) -> float:
        """The incumbent itself, or the end of the range away from it: lines lose little there."""
        least, most = self._losses_in(low, high)
        if low < incumbent <= high:
            return incumbent
        return most if incumbent <= low else least

    def around(self, d: Array, room: float) -> tuple[float, float]:
        """Ranges of losses next to the quantile of which d has too little to matter."""
        losses, weights = self._losses(d)
        t = _upper_quantile(losses, weights, 1 - self.level)
        share = room * (1 - self.level) / 2
        below, above = losses < t, losses > t
        low = t - _reach(t - losses[below], weights[below], share)
        high = t + _reach(losses[above] - t, weights[above], share)
        first, last = int(np.searchsorted(self.atoms, t)), int(np.searchsorted(self.atoms, high, side="right"))
        # within the losses that d has, but at least to the next one: between two losses the line is exact
        neighbour = float(self.atoms[first - 1]) if first > 0 else self.interval()[0]
        low, high = min(low, neighbour), max(float(self.atoms[last - 1]), t)
        table, offset = self.line(low, high, t)
        # much weight just below the quantile makes an average of both lines lose more than each of them
        return low, high if self.value(d) - float(np.sum(d * table)) - offset <= 2 * room else t

    def cut_at(self, low: float, high: float, wanted: float) -> float | None:
        """One of the losses inside; a range with a single loss is exact."""
        first, last = int(np.searchsorted(self.atoms, low, side="right")), int(np.searchsorted(self.atoms, high))
        if first >= last:
            return None
        nearest = int(np.searchsorted(self.atoms, wanted, side="right")) - 1
        return float(self.atoms[min(max(nearest, first), last - 1)])

    def _losses_in(self, low: float, high: float) -> tuple[float, float]:
        """The smallest and the largest loss in a range; where there is none, nothing has to be proved."""
        first, end = np.searchsorted(self.atoms, (low, high), side="right")
        return (float(self.atoms[first]), float(self.atoms[end - 1])) if first < end else (high, high)

    @cached_property
    def _places(self) -> Indices:
        """Where among the atoms the loss of each pair, or of each outcome, is."""
        paid: Any = self.mdp.rewards if self.mdp.outcome_rewards is None else self.mdp.outcome_rewards
        # a pair that is not allowed has no weight: any place will do
        return np.minimum(np.searchsorted(self.atoms, np.ravel(-paid)), self.atoms.size - 1)

    def _losses(self, d: Array) -> tuple[Array, Array]:
        """The losses that d can have, from small to large, and how often."""
        weights, mdp = np.ravel(d), self.mdp
        if mdp.outcome_rewards is not None:
            weights = np.repeat(weights, np.diff(mdp.transitions.indptr)) * mdp.transitions.data
        often = np.asarray(np.bincount(self._places, weights, self.atoms.size), np.float64)
        return self.atoms[often > 0], often[often > 0]


def _upper_quantile(losses: Array, weights: Array, tail: float) -> float:
    """The smallest of the sorted losses with at most ``tail`` of the weight beyond it."""
    beyond = np.cumsum(weights[:0:-1])
    # beyond the largest loss there is nothing, and less than any tail
    return float(losses[losses.size - 1 - int(np.searchsorted(beyond, tail, side="right"))])


def _reach(distances: Array, weights: Array, room: float) -> float:
    """How far one can go from zero before the distances times weights on the way add up to more than ``room``."""
    order = np.argsort(distances, kind="stable")
    sums, distances = np.cumsum(distances[order] * weights[order]), distances[order]
    too_far = distances[sums > room][:1]
    within = distances if too_far.size == 0 else distances[distances < too_far]
    return float(within[-1]) if within.size else 0.0


class RewardRisk(UnboundRisk):
    """A risk of the reward of one step: the minimum over a number t of  E[cost(r, t)] + offset(t)."""

    convex = False
    smooth = False

    @abstractmethod
    def number_of(self, reward: float) -> float:
        """The best number if this reward is always paid."""

    @abstractmethod
    def cost(self, rewards: Array, t: float) -> Array:
        """What every reward adds to the mean."""

    @abstractmethod
    def offset(self, t: float) -> float:
        """The part that does not depend on rewards."""

    @abstractmethod
    def best(self, rewards: Array, shares: Array) -> float:
        """The best number for rewards in descending order, which are paid with these shares."""

    @abstractmethod
    def grid_loss(self, step: float) -> float:
        """By how much the nearest number of a grid with this step exceeds the minimum, at most."""


@dataclass(frozen=True)
class Variance(RewardRisk):
    """Variance of the reward of one step under the occupancy, outcomes included (not of the return).

    Examples
    --------
    >>> import cautious as ca
    >>> points = ca.frontier(ca.worlds.liquidation(), ca.Variance(), cautions=[0.1, 0.4])
    >>> points[1].risk < points[0].risk, points[1].certificate.kind
    (True, 'global')
    """

    summary = "the variance of the reward of one step, in squared units of reward"

    def number_of(self, reward: float) -> float:
        """A mean."""
        return reward

    def cost(self, rewards: Array, t: float) -> Array:
        """(r - t)^2."""
        return np.asarray((rewards - t) ** 2)

    def offset(self, t: float) -> float:
        """Nothing."""
        return 0.0

    def best(self, rewards: Array, shares: Array) -> float:
        """The mean."""
        return float(shares @ rewards)

    def grid_loss(self, step: float) -> float:
        """The square of half a step."""
        return step * step / 4

    def bind(self, mdp: MDP) -> RewardVariance:
        """The variance in this model."""
        mdp.require_matrix("Variance")
        low, high = mdp.reward_range
        if not np.isfinite(mdp.reward_square).all() or max(abs(low), abs(high)) > 1e150:
            raise InputError(
                f"Variance: rewards up to {max(abs(low), abs(high)):g} have squares beyond double precision"
            )
        reward = np.where(mdp.allowed, mdp.rewards, np.clip(0.0, low, high))
        spread = np.where(mdp.allowed, mdp.reward_spread, 0.0)
        return RewardVariance(reward, spread, (low, high))


@dataclass(frozen=True)
class CVaR(RewardRisk):
    """Expected shortfall of the per-step reward: the mean loss -r over the worst 1 - level share; level in [0, 1).

    Examples
    --------
    >>> import cautious as ca
    >>> solution = ca.solve(ca.Problem(ca.worlds.machine_replacement(), ca.CVaR(0.9), caution=20.0))
    >>> print(f"the worst tenth of the weeks loses {solution.risk:.0f} euros on average")
    the worst tenth of the weeks loses 602 euros on average
    """

    summary = "the mean loss per step over the worst steps (expected shortfall)"
    fields_in_files: ClassVar = {"level": "share"}

    level: float

    @property
    def label(self) -> str:
        """The name and the level, as of the bound risk."""
        return f"CVaR({self.level!r})"

    def number_of(self, reward: float) -> float:
        """A loss."""
        return -reward

    def cost(self, rewards: Array, t: float) -> Array:
        """(-r - t)_+ / (1 - level)."""
        return np.asarray(np.maximum(-rewards - t, 0.0) / (1 - self.level))

    def offset(self, t: float) -> float:
        """The number itself."""
        return t

    def best(self, rewards: Array, shares: Array) -> float:
        """The smallest loss that is exceeded with probability at most 1 - level, up to the rounding of the sums."""
        return float(-rewards[int(np.argmax(np.cumsum(shares) >= self.level - 1e-12))])

    def grid_loss(self, step: float) -> float:
        """The risk changes by at most the level for every unit of t."""
        return self.level * step

    def bind(self, mdp: MDP) -> Shortfall:
        """The shortfall in this model."""
        level = as_number("CVaR.level", self.level, 0, 1, open_ends=")")
        mdp.require_matrix("CVaR")
        mdp.require_outcome_rewards("CVaR")
        paid: Any = mdp.rewards[mdp.allowed] if mdp.outcome_rewards is None else mdp.outcome_rewards
        return Shortfall(mdp, level, np.unique(-paid))
