"""Policy to occupancy and back, against dense solves."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
import reference
from cautious.occupancy import (
    check_policy,
    flow_residual,
    occupancy_policy,
    policy_occupancy,
    policy_values,
    uniform_policy,
)
from random_models import random_model, random_policy, random_support


@pytest.mark.parametrize("seed", range(60))
def test_occupancy_matches_a_dense_solve(seed):
    rng = np.random.default_rng(seed)
    raw = random_model(rng, "medium" if seed % 4 == 0 else "small")
    policy = random_policy(rng, raw, random_support(rng, raw))
    mdp = raw.mdp()
    found = policy_occupancy(mdp, policy)
    expected = reference.occupancy(raw, policy)
    assert np.abs(found.occupancy - expected).sum() < 1e-11
    assert found.occupancy.sum() == pytest.approx(1, abs=1e-14)
    assert np.abs(flow_residual(mdp, found.occupancy)).sum() <= found.error
    assert found.error < 1e-9
    assert np.array_equal(found.reached, expected.sum(axis=1) > 1e-15)
    assert np.all(found.occupancy[~found.reached] == 0)


@pytest.mark.parametrize("n_states", [400, 2000])
@pytest.mark.parametrize("per_row", [3, 40])
def test_large_models_balance(n_states, per_row):
    """Direct and iterative solvers: the balance holds to rounding."""
    rng = np.random.default_rng(n_states + per_row)
    columns = rng.integers(n_states, size=(n_states * 2, per_row))
    weights = rng.dirichlet(np.ones(per_row), size=n_states * 2)
    pointer = np.arange(0, columns.size + 1, per_row)
    rows = sp.csr_array((weights.ravel(), columns.ravel(), pointer), shape=(n_states * 2, n_states))
    mdp = ca.MDP(rows, rng.normal(size=(n_states, 2)), 0.99)
    policy = uniform_policy(mdp.allowed)
    found = policy_occupancy(mdp, policy)
    assert np.abs(flow_residual(mdp, found.occupancy)).sum() < 1e-12
    dense = np.eye(n_states) - mdp.discount * mdp.under(policy).toarray().T
    expected = np.linalg.solve(dense, (1 - mdp.discount) * mdp.start)
    assert np.abs(found.occupancy.sum(axis=1) - expected).sum() <= found.error


@pytest.mark.parametrize("seed", range(20))
def test_policy_of_an_occupancy_is_the_policy(seed):
    rng = np.random.default_rng(seed)
    raw = random_model(rng)
    policy = random_policy(rng, raw)
    found = policy_occupancy(raw.mdp(), policy)
    default = uniform_policy(raw.allowed)
    back = occupancy_policy(found.occupancy, default)
    np.testing.assert_allclose(back[found.reached], policy[found.reached], atol=1e-12)
    assert np.array_equal(back[~found.reached], default[~found.reached])


@pytest.mark.parametrize("seed", range(20))
def test_values_and_occupancy_agree(seed):
    """<start, v> = <d, r> / (1 - gamma)."""
    rng = np.random.default_rng(seed)
    raw = random_model(rng)
    policy = random_policy(rng, raw)
    mdp = raw.mdp()
    value = float(mdp.start @ policy_values(mdp, policy, mdp.rewards))
    gain = reference.expected_return(raw, policy_occupancy(mdp, policy).occupancy)
    assert value == pytest.approx(gain, rel=1e-9, abs=1e-9 * np.abs(mdp.rewards).max() / (1 - mdp.discount))


def test_discount_zero_is_the_start():
    raw = random_model(np.random.default_rng(0))
    mdp = ca.MDP(raw.transitions, raw.mean_reward, 0.0, raw.start)
    policy = np.full(raw.shape, 1 / raw.n_actions)
    np.testing.assert_allclose(policy_occupancy(mdp, policy).occupancy, raw.start[:, None] * policy, atol=1e-16)


def test_checked_policy_is_renormalised():
    mdp = ca.MDP(np.full((2, 3, 2), 0.5), np.zeros((2, 3)))
    table = np.full((2, 3), 1 / 3) + 1e-11
    assert np.abs(check_policy(mdp, table).sum(axis=1) - 1).max() < 1e-15
    single = np.full((2, 3), 1 / 3, dtype=np.float32)
    assert np.abs(check_policy(mdp, single).sum(axis=1) - 1).max() < 1e-15
