"""The loop of Algorithm 1, compiled where it can be, and everything it changes.

A table simulator and the usual risks run in ``_core/algorithm_1.hpp``; anything else runs through the readable loop of
``algorithm_1_reference``, one call of the simulator per iteration, which is slow. Both follow the same random numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cautious._core import algorithm_1 as kernel
from cautious._core import sampling
from cautious.arrays import Array
from cautious.learning.draws import Draws
from cautious.learning.printed.algorithm_1_reference import Constants, Draw, Iterate, iterate
from cautious.learning.printed.gradient_bounds import BoundedTerm, PackedTerms, packed
from cautious.learning.task import Task
from cautious.models.simulators import TableSimulator

# pairs touched per piece of work, about 0.2 seconds; fixed, so that pieces do not depend on the machine's speed
WORK = 60_000_000
ROW_COST = 6
READABLE_STEPS = 20


def reward_scale(task: Task) -> tuple[float, float]:
    """(low, width): a reward r counts as (r - low) / width inside."""
    low, high = task.reward_range
    return low, (high - low) or 1.0


def mean_rewards(moments: Array, shape: tuple[int, int]) -> Array:
    """Mean rewards (S, A) from ``moments`` (3, S*A); the middle of [0, 1] where there was no sample."""
    tried, paid, _ = moments
    return np.asarray(np.where(tried > 0, paid / np.maximum(tried, 1), 0.5).reshape(shape))


class Saddle:
    """The loop of Algorithm 1 and everything it changes.

    ``log_lam`` (S, A), ``v`` (S,); ``d_sum``, ``v_sum`` sums of what came before; ``moments`` (3, S*A) number, sum and
    sum of squares of the rewards seen, in [0, 1]; ``count`` iterations done; ``longest`` the most iterations of a
    piece, for those who want to look in between.
    """

    def __init__(
        self, task: Task, draws: Draws, terms: Sequence[BoundedTerm], constants: Constants, floor: float
    ) -> None:
        self.task, self.draws, self.terms, self.constants = task, draws, terms, constants
        n_states, size = task.shape[0], task.allowed.size
        rest = 1 - constants.gamma
        with np.errstate(divide="ignore"):
            self.log_lam: Array = np.log(task.allowed / (task.pairs * rest))
        self.v, self.v_sum = np.zeros(n_states), np.zeros(n_states)
        self.d_sum, self.moments, self.count = np.zeros(task.shape), np.zeros((3, size)), 0
        self.compiled = packed(terms, rest, size, floor)
        self.longest = constants.horizon

    @property
    def done(self) -> bool:
        """Whether all iterations are over."""
        return self.count >= self.constants.horizon

    @property
    def rewards(self) -> Array:
        """Mean reward of each pair in the samples (S, A), in [0, 1]."""
        return mean_rewards(self.moments, self.task.shape)

    @property
    def occupancy(self) -> Array:
        """The average of (1-gamma) lam; the first iterate before the first step."""
        if self.count == 0:
            return self.task.allowed / self.task.pairs
        return np.asarray(self.d_sum / self.count)

    @property
    def multipliers(self) -> Array:
        """The average of v in the simulator's units: the constant part of the rewards is put back."""
        low, width = reward_scale(self.task)
        return width * self.v_sum / max(self.count, 1) + low / (1 - self.constants.gamma)

    def advance(self) -> None:
        """One piece of work; nothing but ``Draws`` changes before the last draw."""
        left = min(self.longest, self.constants.horizon - self.count)
        table = self.draws.table
        if table is not None and self.compiled is not None:
            rows = self.compiled[4].shape[0]
            steps = min(left, max(1, WORK // (self.task.allowed.size * (1 + ROW_COST * rows))))
            self._compiled_steps(table, self.compiled, steps)
        else:
            steps = min(left, READABLE_STEPS)
            self._readable_steps(table, steps)
        self.count += steps

    def _compiled_steps(self, table: TableSimulator, risk: PackedTerms, steps: int) -> None:
        k = self.constants
        self.draws.count(steps)
        seed = self.draws.kernel_seed()
        model = (*table.sums, table.pay, table.pays_per_outcome, table.running_start, self.task.allowed.ravel())
        constants = (*reward_scale(self.task), k.gamma, k.alpha, k.beta, k.m1, k.m2, k.delta, k.box)
        state = (self.log_lam, self.v, self.d_sum, self.v_sum, self.moments)
        kernel.run(steps, seed, *model, *constants, *risk, *state)

    def _readable_steps(self, table: TableSimulator | None, steps: int) -> None:
        now, drawn = Iterate(self.log_lam, self.v, self.d_sum, self.v_sum), list[Draw]()
        source = _BlackBox(self.draws, steps) if table is None else _Tables(self.draws, table, steps)
        generate = self._scaled(source)
        for t in range(steps):
            pick, s_bar = source.numbers(t)
            now, seen = iterate(now, self.task.allowed, self.constants, self._slope, pick, s_bar, generate)
            drawn.append(seen)
        self.log_lam, self.v, self.d_sum, self.v_sum = now.log_lam, now.v, now.d_sum, now.v_sum
        for seen in drawn:
            self._remember(seen)

    def _scaled(self, source: "_Tables | _BlackBox") -> Callable[[int, int], tuple[int, float]]:
        low, width = reward_scale(self.task)

        def generate(s: int, a: int) -> tuple[int, float]:
            s_next, reward = source.outcome(s, a)
            return s_next, (reward - low) / width

        return generate

    def _slope(self, d: Array) -> Array:
        """c times the subgradient of rho in lam."""
        slope = np.zeros_like(d)
        for term in self.terms:
            slope += (1 - self.constants.gamma) * term.weight * np.asarray(term.gradient(d))
        return slope

    def _remember(self, seen: Draw) -> None:
        place = seen.s * self.task.shape[1] + seen.a
        self.moments[:, place] += (1.0, seen.r_hat, seen.r_hat**2)

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """As ``Run.storage``."""
        names = ("log_lam", "v", "d_sum", "v_sum", "moments")
        return {"count": self.count}, {name: getattr(self, name).copy() for name in names}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """As ``Run.restore``."""
        self.count = int(header["count"])
        self.log_lam, self.v, self.moments = arrays["log_lam"], arrays["v"], arrays["moments"]
        self.d_sum, self.v_sum = arrays["d_sum"], arrays["v_sum"]


class _Tables:
    """The draws that the kernel would make from the same seed."""

    def __init__(self, draws: Draws, table: TableSimulator, steps: int) -> None:
        draws.count(steps)
        self.table, self.uniforms = table, np.empty((steps, 3))
        sampling.uniforms(draws.kernel_seed(), self.uniforms)
        self.start = table.running_start

    def numbers(self, t: int) -> tuple[float, int]:
        """What picks the pair, and the start state."""
        pick, start, self.successor = self.uniforms[t]
        s_bar = int(np.searchsorted(self.start, start * self.start[-1], side="right"))
        return float(pick), min(s_bar, self.start.size - 1)

    def outcome(self, s: int, a: int) -> tuple[int, float]:
        """Next state and reward."""
        table, row = self.table, np.array([s * self.table.n_actions + a])
        place = sampling.draw_successors(*table.sums, row, np.array([self.successor]))
        paid = table.pay[place] if table.pays_per_outcome else table.pay[row]
        return int(table.rows.indices[place[0]]), float(paid[0])


class _BlackBox:
    """A simulator called for one pair at a time."""

    def __init__(self, draws: Draws, steps: int) -> None:
        self.draws, self.picks, self.starts = draws, draws.rng().random(steps), draws.start_states(steps)

    def numbers(self, t: int) -> tuple[float, int]:
        """What picks the pair, and the start state."""
        return float(self.picks[t]), int(self.starts[t])

    def outcome(self, s: int, a: int) -> tuple[int, float]:
        """Next state and reward."""
        next_states, rewards = self.draws.sample(np.array([s]), np.array([a]))
        return int(next_states[0]), float(rewards[0])
