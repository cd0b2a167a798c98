"""Figures: what they show, read back from the artists; pyplot stays untouched."""

import dataclasses
import sys

import numpy as np
import pytest
from matplotlib.quiver import Quiver

import cautious as ca
from cautious.horizons.visits import PolicyOccupancy
from cautious.report.canvas import DARK, png
from cautious.report.plots import plot_behaviour, plot_frontier, plot_history, plot_returns, plot_solution, save_figure
from cautious.report.trade_off import compare_with_neutral


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_a_map_shows_arrows_only_where_the_policy_goes(maze_solution):
    figure = plot_behaviour(maze_solution)
    axes = figure.axes[0]
    arrows = sum(collection.N for collection in axes.collections if isinstance(collection, Quiver))
    moving = maze_solution.reached & (maze_solution.mdp.under(maze_solution.policy).diagonal() < 1)
    assert arrows == np.count_nonzero((maze_solution.policy >= 0.1)[moving])
    assert "G" in texts(axes)
    picture = axes.images[0].get_array()
    assert picture.shape == (10, 10, 3)
    # row 4 of the map is a wall from column 1 to 8
    assert np.ptp(picture[4, 1:9].reshape(-1, 3), axis=0).max() == 0
    assert "discounted time (%" in figure.axes[1].get_ylabel()


def test_bars_name_the_states_and_their_share(chain_solution):
    axes = plot_behaviour(chain_solution, theme=DARK).axes[0]
    mass = np.sort(100 * chain_solution.occupancy.sum(axis=1))[::-1]
    widths = [patch.get_width() for patch in axes.patches]
    assert widths == pytest.approx(mass[mass > 0])
    assert "<script>alert(1)</script>" in [label.get_text() for label in axes.get_yticklabels()]
    assert "%" in axes.get_xlabel()


def test_returns_are_drawn_with_their_unit(chain_solution):
    axes = plot_returns(compare_with_neutral(chain_solution, episodes=50)).axes[0]
    assert "kEUR" in axes.get_xlabel()
    assert len(axes.get_legend().get_texts()) == 2


def test_a_return_without_spread_can_be_drawn():
    mdp = ca.MDP(np.ones((1, 1, 1)), np.array([[1.0]]), 0.5)
    assert png(plot_solution(ca.solve(ca.Problem(mdp)))).startswith(b"\x89PNG")


def test_a_frontier_labels_points_by_caution(maze_problem):
    points = ca.frontier(maze_problem.mdp, ca.Variance(), [0, 10, 50])
    axes = plot_frontier(points).axes[0]
    assert texts(axes) == ["0", "10", "50"]
    risks = np.sort(np.concatenate([line.get_xdata() for line in axes.lines[1:]]))
    assert risks == pytest.approx(np.sort([maze_problem.risk_value(one.occupancy) for one in points]))
    assert "points" in axes.get_ylabel()


def test_frontier_points_without_a_finite_risk_are_left_out(chain_solution, infeasible_solution):
    assert texts(plot_frontier([chain_solution, infeasible_solution]).axes[0]) == ["3"]
    assert texts(plot_frontier([infeasible_solution]).axes[0]) == []
    assert png(plot_frontier([]))


def history(**columns):
    samples = np.array([0.0, 10.0, 100.0, 1000.0])
    return ca.History(samples, **(dict.fromkeys(("objective", "risk", "gap", "violation"), samples) | columns))


def test_a_history_skips_what_was_not_estimated():
    nothing = np.full(4, np.nan)
    found = history(gap=np.array([np.nan, 30.0, np.nan, 1.0]), violation=np.array([1, 1, 0.5, 0.0]), risk=nothing)
    shown = {axes.get_ylabel().split(" (")[0]: axes for axes in plot_history(found).axes if axes.axison}
    assert list(shown) == ["objective", "gap", "flow violation"]
    line = shown["gap"].lines[0]
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([10.0, 1000.0], [30.0, 1.0])
    assert {axes.get_xscale() for axes in shown.values()} == {"log"}
    narrow = dataclasses.replace(found, samples=np.array([0.0, 10.0, 20.0, 30.0]))
    assert {axes.get_xscale() for axes in plot_history(narrow).axes if axes.axison} == {"linear"}
    assert (shown["gap"].get_yscale(), shown["flow violation"].get_yscale()) == ("log", "linear")


def test_a_single_number_is_written_and_not_drawn():
    single = np.array([np.nan, np.nan, np.nan, 0.25])
    figure = plot_history(history(gap=single, risk=np.full(4, np.nan)))
    assert [axes.get_ylabel() for axes in figure.axes] == ["objective (estimate)", "flow violation (1-norm)"]
    assert figure.get_supxlabel().endswith("gap (estimate) after 1,000 transitions: 0.25")
    nothing = dict.fromkeys(("objective", "risk", "violation"), np.full(4, np.nan))
    assert plot_history(history(gap=single, **nothing)).texts[0].get_text().endswith("0.25")
    assert len(plot_history(history(), columns=1).axes) == 4


def test_a_history_of_nothing_can_be_drawn():
    empty = np.empty(0)
    assert png(ca.History(empty, empty, empty, empty, empty).plot()).startswith(b"\x89PNG")
    assert len(history().plot().axes) == 4


def test_a_large_map_is_drawn_without_arrows(maze_solution):
    rows, columns = 100, 100
    n = rows * columns
    scene = ca.Scene("Large", grid=("." * columns,) * rows, action_arrows=("up",))
    mdp = ca.MDP([np.eye(1)], np.ones((1, 1)), 0.5)
    visits = PolicyOccupancy(np.full((n, 1), 1 / n), np.ones(n, dtype=bool), 0.0)
    certificate = dataclasses.replace(maze_solution.certificate, visits=visits)
    wide = dataclasses.replace(maze_solution, mdp=mdp, certificate=certificate, policy=np.ones((n, 1)))
    mdp.scene, mdp.n_states = scene, n
    assert len(plot_behaviour(wide).axes[0].collections) == 0


def test_figures_are_saved_atomically_and_pyplot_is_not_used(chain_solution, tmp_path):
    save_figure(plot_solution(chain_solution), tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert [one.name for one in tmp_path.iterdir()] == ["x.png"]
    assert "matplotlib.pyplot" not in sys.modules
