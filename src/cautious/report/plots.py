"""Figures of a Solution, a Frontier and a History, as matplotlib Figures that nobody has to close."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cautious.history import History
from cautious.problem import Problem
from cautious.report.canvas import LIGHT, Theme, dress, new_figure, png
from cautious.report.compare import Comparison, compare, known_risks
from cautious.report.drawings import draw_busiest, draw_frontier, draw_map, draw_returns
from cautious.report.files import write_bytes
from cautious.report.words import fits_grid, is_neutral, scene_of
from cautious.solution import Solution


def plot_solution(solution: Solution, *, theme: Theme = LIGHT) -> Any:
    """Where the policy spends its time, and the returns it earns next to the risk-neutral policy.

    Without a model (learned from samples alone) only the first can be drawn.

    Returns
    -------
    matplotlib.figure.Figure
        With its own canvas: ``figure.savefig(path)`` works, and it need not be closed.

    Raises
    ------
    MissingExtraError
        Without matplotlib; ``pip install cautious[plot]`` brings it.
    """
    if not solution.mdp.known_transitions:
        return plot_behaviour(solution, theme=theme)
    figure = new_figure(theme, 12, 5)
    left, right = figure.subplots(1, 2)
    _draw_behaviour(figure, left, solution, theme)
    _draw_returns(right, compare(solution), theme)
    return figure


def plot_behaviour(solution: Solution, *, theme: Theme = LIGHT) -> Any:
    """Where the policy spends its time: a map with arrows for grid worlds, bars of the busiest states for others."""
    figure = new_figure(theme, 5.6, _behaviour_height(solution))
    _draw_behaviour(figure, figure.subplots(), solution, theme)
    return figure


def plot_side_by_side(
    solutions: Sequence[Solution], names: Sequence[str] | None = None, *, theme: Theme = LIGHT
) -> Any:
    """The behaviour of several solutions in one row, each named (by default by its caution)."""
    titles = [f"caution {one.caution:g}" for one in solutions] if names is None else names
    figure = new_figure(theme, 4.6 * len(solutions), max(_behaviour_height(one) for one in solutions))
    panels = figure.subplots(1, len(solutions), squeeze=False)[0]
    for axes, solution, title in zip(panels, solutions, titles, strict=True):
        _draw_behaviour(figure, axes, solution, theme)
        axes.set_title(title, fontsize=10, loc="left", color=theme.ink)
    return figure


def plot_returns(comparison: Comparison, *, theme: Theme = LIGHT) -> Any:
    """The simulated returns of the policy and of the risk-neutral one."""
    figure = new_figure(theme, 5.6, 4.2)
    _draw_returns(figure.subplots(), comparison, theme)
    return figure


def plot_frontier(frontier: Iterable[Solution], *, problem: Problem | None = None, theme: Theme = LIGHT) -> Any:
    """Expected return against risk, points labelled by caution.

    A solution of caution 0 carries no risk of its own: ``problem`` says which one is meant. Without it the point is
    drawn for Variance, CVaR and Entropy, and left out for the risks that carry data.
    """
    solutions = list(frontier)
    figure = new_figure(theme, 6.2, 4.4)
    axes = figure.subplots()
    unit = scene_of(solutions[0].mdp).reward_unit if solutions else "reward"
    draw_frontier(axes, solutions, known_risks(solutions, problem), unit, theme)
    axes.set_title("numbers: caution", fontsize=9, loc="left", color=theme.ink)
    return figure


# (column, label of its axis, whether it shrinks towards zero)
PANELS = (
    ("objective", "objective (estimate)", False),
    ("risk", "risk (estimate)", False),
    ("gap", "gap (estimate)", True),
    ("violation", "flow violation (1-norm)", True),
)


def plot_history(history: History, *, theme: Theme = LIGHT) -> Any:
    """Objective, risk, gap and violation against the samples drawn; columns without a number are left out."""
    drawn = history.samples > 0
    shown = [panel for panel in PANELS if np.isfinite(getattr(history, panel[0])[drawn]).any()]
    figure = new_figure(theme, 9.0, 3.0 * max(1, (len(shown) + 1) // 2))
    if not shown:
        figure.text(0.5, 0.5, "nothing was recorded", ha="center", va="center", color=theme.ink)
        return figure
    panels = figure.subplots((len(shown) + 1) // 2, min(2, len(shown)), sharex=True, squeeze=False).ravel()
    for axes, (name, label, shrinks) in zip(panels, shown, strict=False):
        column = getattr(history, name)
        # rows without an estimate would cut the line
        rows = drawn & np.isfinite(column)
        style = {"markersize": 3, "linewidth": 1.4, "color": theme.chosen}
        axes.plot(history.samples[rows], column[rows], "o-", **style)
        axes.set(xscale="log", ylabel=label)
        low, high = column[rows].min(), column[rows].max()
        # within one decade a logarithmic axis has no round numbers to show
        if shrinks and 0 < 10 * low < high:
            axes.set_yscale("log")
        dress(axes, theme)
        axes.tick_params(which="both", colors=theme.ink, labelsize=9, labelbottom=True)
        axes.grid(color=theme.faint, linewidth=0.5)
        axes.set_axisbelow(True)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    figure.supxlabel("transitions drawn (log scale)", color=theme.ink, fontsize=10)
    return figure


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG, atomically."""
    write_bytes(path, png(figure))


def _draw_behaviour(figure: Any, axes: Any, solution: Solution, theme: Theme) -> None:
    if fits_grid(solution.mdp):
        draw_map(figure, axes, solution, theme)
    else:
        draw_busiest(axes, solution, theme)


def _draw_returns(axes: Any, comparison: Comparison, theme: Theme) -> None:
    series = [("this policy", theme.chosen, comparison.chosen)]
    if not is_neutral(comparison.solution):
        series.insert(0, ("risk-neutral policy", theme.neutral, comparison.neutral))
    draw_returns(axes, series, scene_of(comparison.solution.mdp).reward_unit, theme)


def _behaviour_height(solution: Solution) -> float:
    """Map cells are square: the figure follows the shape of the map, within what a page can hold."""
    if not fits_grid(solution.mdp):
        return 4.4
    grid = scene_of(solution.mdp).grid
    return float(min(9.0, max(2.4, 0.8 + 4.0 * len(grid) / max(len(row) for row in grid))))
