"""The page of a frontier: the same numbers as the solutions, every step, one scale."""

import numpy as np
import pytest

import cautious as ca
from cautious.report.overview import write_overview
from cautious.report.plots import plot_behaviour, plot_side_by_side
from cautious.report.trade import point, steps
from cautious.report.words import number
from page_reader import read


@pytest.fixture(scope="module")
def points(maze_problem):
    return ca.frontier(maze_problem.mdp, ca.Variance(), [0, 1, 10, 50])


def test_a_frontier_writes_its_own_page(points, tmp_path):
    path = tmp_path / "frontier.html"
    points.report(path)
    _, page = read(path)
    assert page.sections == [
        "The problem",
        "Return against risk",
        "What each step of caution buys",
        "What the policies do",
        "How sure is this",
        "How to reproduce it",
    ]
    for one in points:
        assert number(one.expected_return, 6) in page.words
        assert number(one.policy_risk, 6) in page.words
    for step in steps([point(one) for one in points]):
        assert number(step.given_up, 3) in page.words
        assert number(step.removed, 3) in page.words
    assert "ca.frontier(mdp, ca.Variance(), [0.0, 1.0, 10.0, 50.0], tolerance=1e-06)" in page.words
    assert "4 of 4 policies" in page.words
    assert path.stat().st_size < 1_500_000
    # two pictures of the frontier and two of each of the three maps: cautions 0 and 1 have the same policy
    assert len(page.references) == 8


@pytest.mark.usefixtures("quick_pictures")
def test_the_overview_links_the_pages_of_each_caution(points, tmp_path):
    path = tmp_path / "report.html"
    write_overview(points, path, pages={0.0: "zero.html", 10.0: "ten.html"}, command="cautious demo")
    _, page = read(path)
    assert {"zero.html", "ten.html"} <= set(page.references)
    assert "# on the command line: cautious demo" in page.words


def test_the_neutral_point_has_the_risk_of_its_policy(points, maze_problem):
    expected = maze_problem.risk_value(points[0].occupancy)
    assert points[0].policy_risk == expected > 0
    assert points[0].risk == 0
    assert points.table()[0]["risk"] == expected


@pytest.mark.usefixtures("quick_pictures")
def test_points_that_cannot_be_met_are_said_and_not_drawn(chain, tmp_path):
    points = ca.frontier(chain, ca.SafeSet([0], slack=0.01), [1, 2])
    points.report(tmp_path / "page.html")
    _, page = read(tmp_path / "page.html")
    assert "No policy with a finite risk was found." in page.words
    assert "0 of 2 proved best" in page.words
    assert points[0].certificate.statement in page.words


@pytest.mark.usefixtures("quick_pictures")
def test_one_point_is_a_frontier_too(maze_problem, tmp_path):
    points = ca.frontier(maze_problem.mdp, ca.Variance(), [10])
    points.report(tmp_path / "page.html")
    _, page = read(tmp_path / "page.html")
    assert "What each step of caution buys" not in page.sections
    assert f"At caution 10 the expected return is {number(points[0].expected_return, 4)}" in page.words


@pytest.mark.usefixtures("quick_pictures")
def test_a_frontier_without_points_has_no_page(tmp_path):
    with pytest.raises(ca.InputError, match="at least one solution"):
        ca.Frontier().report(tmp_path / "page.html")


@pytest.mark.usefixtures("quick_pictures")
def test_many_policies_are_drawn_in_part(maze_problem, tmp_path):
    points = ca.frontier(maze_problem.mdp, ca.Entropy(), range(8))
    points.report(tmp_path / "page.html")
    _, page = read(tmp_path / "page.html")
    assert "6 of the 8 policies are shown." in page.words
    assert len(page.references) == 2 + 2 * 6


def colours(image):
    return np.asarray(image.get_array())


def test_maps_share_one_scale_and_one_bar(points):
    figure = plot_side_by_side([points[0], points[3]])
    first, second, bar = figure.axes
    assert "share of discounted time" in bar.get_ylabel()
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("caution 0", "caution 50")
    # equal shares of time have equal colours, whichever map they are on
    cells = np.array(points[0].mdp.scene.cells)
    shades = [colours(axes.images[0])[cells[:, 0], cells[:, 1]].mean(axis=1) for axes in (first, second)]
    alone = [plot_behaviour(points[i], among=[points[0], points[3]]).axes[0] for i in (0, 3)]
    for axes, own in zip((first, second), alone, strict=True):
        assert np.array_equal(colours(axes.images[0]), colours(own.images[0]))
    mass = np.concatenate([points[i].occupancy.sum(axis=1) for i in (0, 3)])
    reached = np.concatenate([points[i].reached for i in (0, 3)])
    order = np.argsort(mass[reached])
    # viridis grows brighter: one order over both maps
    assert np.all(np.diff(np.concatenate(shades)[reached][order]) > -0.05)


def test_bars_share_one_scale():
    problem = ca.worlds.problem("queue")
    points = ca.frontier(problem.mdp, problem.unbound_risk, [1, 50])
    figure = plot_side_by_side(points, names=["a", "b"])
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
