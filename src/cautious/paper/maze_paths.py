"""Simulated paths on the map of a grid world: where they lead, and how they are drawn."""

from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.evaluation import rollouts
from cautious.models.tabular import MDP
from cautious.occupancy import check_policy
from cautious.report.canvas import Theme
from cautious.report.drawings import paint_cells
from cautious.report.words import scene_of

DARK_CELL, GOAL_CELL = "D", "G"
# repeated visits of a cell are drawn beside each other: turns of the golden angle on a ring around the middle
RING_RADIUS, GOLDEN_ANGLE = 0.24, np.pi * (3 - np.sqrt(5))
# from the best reward on the map to the worst, whatever they are
GREENS = ("#e3f1d9", "#b9dfa8", "#1d6b3a")


def walk(mdp: MDP, policy: Array, count: int, steps: int, seed: int) -> Indices:
    """States (count, steps + 1) of simulated paths; column 0 holds the first ones."""
    # one more step, because a step tells the state before it
    walked = rollouts.steps(mdp.simulator(), check_policy(mdp, policy), seed, count, steps + 1)
    return np.stack([states for states, _ in walked], axis=1)


def share_entering(paths: Indices, states: Indices) -> float:
    """The share of paths that visit any of the states."""
    return float(np.isin(paths, states).any(axis=1).mean())


def first_entries(paths: Indices, states: Indices) -> Indices:
    """After how many moves each path enters any of the states; paths that never do are left out."""
    inside = np.isin(paths, states)
    first: Indices = np.argmax(inside, axis=1)[inside.any(axis=1)]
    return first


def cell_rewards(mdp: MDP) -> Array:
    """What entering each state pays (S,), for models in which only the entered state matters; nan where never entered.

    Examples
    --------
    >>> from cautious.worlds import maze
    >>> sorted(set(cell_rewards(maze()).tolist()))
    [-1.0, -0.05, 0.0]
    """
    pay = np.full(mdp.n_states, np.nan)
    pay[mdp.transitions.indices] = mdp.outcome_rewards
    return pay


def stops(path: Indices) -> tuple[Indices, Indices]:
    """The cells of a path without repetition in place, and how many moves each stop lasted; the last lasts none."""
    turns = np.flatnonzero(np.diff(path))
    first = np.concatenate([[0], turns + 1])
    return path[first], np.append(np.diff(first), 0)


def spread_out(path: Indices, cells: Array) -> Array:
    """Points (n, 2) as (column, row): later visits of a cell lie beside the earlier ones."""
    visits = np.array([np.count_nonzero(path[:k] == state) for k, state in enumerate(path)])
    return np.asarray(cells[path][:, ::-1] + beside(visits, np.where(visits > 0, RING_RADIUS, 0.0)))


def beside(turns: Indices, reach: Array) -> Array:
    """Steps aside (n, 2): so many turns of the golden angle, and so far, for each; none of them lies on another."""
    angle = GOLDEN_ANGLE * turns
    return np.asarray((reach * np.array([np.cos(angle), np.sin(angle)])).T)


def draw_rewards(axes: Any, mdp: MDP, theme: Theme) -> tuple[Any, Array]:
    """The map coloured by what a cell pays, walls grey; returns the colours for a bar, and the reward of each."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap, ListedColormap

    pay = cell_rewards(mdp)
    levels = np.unique(pay[np.isfinite(pay)])
    greens = LinearSegmentedColormap.from_list("greens", GREENS)(np.linspace(1, 0, levels.size))[:, :3]
    ranks = np.minimum(np.searchsorted(levels, np.nan_to_num(pay, nan=levels[-1])), levels.size - 1)
    paint_cells(axes, mdp, greens[ranks], theme, lines="#ffffff", unmarked=f". {DARK_CELL}", compact=True)
    return ScalarMappable(BoundaryNorm(np.arange(levels.size + 1), levels.size), ListedColormap(greens)), levels


def draw_bundle(axes: Any, mdp: MDP, paths: Indices, colour: str) -> None:
    """Many paths as thin lines, each a little beside the others."""
    cells = np.array(scene_of(mdp).cells, dtype=float)
    order = np.arange(len(paths))
    for path, aside in zip(paths, beside(order, RING_RADIUS * np.sqrt((order + 1) / len(paths))), strict=True):
        axes.plot(*(cells[stops(path)[0]][:, ::-1] + aside).T, color=colour, linewidth=0.7, alpha=0.5, zorder=2)


def draw_path(axes: Any, mdp: MDP, path: Indices, colour: str) -> None:
    """One path as arrows from cell to cell, a ring where it starts, a square where it ends.

    Where the agent stays in a cell for more than one move, the number of moves is written beside it.
    """
    from matplotlib.patheffects import Stroke, withStroke

    cells, lasted = stops(path)
    points = spread_out(cells, np.array(scene_of(mdp).cells, dtype=float))
    style = {"angles": "xy", "scale_units": "xy", "scale": 1, "units": "xy", "zorder": 3, "color": colour}
    shape = {"width": 0.07, "headwidth": 3.6, "headlength": 3.8, "headaxislength": 3.4}
    arrows = axes.quiver(*points[:-1].T, *np.diff(points, axis=0).T, **style, **shape)
    arrows.set_path_effects([Stroke(linewidth=1.6, foreground="#ffffff"), Stroke(linewidth=0.1, foreground=colour)])
    mark = {"markersize": 8, "markeredgewidth": 1.6, "color": colour, "zorder": 4, "linestyle": "none"}
    axes.plot(*points[0], "o", markerfacecolor="#ffffff", **mark)
    axes.plot(*points[-1], "s", markerfacecolor="#ffffff", **mark)
    for (x, y), moves in zip(points[lasted > 1], lasted[lasted > 1], strict=True):
        text = axes.text(x + 0.17, y - 0.02, f"{moves}x", color="#10151c", fontsize=7, va="center", zorder=5)
        text.set_path_effects([withStroke(linewidth=1.5, foreground="#ffffff")])
