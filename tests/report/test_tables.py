"""Tables: the right numbers, in every form."""

import io

import numpy as np
from rich.console import Console

import cautious as ca
from cautious.report.compare import compare
from cautious.report.tables import (
    Table,
    busiest_states,
    busiest_table,
    comparison_table,
    evaluation_table,
    frontier_rows,
    frontier_table,
    solution_table,
)
from cautious.report.words import number


def test_text_and_markdown_align_and_escape():
    table = Table("t", ("name", "value"), (("a|b", "1.5"), ("longer", "-20")))
    assert table.text().splitlines() == ["name    value", "------  -----", "a|b       1.5", "longer    -20"]
    assert table.markdown().splitlines() == [
        "| name | value |",
        "| --- | ---: |",
        "| a\\|b | 1.5 |",
        "| longer | -20 |",
    ]


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


def test_frontier_rows_carry_the_risk_of_the_neutral_point(maze_problem):
    points = ca.frontier(maze_problem.mdp, ca.Variance(), [0, 10])
    rows = frontier_rows(points)
    assert [row[0] for row in rows] == ["0", "10"]
    assert rows[0][2] == number(maze_problem.risk_value(points[0].occupancy), 6)
    assert frontier_table(points).headers[0] == "caution"


def test_a_neutral_point_of_a_risk_with_data_is_unknown_without_the_problem(chain, chain_problem):
    points = ca.frontier(chain, chain_problem.recipe, [0, 3])
    assert frontier_rows(points)[0][2] == "n/a"
    assert frontier_rows(points, chain_problem)[0][2] == number(chain_problem.risk_value(points[0].occupancy), 6)


def test_the_comparison_is_with_the_best_risk_neutral_policy(maze_solution, maze_problem):
    neutral = ca.solve(ca.Problem(maze_problem.mdp))
    rows = {row[0]: row[1:] for row in comparison_table(compare(maze_solution)).rows}
    assert rows["expected return (exact)"][1] == number(neutral.expected_return)
    assert rows["risk: Variance (exact)"][1] == number(maze_problem.risk_value(neutral.occupancy))


def test_busiest_states_are_the_largest_in_order():
    rng = np.random.default_rng(3)
    occupancy = rng.dirichlet(np.ones(300)).reshape(100, 3)
    mass = occupancy.sum(axis=1)
    assert busiest_states(occupancy, 7) == np.argsort(-mass)[:7].tolist()
    assert busiest_states(np.array([[0.5], [0.0], [0.5]]), 5) == [0, 2]


def test_the_busiest_table_adds_up(maze_solution):
    rows = busiest_table(maze_solution, count=500).rows
    assert rows[-1][2] == "100.00 %"
    assert len(rows) == np.count_nonzero(maze_solution.occupancy.sum(axis=1))


def test_numbers_without_a_value_have_words():
    assert [number(value) for value in (None, float("nan"), float("inf"), float("-inf"))] == ["n/a", "n/a", "∞", "-∞"]
