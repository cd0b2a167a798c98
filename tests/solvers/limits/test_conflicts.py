"""Limits that cannot be kept beside others and beside risks: found soon, and named without those that have no part."""

import numpy as np
import pytest

import cautious as ca
from cautious.solvers import choose


def two_ways(horizon=None):
    """Action 0 stays or goes on in a circle of three; action 1 goes on in one of all four states."""
    rows = np.zeros((4, 2, 4))
    rows[:3, 0, :3] = 0.9 * np.eye(3) + 0.1 * np.roll(np.eye(3), 1, axis=1)
    rows[3, 0, 0] = 1
    rows[:, 1] = np.roll(np.eye(4), 1, axis=1)
    discount = 0.95 if horizon is None else 1.0
    return ca.MDP(rows, np.arange(8.0).reshape(4, 2), discount, [1, 0, 0, 0])


@pytest.mark.parametrize("horizon", [None, 12, "average"])
def test_linear_limits_in_conflict_are_found_before_every_solver_has_tried(horizon, monkeypatch):
    """Beside a convex risk and a convex limit every solver was tried on six versions of the problem."""
    started, original = [], choose.run

    def counted(*given, **more):
        started.append(given[0].name)
        return original(*given, **more)

    monkeypatch.setattr(choose, "run", counted)
    mdp, even = two_ways(horizon), np.full(4, 0.25)
    limits = [ca.Exposure([0]) >= 0.6, ca.Exposure([1]) >= 0.6, ca.Quadratic(even) <= 0.9]
    found = ca.solve(ca.Problem(mdp, ca.Entropy() + ca.TotalVariation(even), 2.0, limits, horizon))
    assert found.status is ca.Status.INFEASIBLE
    assert found.certificate.facts["requirements"] == ["Exposure >= 0.6", "Exposure >= 0.6"]
    assert len(started) <= 15, started


@pytest.mark.parametrize("bound", [1e-11, 1e-7, 0.1])
def test_a_limit_that_is_nearly_reached_is_not_named_for_the_others(bound):
    """Room of 1e-11 for a state that need not be visited: the weight of the limit is large, and it has no part."""
    mdp = two_ways()
    prior = ca.solve(ca.Problem(mdp, -1.0 * ca.Exposure([0]), 1e6)).occupancy.sum(axis=1)
    near = ca.TotalVariation(prior) <= 0.05
    away = ca.Exposure([0]) <= float(prior[0]) - 0.1
    found = ca.solve(ca.Problem(mdp, ca.PeakExposure([[0], [2]]), 1e-3, [ca.Exposure([3]) <= bound, away, near]))
    assert found.status is ca.Status.INFEASIBLE
    assert found.certificate.facts["requirements"] == [repr(away), "TotalVariation <= 0.05"]
    assert ca.verify(found).proved
