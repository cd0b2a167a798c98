"""Mutated claims: whatever is changed, nothing false is called proved. The truth is exact: fractions, 50-digit logs."""

from fractions import Fraction

import numpy as np
import pytest
from claims import accepted, as_bound, mutate, stored
from test_exact_arithmetic import Exact, exact_objective, rational_model

import cautious as ca
from random_models import Case, case_for, random_policy, random_term

LOGARITHMS = ("KL", "Entropy", "SafeSet", "TaskFloors")
KINDS = ("none", "Variance", "CVaR", "PeakExposure", "WorstTask", "TotalVariation", "Quadratic", *LOGARITHMS)
# 50-digit logarithms are that exact
TINY = Fraction(1, 10**40)


def exact_case(rng, kind):
    raw = rational_model(rng)
    return Case(raw, (), 1.0) if kind == "none" else case_for(rng, raw, [random_term(rng, raw, kind)])


def problem_of(case):
    return case.problem() if case.terms else ca.Problem(case.raw.mdp())


class Truth:
    """What is known exactly about a case: objectives of policies, and the best of many policies."""

    def __init__(self, rng, case, solution):
        self.case, self.exact = case, Exact(case.raw)
        self.best = max(self.objective(policy) for policy in (solution.policy, *self.others(rng)))

    def others(self, rng):
        if {term.kind for _, term in self.case.terms} <= {"Variance", "CVaR"}:
            choices = [np.flatnonzero(row) for row in self.case.raw.allowed]
            for pick in np.ndindex(*map(len, choices)):
                yield np.eye(self.case.raw.n_actions)[[row[i] for row, i in zip(choices, pick, strict=True)]]
        yield from (random_policy(rng, self.case.raw) for _ in range(3))

    def objective(self, policy):
        """Minus infinity where a logarithm has no value."""
        try:
            return exact_objective(self.exact, self.case, self.exact.occupancy(policy))
        except (ArithmeticError, ValueError):
            return Fraction(-(10**30))

    def false(self, header, policy):
        """Whether a claim is known to be false."""
        if header["status"] == "INFEASIBLE":
            return True
        objective, error = self.objective(policy), Fraction(header["certificate"]["objective_error"])
        return (
            objective < Fraction(header["objective"]) - error - TINY
            or self.best > Fraction(header["upper_bound"]) + TINY
            or self.best - objective > Fraction(header["gap"]) + TINY
            or (header["status"] == "SOLVED" and header["gap"] > header["tolerance"] * max(1, abs(header["objective"])))
        )


def check_mutations(kind, seed, count):
    """How many of the mutated claims were false, and how many were called proved."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    case = exact_case(rng, kind)
    problem = problem_of(case)
    solution = ca.solve(problem, tolerance=float(rng.choice([1e-6, 1e-9])))
    assert ca.verify(solution).proved
    truth, false, proved = Truth(rng, as_bound(case, problem), solution), 0, 0
    for _ in range(count):
        header, arrays = stored(solution)
        mutate(rng, header, arrays)
        called, wrong = accepted(header, arrays), truth.false(header, arrays["policy"])
        assert not (called and wrong), (kind, seed)
        false, proved = false + wrong, proved + called
    return false, proved


@pytest.mark.parametrize("kind", KINDS)
def test_no_false_claim_is_proved(kind):
    pytest.importorskip("flint", reason="extra verify")
    found = np.array([check_mutations(kind, seed, 8) for seed in range(6)])
    false, proved = found.sum(axis=0)
    # the test would say nothing if all mutations were harmless, or all were refused
    assert false >= 10
    assert proved >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_mutations(kind):
    pytest.importorskip("flint", reason="extra verify")
    for seed in range(1000, 1046):
        check_mutations(kind, seed, 20)
