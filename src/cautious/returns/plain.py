"""The return of a policy that remembers nothing of it, as a distribution: what was earned is only kept track of.

Where few sums of rewards are possible, they are all told apart. Elsewhere targets are rounded to a grid at every step,
which keeps the mean and the variance of every cell exact, and lets the spread within cells grow by about width^2 / 12 a
step. What is earned after the steps that are followed adds its own variance. The number of steps balances the two.
"""

import math
from copy import copy
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.errors import IncompatibleError
from cautious.models.encodings import EPS, row_of_entries
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.returns.backward import Grid
from cautious.returns.earnings import Earnings, earnings_of
from cautious.returns.finely import follow_finely
from cautious.returns.forward import Followed, ReturnDistribution, follow
from cautious.returns.grids import LEAST_STEP, SAME_SUM, exact_grids, possible_sums, target_grids
from cautious.returns.memory_policy import MemoryPolicy
from cautious.returns.moments import return_variance

# nodes of a grid; cells of all states in one step; moves of a cell along an outcome in all steps together
LEAST_NODES, MOST_NODES, MOST_CELLS, MOST_MOVES = 50, 8000, 4e6, 1e8
# nodes of the first of grids that shrink
MOST_SHRINKING_NODES = 1e5
# cells cost so many moves each, even where nothing is in them
MOVES_OF_CELL = 2
# a distribution is computed unasked only in models with no more outcomes, and where so many nodes can be afforded
MOST_OUTCOMES, WORTHWHILE_NODES = 2e5, 400
# steps are followed until no more than this share of a return is left
NEGLIGIBLE_SHARE, MOST_STEPS = 1e-7, 20_000
# of what may have been earned, so many standard deviations of the return are told apart
RANGE_DEVIATIONS = 8.0


def return_distribution(mdp: MDP, policy: Array, memory: MemoryPolicy | None = None) -> ReturnDistribution:
    """How the return of a policy (S, A) or (T, S, A) is distributed, or of one with ``memory``."""
    if mdp.horizon == AVERAGE:
        raise IncompatibleError('with horizon="average" no episode ends, and no return is distributed')
    mdp.require_outcome_rewards("the distribution of the return")
    if memory is None:
        return PlainPolicy(mdp, policy).followed().returns
    earnings = earnings_of(mdp, memory.middle).with_steps(memory.n_steps)
    coarse = follow(earnings, memory).returns
    if coarse.is_exact or coarse.resolution == 0 or not math.isfinite(coarse.variance):
        return coarse
    fine = follow_finely(earnings, memory, math.sqrt(coarse.variance))
    return fine if fine is not None and fine.resolution < coarse.resolution else coarse


def is_affordable(mdp: MDP, policy: Array) -> bool:
    """Whether this policy without memory has a distribution worth its time, to be computed unasked."""
    if mdp.horizon == AVERAGE or mdp.has_reward_spread or mdp.transitions.nnz > MOST_OUTCOMES:
        return False
    steps = float(mdp.horizon) if isinstance(mdp.horizon, int) else 1000.0
    if mdp.horizon is None:
        steps = 1.0 if mdp.discount == 0 else max(1.0, math.log(0.01) / math.log(mdp.discount))
    return MOST_MOVES / (steps * _moves_of_step(mdp, policy)) >= WORTHWHILE_NODES


def _moves_of_step(mdp: MDP, policy: Array) -> float:
    """For each node, the outcomes of the pairs that a policy uses, and what empty cells cost."""
    used = (policy > 0).any(axis=0) if policy.ndim == 3 else policy > 0
    return float(MOVES_OF_CELL * mdp.n_states + np.count_nonzero(used.ravel()[row_of_entries(mdp.transitions)]))


class PlainPolicy:
    """A policy (S, A) or (T, S, A) in a model, ready to be followed with any rate."""

    def __init__(
        self, mdp: MDP, policy: Array, most_moves: float = MOST_MOVES, negligible: float = NEGLIGIBLE_SHARE
    ) -> None:
        self.most_moves, self.negligible, self._earnings = most_moves, negligible, earnings_of(mdp)
        self._sums = possible_sums(self._earnings) if isinstance(mdp.horizon, int) else None
        self._play(policy)

    def _play(self, policy: Array) -> None:
        mdp, self.policy = self._earnings.mdp, policy
        self.mean, variance = return_variance(mdp, policy)
        self.deviation, self._moves = math.sqrt(variance), _moves_of_step(mdp, policy)

    def playing(self, policy: Array) -> "PlainPolicy":
        """Another policy in the same model, known as well as this one."""
        other = copy(self)
        other._play(policy)
        return other

    def followed(self, rate: float = 0.0, near: float | None = None) -> Followed:
        """What it does and earns; of returns ``near`` some number it is known best which side of it they are on."""
        earnings, tracker = self.tracked(rate > 0, near)
        return follow(earnings, tracker, rate, instead=self.policy)

    def tracked(self, late: bool = False, near: float | None = None) -> tuple[Earnings, MemoryPolicy]:
        """The steps that are followed, and the memory that keeps track of what was earned in them."""
        expected = self._expected(late or near is not None)
        earnings = self._earnings.with_steps(expected.size - 1)
        return earnings, self._tracker(earnings, expected, near)

    def _expected(self, late: bool) -> Array:
        """What is earned on average before each step, and at the end of those that are followed; (steps + 1,).

        Exponentials count what is earned ``late``; the grid does not matter to them.
        """
        mdp, rewards = self._earnings.mdp, self._earnings.rewards
        steps = mdp.horizon if isinstance(mdp.horizon, int) else MOST_STEPS
        if mdp.horizon is None:
            steps = self._steps_for_ever(late)
        mass, expected = np.array(mdp.start), [0.0]
        for t in range(steps):
            pairs = mass[:, None] * (self.policy[t] if self.policy.ndim == 3 else self.policy)
            expected.append(expected[-1] + mdp.discount**t * float(np.sum(pairs * rewards)))
            mass = mdp.flow_into(pairs)
            if mdp.horizon == TOTAL and mass[~mdp.ended].sum() <= self.negligible:
                break
        return np.array(expected)

    def _steps_for_ever(self, late: bool) -> int:
        """Until next to nothing is left, or as many as leave the least spread in cells."""
        gamma = self._earnings.mdp.discount
        steps = 1 if gamma == 0 else math.ceil(math.log(self.negligible) / math.log(gamma))
        n_steps = np.arange(1.0, min(max(1, steps), MOST_STEPS) + 1)
        rounding = n_steps * (2 * RANGE_DEVIATIONS / self._nodes(n_steps)) ** 2 / 12
        return int(n_steps[-1] if late else n_steps[np.argmin(rounding + gamma ** (2.0 * n_steps))])

    def _nodes(self, n_steps: Any) -> Array:
        """So many nodes can be afforded, for so many steps."""
        most = min(MOST_NODES, MOST_CELLS / self._earnings.mdp.n_states)
        return np.asarray(np.clip(self.most_moves / (n_steps * self._moves), LEAST_NODES, max(LEAST_NODES, most)))

    def _tracker(self, earnings: Earnings, expected: Array, near: float | None) -> MemoryPolicy:
        mdp, target = earnings.mdp, (self.mean if near is None else near) - earnings.offset
        if self._sums is not None:
            grids = exact_grids(earnings, self._sums, np.array([target]))
        elif near is not None and mdp.horizon is None:
            grids = self._shrinking_grids(earnings, expected, target)
        else:
            grids = self._grids(earnings, expected, target)
        return MemoryPolicy(
            target=target,
            grids=tuple(grids),
            tables=(),
            scales=earnings.scales,
            middle=earnings.middle,
            to_upper=False,
            snap=SAME_SUM * earnings.size,
            policy_after=None if isinstance(mdp.horizon, int) else self.policy,
        )

    def _shrinking_grids(self, earnings: Earnings, expected: Array, target: float) -> list[Grid]:
        """Of targets that are certain, or cannot be earned, nothing else matters: what is in between shrinks."""
        gamma, reach = earnings.mdp.discount, max(RANGE_DEVIATIONS * self.deviation, EPS * earnings.size, 1e-300)
        nodes = self.most_moves * (1 - math.sqrt(gamma)) / self._moves
        most = min(MOST_SHRINKING_NODES, MOST_CELLS / earnings.mdp.n_states)
        step = 2 * reach / min(max(LEAST_NODES, nodes), max(LEAST_NODES, most))
        # steps below rounding would fill what rounding leaves open with nodes
        step = max(step, EPS * max(abs(target), earnings.size) / LEAST_STEP)
        return target_grids(earnings, True, target, target, step, reach, told_apart=True, centre=expected)

    def _grids(self, earnings: Earnings, expected: Array, mean: float) -> list[Grid]:
        """Around what is left of the mean on average; rewards of zero lead from node to node."""
        least, most = earnings.earned
        reach = max(RANGE_DEVIATIONS * self.deviation, EPS * max(abs(mean), earnings.size), 1e-300)
        low = np.maximum(mean - most, mean - expected - reach)
        high = np.minimum(mean - least, mean - expected + reach)
        step = float((high - low).max()) / float(self._nodes(np.array(float(earnings.n_steps))))
        step = max(step, EPS * earnings.size, 1e-300)
        begin = np.floor((low - mean) / step).astype(np.int64)
        end = np.maximum(np.ceil((high - mean) / step).astype(np.int64), begin)
        return [Grid.even(mean + a * step, step, b - a + 1) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
