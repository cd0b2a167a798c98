"""What pages are told: arrays that fit, the busiest rows, numbers that JSON has, files that the command line reads."""

import csv
import io
import json
import zipfile

import numpy as np
import pytest

import cautious as ca
from cautious.studio import answers
from cautious.studio.messages import RISKS
from cautious.studio.opening import opened_words, refused_horizons
from cautious.studio.scenario import Limits, RiskChoice, Statement
from cautious.studio.session import Session
from cautious.studio.walks import never_left
from studio.conftest import from_anywhere, statement, unpack


def answered(session, asked):
    solution = session.solve(asked, lambda: False)
    return solution, unpack(answers.solution_message(5, solution, session, asked, 0.01))


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
    _, (head, _) = answered(Session(), from_anywhere(1e-4))
    assert (head["status"], head["objective"], head["gap"]) == ("INFEASIBLE", None, 0.0)
    assert [row["kept"] for row in head["limits"]] == [False]


def test_a_limit_comes_with_its_price():
    solution, (head, _) = answered(Session(), statement(kind="none", limits=Limits(0.005)))
    (row,), (told,) = solution.constraints, head["limits"]
    assert (told["limit"], told["place"], told["kept"]) == ("time", None, True)
    assert told["text"].startswith("Time in danger 0.5 %, at most 0.5 %: kept; one more percentage point is worth")
    assert f"{row.price / 100:.4g} points" in told["text"]
    assert head["verdict"].endswith("of the best possible that keeps the limit.")


def test_a_model_without_a_map_is_a_table_of_its_busiest_states():
    opened = ca.Problem(ca.worlds.garnet(n_states=200, seed=1))
    asked = Statement(None, RiskChoice("entropy"), 0.01, danger=(7,))
    solution, (head, payload) = answered(Session(opened), asked)
    shares = sorted(solution.occupancy.sum(axis=1).tolist(), reverse=True)
    assert payload == b""
    assert [row["share"] for row in head["table"]][: answers.MAX_ROWS] == shares[: answers.MAX_ROWS]
    assert [row["state"] for row in head["table"] if row["danger"]] == [7]
    assert all(row["actions"][0][1] == max(solution.policy[row["state"]]) for row in head["table"])


def test_points_without_a_finite_risk_are_left_out():
    mdp = ca.worlds.maze(start_at_s=True)
    safe = np.setdiff1d(np.arange(mdp.n_states), ca.worlds.dark_cells(mdp))
    points = ca.frontier(mdp, ca.SafeSet(safe, 0.005), cautions=[0, 0.1])
    assert [np.isinf(point.policy_risk) for point in points] == [True, False]
    told = json.loads(answers.frontier_message(3, points, statement()))
    assert [row["caution"] for row in told["points"]] == [0.1]
    # not the logarithm of the slack
    assert told["points"][0]["x"] == pytest.approx(points[1].occupancy[ca.worlds.dark_cells(mdp)].sum())
    assert (told["share"], told["limit"]) == (True, None)


def test_the_points_of_a_limit_say_which_one_it_is():
    session = Session()
    asked = statement(kind="none", limits=Limits(0.005))
    told = json.loads(answers.frontier_message(3, session.frontier(asked, lambda: False), asked))
    assert (told["limit"], told["share"]) == ({"name": "time", "place": None}, True)
    assert told["risk"] == "time in danger, at most"


@pytest.mark.parametrize(("discount", "refused"), [(0.9, ["average", "total"]), (1.0, ["discounted", "total"])])
def test_horizons_that_do_not_fit_come_with_the_reason(discount, refused):
    swim = ca.worlds.river_swim()
    mdp = ca.MDP(swim.transitions, swim.rewards, discount)
    found = refused_horizons(mdp)
    assert [name for name, reason in found.items() if reason] == refused
    for name in {"discounted", "average", "total"} - set(refused):
        ca.Problem(mdp, horizon=None if name == "discounted" else name)


def test_states_that_are_never_left():
    mdp = ca.worlds.maze()
    goal = mdp.scene.cells.index((6, 9))
    assert never_left(mdp).tolist() == [goal]
    assert never_left(ca.worlds.queue()).size == 0


@pytest.mark.parametrize("name", ca.worlds.names())
def test_every_world_can_be_opened(name):
    words = opened_words(ca.worlds.problem(name), name)
    assert json.loads(json.dumps(words))["own_risk"] == ca.worlds.describe(name).risk
    assert words["own_words"]


def exported(what, asked, session=None):
    session = Session() if session is None else session
    solution = session.solve(asked, lambda: False)
    return solution, answers.export(what, asked, session.scenario(asked), solution)


@pytest.mark.parametrize("kind", [kind for kind in RISKS if kind != "own"])
def test_the_command_line_solves_the_exported_problem(kind, run, tmp_path, monkeypatch):
    asked = statement(kind=kind, caution=2.0, level=0.8)
    solution, (name, media, content) = exported("problem", asked)
    assert (name, media) == ("problem.zip", "application/zip")
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("solve", "problem.toml", "--json")
    assert code == 0
    assert abs(json.loads(out)["objective"] - solution.objective) < 1e-5


@pytest.mark.parametrize(
    ("limits", "horizon"),
    [(Limits(0.005), None), (Limits(0.02), 20), (Limits(ever=0.1), "total")],
)
def test_limits_and_horizons_are_exported(limits, horizon, run, tmp_path, monkeypatch):
    asked = statement(kind="none", limits=limits, horizon=horizon)
    solution, (_, _, content) = exported("problem", asked)
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("solve", "problem.toml", "--json")
    found = json.loads(out)
    assert (code, found["horizon"], len(found["constraints"])) == (0, horizon, 1)
    assert abs(found["objective"] - solution.objective) < 1e-5


def test_the_policy_as_a_table():
    solution, (name, _, content) = exported("policy", statement())
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert name == "policy.csv"
    assert len(rows) == np.count_nonzero(solution.policy)
    assert sum(float(row["share_of_time"]) for row in rows) == pytest.approx(1.0)


def test_the_report(quick_pictures):
    pytest.importorskip("matplotlib", reason="extra plot")
    _, (name, _, content) = exported("report", statement())
    assert name == "report.html"
    assert b"<html" in content


def test_the_risk_of_an_opened_problem_stays_in_its_file():
    asked = Statement(None, RiskChoice("own"), 1.0)
    with pytest.raises(ca.InputError, match="its own file is the one to solve again"):
        exported("problem", asked, Session(ca.worlds.problem("queue")))
