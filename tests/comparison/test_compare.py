"""``ca.compare``: everyone's objective is the one we compute, and what does not apply or goes wrong is a row."""

import dataclasses
import json

import numpy as np
import pytest
from masked_model import masked

import cautious as ca
from cautious.comparison import compare as comparing
from cautious.comparison.results import HEADERS
from cautious.peers import convex, roster
from cautious.solvers.solve import answer


def test_every_method_of_ours_agrees_and_says_what_it_is():
    problem = ca.worlds.problem("drift")
    turns = []
    found = ca.compare(problem, methods=["cautious"], callback=turns.append)
    assert found.rows[0].method == "dual Newton"
    assert {row.whose for row in found.rows} == {"cautious"}
    assert {row.status for row in found.rows} == {"SOLVED"}
    assert [turn.method for turn in turns] == [row.method for row in found.rows]
    assert (turns[0].number, turns[-1].number, turns[0].total) == (1, len(turns), len(turns))
    wanted = ca.solve(problem).objective
    for row in found.rows:
        assert found.proved(row)
        assert row.objective == pytest.approx(wanted, rel=1e-6)
        assert row.gap == row.upper_bound - row.objective
        assert row.seconds > 0
    assert found.fastest.seconds == min(row.seconds for row in found.rows)
    assert found.best.objective == max(row.objective for row in found.rows)
    assert not found.interrupted
    assert json.loads(json.dumps(found.table()))[0]["method"] == "dual Newton"


def test_others_run_in_a_process_of_their_own():
    pytest.importorskip("cvxpy")
    found = ca.compare(ca.Problem(masked()), methods=["planning", "CLARABEL", "HIGHS"])
    assert [row.status for row in found.rows] == ["SOLVED", "optimal", "optimal"]
    assert [row.whose for row in found.rows] == ["cautious", "CVXPY", "CVXPY"]
    for row in found.rows:
        assert row.objective == pytest.approx(found.rows[0].objective, abs=1e-5)
        assert 0 < row.gap < 1e-4
    title, header, *lines = repr(found).splitlines()
    assert title.startswith("Comparison of 3 methods: Problem(MDP(7 states")
    assert header.split() == list(HEADERS)
    places = {line.index(f" {row.whose} ") for line, row in zip(lines, found.rows, strict=True)}
    assert places == {header.index(" whose ")}


def test_a_risk_is_bound_anew_for_every_run():
    bound = []

    class Counted(ca.PeakExposure):
        def bind(self, mdp):
            bound.append(super().bind(mdp))
            return bound[-1]

    problem = ca.Problem(masked(), Counted([[0], [1, 2]]))
    (row,) = ca.compare(problem, ["column generation"]).rows
    assert row.status == "SOLVED"
    assert len(bound) >= 3


def test_ctrl_c_is_the_end(monkeypatch):
    def stopped(*arguments, **options):
        return dataclasses.replace(answer(*arguments, **options), status=ca.Status.STOPPED)

    monkeypatch.setattr(comparing, "answer", stopped)
    found = ca.compare(ca.Problem(masked()), ["planning", "plug-in"], samples=1000)
    assert [row.status for row in found.rows] == ["STOPPED", "interrupted"]


def test_learners_take_part_when_they_may_draw_samples():
    problem = ca.worlds.problem("river_swim", 2.0)
    assert "plug-in" not in [row.method for row in ca.compare(problem, ["cautious"]).rows]
    found = ca.compare(problem, ["cautious", "plug-in"], samples=20_000)
    row = {row.method: row for row in found.rows}["plug-in"]
    learned = ca.learn(problem.mdp.simulator(), ca.Variance(), 2.0, 20_000, "plug-in")
    wanted = problem.objective(_occupancy(problem, learned.policy))
    assert row.objective == pytest.approx(wanted, abs=1e-9)
    assert (row.upper_bound, row.status, row.note) == (None, "ESTIMATED", "at most 20,000 samples")


def test_a_learner_at_its_time_limit_does_not_end_the_comparison():
    found = ca.compare(ca.Problem(masked()), ["primal-dual", "planning"], samples=2_000_000_000, time_limit_seconds=0.3)
    assert [row.status for row in found.rows] == ["TIME_LIMIT", "SOLVED"]
    assert found.rows[0].objective is not None
    assert not found.interrupted


def _occupancy(problem, policy):
    """d = x(s) pi(a|s) with x = (1-gamma) (I - gamma P_pi')^-1 xi."""
    mdp = problem.mdp
    table = mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)
    chain = np.einsum("sa,sat->st", policy, table)
    x = np.linalg.solve(np.eye(mdp.n_states) - mdp.discount * chain.T, (1 - mdp.discount) * mdp.start)
    return policy * x[:, None]


def test_what_does_not_apply_says_why():
    problem = ca.Problem(masked(), ca.Variance())
    found = ca.compare(problem, ["dual Newton", "CLARABEL", "QuantEcon", "SCS"])
    assert [row.status for row in found.rows] == ["not applicable"] * 4
    assert "not Variance" in found.rows[1].note
    assert found.rows[2].note == "plans without a risk or limit only"
    assert (found.best, found.fastest) == (None, None)
    barrier = ca.Problem(masked(), ca.SafeSet([0, 1], 0.9))
    assert roster.refusal(barrier, "HIGHS") == "takes linear costs only"
    assert roster.refusal(barrier, "PIQP") == "takes linear and quadratic costs only"
    assert roster.refusal(ca.Problem(masked(), ca.Quadratic(np.full(7, 1 / 7))), "PIQP") is None


def test_by_default_only_what_applies_takes_part(monkeypatch):
    asked = []
    monkeypatch.setattr(
        comparing.Peers, "row", lambda self, name: asked.append(name) or comparing.ComparisonRow(name, "", "")
    )
    ca.compare(ca.Problem(masked(), ca.Variance()))
    assert asked == []
    ca.compare(ca.Problem(masked(), ca.Entropy()))
    assert asked == ["CLARABEL", "SCS"]
    asked.clear()
    ca.compare(ca.Problem(masked()))
    assert tuple(asked) == roster.USUAL


def test_the_name_of_a_package_means_all_of_its_methods(monkeypatch):
    asked = []
    monkeypatch.setattr(
        comparing.Peers, "row", lambda self, name: asked.append(name) or comparing.ComparisonRow(name, "", "")
    )
    ca.compare(ca.Problem(masked()), ["storm"])
    assert asked == ["Storm", "Storm PI"]
    asked.clear()
    ca.compare(ca.Problem(masked()), ["Storm PI", "CLARABEL", "Storm"])
    assert asked == ["Storm PI", "CLARABEL", "Storm"]


def test_ctrl_c_keeps_what_was_finished(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparing, "learner_row", interrupted)
    found = ca.compare(ca.Problem(masked()), ["planning", "plug-in", "paper"], samples=1000)
    assert [row.status for row in found.rows] == ["SOLVED", "interrupted", "interrupted"]
    assert found.interrupted


def test_an_infeasible_problem_is_said_by_everyone():
    pytest.importorskip("cvxpy")
    problem = ca.Problem(ca.worlds.river_swim(), ca.SafeSet([5], 0.01))
    (row,) = ca.compare(problem, ["column generation"]).rows
    assert (row.status, row.objective, row.gap) == ("INFEASIBLE", None, None)
    stats, judgement = convex.attempt(problem, "CLARABEL")
    assert stats["status"] == "infeasible"
    assert judgement()["objective"] is None


WRONG = {
    "problem": (lambda: ca.compare(ca.worlds.river_swim()), ca.IncompatibleError, "needs a ca.Problem, found MDP"),
    "method": (
        lambda: ca.compare(ca.Problem(masked()), ["CLARABELL"]),
        ca.InputError,
        "there is no method 'CLARABELL'; did you mean 'CLARABEL'",
    ),
    "text": (lambda: ca.compare(ca.Problem(masked()), "SCS"), ca.InputError, "must be a sequence of names"),
    "limit": (lambda: ca.compare(ca.Problem(masked()), time_limit_seconds=0), ca.InputError, "time_limit_seconds is 0"),
    "samples": (lambda: ca.compare(ca.Problem(masked()), samples=0), ca.InputError, "samples must be a whole number"),
    "tolerance": (lambda: ca.compare(ca.Problem(masked()), tolerance=0), ca.InputError, "tolerance is 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input(case):
    call, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        call()


def test_the_names_of_methods_are_different():
    names = comparing.method_names()
    assert len({name.lower() for name in names}) == len(names)
    assert set(roster.USUAL) <= set(roster.EVERY) <= set(names)
