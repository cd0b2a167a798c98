"""A model that episodes are recorded in."""

import numpy as np
import pytest

import cautious as ca


@pytest.fixture
def lift():
    """Three floors; going down is not possible on the lowest."""
    transitions = np.zeros((3, 2, 3))
    for state in range(3):
        transitions[state, 0, max(state - 1, 0)] = transitions[state, 1, min(state + 1, 2)] = 1.0
    return ca.MDP(
        transitions,
        np.arange(6.0).reshape(3, 2),
        0.8,
        allowed=[[False, True], [True, True], [True, True]],
        state_names=["low", "mid", "high"],
        action_names=["down", "up"],
    )
