"""A policy tried on fresh samples: independent draws from its true occupancy.

A path whose number of steps T before the last pair has P(T = t) = (1-gamma) gamma^t ends in a pair that is distributed
exactly as the occupancy (Thomas 2014 calls it the discounted stationary distribution); one more transition gives that
pair's reward. A path costs T + 1 transitions. The number of paths is fixed first, such that the budget is exceeded
with probability at most ``OVERSHOOT_PROBABILITY``; then all lengths are drawn again, which changes no probability by
more.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import betainc

from cautious.arrays import Array, Indices, Mask
from cautious.evaluation.rollouts import cumulative_rows
from cautious.learning.checkpoints import Resumable
from cautious.learning.draws import Draws
from cautious.learning.scalar_risk_rewards import RewardLaw
from cautious.learning.statements.path_sums import PathSum
from cautious.learning.task import Task
from cautious.learning.walks import Steps, Walks, joined

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
    """All paths, block by block; an ``advance`` takes some steps of one block.

    ``paths``: how many; ``end_states`` and ``end_rewards`` (n,) of their last pairs, the longest path first;
    ``visits`` (S, A) counts all pairs: their share estimates the occupancy.
    ``total_reward`` is the sum over everything: divided by ``paths`` it estimates the return without bias. ``rewards``
    is the law of the reward of a step under the occupancy, estimated from all steps. ``sums`` (k, n) are those of the
    ``path_sums``; ``first_states`` (S,) counts further first states where the simulator does not tell their law.

    Blocks are ``counted`` one after the other, because sums depend on their order; what was ``walked`` of the others
    is kept until then.
    """

    stored_numbers = ("first_call", "counted", "total_reward")
    stored_arrays = ("visits", "lengths", "end_states", "end_rewards", "starts", "sums", "closed", "first_states")

    def __init__(
        self, task: Task, draws: Draws, policy: Array, samples: int, path_sums: Sequence[PathSum] = ()
    ) -> None:
        self.policy, self.samples = policy, samples
        self.discount, self.draws = task.discount, draws
        self.paths = affordable_paths(samples, task.discount)
        # of the paths' own calls; -1 before the lengths are drawn
        self.first_call, self.counted = -1, 0
        self.walked: dict[int, list[Steps]] = {}
        self.total_reward = 0.0
        self.rewards = RewardLaw(task.reward_range)
        self.visits = np.zeros(task.shape, dtype=np.int64)
        self.lengths: Indices = np.zeros(self.paths, dtype=np.int64)
        self.end_states: Indices = np.zeros(self.paths, dtype=np.int64)
        self.end_rewards: Array = np.zeros(self.paths)
        self.starts: Indices = np.zeros(self.paths, dtype=np.int64)
        self.path_sums = tuple(path_sums)
        self.sums: Array = np.zeros((len(self.path_sums), self.paths))
        self.closed: Mask = np.zeros(self.sums.shape, dtype=np.bool_)
        self.first_states: Indices = np.zeros(task.shape[0], dtype=np.int64)
        self._start_draws = task.start_draws if path_sums and task.known.start is None else 0
        self._walks: Walks
        self._legs: Iterator[tuple[int, Steps]] | None = None

    @property
    def done(self) -> bool:
        """Whether every path has ended."""
        return self.paths == 0 or (self.first_call >= 0 and self.counted == self._walks.n_blocks)

    def advance(self) -> None:
        """Draw the lengths and first states, or take the next steps of a block."""
        if self.done:
            return
        if self.first_call < 0:
            self._begin()
            return
        if self._legs is None:
            walked = {block: joined(parts) for block, parts in self.walked.items()}
            self._legs = self._walks.legs(self.counted, walked)
        block, steps = next(self._legs)
        self.draws.count(steps[0].size)
        self.walked.setdefault(block, []).append(steps)
        while not self.done and self._is_walked(self.counted):
            self._count(self.counted)
            self.counted += 1

    def _is_walked(self, block: int) -> bool:
        drawn = sum(part[0].size for part in self.walked.get(block, []))
        return drawn == int(self._walks.lengths[self._walks.paths(block)].sum())

    def _count(self, block: int) -> None:
        """Add all steps of a block to the estimates."""
        paths, (states, actions, next_states, rewards) = self._walks.paths(block), joined(self.walked.pop(block))
        np.add.at(self.visits, (states, actions), 1)
        self.total_reward += float(rewards.sum())
        self.rewards.add(rewards)
        alive, first = self._walks.alive(block), 0
        for count, going_on in zip(alive, [*alive[1:], 0], strict=True):
            drawn, walking = slice(first, first + count), slice(paths.start, paths.start + count)
            ended, last = slice(first + going_on, first + count), slice(paths.start + going_on, paths.start + count)
            self.end_states[last], self.end_rewards[last] = states[ended], rewards[ended]
            for one, sums, closed in zip(self.path_sums, self.sums, self.closed, strict=True):
                pairs = states[drawn], actions[drawn]
                one.add_step(sums[walking], closed[walking], pairs, rewards[drawn], next_states[drawn])
            first += count

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
        self.starts, self.first_call = starts, self.draws.calls
        self._prepare()
        self.draws.calls += self._walks.n_calls

    def _prepare(self) -> None:
        cumulative = cumulative_rows(self.policy)
        # a path of length 0 has one pair
        self._walks = Walks(self.draws, cumulative, self.starts, self.lengths + 1, self.first_call)

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Also the bins of the rewards, and what is not counted yet."""
        header, arrays = super().storage()
        parts = [joined(parts) for parts in self.walked.values()]
        header |= {"blocks": list(self.walked), "sizes": [part[0].size for part in parts]}
        kept = joined([_nothing(), *parts])
        return header, arrays | dict(zip(_STEPS, kept, strict=True)) | {"reward_bins": self.rewards.bins.copy()}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Also the bins of the rewards, and what is not counted yet."""
        super().restore(header, arrays)
        self.rewards.bins = arrays["reward_bins"].copy()
        ends = np.cumsum([0, *header["sizes"]])
        for block, first, last in zip(header["blocks"], ends, ends[1:], strict=False):
            states, actions, next_states, rewards = (arrays[name][first:last].copy() for name in _STEPS)
            self.walked[int(block)] = [(states, actions, next_states, rewards)]
        if self.first_call >= 0:
            self._prepare()


_STEPS = ("walked_states", "walked_actions", "walked_next_states", "walked_rewards")


def _nothing() -> Steps:
    whole = np.empty(0, dtype=np.int64)
    return whole, whole, whole, np.empty(0)
