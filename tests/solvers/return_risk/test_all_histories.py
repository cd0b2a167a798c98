"""Risks of the return against all policies on the tree of histories."""

from fractions import Fraction

import numpy as np
import pytest
from all_histories import all_distributions, as_mdp, objective, random_tiny, risk_of

import cautious as ca


def random_risk(kind, rng):
    if kind == "ReturnVariance":
        return ca.ReturnVariance()
    if kind == "ReturnEntropic":
        return ca.ReturnEntropic(float(10 ** rng.uniform(-2, 1)))
    if kind == "ReturnBelow":
        return ca.ReturnBelow(float(rng.choice([0.0, 0.5, 1.0, -1.0, rng.normal()])))
    return getattr(ca, kind)(float(rng.choice([0.25, 0.5, 0.9, 0.95])))


def check(kind, seed, tolerance=1e-6):
    rng = np.random.default_rng([seed, 7])
    parts = random_tiny(rng)
    mdp, steps, caution = as_mdp(*parts[:3]), parts[3], float(10 ** rng.uniform(-1.5, 1))
    risk = random_risk(kind, rng)
    distributions = all_distributions(*parts, start=0)
    # levels and thresholds as the floats they are
    best = max(objective(one, risk, caution) for one in distributions)
    solution = ca.solve(ca.Problem(mdp, risk, caution, horizon=steps), tolerance=tolerance, time_limit_seconds=60)
    rounding = 1e-11 * max(1.0, abs(best)) + (1e-4 if kind == "ReturnEVaR" else 0.0)
    assert solution.certificate.kind == "global"
    assert solution.objective <= best + rounding
    assert solution.upper_bound >= best - 1e-12 * max(1.0, abs(best))
    assert solution.status is ca.Status.SOLVED
    return solution, distributions, risk, caution


@pytest.mark.parametrize("kind", ["ReturnVariance", "ReturnCVaR", "ReturnEntropic", "ReturnBelow"])
@pytest.mark.parametrize("seed", range(10))
def test_no_policy_on_the_tree_of_histories_is_better(kind, seed):
    solution, distributions, risk, _ = check(kind, seed)
    # what is delivered is one of them, with its own mean and risk
    found = [
        one
        for one in distributions
        if abs(float(sum(c * r for r, c in one)) - solution.expected_return) < 1e-9
        and abs(float(risk_of(risk, one)) - solution.risk) < 1e-9
    ]
    assert found


@pytest.mark.parametrize("seed", range(6))
def test_evar_on_the_tree_of_histories(seed):
    check("ReturnEVaR", seed, tolerance=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ReturnVariance", "ReturnCVaR", "ReturnEntropic", "ReturnBelow"])
def test_three_hundred_on_the_tree_of_histories(kind):
    for seed in range(100, 400):
        check(kind, seed)


@pytest.mark.parametrize("kind", ["ReturnVariance", "ReturnCVaR", "ReturnEntropic", "ReturnBelow"])
@pytest.mark.parametrize("seed", range(8))
def test_grids_bound_what_lists_of_sums_know_exactly(kind, seed, monkeypatch):
    """The same problems without the list of possible sums: bounds must stay on their sides."""
    monkeypatch.setattr("cautious.solvers.return_risk.search.possible_sums", lambda earnings: None)
    monkeypatch.setattr("cautious.solvers.return_risk.search.MOST_PRODUCTS", 1e6)
    rng = np.random.default_rng([seed, 7])
    parts = random_tiny(rng)
    mdp, steps, caution = as_mdp(*parts[:3]), parts[3], float(10 ** rng.uniform(-1.5, 1))
    risk = random_risk(kind, rng)
    best = max(objective(one, risk, caution) for one in all_distributions(*parts, start=0))
    solution = ca.solve(ca.Problem(mdp, risk, caution, horizon=steps), time_limit_seconds=60)
    assert solution.objective <= best + 1e-10 * max(1.0, abs(best))
    assert solution.upper_bound >= best - 1e-12 * max(1.0, abs(best))
    if kind != "ReturnBelow":
        assert solution.gap < 1e-3 * max(1.0, abs(best)) * (1 + caution)


@pytest.mark.parametrize("kind", ["ReturnVariance", "ReturnCVaR", "ReturnEntropic", "ReturnEVaR"])
@pytest.mark.parametrize("seed", range(4))
def test_discounted_for_ever_is_near_the_first_steps(kind, seed):
    """Returns of the first steps differ from those for ever by a known amount, and so do these risks."""
    rng = np.random.default_rng([seed, 8])
    transitions, rewards, _, _ = random_tiny(rng)
    discount, steps, caution = 0.0625, 3, 0.5
    risk = random_risk(kind, rng)
    best = max(
        objective(one, risk, caution)
        for one in all_distributions(transitions, rewards, Fraction(1, 16), steps, start=0)
    )
    largest = float(np.abs(rewards.astype(float)).max())
    after = discount**steps * largest / (1 - discount)
    change = after * (1 + caution) if kind != "ReturnVariance" else after + caution * (4 * 2 * largest * after)
    solution = ca.solve(ca.Problem(as_mdp(transitions, rewards, discount), risk, caution), tolerance=1e-3)
    slack = 1e-4 if kind == "ReturnEVaR" else 1e-9
    assert solution.objective <= best + change + slack
    assert solution.upper_bound >= best - change - slack
    assert solution.gap <= 2e-3 * max(1.0, abs(solution.objective))
