"""The session's answers are those of ``ca.solve`` to the problem that the statement says."""

import json
from dataclasses import replace

import numpy as np
import pytest

import cautious as ca
from cautious.studio import answers
from cautious.studio.answers import proof_sentence
from cautious.studio.messages import RISKS, read_statement
from cautious.studio.opening import opened_words
from cautious.studio.scenario import NO_DANGER, NO_LIMITED_DANGER, Limits, RiskChoice, Statement
from cautious.studio.session import Session
from studio.conftest import from_anywhere, statement


def never():
    return False


def risk_by_hand(mdp, kind):
    """The same risks, without the studio; the maze has two danger areas."""
    danger = ca.worlds.dark_cells(mdp)
    uniform = np.full(mdp.shape, 1 / 4)
    return {
        "none": None,
        "peak": ca.PeakExposure([danger[:8], danger[8:]]),
        "variance": ca.Variance(),
        "cvar": ca.CVaR(0.9),
        "kl": ca.KL(uniform),
        "tv": ca.TotalVariation(uniform),
        "entropy": ca.Entropy(),
    }[kind]


@pytest.mark.parametrize("kind", [kind for kind in RISKS if kind != "own"])
def test_answers_along_the_slider_are_those_of_solve(kind):
    mdp = ca.worlds.maze(start_at_s=True)
    session = Session()
    for caution in (0.0, 0.3, 3.0):
        found = session.solve(statement(kind=kind, caution=caution, habit="random"), never)
        expected = ca.solve(ca.Problem(mdp, risk_by_hand(mdp, kind), caution))
        assert found.status is ca.Status.SOLVED
        assert abs(found.objective - expected.objective) <= found.gap + expected.gap


def test_a_limit_is_a_constraint():
    asked = statement(kind="none", limits=Limits(0.005))
    found = Session().solve(asked, never)
    danger = ca.worlds.dark_cells(found.mdp)
    same = ca.solve(ca.Problem(found.mdp, constraints=[ca.Exposure(danger) <= 0.005]))
    assert found.status is ca.Status.SOLVED
    assert found.objective == pytest.approx(same.objective, abs=1e-5)
    assert found.constraints[0].value <= 0.005


def safe_machine(slack=0.004):
    machine = ca.worlds.machine_replacement()
    working = [name for name in machine.state_names if name != "broken"]
    return ca.Problem(machine, ca.SafeSet(working, slack), 5000.0)


def test_a_barrier_at_caution_0_is_its_limit():
    opened = safe_machine()
    session = Session(opened)
    asked = Statement(None, RiskChoice("own"), 0.0)
    found = session.solve(asked, never)
    wanted = ca.solve(ca.Problem(opened.mdp, constraints=[ca.Exposure("broken") <= 0.004]))
    assert found.expected_return == pytest.approx(wanted.expected_return, rel=1e-6)
    assert [row.name for row in found.constraints] == ["Exposure(broken) <= 0.004"]
    figure, value = session.risk_shown(asked, found)
    assert (figure.name, value) == ("time in broken", pytest.approx(0.004, rel=1e-4))
    # with caution it keeps off the limit
    closer = session.solve(replace(asked, caution=5000.0), never)
    assert closer.expected_return < found.expected_return
    assert session.risk_shown(asked, closer)[1] < 0.0039


def test_a_barrier_at_caution_0_that_cannot_be_kept_is_never_proved():
    opened = safe_machine()
    broken = opened.mdp.state_names.index("broken")
    from_there = opened.mdp.with_start(np.eye(opened.mdp.n_states)[broken])
    session = Session(ca.Problem(from_there, opened.unbound_risk, 1.0))
    found = session.solve(Statement(None, RiskChoice("own"), 0.0), never)
    assert found.status is ca.Status.INFEASIBLE
    words = proof_sentence(found)
    assert words.startswith("Impossible: no policy has time in broken at most 0.4 %: every policy has at least 1 %.")


def test_floors_at_caution_0_are_limits():
    clinic = ca.worlds.clinic()
    urgent, routine = ca.worlds.clinic_tasks(clinic)
    session = Session(ca.Problem(clinic, ca.TaskFloors([urgent, routine], [5.0, 12.0]), 1.0))
    found = session.solve(Statement(None, RiskChoice("own"), 0.0), never)
    limits = [ca.Return(urgent) >= 5.0, ca.Return(routine) >= 12.0]
    assert found.objective == pytest.approx(ca.solve(ca.Problem(clinic, constraints=limits)).objective, rel=1e-6)


def test_an_opened_problem_keeps_its_constraints_and_its_horizon():
    machine = ca.worlds.machine_replacement()
    limits = [ca.Exposure("broken") <= 0.004, ca.Return(machine.rewards) >= 100]
    opened = ca.Problem(machine, constraints=limits, horizon=24)
    told = opened_words(opened, "file.toml")
    asked = read_statement(json.loads(json.dumps(told["statement"])))
    assert (asked.limits.own, asked.horizon, asked.risk.kind) == ((0.004, 100.0), 24, "none")
    assert [one["words"] for one in told["limits"]] == ["Time in broken at most", "The limited return at least"]
    session = Session(opened)
    assert session.solve(asked, never).objective == pytest.approx(ca.solve(opened).objective, rel=1e-6)
    without = replace(asked, limits=Limits(own=(None, 100.0)))
    wanted = ca.solve(ca.Problem(machine, constraints=limits[1:], horizon=24))
    assert session.solve(without, never).objective == pytest.approx(wanted.objective, rel=1e-6)
    # nothing is dropped because a page does not mention it
    with pytest.raises(ca.InputError, match=r"limits\.own has 0 bounds, and the problem that was opened has 2"):
        session.solve(replace(asked, limits=Limits()), never)


@pytest.mark.parametrize("horizon", [12, "average", "total"])
@pytest.mark.parametrize("kind", ["none", "peak", "variance", "entropy"])
def test_horizons_are_those_of_solve(kind, horizon):
    asked = statement("drift" if horizon == "average" else "maze", kind, 0.5, horizon=horizon, habit="random")
    if kind == "variance" and horizon == "total":
        with pytest.raises(ca.IncompatibleError, match="expected visits, which have no fixed sum"):
            Session().solve(asked, never)
        return
    session = Session()
    found = session.solve(asked, never)
    scenario = session.scenario(asked)
    wanted = ca.solve(ca.Problem(scenario.mdp, scenario.risk(asked.risk), 0.5, horizon=horizon))
    assert found.status is ca.Status.SOLVED
    assert found.objective == pytest.approx(wanted.objective, rel=1e-5, abs=1e-6)
    policy, visits = answers.tables(found)
    assert policy.shape == visits.shape == scenario.mdp.shape


def test_another_step_is_another_view_of_the_same_answer():
    session = Session()
    asked = statement(kind="none", horizon=9)
    found = session.solve(asked, never)
    assert session.solve(replace(asked, step=4), never) is found
    policy, visits = answers.tables(found, 4)
    assert np.array_equal(policy, found.policy[3])
    assert visits.sum() == pytest.approx(1.0)


def test_a_chance_of_ever_entering_is_shown_in_the_model_without_memory():
    session = Session()
    asked = statement(kind="none", limits=Limits(ever=0.05), horizon="total")
    found = session.solve(asked, never)
    scenario = session.scenario(asked)
    assert found.mdp.memory is not None
    assert found.constraints[0].value <= 0.05
    policy, visits = answers.tables(found)
    assert policy.shape == scenario.mdp.shape
    assert np.allclose(policy.sum(axis=1), 1)
    assert visits.sum() == pytest.approx(found.occupancy.sum())


def test_the_curve_of_an_only_limit_is_along_it():
    session = Session()
    asked = statement(kind="none", limits=Limits(0.005))
    points = session.frontier(asked, never)
    assert points.over_limit
    assert 0.005 in points.limits
    assert np.all(np.diff([point.expected_return for point in points]) > -1e-6)
    assert asked.curve_key == replace(asked, limits=Limits(0.2)).curve_key
    with_risk = replace(asked, risk=RiskChoice("variance"))
    assert with_risk.curve_key != replace(with_risk, limits=Limits(0.2)).curve_key
    assert not session.frontier(with_risk, never).over_limit


def test_habits_of_a_careful_walker_keep_off_the_danger():
    session = Session()
    random = session.solve(statement("bridge", "kl", 100.0, habit="random"), never)
    careful = session.solve(statement("bridge", "kl", 100.0, habit="careful"), never)
    danger = ca.worlds.dark_cells(careful.mdp)
    assert careful.occupancy[danger].sum() < 0.2 * random.occupancy[danger].sum()


def test_the_problem_that_was_opened_keeps_its_risk():
    opened = ca.worlds.problem("queue")
    asked = Statement(None, RiskChoice("own"), opened.caution)
    assert abs(Session(opened).solve(asked, never).objective - ca.solve(opened).objective) < 1e-4


def test_danger_of_an_opened_model_is_marked_by_state():
    opened = ca.Problem(ca.worlds.queue())
    asked = Statement(None, RiskChoice("peak"), 50.0, danger=(0,))
    expected = ca.solve(ca.Problem(opened.mdp, ca.PeakExposure([[0]]), 50.0))
    assert abs(Session(opened).solve(asked, never).objective - expected.objective) < 1e-4


def test_a_limit_that_cannot_be_kept_is_said_in_plain_words():
    asked = from_anywhere(1e-4)
    found = Session().solve(asked, never)
    mdp, danger = found.mdp, ca.worlds.dark_cells(found.mdp)
    reward = np.zeros(mdp.shape)
    reward[danger] = -1
    keeping_off = ca.Problem(ca.MDP(mdp.transitions, reward, mdp.discount, mdp.start))
    least = -(1 - mdp.discount) * ca.solve(keeping_off).objective
    assert found.status is ca.Status.INFEASIBLE
    words = proof_sentence(found)
    assert words.startswith("Impossible: no policy has time in danger at most 0.01 %: every policy has at least ")
    assert f"{100 * least:.4g} %" in words


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (statement("blank", "none", limits=Limits(0.1)), NO_LIMITED_DANGER),
        (statement("blank", "none", limits=Limits(ever=0.1), horizon=5), NO_LIMITED_DANGER),
        (statement(kind="none", limits=Limits(ever=0.1)), "is a probability until some time"),
        (statement(kind="none", limits=Limits(own=(0.1,))), "limits.own has 1 bounds"),
        (statement("blank", "kl"), NO_DANGER),
        (statement(kind="own"), "without a risk of its own"),
        (Statement(None, RiskChoice(), 1.0), "no model was opened"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, words):
    with pytest.raises((ca.InputError, ca.IncompatibleError), match=words):
        Session().solve(asked, never)


def test_states_that_are_not_there_are_refused():
    asked = Statement(None, RiskChoice("peak"), 1.0, danger=(99,))
    with pytest.raises(ca.InputError, match=r"danger\[0\] is 99; states are numbered 0 to 15"):
        Session(ca.Problem(ca.worlds.queue())).solve(asked, never)


def test_a_frontier_ends_when_stopped_and_is_whole_otherwise():
    session = Session()
    asked = statement(kind="peak")
    assert session.frontier(asked, lambda: True) is None
    points = session.frontier(asked, never)
    assert len(points) == 9
    assert np.all(np.diff([point.expected_return for point in points]) < 1e-3)
    assert session.frontier(statement(kind="none"), never) is None


def test_a_stopped_answer_is_not_taken_for_the_last_word():
    session = Session()
    asked = statement("rooms", "variance", 1.0)
    stopped = session.solve(asked, lambda: True)
    assert stopped.status is ca.Status.STOPPED
    assert session.solve(asked, never).status is ca.Status.SOLVED
    assert session.solve(asked, never) is session.solve(asked, never)
