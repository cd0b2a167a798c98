"""Environments without a table: every way a step can go is tried, or the environment is refused.

Listed draws have exact chances: against closed forms, and against the same programs really drawing.
"""

import math
import random
import re
from collections import Counter

import numpy as np
import pytest
from gym_samples import VARIANTS, Corridor, Listed

import cautious as ca
from cautious.models.gym_enumeration import UnlistedDraw, first_states, listed_ways
from cautious.models.gym_spaces import spaces_of

gymnasium = pytest.importorskip("gymnasium", reason="extra gym")


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
    assert np.abs(first_states(env, spaces_of(env, "the test")) - env.inner.initial_state_distrib).max() <= 1e-14


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


class Logarithm(Corridor):
    noise = staticmethod(lambda env: np.log(env.np_random.random()))


class Printed(Corridor):
    noise = staticmethod(lambda env: f"{env.np_random.random():.2f}")


class Nothing(Corridor):
    def step(self, action):
        return *super().step(action)[:1], math.nan, False, False, {}


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
    "logarithm": (lambda: ca.from_gym(Logarithm(), 0.9, "absorb"), "a uniform number and does more than compare it"),
    "printed": (lambda: ca.from_gym(Printed(), 0.9, "absorb"), "a uniform number and does more than compare it"),
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
    "blackjack": (
        lambda: ca.from_gym(gymnasium.make("Blackjack-v1"), 0.9, "absorb"),
        "env.reset() can come out in more than 10000 ways; pass start=..., one observation, or one chance per "
        "observation, or learn from samples",
    ),
    "box": (
        lambda: ca.from_gym(gymnasium.make("CartPole-v1"), 0.9, "absorb"),
        "from_gym needs Discrete, MultiDiscrete or a Tuple of them",
    ),
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


@pytest.mark.parametrize("case", REFUSED)
def test_environments_that_have_no_exact_model_are_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(ca.IncompatibleError, match=re.escape(message)):
        make()


def test_a_step_that_pays_nothing_finite_is_named():
    with pytest.raises(ca.InputError, match="observation 10 is nan; it must be finite"):
        ca.from_gym(Nothing(), 0.9, "absorb")


def chances(program):
    found = Counter()
    for chance, result in listed_ways(program):
        found[result] += chance
    return dict(found)


@pytest.mark.parametrize("seed", range(10))
def test_listed_and_drawn_programs_agree(seed):
    rng = np.random.default_rng(seed)
    cuts, faces, weights = np.sort(rng.random(3)), int(rng.integers(2, 5)), rng.dirichlet(np.ones(3))

    def program(draws):
        number = draws.random()
        part = int(np.argmax(np.append(cuts, 1.0) > number))
        face = int(draws.integers(faces)) if number < cuts[1] else None
        return part, face, int(draws.choice(3, p=weights)), bool(draws.uniform(-2, 2) > cuts[0])

    exact, n = chances(program), 2000
    assert sum(exact.values()) == pytest.approx(1.0, abs=1e-13)
    drawn = Counter(program(rng) for _ in range(n))
    assert set(drawn) <= set(exact)
    for result, p in exact.items():
        assert abs(drawn[result] / n - p) <= 6 * np.sqrt(p * (1 - p) / n) + 1e-9


@pytest.mark.parametrize(
    ("program", "exact"),
    [
        (lambda draws: draws.random() < 0.3, {True: 0.3, False: 0.7}),
        (lambda draws: draws.random() >= 0.3, {True: 0.7, False: 0.3}),
        (lambda draws: np.float64(0.3) > draws.random(), {True: 0.3, False: 0.7}),
        (lambda draws: bool((draws.random() >= np.array([0.3, 0.5])).all()), {True: 0.5, False: 0.5}),
        (lambda draws: draws.random() < 2.0, {True: 1.0}),
        (lambda draws: draws.uniform(2, 4) <= 3.5, {True: 0.75, False: 0.25}),
        (lambda draws: int(np.searchsorted([0.25, 0.75, 1.0], draws.random())), {0: 0.25, 1: 0.5, 2: 0.25}),
        (lambda draws: int(draws.integers(2, 4, endpoint=True)), {2: 1 / 3, 3: 1 / 3, 4: 1 / 3}),
        (lambda draws: draws.choice(["a", "b", "c"], p=[0.5, 0.0, 0.5]), {"a": 0.5, "c": 0.5}),
        (lambda draws: "sure", {"sure": 1.0}),
    ],
)
def test_chances_are_exact(program, exact):
    assert chances(program) == pytest.approx(exact, abs=1e-15)


def toss_until_tails(draws):
    while draws.random() < 0.5:
        pass


kept = []


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (toss_until_tails, "can draw more than 1000 random numbers"),
        (lambda draws: int(draws.random() * 4), "does more than compare it"),
        (lambda draws: draws.random() < draws.random(), "does more than compare it"),
        (lambda draws: draws.random() == 0.5, "does more than compare it"),
        (lambda draws: draws.normal(), "draws by np_random.normal, whose outcomes cannot be listed"),
        (lambda draws: draws.random(3), "draws many numbers at once"),
        (lambda draws: draws.integers(10**12), "can come out in more than 10000 ways"),
        (lambda draws: [draws.integers(30) for _ in range(3)], "can come out in more than 10000 ways"),
        (lambda draws: draws.choice(2, p=[0.0, 0.0]), "expected 2 chances of at least 0 that sum to 1"),
        (lambda draws: draws.choice(2, p=[1.5, -0.5]), r"p=\[1.5, -0.5\]; expected 2 chances of at least 0"),
        (lambda draws: draws.choice(2, p=[0.5, 0.4]), "that sum to 1"),
        (lambda draws: draws.choice(2, p=[float("nan"), 1.0]), "of at least 0"),
        (lambda draws: draws.choice(3, p=[0.5, 0.5]), "expected 3 chances"),
        (lambda draws: draws.integers(3, 3), "none of which is above zero"),
        (lambda draws: draws.random() < float("nan"), "none of which is above zero"),
        (lambda draws: draws.uniform(1, 1), "between 1 and 1"),
        (
            lambda draws: kept.append(draws.random()) or [one < 0.5 for one in kept],
            "a random number of an earlier step",
        ),
    ],
)
def test_what_cannot_be_listed_is_refused(program, reason):
    with pytest.raises(UnlistedDraw, match=reason):
        list(listed_ways(program))


@pytest.mark.parametrize("p", [[0.5, 0.5 + 1e-9], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5 + 1e-7], [2.0, -1.0], [np.nan, 1.0]])
def test_chances_are_taken_where_numpy_takes_them(p):
    try:
        np.random.default_rng(0).choice(len(p), p=p)
    except ValueError:
        with pytest.raises(UnlistedDraw):
            chances(lambda draws: int(draws.choice(len(p), p=p)))
    else:
        assert chances(lambda draws: int(draws.choice(len(p), p=p))) == pytest.approx(dict(enumerate(p)))
