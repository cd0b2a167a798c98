"""What the searches for a best policy share: sweeps of the optimality operator, their rounding, and when to stop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious._core import planning as kernels
from cautious.arrays import Array, Indices, Mask
from cautious.horizons.plan import Plan
from cautious.models.encodings import EPS
from cautious.models.tabular import MDP
from cautious.runtime.threads import over_pieces, pieces, threads_for

# how close bounds must be, as a share of what they prove beyond a known value
MAX_WIDTH_SHARE = 0.2


@dataclass(frozen=True)
class Stopping:
    """When a plan will do: see ``planning.plan``."""

    tolerance: float | Callable[[float], float]
    known: float = -np.inf
    over: Callable[[], bool] | None = None

    def gap(self, worth: float) -> float:
        """The tolerance at what a policy is worth."""
        return self.tolerance(worth) if callable(self.tolerance) else self.tolerance

    def width(self, upper: float, worth: float) -> float:
        """How close together bounds must be."""
        left = upper - self.known
        return self.gap(worth) if np.isinf(left) else MAX_WIDTH_SHARE * left

    def ends(self, upper: float, worth: float) -> bool:
        """Whether to stop even if the bounds still differ."""
        return upper - self.known <= self.gap(worth) or self.out_of_time

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit is reached, or a stop was requested."""
        return self.over is not None and self.over()


class PolicyIteration:
    """State of one planning call: the best bounds so far, and what was ``spent``, in sweeps over all pairs.

    Sweeps count the changes of the states in ``scope`` (S,). No reward that matters is larger than ``largest_reward``.
    """

    best: Plan

    def __init__(self, mdp: MDP, scope: Mask, largest_reward: float, stopping: Stopping) -> None:
        self.mdp, self.scope, self.largest_reward, self.stopping = mdp, scope, largest_reward, stopping
        self.n_entries = max(1, mdp.n_entries)
        self.threads = threads_for(self.n_entries)
        self.summaries = np.empty((pieces(mdp.n_states), kernels.SUMMARY))
        self.spent = 0.0

    def sweep(
        self, table: Array, discount: float, values: Array, actions: Indices
    ) -> tuple[Array, tuple[float, float, float, float, float]]:
        """T values (S,) for a ``table`` (S * A,), and the summary of its changes; overwrites ``actions``."""
        mdp, swept = self.mdp, np.empty(self.mdp.n_states)
        given = (table, discount, values, self.scope, mdp.start, actions, swept, self.summaries)

        def sweep(first: int, last: int) -> None:
            for block in mdp.row_blocks(first, last):
                rest: Any = (*given, *block.pieces)
                kernels.bellman(*block.rows, *rest)

        over_pieces(mdp.n_states, self.threads, sweep)
        self.spent += 1
        return swept, kernels.combine_summaries(self.summaries)

    def rounding(self, largest: float) -> float:
        """What rounding does to a sweep over values of this size."""
        # the reward of a pair that is nearly best is at most as large as the values on both sides of its equation: a
        # cost far beyond them excludes a pair whatever it rounds to
        return 4 * EPS * (self.mdp.widest_row + 4) * (min(self.largest_reward, 4 * largest) + largest)

    def found(self) -> Plan:
        """The best plan, with the number of sweeps that were made."""
        best = self.best
        return Plan(best.actions, best.values, best.lower, best.upper, round(self.spent))
