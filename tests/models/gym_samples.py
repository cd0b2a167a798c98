"""Environments for the tests of from_gym."""

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="extra gym")

VARIANTS = {
    "8x8": ("FrozenLake-v1", {"map_name": "8x8"}),
    "costly holes": ("FrozenLake-v1", {"reward_schedule": (1, -1, -0.01)}),
    "slippery cliff": ("CliffWalking-v1", {"is_slippery": True}),
    "rain": ("Taxi-v4", {"is_rainy": True}),
}


class Listed(gymnasium.Env):
    """An environment with a table of the caller's, and nothing else."""

    def __init__(self, table, n_states, n_actions, start=None, first_state=0, first_action=0):
        self.P = table
        self.observation_space = gymnasium.spaces.Discrete(n_states, start=first_state)
        self.action_space = gymnasium.spaces.Discrete(n_actions, start=first_action)
        if start is not None:
            self.initial_state_distrib = np.array(start)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return int(self.observation_space.start), {}

    def step(self, action):
        raise AssertionError("a table needs no steps")


class Corridor(gymnasium.Env):
    """Places 10 to 15: walk or jump right; jumping over 15 ends. Deterministic, without a table."""

    observation_space = gymnasium.spaces.Discrete(6, start=10)
    action_space = gymnasium.spaces.Discrete(2, start=1)
    first, noise = 10, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.first
        return self.place, {}

    def set_state(self, place):
        assert place != 12 or self.first == 12, "nobody can be at place 12"
        self.place = place

    def step(self, action):
        if self.noise is not None:
            self.noise(self)
        goal = self.place + (1 if action == 1 else 3)
        goal += goal == 12
        ended = goal > 15
        reward = -1.0 if action == 1 else -2.5
        self.place = min(goal, 15)
        return self.place, reward, ended, False, {}
