"""The estimate: against plain loops, closed forms, exact occupancies and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import assert_close_in_errors, by_hand, lives, record, until

import cautious as ca
from cautious.occupancy import policy_occupancy
from random_models import random_model

GAMMA = 0.8


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
