"""Planning against the linear program, and its two bounds against the truth."""

import numpy as np
import pytest
from scipy.optimize import linprog

import cautious as ca
import reference
from cautious.planning import plan
from random_models import random_model


def lp_value(raw, reward):
    """Optimum of the values LP: the smallest v with v >= r + gamma P v, by HiGHS."""
    rows = np.repeat(np.eye(raw.n_states), raw.n_actions, axis=0) - raw.discount * raw.kernel.reshape(-1, raw.n_states)
    here = raw.allowed.ravel()
    scale = max(1e-300, float(np.abs(reward[raw.allowed]).max()))
    weights = np.full(raw.n_states, 1e-3 / raw.n_states) + raw.start
    found = linprog(weights, -rows[here], -reward.ravel()[here] / scale, bounds=(None, None), method="highs")
    assert found.status == 0, found.message
    return float(raw.start @ found.x) * scale


def value_of(raw, actions, reward):
    """<start, v> of a deterministic policy by a dense solve."""
    policy = np.eye(raw.n_actions)[actions]
    chain = np.einsum("sa,sat->st", policy, raw.kernel)
    values = np.linalg.solve(np.eye(raw.n_states) - raw.discount * chain, (policy * reward).sum(axis=1))
    return float(raw.start @ values)


@pytest.mark.parametrize("seed", range(60))
def test_plan_matches_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    raw = random_model(rng, "medium" if seed % 3 == 0 else "small")
    reward = raw.mean_reward
    found = plan(raw.mdp(), reward)
    best = lp_value(raw, reward)
    size = np.abs(reward).max() / (1 - raw.discount)
    assert found.lower == pytest.approx(best, abs=1e-7 * size)
    assert found.upper == pytest.approx(best, abs=1e-7 * size)
    assert found.upper - found.lower <= 1e-10 * size
    delivered = value_of(raw, found.actions, reward)
    assert found.lower - 1e-12 * size <= delivered <= found.upper + 1e-12 * size
    assert np.all(raw.allowed[np.arange(raw.n_states), found.actions])


@pytest.mark.parametrize("tolerance", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("n_states", [40, 400])
def test_loose_bounds_enclose_the_optimum(tolerance, n_states):
    mdp = ca.MDP(*_dense(n_states), discount=0.99)
    tight = plan(mdp, mdp.rewards)
    loose = plan(mdp, mdp.rewards, tolerance=tolerance)
    assert loose.upper - loose.lower <= tolerance
    assert loose.lower <= tight.upper
    assert loose.upper >= tight.lower


def _dense(n):
    rng = np.random.default_rng(n)
    return rng.dirichlet(np.full(n, 0.1), size=(n, 3)), rng.normal(size=(n, 3))


@pytest.mark.parametrize("n_states", [5, 350])
def test_discount_zero_is_the_best_immediate_reward(n_states):
    mdp = ca.MDP(*_dense(n_states), discount=0.0)
    found = plan(mdp, mdp.rewards)
    best = float(mdp.start @ mdp.rewards.max(axis=1))
    assert found.lower <= best <= found.upper
    assert found.upper - found.lower < 1e-11
    assert np.array_equal(found.actions, np.argmax(mdp.rewards, axis=1))


@pytest.mark.parametrize("n_states", [20, 350])
def test_discount_near_one(n_states):
    mdp = ca.MDP(*_dense(n_states), discount=0.9999)
    found = plan(mdp, mdp.rewards)
    policy = found.policy(mdp.n_actions)
    chain = mdp.under(policy).toarray()
    values = np.linalg.solve(np.eye(n_states) - mdp.discount * chain, (policy * mdp.rewards).sum(axis=1))
    q = mdp.rewards + mdp.discount * mdp.expect_next(values)
    assert np.all(q.max(axis=1) <= values + 1e-8)
    assert found.lower <= float(mdp.start @ values) + 1e-9
    assert found.upper >= float(mdp.start @ values) - 1e-9
    assert found.upper - found.lower < 1e-4


@pytest.mark.parametrize("n_states", [30, 400])
def test_warm_start_ends_in_the_same_place(n_states):
    mdp = ca.MDP(*_dense(n_states), discount=0.95)
    rng = np.random.default_rng(1)
    first = plan(mdp, mdp.rewards)
    nearby = mdp.rewards + 0.01 * rng.normal(size=mdp.shape)
    cold, warm = plan(mdp, nearby, tolerance=1e-9), plan(mdp, nearby, tolerance=1e-9, warm=first)
    assert warm.lower <= cold.upper
    assert cold.lower <= warm.upper
    assert warm.upper - warm.lower <= 1e-9


def test_restricted_pairs_are_respected():
    rng = np.random.default_rng(3)
    raw = random_model(rng, "small", masks=False)
    allowed = np.zeros(raw.shape, bool)
    allowed[np.arange(raw.n_states), rng.integers(raw.n_actions, size=raw.n_states)] = True
    found = plan(raw.mdp(), raw.mean_reward, allowed=allowed)
    assert np.array_equal(found.actions, np.argmax(allowed, axis=1))
    best = reference.expected_return(raw, reference.occupancy(raw, allowed.astype(float)))
    assert found.lower <= best + 1e-12 * abs(best)
    assert found.upper >= best - 1e-12 * abs(best)


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e8, 1e300])
def test_extreme_rewards(scale):
    transitions, rewards = _dense(20)
    plain, scaled = (plan(ca.MDP(transitions, rewards * k, 0.9), rewards * k) for k in (1.0, scale))
    assert scaled.lower / scale == pytest.approx(plain.lower, rel=1e-9)
    assert scaled.upper / scale == pytest.approx(plain.upper, rel=1e-9)
