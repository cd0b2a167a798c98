"""Rounding against exact arithmetic where it matters most: discounts near one, and rewards far beyond the objective."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from test_exact_arithmetic import Exact, check_sound, exact_objective

import cautious as ca
import reference
from random_models import Case, Term, case_for, random_model, random_policy, random_term

KINDS = (
    "Variance",
    "CVaR",
    "PeakExposure",
    "WorstTask",
    "TotalVariation",
    "TotalVariation states",
    "Quadratic",
    "KL",
    "KL states",
    "Entropy",
    "SafeSet",
    "TaskFloors",
)


def hard_model(rng, discount):
    """Costs of any size with a free way out, or plain rewards."""
    raw = random_model(rng, "tiny", outcome_rewards=False)
    if rng.random() < 0.6:
        rewards = -(10.0 ** rng.uniform(0, 6)) * rng.random(raw.shape) * (rng.random(raw.shape) < 0.6)
        raw = replace(raw, rewards=rewards)
    return replace(raw, discount=discount)


def check_delivered(solution, delivered):
    """The objective is within its error, whatever the status."""
    error = Fraction(solution.certificate.objective_error)
    assert abs(Fraction(solution.objective) - delivered) <= error
    assert Fraction(solution.upper_bound) >= delivered


@pytest.mark.parametrize("discount", [0.999, 0.9999, 1 - 1e-5, 1 - 1e-7, 1 - 1e-9])
@pytest.mark.filterwarnings("ignore:discount")
def test_without_a_risk_every_discount_is_solved(discount):
    for seed in range(40):
        rng = np.random.default_rng([7, seed])
        raw = hard_model(rng, discount)
        exact, solution = Exact(raw), ca.solve(ca.Problem(raw.mdp()))
        best = exact.best_value(np.argmax(solution.policy, axis=1))
        d = exact.occupancy(solution.policy)
        check_sound(solution, best, exact.horizon * exact.mean(d, exact.reward))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:discount")
def test_objectives_are_within_their_errors(kind):
    solved = []
    for seed in range(40):
        rng = np.random.default_rng([8, sum(map(ord, kind)), seed])
        raw = hard_model(rng, float(rng.choice([0.9, 0.99, 0.9999, 1 - 1e-6])))
        case = case_for(rng, raw, [random_term(rng, raw, kind)])
        solution = ca.solve(case.problem(), time_limit_seconds=10)
        if np.isfinite(solution.objective):
            exact = Exact(raw)
            check_delivered(solution, exact_objective(exact, case, exact.occupancy(solution.policy)))
        solved.append(solution.status in (ca.Status.SOLVED, ca.Status.INFEASIBLE))
    assert np.mean(solved) >= 0.95


def test_opposite_floors_of_a_narrow_band():
    """The slopes of the two barriers cancel; their errors do not."""
    for seed in range(60):
        rng = np.random.default_rng([9, seed])
        raw = replace(random_model(rng, "tiny", outcome_rewards=False), discount=float(rng.choice([0.9, 0.99, 0.999])))
        task = rng.normal(size=raw.shape) * 10.0 ** rng.uniform(0, 4)
        d = reference.occupancy(raw, random_policy(rng, raw))
        number = float(np.sum(d * task)) / (1 - raw.discount)
        width = abs(number) * 10.0 ** rng.uniform(-12, -3)
        floors = np.array([number - width, -number - width])
        case = Case(raw, ((1.0, Term("TaskFloors", {"task_rewards": np.array([task, -task]), "floors": floors})),), 1.0)
        solution = ca.solve(case.problem(), time_limit_seconds=10)
        if np.isfinite(solution.objective):
            exact = Exact(raw)
            check_delivered(solution, exact_objective(exact, case, exact.occupancy(solution.policy)))
