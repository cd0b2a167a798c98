"""What no policy exceeds, with confidence, from counted transitions: an optimistic model and multipliers that fit it.

With d the occupancy of the best policy, any multipliers v and any lines risk_k >= <u_k, .> + b_k (``certificate``),

    optimum  <=  <xi, v> + sum_i d_i ( E[paid + gamma v(s') | i] - slope_i - v(s_i) ) / (1-gamma) - intercepts,

and the confidence set (``worst_case``) bounds the expectations from above for all pairs and all v at once. So v and the
lines may be chosen by the same samples: they are those of the best policy of the model that is most favourable within
the set, which is found in a few rounds. The sum is at most its largest term.

Variance and CVaR have an unknown best number t*, fixed before any sample; it is next to a point of a grid, where the
risk is larger by at most h^2/4 (variance) or level * h (CVaR) for steps h. That point is fixed too: only for it the
payments must be bounded, so the largest bound over the grid needs no union over its points.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.certificate.bounds import Witness
from cautious.learning.exact_solves import best_outcome
from cautious.learning.plug_in.transition_counts import Counts, counted_mdp
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.statements.affine_lower_bounds import RELATIVE_SLACK, affine_lower_bound, sure_bound
from cautious.learning.statements.confidence import UPPER_DELTA, sample_mean_above
from cautious.learning.statements.worst_case import TRANSITION_SHARE, WorstCase, worst_case_of_counts
from cautious.learning.task import Task
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Sum
from cautious.risks.separable import SeparableRisk

START_DELTA = 0.1 * UPPER_DELTA
SET_DELTA = UPPER_DELTA - START_DELTA
PLAIN_GRID_STEPS, MIXED_GRID_STEPS = 24, 8
TOLERANCE = 1e-4
MAX_ROUNDS = 12
# rounds go on while they lower the bound by this share of it
MIN_RELATIVE_PROGRESS = 1e-3


def optimum_below(
    task: Task,
    counts: Counts,
    start: Array,
    draw_starts: Callable[[int], Indices] | None,
    stopping: Callable[[], bool],
) -> float:
    """No policy exceeds this, with probability at least 1 - UPPER_DELTA; ``stopping`` is asked between solves.

    ``draw_starts`` gives fresh first states, or is None where ``start`` (S,) is exact.
    """
    sure = sure_bound(task)
    terms = task.known_terms
    if any(risk is not None and not risk.convex for _, risk in terms) or not np.isfinite(sure):
        return sure
    fresh = None if draw_starts is None else draw_starts(task.start_draws)
    counted = Problem(counted_mdp(task, counts, start), Sum(task.others) if task.others else None, 1.0)
    if not counted.kept.any():
        return sure
    points, loss = _grid(task, mixed=len(terms) > 0)
    optimistic = _Optimistic(task, worst_case_of_counts(task, counts, start, SET_DELTA), counted, fresh, stopping)
    return min(sure, max(optimistic.bound(Payoff(task.scalars, at, task.discount)) for at in points) + loss)


def _grid(task: Task, mixed: bool) -> tuple[list[tuple[float, ...]], float]:
    """Numbers for every scalar term, and what the grid can miss."""
    if not task.scalars:
        return [()], 0.0
    low, high = task.padded_range
    steps = max(2, int((MIXED_GRID_STEPS if mixed else PLAIN_GRID_STEPS) ** (1 / len(task.scalars))))
    axes, loss = [], 0.0
    for weight, risk in task.scalars:
        ends = sorted((risk.number_of(low), risk.number_of(high)))
        axes.append([float(t) for t in np.linspace(ends[0], ends[1], steps + 1)])
        loss += weight * risk.grid_loss((high - low) / steps)
    return list(product(*axes)), loss


@dataclass(frozen=True)
class _Optimistic:
    """Everything that is the same for all points of the grid."""

    task: Task
    worst: WorstCase
    counted: Problem
    fresh: Indices | None
    stopping: Callable[[], bool]

    @property
    def domain(self) -> Mask:
        """Pairs that a policy of finite risk can use: whatever was counted can happen."""
        return self.counted.kept

    def bound(self, payoff: Payoff) -> float:
        """What no policy with these numbers exceeds."""
        paid = self.worst.means_above(payoff, (1 - TRANSITION_SHARE) * SET_DELTA)
        problem = self.counted.part(paid.reshape(self.task.shape), self.counted.terms)
        best = np.inf
        for _ in range(MAX_ROUNDS):
            outcome = best_outcome(problem, TOLERANCE, self.stopping)[0]
            if not isinstance(outcome.witness, Witness):
                return best
            v = outcome.witness.multipliers
            known = v[np.isfinite(v)]
            v = np.where(np.isfinite(v), v, known.min() if known.size else 0.0)
            found = self._proved(payoff, paid, v, self._lines(problem, outcome.witness.cuts))
            if found >= best - MIN_RELATIVE_PROGRESS * abs(best):
                return min(best, found)
            best = found
            problem = Problem(self._favourable(v, paid), Sum(self.task.others) if self.task.others else None, 1.0)
        return best

    def _favourable(self, v: Array, paid: Array) -> MDP:
        """The model of the set that is best for the values v (S,)."""
        rows, shape = self.worst.models.worst_matrix(-v), self.task.shape
        start, allowed = self.counted.mdp.start, self.task.allowed
        return MDP(rows, paid.reshape(shape), self.task.discount, start, allowed=allowed)

    def _proved(self, payoff: Payoff, paid: Array, v: Array, lines: list[object]) -> float:
        """The bound with these multipliers (S,) and lines."""
        task, gamma = self.task, self.task.discount
        risks = affine_lower_bound(task, task.known_terms, lines, self.domain)
        if risks is None:
            return np.inf
        gain = (paid - gamma * self.worst.models.worst_next(-v)).reshape(task.shape) - v[:, None]
        bound = self._start(v) + risks.bound(gain, self.domain, gamma) - payoff.offset
        size = abs(bound) + float(np.abs(v).max()) + float(np.abs(gain[self.domain]).max()) / (1 - gamma)
        return bound + RELATIVE_SLACK * size if np.isfinite(bound) else np.inf

    def _lines(self, problem: Problem, cuts: tuple[Any, ...]) -> list[object]:
        """The lines of a solution, on the whole domain instead of what can be reached in its model."""
        given: list[object] = []
        for (_, risk), (_, solved), cut in zip(self.task.known_terms, problem.terms, cuts, strict=True):
            if isinstance(risk, SeparableRisk) and isinstance(solved, SeparableRisk):
                slope = np.asarray(cut, dtype=np.float64)
                whole = np.full(risk.prior.shape, float(slope.min(initial=0.0)))
                whole[solved.active_entries(problem.active)] = slope
                given.append(whole[risk.active_entries(self.domain)])
            else:
                given.append(cut)
        return given

    def _start(self, v: Array) -> float:
        """<xi, v>, or a bound of it from fresh first states."""
        if self.fresh is None:
            return float(self.counted.mdp.start @ v)
        return sample_mean_above(v[self.fresh], v.min(), v.max(), START_DELTA)
