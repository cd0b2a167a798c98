"""A level method for the prices of worst cases, where the planner's bound is a function of the prices with kinks.

Every column is a cut: a linear lower bound of the planner's bound at any prices. Prices that minimise the largest cut
move far from one call to the next. Instead we take the prices nearest to the best ones so far at which the cuts still
promise to close a good part of the gap. The distance is a quadratic penalty in the restricted master problem; a few
trials find its weight, starting from the last one.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.solvers.column_generation.restricted_master import Mixture, RestrictedMaster

MIN_PROMISED_SHARE, MAX_PROMISED_SHARE = 0.5, 0.92
MAX_TRIALS = 5
PENALTY_FACTOR = 10.0


@dataclass
class LevelMethod:
    """``centre`` (m,): the prices with the best bound so far, None before there are any."""

    centre: Array | None = None
    penalty: float = 1.0

    def prices(self, master: RestrictedMaster, best: Mixture, gap: float) -> Array:
        """Normalised prices (m,); ``best`` solves the master problem, ``gap`` is from there to the best bound."""
        rows = master.rows
        if master.returns.size == 1 and rows.group_caution.size:
            return rows.normalised((master.centred() or best).prices)
        if self.centre is None or rows.all_barriers or not np.isfinite(gap):
            return rows.normalised(best.prices)
        chosen, too_large, small_enough = rows.normalised(best.prices), np.inf, 0.0
        for _ in range(MAX_TRIALS):
            trial = master.near(self.centre, self.penalty)
            if trial is None:
                break
            prices = rows.normalised(trial.prices)
            promised = (best.value + gap - master.bound(prices)) / gap
            if promised >= MIN_PROMISED_SHARE:
                chosen, small_enough = prices, self.penalty
            else:
                too_large = self.penalty
            if MIN_PROMISED_SHARE <= promised <= MAX_PROMISED_SHARE:
                break
            if small_enough == 0.0:
                self.penalty = too_large / PENALTY_FACTOR
            elif np.isinf(too_large):
                self.penalty = small_enough * PENALTY_FACTOR
            else:
                self.penalty = float(np.sqrt(small_enough * too_large))
        return chosen
