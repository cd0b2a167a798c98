"""Barriers are shown by the share of time or the return that they are about, never by the logarithm of a slack."""

import numpy as np
import pytest

import cautious as ca
from cautious.report.barriers import risk_figure
from cautious.report.text_tables import frontier_table
from page_reader import read

SLACK = 0.004


@pytest.fixture(scope="module")
def machine():
    return ca.worlds.machine_replacement()


@pytest.fixture(scope="module")
def points(machine):
    working = [name for name in machine.state_names if name != "broken"]
    return ca.frontier(machine, ca.SafeSet(working, SLACK), [2000, 40000])


def test_a_safe_set_is_shown_by_the_time_outside(points, machine):
    broken = machine.state_names.index("broken")
    figure = risk_figure(points)
    assert figure.name == "time in broken"
    for one in points:
        assert figure.value(one) == pytest.approx(one.occupancy[broken].sum(), abs=1e-12)
    table = frontier_table(points)
    assert "objective" not in table.headers
    assert table.rows[0][2] == f"{100 * points[0].occupancy[broken].sum():.4g} %"


def test_floors_are_shown_by_the_return_or_by_the_least_room():
    clinic = ca.worlds.clinic()
    urgent, routine = ca.worlds.clinic_tasks(clinic)
    one = ca.solve(ca.Problem(clinic, ca.TaskFloors([routine], [8.0]), 1.0))
    figure = risk_figure([one])
    reached = float(np.sum(one.occupancy * routine)) / (1 - clinic.discount)
    assert (figure.larger_is_safer, figure.value(one)) == (True, pytest.approx(reached, rel=1e-9))
    both = ca.solve(ca.Problem(clinic, ca.TaskFloors([urgent, routine], [5.0, 8.0]), 1.0))
    rooms = [
        float(np.sum(both.occupancy * table)) / (1 - clinic.discount) - floor
        for table, floor in ((urgent, 5.0), (routine, 8.0))
    ]
    assert risk_figure([both]).value(both) == pytest.approx(min(rooms), rel=1e-9)


def test_other_risks_are_shown_by_their_value(machine):
    one = ca.solve(ca.Problem(machine, ca.Variance(), 0.001))
    assert risk_figure([one]).value(one) == pytest.approx(one.risk)
    mixed = ca.solve(ca.Problem(machine, ca.SafeSet(range(10), 0.02) + ca.Entropy(), 1.0))
    assert not risk_figure([mixed]).is_barrier


@pytest.mark.usefixtures("quick_pictures")
def test_the_pages_have_no_logarithm(points, tmp_path):
    points.report(tmp_path / "frontier.html")
    _, page = read(tmp_path / "frontier.html")
    assert "Return against time in broken" in page.sections
    assert f"{points[0].risk:.4g}" not in page.words
    points[0].report(tmp_path / "one.html")
    _, page = read(tmp_path / "one.html")
    assert "risk: SafeSet" not in page.words
    assert "What one unit of caution buys" not in page.sections
    assert f"{points[0].risk:.4g}" not in page.words


def test_the_plot_has_percentages_on_its_axis(points):
    axes = points.plot().axes[0]
    assert axes.get_xlabel() == "time in broken (%)"
    drawn = np.concatenate([line.get_xdata() for line in axes.lines])
    assert drawn.max() < 100 * SLACK
    assert drawn.min() >= 0
