"""Models as environments: Gymnasium's checker, round trips, exact values against episodes, and policies in the loop."""

import copy
import pickle
import re

import numpy as np
import pytest

import cautious as ca
from random_models import random_model

gymnasium = pytest.importorskip("gymnasium", reason="extra gym")
env_checker = pytest.importorskip("gymnasium.utils.env_checker", reason="extra gym")

MASKED = ("inventory", "machine_replacement", "queue")
OPTIONS = ({}, {"ends": "discount"}, {"horizon": 5}, {"ends": "discount", "horizon": 30})


def same_model(one, two):
    assert np.array_equal(one.allowed, two.allowed)
    assert np.array_equal(one.start, two.start)
    assert np.abs(one.transitions - two.transitions).max() <= 1e-15
    assert np.allclose(one.rewards, two.rewards, rtol=1e-14)
    assert np.allclose(one.reward_square, two.reward_square, rtol=1e-14)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", [*MASKED, "maze", "garnet"])
def test_gymnasium_s_own_checker_has_nothing_to_say(name, options):
    # warnings are errors in this suite, those of the checker too
    env_checker.check_env(ca.to_gym(getattr(ca.worlds, name)(), **options))


@pytest.mark.parametrize("seed", range(12))
def test_a_model_comes_back_from_its_environment(seed):
    mdp = random_model(np.random.default_rng(seed), "small").mdp()
    env = ca.to_gym(mdp, forbidden="refuse")
    same_model(ca.from_gym(env, mdp.discount, "restart"), mdp)


def test_names_come_back_too():
    mdp = ca.worlds.machine_replacement()
    back = ca.from_gym(ca.to_gym(mdp), mdp.discount, "restart")
    assert (back.state_names, back.action_names, back.scene) == (mdp.state_names, mdp.action_names, mdp.scene)
    once = ca.from_gym(ca.to_gym(mdp), 0.9, "absorb")
    assert once.state_names == (*mdp.state_names, "end")
    assert ca.from_gym(ca.to_gym(once), 0.9, "absorb").state_names == (*mdp.state_names, "end", "end 2")


@pytest.mark.parametrize("name", MASKED)
def test_replacing_forbidden_actions_changes_no_value(name):
    mdp = getattr(ca.worlds, name)()
    back = ca.from_gym(ca.to_gym(mdp), mdp.discount, "restart")
    assert back.allowed.all()
    best = [ca.solve(ca.Problem(one), tolerance=1e-10).require().expected_return for one in (mdp, back)]
    assert best[1] == pytest.approx(best[0], rel=1e-9)


def test_ending_by_the_discount_is_discounting():
    mdp = ca.worlds.river_swim()
    # two discounts, one of them by ending, are one discount
    ending = ca.from_gym(ca.to_gym(mdp, ends="discount"), 0.9, "absorb")
    both = ca.MDP(mdp.transitions, mdp.rewards, 0.9 * mdp.discount, mdp.start, allowed=mdp.allowed)
    best = [ca.solve(ca.Problem(one), tolerance=1e-10).require().expected_return for one in (both, ending)]
    assert best[1] == pytest.approx(best[0], rel=1e-9)


@pytest.mark.parametrize("name", ["queue", "river_swim"])
def test_episodes_have_the_exact_mean(name):
    problem = ca.worlds.problem(name)
    solution = ca.solve(ca.Problem(problem.mdp, problem.risk, problem.caution))
    env, rng = ca.to_gym(problem.mdp, ends="discount"), np.random.default_rng(1)
    env.reset(seed=1)
    returns = []
    for _ in range(80):
        state, _ = env.reset()
        total, ended = 0.0, False
        while not ended:
            action, _ = solution.predict(state, rng=rng)
            state, reward, ended, _, _ = env.step(action)
            total += reward
        returns.append(total)
    assert abs(np.mean(returns) - solution.expected_return) <= 5 * np.std(returns) / np.sqrt(len(returns))


@pytest.mark.parametrize("name", ["inventory", "maze"])
def test_environments_of_models_are_simulators(name):
    mdp = getattr(ca.worlds, name)()
    simulator = ca.GymSimulator(ca.to_gym(mdp), mdp.discount, "restart")
    ca.testing.check_simulator(simulator, draws=200)
    pair = int(np.flatnonzero(mdp.allowed.ravel())[-1])
    n = 3000
    states, actions = np.full(n, pair // mdp.n_actions), np.full(n, pair % mdp.n_actions)
    next_states, rewards = simulator.sample(states, actions, np.random.default_rng(0))
    chance = mdp.transitions[[pair]].toarray()[0]
    share = np.bincount(next_states, minlength=mdp.n_states) / n
    assert np.abs(share - chance).max() <= 6 * np.sqrt(0.25 / n)
    spread = np.sqrt(max(mdp.reward_square.flat[pair] - mdp.rewards.flat[pair] ** 2, 0.0) / n)
    assert abs(rewards.mean() - mdp.rewards.flat[pair]) <= 6 * spread + 1e-12


def course(env, seed):
    seen = [env.reset(seed=seed)[0]]
    env.action_space.seed(seed)
    for _ in range(50):
        seen += env.step(env.action_space.sample())[:4]
    return seen


def test_the_seed_decides():
    mdp = ca.worlds.garnet(n_states=30, n_actions=3)
    env = ca.to_gym(mdp, ends="discount")
    assert course(env, 3) == course(env, 3) == course(ca.to_gym(mdp, ends="discount"), 3)
    assert course(env, 3) != course(env, 4)


@pytest.mark.parametrize("other", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_on_like_the_original(other):
    env = ca.to_gym(ca.worlds.garnet(n_states=30, n_actions=3))
    env.reset(seed=0)
    twin = other(env)
    assert [env.step(k % 3)[:2] for k in range(20)] == [twin.step(k % 3)[:2] for k in range(20)]


def test_masks_are_told_and_forbidden_actions_do_as_promised():
    mdp = ca.worlds.machine_replacement()
    broken = mdp.n_states - 1
    env = ca.to_gym(mdp, forbidden="refuse")
    _, info = env.reset(seed=0)
    assert info["action_mask"].dtype == np.int8
    env.set_state(broken)
    assert env.action_masks().tolist() == [False, True, True]
    with pytest.raises(
        ca.InputError, match=re.escape("action 0 is not allowed in state 10 ('broken'); allowed: [1, 2]")
    ):
        env.step(0)
    assert env.P[broken][0] == []
    replacing = ca.to_gym(mdp)
    replacing.reset(seed=0)
    replacing.set_state(broken)
    assert replacing.step(0)[:2] == (9, -500.0)
    assert replacing.P[broken][0] == replacing.P[broken][1] == [(1.0, 9, -500.0, False)]


def test_a_horizon_truncates_and_nothing_else_does():
    env = ca.to_gym(ca.worlds.maze(), horizon=3)
    for _ in range(2):
        env.reset(seed=0)
        assert [env.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_the_table_reads_like_a_dictionary():
    env = ca.to_gym(ca.worlds.river_swim())
    assert list(env.P) == list(range(len(env.P)))
    assert sum(p for p, *_ in env.P[np.int64(2)][1]) == pytest.approx(1.0)
    assert 99 not in env.P
    assert -1 not in env.P


def no_transitions():
    learned = ca.learn(
        ca.worlds.river_swim().simulator(), ca.Entropy(), caution=0.1, samples=2000, method="primal-dual"
    )
    return ca.to_gym(learned.mdp)


BAD = {
    "model": (lambda: ca.to_gym("maze"), "mdp must be a ca.MDP, found str"),
    "ends": (lambda: ca.to_gym(ca.worlds.maze(), ends="soon"), 'ends is \'soon\'; expected "never" or "discount"'),
    "forbidden": (lambda: ca.to_gym(ca.worlds.maze(), forbidden="skip"), 'expected "replace" or "refuse"'),
    "horizon": (lambda: ca.to_gym(ca.worlds.maze(), horizon=0), "horizon must be a whole number of at least 1"),
    "too early": (lambda: ca.to_gym(ca.worlds.maze()).step(0), "call env.reset() before env.step()"),
    "action": (lambda: acting(7), "action is 7; expected a whole number from 0 to 3"),
    "action of another kind": (lambda: acting("up"), "action is 'up'; expected a whole number"),
    "state": (lambda: ca.to_gym(ca.worlds.maze()).set_state(200), "state is 200; states are numbered 0 to 91"),
    "stand-in": (no_transitions, "to_gym needs the model's transitions"),
}


def acting(action):
    env = ca.to_gym(ca.worlds.maze())
    env.reset(seed=0)
    return env.step(action)


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case):
    make, message = BAD[case]
    with pytest.raises((ca.InputError, ca.IncompatibleError), match=re.escape(message)):
        make()


@pytest.fixture(scope="module")
def solution():
    return ca.solve(ca.worlds.problem("machine_replacement"))


def test_predictions_follow_the_policy(solution):
    n, rng = 4000, np.random.default_rng(0)
    mixing = int(np.argmin(solution.policy.max(axis=1)))
    actions, memory = solution.predict(np.full(n, mixing), state="kept", rng=rng)
    share = np.bincount(actions, minlength=3) / n
    assert np.abs(share - solution.policy[mixing]).max() <= 6 * np.sqrt(0.25 / n)
    assert memory == "kept"
    everywhere = np.resize(np.arange(11), 50_000)
    actions, _ = solution.predict(everywhere, rng=rng)
    assert (solution.policy[everywhere, actions] > 0).all()


def test_predictions_take_what_loops_hand_over(solution):
    likeliest = solution.policy.argmax(axis=1)
    for observation in (3, np.int64(3), np.array(3), "wear 3"):
        action, _ = solution.predict(observation, deterministic=True)
        assert type(action) is int
        assert action == likeliest[3]
    for batch in ([3, 10], np.array([3, 10]), ["wear 3", "broken"]):
        assert solution.predict(batch, deterministic=True)[0].tolist() == likeliest[[3, 10]].tolist()
    # the call of Stable-Baselines3's evaluate_policy
    actions, _ = solution.predict(np.array([3]), state=None, episode_start=np.array([True]), deterministic=True)
    assert actions.shape == (1,)
    drawn = [solution.predict(np.arange(11), rng=np.random.default_rng(5))[0].tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (99, "observation is 99; states are numbered 0 to 10"),
        (np.array([0, -1]), "observation is -1; states are numbered 0 to 10"),
        ("worn", "observation names the state 'worn', which this model does not have"),
        (1.5, "observation must hold state numbers or names, found 1.5"),
        (None, "observation must hold state numbers or names, found None"),
    ],
)
def test_observations_of_another_kind_are_named(solution, observation, message):
    with pytest.raises(ca.InputError, match=re.escape(message)):
        solution.predict(observation)


def test_a_seed_is_no_generator(solution):
    with pytest.raises(ca.InputError, match=re.escape("rng must be a numpy.random.Generator, found 5")):
        solution.predict(3, rng=5)
