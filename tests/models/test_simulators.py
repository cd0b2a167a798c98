"""One Python function as a simulator: the same transitions as the model it was made from, and early refusals."""

import pickle
import re

import numpy as np
import pytest

import cautious as ca
from cautious.models.simulators import TellsMore

MDP = ca.worlds.river_swim()
TABLE = MDP.transitions.toarray().reshape(6, 2, 6)


def swim(state, action, rng):
    next_state = int(rng.choice(6, p=TABLE[state, action]))
    return next_state, float(MDP.rewards[state, action])


def first(rng):
    return int(rng.integers(2))


def make(step=swim, **changes):
    arguments = {"n_states": 6, "n_actions": 2, "discount": MDP.discount, "reward_range": MDP.reward_range}
    return ca.FunctionSimulator(step, **(arguments | changes))


def test_it_is_a_simulator_that_passes_the_public_check():
    simulator = make()
    assert isinstance(simulator, ca.Simulator)
    assert isinstance(simulator, TellsMore)
    ca.testing.check_simulator(simulator)
    ca.testing.check_simulator(make(start=first))


def test_draws_follow_the_function_s_distribution():
    rng, n = np.random.default_rng(0), 4000
    for state, action in ((0, 1), (3, 1), (5, 0)):
        next_states, rewards = make().sample(np.full(n, state), np.full(n, action), rng)
        share = np.bincount(next_states, minlength=6) / n
        # five standard deviations
        assert np.abs(share - TABLE[state, action]).max() < 5 * np.sqrt(0.25 / n)
        assert set(rewards) == {MDP.rewards[state, action]}


def test_the_start_is_a_state_a_distribution_a_function_or_uniform():
    rng = np.random.default_rng(0)
    cases = [(None, np.full(6, 1 / 6)), (2, np.eye(6)[2]), ([0.5, 0.5, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0, 0])]
    for start, wanted in cases:
        simulator = make(start=start)
        assert np.array_equal(simulator.known.start, wanted)
        share = np.bincount(simulator.start_states(6000, rng), minlength=6) / 6000
        assert np.abs(share - wanted).max() < 0.04
    assert make(start=first).known.start is None
    assert set(make(start=first).start_states(100, rng)) == {0, 1}


def test_it_is_picklable_and_draws_the_same_after_the_journey():
    simulator = make(start=first, state_names=list("abcdef"))
    copy = pickle.loads(pickle.dumps(simulator))
    pairs = np.arange(6), np.array([0, 1, 0, 1, 0, 1])
    for one, two in zip(
        simulator.sample(*pairs, np.random.default_rng(3)), copy.sample(*pairs, np.random.default_rng(3)), strict=True
    ):
        assert np.array_equal(one, two)
    assert copy.known.state_names == tuple("abcdef")


def test_forbidden_pairs_are_never_stepped():
    allowed = np.ones((6, 2), dtype=bool)
    allowed[4, 1] = False
    simulator = make(allowed=allowed)
    with pytest.raises(ca.InputError, match="action 1 is not allowed in state 4"):
        simulator.sample(np.array([0, 4]), np.array([1, 1]), np.random.default_rng(0))
    ca.testing.check_simulator(simulator)


REFUSED = {
    "step": ({"step": 3}, "step must be a function of (state, action, rng), found 3"),
    "n_states": ({"n_states": 0}, "n_states must be a whole number of at least 1, found 0"),
    "n_actions": ({"n_actions": 2.0}, "n_actions must be a whole number of at least 1, found 2.0"),
    "discount": ({"discount": 1.5}, "discount is 1.5; it must be a finite number of at least 0 and of at most 1"),
    "range order": ({"reward_range": (1, 0)}, "reward_range is (1.0, 0.0); low must not exceed high"),
    "range shape": ({"reward_range": 1.0}, "reward_range has shape (); expected (2,) = (low, high)"),
    "range nan": ({"reward_range": (np.nan, 1)}, "reward_range[0] is nan"),
    "start sum": ({"start": np.full(6, 0.5)}, "start sums to 3; it must sum to 1"),
    "start shape": ({"start": [1.0]}, "start has shape (1,); expected (6,) = (S,)"),
    "start state": ({"start": 6}, "start is 6; states are numbered 0 to 5"),
    "start half": ({"start": 0.5}, "start must be a whole number, found 0.5"),
    "allowed shape": ({"allowed": np.ones((2, 6))}, "allowed has shape (2, 6); expected (6, 2) = (S, A)"),
    "allowed row": ({"allowed": np.eye(6, 2)}, "allowed[2] forbids every action; each state needs at least one"),
    "state names": ({"state_names": ["a"]}, "state_names has 1 entries; expected 6"),
    "action names": ({"action_names": ["a", "a"]}, "action_names[1] is 'a', already the name of number 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_arguments_are_refused_with_their_name(case):
    changes, message = REFUSED[case]
    with pytest.raises(ca.InputError, match=re.escape(message)):
        make(**changes)


OUTCOMES = {
    "nothing": (None, "step(2, 1, rng) must return (next_state, reward), found None"),
    "three": ((1, 0.0, {}), "step(2, 1, rng) must return (next_state, reward), found (1, 0.0, {})"),
    "half a state": ((1.5, 0.0), "the next state of step(2, 1, rng) must be a whole number, found 1.5"),
    "too large": ((6, 0.0), "the next state of step(2, 1, rng) is 6; states are numbered 0 to 5"),
    "negative": ((-1, 0.0), "the next state of step(2, 1, rng) is -1"),
    "text": ((1, "much"), "the reward of step(2, 1, rng) must be a number, found 'much'"),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_bad_outcomes_name_the_pair(case):
    outcome, message = OUTCOMES[case]
    with pytest.raises(ca.InputError, match=re.escape(message)):
        make(lambda state, action, rng: outcome).sample(np.array([2]), np.array([1]), np.random.default_rng(0))


def test_a_start_function_is_checked():
    with pytest.raises(ca.InputError, match=re.escape("start(rng), draw 0, is 9; states are numbered 0 to 5")):
        make(start=lambda rng: 9).start_states(3, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        ([0, 1], [0], "must be one-dimensional, same length"),
        ([0.5], [0], "states must hold whole numbers"),
        ([6], [0], r"states\[0\] is 6; expected 0 to 5"),
        ([0, 0], [0, -1], r"actions\[1\] is -1; expected 0 to 1"),
        ([[0], [0, 1]], [0], "states is not a rectangular array"),
    ],
)
def test_bad_pairs_are_refused(states, actions, message):
    with pytest.raises(ca.InputError, match=message):
        make().sample(states, actions, np.random.default_rng(0))
