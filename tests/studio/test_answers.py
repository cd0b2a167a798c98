"""What pages are told: arrays that fit, rows that are the busiest, numbers that JSON has."""

import json

import numpy as np
import pytest

import cautious as ca
from cautious.studio import answers
from cautious.studio.messages import RiskChoice, Statement
from cautious.studio.session import Session
from studio.conftest import from_anywhere, statement, unpack


def answered(session, asked):
    solution = session.solve(asked, lambda: False)
    return solution, unpack(answers.solution_message(5, solution, session.place(asked), asked.risk, 0.01))


def test_the_arrays_of_a_map_come_in_place():
    solution, (head, payload) = answered(Session(), statement())
    assert len(answers.pack(head, b"")) % 4 == 0
    both = np.frombuffer(payload, "<f4").reshape(2, *head["shape"])
    assert np.array_equal(both[0], solution.policy.astype(np.float32))
    assert np.array_equal(both[1], solution.occupancy.astype(np.float32))
    assert head["number"] == 5
    assert head["verdict"].startswith("Proved: within ")
    assert head["danger_share"] == pytest.approx(solution.occupancy[ca.worlds.dark_cells(solution.mdp)].sum())


def test_infinite_figures_are_said_in_json():
    _, (head, _) = answered(Session(), from_anywhere(slack=1e-4))
    assert (head["status"], head["objective"], head["risk"], head["risk_infinite"]) == ("INFEASIBLE", None, None, True)


def test_a_model_without_a_map_is_a_table_of_its_busiest_states():
    opened = ca.Problem(ca.worlds.garnet(n_states=200, seed=1))
    asked = Statement(None, RiskChoice("entropy"), 0.01, danger=(7,))
    solution, (head, payload) = answered(Session(opened), asked)
    shares = sorted(solution.occupancy.sum(axis=1).tolist(), reverse=True)
    assert payload == b""
    assert [row["share"] for row in head["table"]][: answers.ROWS] == shares[: answers.ROWS]
    assert [row["state"] for row in head["table"] if row["danger"]] == [7]
    assert all(row["actions"][0][1] == max(solution.policy[row["state"]]) for row in head["table"])


def test_points_without_a_finite_risk_are_left_out():
    mdp = ca.worlds.maze(start_at_s=True)
    safe = np.setdiff1d(np.arange(mdp.n_states), ca.worlds.dark_cells(mdp))
    points = ca.frontier(mdp, ca.SafeSet(safe, 0.005), cautions=[0, 0.1])
    assert [np.isinf(point.policy_risk) for point in points] == [True, False]
    told = json.loads(answers.frontier_message(3, points))
    assert [row["caution"] for row in told["points"]] == [0.1]


def test_states_that_are_never_left():
    mdp = ca.worlds.maze()
    goal = mdp.scene.cells.index((6, 9))
    assert answers.never_left(mdp) == [goal]
    assert answers.never_left(ca.worlds.queue()) == []


@pytest.mark.parametrize("name", ca.worlds.names())
def test_every_world_can_be_opened(name):
    words = answers.opened_words(ca.worlds.problem(name), name)
    assert json.loads(json.dumps(words))["own_risk"] == ca.worlds.describe(name).risk
    assert words["own_words"]
