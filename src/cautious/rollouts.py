"""Episodes of a policy, all at once; whatever a simulator returns is checked before it is used."""

from typing import Any

import numpy as np

from cautious._checks import (
    Array,
    Indices,
    Mask,
    as_count,
    as_floats,
    as_number,
    as_policy,
    check_finite,
    check_shape,
    first_bad,
)
from cautious.errors import InputError
from cautious.models.simulators import Simulator


class Rollout:
    """All episodes at once, one step at a time; errors name the call, the step and the seed."""

    def __init__(self, simulator: Simulator, policy: Array, masks: dict[str, Mask], seed: int) -> None:
        self.simulator, self.masks, self.seed = simulator, masks, seed
        self.rng = np.random.default_rng(seed)
        cumulative = np.cumsum(policy, axis=1)
        # the last action with a chance takes what rounding leaves over, so no draw falls beside the row
        last = policy.shape[1] - 1 - np.argmax(policy[:, ::-1] > 0, axis=1)
        cumulative[np.arange(policy.shape[1]) >= last[:, None]] = np.inf
        self.cumulative = cumulative
        low, high = simulator.reward_range
        slack = 1e-9 * max(abs(low), abs(high))
        self.low, self.high = low - slack, high + slack

    def run(self, episodes: int, horizon: int) -> tuple[Array, dict[str, float]]:
        """Returns (episodes,) and the share of discounted time in each set."""
        gamma = float(self.simulator.discount)
        states = self._states("start_states", self._start(episodes), episodes, -1)
        returns, time, weight, total = np.zeros(episodes), dict.fromkeys(self.masks, 0.0), 1.0, 0.0
        for step in range(horizon):
            for name, mask in self.masks.items():
                time[name] += weight * float(np.count_nonzero(mask[states])) / episodes
            draws = self.rng.random(episodes)
            actions = np.count_nonzero(draws[:, None] >= self.cumulative[states], axis=1).astype(np.int64)
            drawn = self._sample(states, actions, step)
            if not isinstance(drawn, tuple | list) or len(drawn) != 2:
                raise InputError(f"simulator.sample must return (next_states, rewards), found {type(drawn).__name__}")
            states = self._states("sample: next_states", drawn[0], episodes, step)
            returns += weight * self._rewards(drawn[1], episodes, step)
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

    def _states(self, member: str, found: Any, count: int, step: int) -> Indices:
        states = np.asarray(found)
        check_shape(f"simulator.{member}{self._when(step)}", states, (count,), "(n,)")
        if not np.issubdtype(states.dtype, np.integer):
            raise InputError(f"simulator.{member} must hold whole numbers, found dtype {states.dtype}")
        bad = (states < 0) | (states >= self.simulator.n_states)
        if bad.any():
            where = first_bad(bad)
            raise InputError(
                f"simulator.{member}{list(where)} is {states[where]}{self._when(step)}; "
                f"states are numbered 0 to {self.simulator.n_states - 1}"
            )
        return states.astype(np.int64)

    def _rewards(self, found: Any, count: int, step: int) -> Array:
        name = f"simulator.sample: rewards{self._when(step)}"
        rewards = np.asarray(found)
        if not np.issubdtype(rewards.dtype, np.number) or np.iscomplexobj(rewards):
            raise InputError(f"{name} must hold real numbers, found dtype {rewards.dtype}")
        check_shape(name, rewards, (count,), "(n,)")
        rewards = rewards.astype(np.float64)
        check_finite(name, rewards)
        bad = (rewards < self.low) | (rewards > self.high)
        if bad.any():
            where = first_bad(bad)
            raise InputError(
                f"{name}{list(where)} is {rewards[where]}; reward_range promises {self.simulator.reward_range}"
            )
        return rewards

    def _when(self, step: int) -> str:
        return f" (seed {self.seed})" if step < 0 else f" (step {step}, seed {self.seed})"


def check_members(simulator: Simulator) -> None:
    """Refuse a simulator whose sizes, discount or reward range cannot be."""
    as_count("simulator.n_states", simulator.n_states)
    as_count("simulator.n_actions", simulator.n_actions)
    as_number("simulator.discount", simulator.discount, 0, 1, open_ends=")")
    bounds = as_floats("simulator.reward_range", simulator.reward_range)
    check_shape("simulator.reward_range", bounds, (2,), "(low, high)")
    if bounds[0] > bounds[1]:
        raise InputError(f"simulator.reward_range is {simulator.reward_range}; low must not exceed high")


def simulator_policy(simulator: Simulator, policy: Any) -> Array:
    """A policy (S, A) of a simulator: rows sum to one. Which pairs are allowed only the simulator knows."""
    return as_policy(policy, (simulator.n_states, simulator.n_actions))
