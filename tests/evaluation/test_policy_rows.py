"""Whose policy it is: rows are matched by name, other names are refused, and rounding is no spread."""

import numpy as np
import pytest

import cautious as ca

STATES, ACTIONS = ("fresh", "leaky", "seized"), ("pump", "overhaul")
PROBLEM = {
    "transitions": np.array(
        [[[0.8, 0.2, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5], [0.9, 0.1, 0.0]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]
    ),
    "rewards": np.array([[120.0, -200.0], [70.0, -250.0], [0.0, -900.0]]),
    "start": np.array([1.0, 0.0, 0.0]),
}


def model(states=STATES, actions=ACTIONS, order=(0, 1, 2), action_order=(0, 1)):
    """The same machine, its states and actions written down in another order."""
    transitions = PROBLEM["transitions"][np.ix_(order, action_order, order)]
    return ca.MDP(
        transitions,
        PROBLEM["rewards"][np.ix_(order, action_order)],
        0.9,
        PROBLEM["start"][list(order)],
        state_names=None if states is None else [states[i] for i in order],
        action_names=None if actions is None else [actions[i] for i in action_order],
    )


@pytest.fixture(scope="module")
def solution():
    return ca.solve(ca.Problem(model()))


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0), (0, 1, 2)])
@pytest.mark.parametrize("action_order", [(0, 1), (1, 0)])
def test_a_solution_is_matched_by_name(solution, order, action_order):
    other = model(order=order, action_order=action_order)
    assert ca.evaluate(other, solution, episodes=2).exact_mean == pytest.approx(solution.expected_return)


def test_so_it_is_by_a_simulator_that_tells_its_names(solution):
    straight = ca.evaluate(model().simulator(), solution, episodes=2000)
    turned = ca.evaluate(model(order=(2, 0, 1)).simulator(), solution, episodes=2000)
    assert abs(turned.mean - straight.mean) < 5 * (turned.standard_error + straight.standard_error)
    assert abs(turned.mean - solution.expected_return) < 5 * turned.standard_error + turned.truncation_error


def test_other_names_are_another_model(solution):
    with pytest.raises(
        ca.IncompatibleError, match="the policy is for states fresh, leaky, seized; this model has ok, leaky, dead"
    ):
        ca.evaluate(model(states=("ok", "leaky", "dead")), solution)
    with pytest.raises(ca.IncompatibleError, match="for actions pump, overhaul; this model has pump, replace"):
        ca.evaluate(model(actions=("pump", "replace")), solution)
    with pytest.raises(ca.IncompatibleError, match="this model has ok, leaky, dead"):
        ca.evaluate(model(states=("ok", "leaky", "dead")).simulator(), solution)


def test_of_many_names_those_that_differ_are_shown():
    names = [f"s{i}" for i in range(50)]
    even = {"rewards": np.ones((50, 1)), "transitions": np.full((50, 1, 50), 0.02)}
    solution = ca.solve(ca.Problem(ca.MDP(**even, state_names=names)))
    with pytest.raises(ca.IncompatibleError, match=r"for states s49, s0, .* and 44 more; this model has last, s0, "):
        ca.evaluate(ca.MDP(**even, state_names=[*names[:-1], "last"]), solution)


def test_without_names_on_one_side_the_position_counts(solution):
    assert ca.evaluate(model(states=None), solution, episodes=2).exact_mean == pytest.approx(solution.expected_return)
    nameless = ca.solve(ca.Problem(model(states=None, actions=None)))
    assert ca.evaluate(model(), nameless, episodes=2).exact_mean == pytest.approx(solution.expected_return)
    small = ca.MDP(np.ones((1, 2, 1)), np.ones((1, 2)))
    with pytest.raises(ca.InputError, match="policy has shape"):
        ca.evaluate(small, solution)


def test_states_called_by_their_numbers_are_positions(solution):
    """As in a log of numbers; but numbers that count from one are other names."""
    numbered = ca.solve(ca.Problem(model(states=("0", "1", "2"), actions=("0", "1"))))
    assert ca.evaluate(model(), numbered, episodes=2).exact_mean == pytest.approx(solution.expected_return)
    back = ca.evaluate(model(states=("0", "1", "2")), solution, episodes=2)
    assert back.exact_mean == pytest.approx(solution.expected_return)
    with pytest.raises(ca.IncompatibleError, match="for states 0, 1, 2; this model has 1, 2, 3"):
        ca.evaluate(model(states=("1", "2", "3")), numbered)
    with pytest.raises(ca.IncompatibleError, match="for states 1, 2, 3; this model has fresh, leaky, seized"):
        ca.evaluate(model(), ca.solve(ca.Problem(model(states=("1", "2", "3")))))


def test_a_forbidden_pair_is_called_by_its_names():
    transitions, rewards = PROBLEM["transitions"], PROBLEM["rewards"]
    allowed = [[True, True], [True, True], [False, True]]
    always = np.array([[1.0, 0.0]] * 3)
    named = ca.MDP(transitions, rewards, allowed=allowed, state_names=STATES, action_names=ACTIONS)
    with pytest.raises(
        ca.InputError, match="the policy takes pump in seized with probability 1, which is not allowed there"
    ):
        ca.evaluate(named, always)
    with pytest.raises(ca.InputError, match="the policy takes action 0 in state 2 with probability 1, which is not"):
        ca.evaluate(ca.MDP(transitions, rewards, allowed=allowed), always)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("pay", [0.1, 87.3, -1e6])
def test_the_same_return_every_time_has_no_spread(discount, pay):
    """However it moves: every step pays the same."""
    rng = np.random.default_rng(3)
    transitions = rng.dirichlet(np.ones(30), size=(30, 1))
    found = ca.evaluate(ca.MDP(transitions, np.full((30, 1), pay), discount), np.ones((30, 1)), 3, horizon=200)
    assert (found.variance, found.exact_variance) == (0.0, 0.0)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_small_spread_is_not_taken_for_rounding(size):
    """Half of the time 1 + 1e-9 is paid and else 1, once: the variance is 1e-18 / 4."""
    transitions = np.array([[[0.0, 0.5, 0.5]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]])
    rewards = np.zeros((3, 1, 3))
    rewards[0, 0, 1:] = size * np.array([1.0, 1.0 + 1e-9])
    mdp = ca.MDP(transitions, rewards, 0.5, [1, 0, 0])
    found = ca.evaluate(mdp, np.ones((3, 1)), 1000)
    assert found.exact_variance == pytest.approx(size**2 * 0.25e-18, rel=1e-5)
    assert found.variance == pytest.approx(size**2 * 0.25e-18, rel=0.1)
