"""A policy tried on fresh samples: independent draws from its true occupancy.

A path whose number of steps T before the last pair has P(T = t) = (1-gamma) gamma^t ends in a pair that is distributed
exactly as the occupancy (Thomas 2014 calls it the discounted stationary distribution); one more transition gives that
pair's reward. A path costs T + 1 transitions. The number of paths is fixed first, such that the budget is exceeded
with probability at most ``OVERSHOOT_PROBABILITY``; then all lengths are drawn again, which changes no probability by
more.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import betainc

from cautious.arrays import Array, Indices, Mask
from cautious.evaluation.rollouts import cumulative_rows, drawn_actions
from cautious.learning.checkpoints import Resumable
from cautious.learning.draws import Draws
from cautious.learning.scalar_risk_rewards import RewardLaw
from cautious.learning.statements.path_sums import PathSum
from cautious.learning.task import Task

OVERSHOOT_PROBABILITY = 1e-4


def affordable_paths(samples: int, discount: float) -> int:
    """The largest number of paths that ``samples`` transitions pay for, up to ``OVERSHOOT_PROBABILITY``."""
    low, high = 0, samples
    while low < high:
        middle = (low + high + 1) // 2
        # the chance that the lengths of so many paths, each geometric, add up to more than ``samples``
        if betainc(samples - middle + 1, middle, discount) <= OVERSHOOT_PROBABILITY:
            low = middle
        else:
            high = middle - 1
    return low


class Trial(Resumable):
    """All paths are simulated together, one step per ``advance``.

    ``paths``: how many; ``end_states`` and ``end_rewards`` (n,) of their last pairs, the longest path first;
    ``visits`` (S, A) counts all pairs: their share estimates the occupancy.
    ``total_reward`` is the sum over everything: divided by ``paths`` it estimates the return without bias. ``rewards``
    is the law of the reward of a step under the occupancy, estimated from all steps. ``sums`` (k, n) are those of the
    ``path_sums``; ``first_states`` (S,) counts further first states where the simulator does not tell their law.
    """

    stored_numbers = ("step", "total_reward")
    stored_arrays = ("visits", "lengths", "end_states", "end_rewards", "states", "sums", "closed", "first_states")

    def __init__(
        self, task: Task, draws: Draws, policy: Array, samples: int, path_sums: Sequence[PathSum] = ()
    ) -> None:
        self.policy, self.samples = policy, samples
        self.discount, self.draws = task.discount, draws
        self.paths = affordable_paths(samples, task.discount)
        self.step = -1
        self.total_reward = 0.0
        self.rewards = RewardLaw(task.reward_range)
        self.visits = np.zeros(task.shape, dtype=np.int64)
        self.lengths: Indices = np.zeros(self.paths, dtype=np.int64)
        self.end_states: Indices = np.zeros(self.paths, dtype=np.int64)
        self.end_rewards: Array = np.zeros(self.paths)
        self.states: Indices = np.zeros(self.paths, dtype=np.int64)
        self.path_sums = tuple(path_sums)
        self.sums: Array = np.zeros((len(self.path_sums), self.paths))
        self.closed: Mask = np.zeros(self.sums.shape, dtype=np.bool_)
        self.first_states: Indices = np.zeros(task.shape[0], dtype=np.int64)
        self._start_draws = task.start_draws if path_sums and task.known.start is None else 0
        self._cumulative = cumulative_rows(policy)

    @property
    def done(self) -> bool:
        """Whether every path has ended."""
        return self.paths == 0 or self.step > self.lengths[0]

    def advance(self) -> None:
        """Draw the lengths and first states, or take the next step of every path that goes on."""
        if self.done:
            return
        if self.step < 0:
            self._begin()
            return
        alive = int(np.count_nonzero(self.lengths >= self.step))
        states = self.states[:alive]
        actions = drawn_actions(self._cumulative, states, self.draws.rng())
        next_states, rewards = self.draws.sample(states, actions)
        np.add.at(self.visits, (states, actions), 1)
        self.total_reward += float(rewards.sum())
        self.rewards.add(rewards)
        ended = slice(int(np.count_nonzero(self.lengths > self.step)), alive)
        self.end_states[ended], self.end_rewards[ended] = states[ended], rewards[ended]
        for one, sums, closed in zip(self.path_sums, self.sums, self.closed, strict=True):
            one.add_step(sums[:alive], closed[:alive], (states, actions), rewards, next_states)
        self.states = next_states
        self.step += 1

    def _begin(self) -> None:
        rng = self.draws.rng()
        while True:
            lengths = rng.geometric(1 - self.discount, self.paths) - 1
            if int(lengths.sum()) + self.paths <= self.samples:
                break
        starts = self.draws.start_states(self.paths)
        if self._start_draws:
            self.first_states = np.bincount(
                self.draws.start_states(self._start_draws), minlength=self.first_states.size
            )
        self.lengths = np.sort(lengths)[::-1].astype(np.int64)
        self.states = starts
        self.step = 0

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Also the bins of the rewards."""
        header, arrays = super().storage()
        return header, arrays | {"reward_bins": self.rewards.bins.copy()}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Also the bins of the rewards."""
        super().restore(header, arrays)
        self.rewards.bins = arrays["reward_bins"].copy()
