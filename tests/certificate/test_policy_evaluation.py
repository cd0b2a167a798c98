"""What a policy is worth, by its occupancy and by its values alone."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import cautious as ca
import reference
from cautious import occupancy
from cautious._core import certificate
from cautious.certificate import policy_evaluation
from cautious.occupancy import policy_occupancy, policy_values
from random_models import random_model, random_policy, random_support

EPS = float(np.finfo(float).eps)


def allowance(objective):
    return 1e-6 * max(1.0, abs(objective))


@pytest.mark.parametrize("seed", range(40))
def test_return_by_values_is_the_policys_own(seed):
    rng = np.random.default_rng(seed)
    raw = random_model(rng, "medium" if seed % 4 == 0 else "small")
    policy = random_policy(rng, raw, random_support(rng, raw))
    problem = ca.Problem(raw.mdp())
    # wrong by a constant, which no return depends on
    values = policy_values(problem.mdp, policy, problem.reward) + rng.normal()
    found = policy_evaluation.evaluate_return(problem, policy, values, allowance)
    truth = reference.expected_return(raw, reference.occupancy(raw, policy))
    assert abs(found.objective - truth) <= found.error + 1e-12 * max(1.0, abs(truth))
    assert found.error <= 0.002 * allowance(truth)
    assert found.objective == found.expected_return
    assert np.abs(found.occupancy.occupancy - reference.occupancy(raw, policy)).sum() <= found.occupancy.error + 1e-13


@pytest.mark.parametrize("seed", range(10))
def test_values_that_do_not_tell_the_return_are_refused(seed):
    rng = np.random.default_rng(seed)
    raw = random_model(rng)
    policy, problem = random_policy(rng, raw), ca.Problem(raw.mdp())
    values = policy_values(problem.mdp, policy, problem.reward)
    values[np.argmax(raw.start)] += 1e-6 * np.abs(values).max() + 1e-6
    assert policy_evaluation.evaluate_return(problem, policy, values, allowance) is None


def test_values_of_a_policy_that_leaves_the_active_pairs_are_refused():
    """State 1 can only be reached by what may not be done: its value was never looked at."""
    mdp = ca.MDP(
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]],
        [[0.0, 0.0], [5.0, 5.0]],
        0.5,
        [1.0, 0.0],
        allowed=[[True, False], [True, True]],
    )
    stray = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert policy_evaluation.evaluate_return(ca.Problem(mdp), stray, np.zeros(2), allowance) is None
    assert (
        policy_evaluation.evaluate_return(ca.Problem(mdp), np.eye(2)[[0, 0]], np.zeros(2), allowance).objective == 0.0
    )


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.999])
def test_without_a_risk_the_occupancy_waits_until_it_is_asked_for(discount, monkeypatch):
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return policy_occupancy(*arguments)

    monkeypatch.setattr(occupancy, "policy_occupancy", counted)
    monkeypatch.setattr(policy_evaluation, "policy_occupancy", counted)
    mdp = ca.worlds.garnet(50, 3, 4, seed=3, discount=discount)
    solution = ca.solve(ca.Problem(mdp)).require()
    assert (solution.risk, solution.gap > 0, solution.multipliers.shape, calls) == (0.0, True, (50,), [])
    earned = float(np.sum(solution.occupancy * mdp.rewards)) / (1 - discount)
    assert solution.expected_return == pytest.approx(earned, rel=1e-8)
    assert solution.certificate.occupancy_error < 1e-8
    assert solution.reached.dtype == bool
    assert solution.occupancy is solution.occupancy
    assert len(calls) == 1


@pytest.mark.parametrize("seed", range(20))
def test_advantages_of_a_policy_enclose_the_exact_ones(seed):
    rng = np.random.default_rng(seed)
    raw = random_model(rng)
    mdp, policy = raw.mdp(), random_policy(rng, raw)
    v, counted = rng.normal(size=mdp.n_states), rng.random(mdp.n_states) < 0.7
    counted[0] = True
    table = (0, *mdp.csr, mdp.rewards.ravel(), policy.ravel(), mdp.allowed.ravel(), counted, mdp.discount, v)
    least, largest = certificate.policy_advantages(*table, 2 * EPS)
    rows, gamma = mdp.transitions.toarray(), Fraction(mdp.discount)
    exact = []
    for s in np.flatnonzero(counted):
        total = -Fraction(v[s])
        for a in np.flatnonzero(policy[s]):
            mean = sum(Fraction(p) * Fraction(x) for p, x in zip(rows[s * mdp.n_actions + a], v, strict=True))
            total += Fraction(policy[s, a]) * (Fraction(mdp.rewards[s, a]) + gamma * mean)
        exact.append(total)
    assert Fraction(least) <= min(exact)
    assert Fraction(largest) >= max(exact)
    assert max(float(min(exact)) - least, largest - float(max(exact))) < 1e-12 * (1 + np.abs(mdp.rewards).max())


def test_advantages_never_hide_a_nan():
    mdp = ca.worlds.garnet(6, 2, 2, seed=1)
    policy, everything, v = np.eye(2)[np.zeros(6, int)], np.ones(12, dtype=bool), np.zeros(6)
    v[3] = np.nan
    table = (0, *mdp.csr, mdp.rewards.ravel(), policy.ravel(), everything, np.ones(6, dtype=bool), 0.9, v)
    assert np.isnan(certificate.policy_advantages(*table, EPS)).all()


def test_an_occupancy_is_never_asked_for_an_accuracy_that_was_reached_before(monkeypatch):
    mdp = ca.worlds.garnet(n_states=100)
    rng = np.random.default_rng(1)
    policy = rng.dirichlet(np.ones(mdp.n_actions), size=mdp.n_states)
    prior = policy_occupancy(mdp, rng.dirichlet(np.ones(mdp.n_actions), size=mdp.n_states)).occupancy
    problem, steps = ca.Problem(mdp, ca.KL(0.99 * prior + 0.01 / prior.size), caution=10.0), []

    def solved(mdp, policy, accuracy, states):
        found = policy_occupancy(mdp, policy, accuracy, states)
        steps.append((accuracy, found.error))
        return found

    monkeypatch.setattr(policy_evaluation, "policy_occupancy", solved)
    policy_evaluation.evaluate_policy(problem, policy, None, lambda _: 1e-7)
    assert len(steps) > 1
    assert all(asked < reached for (_, reached), (asked, _) in pairwise(steps))


def test_an_occupancy_that_is_known_is_taken_if_it_is_exact_enough(monkeypatch):
    mdp = ca.worlds.garnet(30, 3, seed=0)
    plain, cautious = ca.Problem(mdp), ca.Problem(mdp, ca.Entropy(), 0.1)
    policy = np.full(mdp.shape, 1 / mdp.n_actions)
    expected, solved = policy_evaluation.evaluate_policy(cautious, policy), []

    def counted(*arguments):
        solved.append(arguments)
        return policy_occupancy(*arguments)

    monkeypatch.setattr(policy_evaluation, "policy_occupancy", counted)
    known = policy_evaluation.evaluate_policy(plain, policy, allowance=lambda objective: 1e-6)
    assert len(solved) == 1
    found = policy_evaluation.evaluate_policy(cautious, policy, allowance=lambda objective: 1e-3, known=known)
    assert len(solved) == 1
    assert abs(found.objective - expected.objective) <= found.error + expected.error <= 1e-3
    # an allowance that the known occupancy does not meet
    found = policy_evaluation.evaluate_policy(
        cautious, policy, allowance=lambda objective: 5 * found.error, known=known
    )
    assert len(solved) > 1
    assert abs(found.objective - expected.objective) <= found.error + expected.error
