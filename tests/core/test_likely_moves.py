"""The simplified model of likeliest outcomes against dense linear algebra and value iteration."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious._core.likely_moves import (
    change_moves,
    follow_moves,
    likely_moves,
    mean_largest_chance,
    order_moves,
    sum_along_paths,
)
from cautious.planning import plan


def random_moves(rng, n, m):
    """Rows with a likeliest outcome each, some of which stay where they are."""
    rows = rng.dirichlet(np.full(n, 0.2), size=n * m)
    rows[rng.random(n * m) < 0.1] = np.repeat(np.eye(n), m, axis=0)[0]
    return sp.csr_array(rows)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(8))
def test_adding_up_along_paths_solves_the_simplified_model_of_a_policy(seed, kind):
    rng = np.random.default_rng(seed)
    n, m, discount = int(rng.integers(1, 40)), 3, 0.97
    rows = random_moves(rng, n, m)
    # paths may have narrower indices than the chain
    other = np.int64 if seed % 2 or kind is np.int64 else np.int32
    held, target, weight = np.full(n, -1), np.empty(n, kind), np.empty(n)
    order, closes, z = np.empty(n, kind), np.empty(n, np.bool_), np.empty(n)
    for _ in range(4):
        actions = rng.integers(0, m, n)
        chain = sp.csr_array(rows[np.arange(n) * m + actions])
        csr = chain.indptr.astype(other), chain.indices.astype(other), chain.data
        assert change_moves(*csr, discount, actions, held, target, weight)
        assert not change_moves(*csr, discount, actions, held, target, weight)
        order_moves(target, order, closes)
        assert sorted(order.tolist()) == list(range(n))
        own = rows.toarray()[np.arange(n) * m + actions]
        world = np.zeros((n, n))
        world[np.arange(n), np.argmax(own, axis=1)] = own.max(axis=1)
        world[np.arange(n), np.arange(n)] += 1 - own.max(axis=1)
        r = rng.normal(size=n)
        sum_along_paths(target, weight, order, closes, discount, r, z)
        stays = np.argmax(own, axis=1) == np.arange(n)
        world[stays] = np.eye(n)[stays]
        np.testing.assert_allclose(z, np.linalg.solve(np.eye(n) - discount * world, r), rtol=1e-9, atol=1e-9)


def simplified_values(transitions, rewards, allowed, discount):
    """Values of the model in which an action is repeated until its likeliest outcome happens, by value iteration."""
    n, m = rewards.shape
    table = transitions.reshape(n, m, n)
    values = np.zeros(n)
    for _ in range(4000):
        q = np.full((n, m), -np.inf)
        for s in range(n):
            for a in range(m):
                if allowed[s, a]:
                    likely = int(np.argmax(table[s, a]))
                    chance = table[s, a, likely]
                    q[s, a] = rewards[s, a] + discount * (chance * values[likely] + (1 - chance) * values[s])
        values = q.max(axis=1)
    return values


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(4))
def test_following_likely_moves_solves_the_simplified_model(seed, kind):
    rng = np.random.default_rng(seed)
    n, m, discount = 7, 3, 0.9
    transitions = rng.dirichlet(np.full(n, 0.3), size=n * m)
    rewards, allowed = rng.normal(size=(n, m)), rng.random((n, m)) < 0.7
    allowed[:, 0] = True
    rows = sp.csr_array(transitions)
    csr = rows.indptr.astype(kind), rows.indices.astype(kind), rows.data
    target, weight = np.empty(n * m, kind), np.empty(n * m)
    likely_moves(0, *csr, discount, n, target, weight)
    assert np.array_equal(target, np.argmax(transitions, axis=1))
    assert mean_largest_chance(csr[0], csr[2], 1000) == pytest.approx(transitions.max(axis=1).mean())
    paid, worth = np.where(allowed, rewards, -np.inf).ravel(), np.full(n, rewards[allowed].min())
    rises = [follow_moves(target, weight, paid, worth, number % 2 == 1) for number in range(400)]
    np.testing.assert_allclose(
        worth / (1 - discount), simplified_values(transitions, rewards, allowed, discount), rtol=1e-9
    )
    assert rises[0] > 0
    assert rises[-1] == 0


def test_values_cross_the_model_in_one_sweep():
    """A corridor with a reward at its end, a thousand states away."""
    n, discount = 1000, 0.999
    steps = np.zeros((n, 2, n))
    here = np.arange(n)
    for action, way in enumerate((-1, 1)):
        steps[here, action, np.clip(here + way, 0, n - 1)] += 0.9
        steps[here, action, here] += 0.1
    rewards = np.zeros((n, 2))
    rewards[-1] = 1.0
    found = plan(ca.MDP(steps, rewards, discount), rewards, tolerance=1e-6)
    assert np.all(found.actions[1:] == 1)
    assert found.sweeps < 60


def test_pairs_without_outcomes_stay():
    pointer, nothing = np.zeros(3, np.int32), np.empty(0, np.int32)
    target, weight = np.empty(2, np.int32), np.empty(2)
    likely_moves(0, pointer, nothing, np.empty(0), 0.9, 2, target, weight)
    assert target.tolist() == [0, 1]
    assert weight.tolist() == [0.0, 0.0]
    assert mean_largest_chance(pointer, np.empty(0), 10) == 0.0


def test_the_mean_of_a_sample_takes_rows_at_equal_distances():
    pointer, chances = np.arange(0, 21, 2), np.repeat(np.arange(10) / 10, 2)
    assert mean_largest_chance(pointer, chances, 2) == pytest.approx((0.0 + 0.5) / 2)
    assert mean_largest_chance(pointer, chances, 10**6) == pytest.approx(0.45)


def test_wrong_arguments_are_refused():
    rows = np.array([0, 1], np.int32), np.zeros(1, np.int32), np.ones(1)
    one, place, mask = np.ones(1), np.zeros(1, np.int32), np.ones(1, np.bool_)
    two, action = np.ones(2), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="mean_largest_chance needs"):
        mean_largest_chance(rows[0], one, 0)
    with pytest.raises(ValueError, match="mean_largest_chance needs"):
        mean_largest_chance(rows[0], np.empty(0), 5)
    for n_states, target, weight in ((0, place, one), (2, place, one), (1, place, two), (-1, place, one)):
        with pytest.raises(ValueError, match="likely_moves needs"):
            likely_moves(0, *rows, 0.5, n_states, target, weight)
    with pytest.raises(ValueError, match="follow_moves needs"):
        follow_moves(place, two, one, one.copy(), True)
    with pytest.raises(ValueError, match="change_moves needs"):
        change_moves(*rows, 0.5, action, action.copy(), place, two)
    with pytest.raises(ValueError, match="change_moves needs"):
        change_moves(*rows, 0.5, np.zeros(0, np.int64), action, place, one)
    with pytest.raises(ValueError, match="order_moves needs"):
        order_moves(place, np.zeros(2, np.int32), mask)
    with pytest.raises(ValueError, match="sum_along_paths needs"):
        sum_along_paths(place, one, place, mask, 0.5, two, one.copy())
    with pytest.raises(TypeError, match="index arrays must be all of the types that belong together"):
        sum_along_paths(place, one, place.astype(np.int64), mask, 0.5, one, one.copy())


def test_marks_that_belong_to_another_policy_end_all_the_same():
    """A state that is said to close a cycle but is on none."""
    target, order = np.array([1, 1], np.int32), np.array([1, 0], np.int32)
    z = np.empty(2)
    sum_along_paths(target, np.full(2, 0.5), order, np.ones(2, np.bool_), 0.5, np.ones(2), z)
    assert np.isfinite(z).all()
