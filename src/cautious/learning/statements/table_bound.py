"""What no policy exceeds, with confidence, for a learner that keeps tables only.

The learner's multipliers v and the affine lower bound of the risks are fixed; fresh samples of every pair replace the
expectations of X = r + gamma v(s'). With d the unknown occupancy of the best policy (see ``optimum_bound``),

    optimum  <=  <xi, v> + sum_i d_i ( E[X | i] - slope_i - v(s_i) ) / (1-gamma) - intercept,

where E is at most the mean plus w_i plus log(1/delta)/lam (``error_widths``), and the sum at most its largest term.
"""

import numpy as np

from cautious.arrays import Array, Mask
from cautious.learning.checkpoints import Resumable
from cautious.learning.draws import Draws
from cautious.learning.statements.affine_lower_bounds import RELATIVE_SLACK, AffineLowerBound
from cautious.learning.statements.confidence import UPPER_DELTA, sample_mean_above
from cautious.learning.statements.error_widths import MIN_RANGE, ErrorPlan, hoeffding_rate
from cautious.learning.task import Task

PIECE_SAMPLES = 400_000
# the best rate depends on the variance, which is not known: several are tried, and each pays its share of delta
RATES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
START_DELTA = 0.1 * UPPER_DELTA
MEAN_DELTA = (UPPER_DELTA - START_DELTA) / len(RATES)


class TableBoundRun(Resumable):
    """``each`` samples of every pair of ``domain``; sums of X - guess and of its square, (S*A,).

    ``v`` (S,) and ``guess`` (S*A,) must not depend on these samples.
    """

    stored_numbers = ("drawn",)
    stored_arrays = ("sums", "squares")

    def __init__(self, task: Task, draws: Draws, domain: Mask, v: Array, guess: Array, samples: int) -> None:
        self.task, self.draws, self.domain = task, draws, domain
        self.v, self.guess = v, guess
        self.pairs = np.flatnonzero(domain)
        self.each = samples // max(1, self.pairs.size)
        self.drawn = 0
        self.sums, self.squares = np.zeros(guess.size), np.zeros(guess.size)

    @property
    def done(self) -> bool:
        """Whether every pair has its samples."""
        return self.drawn == self.each

    def advance(self) -> None:
        """A few samples of every pair."""
        count = min(self.each - self.drawn, max(1, PIECE_SAMPLES // self.pairs.size))
        next_states, rewards = self.draws.sample_pairs(np.where(self.domain.ravel(), count, 0))
        rows = np.repeat(self.pairs, count)
        error = rewards + self.task.discount * self.v[next_states] - self.guess[rows]
        self.sums += np.bincount(rows, weights=error, minlength=self.sums.size)
        self.squares += np.bincount(rows, weights=error**2, minlength=self.sums.size)
        self.drawn += count

    def bound(self, risks: AffineLowerBound) -> float:
        """No policy exceeds this, with probability at least 1 - UPPER_DELTA; infinite without samples."""
        if self.drawn == 0:
            return np.inf
        gamma, n = self.task.discount, np.full(self.guess.size, float(self.drawn))
        low, high = self.task.padded_range
        high, low = high + gamma * float(self.v.max()), low + gamma * float(self.v.min())
        typical = hoeffding_rate(MEAN_DELTA, self.drawn, max(high - low, MIN_RANGE))
        start = self._start()
        found: list[float] = []
        for factor in RATES:
            plan = ErrorPlan(typical * factor, low, high, self.guess, n)
            mean = self.guess + self.sums / n + plan.widths(self.squares)
            gain = mean.reshape(self.task.shape) - self.v[:, None]
            spent = plan.spent(MEAN_DELTA) / (1 - gamma)
            size = float(np.abs(gain[self.domain]).max()) / (1 - gamma) + float(np.abs(self.v).max())
            found.append(start + risks.bound(gain, self.domain, gamma) + spent + RELATIVE_SLACK * size)
        return float(min(found))

    def _start(self) -> float:
        """<xi, v>, or a bound of it from fresh first states."""
        v = self.v
        if self.task.known.start is not None:
            return float(self.task.known.start @ v)
        return sample_mean_above(v[self.draws.start_states(self.task.start_draws)], v.min(), v.max(), START_DELTA)
