"""A model written outcome by outcome, for worlds that are told as a story rather than as arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cautious.models.outcome_lists import OutcomeList, merged_outcomes
from cautious.models.scene import Scene
from cautious.models.tabular import MDP

# levels of anything that a world counts
MOST_LEVELS = 10_000_000


class Outcomes:
    """Collects (state, action, next state, probability, reward); pairs without any outcome are not allowed."""

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.shape = (n_states, n_actions)
        self._found: list[tuple[int, int, float, float]] = []

    def add(self, state: int, action: int, next_state: int, probability: float, reward: float = 0.0) -> None:
        """One outcome; probability zero is no outcome."""
        if probability > 0:
            self._found.append((state * self.shape[1] + action, next_state, probability, reward))

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
        listed = OutcomeList(*(np.array(column) for column in zip(*self._found, strict=True)))
        return MDP(
            **merged_outcomes(self.shape, listed, per_outcome=True)._asdict(),
            discount=discount,
            start=start,
            state_names=state_names,
            action_names=action_names,
            scene=scene,
        )
