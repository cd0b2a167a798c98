"""Which cautions a frontier takes when nobody chooses them, and how a callback ends it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cautious as ca


def tied():
    """Work at 1 a step with some danger, work safely at 0.9, or burn money safely: two ways to be safest."""
    transitions = np.array([[[1.0, 0.0], [0.9, 0.1], [1.0, 0.0]], [[1.0, 0.0]] * 3])
    rewards = np.array([[-1000.0, 1.0, 0.9], [0.0, 0.0, 0.0]])
    return ca.MDP(transitions, rewards, 0.9, [1.0, 0.0]), ca.PeakExposure([[1]])


def test_cautions_lie_around_what_safety_costs_the_best_of_the_safest():
    mdp, risk = tied()
    points = ca.frontier(mdp, risk)
    # dangerous work takes 1 / 1.09 of the time, the danger 0.09 / 1.09
    rate = (1 / 1.09 - 0.9) / 0.1 / (0.09 / 1.09)
    assert points[0].caution == 0
    assert np.exp(np.mean([np.log(point.caution) for point in points[1:]])) == pytest.approx(rate, rel=0.01)
    assert points[0].expected_return == pytest.approx(10 / 1.09)
    assert points[-1].expected_return == pytest.approx(9.0)


def test_a_callback_that_asks_to_stop_ends_the_frontier_also_where_a_point_is_proved():
    for wanted, points in ((False, 3), (True, 1)):
        found = ca.frontier(ca.worlds.maze(), ca.Variance(), [0, 1, 10], callback=lambda progress, say=wanted: say)
        assert len(found) == points
        assert found[0].status is ca.Status.SOLVED


def test_a_model_is_looked_over_once_for_all_cautions(monkeypatch):
    looked, look = [], ca.MDP.require_known
    monkeypatch.setattr(ca.MDP, "require_known", lambda self, what: (looked.append(what), look(self, what))[1])
    points = ca.frontier(ca.worlds.maze(), ca.PeakExposure([[0]]), [0, 1, 10])
    assert len(points) == 3
    assert looked == ["ca.solve"]


@pytest.mark.parametrize("workers", [1, 2])
def test_points_that_are_solved_side_by_side(workers):
    mdp, seen = ca.worlds.queue(), []
    cautions, risk = [0.0, 3.0, 10.0], ca.PeakExposure([[0]])
    with ThreadPoolExecutor(workers) as pool:
        found = ca.frontier(mdp, risk, cautions, executor=pool, callback=seen.append)
        stopped = ca.frontier(mdp, risk, cautions, executor=pool, callback=lambda progress: True)
        default = ca.frontier(mdp, risk, executor=pool)
    alone = [ca.solve(ca.Problem(mdp, risk, caution), threads=1) for caution in cautions]
    assert found.cautions == cautions
    assert [one.policy.tobytes() for one in found] == [one.policy.tobytes() for one in alone]
    assert [progress.objective for progress in seen] == [one.objective for one in alone]
    assert all(one.problem is not None and one.mdp.shape == mdp.shape for one in found)
    assert stopped.cautions == [0.0]
    assert default.cautions == ca.frontier(mdp, risk).cautions
    for one, serial in zip(found, ca.frontier(mdp, risk, cautions), strict=True):
        assert abs(one.objective - serial.objective) <= 1e-6 * max(1.0, abs(serial.objective))


def test_limits_that_are_solved_side_by_side():
    machine, broken = ca.worlds.machine_replacement(), ca.Exposure("broken")
    asked = {"constraints": [broken <= 0], "limits": [0.002, 0.004]}
    with ThreadPoolExecutor(2) as pool:
        found = ca.frontier(machine, executor=pool, **asked)
    serial = ca.frontier(machine, **asked)
    assert found.limits == serial.limits == [0.002, 0.004]
    for one, other in zip(found, serial, strict=True):
        assert abs(one.objective - other.objective) <= 1e-6 * abs(other.objective)


def test_an_executor_of_another_kind_is_refused():
    with pytest.raises(ca.IncompatibleError, match=r"executor must be a concurrent\.futures\.Executor, found int"):
        ca.frontier(ca.worlds.queue(), ca.Variance(), [1.0], executor=4)
