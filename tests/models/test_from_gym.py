"""Environments as models: published values, plain value iteration on their tables, ends, wrappers, and refusals."""

import importlib.util
import math
import random
import re
import sys

import numpy as np
import pytest

import cautious as ca
from cautious.models.gym_trials import first_states

gymnasium = pytest.importorskip("gymnasium", reason="extra gym")

# expected discounted return of the best policy from the start; discount 0.99, ends absorb
PUBLISHED = {"FrozenLake-v1": 0.5420259320, "CliffWalking-v1": -12.2478977001, "Taxi-v4": 6.3274643149}
VARIANTS = {
    "8x8": ("FrozenLake-v1", {"map_name": "8x8"}),
    "costly holes": ("FrozenLake-v1", {"reward_schedule": (1, -1, -0.01)}),
    "slippery cliff": ("CliffWalking-v1", {"is_slippery": True}),
    "rain": ("Taxi-v4", {"is_rainy": True}),
}


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


class Listed(gymnasium.Env):
    """An environment with a table of the caller's, and nothing else."""

    def __init__(self, table, n_states, n_actions, start=None, first_state=0, first_action=0):
        self.P = table
        self.observation_space = gymnasium.spaces.Discrete(n_states, start=first_state)
        self.action_space = gymnasium.spaces.Discrete(n_actions, start=first_action)
        if start is not None:
            self.initial_state_distrib = np.array(start)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return int(self.observation_space.start), {}

    def step(self, action):
        raise AssertionError("a table needs no steps")


class Corridor(gymnasium.Env):
    """Places 10 to 15: walk or jump right; jumping over 15 ends. Deterministic, without a table."""

    observation_space = gymnasium.spaces.Discrete(6, start=10)
    action_space = gymnasium.spaces.Discrete(2, start=1)
    first, noise = 10, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.first
        return self.place, {}

    def set_state(self, place):
        assert place != 12 or self.first == 12, "nobody can be at place 12"
        self.place = place

    def step(self, action):
        if self.noise is not None:
            self.noise(self)
        goal = self.place + (1 if action == 1 else 3)
        goal += goal == 12
        ended = goal > 15
        reward = -1.0 if action == 1 else -2.5
        self.place = min(goal, 15)
        return self.place, reward, ended, False, {}


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


def test_variance_sees_two_ends_that_pay_differently_and_cvar_refuses_to_guess():
    lines = [(0.25, 0, 8.0, True), (0.25, 0, 0.0, True), (0.5, 0, -2.0, False)]
    mdp = ca.from_gym(Listed([[lines]], 1, 1, start=[1.0]), 0.9, "absorb")
    assert mdp.rewards[0, 0] == 1.0
    assert mdp.reward_square[0, 0] == 0.25 * 64 + 0.5 * 4
    with pytest.raises(ca.IncompatibleError, match="CVaR needs the rewards of the outcomes"):
        ca.Problem(mdp, ca.CVaR(0.5))


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


@pytest.mark.parametrize("env", [Corridor(), gymnasium.wrappers.TimeLimit(Corridor(), 1)])
def test_a_deterministic_environment_is_enumerated(env):
    mdp = ca.from_gym(env, 0.9, "absorb")
    assert mdp.start.tolist() == [1, 0, 0, 0, 0, 0, 0]
    ends = mdp.transitions.indices.reshape(mdp.shape)
    assert ends.tolist() == [[1, 3], [3, 4], [2, 2], [4, 6], [5, 6], [6, 6], [6, 6]]
    assert mdp.rewards.tolist() == [[-1, -2.5]] * 2 + [[0, 0]] + [[-1, -2.5]] * 3 + [[0, 0]]
    again = ca.from_gym(env, 0.9, "restart", start=15)
    assert again.transitions.indices.tolist()[-2:] == [5, 5]
    assert np.array_equal(ca.from_gym(Careless(), 0.9, "absorb").transitions.indices.reshape(mdp.shape), ends)


class Hidden(gymnasium.Env):
    """One of Gymnasium's tables, without showing it."""

    def __init__(self, name, **options):
        self.inner = gymnasium.make(name, **options).unwrapped
        self.observation_space, self.action_space = self.inner.observation_space, self.inner.action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.inner.np_random = self.np_random
        return self.inner.reset()

    def set_state(self, state):
        self.inner.s = state

    def step(self, action):
        self.inner.np_random = self.np_random
        return self.inner.step(action)


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
@pytest.mark.parametrize("case", ["FrozenLake-v1", "slippery cliff", "costly holes"])
def test_random_steps_are_listed_exactly(case, at_end):
    name, options = VARIANTS.get(case, (case, {}))
    env = Hidden(name, **options)
    tried, listed = ca.from_gym(env, 0.9, at_end), ca.from_gym(env.inner, 0.9, at_end)
    assert np.abs(tried.start - listed.start).max() <= 1e-15
    seen = tried.visitable
    rows = np.repeat(seen, tried.n_actions)
    assert np.array_equal(seen, listed.visitable)
    assert np.abs(tried.transitions[rows] - listed.transitions[rows]).max() <= 1e-15
    assert np.allclose(tried.rewards[seen], listed.rewards[seen], rtol=1e-14)
    assert np.allclose(tried.reward_square[seen], listed.reward_square[seen], rtol=1e-14)


def test_random_first_states_are_listed_exactly():
    env = Hidden("FrozenLake-v1", desc=["SFS", "FHF", "SFG"])
    assert np.abs(first_states(env) - env.inner.initial_state_distrib).max() <= 1e-14


class Dice(Corridor):
    """Every kind of draw that can be listed."""

    def step(self, action):
        throw = int(self.np_random.integers(1, 4)) + int(self.np_random.choice([0, 1], p=[0.25, 0.75]))
        if self.np_random.uniform(-1, 1) >= 0.5:
            throw = 0
        luck = self.np_random.random()
        bonus = 0.0 if luck < 0.2 else 1.0 if luck < 0.7 else 2.0
        self.place = 10 + throw
        return self.place, bonus, False, False, {}

    def set_state(self, place):
        self.place = place


def test_every_kind_of_draw_that_can_be_listed():
    mdp = ca.from_gym(Dice(), 0.9, "restart")
    faces = {1: 1 / 12, 2: 1 / 3, 3: 1 / 3, 4: 1 / 4}
    expected = [0.25, *(0.75 * faces[k] for k in range(1, 5)), 0.0]
    assert np.allclose(mdp.transitions[[0]].toarray()[0], expected, atol=1e-15)
    assert mdp.rewards[0, 0] == pytest.approx(0.5 + 2 * 0.3)
    assert mdp.reward_square[0, 0] == pytest.approx(0.5 + 4 * 0.3)


class Draws(Corridor):
    """A step that draws what cannot be listed, though it does not show."""

    noise = staticmethod(lambda env: env.np_random.normal())


class Computes(Corridor):
    noise = staticmethod(lambda env: int(4 * env.np_random.random()))


class Tosses(Corridor):
    """May never come to an end."""

    @staticmethod
    def noise(env):
        while env.np_random.random() < 0.5:
            pass


class Hoards(Corridor):
    """Keeps a random number for later."""

    luck = 0.0

    def step(self, action):
        lucky = self.luck < 0.5
        self.luck = self.np_random.random()
        place, reward, *rest = super().step(action)
        return place, reward + lucky, *rest


class OwnGenerator(Corridor):
    """Something rare may happen, and trying twice would not show it."""

    rare = staticmethod(random.Random)

    def __init__(self):
        self.own = self.rare(0)

    noise = staticmethod(lambda env: env.own.random() < 1e-9)


class OwnLegacyGenerator(OwnGenerator):
    rare = staticmethod(np.random.RandomState)


class Captures(Corridor):
    """Draws from its generator by another name."""

    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed)
        self.own = self.np_random
        return found

    noise = staticmethod(lambda env: env.own.random())


class DrawsElsewhere(Corridor):
    noise = staticmethod(lambda env: random.random())


class Remembers(Corridor):
    """Goes back and forth between two rewards."""

    count = 0

    def step(self, action):
        self.count += 1
        place, reward, *rest = super().step(action)
        return place, reward + self.count % 2, *rest


class Careless(Corridor):
    """Does not hand on its seed; still, nothing is drawn."""

    def reset(self, *, seed=None, options=None):
        self.place = self.first
        return self.place, {}


class DrawsFirst(Corridor):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.np_random.normal()
        return self.place, {}


class Fixed(Corridor):
    set_state = None


def wrapped(wrapper, *arguments):
    return lambda: ca.from_gym(wrapper(gymnasium.make("FrozenLake-v1"), *arguments), 0.9, "absorb")


class Moody(gymnasium.RewardWrapper):
    def reward(self, reward):
        return float(np.random.default_rng().random())


REFUSED = {
    "normal": (
        lambda: ca.from_gym(Draws(), 0.9, "absorb"),
        "env.step(1) from the observation 10 draws by np_random.normal, whose outcomes cannot be listed, and env has "
        "no table P; learn from samples: ca.learn(ca.GymSimulator(env, ...)), or write the outcomes down",
    ),
    "elsewhere": (lambda: ca.from_gym(DrawsElsewhere(), 0.9, "absorb"), "draws random numbers from elsewhere than"),
    "own generator": (lambda: ca.from_gym(OwnGenerator(), 0.9, "absorb"), "draws random numbers from elsewhere than"),
    "legacy": (lambda: ca.from_gym(OwnLegacyGenerator(), 0.9, "absorb"), "draws random numbers from elsewhere than"),
    "captured": (lambda: ca.from_gym(Captures(), 0.9, "absorb"), "draws random numbers from elsewhere than"),
    "computed": (lambda: ca.from_gym(Computes(), 0.9, "absorb"), "a uniform number and does more than compare it"),
    "without end": (lambda: ca.from_gym(Tosses(), 0.9, "absorb"), "can draw more than 1000 random numbers"),
    "kept": (lambda: ca.from_gym(Hoards(), 0.9, "absorb"), "uses a random number of an earlier step"),
    "memory": (lambda: ca.from_gym(Remembers(), 0.9, "absorb"), "the observation is not the whole state; learn from"),
    "first state": (
        lambda: ca.from_gym(DrawsFirst(), 0.9, "absorb"),
        "start is needed: env.reset() draws by np_random.normal",
    ),
    "cannot be set": (
        lambda: ca.from_gym(Fixed(), 0.9, "absorb"),
        "so every state must be tried: from_gym does not know how",
    ),
    "blackjack": (lambda: ca.from_gym(gymnasium.make("Blackjack-v1"), 0.9, "absorb"), "from_gym needs Discrete"),
    "vector": (lambda: ca.from_gym(gymnasium.make_vec("Taxi-v4", 2), 0.9, "absorb"), "found SyncVectorEnv"),
    "autoreset": (wrapped(gymnasium.wrappers.Autoreset), "has the wrapper Autoreset"),
    "sticky": (wrapped(gymnasium.wrappers.StickyAction, 0.5), "has the wrapper StickyAction, which may change"),
    "normalised": (wrapped(gymnasium.wrappers.NormalizeReward), "has the wrapper NormalizeReward, which may change"),
    "moody": (wrapped(Moody), "the wrapper Moody turns the reward 0.0 into"),
    "observations": (
        wrapped(gymnasium.wrappers.TransformObservation, lambda s: 15 - s, gymnasium.spaces.Discrete(16)),
        "changes the observations, so they are not its states; pass set_state",
    ),
    "too many": (
        lambda: ca.from_gym(Listed({}, 10**12, 3, start=[1.0]), 0.9, "absorb"),
        "env has 1000000000000 observations and 3 actions; from_gym takes up to 1e+08 pairs",
    ),
    "fickle": (lambda: ca.from_gym(gymnasium.make("Taxi-v4", fickle_passenger=True), 0.9, "absorb"), "not the whole"),
}


def listed(*lines, **options):
    return lambda: ca.from_gym(Listed({0: {0: list(lines)}}, 2, 1, start=[1.0, 0.0]), 0.9, "absorb", **options)


GOOD = (1.0, 0, 0.0, False)
WRONG = {
    "at_end": (lambda: ca.from_gym(gymnasium.make("Taxi-v4"), 0.9, "stop"), "at_end is 'stop'"),
    "discount": (lambda: ca.from_gym(gymnasium.make("Taxi-v4"), 1, "absorb"), "discount is 1.0"),
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


@pytest.mark.parametrize("case", REFUSED)
def test_environments_that_have_no_exact_model_are_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(ca.IncompatibleError, match=re.escape(message)):
        make()


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
