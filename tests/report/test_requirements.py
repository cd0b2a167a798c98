"""Requirements in words: what is asked, what is reached, and what the risk-neutral policy does to them."""

import dataclasses

import numpy as np
import pytest

import cautious as ca
from cautious.report.requirements import (
    Requirement,
    barrier_requirements,
    outside_words,
    requirement_words,
    requirements_table,
    violation_words,
)
from page_reader import read

SAFE = ["new", "used", "worn"]


@pytest.fixture(scope="module")
def guarded(pump):
    solution = ca.solve(ca.Problem(pump, ca.SafeSet(SAFE, slack=0.02), 5.0)).require()
    assert solution.occupancy[:3].sum() > 0.98
    return solution


def test_a_safe_set_says_what_was_asked_in_percent(guarded):
    share = 100 * guarded.occupancy[:3].sum()
    (text,) = requirement_words(guarded)
    assert text == (f"Required: At least 98 % of the discounted time in new, used, worn; this policy: {share:.2f} %.")
    (asked,) = requirement_words(guarded, with_reached=False)
    assert asked == "Required: At least 98 % of the discounted time in new, used, worn."
    (row,) = requirements_table(barrier_requirements(guarded), guarded.mdp).rows
    assert row[:3] == ("share of time in new, used, worn", "98 %", f"{share:.2f} %")
    assert float(row[3].removesuffix(" %")) == pytest.approx(share - 98, rel=1e-2)


def test_what_is_used_of_the_limit_is_said_with_its_place(guarded):
    outside = guarded.occupancy[3:].sum(axis=1)
    (text,) = outside_words(guarded)
    assert text.startswith(f"Outside: {100 * outside.sum():.2f} % of the time, of 2 % allowed")
    worst = guarded.mdp.state_names[3 + int(outside.argmax())]
    assert f"in {worst} ({100 * outside.max():.2f} %)" in text


def test_many_states_are_counted_and_those_of_a_file_not_named():
    problem = ca.Problem(ca.worlds.garnet(n_states=12, seed=0), ca.SafeSet(range(9), slack=0.9), 0.1)
    solution = ca.solve(problem).require()
    (demand,) = barrier_requirements(solution)
    assert demand.states == tuple(range(9))
    assert "of the discounted time in 9 states;" in requirement_words(solution)[0]
    table = requirements_table([Requirement(demand.name, 0.5, 0.6)], solution.mdp)
    assert table.rows == (("share of time in the safe states", "50 %", "60.00 %", "10 %"),)


def test_near_the_limit_there_are_more_digits(pump):
    near = Requirement("SafeSet: share of time in the safe set", 0.98, 0.98000012, (0,))
    assert requirements_table([near], pump).rows[0][1:3] == ("98 %", "98.000012 %")


def test_floors_are_returns(pump):
    rewards = np.array([np.ones((5, 3)), np.zeros((5, 3))])
    solution = ca.solve(ca.Problem(pump, ca.TaskFloors(rewards, [50.0, -1.0]), 1.0)).require()
    (text,) = requirement_words(solution)
    assert "Return of task 0: at least 50; this policy: 100." in text
    assert outside_words(solution) == []


def test_what_is_broken_is_counted():
    kept, broken = Requirement("TaskFloors: return of task 0", 1.0, 2.0), Requirement("TaskFloors: b", 1.0, 0.5)
    assert violation_words([kept]) == ""
    assert violation_words([broken]) == "breaks the requirement (0.5 instead of at least 1)"
    assert violation_words([kept, broken]) == "breaks 1 of 2 requirements (b: 0.5 instead of at least 1)"


@pytest.mark.usefixtures("quick_pictures")
def test_the_requirement_is_in_the_answer_and_comes_first(guarded, tmp_path):
    guarded.report(tmp_path / "page.html")
    _, page = read(tmp_path / "page.html")
    share = 100 * guarded.occupancy[:3].sum()
    assert f"and keeps the requirement ({share:.2f} %, at least 98 %)" in page.words
    assert page.sections[:2] == ["The problem", "How close the requirements are"]
    assert "Which states carry the risk" not in page.sections
    assert 'ca.SafeSet(["new", "used", "worn"], slack=0.02), caution=5.0' in page.words


@pytest.mark.usefixtures("quick_pictures")
def test_caution_that_changes_nothing_is_said_once(pump, tmp_path):
    solution = ca.solve(ca.Problem(pump, ca.SafeSet(["new", "used"], slack=0.9), 1e-3)).require()
    neutral = ca.solve(ca.Problem(pump))
    assert np.allclose(solution.occupancy, neutral.occupancy)
    solution.report(tmp_path / "page.html")
    lead = read(tmp_path / "page.html")[1].words.split("expected return")[0]
    assert "the same policy as without caution; no policy" in lead
    assert "risk-neutral" not in lead


def test_a_loaded_infeasible_solution_names_what_cannot_be_met(infeasible_solution, tmp_path):
    infeasible_solution.save(tmp_path / "s.npz")
    rows = barrier_requirements(ca.load(tmp_path / "s.npz"))
    # which states are safe is not in the file
    assert [dataclasses.replace(row, states=(0,)) for row in rows] == barrier_requirements(infeasible_solution)
    assert rows[0].reached < rows[0].limit
