"""The page of a frontier: the same numbers as the solutions, every step, one scale; every choice, nothing hidden."""

from itertools import pairwise

import numpy as np
import pytest

import cautious as ca
from cautious.report.frontier_page import (
    MAX_COLUMNS,
    MAX_ROWS,
    NOT_VISITED,
    changing_states,
    choices,
    in_order,
    runs,
    spread_out,
    write_overview,
)
from cautious.report.plots import plot_behaviour, plot_side_by_side
from cautious.report.text_tables import likeliest_actions
from cautious.report.trade_off import point, steps
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


@pytest.fixture(scope="module")
def pump_points(pump):
    return ca.frontier(pump, ca.PeakExposure([["broken"], ["leaking"]]))


def test_neighbours_that_do_the_same_are_one_run(pump_points):
    found = runs(pump_points)
    assert [one for run in found for one in run.solutions] == list(pump_points)
    assert 1 < len(found) < len(pump_points)
    for run in found:
        for one in run.solutions:
            assert np.array_equal(one.policy[one.reached].argmax(axis=1), run.first.policy[one.reached].argmax(axis=1))
            assert one.expected_return == pytest.approx(run.first.expected_return, rel=1e-6)
    for before, after in pairwise(found):
        assert before.first.expected_return > after.first.expected_return * (1 + 1e-6)
    assert found[0].name == f"0 to {found[0].solutions[-1].caution:,.0f}"
    assert [run.name for run in runs(pump_points[:1])] == ["0"]


def test_policies_that_differ_are_not_put_together():
    points = ca.frontier(ca.worlds.river_swim(), ca.Entropy(), [1, 2, 3])
    assert [len(run.solutions) for run in runs(points)] == [1, 1, 1]


def test_every_cell_is_what_the_policy_does(pump, pump_points):
    found = runs(pump_points)
    done = choices(found)
    assert done.table.headers == ("state", *(f"caution {run.name}" for run in found))
    names = [row[0] for row in done.table.rows]
    visited = [
        name for state, name in enumerate(pump.state_names) if any(r.first.occupancy[state].sum() > 1e-9 for r in found)
    ]
    assert names == visited
    for row in done.table.rows:
        state = pump.state_names.index(row[0])
        for run, cell in zip(found, row[1:], strict=True):
            there = run.first.occupancy[state].sum() > 1e-9
            assert cell == (pump.action_names[run.first.policy[state].argmax()] if there else NOT_VISITED)
    assert done.shows_gaps
    # bold is what differs from the last thing that was done there
    for row, cells in enumerate(done.table.rows):
        last = None
        for column, cell in enumerate(cells[1:], 1):
            if cell != NOT_VISITED:
                assert ((row, column) in done.changed) == (last is not None and cell != last)
                last = cell
    changing = len({row for row, _ in done.changed})
    assert done.words == f"What is done changes with the caution in {changing} of {len(names)} visited states."


@pytest.mark.usefixtures("quick_pictures")
def test_the_page_of_a_model_without_a_map_says_what_is_done(pump_points, tmp_path):
    pump_points.report(tmp_path / "page.html")
    text, page = read(tmp_path / "page.html")
    words = page.words.split("What the policies do")[1].split("How sure is this")[0]
    for name in ("new", "used", "service", "run", "replace"):
        assert name in words
    assert "<strong>service</strong>" in text
    assert "Bold: another choice than before. A dash: next to no time is spent there." in words
    found = runs(pump_points)
    # the curve, and one drawing per policy, for light and dark screens
    assert len(page.references) == 2 + 2 * len(found)
    for run in found:
        assert f"Caution {run.name}: expected return" in words
    # a step for every change, none for what stays
    prices = page.words.split("What each step of caution buys")[1].split("What the policies do")[0]
    for before, after in pairwise(found):
        assert f"{before.solutions[-1].caution:,.0f} to {after.first.caution:,.0f}" in prices
    assert all(f"to {one.caution:,.0f}" not in prices for run in found for one in run.solutions[1:])
    assert "n/a" not in prices
    assert "Steps that change nothing are left out." in prices


@pytest.mark.usefixtures("quick_pictures")
def test_a_policy_that_never_changes_is_said_once(pump, tmp_path):
    points = ca.frontier(pump, ca.PeakExposure([["broken"]]), [0, 1, 2])
    points.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words
    assert "From caution 0 to 2 the policy stays the same: the expected return is" in words
    assert "What is done in the 4 visited states:" in words
    assert "What each step of caution buys" not in words


@pytest.mark.usefixtures("quick_pictures")
def test_maps_are_merged_and_need_no_table(maze_problem, tmp_path):
    points = ca.frontier(maze_problem.mdp, ca.Variance(), [0, 1, 10])
    points.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words
    assert "Caution 0 to 1: expected return" in words
    assert "What is done changes" not in words


def test_of_many_states_those_that_change_come_first_and_the_rest_is_counted():
    points = ca.frontier(ca.worlds.garnet(n_states=120, seed=3), ca.PeakExposure([list(range(30))]), [0, 5, 50, 500])
    found = runs(points)
    shares = np.array([run.first.occupancy.sum(axis=1) for run in found])
    differs = changing_states([run.first for run in found], shares)
    done = choices(found)
    shown = [points[0].mdp.state_names.index(row[0]) for row in done.table.rows]
    assert len(shown) == MAX_ROWS < np.count_nonzero(differs)
    most = np.where(differs, shares.max(axis=0), 0.0)
    assert sorted(shown) == shown == sorted(np.argsort(-most)[:MAX_ROWS].tolist())
    left = np.delete(shares.max(axis=0), shown)
    assert f"The table has the {MAX_ROWS} most visited of these." in done.words
    assert f"None of the {left.size} states that it leaves out takes more than {100 * left.max():.2f} %" in done.words


def test_a_change_after_an_absence_counts():
    """Through a policy that never comes to the state the one before it is remembered."""
    points = ca.frontier(ca.worlds.river_swim(), ca.Entropy(), [1, 2, 3])
    shares = np.ones((3, 6))
    shares[1, 2] = 0.0
    first = points[0].policy
    table = np.array([first, first, first])
    table[2, 2] = first[2, ::-1]

    class Fake:
        def __init__(self, policy):
            self.policy = policy

    assert np.flatnonzero(changing_states([Fake(policy) for policy in table], shares)).tolist() == [2]
    shares[2, 2] = 0.0
    assert not changing_states([Fake(policy) for policy in table], shares).any()


def test_few_words_for_a_choice(pump):
    state = pump.state_names.index("used")
    policy = np.zeros(pump.shape)
    names = pump.action_names
    for chances, words in (
        ({"run": 1.0}, "run"),
        ({"run": 0.995, "service": 0.005}, "run"),
        ({"run": 0.25, "service": 0.75}, "service (75 %), run (25 %)"),
        ({"run": 0.25, "service": 0.45, "replace": 0.3}, "service (45 %), replace (30 %), others"),
        ({"run": 1 / 3, "service": 1 / 3, "replace": 1 / 3}, "any, equally likely"),
    ):
        policy[state] = [chances.get(name, 0.0) for name in names]
        assert likeliest_actions(pump, policy, state) == words
    # one action is no choice
    broken = pump.state_names.index("broken")
    policy[broken] = [name == "replace" for name in names]
    assert likeliest_actions(pump, policy, broken) == "replace"


def test_the_ends_are_always_shown(pump_points):
    found = runs(pump_points) * 10
    shown = spread_out(found, MAX_COLUMNS)
    assert len(shown) == MAX_COLUMNS
    assert (shown[0], shown[-1]) == (found[0], found[-1])


@pytest.mark.usefixtures("quick_pictures")
def test_names_of_states_and_actions_are_no_markup(chain, tmp_path):
    ca.frontier(chain, ca.PeakExposure([[0], [1]]), [0, 100]).report(tmp_path / "page.html")
    text, page = read(tmp_path / "page.html")
    assert "<wait>" in page.words or "go | stop" in page.words
    assert "<wait>" not in text


def test_two_comes_before_ten():
    names = sorted(f"{count} waiting, room {room}" for count in range(12) for room in (9, 10))
    mdp = ca.MDP(np.ones((24, 1, 24)) / 24, np.zeros((24, 1)), 0.5, state_names=names)
    shown = [names[state] for state in in_order(mdp, range(24))]
    assert shown == [f"{count} waiting, room {room}" for count in range(12) for room in (9, 10)]
    # an order that somebody chose is kept, and long numbers are no trouble
    own = ["b10", "b9", "a", "9" * 5000]
    mdp = ca.MDP(np.ones((4, 1, 4)) / 4, np.zeros((4, 1)), 0.5, state_names=own)
    assert in_order(mdp, [3, 2, 1, 0]) == [0, 1, 2, 3]
    mdp = ca.MDP(np.ones((4, 1, 4)) / 4, np.zeros((4, 1)), 0.5, state_names=sorted(own))
    assert [sorted(own)[state] for state in in_order(mdp, range(4))] == ["9" * 5000, "a", "b9", "b10"]
