"""Models for the tests of files, and what it means that two are the same."""

import numpy as np

import cautious as ca

ALLOWED = np.array([[0, 1], [0, 1], [1, 0], [1, 1]], bool)
OPTIONS = {
    "plain": {},
    "rewards of states": {"rewards": np.repeat([[0.1], [-2.5], [0.0], [1e-300]], 2, axis=1)},
    "rewards of outcomes": {"rewards": np.random.default_rng(1).normal(size=(4, 2, 4))},
    "equal outcomes": {"rewards": np.repeat(np.random.default_rng(2).normal(size=(4, 2, 1)), 4, axis=2)},
    "spread": {"rewards": np.ones((4, 2)), "reward_square": np.full((4, 2), 3.0)},
    "hardly any spread": {"rewards": np.full((4, 2), 3.0), "reward_square": np.full((4, 2), 9.0 * (1 + 1e-15))},
    "no squares": {"rewards": np.full((4, 2), 1e200)},
    "names": {"state_names": ["é", "b c", "c,d", '"'], "action_names": ["left", "right"]},
    "odd names": {"action_names": ["go left", "right"]},
    "forbidden": {"allowed": ALLOWED},
    "never allowed": {"allowed": np.array([[0, 1]] * 4, bool)},
    "forbidden and named": {"allowed": ALLOWED, "action_names": ["left", "right"]},
    "scene": {"scene": ca.Scene("Title", "A story.", "day", "EUR", ("..", "#.", ".#"), ("<", ">"))},
}


def example(name="plain", start=None, seed=0):
    rng = np.random.default_rng(seed)
    options = dict(OPTIONS[name])
    transitions = rng.dirichlet(np.ones(4), size=(4, 2))
    transitions[rng.random(transitions.shape) < 0.4] = 0.0
    transitions[:, :, 0] += 1e-3
    transitions /= transitions.sum(axis=2, keepdims=True)
    rewards = options.pop("rewards", rng.normal(size=(4, 2)))
    return ca.MDP(
        transitions, rewards, 0.93, rng.dirichlet(np.ones(4)) if start is None else np.eye(4)[start], **options
    )


def assert_same(found, wanted):
    """Bit for bit."""
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found.transitions, name), getattr(wanted.transitions, name)), name
    for name in ("rewards", "reward_square", "start", "allowed"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
    assert (found.outcome_rewards is None) == (wanted.outcome_rewards is None)
    if wanted.outcome_rewards is not None:
        assert np.array_equal(found.outcome_rewards, wanted.outcome_rewards)
    for name in ("discount", "state_names", "action_names", "scene"):
        assert getattr(found, name) == getattr(wanted, name), name
