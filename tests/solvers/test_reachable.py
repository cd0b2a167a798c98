"""The part of a problem that can be reached: the same values, the same proofs, and nothing else is given to solvers."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.solvers import reachable
from cautious.solvers.choose import SOLVERS
from cautious.solvers.reachable import reachable_part

REACHED, STATES = 12, 60


def mostly_unreachable(outcome_rewards=False):
    """States that only lead to each other, scattered among others that lead anywhere; some pairs do not exist."""
    rng = np.random.default_rng(5)
    inside = np.sort(rng.choice(STATES, REACHED, replace=False))
    table = np.zeros((STATES, 3, STATES))
    for state in range(STATES):
        for action in range(3):
            goals = rng.choice(inside if state in inside else STATES, 4, replace=False)
            table[state, action, goals] = rng.dirichlet(np.ones(4))
    allowed = rng.random((STATES, 3)) < 0.8
    allowed[~allowed.any(axis=1), 0] = True
    start = np.zeros(STATES)
    start[inside[:2]] = 0.5
    rewards = rng.normal(size=(STATES, 3, STATES) if outcome_rewards else (STATES, 3))
    return ca.MDP(table, rewards, 0.9, start, allowed=allowed), inside


MODEL, INSIDE = mostly_unreachable()
OUTCOMES, _ = mostly_unreachable(outcome_rewards=True)


def risks(mdp):
    rng = np.random.default_rng(1)
    prior = rng.dirichlet(np.ones(mdp.rewards.size)).reshape(mdp.shape)
    states, tasks = prior.sum(axis=1), rng.random((2, *mdp.shape))
    halves = [np.arange(STATES) % 2 == 0, np.arange(STATES) % 3 == 0]
    return {
        "KL": ca.KL(prior),
        "KL states": ca.KL(states),
        "Entropy": ca.Entropy(),
        "TotalVariation": ca.TotalVariation(prior),
        "TotalVariation states": ca.TotalVariation(states),
        "Quadratic": ca.Quadratic(prior),
        "Quadratic states": ca.Quadratic(states),
        "SafeSet": ca.SafeSet(np.ones(STATES, bool), 0.5),
        "PeakExposure": ca.PeakExposure(halves),
        "WorstTask": ca.WorstTask(tasks),
        "Variance": ca.Variance(),
        "CVaR": ca.CVaR(0.8),
        "Variance + TotalVariation": ca.Variance() + ca.TotalVariation(prior),
    }


@pytest.mark.parametrize("mdp", [MODEL, OUTCOMES], ids=["pairs", "outcomes"])
@pytest.mark.parametrize("name", risks(MODEL))
def test_values_and_answers_are_those_of_the_whole_problem(name, mdp, monkeypatch):
    problem = ca.Problem(mdp, risks(mdp)[name], 2.0)
    part = reachable_part(problem)
    assert np.array_equal(part.states, INSIDE)
    rng = np.random.default_rng(0)
    for _ in range(3):
        small = np.where(part.problem.active, rng.random(part.problem.mdp.shape), 0.0)
        small /= small.sum()
        d = np.zeros(mdp.shape)
        d[INSIDE] = small
        assert part.problem.objective(small) == pytest.approx(problem.objective(d), rel=1e-12)
    cut_off = ca.solve(problem).require()
    monkeypatch.setattr(reachable, "LARGEST_SHARE", -1.0)
    whole = ca.solve(ca.Problem(mdp, risks(mdp)[name], 2.0)).require()
    assert cut_off.objective <= whole.upper_bound
    assert whole.objective <= cut_off.upper_bound


def test_solvers_see_only_what_can_be_reached(monkeypatch):
    seen = []
    for solver in SOLVERS:
        steps = type(solver).steps
        monkeypatch.setattr(
            type(solver),
            "steps",
            lambda self, problem, target, steps=steps: (
                seen.append(problem.mdp.n_states) or steps(self, problem, target)
            ),
        )
    for risk in risks(MODEL).values():
        ca.solve(ca.Problem(MODEL, risk, 2.0)).require()
    ca.solve(ca.Problem(MODEL)).require()
    assert set(seen) == {REACHED}


def test_risks_that_look_at_all_states_are_given_the_whole_problem():
    ring = sp.csr_array((np.ones(STATES), (np.arange(STATES), np.roll(np.arange(STATES), -1))))
    problem = ca.Problem(MODEL, ca.Wasserstein(np.full(STATES, 1 / STATES), ring))
    assert reachable_part(problem) is None
    assert ca.solve(problem).status is ca.Status.SOLVED


def test_nothing_is_copied_where_nearly_all_can_be_reached():
    assert reachable_part(ca.Problem(ca.worlds.garnet(50, seed=1), ca.Entropy())) is None


def test_a_frontier_shares_one_part():
    problem = ca.Problem(MODEL, ca.Entropy(), 1.0)
    one, other = (reachable_part(problem.with_caution(caution)) for caution in (1.0, 3.0))
    assert one.problem.mdp is other.problem.mdp
    assert one.problem.terms[0][1] is other.problem.terms[0][1]
    assert one.problem.support is other.problem.support


def test_a_limit_before_any_proposal_gives_the_default_policy():
    problem = ca.Problem(ca.worlds.garnet(400, seed=1), ca.Entropy())
    solution = ca.solve(problem, time_limit_seconds=1e-9)
    assert solution.status is ca.Status.TIME_LIMIT
    assert np.isfinite(solution.objective)
