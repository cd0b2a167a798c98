"""Which cautions a frontier takes when nobody chooses them, and how a callback ends it."""

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
    looked, look = [], ca.MDP.require_transitions
    monkeypatch.setattr(ca.MDP, "require_transitions", lambda self, what: (looked.append(what), look(self, what))[1])
    points = ca.frontier(ca.worlds.maze(), ca.PeakExposure([[0]]), [0, 1, 10])
    assert len(points) == 3
    assert looked == ["ca.solve"]
