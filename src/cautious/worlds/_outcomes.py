"""A model written outcome by outcome, for worlds that are told as a story rather than as arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.models.scene import Scene
from cautious.models.tabular import MDP


class Outcomes:
    """Collects (state, action, next state, probability, reward); pairs without any outcome are not allowed.

    Outcomes of a pair that share their next state are merged: probabilities add up, rewards are averaged.
    """

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.shape = (n_states, n_actions)
        self._found: dict[tuple[int, int], tuple[float, float]] = {}

    def add(self, state: int, action: int, next_state: int, probability: float, reward: float = 0.0) -> None:
        """One outcome; probability zero is no outcome."""
        if probability <= 0:
            return
        key = (state * self.shape[1] + action, next_state)
        chance, mean = self._found.get(key, (0.0, reward))
        total = chance + probability
        # in this form equal rewards stay exactly equal, so no reward is split in two by rounding
        self._found[key] = (total, mean + (reward - mean) * probability / total)

    def mdp(
        self,
        discount: float,
        *,
        scene: Scene,
        state_names: Sequence[str],
        action_names: Sequence[str],
        start: Any = None,
    ) -> MDP:
        """The model, with the reward of every outcome."""
        n_states, n_actions = self.shape
        pair, there = np.array(list(self._found)).T
        chance, mean = np.array(list(self._found.values())).T
        shape = (n_states * n_actions, n_states)
        allowed = np.zeros(shape[0], dtype=bool)
        allowed[pair] = True
        return MDP(
            sp.csr_array(sp.coo_array((chance, (pair, there)), shape=shape)),
            sp.csr_array(sp.coo_array((mean, (pair, there)), shape=shape)),
            discount,
            start,
            allowed=allowed.reshape(self.shape),
            state_names=state_names,
            action_names=action_names,
            scene=scene,
        )
