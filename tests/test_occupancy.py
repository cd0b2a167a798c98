"""Policy to occupancy and back, against dense solves."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
import reference
from cautious.models.chains import Chain
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


def sticky(n_states, discount, per_row=4):
    """A random model whose states tend to stay where they are; one state absorbs."""
    rng = np.random.default_rng(n_states)
    table = rng.dirichlet(np.full(per_row, 0.5), size=n_states * 2) * 0.3
    columns = rng.integers(n_states, size=table.shape)
    stay = np.repeat(np.arange(n_states), 2)
    places = (np.repeat(np.arange(n_states * 2), per_row), columns.ravel())
    rows = sp.csr_array((table.ravel(), places), shape=(n_states * 2, n_states))
    rows = sp.lil_array(rows + sp.csr_array((np.full(n_states * 2, 0.7), (np.arange(n_states * 2), stay))))
    rows[:2] = 0.0
    rows[0, 0] = rows[1, 0] = 1.0
    start = np.zeros(n_states)
    start[n_states // 2 :] = 1 / (n_states - n_states // 2)
    return ca.MDP(sp.csr_array(rows), rng.normal(size=(n_states, 2)), discount, start)


def exact_states(mdp, policy):
    dense = np.eye(mdp.n_states) - mdp.discount * mdp.under(policy).toarray().T
    return np.linalg.solve(dense, (1 - mdp.discount) * mdp.start)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.95, 0.9999, 1 - 1e-6])
@pytest.mark.parametrize("accuracy", [0.0, 1e-9, 1e-3])
def test_accuracy_is_respected(discount, accuracy):
    mdp = sticky(500, discount)
    policy = np.random.default_rng(1).dirichlet(np.ones(2), size=500)
    found = policy_occupancy(mdp, policy, accuracy)
    limit = 64 * np.finfo(float).eps / (1 - discount)
    assert found.error <= max(accuracy, limit)
    assert np.abs(found.occupancy.sum(axis=1) - exact_states(mdp, policy)).sum() <= found.error + limit
    assert found.occupancy.sum() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("guess", ["exact", "nonsense", "infinite", "negative"])
def test_any_guess_is_safe(guess):
    mdp = sticky(400, 0.99)
    policy = np.eye(2)[np.random.default_rng(2).integers(2, size=400)]
    truth = exact_states(mdp, policy)
    rng = np.random.default_rng(3)
    guesses = {"exact": truth, "nonsense": rng.random(400), "infinite": np.full(400, np.inf), "negative": -truth}
    before = guesses[guess].copy()
    found = policy_occupancy(mdp, policy, 1e-10, guesses[guess])
    assert found.error <= 1e-10
    assert np.abs(found.occupancy.sum(axis=1) - truth).sum() <= 2e-10
    assert np.array_equal(guesses[guess], before)


def test_a_good_guess_saves_the_solve(monkeypatch):
    mdp = sticky(400, 0.99)
    policy = np.full((400, 2), 0.5)
    truth = exact_states(mdp, policy)

    def refused(*args, **options):
        raise AssertionError("nothing was left to solve")

    monkeypatch.setattr(Chain, "krylov", refused)
    assert policy_occupancy(mdp, policy, 1e-8, truth).error <= 1e-8
    with pytest.raises(AssertionError, match="left to solve"):
        policy_occupancy(mdp, policy, 1e-8)


@pytest.mark.parametrize("n_states", [200, 600])
def test_factors_take_over_where_the_iteration_fails(monkeypatch, n_states):
    mdp = sticky(n_states, 0.999)
    policy = np.full((n_states, 2), 0.5)
    expected = policy_occupancy(mdp, policy), policy_values(mdp, policy, mdp.rewards)
    monkeypatch.setattr(Chain, "krylov", lambda self, *args, **options: (np.zeros(self.n_states), 0))
    found = policy_occupancy(mdp, policy, 1e-9)
    assert found.error <= 1e-9
    np.testing.assert_allclose(found.occupancy, expected[0].occupancy, atol=1e-9)
    np.testing.assert_allclose(policy_values(mdp, policy, mdp.rewards), expected[1], rtol=1e-9)


@pytest.mark.parametrize("discount", [None, 0.0, 0.81])
def test_values_solve_their_equation_at_any_discount(discount):
    mdp = sticky(500, 0.9999)
    policy = np.random.default_rng(4).dirichlet(np.ones(2), size=500)
    values = policy_values(mdp, policy, mdp.rewards, discount)
    gamma = 0.9999 if discount is None else discount
    dense = np.eye(500) - gamma * mdp.under(policy).toarray()
    expected = np.linalg.solve(dense, (policy * mdp.rewards).sum(axis=1))
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)


def test_states_that_are_never_visited_hold_nothing():
    mdp = sticky(400, 0.99)
    found = policy_occupancy(mdp, np.eye(2)[np.zeros(400, int)])
    chain = mdp.under(np.eye(2)[np.zeros(400, int)]).toarray() > 0
    expected = mdp.start > 0
    for _ in range(400):
        expected = expected | (chain[expected].any(axis=0))
    assert np.array_equal(found.reached, expected)
    assert not found.reached.all()
    assert np.all(found.occupancy[~found.reached] == 0)


def test_the_error_covers_rows_that_do_not_sum_to_one():
    """Rows of many successors are kept where they sum to one within EPS (2 + k): here all of them sum to more."""
    half, discount = 150, 0.99
    above = 1 + 0.8 * np.finfo(float).eps * (2 + half)
    stay, leave = 0.99 / half * above, 0.01 / half * above
    rows = np.zeros((2 * half, 1, 2 * half))
    rows[:half, 0, :half], rows[:half, 0, half:], rows[half:, 0, half:] = stay, leave, above / half
    start = np.repeat([1 / half, 0.0], half)
    mdp = ca.MDP(rows, np.zeros((2 * half, 1)), discount, start)
    assert np.array_equal(mdp.transitions.toarray(), rows[:, 0])
    found = policy_occupancy(mdp, np.ones((2 * half, 1)))
    # all states of a half are alike: the share of time in the first one solves  x = (1 - gamma) + gamma stay x
    gamma, share = Fraction(discount), Fraction(stay) / (Fraction(stay) + Fraction(leave))
    exact = (1 - gamma) / (1 - gamma * share)
    off = abs(sum(map(Fraction, found.occupancy[:half, 0].tolist())) - exact)
    assert 2 * off <= Fraction(found.error)
