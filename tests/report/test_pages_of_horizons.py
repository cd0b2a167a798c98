"""Pages, tables and drawings of solutions with a horizon."""

import numpy as np
import pytest

import cautious as ca
from cautious.report.over_steps import as_one_table
from cautious.report.plots import plot_behaviour, plot_frontier, plot_graph, plot_over_steps, plot_side_by_side
from cautious.report.schedule import NOT_VISITED, over_steps, schedule_table
from cautious.report.text_tables import busiest_table, figures_table
from cautious.report.trade_off import compare_with_neutral
from cautious.report.words import number
from page_reader import read


def text_of(path):
    """The words of a page."""
    return " ".join(" ".join(read(path)[1].text).split())


def machine():
    """The machine, undiscounted, from new."""
    mdp = ca.worlds.machine_replacement()
    names = {"state_names": mdp.state_names, "action_names": mdp.action_names, "allowed": mdp.allowed}
    return ca.MDP(mdp.transitions, mdp.rewards, 1.0, np.eye(mdp.n_states)[0], scene=mdp.scene, **names)


@pytest.fixture(scope="module")
def solution():
    return ca.solve(ca.Problem(machine(), constraints=[ca.Exposure("broken") <= 0.005], horizon=12)).require()


def test_one_table_stands_for_all_steps(solution):
    shown = as_one_table(solution)
    assert shown.policy.shape == shown.occupancy.shape == solution.mdp.shape
    assert shown.occupancy == pytest.approx(solution.occupancy.sum(axis=0))
    assert shown.policy * shown.occupancy.sum(axis=1, keepdims=True) == pytest.approx(shown.occupancy)
    assert as_one_table(shown) is shown
    rows = busiest_table(solution).rows
    assert sum(float(row[1].removesuffix(" %")) for row in rows) == pytest.approx(100, abs=2)


def test_equal_steps_are_merged(solution):
    found = over_steps(solution)
    assert found.action.shape == found.share.shape == (12, found.states.size)
    assert found.share.sum(axis=1) == pytest.approx(1)
    # it starts new, and cannot be broken in the first step
    assert (found.action[0] != NOT_VISITED).sum() == 1
    table = schedule_table(solution)
    assert table.headers[-1] == "what is done, week by week"
    done = {row[0]: row[-1] for row in table.rows}
    assert done["wear 0"] == "operate"
    broken = done["broken"]
    assert "replace; " in broken
    assert broken.endswith(" to 12: repair")


def test_the_page_says_what_counts(solution, tmp_path):
    solution.report(tmp_path / "page.html")
    page = text_of(tmp_path / "page.html")
    for words in (
        "(euros, over 12 weeks)",
        "expected return, over 12 weeks",
        "per week",
        "What counts is what is earned in 12 weeks; then it is over.",
        "What is done when",
        "what is done, week by week",
        "horizon=12)",
    ):
        assert words in page, words
    assert "discounted" not in page
    loaded = tmp_path / "solution.npz"
    solution.save(loaded)
    ca.load(loaded).report(tmp_path / "loaded.html", problem=solution.problem)
    with pytest.raises(ca.InputError, match="problem has the horizon 5; this solution is of a problem with 12"):
        ca.load(loaded).report(tmp_path / "no.html", problem=ca.Problem(machine(), None, 1.0, (), 5))


def test_the_page_of_the_long_run(tmp_path):
    found = ca.solve(ca.Problem(machine(), ca.Variance(), caution=0.001, horizon="average"))
    found.report(tmp_path / "page.html")
    page = text_of(tmp_path / "page.html")
    assert "(euros, per week, in the long run)" in page
    assert "What counts is the reward per week in the long run." in page
    assert 'horizon="average")' in page
    assert "n/a" not in page
    assert "discounted" not in page


def test_discounted_steps_are_said_to_be_discounted(tmp_path):
    mdp = ca.worlds.machine_replacement()
    ca.solve(ca.Problem(mdp, horizon=5)).report(tmp_path / "page.html")
    assert "(euros, discounted, over 5 weeks)" in text_of(tmp_path / "page.html")


def test_a_frontier_of_some_steps(tmp_path):
    points = ca.frontier(ca.worlds.maze(start_at_s=True), ca.Variance(), [0, 1], horizon=12)
    points.report(tmp_path / "page.html")
    assert "discounted, over 12 moves" in text_of(tmp_path / "page.html")
    assert points.table()[0]["risk"] is not None
    axes = plot_frontier(points).axes[0]
    assert axes.get_ylabel() == "expected return (points, discounted, over 12 moves)"
    for figure in (plot_behaviour(points[1]), plot_graph(points[1]), plot_side_by_side(points), points[1].plot()):
        figure.draw_without_rendering()


def test_beside_the_best_policy_without_risk(solution):
    found = compare_with_neutral(ca.solve(ca.Problem(machine(), ca.Variance(), 0.001, horizon=6)), episodes=50)
    best = ca.solve(ca.Problem(machine(), horizon=6))
    assert found.neutral_return == pytest.approx(best.expected_return)
    assert found.neutral_policy.shape == best.mdp.shape
    assert found.chosen.criterion == 6


def test_many_steps_and_states_can_be_drawn():
    found = ca.solve(ca.Problem(ca.worlds.garnet(60, 5, seed=1, discount=1.0), horizon=90))
    figure = plot_over_steps(found)
    figure.draw_without_rendering()
    assert figure.axes[0].get_yticklabels()[0].get_text().startswith("s")


def test_a_page_of_a_risk_of_the_return_without_memory_and_of_limits_on_one(pump, tmp_path):
    aware = ca.solve(ca.Problem(pump, ca.ReturnVariance(), caution=1.0, horizon=4), memory=False)
    aware.report(tmp_path / "aware.html")
    assert "Which states carry the risk" not in text_of(tmp_path / "aware.html")
    neutral = ca.solve(ca.Problem(pump, horizon=4)).return_distribution()
    for risk, bound in ((ca.ReturnVariance(), 0.8 * neutral.variance), (ca.ReturnVariance(), -1.0)):
        kept = ca.solve(ca.Problem(pump, constraints=[risk <= bound], horizon=4))
        compared = {row[0]: row[1:] for row in figures_table(kept, compare_with_neutral(kept, episodes=20)).rows}
        assert compared["ReturnVariance (exact)"] == (number(kept.constraints[0].value), number(neutral.variance))
        kept.report(tmp_path / "kept.html")
        assert ("cannot be kept" in text_of(tmp_path / "kept.html")) == (bound < 0)
