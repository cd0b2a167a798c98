"""Rollouts against outcome trees written out by hand, and against each other."""

import itertools
import math

import numpy as np
import pytest

import cautious as ca


def random_model(seed, n_states=3, n_actions=2, discount=0.6, outcome=True):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    shape = (n_states, n_actions, n_states) if outcome else (n_states, n_actions)
    rewards = rng.normal(size=shape)
    start = rng.dirichlet(np.ones(n_states))
    policy = rng.dirichlet(np.ones(n_actions), size=n_states)
    return transitions, rewards, discount, start, policy


def tree_moments(transitions, rewards, discount, start, policy, depth, reward_values=None):
    """Mean and variance of the truncated return by walking every path of the outcome tree.

    ``reward_values`` (S, A): pairs of equally likely rewards, drawn apart from the next state.
    """
    n_states, n_actions = policy.shape
    mean = square = 0.0
    paths = [(start[s], s, 0.0) for s in range(n_states)]
    for step in range(depth):
        longer = []
        for chance, s, total in paths:
            for a, t in itertools.product(range(n_actions), range(n_states)):
                p = chance * policy[s, a] * transitions[s, a, t]
                if reward_values is None:
                    longer.append((p, t, total + discount**step * rewards[s, a, t]))
                else:
                    longer += [(p / 2, t, total + discount**step * r) for r in reward_values[s][a]]
        paths = longer
    mean = math.fsum(p * g for p, _, g in paths)
    square = math.fsum(p * (g - mean) ** 2 for p, _, g in paths)
    return mean, square


@pytest.mark.parametrize("seed", range(3))
def test_exact_moments_match_the_outcome_tree(seed):
    transitions, rewards, _, start, policy = random_model(seed, n_states=2)
    discount, depth = 0.05, 6
    mdp = ca.MDP(transitions, rewards, discount, start)
    mean, variance = tree_moments(transitions, rewards, discount, start, policy, depth)
    found = ca.evaluate(mdp, policy, episodes=2)
    assert found.exact_mean == pytest.approx(mean, abs=1e-6)
    assert found.exact_variance == pytest.approx(variance, abs=1e-6)


def test_exact_variance_with_reward_square_matches_the_outcome_tree():
    transitions, _, _, start, policy = random_model(5, n_states=2)
    rng = np.random.default_rng(1)
    values = rng.normal(size=(2, 2, 2))
    mdp = ca.MDP(transitions, values.mean(axis=2), 0.05, start, reward_square=(values**2).mean(axis=2))
    mean, variance = tree_moments(transitions, None, 0.05, start, policy, 4, reward_values=values)
    found = ca.evaluate(mdp, policy, episodes=2)
    assert found.exact_mean == pytest.approx(mean, abs=1e-5)
    assert found.exact_variance == pytest.approx(variance, abs=1e-5)


@pytest.mark.parametrize("outcome", [True, False])
def test_two_hundred_thousand_rollouts_agree_with_the_exact_figures(outcome):
    transitions, rewards, discount, start, policy = random_model(7, n_states=4, discount=0.8, outcome=outcome)
    mdp = ca.MDP(transitions, rewards, discount, start)
    found = ca.evaluate(mdp, policy, episodes=200_000, seed=3, sets={"two": [0, 2], "mask": np.arange(4) == 1})
    assert abs(found.mean - found.exact_mean) < 5 * found.standard_error + found.truncation_error
    # the fourth moment of the return is bounded by a small multiple of the squared variance here
    assert found.variance == pytest.approx(found.exact_variance, rel=0.02)
    for name in ("two", "mask"):
        assert found.exposure[name] == pytest.approx(found.exact_exposure[name], abs=0.005)
    expected = policy_share(transitions, discount, start, policy, [0, 2])
    assert found.exact_exposure["two"] == pytest.approx(expected, abs=1e-12)


def policy_share(transitions, discount, start, policy, states):
    chain = np.einsum("sa,sat->st", policy, transitions)
    time = (1 - discount) * np.linalg.solve(np.eye(len(start)) - discount * chain.T, start)
    return time[states].sum()


def test_a_deterministic_world_has_no_spread_and_the_closed_form_return():
    mdp = ca.MDP(np.ones((1, 1, 1)), np.array([[3.0]]), discount=0.9)
    found = ca.evaluate(mdp, np.ones((1, 1)), episodes=5, horizon=10)
    assert found.variance == pytest.approx(0.0, abs=1e-24)
    assert found.mean == pytest.approx(3 * (1 - 0.9**10) / 0.1)
    assert found.exact_mean == pytest.approx(30.0)
    assert found.exact_variance == pytest.approx(0.0, abs=1e-20)
    assert abs(found.exact_mean - found.mean) <= found.truncation_error * (1 + 1e-12)


def test_the_variance_survives_a_large_constant_reward():
    transitions, rewards, discount, start, policy = random_model(11, discount=0.9)
    near = ca.evaluate(ca.MDP(transitions, rewards, discount, start), policy, episodes=2).exact_variance
    far = ca.evaluate(ca.MDP(transitions, rewards + 1e8, discount, start), policy, episodes=2).exact_variance
    assert far == pytest.approx(near, rel=1e-5)


def test_same_seed_same_bytes_and_another_seed_differs():
    transitions, rewards, discount, start, policy = random_model(2)
    mdp = ca.MDP(transitions, rewards, discount, start)
    one, two = (ca.evaluate(mdp, policy, episodes=50, seed=4).returns.tobytes() for _ in range(2))
    assert one == two
    assert one != ca.evaluate(mdp, policy, episodes=50, seed=5).returns.tobytes()


def test_default_horizon_forgets_all_but_a_ten_thousandth():
    transitions, rewards, _, start, policy = random_model(2)
    for discount in (0.0, 0.5, 0.9, 0.99):
        found = ca.evaluate(ca.MDP(transitions, rewards, discount, start), policy, episodes=2)
        assert discount**found.horizon <= 1e-4 * (1 + 1e-9)
        assert found.horizon == 1 or discount ** (found.horizon - 1) > 1e-4


def test_actions_without_a_chance_are_never_drawn():
    transitions = np.stack([np.eye(2)[[0, 0]], np.eye(2)[[1, 1]]], axis=1)
    mdp = ca.MDP(transitions, np.array([[0.0, 1.0], [0.0, 1.0]]), 0.5, allowed=[[True, False], [True, False]])
    found = ca.evaluate(mdp, np.array([[1.0, 0.0], [1.0, 0.0]]), episodes=500)
    assert found.returns.max() == 0.0


class Walk:
    n_states, n_actions, discount, reward_range = 3, 2, 0.7, (0.0, 1.0)

    def start_states(self, n, rng):
        return np.zeros(n, dtype=np.int64)

    def sample(self, states, actions, rng):
        return np.minimum(states + actions, 2), (states == 2).astype(float)


def test_a_simulator_is_anything_with_the_members():
    found = ca.evaluate(Walk(), np.array([[0.0, 1.0]] * 3), episodes=4, sets=[[2], [0, 1]])
    assert found.mean == pytest.approx(0.7**2 / 0.3, abs=found.truncation_error * (1 + 1e-9))
    assert found.exact_mean is None
    assert found.exact_variance is None
    assert found.exact_exposure is None
    assert found.exposure["set 0"] + found.exposure["set 1"] == pytest.approx(1.0)


BROKEN = {
    "shape": (lambda s, a: (s[:1], s * 0.0), "shape"),
    "float states": (lambda s, a: (s * 0.5, s * 0.0), "whole numbers"),
    "unknown state": (lambda s, a: (s + 3, s * 0.0), r"is 3 \(step 0, seed 0\); states are numbered 0 to 2"),
    "nan reward": (lambda s, a: (s, s * np.nan), "is nan"),
    "reward range": (lambda s, a: (s, s + 7.0), r"reward_range promises \(0.0, 1.0\)"),
    "text reward": (lambda s, a: (s, s.astype(str)), "real numbers"),
    "no pair": (lambda s, a: s, "must return"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_a_simulator_returns_is_checked(case):
    sample, message = BROKEN[case]

    class Broken(Walk):
        def sample(self, states, actions, rng):
            return sample(states, actions)

    with pytest.raises(ca.InputError, match=message):
        ca.evaluate(Broken(), np.full((3, 2), 0.5), episodes=4)


def test_an_error_inside_the_simulator_names_the_call_and_the_seed():
    class Raises(Walk):
        def sample(self, states, actions, rng):
            raise RuntimeError("engine lost")

    with pytest.raises(RuntimeError, match="engine lost") as caught:
        ca.evaluate(Raises(), np.full((3, 2), 0.5), episodes=4, seed=9)
    assert caught.value.__notes__ == ["raised by simulator.sample (step 0, seed 9)"]


def test_wrong_input_is_refused_by_name():
    transitions, rewards, discount, start, policy = random_model(2)
    mdp = ca.MDP(transitions, rewards, discount, start)
    with pytest.raises(ca.InputError, match="policy has shape"):
        ca.evaluate(mdp, policy[:2])
    with pytest.raises(ca.InputError, match=r"policy\[0\] sums to 2"):
        ca.evaluate(mdp, policy * 2)
    with pytest.raises(ca.InputError, match="episodes"):
        ca.evaluate(mdp, policy, episodes=1)
    with pytest.raises(ca.InputError, match="horizon"):
        ca.evaluate(mdp, policy, horizon=0)
    with pytest.raises(ca.InputError, match=r"sets\['pit'\]\[0\] is 9"):
        ca.evaluate(mdp, policy, sets={"pit": [9]})
    with pytest.raises(ca.InputError, match=r"sets\['set 0'\]"):
        ca.evaluate(mdp, policy, sets=[1, 2])
    with pytest.raises(ca.InputError, match="sets must map"):
        ca.evaluate(mdp, policy, sets="pit")
    with pytest.raises(ca.IncompatibleError, match=r"needs a ca\.MDP or a simulator, found str"):
        ca.evaluate("maze", policy)
    with pytest.raises(ca.InputError, match="every row must sum to 1"):
        ca.evaluate(Walk(), np.ones((3, 2)))
    with pytest.raises(ca.InputError, match="no state names"):
        ca.evaluate(Walk(), np.full((3, 2), 0.5), sets={"end": ["end"]})


def test_a_simulator_that_knows_its_names_takes_sets_by_name():
    river = ca.worlds.river_swim()
    policy = np.full(river.shape, 0.5)
    by_name = ca.evaluate(river.simulator(), policy, sets={"bank": ["place 0"]}).exposure
    assert by_name == ca.evaluate(river.simulator(), policy, sets={"bank": [0]}).exposure
    with pytest.raises(ca.InputError, match=r"names the state 'place 9', which this model does not have"):
        ca.evaluate(river.simulator(), policy, sets={"bank": ["place 9"]})


def test_what_a_simulator_knows_must_be_of_the_right_kind():
    class Boasts(Walk):
        known = "everything"

    with pytest.raises(ca.IncompatibleError, match=r"known must be .*Known, found str"):
        ca.evaluate(Boasts(), np.full((3, 2), 0.5), sets={"end": [2]})


def test_the_table_pairs_simulated_and_exact_figures():
    transitions, rewards, discount, start, policy = random_model(2)
    found = ca.evaluate(ca.MDP(transitions, rewards, discount, start), policy, sets={"pit": [1]})
    rows = {name: (simulated, exact) for name, simulated, exact in found.table()}
    assert rows["mean return"] == (found.mean, found.exact_mean)
    assert rows["time in pit"] == (found.exposure["pit"], found.exact_exposure["pit"])
    assert rows["5 % quantile of the return"] == (found.quantiles[5], found.exact_returns.quantile(0.05))
