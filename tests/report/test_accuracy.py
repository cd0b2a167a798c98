"""Noise reads 0, and what a solve can tell from 0 never does."""

import dataclasses
import re

import numpy as np
import pytest

import cautious as ca
from cautious.horizons.visits import PolicyOccupancy
from cautious.report import accuracy, trade_off
from cautious.report.contributions import contributions, contributions_table
from cautious.report.text_tables import busiest_table, changed_states, frontier_table, solution_table
from cautious.report.trade_off import compare_with_neutral
from page_reader import read


@pytest.fixture(scope="module")
def safe(pump):
    """A caution at which no time in danger is best, solved only up to a tolerance."""
    points = ca.frontier(pump, ca.PeakExposure([["broken"], ["leaking"]]), [3e6, 2e7])
    # the solver may be exact one day: then this is the noise it used to leave
    noisy = [_with_noise(one, 3e-13) for one in points]
    return ca.Frontier(noisy)


def _with_noise(solution, size):
    """The same solution with a little time in a broken pump, and the risk of it."""
    occupancy = solution.occupancy.copy()
    broken = solution.mdp.state_names.index("broken")
    occupancy[broken] = 0.0
    occupancy[broken, 2] = size
    reached = solution.reached.copy()
    reached[broken] = True
    policy = solution.policy.copy()
    policy[broken] = [0, 0, 1]
    visits = PolicyOccupancy(occupancy, reached, solution.certificate.occupancy_error)
    certificate = dataclasses.replace(solution.certificate, visits=visits)
    return dataclasses.replace(solution, risk=size, certificate=certificate, policy=policy, gap=max(solution.gap, 1e-4))


def test_risk_below_the_gap_reads_zero(safe):
    assert [one.risk for one in safe] == [3e-13, 3e-13]
    assert [row[2] for row in frontier_table(safe).rows] == ["0", "0"]
    assert dict(solution_table(safe[0]).rows)["risk (PeakExposure)"] == "0"
    # the numbers themselves are left alone
    assert safe.table()[0]["risk"] == 3e-13


@pytest.mark.usefixtures("quick_pictures")
def test_neither_page_has_noise_nor_a_negative_zero(safe, tmp_path):
    other = _with_noise(safe[1], 6.65e-13)
    points = ca.Frontier([safe[0], other])
    points.report(tmp_path / "frontier.html")
    safe[0].report(tmp_path / "page.html")
    for name in ("frontier.html", "page.html"):
        words = read(tmp_path / name)[1].words
        assert not re.search(r"e-1[0-9]", words.split("How sure is this")[0])
        assert not re.search(r"-0\b(?!\.)", words.split("How sure is this")[0])
    assert "One unit of caution more would not lower the best objective." in words


def test_states_that_only_noise_visits_are_not_listed(safe):
    assert [row[0] for row in busiest_table(safe[0]).rows] == ["new", "used"]
    names = safe[0].mdp.state_names
    assert "broken" not in [names[state] for state in changed_states(compare_with_neutral(safe[0], episodes=2))]
    assert "broken" not in [row[0] for row in contributions_table(safe[0], contributions(safe[0])).rows]


def test_a_risk_above_the_gap_is_shown_however_small(safe):
    """The same number, solved to a gap that tells it from nothing: not noise."""
    certain = dataclasses.replace(safe[0], gap=1e-9, tolerance=1e-14)
    assert certain.gap / certain.caution < certain.risk
    assert frontier_table([certain]).rows[0][2] == "3e-13"
    assert accuracy.shown_risk(certain) == 3e-13
    assert "broken" in [row[0] for row in busiest_table(certain).rows]


def test_a_coarse_tolerance_hides_no_risk(safe):
    """A gap of a thousand says nothing about the policy's own risk, which is known."""
    rough = dataclasses.replace(_with_noise(safe[0], 1e-6), gap=1e3, tolerance=0.1)
    assert rough.gap / rough.caution > rough.risk
    assert frontier_table([rough]).rows[0][2] == "1e-06"


def test_small_units_are_no_noise():
    """Rewards of a billionth: their variance is tiny, and real."""
    swim = ca.worlds.river_swim()
    tiny = ca.MDP(swim.transitions, 1e-9 * swim.rewards, swim.discount, swim.start)
    solution = ca.solve(ca.Problem(tiny, ca.Variance(), 1e8), tolerance=1e-12)
    assert 0 < solution.risk < 1e-18
    assert accuracy.shown_risk(solution) == solution.risk
    assert accuracy.shown_return(solution) == solution.expected_return > 0
    assert accuracy.shown_objective(solution) == solution.objective


def test_a_return_of_rounding_reads_zero():
    """What is won is lost again: the return is nothing but rounding."""
    swap = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    mdp = ca.MDP(swap, np.array([[0.3], [-0.3]]), 0.9, [0.5, 0.5])
    solution = dataclasses.replace(ca.solve(ca.Problem(mdp)), expected_return=-4e-17, objective=-4e-17, gap=1e-15)
    rows = dict(solution_table(solution).rows)
    assert (rows["expected return"], rows["objective"]) == ("0", "0")


def test_the_neutral_policy_has_no_noise_either(pump):
    """Where the risk-neutral policy avoids all danger its risk is 0, whatever solving a linear system leaves."""
    problem = ca.Problem(pump, ca.PeakExposure([["leaking"]]), 10.0)
    found = compare_with_neutral(ca.solve(problem), episodes=2)
    assert found.neutral_risk == 0.0
    neutral = ca.solve(problem.with_caution(0.0))
    assert accuracy.shown_risk(neutral) == 0.0


def test_a_change_within_a_tighter_tolerance_is_a_change():
    here, there = (
        trade_off.TradeOffPoint(1.0, 5.0, 2.0, 1e-10),
        trade_off.TradeOffPoint(2.0, 5.0 - 1e-7, 2.0 - 1e-7, 1e-10),
    )
    assert trade_off.Step(here, there).price == pytest.approx(1.0)
    usual = trade_off.Step(trade_off.TradeOffPoint(1.0, 5.0, 2.0), trade_off.TradeOffPoint(2.0, 5.0 - 1e-7, 2.0 - 1e-7))
    assert usual.price is None


def test_points_that_do_not_change_are_drawn_in_one_place():
    points = [
        trade_off.TradeOffPoint(1.0, 5.0, 2.0),
        trade_off.TradeOffPoint(2.0, 5.0 + 1e-12, 2.0 - 1e-12),
        trade_off.TradeOffPoint(3.0, 4.0, 2.0),
    ]
    assert [(one.caution, one.expected_return, one.risk) for one in trade_off.steady(points)] == [
        (1.0, 5.0, 2.0),
        (2.0, 5.0, 2.0),
        (3.0, 4.0, 2.0),
    ]


def test_unknown_figures_of_learned_solutions_are_shown(tmp_path):
    learned = ca.learn(ca.worlds.river_swim().simulator(), ca.Variance(), caution=1.0, samples=20_000)
    assert np.isnan(learned.tolerance)
    assert accuracy.shown_risk(learned) == learned.risk > 0
    assert np.count_nonzero(accuracy.shares_of_time(learned)) == np.count_nonzero(learned.occupancy.sum(axis=1) > 1e-9)
