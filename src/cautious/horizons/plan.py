"""``Plan``: a best policy for a reward table, with bounds."""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array, Indices


@dataclass(frozen=True)
class Plan:
    """A policy that is best for a reward table, up to ``upper - lower``.

    ``actions`` (S,); ``values`` (S,) the multipliers that prove ``upper``; both bounds hold for <start, value>. With a
    finite horizon both are (T, S).
    ``sweeps`` says what it cost, in sweeps over all pairs.
    """

    actions: Indices
    values: Array
    lower: float
    upper: float
    sweeps: int = 0

    def policy(self, n_actions: int) -> Array:
        """The actions as a table (S, A) of zeros and ones."""
        table = np.zeros((*self.actions.shape, n_actions))
        table.ravel()[np.arange(0, table.size, n_actions) + self.actions.ravel()] = 1.0
        return table
