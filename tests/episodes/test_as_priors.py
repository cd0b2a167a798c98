"""Demonstrations where a prior is expected: risks, learning, Gymnasium, problem files; and what is refused."""

import pickle

import numpy as np
import pytest
from recordings import EPISODES, assert_close_in_errors, lives, record, write

import cautious as ca
from cautious.occupancy import policy_occupancy
from cautious.problem_files.reading import read_problem


def test_accepted_wherever_a_prior_is(lift):
    prior = ca.demonstrations([[(0, 1), (1, 0)], [(0, 1), (1, 1)]], lift, smoothing=0.2, at_end="absorb")
    line = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    d = np.where(lift.allowed, 0.2, 0.0)
    for kind in (ca.KL, ca.TotalVariation, ca.Quadratic):
        wanted = ca.Problem(lift, kind(np.array(prior.occupancy))).risk_value(d)
        assert ca.Problem(lift, kind(prior)).risk_value(d) == pytest.approx(wanted, abs=1e-14)
        assert ca.Problem(lift, kind(prior.states)).risk.label == f"{kind.__name__} (states)"
    found = ca.Problem(lift, ca.Wasserstein(prior, line)).risk_value(d)
    assert found == pytest.approx(ca.Problem(lift, ca.Wasserstein(prior.states, line)).risk_value(d))
    copied = pickle.loads(pickle.dumps(prior))
    assert copied.occupancy.tobytes() == prior.occupancy.tobytes()
    with pytest.raises(ValueError, match="read-only"):
        prior.occupancy[0, 0] = 1.0


def test_another_discount_or_another_model_is_refused(lift):
    swim = ca.worlds.river_swim()
    prior = ca.demonstrations([[0, 1]], swim, smoothing=0.1, at_end="absorb")
    with pytest.raises(ca.IncompatibleError, match=r"KL\.prior holds demonstrations of shape \(6,\)"):
        ca.Problem(lift, ca.KL(prior))
    impatient = ca.MDP(swim.transitions, swim.rewards, 0.5, swim.start)
    with pytest.raises(ca.IncompatibleError, match=r"discounted by 0\.95, and this model is by 0\.5"):
        ca.Problem(impatient, ca.KL(prior))
    assert ca.Problem(impatient, ca.KL(prior.occupancy)).risk_value(np.full((6, 2), 1 / 12)) > 0


def test_two_hundred_demonstrations_are_nearly_as_good_as_the_exact_prior():
    before, now = ca.worlds.drift_prior_world(), ca.worlds.drift()
    dark = ca.worlds.dark_cells(now)
    states, actions = lives(before, ca.solve(ca.Problem(before)).policy, 200, 60, seed=0)
    pairs = list(np.stack([states[:, :-1], actions], axis=2))
    prior = ca.demonstrations(pairs, now, smoothing=0.05, at_end="cut")
    shares = {
        name: ca.solve(ca.Problem(now, risk, caution=1.0)).require().occupancy[dark].sum()
        for name, risk in (("none", None), ("exact", ca.KL(ca.worlds.drift_prior())), ("seen", ca.KL(prior)))
    }
    assert shares["none"] > 0.065
    assert abs(shares["seen"] - shares["exact"]) < 0.005


def test_learning_takes_them(lift):
    episodes = [[("low", "up"), ("mid", "up"), ("high", "down")]] * 5
    for model in (lift, lift.simulator()):
        prior = ca.demonstrations(episodes, model, smoothing=0.1, at_end="absorb")
        learned = ca.learn(lift.simulator(), ca.KL(prior), caution=2.0, samples=20_000, seed=0)
        exact = ca.solve(ca.Problem(lift, ca.KL(prior), caution=2.0)).require()
        assert learned.policy == pytest.approx(exact.policy, abs=0.05)


def collected(env, policy, count):
    """Records of a policy in an environment, seeded."""
    rng, found = np.random.default_rng(0), []
    for index in range(count):
        observation, _ = env.reset(seed=index)
        one = {"observations": [observation], "actions": [], "terminations": [], "truncations": [], "rewards": []}
        while True:
            action = int(rng.choice(policy.shape[1], p=policy[observation]))
            observation, reward, terminated, truncated, _ = env.step(action)
            for key, value in zip(one, (observation, action, terminated, truncated, reward), strict=True):
                one[key].append(value)
            if terminated or truncated:
                break
        found.append(one)
    return found


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
def test_gymnasium_rollouts_give_the_occupancy_of_the_simulator(at_end):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=30)
    simulator = ca.GymSimulator(gymnasium.make("FrozenLake-v1"), discount=0.9, at_end=at_end)
    start, table = env.unwrapped.initial_state_distrib, env.unwrapped.P
    rows = np.zeros((simulator.n_states, 4, simulator.n_states))
    for state in range(16):
        for action in range(4):
            for chance, after, _, terminated in table[state][action]:
                if not terminated:
                    rows[state, action, after] += chance
                elif at_end == "absorb":
                    rows[state, action, 16] += chance
                else:
                    rows[state, action, :16] += chance * start
    if at_end == "absorb":
        rows[16, :, 16] = 1.0
    mdp = ca.MDP(rows, np.zeros(rows.shape[:2]), 0.9, np.append(start, np.zeros(simulator.n_states - 16)))
    policy = np.full((simulator.n_states, 4), 0.25)
    policy[:15] = np.random.default_rng(4).dirichlet(np.ones(4), size=15)
    episodes = collected(env, policy[:16], 1500)
    assert any(one["truncations"][-1] for one in episodes)
    prior = ca.demonstrations(episodes, simulator, smoothing=0.0, at_end=at_end)
    assert_close_in_errors(prior, policy_occupancy(mdp, policy).occupancy)
    with pytest.raises(ca.IncompatibleError, match="the simulator was made with"):
        ca.demonstrations(episodes, simulator, smoothing=0.0, at_end="restart" if at_end == "absorb" else "absorb")


def test_observations_that_do_not_start_at_zero():
    gymnasium = pytest.importorskip("gymnasium")

    class Shifted(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(2, start=5), gymnasium.spaces.Discrete(2, start=-1)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 5, {}

        def set_state(self, state):
            self.state = state

        def step(self, action):
            return 6, 0.0, False, False, {}

    simulator = ca.GymSimulator(Shifted(), 0.5, "restart", reward_range=(0, 0))
    given = [{"observations": [5, 6, 6], "actions": [-1, 0]}]
    prior = ca.demonstrations(given, simulator, smoothing=0.0, at_end="restart")
    assert prior.occupancy == pytest.approx(np.array([[2, 0], [0, 1]]) / 3)
    with pytest.raises(ca.InputError, match="the state is 4; expected a whole number from 5 to 6"):
        ca.demonstrations([[4]], simulator, smoothing=0.0, at_end="restart")


BAD_EPISODES = {
    "no episodes": ([], "episodes is empty"),
    "an array": (np.zeros((3, 2), dtype=int), r"found ndarray; a single episode is a list of one"),
    "a number": (3, "must be a list of episodes or the name of a csv file, found int"),
    "empty episode": ([[0], []], "episode 1 is empty"),
    "a bare state": ([0, 1], r"episode 0 has shape \(\)"),
    "three columns": ([[(0, 1, 1)]], r"episode 0 has shape \(1, 3\); expected states"),
    "ragged": ([[0], [(0, 1), (1,)]], "episode 1 is not a rectangular array"),
    "out of range": ([[0], [1, 3]], "episode 1, step 1: the state is 3; expected a whole number from 0 to 2"),
    "action out of range": ([[(0, 1), (1, -1)]], "episode 0, step 1: the action is -1"),
    "unknown name": ([["low", "top"]], "episode 0, step 1: the state is 'top'"),
    "number as text": ([["low", "1"]], "episode 0, step 1: the state is '1'"),
    "not whole": ([[0.0, 1.5]], r"episode 0, step 0: the state is 0\.0"),
    "nan": ([[float("nan")]], "the state is nan"),
    "truth values": ([np.array([True])], "the state is True"),
    "huge": ([np.array([2**64 - 1], dtype=np.uint64)], "the state is 18446744073709551615"),
    "forbidden": ([[("mid", "up"), ("low", 0)]], r"episode 0, step 1: action 0 \('down'\) is taken in state 0"),
    "some with actions": ([[0], [(0, 1)]], "episode 1 has actions, and episode 0 has none"),
    "some without": ([[(0, 1)], [0]], "episode 1 has no actions, and episode 0 has some"),
    "no observations": ([{"actions": [1]}], "episode 0 needs observations"),
    "unknown key": ([{"observations": [0, 1], "action": [1]}], "episode 0 has an unknown key 'action'"),
    "as many actions": (
        [{"observations": [0, 1], "actions": [1, 1]}],
        r"actions has shape \(2,\) beside 2 observations",
    ),
    "no step": ([{"observations": [0], "actions": []}], "episode 0 has 1 observations; a step needs"),
    "continuous": ([record(np.zeros((3, 4)), [0, 0], True)], r"episode 0: observations has shape \(3, 4\)"),
    "several parts": ([{"observations": {"a": [0]}}], "episode 0: its observations are of several parts"),
    "early end": (
        [{"observations": [0, 1, 2], "actions": [1, 1], "terminations": [True, False]}],
        r"terminations\[0\] is true, and the episode goes on",
    ),
    "marks of another length": (
        [{"observations": [0, 1, 2], "actions": [1, 1], "truncations": [True]}],
        r"episode 0: truncations has shape \(1,\); expected \(2,\)",
    ),
}


@pytest.mark.parametrize("case", BAD_EPISODES)
def test_bad_episodes_are_refused_with_episode_and_step(lift, case):
    episodes, message = BAD_EPISODES[case]
    with pytest.raises(ca.InputError, match=message):
        ca.demonstrations(episodes, lift, smoothing=0.0, at_end="absorb")


def test_settings_are_checked_and_have_no_defaults(lift):
    for smoothing in (-0.1, 1.0, "much", float("nan")):
        with pytest.raises(ca.InputError, match="smoothing"):
            ca.demonstrations([[0]], lift, smoothing=smoothing, at_end="absorb")
    for at_end in ("drop", None, ["absorb"]):
        with pytest.raises(ca.InputError, match='expected "absorb", "restart" or "cut"'):
            ca.demonstrations([[0]], lift, smoothing=0.1, at_end=at_end)
    with pytest.raises(ca.IncompatibleError, match=r"needs the ca\.MDP or the simulator .* found tuple"):
        ca.demonstrations([[0]], (3, 2), smoothing=0.1, at_end="absorb")
    with pytest.raises(TypeError, match="smoothing"):
        ca.demonstrations([[0]], lift, at_end="absorb")
    with pytest.raises(TypeError, match="at_end"):
        ca.demonstrations([[0]], lift, smoothing=0.1)


def test_problem_files_take_them(lift, tmp_path):
    rows = [(name, s, a) for name, pairs in EPISODES.items() for s, a in pairs]
    write(tmp_path / "demos.csv", [("episode", "state", "action"), *rows])
    lift.save(tmp_path / "lift.npz")
    text = '[model]\nfile = "lift.npz"\n[risk]\nkind = "KL"\nprior = {}\n'

    def problem(prior):
        (tmp_path / "p.toml").write_text(text.replace("{}", prior))
        return read_problem(tmp_path / "p.toml")

    prior = ca.demonstrations(list(EPISODES.values()), lift, smoothing=0.2, at_end="restart")
    d = np.where(lift.allowed, 0.2, 0.0)
    found = problem('{ episodes = "demos.csv", smoothing = 0.2, at_end = "restart" }')
    assert found.risk_value(d) == pytest.approx(ca.Problem(lift, ca.KL(prior)).risk_value(d), abs=1e-14)
    wrong = {
        '"demos.csv"': r"KL\.prior is 'demos\.csv'; episodes need their smoothing and end: prior = { episodes",
        '{ episodes = "demos.csv", smoothing = 0.2 }': r"KL\.prior needs at_end",
        '{ episodes = "demos.csv", smothing = 0.2 }': "unknown key 'smothing'; did you mean 'smoothing'",
        '{ episodes = 3, smoothing = 0.2, at_end = "cut" }': r"KL\.prior\.episodes must be a name",
        '{ episodes = "gone.csv", smoothing = 0.2, at_end = "cut" }': "no such file",
        '{ episodes = "demos.csv", smoothing = 2, at_end = "cut" }': "smoothing is 2",
    }
    for text_of_prior, message in wrong.items():
        with pytest.raises(ca.FileError, match=message):
            problem(text_of_prior)


def test_the_command_line_says_where_to_put_them():
    from cautious.commands.risk_spec import parse_risk

    with pytest.raises(ca.InputError, match=r"--risk kl is 'demos\.csv'; episodes need .* in a problem file"):
        parse_risk("2*kl:demos.csv+entropy")
