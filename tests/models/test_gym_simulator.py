"""Gymnasium environments: the distributions of their own tables, ends, offsets, and refusals."""

import pickle
import re

import numpy as np
import pytest

import cautious as ca

gymnasium = pytest.importorskip("gymnasium", reason="extra gym")

NAMES = ("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4")


class Walk(gymnasium.Env):
    """Observations 5 to 8 and actions 1 and 2: left or right with probability 0.8; 8 is the end."""

    observation_space = gymnasium.spaces.Discrete(4, start=5)
    action_space = gymnasium.spaces.Discrete(2, start=1)

    def __init__(self):
        self.place = 5
        self.ended = True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(options["state"]) if options else int(5 + self.np_random.integers(2))
        self.ended = False
        return np.array(self.place), {}

    def step(self, action):
        assert not self.ended, "an environment must be reset after its end"
        right = (action == 2) == (self.np_random.random() < 0.8)
        self.place = min(8, max(5, self.place + (1 if right else -1)))
        self.ended = self.place == 8
        return np.array(self.place), 1.0 if self.ended else -0.5, self.ended, False, {}


class WalkWithSetter(Walk):
    def set_state(self, state):
        self.place = state


def by_reset(env, state):
    env.reset(options={"state": state})


def walk(env=None, at_end="absorb", **changes):
    return ca.GymSimulator(env or WalkWithSetter(), 0.9, at_end, **({"reward_range": (-0.5, 1.0)} | changes))


def table_of(env, at_end):
    """Transitions (S, A, S) and expected rewards (S, A) as the environment's table says."""
    bare = env.unwrapped
    n, m = int(env.observation_space.n), int(env.action_space.n)
    size = n + (at_end == "absorb")
    chances, pay = np.zeros((size, m, size)), np.zeros((size, m))
    after_end = np.eye(size)[-1] if at_end == "absorb" else bare.initial_state_distrib
    chances[n:, :, n:] = 1.0
    for s in range(n):
        for a in range(m):
            for p, s_next, reward, ended in bare.P[s][a]:
                chances[s, a] += p * (after_end if ended else np.eye(size)[s_next])
                pay[s, a] += p * reward
    return chances, pay


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
@pytest.mark.parametrize("name", NAMES)
def test_draws_follow_the_environment_s_own_table(name, at_end):
    env = gymnasium.make(name)
    simulator = ca.GymSimulator(env, 0.9, at_end)
    chances, pay = table_of(env, at_end)
    shape, rng = pay.shape, np.random.default_rng(1)
    each = max(8, 12_000 // pay.size)
    pairs = np.repeat(rng.permutation(pay.size)[: 12_000 // each], each)
    states, actions = pairs // shape[1], pairs % shape[1]
    next_states, rewards = simulator.sample(states, actions, rng)
    # nothing that the table excludes
    assert (chances[states, actions, next_states] > 0).all()
    for s, a, reward in zip(states, actions, rewards, strict=True):
        assert reward in ({line[2] for line in env.unwrapped.P[s][a]} if s in env.unwrapped.P else {0.0})
    # six standard deviations of each count; 1e-9: outcomes that are sure
    tried = np.unique(pairs)
    counts = np.zeros((pay.size, shape[0]))
    np.add.at(counts, (pairs, next_states), 1)
    p = chances.reshape(pay.size, -1)[tried]
    assert (np.abs(counts[tried] - each * p) <= 6 * np.sqrt(each * p * (1 - p)) + 1 + 1e-9).all()
    means = np.bincount(pairs, rewards, minlength=pay.size)[tried] / each
    spread = np.ptp(simulator.reward_range) * np.sqrt(0.25 / each)
    assert np.abs(means - pay.ravel()[tried]).max() <= 6 * spread
    # all pairs together: a small bias that single pairs hide would show here
    surprise = rewards - pay[states, actions]
    assert abs(surprise.sum()) <= 6 * spread * np.sqrt(each * rewards.size) + 1e-9


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
@pytest.mark.parametrize("name", NAMES)
def test_environments_pass_the_public_check_and_start_where_they_say(name, at_end):
    simulator = ca.GymSimulator(gymnasium.make(name), 0.9, at_end)
    ca.testing.check_simulator(simulator, draws=500)
    n = 3000
    share = np.bincount(simulator.start_states(n, np.random.default_rng(0)), minlength=simulator.n_states) / n
    assert np.abs(share - simulator.known.start).max() <= 6 * np.sqrt(simulator.known.start.max() / n)


@pytest.mark.parametrize("at_end", ["absorb", "restart"])
@pytest.mark.parametrize(
    "simulator", [lambda end: walk(at_end=end), lambda end: walk(Walk(), end, set_state=by_reset)], ids=["own", "given"]
)
def test_numbers_that_do_not_start_at_zero(simulator, at_end):
    made = simulator(at_end)
    ca.testing.check_simulator(made, draws=500)
    assert (made.n_states, made.n_actions) == (4 + (at_end == "absorb"), 2)
    n = 4000
    next_states, rewards = made.sample(np.full(n, 2), np.ones(n, dtype=int), np.random.default_rng(0))
    ended = rewards == 1.0
    assert abs(ended.mean() - 0.8) < 6 * np.sqrt(0.16 / n)
    assert set(next_states[~ended]) == {1}
    # the walk starts at observation 5 or 6
    assert set(next_states[ended]) == ({4} if at_end == "absorb" else {0, 1})


def test_the_absorbing_state_stays_and_pays_nothing():
    simulator = walk(reward_range=(0.5, 1.0))
    assert simulator.reward_range == (0.0, 1.0)
    next_states, rewards = simulator.sample(np.full(3, 4), np.array([0, 1, 0]), np.random.default_rng(0))
    assert next_states.tolist() == [4, 4, 4]
    assert rewards.tolist() == [0, 0, 0]
    assert walk(at_end="restart", reward_range=(0.5, 1.0)).reward_range == (0.5, 1.0)


def test_a_time_limit_is_not_an_end():
    env = gymnasium.wrappers.TimeLimit(WalkWithSetter(), max_episode_steps=1)
    bare, limited = walk(), walk(env)
    states, actions = np.resize(np.arange(4), 1000), np.resize(np.array([0, 1, 1]), 1000)
    for simulator in (bare, limited):
        next_states, rewards = simulator.sample(states, actions, np.random.default_rng(2))
        assert np.array_equal(next_states == 4, rewards == 1.0)
        assert set(next_states[states == 0]) == {0, 1}


def test_the_seed_decides_and_nothing_is_remembered():
    simulator = ca.GymSimulator(gymnasium.make("FrozenLake-v1"), 0.9, "restart")
    states, actions = np.resize(np.arange(16), 300), np.resize(np.arange(4), 300)
    one = simulator.sample(states, actions, np.random.default_rng(5))
    simulator.start_states(7, np.random.default_rng(6))
    two = pickle.loads(pickle.dumps(simulator)).sample(states, actions, np.random.default_rng(5))
    other = simulator.sample(states, actions, np.random.default_rng(7))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one[0], other[0])


def test_rewards_and_starts_of_known_environments_are_told():
    lake = ca.GymSimulator(gymnasium.make("FrozenLake-v1"), 0.9, "absorb")
    assert lake.known.start.tolist() == [1.0] + 16 * [0.0]
    assert lake.known.scene.title == "FrozenLake-v1"
    assert ca.GymSimulator(gymnasium.make("CliffWalking-v1"), 0.9, "restart").reward_range == (-100.0, -1.0)
    assert walk().known.start is None


def shifted():
    lake = gymnasium.make("FrozenLake-v1")
    return gymnasium.wrappers.TransformObservation(lake, lambda s: 15 - s, lake.observation_space)


def scaled():
    return gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), lambda reward: 2 * reward)


class Broken(Walk):
    def set_state(self, row, column):
        """Another signature than ours."""


REFUSED = {
    "not an environment": (lambda: ca.GymSimulator("FrozenLake-v1", 0.9, "absorb"), "env must be a gymnasium.Env"),
    "observations": (
        lambda: ca.GymSimulator(gymnasium.make("MountainCar-v0"), 0.9, "absorb"),
        "float32); GymSimulator needs Discrete, MultiDiscrete or a Tuple of them, so that states and actions can be",
    ),
    "no way to set the state": (
        lambda: walk(Walk()),
        "does not know how to set the state of <Walk instance>; pass set_state=..., a function of (env, observation): "
        'it may write the environment\'s attributes, or call env.reset(options={"state": observation})',
    ),
    "another signature": (lambda: walk(Broken()), "setting the state of <Broken instance> to"),
    "hidden numbers": (lambda: walk(shifted()), "changes the observations, so they are not its states; pass set_state"),
    "hidden state": (
        lambda: ca.GymSimulator(gymnasium.make("Taxi-v4", fickle_passenger=True), 0.9, "absorb"),
        "the observation is not the whole state",
    ),
    "autoreset": (lambda: walk(gymnasium.wrappers.Autoreset(WalkWithSetter())), "has the wrapper Autoreset"),
}
WRONG = {
    "at_end": (lambda: walk(at_end="stop"), 'at_end is \'stop\'; expected "absorb" or "restart"'),
    "discount": (lambda: ca.GymSimulator(WalkWithSetter(), 1.5, "absorb", (0, 1)), "discount is 1.5"),
    "no range": (lambda: walk(reward_range=None), "reward_range is needed: the environment has no table P"),
    "changed range": (
        lambda: ca.GymSimulator(scaled(), 0.9, "absorb"),
        "reward_range is needed: a wrapper changes the rewards; pass reward_range=(low, high)",
    ),
    "set_state": (lambda: walk(set_state=3), "set_state must be a function of (env, observation), found 3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_environments_that_cannot_be_sampled_are_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(ca.IncompatibleError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("case", WRONG)
def test_bad_arguments_are_refused_with_their_name(case):
    make, message = WRONG[case]
    with pytest.raises(ca.InputError, match=re.escape(message)):
        make()


def test_wrappers_count():
    simulator = ca.GymSimulator(scaled(), 0.9, "absorb", reward_range=(0, 2))
    _, rewards = simulator.sample(np.full(200, 14), np.full(200, 2), np.random.default_rng(0))
    assert set(rewards) == {0.0, 2.0}


BAD_STEPS = {
    "outside": ((99, 0.0, False, False, {}), "the observation of env.step(2) from the observation 5 is 99; "),
    "text": (("six", 0.0, False, False, {}), "the observation of env.step(2) from the observation 5 is 'six'; "),
    "nothing": ((None, 0.0, False, False, {}), "is None; observations are 5 to"),
    "array": ((np.array([6, 6]), 0.0, False, False, {}), "is array([6, 6]); observations are"),
    "nothing at all": (None, "env.step(2) from the observation 5 returned None; expected (observation, reward, term"),
    "old": ((6, 0.0, False, {}), "returned 4 values; expected (observation, reward, terminated, truncated, info)"),
    "reward": ((6, "1", False, False, {}), "the reward of env.step(2) from the observation 5 must be a number"),
    "terminated": ((6, 0.0, "no", False, {}), "terminated of env.step(2) from the observation 5 is 'no'"),
    "truncated": ((6, 0.0, False, None, {}), "truncated of env.step(2) from the observation 5 is None"),
}


@pytest.mark.parametrize("case", BAD_STEPS)
def test_a_step_that_breaks_the_interface_is_named(case):
    answer, message = BAD_STEPS[case]

    class Odd(WalkWithSetter):
        def step(self, action):
            return answer

    with pytest.raises(ca.InputError, match=re.escape(message)):
        walk(Odd()).sample(np.array([0]), np.array([1]), np.random.default_rng(0))
    with pytest.raises(ca.InputError, match=re.escape(message.replace("step(2)", "step(1)"))):
        ca.from_gym(Odd(), 0.9, "absorb", start=5)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (5, "env.reset() returned 5; expected (observation, info)"),
        (("a", {}), "the observation of env.reset() is 'a'; observations are 5 to"),
        ((99, {}), "the observation of env.reset() is 99; observations are 5 to"),
    ],
)
def test_a_reset_that_breaks_the_interface_is_named(answer, message):
    class Odd(WalkWithSetter):
        def reset(self, *, seed=None, options=None):
            return answer

    for make in (walk, lambda env: ca.from_gym(env, 0.9, "absorb")):
        with pytest.raises(ca.InputError, match=re.escape(message)):
            make(Odd())


def test_blackjack_is_counted_and_sampled():
    env = gymnasium.make("Blackjack-v1")
    table = ca.GymSimulator(env, 0.9, "absorb", reward_range=(-1, 1))
    # a natural is part of the state, and no part of what is observed
    assert table.n_states == 32 * 11 * 2 * 2 + 1
    twenty = table.known.state_names.index("(20, 10, 0, 0)")
    natural = table.known.state_names.index("(21, 10, 1, 1)")
    assert table.spaces.observation(natural) == (21, 10, 1)
    assert table.spaces.observation(table.n_states - 1) is None
    rng, n = np.random.default_rng(0), 4000
    # a natural loses to nobody, and ties with the dealer's ace only
    after, paid = table.sample(np.full(n, natural), np.zeros(n, np.int64), rng)
    assert set(after) == {table.n_states - 1}
    assert set(paid) == {0.0, 1.0}
    assert abs((paid == 0).mean() - 1 / 13) <= 6 * np.sqrt(1 / 13 / n)
    # one more card on 20 is an ace or too much
    after, paid = table.sample(np.full(n, twenty), np.ones(n, np.int64), rng)
    lucky = after == table.known.state_names.index("(21, 10, 0, 0)")
    assert (paid[lucky] == 0).all()
    assert (paid[~lucky] == -1).all()
    assert abs(lucky.mean() - 1 / 13) <= 6 * np.sqrt(1 / 13 / n)


@pytest.mark.parametrize("sab", [True, False])
def test_every_state_and_action_of_blackjack_can_be_drawn(sab):
    """Also those that no hand has: a learner draws every pair."""
    table = ca.GymSimulator(gymnasium.make("Blackjack-v1", sab=sab), 0.9, "absorb", reward_range=(-1, 1))
    states, actions = np.divmod(np.arange(2 * table.n_states), 2)
    after, _ = table.sample(states, actions, np.random.default_rng(0))
    assert (after < table.n_states).all()


def chance_of_a_seventeen_or_more(card):
    """What the dealer ends with, by recursion over hands of an infinite deck: {sum, 22 for more: chance}."""
    deck = [*range(1, 11), 10, 10, 10]

    def ends(total, aces):
        best = total + 10 if aces and total + 10 <= 21 else total
        if best >= 17:
            return {min(best, 22): 1.0}
        found = {}
        for one in deck:
            for end, chance in ends(total + one, aces or one == 1).items():
                found[end] = found.get(end, 0.0) + chance / 13
        return found

    return ends(card, card == 1)


@pytest.mark.parametrize("card", [1, 6, 10])
def test_the_dealer_of_blackjack_plays_by_the_rules(card):
    table = ca.GymSimulator(gymnasium.make("Blackjack-v1", sab=False), 0.9, "absorb", reward_range=(-1, 1))
    ends, n = chance_of_a_seventeen_or_more(card), 4000
    state = table.known.state_names.index(f"(19, {card}, 0)")
    _, paid = table.sample(np.full(n, state), np.zeros(n, np.int64), np.random.default_rng(card))
    lost, won = ends.get(20, 0) + ends.get(21, 0), ends.get(17, 0) + ends.get(18, 0) + ends.get(22, 0)
    for value, chance in ((-1.0, lost), (1.0, won)):
        assert abs((paid == value).mean() - chance) <= 6 * np.sqrt(chance / n)


class Crossing(gymnasium.Env):
    """A place of a grid and a direction; one action per leg: a tuple, a vector and a number in one state."""

    observation_space = gymnasium.spaces.Tuple(
        (gymnasium.spaces.MultiDiscrete([2, 3]), gymnasium.spaces.Discrete(2, start=5))
    )
    action_space = gymnasium.spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = (np.array([0, 0]), 5)
        return self.state, {}

    def set_state(self, state):
        assert self.observation_space.contains((np.asarray(state[0], np.int64), np.int64(state[1])))
        self.state = state

    def step(self, action):
        place, side = self.state
        place = np.array([(place[0] + action[0]) % 2, min(2, place[1] + action[1])])
        side = 11 - side if self.np_random.random() < 0.25 else side
        self.state = (place, side)
        ended = bool(place[1] == 2)
        return self.state, float(action[0] - action[1]), ended, False, {}


def test_tuples_and_vectors_are_counted_alike_by_model_and_simulator():
    simulator = ca.GymSimulator(Crossing(), 0.9, "absorb", reward_range=(-1, 1))
    mdp = ca.from_gym(Crossing(), 0.9, "absorb")
    assert mdp.shape == (simulator.n_states, simulator.n_actions) == (13, 4)
    assert mdp.state_names == simulator.known.state_names
    assert mdp.state_names[1] == "((0, 0), 6)"
    assert mdp.action_names == ("(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)")
    for state in range(12):
        assert simulator.spaces.state_number("here", simulator.spaces.element(state)) == state
    n, rng = 2000, np.random.default_rng(3)
    # what cannot be reached stays in the model, and goes on in the environment
    for state in np.flatnonzero(mdp.visitable[:-1]):
        for action in range(4):
            after, paid = simulator.sample(np.full(n, state), np.full(n, action), rng)
            share = np.bincount(after, minlength=13) / n
            exact = mdp.transitions[[4 * state + action]].toarray().ravel()
            assert np.abs(share - exact).max() <= 6 * np.sqrt(0.25 / n)
            assert (paid == mdp.rewards[state, action]).all()


class Sees(gymnasium.ObservationWrapper):
    """Observes the mirrored place, and can be put there."""

    def observation(self, observation):
        return 13 - observation

    def set_state(self, state):
        self.unwrapped.place = 13 - int(state)


def test_set_state_of_a_wrapper_is_found():
    simulator = ca.GymSimulator(gymnasium.wrappers.TimeLimit(Sees(Walk()), 50), 0.9, "absorb", reward_range=(-0.5, 1.0))
    plain, mirrored = ca.from_gym(WalkWithSetter(), 0.9, "absorb"), ca.from_gym(Sees(Walk()), 0.9, "absorb")
    order = [3, 2, 1, 0, 4]
    assert np.array_equal(
        mirrored.transitions.toarray().reshape(5, 2, 5)[order][:, :, order],
        plain.transitions.toarray().reshape(5, 2, 5),
    )
    after, _ = simulator.sample(np.zeros(9, np.int64), np.zeros(9, np.int64), np.random.default_rng(0))
    # observed 5 is place 8, from where no step leads beyond 7
    assert set(after) <= {0, 1, 4}
