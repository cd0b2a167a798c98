"""Limits until an end that going on for ever would improve without end, while rewards make going on cost something."""

import numpy as np
import pytest
import scipy.optimize

import cautious as ca
from cautious.planning import plan
from cautious.solvers.column_generation import column_pool

# states here, there, end: one can go from here to there and back as often as one likes
ROWS = np.array(
    [[[0.5, 0.5, 0], [0, 0, 1]], [[0.5, 0.5, 0], [0, 0.2, 0.8]], [[0, 0, 1], [0, 0, 1]]],
)
COSTS = np.array([[-1.0, -2.0], [-1.0, -1.0], [0.0, 0.0]])


def least_cost(rewards, states, bound):
    """The best total with at least so many visits, by HiGHS."""
    rows = ROWS[:2, :, :2].reshape(4, 2)
    leaving = np.repeat(np.eye(2), 2, axis=1)
    counted = -np.repeat(np.isin([0, 1], states), 2)[None].astype(float)
    found = scipy.optimize.linprog(-rewards[:2].ravel(), counted, [-bound], leaving - rows.T, [1, 0], method="highs")
    return -found.fun


@pytest.mark.parametrize("rewards", [COSTS, COSTS * [[0, 1], [0, 1], [0, 0]]], ids=["costly", "free to stay"])
@pytest.mark.parametrize("bound", [0.5, 5.0, 100.0])
def test_many_visits_are_asked_for(bound, rewards):
    mdp = ca.MDP(ROWS, rewards, 1, [1, 0, 0])
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure([1]) >= bound], horizon="total")).require()
    best = least_cost(rewards, [1], bound)
    assert solution.objective == pytest.approx(best, rel=2e-6, abs=2e-6)
    assert solution.constraints[0].value >= bound
    wider = least_cost(rewards, [1], 0.9 * bound)
    assert wider <= solution.upper_bound + solution.constraints[0].price * 0.1 * bound + 1e-6 * abs(wider)


def test_no_best_value_is_named_where_there_is_none():
    mdp = ca.MDP(ROWS, COSTS * [[0, 1], [0, 1], [0, 0]], 1, [1, 0, 0])
    limits = [ca.Exposure([1]) >= 5, ca.Exposure([0]) <= 1]
    solution = ca.solve(ca.Problem(mdp, constraints=limits, horizon="total"))
    assert solution.status is ca.Status.INFEASIBLE
    assert solution.certificate.facts["best_alone"] == [np.inf, pytest.approx(1)]


ROUNDS = np.array([[[0, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]], dtype=float)


@pytest.mark.parametrize("paid", [0.0, -2.0])
def test_a_limit_that_rounds_for_free_improve_without_end(monkeypatch, paid):
    """No price of such a limit has a best policy: the search is given up after a few of them, not after hundreds."""
    calls = []

    def counted(*arguments, **named):
        calls.append(0)
        return plan(*arguments, **named)

    monkeypatch.setattr(column_pool, "plan", counted)
    rewards, table = np.array([[-1.0, 0], [0, -3], [0, 0]]), np.array([[paid, 1.0], [0, 0], [0, 0]])
    mdp = ca.MDP(ROUNDS, rewards, 1, [1, 0, 0])
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Return(table) >= 5], horizon="total")).require()
    assert solution.objective == pytest.approx(-1, abs=2e-6)
    assert solution.upper_bound >= -1
    assert solution.constraints[0].value >= 5
    # 3,003 before
    assert len(calls) < 100


@pytest.mark.parametrize("missing", [1e-6, 1e-2])
def test_a_conflict_beside_a_limit_that_rounds_for_free_improve_without_end(missing):
    """From the start, half of the mass at most gets to the goal; the rest may go round and round and be paid."""
    transitions, rewards, paid = np.zeros((5, 2, 5)), np.zeros((5, 2)), np.zeros((5, 2))
    transitions[0, 0, [1, 2]], transitions[0, 1, [1, 2]] = 0.5, [0.25, 0.75]
    transitions[2, 0, 3] = transitions[3, 0, 2] = 1
    transitions[[1, 2, 3], 1, 4] = transitions[1, 0, 4] = 1
    transitions[4, :, 4] = 1
    rewards[[2, 3], 1] = -1
    paid[2, 0], paid[1] = 1, -1
    mdp = ca.MDP(transitions, rewards, 1, [1, 0, 0, 0, 0])
    limits = [ca.Reach([1]) >= 0.5 + missing, ca.Return(paid) >= 5]
    solution = ca.solve(ca.Problem(mdp, constraints=limits, horizon="total"))
    assert solution.status is ca.Status.INFEASIBLE
    assert ca.verify(solution).proved
    # the other limit can be kept
    assert ca.solve(ca.Problem(mdp, constraints=limits[1:], horizon="total")).status is ca.Status.SOLVED
