import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.testing import CheckFailure, check_model, check_simulator

MODEL = ca.worlds.garnet(n_states=8, n_actions=3, n_successors=3, discount=0.9, seed=3)


class Wheel:
    """A simulator on a ring of four states."""

    n_states, n_actions, discount, reward_range = 4, 2, 0.9, (0.0, 1.0)

    def start_states(self, n, rng):
        return rng.integers(self.n_states, size=n)

    def sample(self, states, actions, rng):
        return (states + actions) % 4, rng.random(states.size)


def broken(**members):
    return type("Broken", (Wheel,), members)()


class Remembering(Wheel):
    last = 0

    def sample(self, states, actions, rng):
        following = (states + self.last) % 4
        self.last = int(following[0])
        return following, rng.random(states.size)


class OwnGenerator(Wheel):
    def __init__(self):
        self.own = np.random.default_rng(0)

    def start_states(self, n, rng):
        return self.own.integers(4, size=n)


def spoilt(states, actions, rng):
    rewards = rng.random(states.size)
    rewards[states == 2] = np.nan
    return states, rewards


def greedy(states, actions, rng):
    states += 1
    return states % 4, np.zeros(states.size)


def fails(states, actions, rng):
    raise OSError("the licence server is gone")


def test_a_simulator_of_ones_own_passes():
    check_simulator(Wheel())


@pytest.mark.parametrize(
    ("simulator", "words"),
    [
        (Remembering(), "remembers something"),
        (OwnGenerator(), "start_states with seed 0 again differ"),
        (broken(sample=lambda self, *given: spoilt(*given)), "state 2, action . .* is nan"),
        (broken(sample=lambda self, s, a, rng: (s + 1, rng.random(s.size))), "is 4; states are 0 to 3"),
        (broken(sample=lambda self, s, a, rng: (s, 2 * rng.random(s.size))), "outside reward_range"),
        (broken(sample=lambda self, s, a, rng: (s / 1, rng.random(s.size))), "dtype float64"),
        (broken(sample=lambda self, s, a, rng: (s[:1], rng.random(s.size))), r"shape \(1,\)"),
        (broken(sample=lambda self, s, a, rng: (s, np.zeros((s.size, 1)))), r"rewards .* shape"),
        (broken(sample=lambda self, s, a, rng: s), "must return"),
        (broken(sample=lambda self, *given: greedy(*given)), "changes its argument"),
        (broken(sample=lambda self, *given: fails(*given)), r"sample\(.*seed 0\) raised OSError: the licence"),
        (broken(start_states=lambda self, n, rng: np.full(n, -1)), "is -1"),
        (broken(reward_range=(1.0, 0.0)), "reward_range"),
        (broken(n_states=2.5), "n_states is 2.5"),
        (broken(discount=1.5), "discount"),
        (object(), "no member 'n_states'"),
    ],
)
def test_broken_simulators_are_caught(simulator, words):
    with pytest.raises(CheckFailure, match=words):
        check_simulator(simulator)


def altered(**members):
    """A model with some members replaced after it was checked."""
    mdp = ca.worlds.garnet(n_states=8, n_actions=3, n_successors=3, discount=0.9, seed=3)
    mdp.__dict__.update(members)
    return mdp


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (altered(flow_into=lambda d: np.full(8, d.sum() / 8)), "adjointness"),
        (altered(transitions=0.9 * MODEL.transitions), "row sums"),
        (altered(expect_next=lambda v: np.zeros(8)), "expect_next has shape"),
        (altered(under=lambda policy: sp.csr_array(2 * np.eye(8))), "row sums of under"),
        (altered(under=lambda policy: sp.csr_array(np.eye(8))), r"under\(policy\) @ v"),
        (altered(start=np.full(8, 0.2)), "sum of start"),
        (altered(reward_square=np.zeros((8, 3))), "reward_square is below"),
        (altered(outcome_rewards=np.full(72, 0.5)), "outside reward_range"),
        (altered(outcome_rewards=np.linspace(0, 1, 72)), "against the outcome rewards"),
        (altered(discount=1.5), "discount"),
        (altered(allowed=np.zeros((8, 3), dtype=bool)), "allowed action"),
        (object(), "no member"),
    ],
)
def test_broken_models_are_caught(model, words):
    with pytest.raises(CheckFailure, match=words):
        check_model(model)
