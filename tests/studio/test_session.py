"""The session's answers are those of ``ca.solve`` to the problem that the statement says."""

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import cautious as ca
from cautious.studio import answers
from cautious.studio.answers import proof_sentence
from cautious.studio.messages import RISKS
from cautious.studio.scenario import NO_DANGER, RiskChoice, Statement
from cautious.studio.session import Session
from studio.conftest import from_anywhere, statement


def never():
    return False


def risk_by_hand(mdp, kind):
    """The same risks, without the studio; the maze has two danger areas."""
    danger = ca.worlds.dark_cells(mdp)
    safe = [state for state in range(mdp.n_states) if state not in danger]
    uniform = np.full(mdp.shape, 1 / 4)
    return {
        "none": None,
        "safe": ca.SafeSet(safe, 0.05),
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
    for caution in (0.3, 3.0) if kind == "safe" else (0.0, 0.3, 3.0):
        found = session.solve(statement(kind=kind, caution=caution, habit="random"), never)
        expected = ca.solve(ca.Problem(mdp, risk_by_hand(mdp, kind), caution))
        assert found.status is ca.Status.SOLVED
        assert abs(found.objective - expected.objective) <= found.gap + expected.gap


def test_a_limit_holds_at_caution_0():
    """It is what is left of the risk; the return comes close to the best within the limit."""
    session = Session()
    found = session.solve(statement(kind="safe", caution=0.0, slack=0.005), never)
    danger = ca.worlds.dark_cells(found.mdp)
    neutral = ca.solve(ca.Problem(found.mdp))
    assert neutral.occupancy[danger].sum() > 0.008
    assert 0.0049 < found.occupancy[danger].sum() < 0.005
    assert found.status is ca.Status.SOLVED
    # next to nothing is lost beyond the limit, as a caution a hundred times as small shows
    safe = np.setdiff1d(np.arange(found.mdp.n_states), danger)
    closer = ca.solve(ca.Problem(found.mdp, ca.SafeSet(safe, 0.005), found.caution / 100))
    assert found.expected_return > closer.expected_return - 0.002
    # a file that was made from it means the same
    asked = statement(kind="safe", caution=0.0, slack=0.005)
    _, _, packed = answers.export("problem", asked, session.scenario(asked), found)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert f"caution = {found.caution!r}" in archive.read("problem.toml").decode()


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
    asked = from_anywhere(slack=1e-4)
    found = Session().solve(asked, never)
    mdp, danger = found.mdp, ca.worlds.dark_cells(found.mdp)
    reward = np.zeros(mdp.shape)
    reward[danger] = -1
    keeping_off = ca.Problem(ca.MDP(mdp.transitions, reward, mdp.discount, mdp.start))
    least = -(1 - mdp.discount) * ca.solve(keeping_off).objective
    assert found.status is ca.Status.INFEASIBLE
    words = proof_sentence(found, asked.risk)
    assert words.startswith("Impossible: you allow at most 0.01 % of the time in danger")
    assert f"at least {100 * least:.2f} % there" in words


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (statement("blank", "safe"), NO_DANGER),
        (statement("blank", "kl"), NO_DANGER),
        (statement(kind="own"), "without a risk of its own"),
        (Statement(None, RiskChoice(), 1.0), "no model was opened"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, words):
    with pytest.raises(ca.InputError, match=words):
        Session().solve(asked, never)


def test_states_that_are_not_there_are_refused():
    asked = Statement(None, RiskChoice("peak"), 1.0, danger=(99,))
    with pytest.raises(ca.InputError, match=r"danger\[0\] is 99; states are numbered 0 to 15"):
        Session(ca.Problem(ca.worlds.queue())).solve(asked, never)


def test_everything_dangerous_is_refused():
    grid = replace(statement().grid, rows=("DD",))
    with pytest.raises(ca.InputError, match="leave at least one safe place"):
        Session().solve(Statement(grid, RiskChoice("safe"), 1.0), never)


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
    assert session.answered(asked, never).status is ca.Status.SOLVED
    assert session.answered(asked, never) is session.answered(asked, never)
