"""What caution buys: prices lie between the cautions of a step, and the page solves only what is quick."""

import dataclasses

import pytest

import cautious as ca
from cautious.report import trade_off
from cautious.report.trade_off import compare_with_neutral
from page_reader import read


@pytest.mark.parametrize("name", ["maze", "drift", "machine_replacement", "inventory", "forest"])
def test_a_step_costs_between_its_two_cautions_per_unit_of_risk(name):
    solution = ca.solve(ca.worlds.problem(name)).require()
    points = [
        compare_with_neutral(solution, episodes=2).neutral_point,
        *trade_off.neighbours(solution),
        trade_off.point(solution),
    ]
    points = sorted((one for one in points if one is not None), key=lambda one: one.caution)
    assert [one.caution for one in points][-3:] == [solution.caution / 2, solution.caution, 2 * solution.caution]
    prices = [(step, step.price) for step in trade_off.steps(points) if step.price is not None]
    assert prices
    for step, price in prices:
        assert step.before.caution * (1 - 1e-3) <= price <= step.after.caution * (1 + 1e-3)


def test_neighbours_are_what_solving_from_scratch_finds(maze_solution, maze_problem):
    for near in trade_off.neighbours(maze_solution):
        again = ca.solve(maze_problem.with_caution(near.caution)).require()
        assert near.expected_return == pytest.approx(again.expected_return, abs=1e-9)
        assert near.risk == pytest.approx(again.risk, abs=1e-9)


def test_one_unit_of_caution_costs_at_most_the_risk(maze_solution, maze_problem):
    more = ca.solve(maze_problem.with_caution(maze_solution.caution + 1)).require()
    assert more.objective >= maze_solution.objective - maze_solution.risk - 1e-9


def test_a_step_that_changes_nothing_has_no_price():
    here, there = trade_off.TradeOffPoint(1.0, 5.0, 2.0), trade_off.TradeOffPoint(2.0, 5.0 - 1e-12, 2.0 + 1e-12)
    step = trade_off.Step(here, there)
    assert (step.given_up, step.removed, step.price) == (0.0, 0.0, None)
    assert trade_off.Step(here, trade_off.TradeOffPoint(2.0, 4.0, 1.5)).price == 2.0


def test_unknown_points_are_left_out(maze_solution, infeasible_solution):
    assert trade_off.point(infeasible_solution) is None
    neutral = dataclasses.replace(maze_solution, caution=0.0, risk_label="none", problem=None)
    assert trade_off.point(neutral) is None
    assert trade_off.steps([None, trade_off.point(maze_solution), None]) == []


def test_why_neighbours_are_not_solved(maze_solution, infeasible_solution):
    assert trade_off.refusal(maze_solution) is None
    assert "from a file" in trade_off.refusal(dataclasses.replace(maze_solution, problem=None))
    assert trade_off.refusal(dataclasses.replace(maze_solution, seconds=10.0)) is None
    assert "took 600 s" in trade_off.refusal(dataclasses.replace(maze_solution, seconds=600.0))
    assert "not proved best" in trade_off.refusal(infeasible_solution)
    learned = dataclasses.replace(maze_solution.certificate, kind="estimated")
    assert "samples" in trade_off.refusal(dataclasses.replace(maze_solution, certificate=learned))


def test_neighbours_have_half_and_twice_the_caution(maze_solution):
    assert [one.caution for one in trade_off.neighbours(maze_solution)] == [5.0, 20.0]


@pytest.mark.usefixtures("quick_pictures")
def test_the_page_says_that_a_neighbour_took_too_long(maze_solution, monkeypatch, tmp_path):
    monkeypatch.setattr(trade_off, "NEIGHBOUR_SECONDS", 1e-9)
    assert trade_off.neighbours(maze_solution) == []
    maze_solution.report(tmp_path / "page.html")
    assert "A neighbouring caution was not solved within 1e-09 s." in read(tmp_path / "page.html")[1].words
