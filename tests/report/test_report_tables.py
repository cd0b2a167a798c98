"""Tables: the right numbers, in every form."""

import dataclasses
import io

import numpy as np
from rich.console import Console

import cautious as ca
from cautious.report.text_tables import (
    Table,
    busiest_states,
    busiest_table,
    evaluation_table,
    figures_table,
    frontier_table,
    solution_table,
)
from cautious.report.trade_off import compare_with_neutral
from cautious.report.words import number


def test_rich_markup_in_user_text_is_not_obeyed():
    stream = io.StringIO()
    Console(file=stream, width=80).print(Table("[red]t", ("n", "v"), (("[bold]x[/bold]", "[/]"),)).rich())
    assert "[bold]x[/bold]" in stream.getvalue()
    assert "[red]t" in stream.getvalue()


def test_a_solution_table_has_its_figures(maze_solution):
    rows = dict(solution_table(maze_solution).rows)
    assert rows["status"] == "SOLVED"
    assert rows["objective"] == number(maze_solution.objective, 8)
    assert rows["risk (Variance)"] == number(maze_solution.risk, 8)


def test_an_evaluation_table_has_both_columns(maze_solution):
    found = ca.evaluate(maze_solution.mdp, maze_solution, episodes=10)
    first = evaluation_table(found).rows[0]
    assert first == ("mean return", number(found.mean), number(found.exact_mean))


def test_a_frontier_table_carries_the_risk_of_the_neutral_point(chain, chain_problem):
    points = ca.frontier(chain, chain_problem.unbound_risk, [0, 3])
    rows = frontier_table(points).rows
    assert [row[0] for row in rows] == ["0", "3"]
    assert rows[0][2] == number(chain_problem.risk_value(points[0].occupancy), 6)
    forgotten = dataclasses.replace(points[0], problem=None)
    assert frontier_table([forgotten]).rows[0][2] == "n/a"


def test_a_neutral_solution_of_a_frontier_says_its_risk(chain, chain_problem):
    neutral = ca.frontier(chain, chain_problem.unbound_risk, [0])[0]
    rows = dict(figures_table(neutral, compare_with_neutral(neutral, episodes=2)).rows)
    assert rows["risk, which played no part: PeakExposure"] == number(neutral.policy_risk)


def test_the_comparison_is_with_the_best_risk_neutral_policy(maze_solution, maze_problem):
    neutral = ca.solve(ca.Problem(maze_problem.mdp))
    rows = {row[0]: row[1:] for row in figures_table(maze_solution, compare_with_neutral(maze_solution)).rows}
    assert rows["expected return (exact), points"][1] == number(neutral.expected_return)
    assert rows["risk: Variance (exact)"][1] == number(maze_problem.risk_value(neutral.occupancy))


def test_busiest_states_are_the_largest_in_order():
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.ones(100))
    assert busiest_states(shares, 7) == np.argsort(-shares)[:7].tolist()
    assert busiest_states(np.array([0.5, 0.0, 0.5]), 5) == [0, 2]
    assert busiest_states(shares, 0) == []


def test_the_busiest_table_adds_up(maze_solution):
    rows = busiest_table(maze_solution, count=500).rows
    assert rows[-1][2] == "100.00 %"
    assert len(rows) == np.count_nonzero(maze_solution.occupancy.sum(axis=1))


def test_numbers_keep_their_digits_while_they_are_short():
    assert [number(value, 3) for value in (1234.5, -99999.0, 0.00012345, 12.345, 1e8)] == [
        "1234",
        "-99,999",
        "0.000123",
        "12.3",
        "1e+08",
    ]


def test_numbers_without_a_value_have_words():
    assert [number(value) for value in (None, float("nan"), float("inf"), float("-inf"))] == ["n/a", "n/a", "∞", "-∞"]


def test_only_numbers_stand_on_the_right():
    columns = {
        ("1,234", "-0.5", "1e-05", "∞", "-∞", "n/a", "", "99.00 %", "< 0.01 %"): True,
        ("1", "2 agents"): False,
        ("12, 3 forbidden", "5"): False,
        ("run (100 %)", "3"): False,
    }
    for cells, right in columns.items():
        assert Table("", ("a", "b"), tuple(("x", cell) for cell in cells)).right == (False, right)
