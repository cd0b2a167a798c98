"""Limits in words: what they are on, by name, in percent where they are shares; and what cannot be kept."""

import numpy as np
import pytest

import cautious as ca
from cautious.report.limit_words import bound_words, impossible_words, is_share, limit_words
from cautious.report.sentences import answer_sentence
from cautious.solution import ConstraintValue


def row(name, value=0.01, bound=0.02, price=100.0):
    return ConstraintValue(name, value, bound, bound - value, price)


@pytest.mark.parametrize(
    ("measure", "words", "share"),
    [
        (ca.Exposure([1]), "time in the limited states at most 2 %", True),
        (ca.Exposure([1, 2], name="failed"), "time in failed at most 2 %", True),
        (ca.Exposure(["a", "b"]), "time in a, b at most 2 %", True),
        (ca.Exposure([1], name="x <= 3"), "time in x <= 3 at most 2 %", True),
        (ca.Reach([1], name="ruin (any)"), "chance of ever entering ruin (any) at most 2 %", True),
        (ca.Return([[1.0]], name="orders served"), "orders served at most 0.02", False),
        (ca.Return([[1.0]]), "the limited return at most 0.02", False),
        (ca.Exposure([1]) + ca.Exposure([2]), "Exposure + Exposure at most 0.02", False),
        (ca.Exposure("a") + ca.Exposure("b"), "Exposure(a) + Exposure(b) at most 0.02", False),
        (ca.Entropy(), "Entropy at most 0.02", False),
    ],
)
def test_what_is_limited(measure, words, share):
    one = row(repr(measure <= 0.02))
    assert (bound_words(one), is_share(one)) == (words, share)


def test_a_name_is_one_line():
    for wrong in (3, "a\nb", "x" * 81):
        with pytest.raises(ca.InputError, match=r"Exposure\.name must be a text of one line"):
            ca.Exposure([0], name=wrong)


def test_the_price_of_a_chance_is_that_of_a_percentage_point():
    machine = ca.worlds.machine_replacement()
    words = limit_words(row(repr(ca.Reach("broken") <= 0.02), value=0.02), machine, 1e-6)
    assert words.startswith("chance of ever entering broken 2 %, at most 2 %: kept")
    assert "one more percentage point is worth 1 euros" in words


def test_what_is_impossible_comes_with_what_is_possible():
    machine = ca.worlds.machine_replacement()
    broken = machine.state_names.index("broken")
    from_there = machine.with_start(np.eye(machine.n_states)[broken])
    found = ca.solve(ca.Problem(from_there, constraints=[ca.Exposure("broken") <= 0.001]))
    least = 100 * found.certificate.facts["best_alone"][0]
    assert least == pytest.approx(1.0, abs=1e-6)
    assert impossible_words(found) == "No policy has time in broken at most 0.1 %: every policy has at least 1 %."
    assert answer_sentence(found).endswith("The policy shown here comes closest.")


def test_a_conflict_names_what_each_limit_reaches_alone():
    machine = ca.worlds.machine_replacement()
    most = ca.solve(ca.Problem(machine)).expected_return
    asked = [
        ca.Exposure("broken") <= 0.0001,
        ca.Return(machine.rewards, name="income") >= most - 1,
        ca.Exposure([0]) <= 1,
    ]
    found = ca.solve(ca.Problem(machine, constraints=asked))
    words = impossible_words(found)
    assert words.startswith("No policy has time in broken at most 0.01 % and income at least ")
    assert "Each alone: time in broken can be 0 % at best; income can be" in words
    barrier = ca.solve(ca.Problem(machine.with_start(np.eye(machine.n_states)[10]), ca.SafeSet(range(10), 1e-3)))
    assert (barrier.status, impossible_words(barrier)) == (ca.Status.INFEASIBLE, "")
