"""Planning against the linear program, and its two bounds against the truth."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.optimize import linprog

import cautious as ca
import reference
from cautious.models.chains import DeterministicChains
from cautious.planning import plan
from cautious.runtime import threads
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


def exact_optimum(transitions, rewards, discount, start):
    """Best <start, value> over all deterministic policies, in fractions."""
    n, m = rewards.shape
    gamma, best = Fraction(discount), None
    for actions in product(range(m), repeat=n):
        system = [
            [Fraction(int(s == t)) - gamma * Fraction(transitions[s, a, t]) for t in range(n)]
            + [Fraction(rewards[s, a])]
            for s, a in enumerate(actions)
        ]
        for i in range(n):
            system[i] = [number / system[i][i] for number in system[i]]
            for j in range(n):
                if j != i:
                    system[j] = [x - system[j][i] * y for x, y in zip(system[j], system[i], strict=True)]
        worth = sum(Fraction(start[s]) * system[s][n] for s in range(n))
        best = worth if best is None else max(best, worth)
    return best


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.95, 0.9999, 1 - 1e-6])
@pytest.mark.parametrize("seed", range(6))
def test_bounds_enclose_the_exact_optimum(seed, discount):
    """Chances are multiples of 1/16, so that rows sum to exactly one and only planning rounds."""
    rng = np.random.default_rng(seed)
    transitions = rng.multinomial(16, rng.dirichlet(np.full(4, 0.4), size=8)).reshape(4, 2, 4) / 16
    start = np.array([0.5, 0.25, 0.25, 0.0])
    rewards = rng.normal(size=(4, 2))
    mdp = ca.MDP(transitions, rewards, discount, start)
    exact = exact_optimum(transitions, rewards, discount, start)
    size = np.abs(rewards).max() / (1 - discount)
    for tolerance in (0.0, 1e-3 * size):
        found = plan(mdp, rewards, tolerance=tolerance)
        assert Fraction(found.lower) <= exact <= Fraction(found.upper)
        assert found.upper - found.lower <= max(tolerance, 1e-13 * size / (1 - discount))


def _ring(n, discount, kind=np.int64):
    """A long ring with a prize on one side: values must travel, and the chain mixes slowly."""
    states = np.arange(n)
    columns = np.stack([(states - 1) % n, states, states, (states + 1) % n], axis=1).reshape(-1, 2)
    order = np.argsort(columns, axis=1)
    weights = np.take_along_axis(np.tile([[0.6, 0.4], [0.4, 0.6]], (n, 1)), order, 1)
    columns = np.take_along_axis(columns, order, 1)
    pointer = np.arange(0, 4 * n + 1, 2, dtype=kind)
    rows = sp.csr_array((weights.ravel(), columns.ravel().astype(kind), pointer), shape=(2 * n, n))
    rewards = 0.1 * np.random.default_rng(0).random((n, 2))
    rewards[n // 3] = 1.0
    return ca.MDP(rows, rewards, discount)


@pytest.mark.parametrize("discount", [0.95, 0.9999, 1 - 1e-6])
def test_slow_chains_are_planned_to_a_millionth(discount):
    mdp = _ring(1500, discount)
    found = plan(mdp, mdp.rewards, tolerance=1e-6 / (1 - discount))
    assert found.upper - found.lower <= 1e-6 / (1 - discount)
    policy = found.policy(2)
    chain = sp.csc_array(sp.eye_array(1500) - discount * mdp.under(policy))
    worth = float(mdp.start @ spla.spsolve(chain, (policy * mdp.rewards).sum(axis=1)))
    assert found.lower - 1e-9 / (1 - discount) <= worth <= found.upper + 1e-9 / (1 - discount)


def test_a_warm_start_costs_a_fraction():
    mdp = _ring(2000, 0.99)
    cold = plan(mdp, mdp.rewards, tolerance=1e-6)
    nearby = mdp.rewards + 1e-4 * np.random.default_rng(2).normal(size=mdp.shape)
    again, moved = plan(mdp, nearby, tolerance=1e-6), plan(mdp, nearby, tolerance=1e-6, warm=cold)
    assert moved.sweeps <= 0.7 * again.sweeps
    assert plan(mdp, mdp.rewards, tolerance=1e-6, warm=cold).sweeps <= 1
    assert moved.lower <= again.upper
    assert again.lower <= moved.upper


def test_warm_start_and_reward_may_be_read_only_and_stay_as_they_are():
    mdp = _ring(400, 0.9)
    first = plan(mdp, mdp.rewards)
    kept = first.actions.copy(), first.values.copy()
    first.actions.setflags(write=False)
    first.values.setflags(write=False)
    plan(mdp, -mdp.rewards, warm=first)
    assert np.array_equal(first.actions, kept[0])
    assert np.array_equal(first.values, kept[1])


def same(one, other):
    return (one.lower, one.upper) == (other.lower, other.upper) and all(
        a.tobytes() == b.tobytes() for a, b in ((one.actions, other.actions), (one.values, other.values))
    )


@pytest.mark.parametrize("discount", [0.9, 0.9999])
def test_index_types_give_the_same_bytes(discount):
    narrow, wide = _ring(1200, discount, np.int32), _ring(1200, discount, np.int64)
    assert narrow.transitions.indices.dtype != wide.transitions.indices.dtype
    assert same(*(plan(mdp, mdp.rewards, tolerance=1e-7) for mdp in (narrow, wide)))


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_any_number_of_threads_gives_the_same_bytes(monkeypatch, discount):
    mdp = _ring(35_000, discount)
    plans = []
    for count in (1, 2, 8):
        monkeypatch.setattr(threads, "ENTRIES_WORTH_A_THREAD", 1)
        with threads.use_threads(count):
            assert threads.threads_for(mdp.transitions.nnz) == count
            plans.append(plan(mdp, mdp.rewards, tolerance=1e-3 / (1 - discount)))
    assert same(plans[0], plans[1])
    assert same(plans[0], plans[2])


def test_small_loops_stay_in_one_thread():
    with threads.use_threads(8):
        assert threads.threads_for(1000) == 1
        assert threads.threads_for(10**9) == 8
    with threads.use_threads(1):
        assert threads.threads_for(10**9) == 1


def test_an_error_in_a_thread_is_raised():
    def work(first, last):
        if first > 0:
            raise RuntimeError(f"{first} to {last}")

    with pytest.raises(RuntimeError, match="1 to 2"):
        threads.over_pieces(2 * threads.PIECE, 2, work)


def test_masks_leave_dead_states_alone():
    """A state that lost every action counts for nothing, however its row looks."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 0] = transitions[0, 1, 2] = transitions[1, :, 1] = transitions[2, :, 2] = 1.0
    mdp = ca.MDP(transitions, np.array([[1.0, 9.0], [2.0, 3.0], [50.0, 50.0]]), 0.9, np.array([0.5, 0.5, 0.0]))
    allowed = np.array([[True, False], [True, True], [False, False]])
    found = plan(mdp, mdp.rewards, allowed=allowed)
    assert found.actions[:2].tolist() == [0, 1]
    assert found.lower <= 20.0 <= found.upper
    assert found.upper - found.lower < 1e-10


def test_a_known_value_ends_planning_early_and_soundly():
    """What is known changes when planning stops, never which side of the optimum its bounds are on."""
    mdp = ca.worlds.garnet(60, n_actions=3, n_successors=4, discount=0.99)
    exact = plan(mdp, mdp.rewards)
    for missing in (1e-9, 1e-3, 1.0):
        found = plan(mdp, mdp.rewards, tolerance=1e-6, known=exact.lower - missing)
        assert found.lower <= exact.upper
        assert found.upper >= exact.lower
        left = found.upper - (exact.lower - missing)
        assert left <= 1e-6 or found.upper - found.lower <= 0.2 * left + 1e-12
    assert plan(mdp, mdp.rewards, known=exact.lower - 1.0).sweeps < exact.sweeps


@pytest.mark.parametrize("seed", range(6))
def test_a_chain_changed_in_place_is_the_chain_made_anew(seed):
    """Rows of equal and of different lengths; the flow solves the transposed system."""
    rng = np.random.default_rng(seed)
    dense = rng.random((20, 3, 20)) * (rng.random((20, 3, 20)) < (0.2 if seed % 2 else 1.0))
    dense[:, :, 0] += 0.1
    dense /= dense.sum(axis=2, keepdims=True)
    mdp = ca.MDP(sp.csr_array(dense.reshape(60, 20)), rng.random((20, 3)), 0.9)
    chains = DeterministicChains(mdp, mdp.rewards.ravel())
    every = np.arange(20)
    for _ in range(5):
        actions = rng.integers(0, 3, 20)
        chain, gain = chains.chain(actions)
        np.testing.assert_array_equal(chain.matrix.toarray(), dense[every, actions])
        np.testing.assert_array_equal(gain, mdp.rewards[every, actions])
        states, size = chain.flow(0.9, 0.1 * mdp.start, None, 1e-10)
        truth = np.linalg.solve(np.eye(20) - 0.9 * dense[every, actions].T, 0.1 * mdp.start)
        np.testing.assert_allclose(states, truth, atol=1e-8)
        residual = 0.1 * mdp.start + 0.9 * dense[every, actions].T @ states - states
        assert size == pytest.approx(np.abs(residual).sum(), abs=1e-14)
