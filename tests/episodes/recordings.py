"""Episodes as people record them, by code that shares nothing with the package."""

import csv
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EpisodeData:
    """A look-alike of ``minari.EpisodeData``."""

    id: int
    observations: object
    actions: object
    rewards: object
    terminations: object
    truncations: object
    infos: object


def record(states, actions, terminated, truncated=False):
    marks = np.zeros((2, len(states) - 1), dtype=bool)
    marks[:, -1] = terminated, truncated
    return EpisodeData(0, np.array(states), None if actions is None else np.array(actions), None, *marks, {})


def by_hand(episodes, gamma, at_end, allowed):
    """The pooled estimate in plain loops; episodes are (states, actions, final or None, ended)."""
    total, mass = np.zeros(allowed.shape), 0.0
    for states, actions, final, ended in episodes:
        for t, (state, action) in enumerate(zip(states, actions, strict=True)):
            total[state, action] += (1 - gamma) * gamma**t
            mass += (1 - gamma) * gamma**t
        if at_end == "absorb" and ended:
            left = gamma ** len(states)
            mass += left
            if final is None:
                total[states[-1], actions[-1]] += left
            else:
                total[final] += left * allowed[final] / allowed[final].sum()
    return total / mass


def lives(mdp, policy, count, horizon, seed):
    """States (count, horizon + 1) and actions (count, horizon) of a policy, by inverse transform sampling."""
    rng, rows = np.random.default_rng(seed), mdp.transitions.toarray()
    states, actions = np.empty((count, horizon + 1), dtype=int), np.empty((count, horizon), dtype=int)
    states[:, 0] = rng.choice(mdp.n_states, size=count, p=mdp.start)
    for t in range(horizon):
        actions[:, t] = (rng.random((count, 1)) > np.cumsum(policy[states[:, t]], axis=1)).sum(axis=1)
        nexts = np.cumsum(rows[states[:, t] * mdp.n_actions + actions[:, t]], axis=1)
        states[:, t + 1] = np.minimum((rng.random((count, 1)) > nexts).sum(axis=1), mdp.n_states - 1)
    return states, actions


def until(states, actions, goal, count):
    """Records that end on arrival at the goal; those that never arrive are truncated."""
    found = []
    for s, a in zip(states[:count], actions[:count], strict=True):
        there = np.flatnonzero(s == goal)
        end = int(there[0]) if there.size else a.size
        found.append(record(s[: end + 1], a[:end], terminated=there.size > 0, truncated=there.size == 0))
    return found


def assert_close_in_errors(prior, wanted, most=5.0):
    """Within a few standard errors everywhere, and not just because the errors are huge."""
    assert prior.sampling_error < 0.05
    assert np.all(np.abs(prior.occupancy - wanted) <= most * prior.standard_error + 1e-4)


EPISODES = {"a": [(0, 1), (1, 1), (2, 0)], "b": [(1, 0), (0, 1)], "7": [(2, 1)]}


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path
