"""Logs drawn from known models, so that the truth is known."""

import numpy as np


def drawn_log(mdp, episodes, horizon, rng, policy=None):
    """Columns of rollouts, episode by episode."""
    simulator, (n_states, n_actions) = mdp.simulator(), mdp.shape
    policy = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True) if policy is None else policy
    running = np.cumsum(policy, axis=1)
    state = rng.choice(n_states, size=episodes, p=mdp.start)
    parts = []
    for step in range(horizon):
        action = np.minimum((rng.random(episodes)[:, None] > running[state]).sum(axis=1), n_actions - 1)
        next_state, reward = simulator.sample(state, action, rng)
        parts.append((np.arange(episodes), np.full(episodes, step), state, action, reward, next_state))
        state = next_state
    names = ("episode", "step", "state", "action", "reward", "next_state")
    columns = dict(zip(names, (np.concatenate(part) for part in zip(*parts, strict=True)), strict=True))
    order = np.lexsort((columns["step"], columns["episode"]))
    return {name: column[order] for name, column in columns.items()}


def in_the_model(mdp, logged, policy):
    """A policy over the log's labels as one over the states of the model that was logged."""
    table = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    states, actions = (list(labels) for labels in (logged.log.state_labels, logged.log.action_labels))
    table[states] = 0.0
    table[np.ix_(states, actions)] = policy[: len(states)]
    return table
