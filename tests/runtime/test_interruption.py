"""Ctrl-C: which clock it stops, and what is left when everybody has gone."""

import signal

import numpy as np
import pytest

import cautious as ca
from cautious.runtime.clock import Clock
from cautious.runtime.interruption import Interruption, leaving_at_once


def press():
    signal.raise_signal(signal.SIGINT)


def test_the_innermost_clock_is_stopped_and_the_others_hear_of_it():
    before = signal.getsignal(signal.SIGINT)
    outer, inner = Clock(None), Clock(None)
    with Interruption(outer):
        with Interruption(Clock(None)):
            pass
        with Interruption(inner):
            press()
            assert (inner.stop_requested, outer.stop_requested) == (True, False)
        assert outer.stop_requested
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(signal.SIGINT) is before


def press_twice_inside():
    with Interruption(Clock(None)), Interruption(Clock(None)):
        press()
        press()


def test_the_second_one_leaves_at_once_from_any_depth():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        press_twice_inside()
    assert signal.getsignal(signal.SIGINT) is before


def test_one_that_comes_later_is_heard_again():
    """Nothing of an earlier one is left behind."""
    for _ in range(2):
        clock = Clock(None)
        with Interruption(clock):
            press()
        assert clock.stop_requested


def test_work_that_leaves_at_once():
    clock = Clock(None)
    with leaving_at_once(), Interruption(clock), pytest.raises(KeyboardInterrupt):
        press()
    assert not clock.stop_requested


@pytest.mark.parametrize("risk", [ca.Entropy(), ca.Variance()])
def test_a_frontier_ends_with_the_point_it_was_at(risk):
    mdp, seen = ca.worlds.garnet(30, n_actions=2, n_successors=3, discount=0.9, seed=1), []

    def callback(progress):
        seen.append(progress)
        if len(seen) == 2:
            press()

    points = ca.frontier(mdp, risk, np.geomspace(0.5, 2, 8), callback=callback)
    # also where that point was proved at this very moment
    assert len(points) <= 2


def test_a_frontier_that_is_stopped_before_its_first_point(monkeypatch):
    solve = ca.frontiers.answer_ready
    monkeypatch.setattr("cautious.frontiers.answer_ready", lambda *given: press() or solve(*given))
    mdp = ca.worlds.garnet(30, n_actions=2, n_successors=3, discount=0.9, seed=1)
    points = ca.frontier(mdp, ca.Entropy(), np.geomspace(0.5, 2, 8))
    # the first point is asked to stop before it begins, and gives what it has
    assert len(points) == 1
    assert np.isfinite(points[0].objective)


def test_a_frontier_that_is_stopped_while_it_looks_for_cautions(monkeypatch):
    solved = ca.frontiers.answer

    def press_and_solve(*given):
        press()
        monkeypatch.setattr("cautious.frontiers.answer", solved)
        return solved(*given)

    monkeypatch.setattr("cautious.frontiers.answer", press_and_solve)
    mdp = ca.worlds.garnet(30, n_actions=2, n_successors=3, discount=0.9, seed=1)
    assert len(ca.frontier(mdp, ca.Entropy())) == 1


def test_a_solve_inside_a_callback_may_be_stopped_without_the_one_outside():
    problem, other = ca.worlds.problem("queue"), ca.worlds.problem("inventory")
    seen = []

    def callback(progress):
        seen.append(ca.solve(other, callback=lambda _: True))

    assert ca.solve(problem, callback=callback).status is ca.Status.SOLVED
    assert seen


def test_a_handler_that_python_did_not_set(monkeypatch):
    """It cannot be set again, but nothing is left behind."""
    before = signal.getsignal(signal.SIGINT)
    real = signal.signal
    monkeypatch.setattr("cautious.runtime.interruption.signal.signal", lambda *given: real(*given) and None)
    try:
        for _ in range(2):
            clock = Clock(None)
            with Interruption(clock):
                press()
            assert clock.stop_requested
    finally:
        real(signal.SIGINT, before)
