"""Demonstrations to priors: against plain loops, closed forms, exact occupancies and simulation."""

import csv
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cautious as ca
from cautious.occupancy import policy_occupancy
from cautious.problem_file import read_problem
from random_models import random_model

GAMMA = 0.8


@pytest.fixture
def lift():
    """Three floors; going down is not possible on the lowest."""
    transitions = np.zeros((3, 2, 3))
    for state in range(3):
        transitions[state, 0, max(state - 1, 0)] = transitions[state, 1, min(state + 1, 2)] = 1.0
    return ca.MDP(
        transitions,
        np.arange(6.0).reshape(3, 2),
        GAMMA,
        allowed=[[False, True], [True, True], [True, True]],
        state_names=["low", "mid", "high"],
        action_names=["down", "up"],
    )


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


# --- the estimator ---


@pytest.mark.parametrize("at_end", ["absorb", "restart", "cut"])
@pytest.mark.parametrize("kind", ["pairs", "records", "marked"])
def test_equals_plain_loops(lift, at_end, kind):
    raw = [([0, 1, 2, 2], [1, 1, 1, 0], 1, True), ([1], [0], 0, False), ([2, 1, 2], [0, 1, 0], 1, True)]
    if kind == "pairs":
        raw = [(states, actions, None, True) for states, actions, _, _ in raw]
        given = [list(zip(states, actions, strict=True)) for states, actions, _, _ in raw]
    elif kind == "records":
        raw = [(states, actions, final, True) for states, actions, final, _ in raw]
        given = [{"observations": [*states, final], "actions": actions} for states, actions, final, _ in raw]
    else:
        given = [record([*states, final], actions, ended, not ended) for states, actions, final, ended in raw]
    prior = ca.demonstrations(given, lift, smoothing=0.0, at_end=at_end)
    assert prior.occupancy == pytest.approx(by_hand(raw, GAMMA, at_end, lift.allowed), abs=1e-15)
    assert prior.occupancy.sum() == pytest.approx(1, abs=1e-14)
    assert (prior.n_episodes, prior.n_steps, prior.discount) == (3, 8, GAMMA)


def test_closed_forms_of_one_episode(lift):
    # two steps below, then above for ever: 1 - gamma^2 and gamma^2
    absorbed = ca.demonstrations([["low", "mid", "high"]], lift, smoothing=0.0, at_end="absorb")
    assert absorbed.occupancy == pytest.approx([0.2, 0.16, 0.64])
    # 1 : gamma : gamma^2 over their sum
    cut = ca.demonstrations([[0, 1, 2]], lift, smoothing=0.0, at_end="cut")
    assert cut.occupancy == pytest.approx(np.array([1, 0.8, 0.64]) / 2.44)
    assert cut.unseen == pytest.approx(GAMMA**3)
    assert absorbed.unseen == 0
    # a cycle of three states for ever, discounted, has the same shares
    restarted = ca.demonstrations([[0, 1, 2]], lift, smoothing=0.0, at_end="restart")
    cycle = np.array([sum((1 - GAMMA) * GAMMA**t for t in range(k, 300, 3)) for k in range(3)])
    assert restarted.occupancy == pytest.approx(cycle)
    assert restarted.unseen == 0


def test_without_actions_it_is_the_marginal_of_that_with_actions(lift):
    pairs = [record([0, 1, 2, 1], [1, 1, 0], True), record([2, 2], [1], False, True)]
    alone = [
        record(one.observations, None, *(marks[-1] for marks in (one.terminations, one.truncations))) for one in pairs
    ]
    for at_end in ("absorb", "restart", "cut"):
        full, states = (ca.demonstrations(x, lift, smoothing=0.3, at_end=at_end) for x in (pairs, alone))
        assert states.occupancy.shape == (3,)
        assert states.occupancy == pytest.approx(full.states)
        assert states.states is states.occupancy


def test_smoothing_spreads_over_states_then_over_allowed_actions(lift):
    raw, smooth = (ca.demonstrations([[("mid", "up")]], lift, smoothing=w, at_end="absorb") for w in (0.0, 0.3))
    assert raw.occupancy[1, 1] == 1
    assert smooth.occupancy == pytest.approx(np.array([[0, 0.1], [0.05, 0.75], [0.05, 0.05]]))
    assert smooth.states_seen.tolist() == [False, True, False]
    assert "KL forbids the pairs that were not seen" in raw.statement
    assert "a share of 0.3" in smooth.statement


@pytest.mark.parametrize("gamma", [0.0, 0.999])
def test_extreme_discounts(gamma):
    mdp = ca.MDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), gamma)
    prior = ca.demonstrations([[0, 1] * 3000], mdp, smoothing=0.0, at_end="cut")
    assert prior.occupancy == pytest.approx(np.array([1, gamma]) / (1 + gamma), abs=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    episodes=st.lists(
        st.tuples(st.lists(st.integers(0, 11), min_size=1, max_size=12), st.booleans()), min_size=1, max_size=8
    ),
    at_end=st.sampled_from(["absorb", "restart", "cut"]),
    smoothing=st.floats(0, 0.99, allow_subnormal=False),
    seed=st.integers(0, 99),
)
def test_sums_to_one_and_order_does_not_matter(episodes, at_end, smoothing, seed):
    swim = ca.worlds.river_swim()
    made = [record([*(p // 2 for p in pairs), 0], [p % 2 for p in pairs], ended) for pairs, ended in episodes]
    order = np.random.default_rng(seed).permutation(len(made))
    prior, other = (
        ca.demonstrations(x, swim, smoothing=smoothing, at_end=at_end) for x in (made, [made[i] for i in order])
    )
    assert abs(prior.occupancy.sum() - 1) < 1e-12
    assert prior.occupancy.min() >= smoothing / 12 * (1 - 1e-12) - 1e-300
    assert 0 <= prior.unseen <= 1
    assert np.allclose(prior.occupancy, other.occupancy, atol=1e-14)
    assert np.allclose(prior.standard_error, other.standard_error, atol=1e-7)


# --- against exact occupancies ---


@pytest.fixture(scope="module")
def chain():
    """A random model whose last state is a goal that keeps everything."""
    raw = random_model(np.random.default_rng(5))
    transitions = raw.kernel.copy()
    transitions[~raw.allowed] = 0.0
    transitions[-1] = 0.0
    transitions[-1, :, -1] = 1.0
    start = np.append(np.ones(raw.n_states - 1) / (raw.n_states - 1), 0.0)
    allowed = raw.allowed.copy()
    allowed[-1] = True
    return ca.MDP(transitions, np.zeros(raw.shape), 0.85, start, allowed=allowed)


@pytest.fixture(scope="module")
def policy(chain):
    table = np.random.default_rng(1).random(chain.shape) * chain.allowed
    # nothing is known of what is done at the goal
    table[-1] = 1.0
    return table / table.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def recorded(chain, policy):
    return lives(chain, policy, 3000, 80, seed=2)


def test_many_episodes_give_the_exact_occupancy(chain, policy, recorded):
    states, actions = recorded
    pairs = list(np.stack([states[:, :-1], actions], axis=2))
    prior = ca.demonstrations(pairs, chain, smoothing=0.0, at_end="cut")
    assert prior.unseen < 1e-5
    assert_close_in_errors(prior, policy_occupancy(chain, policy).occupancy)


def test_absorb_is_the_world_in_which_the_goal_keeps_everything(chain, policy, recorded):
    prior = ca.demonstrations(until(*recorded, chain.n_states - 1, 3000), chain, smoothing=0.0, at_end="absorb")
    assert_close_in_errors(prior, policy_occupancy(chain, policy).occupancy)


def test_restart_is_the_world_in_which_the_goal_is_a_fresh_start(chain, policy, recorded):
    goal, rows = chain.n_states - 1, chain.transitions.toarray().reshape(*chain.shape, -1)
    restarting = rows[:, :, :] + rows[:, :, goal, None] * chain.start
    restarting[:, :, goal] = 0.0
    restarting[goal] = chain.start
    world = ca.MDP(restarting, np.zeros(chain.shape), chain.discount, chain.start, allowed=chain.allowed)
    prior = ca.demonstrations(until(*recorded, goal, 3000), world, smoothing=0.0, at_end="restart")
    assert_close_in_errors(prior, policy_occupancy(world, policy).occupancy)
    assert prior.occupancy[goal].sum() == 0


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
def test_standard_errors_are_those_of_repeated_demonstrations(chain, recorded, at_end):
    episodes = until(*recorded, chain.n_states - 1, 3000)
    batches = [ca.demonstrations(episodes[i : i + 30], chain, smoothing=0.2, at_end=at_end) for i in range(0, 3000, 30)]
    found = np.array([one.occupancy for one in batches])
    spread, claimed = found.std(axis=0, ddof=1), np.sqrt(np.mean([one.standard_error**2 for one in batches], axis=0))
    big = spread > 0.2 * spread.max()
    assert big.sum() > 5
    assert np.all(np.abs(claimed / spread - 1)[big] < 0.25)
    truth = found.mean(axis=0)
    distance = np.mean([0.5 * np.abs(one - truth).sum() for one in found])
    assert 0.5 * np.mean([one.sampling_error for one in batches]) < distance
    assert distance < np.mean([one.sampling_error for one in batches])


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
def test_what_a_cut_hides_is_within_the_bound(chain, recorded, at_end):
    whole = until(*recorded, chain.n_states - 1, 60)
    rng, cut = np.random.default_rng(3), []
    for one in whole:
        steps = len(one.actions)
        end = int(rng.integers(1, steps + 1))
        cut.append(record(one.observations[: end + 1], one.actions[:end], end == steps, end < steps))
    full, short = (ca.demonstrations(x, chain, smoothing=0.0, at_end=at_end) for x in (whole, cut))
    distance = 0.5 * np.abs(full.occupancy - short.occupancy).sum()
    assert 0.02 < distance <= short.unseen < 1


def test_the_bound_for_cuts_is_attained(lift):
    # of two episodes one starts afresh and one is cut, and what follows the cut was never seen before
    ended, start, tail = (
        record([0, 1], [1], True),
        record([0, 2], [1], False),
        record([0, *[2] * 200], [1] * 200, False),
    )
    short, whole = (ca.demonstrations([ended, one], lift, smoothing=0.0, at_end="restart") for one in (start, tail))
    assert whole.occupancy[[0, 2], 1] == pytest.approx([1 / 3, 2 / 3])
    assert 0.5 * np.abs(short.occupancy - whole.occupancy).sum() == pytest.approx(short.unseen)


@pytest.mark.parametrize(
    ("terminated", "truncated", "ended"),
    [
        *((1, truncated, True) for truncated in (0, 1, None)),
        *((0, truncated, False) for truncated in (0, 1, None)),
        *((None, 1, False), (None, 0, True), (None, None, True)),
    ],
)
def test_what_the_marks_of_a_record_mean(lift, terminated, truncated, ended):
    marks = {"terminations": terminated, "truncations": truncated}
    one = {"observations": [0, 1, 2], "actions": [1, 1]}
    one |= {name: None if mark is None else [0, mark] for name, mark in marks.items()}
    prior = ca.demonstrations([one], lift, smoothing=0.0, at_end="absorb")
    assert prior.occupancy[2].sum() == pytest.approx(GAMMA**2 if ended else 0)
    assert prior.unseen == pytest.approx(0 if ended else GAMMA**2)


def test_standard_error_of_absorbed_episodes_is_that_of_a_mean(lift):
    episodes = [[0, 1, 2], [1, 1], [2, 1, 0, 0], [0, 2]]
    each = [ca.demonstrations([one], lift, smoothing=0.0, at_end="absorb").occupancy for one in episodes]
    prior = ca.demonstrations(episodes, lift, smoothing=0.25, at_end="absorb")
    assert prior.standard_error == pytest.approx(0.75 * np.std(each, axis=0, ddof=1) / 2, abs=1e-12)
    assert prior.sampling_error == pytest.approx(prior.standard_error.sum() / 2)


def test_one_episode_has_no_standard_error(lift):
    prior = ca.demonstrations([[0, 1]], lift, smoothing=0.0, at_end="cut")
    assert np.isinf(prior.standard_error).all()
    same = ca.demonstrations([[0, 1]] * 3, lift, smoothing=0.0, at_end="cut")
    assert same.standard_error == pytest.approx(0, abs=1e-7)
    assert "chance" in same.statement
    assert "chance" not in prior.statement


# --- as a prior ---


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
    with pytest.raises(ca.IncompatibleError, match=r"KL\.prior are demonstrations of shape \(6,\)"):
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


# --- Gymnasium ---


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


# --- csv files ---

EPISODES = {"a": [(0, 1), (1, 1), (2, 0)], "b": [(1, 0), (0, 1)], "7": [(2, 1)]}


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.mark.parametrize("at_end", ["absorb", "restart", "cut"])
def test_csv_rows_in_any_order_columns_in_any_order_names_or_numbers(lift, tmp_path, at_end):
    wanted = ca.demonstrations(list(EPISODES.values()), lift, smoothing=0.1, at_end=at_end).occupancy
    rows = [(name, t, s, a) for name, pairs in EPISODES.items() for t, (s, a) in enumerate(pairs)]
    np.random.default_rng(0).shuffle(rows)
    plain = write(tmp_path / "plain.csv", [("episode", "step", "state", "action"), *rows])
    named = [(lift.action_names[int(a)], f" {lift.state_names[int(s)]} ", int(t) + 1, name) for name, t, s, a in rows]
    # spaces around a cell do not count, not even those that int() does not know
    named[0] = (*named[0][:2], f"\x1e{named[0][2]}", named[0][3])
    other = write(tmp_path / "named.csv", [("Action", " state", "step", "EPISODE"), [], *named])
    # excel writes a mark in front
    other.write_bytes(b"\xef\xbb\xbf" + other.read_bytes())
    interleaved = [(name, *pairs[t]) for t in range(3) for name, pairs in EPISODES.items() if t < len(pairs)]
    stepless = write(tmp_path / "stepless.csv", [("episode", "state", "action"), *interleaved])
    for path in (plain, other, str(stepless)):
        found = ca.demonstrations(path, lift, smoothing=0.1, at_end=at_end)
        assert found.occupancy == pytest.approx(wanted, abs=1e-15)
        assert found.n_episodes == 3


def test_csv_final_states_and_no_actions(lift, tmp_path):
    header = ("episode", "state", "action")
    path = write(tmp_path / "final.csv", [header, (1, 0, 1), (1, 1, 1), (1, 2, ""), (2, 2, 0)])
    given = [{"observations": [0, 1, 2], "actions": [1, 1]}, [(2, 0)]]
    found, wanted = (ca.demonstrations(x, lift, smoothing=0.0, at_end="absorb") for x in (path, given))
    assert found.occupancy == pytest.approx(wanted.occupancy, abs=1e-15)
    states = write(tmp_path / "states.csv", [header[:2], (1, 0), (1, 1), (1, 2)])
    assert ca.demonstrations(states, lift, smoothing=0.0, at_end="absorb").occupancy == pytest.approx([0.2, 0.16, 0.64])


def test_names_that_look_like_numbers_are_names(tmp_path):
    mdp = ca.MDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), 0.5, state_names=["1", "0"])
    path = write(tmp_path / "x.csv", [("episode", "state"), (1, 1)])
    assert ca.demonstrations(path, mdp, smoothing=0.0, at_end="absorb").occupancy.tolist() == [1, 0]
    assert ca.demonstrations([[1]], mdp, smoothing=0.0, at_end="absorb").occupancy.tolist() == [0, 1]
    with pytest.raises(ca.FileError, match="the state is '2'; expected one of the model's state names, such as '1'"):
        ca.demonstrations(write(tmp_path / "y.csv", [("episode", "state"), (1, 2)]), mdp, smoothing=0.0, at_end="cut")


BAD_FILES = {
    "empty file": ("", "line 1: the header has no column 'episode'"),
    "no rows": ("episode,state\n", "no rows below the header"),
    "no state": ("episode,action\n1,0\n", "line 1: the header has no column 'state'"),
    "other column": ("episode,state,acton\n1,0,1\n", "line 1: column 'acton'; the header may hold episode, step"),
    "column twice": ("episode,state,state\n1,0,1\n", "line 1: column 'state' is there twice"),
    "short row": ("episode,state,action\n1,1,1\n1,1\n", "line 3: 2 cells; the header has 3"),
    "unknown name": (
        "episode,state\n1,low\n1,lwo\n",
        "line 3: the state is 'lwo'; expected a whole number from 0 to 2",
    ),
    "unknown action": ("episode,state,action\n1,low,left\n", "line 2: the action is 'left'"),
    "state out of range": ("episode,state\n1,0\n\n1,3\n", "line 4: the state is 3"),
    "negative state": ("episode,state\n1,-1\n", "line 2: the state is -1"),
    "not whole": ("episode,state\n1,1.5\n", r"line 2: the state is '1\.5'"),
    "nan": ("episode,state\n1,nan\n", "line 2: the state is 'nan'"),
    "no state there": ("episode,state\n1,\n", "line 2: the state is ''"),
    "no episode there": ("episode,state\n,1\n", "line 2: the episode is empty"),
    "negative step": (
        "episode,step,state\n1,-1,0\n",
        "line 2: the step is '-1'; expected a whole number of at least 0",
    ),
    "step not whole": ("episode,step,state\n1,0.5,0\n", r"line 2: the step is '0\.5'"),
    "step twice": ("episode,step,state\nx,0,0\nx,1,0\nx,1,2\n", "line 4: episode 'x' has step 1 twice"),
    "step missing": ("episode,step,state\nx,3,0\nx,0,0\nx,1,2\n", "line 2: episode 'x' goes from step 1 to step 3"),
    "late begin": ("episode,step,state\nx,0,0\ny,2,0\n", "line 3: episode 'y' begins with step 2; expected 0 or 1"),
    "action missing": ("episode,state,action\n1,0,\n1,1,1\n", "line 2: the action is empty; only the last row"),
    "no step": ("episode,state,action\n1,0,1\nz,1,\n", "line 3: episode 'z' has no action, so no step"),
    "forbidden": (
        "episode,step,state,action\n1,1,0,0\n1,0,1,1\n",
        r"line 2: action 0 \('down'\) is taken in state 0 \('low'\), where the model does not allow it",
    ),
    "quotes": ('episode,state\n1,"0\n', "line 2: unexpected end of data"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused_with_file_and_line(lift, tmp_path, case):
    text, message = BAD_FILES[case]
    (tmp_path / "demos.csv").write_text(text)
    with pytest.raises(ca.FileError, match=message) as caught:
        ca.demonstrations(tmp_path / "demos.csv", lift, smoothing=0.0, at_end="absorb")
    assert str(tmp_path / "demos.csv") in str(caught.value)


def test_files_that_cannot_be_read(lift, tmp_path):
    with pytest.raises(ca.FileError, match="No such file"):
        ca.demonstrations(tmp_path / "gone.csv", lift, smoothing=0.0, at_end="absorb")
    (tmp_path / "x.csv").write_bytes(b"episode,state\n1,\xff\n")
    with pytest.raises(ca.FileError, match="not a csv file in UTF-8"):
        ca.demonstrations(tmp_path / "x.csv", lift, smoothing=0.0, at_end="absorb")


# --- everything else that is wrong ---

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
        '{ episodes = "demos.csv", smothing = 0.2 }': "unknown key 'smothing'; allowed: episodes, smoothing, at_end",
        '{ episodes = 3, smoothing = 0.2, at_end = "cut" }': r"KL\.prior\.episodes must be a name",
        '{ episodes = "gone.csv", smoothing = 0.2, at_end = "cut" }': "No such file",
        '{ episodes = "demos.csv", smoothing = 2, at_end = "cut" }': "smoothing is 2",
    }
    for text_of_prior, message in wrong.items():
        with pytest.raises(ca.FileError, match=message):
            problem(text_of_prior)


def test_the_command_line_says_where_to_put_them():
    from cautious.commands.risk_spec import parse_risk

    with pytest.raises(ca.InputError, match=r"--risk kl is 'demos\.csv'; episodes need .* in a problem file"):
        parse_risk("2*kl:demos.csv+entropy")
