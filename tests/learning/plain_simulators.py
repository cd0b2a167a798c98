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


class Hidden:
    """A known model that tells nothing; ``spread`` makes its rewards vary by themselves."""

    def __init__(self, mdp, spread=0.0):
        self._table, self._spread = mdp.simulator(), spread
        self.n_states, self.n_actions, self.discount = mdp.n_states, mdp.n_actions, mdp.discount
        low, high = mdp.reward_range
        self.reward_range = (low - spread, high + spread)

    def start_states(self, n, rng):
        return self._table.start_states(n, rng)

    def sample(self, states, actions, rng):
        following, rewards = self._table.sample(states, actions, rng)
        return following, rewards + self._spread * rng.uniform(-1, 1, size=rewards.size)


class Spread(ca.Risk):
    """A risk as a user would write it."""

    def value(self, d):
        return 0.5 * float(np.sum((d - 1 / d.size) ** 2))

    def gradient(self, d):
        return d - 1 / d.size


def small(seed=0, n_states=5, n_actions=3, discount=0.8):
    """A random model with rewards per outcome."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, n_actions))
    rewards = rng.normal(size=(n_states, n_actions, n_states))
    return ca.MDP(transitions, rewards, discount, rng.dirichlet(np.ones(n_states)))
