"""The shape of a problem's model: the few numbers that estimates of solvers' work are made of.

Work is counted in operations of about a nanosecond. Only the active part of the model counts.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cautious._core.cholesky_analysis import widest_level
from cautious._core.interior_blocks import block_sizes
from cautious.problem import Problem

# operations of one planning call per transition: those of any call, and more with the square root of the levels
PLAN_WORK, PLAN_LEVEL_WORK = 6.0, 6.4
# how many times as many operations a factor takes beside a transport, whose potentials double the size of a separator
TRANSPORT_FACTOR = 8.0
# after this many times 1 / (1 - discount) steps hardly anything counts
HORIZONS = 2.0
# a model mixes fast if from one state more than this share of all others is reached after the same number of steps
FAST_SHARE = 1 / 8


@dataclass(frozen=True)
class CliqueWork:
    """States that follow one state form a clique of the Newton matrix: its entries, and operations to assemble it."""

    entries: float
    assembly: float


class Shape:
    """Counts of the active part, at every step of a finite horizon, made when they are first asked for."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.n_states = int(np.count_nonzero(problem.active_states))
        self.n_pairs = int(np.count_nonzero(problem.active))
        rows = problem.mdp.transitions
        # pairs that are not active have their rows too
        self.n_entries = float(rows.nnz) * self.n_pairs / max(problem.reward.size, 1)

    @property
    def plan_work(self) -> float:
        """Of one planning call: the more sweeps, the more slowly the model mixes; with a finite horizon, one a step."""
        levels = 0.0 if isinstance(self.problem.mdp.horizon, int) else self.n_levels
        return self.n_entries * (PLAN_WORK + PLAN_LEVEL_WORK * float(np.sqrt(levels)))

    @cached_property
    def widest(self) -> int:
        """The most states at the same number of steps from one state: about the size of a separator."""
        rows, n_states = self.problem.mdp.transitions, self.problem.mdp.n_states
        return min(int(widest_level(rows.indptr, rows.indices, n_states)), self.n_states)

    @property
    def n_levels(self) -> float:
        """About how many steps lead from one end of the model to the other, as far as the discount lets them count."""
        mdp, levels = self.problem.mdp, self.n_states / max(self.widest, 1)
        if isinstance(mdp.horizon, int):
            return float(mdp.horizon)
        return levels if mdp.horizon is not None else min(levels, HORIZONS / (1 - mdp.discount))

    @property
    def mixes_fast(self) -> bool:
        """Whether a walk is soon nearly everywhere."""
        return self.widest > FAST_SHARE * self.n_states

    @property
    def factor_flops(self) -> float:
        """Of a sparse Cholesky factor on the states: about that of its largest separator, which is dense.

        With a finite horizon a set of states separates at all steps together: as many as can be reached by then.
        """
        reached = np.atleast_1d(np.count_nonzero(self.problem.active_states, axis=-1))
        return float(np.minimum(self.widest, reached).sum()) ** 3

    @cached_property
    def clique_work(self) -> CliqueWork:
        """Of the Newton matrix of an interior point method."""
        rows = self.problem.mdp.transitions
        start, coefficients = block_sizes(rows.indptr, rows.indices, self.problem.active, False)
        sizes = np.diff(start).astype(np.float64)
        return CliqueWork(float(np.sum(sizes**2)) / 2, float(np.sum(np.diff(coefficients) * sizes)))
