"""What no policy exceeds, with confidence, from two folds of samples: the first chooses, the second proves.

Let d be the occupancy of the best policy: unknown, but fixed before any sample. For any multipliers v and any lines
risk_k >= <u_k, .> + b_k (``certificate``), and with X_v = payoff + gamma v(s'),

    optimum  <=  <xi, v> + sum_i d_i ( E[X_v | i] - slope_i - v(s_i) ) / (1-gamma) - intercepts.

On the second fold E[X_v | i] is replaced by the mean M_i(X_v) of the n_i samples of pair i. Split v = v0 + u with v0
from the first fold. For v0 the error is one sum of independent terms with the fixed weights d_i, so that no union over
pairs is needed: ``error_widths`` has the inequality, with guesses, rate and kind of widths w_i from the first fold. The
rest is of second order: at most sum_i d_i gamma |P_i - M_i|_1 (max u - min u) / 2, with a bound of the 1-norm for every
pair. So v and the lines may depend on both folds: they are those of the best policy of the second fold's model with w_i
added to the rewards, and the loss is the average of w_i under that policy, not their maximum.

Variance and CVaR have an unknown best number t*, also fixed before any sample; it is next to a point of a grid, where
the risk is larger by at most h^2/4 (variance) or level * h (CVaR) for steps h. That point is fixed too: only for it
the inequalities above must hold, so the largest bound over the grid needs no union either.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.certificate.bounds import Witness
from cautious.learning.exact_solves import best_outcome
from cautious.learning.plug_in.transition_counts import Counts, counted_mdp, next_moments
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.statements.affine_lower_bounds import RELATIVE_SLACK, affine_lower_bound, sure_bound
from cautious.learning.statements.confidence import UPPER_DELTA, mean_above, sample_mean_above
from cautious.learning.statements.error_widths import ErrorPlan, hoeffding_rate
from cautious.learning.task import START_DRAWS, Task
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk, ScalarRisk
from cautious.risks.scalar import Variance
from cautious.risks.separable import SeparableRisk

PROVED_RATES = (1.0, 0.5)
MEAN_DELTA = 0.7 * UPPER_DELTA / len(PROVED_RATES)
NORM_DELTA, START_DELTA = 0.2 * UPPER_DELTA / len(PROVED_RATES), 0.1 * UPPER_DELTA / len(PROVED_RATES)
RATES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PLAIN_GRID_POINTS, MIXED_GRID_POINTS = 24, 8
INNER_TOLERANCE = 1e-4


def optimum_below(
    task: Task,
    counts: Sequence[Counts],
    start: Array,
    draw_starts: Callable[[int], Indices] | None,
    stopping: Callable[[], bool],
) -> float:
    """No policy exceeds this, with probability at least 1 - UPPER_DELTA; ``stopping`` is asked between solves.

    ``counts``: the two folds; the sizes of the second must not depend on its outcomes. ``draw_starts`` gives fresh
    first states, or is None where ``start`` (S,) is exact.
    """
    sure = sure_bound(task)
    terms = task.known_terms
    if any(risk is not None and not risk.convex for _, risk in terms) or not np.isfinite(sure):
        return sure
    if min(float(fold.per_pair[task.allowed.ravel()].min()) for fold in counts) < 2:
        return sure
    fresh = None if draw_starts is None else draw_starts(START_DRAWS)
    first, second = (_Fold(task, fold, start, stopping) for fold in counts)
    domain = first.problem.kept & second.problem.kept
    if not domain.any():
        return sure
    points, loss = _grid(task, mixed=len(terms) > 0)
    check = _Check(task, first, second, terms, domain, fresh)
    payoffs = [Payoff(task.scalars, at, task.discount) for at in points]
    best = max(payoffs, key=lambda payoff: first.solve(first.mean_payoff(payoff))[0] - payoff.offset)
    rate = check.best_rate(best)
    return min(sure, max(check.lowest_bound(payoff, rate) for payoff in payoffs) + loss)


def _grid(task: Task, mixed: bool) -> tuple[list[tuple[float, ...]], float]:
    """Numbers for every scalar term, and what the grid can miss."""
    if not task.scalars:
        return [()], 0.0
    low, high = task.padded_range
    steps = max(2, int((MIXED_GRID_POINTS if mixed else PLAIN_GRID_POINTS) ** (1 / len(task.scalars))))
    axes, loss = [], 0.0
    for weight, risk in task.scalars:
        ends = (low, high) if isinstance(risk, Variance) else (-high, -low)
        axes.append([float(t) for t in np.linspace(*ends, steps + 1)])
        h = (high - low) / steps
        loss += weight * (h * h / 4 if isinstance(risk, Variance) else risk.level * h)
    return list(product(*axes)), loss


class _Fold:
    """One fold: its model, the problem there, and statistics of payoff + gamma v(s') per pair."""

    def __init__(self, task: Task, counts: Counts, start: Array, stopping: Callable[[], bool]) -> None:
        self.task, self.counts, self.stopping = task, counts, stopping
        self.mdp: MDP = counted_mdp(task, counts, start)
        self.problem = Problem(self.mdp, task.unbound_risk, task.caution)
        self.convex = [(w, risk) for w, risk in self.problem.terms if not isinstance(risk, ScalarRisk)]
        self.n: Array = counts.per_pair.astype(np.float64)
        self.solved: dict[bytes, tuple[float, Array, tuple[Any, ...] | None]] = {}

    def solve(self, reward: Array) -> tuple[float, Array, tuple[Any, ...] | None]:
        """The optimum, multipliers (S,) and cuts for rewards (S*A,) beside the convex terms; solved once."""
        key = reward.tobytes()
        if key not in self.solved:
            part = self.problem.part(reward.reshape(self.task.shape), self.convex)
            outcome = best_outcome(part, INNER_TOLERANCE, self.stopping)[0]
            if isinstance(outcome.witness, Witness):
                v = outcome.witness.multipliers
                self.solved[key] = outcome.upper, np.where(np.isfinite(v), v, 0.0), outcome.witness.cuts
            else:
                self.solved[key] = np.inf, np.zeros(self.task.shape[0]), None
        return self.solved[key]

    def moments(self, payoff: Payoff, v: Array) -> tuple[Array, Array | None]:
        """As ``next_moments``."""
        return next_moments(self.counts, payoff, v)

    def mean_payoff(self, payoff: Payoff) -> Array:
        """What each pair was paid on average, (S*A,)."""
        return next_moments(self.counts, payoff, np.zeros(self.task.shape[0]))[0]


@dataclass(frozen=True)
class _Check:
    """Everything that is the same for all points of the grid."""

    task: Task
    first: _Fold
    second: _Fold
    terms: tuple[tuple[float, Risk | None], ...]
    domain: Mask
    fresh: Indices | None

    def best_rate(self, payoff: Payoff) -> float:
        """The rate with the lowest bound, as far as the first fold can tell."""
        _, v, _ = self.first.solve(self.first.mean_payoff(payoff))
        spread = max(self._plan(payoff, v, 1.0).spread, RELATIVE_SLACK * float(np.abs(v).max()))
        typical = hoeffding_rate(MEAN_DELTA, float(np.median(self.second.n[self.task.allowed.ravel()])), spread)
        rates = [typical * factor for factor in RATES]
        return min(rates, key=lambda rate: self.foreseen_bound(payoff, rate)[0])

    def lowest_bound(self, payoff: Payoff, rate: float) -> float:
        """The better of two proved bounds: near its best rate the first fold can be too optimistic."""
        start = min((rate, rate / 2, rate / 4), key=lambda slower: self.foreseen_bound(payoff, slower)[0])
        return min(self.bound(payoff, start * factor) for factor in PROVED_RATES)

    def foreseen_bound(self, payoff: Payoff, rate: float) -> tuple[float, Array]:
        """What the bound would be if the second fold were like the first, and the multipliers v0 (S,)."""
        first = self.first
        paid = first.mean_payoff(payoff)
        _, v, _ = first.solve(paid)
        plan = self._plan(payoff, v, rate)
        value, v, _ = first.solve(paid + plan.widths(plan.foreseen))
        return value - payoff.offset + plan.spent(MEAN_DELTA) / (1 - self.task.discount), v

    def bound(self, payoff: Payoff, rate: float) -> float:
        """What no policy with these numbers exceeds."""
        task, gamma = self.task, self.task.discount
        second = self.second
        _, v0 = self.foreseen_bound(payoff, rate)
        plan = self._plan(payoff, v0, rate)
        squares = None if plan.foreseen is None else self._squares(payoff, v0, plan.guess)
        if plan.foreseen is not None and squares is None:
            # the first fold decides which widths are used; the second one cannot deliver them
            return np.inf
        widths = plan.widths(squares)
        _, v, cuts = second.solve(second.mean_payoff(payoff) + widths)
        if cuts is None:
            return np.inf
        risks = affine_lower_bound(task, self.terms, self._witnesses(cuts), self.domain)
        if risks is None:
            return np.inf
        u = v - v0
        widths = widths + gamma * self._norms() * (float(u.max()) - float(u.min())) / 2
        gain = (second.moments(payoff, v)[0] + widths).reshape(task.shape) - v[:, None]
        spent = plan.spent(MEAN_DELTA) / (1 - gamma)
        bound = self._start(v) + risks.bound(gain, self.domain, gamma) - payoff.offset + spent
        size = abs(bound) + float(np.abs(v).max()) + float(np.abs(gain[self.domain]).max()) / (1 - gamma)
        return bound + RELATIVE_SLACK * size if np.isfinite(bound) else np.inf

    def _plan(self, payoff: Payoff, v: Array, rate: float) -> ErrorPlan:
        low, high = payoff.range(*self.task.padded_range)
        high, low = high + self.task.discount * float(v.max()), low + self.task.discount * float(v.min())
        guess, variance = self.first.moments(payoff, v)
        foreseen = None if variance is None else self.second.n * variance
        return ErrorPlan(rate, low, high, guess, np.maximum(self.second.n, 1.0), foreseen)

    def _squares(self, payoff: Payoff, v: Array, guess: Array) -> Array | None:
        """Sums of squares of the second fold around the guesses of the first."""
        mean, variance = self.second.moments(payoff, v)
        n = self.second.n
        return None if variance is None else np.maximum(n - 1, 0) * variance + n * (mean - guess) ** 2

    def _norms(self) -> Array:
        """Bounds of |P_i - M_i|_1 for all pairs (S*A,) at once.

        E|P - M|_1 <= sum over s' of sqrt(P/n) <= sqrt(K/n) + sqrt(S q/n), with K successors seen in the first fold and
        q the chance of any other, bounded by the second; one sample changes the norm by at most 2/n (McDiarmid).
        """
        task, n = self.task, np.maximum(self.second.n, 1.0)
        seen = np.bincount(self.first.counts.pairs, minlength=task.allowed.size)
        known = np.isin(self.second.counts.keys, self.first.counts.keys)
        others = np.bincount(self.second.counts.pairs, weights=self.second.counts.count * ~known, minlength=n.size)
        delta = NORM_DELTA / task.pairs / 2
        elsewhere = mean_above(others / n, None, n, 0.0, 1.0, delta)
        mean = np.sqrt(seen / n) + np.sqrt(np.maximum(task.shape[0] - seen, 0) * elsewhere / n)
        return np.asarray(np.minimum(mean + np.sqrt(2 * np.log(1 / delta) / n), 2.0))

    def _witnesses(self, cuts: tuple[Any, ...]) -> list[object]:
        """The lines of the second fold's solution, on the whole domain instead of what can be reached in that model."""
        given: list[object] = []
        for (_, risk), (_, solved), cut in zip(self.terms, self.second.convex, cuts, strict=True):
            if isinstance(risk, SeparableRisk) and isinstance(solved, SeparableRisk):
                slope = np.asarray(cut, dtype=np.float64)
                here = solved.active_entries(self.second.problem.active)
                whole = np.full(risk.prior.shape, float(slope.min(initial=0.0)))
                whole[here] = slope
                given.append(whole[risk.active_entries(self.domain)])
            else:
                given.append(cut)
        return given

    def _start(self, v: Array) -> float:
        """<xi, v>, or a bound of it from fresh first states."""
        if self.fresh is None:
            return float(self.second.mdp.start @ v)
        return sample_mean_above(v[self.fresh], v.min(), v.max(), START_DELTA)
