"""Bars: on standard error, on a terminal only, gone afterwards."""

import io
import time

import pytest
from rich.console import Console

import cautious as ca
from cautious.commands import progress
from cautious.commands.progress import Bar, CompareBar, SolveBar
from cautious.comparison.compare import Turn


@pytest.fixture
def screen():
    return Console(file=io.StringIO(), force_terminal=True, width=120)


def step(number, method="dual Newton", objective=1.5):
    return ca.Progress(number, 2.0, objective, 2.0, 0.5, method)


def test_a_solve_says_method_objective_and_gap(screen):
    with SolveBar(False, 10.0, console=screen) as bar:
        bar(step(1))
        assert (bar._bar.tasks[0].completed, bar._bar.tasks[0].total) == (2.0, 10.0)
    assert "dual Newton" in screen.file.getvalue()
    assert "objective 1.5  gap 0.5" in screen.file.getvalue()


def test_the_points_of_a_frontier_are_counted(screen):
    with SolveBar(False, points=3, console=screen) as bar:
        for number in (1, 2, 3, 1, 2):
            bar(step(number))
        assert bar._bar.tasks[0].description == "point 2 of 3, dual Newton"
        assert (bar._bar.tasks[0].completed, bar._bar.tasks[0].total) == (1, 3)


def test_a_comparison_says_whose_turn_it_is(screen):
    with CompareBar("reading", False, screen) as bar:
        said = []
        for turn in (Turn("planning", "cautious", 1, 3), Turn("SCS", "CVXPY", 2, 3), Turn("Storm PI", "Storm", 3, 3)):
            bar(turn)
            said.append(bar._bar.tasks[0].description)
    assert said == ["planning", "CVXPY SCS", "Storm PI"]


@pytest.mark.parametrize("bar", [Bar("working", False), SolveBar(False), CompareBar("reading", False)])
def test_nothing_is_shown_without_a_terminal(bar, capsys):
    with bar:
        bar.show("still working", 1, 2, "figures")
    assert not bar.wanted
    assert capsys.readouterr() == ("", "")


def test_quiet_is_quiet_and_short_work_shows_nothing(monkeypatch, screen):
    assert not Bar("working", True, screen).wanted
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    with Bar("working", False) as bar:
        bar.show("done already")
    assert terminal.getvalue() == ""
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.01)
    with Bar("working", False):
        time.sleep(0.3)
    assert "working" in terminal.getvalue()


def test_the_bar_goes_away_when_the_work_fails(screen):
    with pytest.raises(ZeroDivisionError), Bar("working", False, screen) as bar:
        raise ZeroDivisionError
    assert not bar._bar.live.is_started
