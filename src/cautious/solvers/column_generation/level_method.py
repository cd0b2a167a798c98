"""Which prices to ask the planner about next, when worst cases make the bound a function with kinks: a level method.

The columns known so far bound the objective from below (best mixture) and, read as cuts, the planner's bound at any
prices. Prices that minimise the cuts jump about. Instead take the prices nearest to the best ones so far at which the
cuts still promise a good part of the gap. The distance is a penalty in the small problem; its stiffness is found by a
few trials, starting from the last.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.solvers.column_generation.restricted_master import Mixture, SmallProblem

LEAST_PROMISE, LARGEST_PROMISE = 0.5, 0.92
TRIALS = 5
FACTOR = 10.0


@dataclass
class Level:
    """``centre`` (m,): the prices with the best bound so far, None before there are any."""

    centre: Array | None = None
    stiffness: float = 1.0

    def prices(self, small: SmallProblem, best: Mixture, gap: float) -> Array:
        """Normalised prices (m,); ``best`` solves the small problem, ``gap`` is from there to the best bound."""
        rows = small.rows
        if small.returns.size == 1 and rows.group_caution.size:
            spread = small.centred()
            return rows.normalised((spread or best).prices)
        if self.centre is None or rows.all_barriers or not np.isfinite(gap):
            return rows.normalised(best.prices)
        chosen, stiffer, softer = rows.normalised(best.prices), np.inf, 0.0
        for _ in range(TRIALS):
            trial = small.near(self.centre, self.stiffness)
            if trial is None:
                break
            prices = rows.normalised(trial.prices)
            promise = (best.value + gap - small.bound(prices)) / gap
            if promise >= LEAST_PROMISE:
                chosen, softer = prices, self.stiffness
            else:
                stiffer = self.stiffness
            if LEAST_PROMISE <= promise <= LARGEST_PROMISE:
                break
            self.stiffness = self._between(softer, stiffer)
        return chosen

    @staticmethod
    def _between(softer: float, stiffer: float) -> float:
        if softer == 0.0:
            return stiffer / FACTOR
        return softer * FACTOR if np.isinf(stiffer) else float(np.sqrt(softer * stiffer))
