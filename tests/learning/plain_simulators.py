"""Simulators for tests: plain Python classes, no tables that kernels could use."""

import numpy as np

import cautious as ca


class Plain:
    """A model behind the bare protocol; counts what is drawn, and may break at a call."""

    def __init__(self, mdp, breaks_at=None):
        inner = mdp.simulator()
        self.n_states, self.n_actions = mdp.shape
        self.discount, self.reward_range = mdp.discount, mdp.reward_range
        self.inner, self.breaks_at = inner, breaks_at
        self.drawn = self.calls = 0

    def start_states(self, n, rng):
        return self.inner.start_states(n, rng)

    def sample(self, states, actions, rng):
        self.calls += 1
        if self.breaks_at is not None and self.calls >= self.breaks_at:
            raise ConnectionError("the lab is closed")
        self.drawn += len(states)
        return self.inner.sample(states, actions, rng)


def small(seed=0, n_states=5, n_actions=3, discount=0.8):
    """A random model with rewards per outcome."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, n_actions))
    rewards = rng.normal(size=(n_states, n_actions, n_states))
    return ca.MDP(transitions, rewards, discount, rng.dirichlet(np.ones(n_states)))
