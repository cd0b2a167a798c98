"""A model that a solver which forgets the mask gets wrong."""

import numpy as np

import cautious as ca


def masked(seed=0, n_states=7, n_actions=3):
    """A random model whose actions differ by state, and where two states cannot be reached."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    transitions[:5, :, 5:] = 0
    transitions /= transitions.sum(axis=2, keepdims=True)
    allowed = rng.random((n_states, n_actions)) < 0.6
    allowed[:, 1] |= ~allowed.any(axis=1)
    start = np.append(np.full(5, 0.2), [0.0, 0.0])
    # the rewards of pairs that do not exist would tempt a solver that forgot the mask
    rewards = np.where(allowed, rng.normal(size=(n_states, n_actions)), 100.0)
    return ca.MDP(transitions, rewards, 0.9, start, allowed=allowed)
