"""Agents of others are judged as the tables that they are; bad ones are refused with the observation's name."""

import re

import numpy as np
import pytest

import cautious as ca
from random_models import random_model

gymnasium = pytest.importorskip("gymnasium", reason="extra gym")


class Careful:
    """Called like an agent of Stable-Baselines3: an array for the action, and nothing remembered."""

    def __init__(self, actions):
        self.actions = actions

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        return np.array(self.actions[observation]), state


class Plain:
    def __init__(self, actions):
        self.actions = actions

    def predict(self, observation):
        return self.actions[observation]


class Counts:
    """Remembers how many steps it has taken, and takes another action at every other one."""

    def predict(self, observation, state=None, deterministic=False):
        steps = 0 if state is None else state
        return steps % 2, steps + 1


FORMS = {
    "array": lambda actions: actions,
    "list": lambda actions: actions.tolist(),
    "function": lambda actions: lambda state: int(actions[state]),
    "predict": Plain,
    "Stable-Baselines3": Careful,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_all_forms_of_a_policy_are_the_same_policy(form, seed):
    rng = np.random.default_rng(seed)
    mdp = random_model(rng).mdp()
    actions = np.array([rng.choice(np.flatnonzero(row)) for row in mdp.allowed])
    table = np.eye(mdp.n_actions)[actions]
    given, known = ca.evaluate(mdp, FORMS[form](actions), episodes=50), ca.evaluate(mdp, table, episodes=50)
    # states that are not reached do not matter
    assert given.exact_mean == pytest.approx(known.exact_mean, rel=1e-12)
    assert given.exact_variance == pytest.approx(known.exact_variance, rel=1e-9, abs=1e-12)
    assert np.array_equal(given.returns, known.returns)
    simulated = ca.evaluate(mdp.simulator(), FORMS[form](actions), episodes=50)
    assert simulated.exact_mean is None
    reference = known if form in ("array", "list") else None
    if reference is not None:
        assert np.array_equal(simulated.returns, reference.returns)
    assert abs(simulated.mean - known.exact_mean) <= 6 * np.sqrt(known.exact_variance / 50) + simulated.truncation_error
    found = ca.compare(ca.Problem(mdp), methods=[], policies={"mine": FORMS[form](actions)})
    assert [(row.method, row.whose, row.status) for row in found.rows] == [("mine", "yours", "given")]
    assert found.rows[0].objective == pytest.approx(known.exact_mean, rel=1e-9)


def coin(discount=0.5):
    """Heads and tails for ever; action 1 pays 1."""
    return ca.MDP(np.full((2, 2, 2), 0.5), np.array([[0.0, 1.0], [0.0, 1.0]]), discount)


def test_an_agent_that_answers_at_random_is_simulated_as_it_is():
    rng = np.random.default_rng(0)
    found = ca.evaluate(coin(), lambda state: int(rng.random() < 0.3), episodes=4000)
    assert found.exact_mean is None
    # the sum of gamma^t b_t with b_t of mean 0.3: mean 0.6, variance 0.21 / (1 - 0.25)
    assert abs(found.mean - 0.6) <= 6 * np.sqrt(0.28 / 4000) + found.truncation_error
    assert found.variance == pytest.approx(0.28, rel=0.2)
    with pytest.raises(
        ca.IncompatibleError, match=re.escape("policies['random']: it remembers, or answers differently")
    ):
        ca.compare(ca.Problem(coin()), methods=[], policies={"random": lambda state: int(rng.random() < 0.3)})


def test_a_rare_change_of_mind_is_found():
    rng = np.random.default_rng(0)
    assert ca.evaluate(coin(), lambda state: int(rng.random() < 0.01), episodes=2).exact_mean is None


def test_an_agent_is_given_its_memory_back_in_every_episode():
    found = ca.evaluate(coin(), Counts(), episodes=20, horizon=4)
    # 0, 1, 0, 1: gamma + gamma^3
    assert found.exact_mean is None
    assert np.array_equal(found.returns, np.full(20, 0.5 + 0.125))
    assert np.array_equal(ca.evaluate(coin().simulator(), Counts(), episodes=3, horizon=4).returns, np.full(3, 0.625))


def test_agents_of_an_explored_model_see_its_own_objects():
    def outcomes(wear, action):
        return [(1.0, 0, -4.0)] if action == "repair" else [(0.7, wear, 1.0), (0.3, wear + 1, 1.0)]

    mdp = ca.from_function([0], lambda wear: ["run", "repair"] if wear < 3 else ["repair"], outcomes, discount=0.9)
    given = ca.evaluate(mdp, lambda wear: "repair" if wear == 3 else "run", episodes=5)
    assert given.exact_mean == pytest.approx(ca.evaluate(mdp, np.array([0, 0, 0, 1]), episodes=5).exact_mean, rel=1e-12)
    with pytest.raises(
        ca.InputError, match=re.escape("policy(3) returned 'run', action 0, which is not allowed there")
    ):
        ca.evaluate(mdp, lambda wear: "run")
    with pytest.raises(ca.InputError, match=re.escape("policy(0) returned 'sell'; expected one of the actions ['run'")):
        ca.evaluate(mdp, lambda wear: "sell")
    with pytest.raises(ca.InputError, match=re.escape("policy(0) returned ['run']; expected one of the actions")):
        ca.evaluate(mdp, lambda wear: ["run"])


def raises(state):
    raise KeyError("no such state")


BAD = {
    "nan": (lambda state: float("nan"), "policy(0) returned nan; expected an action, a whole number from 0 to 1"),
    "float": (lambda state: 1.0, "policy(0) returned 1.0; expected an action"),
    "float array": (Plain(np.zeros((2, 1))), "policy.predict(0) returned array([0.]); expected an action"),
    "too large": (lambda state: 2, "policy(0) returned 2; expected an action, a whole number from 0 to 1"),
    "negative": (lambda state: -1, "policy(0) returned -1; expected"),
    "bool": (lambda state: True, "policy(0) returned True; expected"),
    "none": (lambda state: None, "policy(0) returned None; expected"),
    "several": (lambda state: np.array([0, 1]), "policy(0) returned array([0, 1]); expected"),
    "pair of a function": (lambda state: (0, None), "policy(0) returned (0, None); expected"),
    "raises": (raises, "policy(0) raised KeyError: 'no such state'"),
    "arguments": (lambda: 0, "policy(0) raised TypeError"),
    "class": (Plain, "policy.predict(0) raised TypeError"),
    "short": (np.array([0]), "policy has shape (1,); expected (2,) = (S,), an action for each state"),
    "numbers": (
        np.array([0.0, 1.0]),
        "policy must hold an action for each state, as whole numbers, found dtype float64",
    ),
    "beyond": (np.array([0, 7]), "policy[1] is 7; actions are numbered 0 to 1"),
}


@pytest.mark.parametrize("known", [True, False], ids=["model", "simulator"])
@pytest.mark.parametrize("case", BAD)
def test_bad_agents_are_refused_with_the_observation(case, known):
    policy, message = BAD[case]
    mdp = ca.MDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), 0.9, start=[1.0, 0.0])
    with pytest.raises(ca.InputError, match=re.escape(message)):
        ca.evaluate(mdp if known else mdp.simulator(), policy)
    if known:
        with pytest.raises(ca.InputError, match=re.escape(f"policies['bad']: {message}")):
            ca.compare(ca.Problem(mdp), methods=[], policies={"bad": policy})


@pytest.mark.parametrize("known", [True, False], ids=["model", "simulator"])
def test_a_forbidden_action_names_the_observation_and_what_is_allowed(known):
    mdp = ca.MDP(
        np.full((2, 2, 2), 0.5), np.zeros((2, 2)), 0.9, allowed=[[True, False], [True, True]], start=[0.0, 1.0]
    )
    with pytest.raises(
        ca.InputError, match=re.escape("policy(0) returned 1, action 1, which is not allowed there; allowed: [0]")
    ):
        ca.evaluate(mdp if known else mdp.simulator(), lambda state: 1)


def blackjack_value(limit):
    """The mean win of hitting below ``limit``, by recursion over hands of an infinite deck (Sutton and Barto)."""
    deck = [*range(1, 11), 10, 10, 10]

    def worth(total, aces):
        return (total + 10, 1) if aces and total + 10 <= 21 else (total, 0)

    def ends(total, aces, below):
        best = worth(total, aces)[0]
        if best >= below:
            return {0 if best > 21 else best: 1.0}
        found = {}
        for card in deck:
            for end, chance in ends(total + card, aces or card == 1, below).items():
                found[end] = found.get(end, 0.0) + chance / 13
        return found

    value = 0.0
    for up in deck:
        for hidden in deck:
            dealer = ends(up + hidden, 1 in (up, hidden), 17)
            for first in deck:
                for second in deck:
                    if {first, second} == {1, 10}:
                        won = 0.0 if {up, hidden} == {1, 10} else 1.0
                    else:
                        mine = ends(first + second, 1 in (first, second), limit)
                        won = sum(
                            p * q * (-1.0 if a == 0 else float(np.sign(a - b)))
                            for a, p in mine.items()
                            for b, q in dealer.items()
                        )
                    value += won / 13**4
    return value


def test_blackjack_from_end_to_end():
    table = ca.GymSimulator(gymnasium.make("Blackjack-v1"), 1.0, "absorb", reward_range=(-1, 1))
    seen = set()

    def player(observation):
        seen.add(observation)
        return int(observation[0] < 18)

    n = 3000
    found = ca.evaluate(table, player, episodes=n, horizon=15)
    assert abs(found.mean - blackjack_value(18)) <= 6 * found.standard_error
    assert all(len(observation) == 3 for observation in seen)
    with pytest.raises(ca.InputError, match=re.escape("returned 2; expected an action, 0 to 1")):
        ca.evaluate(table, lambda observation: 2, horizon=15)


def test_a_policy_of_the_model_plays_in_the_environment():
    env = gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=False)
    mdp = ca.from_gym(env, 0.95, "absorb")
    solution = ca.solve(ca.Problem(mdp)).require()
    found = ca.evaluate(ca.GymSimulator(env, 0.95, "absorb"), solution, episodes=5, horizon=60)
    # fourteen moves to the goal, the last of which pays
    assert np.allclose(found.returns, 0.95**13, rtol=1e-12)
    assert solution.expected_return == pytest.approx(0.95**13, rel=1e-9)
