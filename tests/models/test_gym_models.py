"""Environments with tables as models: published values, plain value iteration, ends, wrappers, and refusals."""

import importlib.util
import math
import re
import sys
from collections import Counter

import numpy as np
import pytest
from gym_samples import VARIANTS, Corridor, Listed

import cautious as ca

gymnasium = pytest.importorskip("gymnasium", reason="extra gym")

# expected discounted return of the best policy from the start; discount 0.99, ends absorb
PUBLISHED = {"FrozenLake-v1": 0.5420259320, "CliffWalking-v1": -12.2478977001, "Taxi-v4": 6.3274643149}


def best_return(env, discount, at_end):
    """Plain value iteration on the environment's own table, until nothing changes by 1e-13."""
    bare = env.unwrapped
    start = list(bare.initial_state_distrib)
    values = dict.fromkeys(bare.P, 0.0)
    while True:
        first = sum(p * values[s] for s, p in enumerate(start))
        after = first if at_end == "restart" else 0.0
        new = {
            s: max(
                math.fsum(p * (r + discount * (after if ended else values[t])) for p, t, r, ended in lines)
                for lines in actions.values()
            )
            for s, actions in bare.P.items()
        }
        if max(abs(new[s] - values[s]) for s in values) < 1e-13:
            return sum(p * new[s] for s, p in enumerate(start))
        values = new


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values(name):
    mdp = ca.from_gym(gymnasium.make(name), 0.99, "absorb")
    solution = ca.solve(ca.Problem(mdp), tolerance=1e-10).require()
    assert abs(solution.expected_return - PUBLISHED[name]) < 1e-8


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
@pytest.mark.parametrize("case", [*PUBLISHED, *VARIANTS])
def test_the_best_return_is_that_of_the_table(case, at_end):
    name, options = VARIANTS.get(case, (case, {}))
    env = gymnasium.make(name, **options)
    solution = ca.solve(ca.Problem(ca.from_gym(env, 0.8, at_end)), tolerance=1e-10).require()
    assert solution.expected_return == pytest.approx(best_return(env, 0.8, at_end), abs=1e-9)


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_moments_of_the_reward_are_those_of_the_outcomes(name, at_end):
    env = gymnasium.make(name)
    mdp = ca.from_gym(env, 0.9, at_end)
    for state, actions in env.unwrapped.P.items():
        for action, lines in actions.items():
            for power, moments in ((1, mdp.rewards), (2, mdp.reward_square)):
                assert moments[state, action] == pytest.approx(sum(p * r**power for p, _, r, _ in lines), abs=1e-12)


@pytest.mark.parametrize("name", PUBLISHED)
def test_model_and_simulator_of_one_environment_agree(name):
    env = gymnasium.make(name)
    mdp, simulator = ca.from_gym(env, 0.9, "absorb"), ca.GymSimulator(env, 0.9, "absorb")
    ca.testing.check_model(mdp)
    assert (mdp.n_states, mdp.n_actions) == (simulator.n_states, simulator.n_actions)
    assert np.array_equal(mdp.start, simulator.known.start)
    rng = np.random.default_rng(0)
    states, actions = rng.integers(mdp.n_states, size=2000), rng.integers(mdp.n_actions, size=2000)
    next_states, _ = simulator.sample(states, actions, rng)
    assert (mdp.transitions[states * mdp.n_actions + actions, next_states] > 0).all()


def test_names_and_maps_of_known_environments():
    lake = ca.from_gym(gymnasium.make("FrozenLake-v1"), 0.9, "absorb")
    assert lake.state_names[5] == "r1c1"
    assert lake.state_names[-1] == "end"
    assert len(lake.scene.cells) == lake.n_states
    taxi = ca.from_gym(gymnasium.make("Taxi-v4"), 0.9, "restart")
    assert taxi.state_names[1] == "r0c0, passenger red, to green"
    assert taxi.action_names[-1] == "drop off"
    cliff = ca.from_gym(gymnasium.make("CliffWalking-v1"), 0.9, "restart")
    assert cliff.scene.grid[3] == "SCCCCCCCCCCG"


def test_two_ends_that_pay_differently_are_two_states():
    lines = [(0.25, 0, 8.0, True), (0.25, 0, 0.0, True), (0.5, 0, -2.0, False)]
    mdp = ca.from_gym(Listed([[lines]], 1, 1, start=[1.0]), 0.9, "absorb")
    assert mdp.state_names == ("0", "end, paid 0", "end, paid 8")
    assert mdp.transitions.toarray().tolist() == [[0.5, 0.25, 0.25], [0, 1, 0], [0, 0, 1]]
    assert mdp.rewards[0, 0] == 1.0
    assert mdp.reward_square[0, 0] == 0.25 * 64 + 0.5 * 4
    assert sorted(mdp.outcome_rewards.tolist()) == [-2.0, 0.0, 0.0, 0.0, 8.0]


def test_a_restart_keeps_the_spread_of_rewards_and_cvar_refuses_to_guess():
    lines = [(0.25, 0, 8.0, True), (0.25, 0, 0.0, True), (0.5, 0, -2.0, False)]
    mdp = ca.from_gym(Listed([[lines]], 1, 1, start=[1.0]), 0.9, "restart")
    assert mdp.reward_square[0, 0] == 0.25 * 64 + 0.5 * 4
    with pytest.raises(ca.IncompatibleError, match="CVaR needs the rewards of the outcomes"):
        ca.Problem(mdp, ca.CVaR(0.5))


def cvar_by_sorting(env, policy, gamma, level, steps=3000):
    """The mean loss of the worst share of the per-step rewards, from the environment's own table, step by step."""
    bare = env.unwrapped
    n = int(env.observation_space.n)
    here, after = np.array(bare.initial_state_distrib, float), 0.0
    losses = Counter()
    for step in range(steps):
        weight, there = (1 - gamma) * gamma**step, np.zeros(n)
        losses[0.0] += weight * after
        for s in np.flatnonzero(here):
            for p, s_next, reward, ended in bare.P[s][policy[s]]:
                losses[-reward] += weight * here[s] * p
                if ended:
                    after += here[s] * p
                else:
                    there[s_next] += here[s] * p
        here = there
    left, total = 1 - level, 0.0
    for loss, chance in sorted(losses.items(), reverse=True):
        total += loss * min(chance, left)
        left = max(0.0, left - chance)
    return total / (1 - level)


def test_a_lake_whose_holes_and_goal_are_neighbours_has_a_shortfall():
    env = gymnasium.make("FrozenLake-v1", map_name="8x8", reward_schedule=(1, -1, 0))
    mdp = ca.from_gym(env, 0.9, "absorb")
    # in the table, a hole that is left again pays 0
    assert mdp.state_names[-3:] == ("end, paid -1", "end, paid 0", "end, paid 1")
    assert len(mdp.scene.cells) == mdp.n_states
    problem = ca.Problem(mdp, ca.CVaR(0.95), caution=0.5)
    solution = ca.solve(problem).require()
    policy = solution.policy.argmax(axis=1)
    assert solution.risk == pytest.approx(cvar_by_sorting(env, policy, 0.9, 0.95), abs=1e-9)


def test_an_end_and_a_step_to_the_same_state_keep_their_rewards():
    table = {0: {0: [(0.5, 0, 3.0, True), (0.25, 0, 1.0, False), (0.25, 0, 1.0, False)]}}
    mdp = ca.from_gym(Listed(table, 1, 1, start=[1.0]), 0.9, "absorb")
    assert mdp.transitions.toarray().tolist() == [[0.5, 0.5], [0.0, 1.0]]
    assert mdp.outcome_rewards.tolist() == [1.0, 3.0, 0.0]


def test_restart_spreads_over_the_first_states():
    table = [[[(0.5, 1, 1.0, True), (0.5, 0, 1.0, False)]], [[(1.0, 0, 0.0, False)]]]
    mdp = ca.from_gym(Listed(table, 2, 1, start=[0.25, 0.75]), 0.9, "restart")
    assert mdp.transitions.toarray().tolist() == [[0.5 + 0.125, 0.375], [1.0, 0.0]]
    assert mdp.rewards.tolist() == [[1.0], [0.0]]


def test_numbers_that_do_not_start_at_zero_and_actions_that_do_not_exist():
    table = {5: {1: [(1.0, 6, 1.0, False)], 2: []}, 6: {1: [(1.0, 5, 0.0, True)], 2: [(1.0, 6, 2.0, False)]}}
    mdp = ca.from_gym(Listed(table, 2, 2, first_state=5, first_action=1), 0.9, "absorb")
    assert mdp.state_names == ("5", "6", "end")
    assert mdp.start.tolist() == [1.0, 0.0, 0.0]
    assert mdp.allowed.tolist() == [[True, False], [True, True], [True, True]]
    assert mdp.transitions.toarray()[[0, 2, 3]].tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]


def test_states_without_outcomes_that_nothing_enters():
    table = {0: {0: [(1.0, 1, 1.0, True)]}, 1: {}}
    mdp = ca.from_gym(Listed(table, 3, 1, start=[1, 0, 0]), 0.9, "absorb")
    assert mdp.transitions.toarray().tolist() == [[0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize("start", [6, [0.0, 1.0]])
def test_a_start_can_be_given(start):
    table = {5: {0: [(1.0, 6, 1.0, False)]}, 6: {0: [(1.0, 5, 0.0, False)]}}
    mdp = ca.from_gym(Listed(table, 2, 1, first_state=5), 0.9, "restart", start=start)
    assert mdp.start.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
def test_wrappers_of_rewards_and_actions_count(at_end):
    plain = ca.from_gym(gymnasium.make("FrozenLake-v1"), 0.9, at_end)
    env = gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), lambda r: 2 * r)
    env = gymnasium.wrappers.TransformAction(env, lambda a: 3 - a, env.action_space)
    env = gymnasium.wrappers.TransformReward(env, lambda r: r - 1)
    changed = ca.from_gym(gymnasium.wrappers.RecordEpisodeStatistics(env), 0.9, at_end)
    n = 16
    assert np.allclose(changed.rewards[:n], 2 * plain.rewards[:n, ::-1] - 1)
    assert changed.action_names is None
    shape = (*plain.shape, plain.n_states)
    moved = changed.transitions.toarray().reshape(shape)
    assert np.array_equal(moved, plain.transitions.toarray().reshape(shape)[:, ::-1])


def listed(*lines, **options):
    return lambda: ca.from_gym(Listed({0: {0: list(lines)}}, 2, 1, start=[1.0, 0.0]), 0.9, "absorb", **options)


GOOD = (1.0, 0, 0.0, False)
WRONG = {
    "at_end": (lambda: ca.from_gym(gymnasium.make("Taxi-v4"), 0.9, "stop"), "at_end is 'stop'"),
    "discount": (lambda: ca.from_gym(gymnasium.make("Taxi-v4"), 1.5, "absorb"), "discount is 1.5"),
    "sum": (listed((0.5, 0, 0.0, True)), "the probabilities of env.unwrapped.P[0][0] sum to 0.5; expected 1"),
    "negative": (listed((-0.5, 0, 0.0, True)), "the probability of env.unwrapped.P[0][0][0] is -0.5"),
    "nan": (listed(GOOD, (0.0, 0, math.nan, True)), "the reward of env.unwrapped.P[0][0][1] is nan"),
    "short line": (listed((1.0, 0, 0.0)), "env.unwrapped.P[0][0][0] is (1.0, 0, 0.0); expected (probability, next"),
    "range": (listed((1.0, 7, 0.0, False)), "the next state of env.unwrapped.P[0][0][0] is 7; observations are 0 to 1"),
    "no whole number": (listed((1.0, 0.0, 0.0, False)), "the next state of env.unwrapped.P[0][0][0] is 0.0"),
    "terminated": (listed((1.0, 0, 0.0, "yes")), "ends with 'yes'; expected whether it terminated"),
    "dead end": (listed((1.0, 1, 0.0, False)), "P[1] lists no outcome, and state 0, action 0 leads there without"),
    "dead start": (listed(GOOD, start=1), "env.unwrapped.P[1] lists no outcome, and episodes start there"),
    "matrix": (
        lambda: ca.from_gym(Listed(np.ones((1, 1, 1)), 1, 1, start=[1.0]), 0.9, "absorb"),
        "expected (probability,",
    ),
    "no table": (
        lambda: ca.from_gym(Listed(3, 1, 1, start=[1.0]), 0.9, "absorb"),
        "env.unwrapped.P is 3; expected P[state][action]",
    ),
    "start": (listed(GOOD, start=[0.5, 0.6]), "start sums to 1.1"),
    "start outside": (listed(GOOD, start=2), "start is 2; observations are 0 to 1"),
    "start of another kind": (listed(GOOD, start="here"), "start is 'here'; observations are 0 to 1"),
    "set_state": (listed(GOOD, set_state=3), "set_state must be a function of (env, observation), found 3"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_tables_and_arguments_are_named(case):
    make, message = WRONG[case]
    with pytest.raises(ca.InputError, match=re.escape(message)):
        make()


def test_without_gymnasium_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ca.MissingExtraError, match=re.escape("from_gym needs gymnasium; install it with: pip install")):
        ca.from_gym(Corridor(), 0.9, "absorb")
    # a fresh copy of the file, as it would be loaded
    where = importlib.util.find_spec("cautious.models.gym_environment")
    fresh = importlib.util.module_from_spec(where)
    where.loader.exec_module(fresh)
    with pytest.raises(ca.MissingExtraError, match=re.escape("to_gym needs gymnasium; install it with: pip install")):
        fresh.to_gym(ca.worlds.maze())
