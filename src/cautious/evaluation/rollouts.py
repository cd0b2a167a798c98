"""Episodes of a policy, all at once; whatever a simulator returns is checked before it is used."""

from typing import Any

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_policy
from cautious.models.simulator_checks import checked_sample, checked_states
from cautious.models.simulators import Simulator


class Rollout:
    """All episodes at once, one step at a time; errors name the call, the step and the seed."""

    def __init__(self, simulator: Simulator, policy: Array, masks: dict[str, Mask], seed: int) -> None:
        self.simulator, self.masks, self.seed = simulator, masks, seed
        self.rng = np.random.default_rng(seed)
        self.cumulative = cumulative_rows(policy)

    def run(self, episodes: int, horizon: int) -> tuple[Array, dict[str, float]]:
        """Returns (episodes,) and the share of discounted time in each set."""
        gamma = float(self.simulator.discount)
        states = checked_states(self.simulator, "start_states", self._start(episodes), episodes, self._when(-1))
        returns, time, weight, total = np.zeros(episodes), dict.fromkeys(self.masks, 0.0), 1.0, 0.0
        for step in range(horizon):
            for name, mask in self.masks.items():
                time[name] += weight * float(np.count_nonzero(mask[states])) / episodes
            actions = drawn_actions(self.cumulative, states, self.rng)
            states, rewards = checked_sample(
                self.simulator, self._sample(states, actions, step), episodes, self._when(step)
            )
            returns += weight * rewards
            total += weight
            weight *= gamma
        return returns, {name: value / total for name, value in time.items()}

    def _start(self, count: int) -> Any:
        try:
            return self.simulator.start_states(count, self.rng)
        except Exception as error:
            error.add_note(f"raised by simulator.start_states{self._when(-1)}")
            raise

    def _sample(self, states: Indices, actions: Indices, step: int) -> Any:
        try:
            return self.simulator.sample(states, actions, self.rng)
        except Exception as error:
            error.add_note(f"raised by simulator.sample{self._when(step)}")
            raise

    def _when(self, step: int) -> str:
        return f" (seed {self.seed})" if step < 0 else f" (step {step}, seed {self.seed})"


def cumulative_rows(policy: Array) -> Array:
    """Running sums of a policy's rows; the last action with a chance takes what rounding leaves over."""
    cumulative: Array = np.cumsum(policy, axis=1)
    last = policy.shape[1] - 1 - np.argmax(policy[:, ::-1] > 0, axis=1)
    cumulative[np.arange(policy.shape[1]) >= last[:, None]] = np.inf
    return cumulative


def drawn_actions(cumulative: Array, states: Indices, rng: np.random.Generator) -> Indices:
    """One action for each state, by ``cumulative_rows`` of the policy."""
    draws = rng.random(states.size)
    return np.asarray(np.count_nonzero(draws[:, None] >= cumulative[states], axis=1), dtype=np.int64)


def simulator_policy(simulator: Simulator, policy: Any) -> Array:
    """A policy (S, A) of a simulator: rows sum to one. Which pairs are allowed only the simulator knows."""
    return as_policy(policy, (simulator.n_states, simulator.n_actions))
