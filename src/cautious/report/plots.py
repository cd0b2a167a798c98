"""Figures of a Solution, a Frontier and a History, as matplotlib Figures outside pyplot, which need not be closed."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.history import History
from cautious.models.horizons import AVERAGE
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.report.barriers import risk_figure
from cautious.report.canvas import LIGHT, Theme, dress_curves, new_figure, png, title
from cautious.report.contributions import Contributions
from cautious.report.drawings import draw_busiest, draw_map, draw_risk_map, draw_time_bar, time_scale
from cautious.report.graph import draw_graph, flow_graph
from cautious.report.over_steps import as_one_table
from cautious.report.return_drawing import draw_return, draw_returns, tail_level
from cautious.report.schedule import over_steps, step_word
from cautious.report.step_drawings import draw_actions_over_steps, draw_time_over_steps
from cautious.report.trade_off import NeutralComparison, compare_with_neutral, point, steady
from cautious.report.words import fits_grid, is_neutral, number, return_label, return_words, scene_of
from cautious.report.writing import write_bytes
from cautious.returns.forward import ReturnDistribution
from cautious.solution import Solution
from cautious.solvers.solve import Request, answer


def plot_solution(solution: Solution, *, theme: Theme = LIGHT) -> Any:
    """Where the policy spends its time, and the returns it earns next to the risk-neutral policy.

    Without a model (learned from samples alone) only the first can be drawn.
    """
    if isinstance(solution.horizon, int):
        return plot_over_steps(solution, theme=theme)
    if not solution.mdp.known_transitions:
        return plot_behaviour(solution, theme=theme)
    figure = new_figure(theme, 12, 5)
    left, right = figure.subplots(1, 2)
    _draw_behaviour(figure, [left], [solution], [solution], theme)
    _draw_returns(right, compare_with_neutral(solution), theme)
    return figure


def plot_behaviour(solution: Solution, *, among: Sequence[Solution] | None = None, theme: Theme = LIGHT) -> Any:
    """Where the policy spends its time: a map with arrows for grid worlds, bars of the busiest states for others.

    ``among`` are solutions to compare it with: it is drawn on the scale they share.
    """
    solution, others = as_one_table(solution), None if among is None else [as_one_table(one) for one in among]
    figure = new_figure(theme, 5.6, _behaviour_height(solution))
    _draw_behaviour(figure, [figure.subplots()], [solution], others or [solution], theme)
    return figure


def plot_side_by_side(
    solutions: Sequence[Solution], names: Sequence[str] | None = None, *, theme: Theme = LIGHT
) -> Any:
    """The behaviour of several solutions in one row, each named (by default by its caution), on one scale."""
    shown = [f"caution {one.caution:g}" for one in solutions] if names is None else names
    solutions = [as_one_table(one) for one in solutions]
    figure = new_figure(theme, 4.2 * len(solutions) + 0.8, max(_behaviour_height(one) for one in solutions))
    panels = figure.subplots(1, len(solutions), squeeze=False)[0]
    _draw_behaviour(figure, panels, solutions, solutions, theme)
    for axes, name in zip(panels, shown, strict=True):
        title(axes, name, theme)
    return figure


def plot_graph(solution: Solution, *, theme: Theme = LIGHT) -> Any:
    """The most visited states as a graph: what is done in each, and where that leads."""
    solution = as_one_table(solution)
    graph = flow_graph(solution)
    figure = new_figure(theme, 5.6, 0.2 + 0.52 * graph.share.size)
    draw_graph(figure.subplots(), solution, graph, theme)
    return figure


def plot_over_steps(solution: Solution, *, theme: Theme = LIGHT) -> Any:
    """With a finite horizon: what is done in each state at each step, and where the policy is when."""
    found = over_steps(solution)
    figure = new_figure(theme, 9.0, 2.8 + 0.26 * found.states.size + 2.6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1.0 + 0.26 * found.states.size, 2.6])
    draw_actions_over_steps(above, solution, found, theme)
    draw_time_over_steps(below, solution, found, theme)
    return figure


def plot_risk_map(solution: Solution, found: Contributions, *, theme: Theme = LIGHT) -> Any:
    """The map of a grid world, coloured by what each cell adds to the risk."""
    figure = new_figure(theme, 5.6, _behaviour_height(solution))
    draw_risk_map(figure, figure.subplots(), solution, found.by_state, theme)
    return figure


def plot_returns(comparison: NeutralComparison, *, theme: Theme = LIGHT) -> Any:
    """The simulated returns of the policy and of the risk-neutral one."""
    figure = new_figure(theme, 5.6, 4.2)
    _draw_returns(figure.subplots(), comparison, theme)
    return figure


def plot_return(solution: Solution, *, theme: Theme = LIGHT) -> Any:
    """How the return of an episode is distributed, next to the risk-neutral policy, computed and not simulated."""
    series = [("this policy", theme.chosen, solution.return_distribution())]
    if not is_neutral(solution) or solution.constraints:
        neutral = answer(Problem(solution.mdp, horizon=solution.horizon), Request())
        series.insert(0, ("risk-neutral policy", theme.neutral, neutral.return_distribution()))
    return _plotted_return(series, tail_level(solution), solution.mdp, theme)


def plot_computed_returns(comparison: NeutralComparison, level: float, *, theme: Theme = LIGHT) -> Any:
    """As ``plot_return``, of policies whose returns have been computed."""
    found = [(comparison.name, theme.neutral, comparison.neutral.exact_returns)] if comparison.is_other else []
    found.append(("this policy", theme.chosen, comparison.chosen.exact_returns))
    series = [(name, colour, returns) for name, colour, returns in found if returns is not None]
    return _plotted_return(series, level, comparison.solution.mdp, theme)


def _plotted_return(series: Sequence[tuple[str, str, ReturnDistribution]], level: float, mdp: MDP, theme: Theme) -> Any:
    figure = new_figure(theme, 5.6, 4.4)
    draw_return(figure.subplots(), series, level, _returns_label(mdp), theme)
    return figure


def plot_frontier(frontier: Iterable[Solution], *, theme: Theme = LIGHT) -> Any:
    """Expected return against risk, points labelled by caution; points without a known, finite risk are left out.

    Barriers are drawn by the share of time or the return that they are about.
    A solution of caution 0 has a risk only through its problem: one from a file is left out.
    """
    solutions = list(frontier)
    figure = new_figure(theme, 6.2, 4.4)
    axes = figure.subplots()
    figure_of_risk = risk_figure(solutions)
    pairs = [(one, here) for one in solutions if (here := point(one, figure_of_risk)) is not None]
    shown = [one for one, _ in pairs]
    points = steady([here for _, here in pairs])
    scale = (-1.0 if figure_of_risk.larger_is_safer else 1.0) * (100.0 if figure_of_risk.is_share else 1.0)
    risks = scale * np.array([here.risk for here in points])
    returns = np.array([here.expected_return for here in points])
    axes.plot(risks, returns, color=theme.faint, linewidth=1.5, zorder=1)
    proved = np.array([one.status.name == "SOLVED" for one in shown], dtype=bool)
    for mask, style, name in ((proved, "o", "solved"), (~proved, "s", "not proved best")):
        if mask.any():
            axes.plot(
                risks[mask], returns[mask], style, color=theme.chosen if style == "o" else theme.neutral, label=name
            )
    earned = return_label(solutions[0].mdp) if solutions else "expected discounted return (reward)"
    labels = {one.risk_label for one in shown if one.risk_label not in ("none", "")}
    what = f"risk ({' / '.join(sorted(labels)) or 'none'})"
    if figure_of_risk.is_barrier:
        what = f"{figure_of_risk.name}{' (%)' if figure_of_risk.is_share else ''}"
    axes.set(xlabel=what, ylabel=earned)
    axes.xaxis.label.set_parse_math(False)
    axes.yaxis.label.set_parse_math(False)
    axes.margins(0.12)
    dress_curves(axes, theme)
    if proved.size and not proved.all():
        axes.legend(frameon=False, fontsize=9, labelcolor=theme.ink)
    _label_points(axes, shown, np.column_stack([risks, returns]), theme)
    title(axes, "numbers: caution", theme, size=9)
    return figure


def _label_points(axes: Any, shown: Sequence[Solution], points: Array, theme: Theme) -> None:
    """Cautions beside the points; points too close to tell apart share one label."""
    if not shown:
        return
    axes.figure.draw_without_rendering()
    pixels = axes.transData.transform(points)
    near = 0.2 * axes.figure.dpi
    groups: list[list[int]] = []
    for i in range(len(shown)):
        if groups and np.hypot(*(pixels[i] - pixels[groups[-1][0]])) < near:
            groups[-1].append(i)
        else:
            groups.append([i])
    for group in groups:
        names = [number(shown[i].caution) for i in group]
        text = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        style = {"xytext": (6, -11), "textcoords": "offset points", "fontsize": 9}
        axes.annotate(text, points[group[0]], color=theme.ink, **style)


# (column, label of its axis, whether it shrinks towards zero)
PANELS = (
    ("objective", "objective (estimate)", False),
    ("risk", "risk (estimate)", False),
    ("gap", "gap (estimate)", True),
    ("violation", "flow violation (1-norm)", True),
)


def plot_history(history: History, *, columns: int = 2, theme: Theme = LIGHT) -> Any:
    """Objective, risk, gap and violation against the samples drawn, in so many columns of panels.

    A row of numbers with a single one is written below the others, not drawn; one without any is left out.
    """
    drawn = history.samples > 0
    counts = {name: np.count_nonzero(np.isfinite(getattr(history, name)[drawn])) for name, *_ in PANELS}
    shown = [panel for panel in PANELS if counts[panel[0]] > 1]
    said = [_single(history, panel, drawn) for panel in PANELS if counts[panel[0]] == 1]
    wide = max(1, min(columns, len(shown)))
    lines = max(1, -(-len(shown) // wide))
    figure = new_figure(theme, 5.6 if wide == 1 else 4.3 * wide, 0.6 + 2.3 * lines if shown else 1.0)
    if not shown:
        style = {"ha": "center", "va": "center", "color": theme.ink, "fontsize": 10}
        figure.text(0.5, 0.5, "\n".join(said) or "nothing was recorded", **style)
        return figure
    panels = figure.subplots(lines, wide, sharex=True, squeeze=False).ravel()
    for axes, panel in zip(panels, shown, strict=False):
        _draw_column(axes, history, panel, drawn, theme)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    along = "transitions drawn (log scale)" if _spans_decades(history.samples[drawn]) else "transitions drawn"
    figure.supxlabel("\n".join([along, *said]), color=theme.ink, fontsize=10)
    return figure


def _draw_column(axes: Any, history: History, panel: tuple[str, str, bool], drawn: Mask, theme: Theme) -> None:
    name, label, shrinks = panel
    column = getattr(history, name)
    # rows without an estimate would cut the line
    rows = drawn & np.isfinite(column)
    axes.plot(history.samples[rows], column[rows], "o-", markersize=3, linewidth=1.4, color=theme.chosen)
    axes.set_ylabel(label)
    if _spans_decades(history.samples[drawn]):
        axes.set_xscale("log")
    else:
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if shrinks and _spans_decades(column[rows]):
        axes.set_yscale("log")
    dress_curves(axes, theme)
    axes.tick_params(which="both", labelsize=9, labelbottom=True)


def _spans_decades(values: Array) -> bool:
    """Whether a logarithmic axis has round numbers to show: values above zero, over more than one decade."""
    return bool(0 < 10 * values.min() < values.max())


def _single(history: History, panel: tuple[str, str, bool], drawn: Mask) -> str:
    column = getattr(history, panel[0])
    row = int(np.flatnonzero(drawn & np.isfinite(column))[0])
    return f"{panel[1]} after {history.samples[row]:,.0f} transitions: {column[row]:.4g}"


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG, atomically."""
    write_bytes(path, png(figure))


def _draw_behaviour(
    figure: Any, panels: Sequence[Any], solutions: Sequence[Solution], among: Sequence[Solution], theme: Theme
) -> None:
    """One solution per panel, on the scale of all ``among`` those to compare; maps share one colour bar."""
    if not fits_grid(solutions[0].mdp):
        for axes, solution in zip(panels, solutions, strict=True):
            draw_busiest(axes, solution, theme, among)
        return
    scale = time_scale(among)
    for axes, solution in zip(panels, solutions, strict=True):
        draw_map(axes, solution, theme, scale)
    draw_time_bar(figure, list(panels), scale, theme, solutions[0].mdp)


def _draw_returns(axes: Any, comparison: NeutralComparison, theme: Theme) -> None:
    series = [("this policy", theme.chosen, comparison.chosen)]
    if comparison.is_other:
        series.insert(0, (comparison.name, theme.neutral, comparison.neutral))
    draw_returns(axes, series, _returns_label(comparison.solution.mdp), theme)


def _returns_label(mdp: MDP) -> str:
    """What an episode earns, for an axis."""
    unit = scene_of(mdp).reward_unit
    if mdp.horizon is None:
        return f"discounted return of an episode ({unit})"
    if mdp.horizon == AVERAGE:
        return f"mean reward per {step_word(mdp)} of a run ({unit})"
    return f"return of an episode ({unit}, {return_words(mdp)})"


def _behaviour_height(solution: Solution) -> float:
    """Map cells are square: the figure follows the shape of the map, within what a page can hold."""
    if not fits_grid(solution.mdp):
        return 4.4
    grid = scene_of(solution.mdp).grid
    return float(min(9.0, max(2.4, 0.8 + 4.0 * len(grid) / max(len(row) for row in grid))))
