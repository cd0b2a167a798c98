"""Drawings on given axes: the map of a grid world, the most visited states."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.models.tabular import MDP
from cautious.report.accuracy import shares_of_time
from cautious.report.canvas import Theme, dress
from cautious.report.text_tables import busiest_states
from cautious.report.words import scene_of, short, state_name, time_words
from cautious.solution import Solution

# with more cells, letters and arrows are too small to read
MAX_CELLS_WITH_ARROWS = 1600
MIN_ARROW_PROBABILITY = 0.1
COLOUR_DECADES = 4
MAX_BARS = 12
DIRECTIONS = {
    "up": (0.0, -1.0), "right": (1.0, 0.0), "down": (0.0, 1.0), "left": (-1.0, 0.0),
    "north": (0.0, -1.0), "east": (1.0, 0.0), "south": (0.0, 1.0), "west": (-1.0, 0.0),
    "↑": (0.0, -1.0), "→": (1.0, 0.0), "↓": (0.0, 1.0), "←": (-1.0, 0.0),
    "^": (0.0, -1.0), ">": (1.0, 0.0), "v": (0.0, 1.0), "<": (-1.0, 0.0),
}  # fmt: skip


def colour_scale(norm: Any, name: str, extend: str = "neither") -> Any:
    """Colours of numbers, a matplotlib mappable; ``extend``: ends of its bar that stand for more than they show."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable

    colours: Any = colormaps[name].copy()
    colours.colorbar_extend = extend
    return ScalarMappable(norm, colours)


def time_scale(solutions: Sequence[Solution]) -> Any:
    """One scale for the shares of time of all these solutions, so that their maps can be compared."""
    from matplotlib.colors import LogNorm

    mass = np.concatenate([100 * shares_of_time(one) for one in solutions])
    seen = mass[mass > 0]
    high, cut = _colour_limit(seen)
    low = min(max(high / 10**COLOUR_DECADES, float(np.quantile(seen, 0.02))), high / 2)
    return colour_scale(LogNorm(low, high, clip=True), "viridis", "max" if cut else "neither")


def draw_map(axes: Any, solution: Solution, theme: Theme, scale: Any) -> None:
    """Where the policy spends its time, walls grey, and what it does in the cells it reaches.

    Maps that share a ``scale`` get their one bar from ``draw_time_bar``.
    """
    colours = _reached_colours(solution, scale.to_rgba(100 * shares_of_time(solution)), theme)
    paint_cells(axes, solution.mdp, colours, theme)
    cells = np.array(scene_of(solution.mdp).cells)
    if len(cells) <= MAX_CELLS_WITH_ARROWS:
        _arrows(axes, solution, cells, _inks(colours))


def draw_time_bar(figure: Any, axes: Any, scale: Any, theme: Theme, mdp: MDP) -> None:
    """The colour bar of a scale of time, beside the axes that use it."""
    bar = draw_bar(figure, axes, scale, f"share of {time_words(mdp)} (%, log scale)", theme)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    bar.ax.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")


def draw_bar(figure: Any, axes: Any, scale: Any, label: str, theme: Theme) -> Any:
    """A colour bar in the theme's ink."""
    bar = figure.colorbar(scale, ax=axes, shrink=0.85, pad=0.02)
    bar.set_label(label, color=theme.ink, fontsize=9)
    bar.ax.tick_params(colors=theme.ink, which="both", labelsize=8)
    bar.outline.set_visible(False)
    return bar


def _reached_colours(solution: Solution, colours: Array, theme: Theme) -> Array:
    """Colours (S, 3): those given (S, 3 or 4) where the policy goes, the paper elsewhere."""
    from matplotlib.colors import to_rgb

    return np.where(shares_of_time(solution)[:, None] > 0, np.asarray(colours)[:, :3], to_rgb(theme.paper))


def draw_risk_map(figure: Any, axes: Any, solution: Solution, contributions: Array, theme: Theme) -> None:
    """Contributions (S,) to the risk: orange cells take risk away, purple ones add it, white is nothing.

    The two colours can be told apart by all readers.
    """
    from matplotlib.colors import Normalize

    seen = contributions[solution.reached]
    most, cut = _colour_limit(np.abs(seen))
    limit = most if most > 0 else 1.0
    scale = colour_scale(Normalize(-limit, limit, clip=True), "PuOr", "both" if cut else "neither")
    paint_cells(axes, solution.mdp, _reached_colours(solution, scale.to_rgba(contributions), theme), theme)
    bar = draw_bar(figure, axes, scale, f"contribution to the risk ({solution.risk_label})", theme)
    bar.ax.yaxis.label.set_parse_math(False)
    # where all cells have the same sign, the other half of the scale would only take room
    bar.ax.set_ylim(-limit if seen.min() < -1e-3 * limit else 0, limit if seen.max() > 1e-3 * limit else 0)


def paint_cells(
    axes: Any,
    mdp: MDP,
    colours: Array,
    theme: Theme,
    *,
    lines: str | None = None,
    unmarked: str = ". ",
    compact: bool = False,
) -> None:
    """A map with a colour (S, 3) per state, walls grey, and the marks of its cells.

    ``lines`` is the colour between cells, None the paper's. Cells of the marks in ``unmarked`` go without a letter.
    ``compact`` is for small maps in a row: bold letters, and a number at every third cell.
    """
    from matplotlib.colors import to_rgb
    from matplotlib.ticker import MaxNLocator

    scene = scene_of(mdp)
    cells = np.array(scene.cells)
    picture = np.empty((len(scene.grid), max(len(row) for row in scene.grid), 3))
    picture[:] = to_rgb(theme.wall)
    picture[cells[:, 0], cells[:, 1]] = colours
    axes.imshow(picture, interpolation="nearest")
    axes.set(xlabel="column", ylabel="row")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    dress(axes, theme, frame=False)
    if len(cells) <= MAX_CELLS_WITH_ARROWS:
        edges = {"colors": theme.paper if lines is None else lines, "linewidth": 0.6, "zorder": 1}
        height, width = picture.shape[:2]
        axes.vlines(np.arange(0.5, width - 1), -0.5, height - 0.5, **edges)
        axes.hlines(np.arange(0.5, height - 1), -0.5, width - 0.5, **edges)
        _marks(axes, scene.grid, cells, _inks(colours), unmarked, compact)
    if compact:
        axes.set(xticks=range(0, picture.shape[1], 3), yticks=range(0, picture.shape[0], 3))
        axes.tick_params(length=0)


def _inks(shades: Array) -> Array:
    """Black or white (S, 3), whichever can be read on each shade."""
    bright = shades @ np.array([0.299, 0.587, 0.114]) > 0.55
    return np.where(bright[:, None], (0.06, 0.08, 0.11), (1.0, 1.0, 1.0))


def _colour_limit(sizes: Array) -> tuple[float, bool]:
    """Where the colour scale ends, and whether larger sizes are cut: a few must not hide all other differences."""
    top, most = float(sizes.max()), float(np.quantile(sizes, 0.98))
    return (most, True) if top > 4 * most > 0 else (top, False)


def _arrows(axes: Any, solution: Solution, cells: Array, inks: Array) -> None:
    """One arrow per action the policy may take where it goes, as long as the action is likely."""
    visited = shares_of_time(solution) > 0
    if solution.mdp.known_transitions:
        # an arrow in a state that the policy never leaves would point nowhere
        visited &= solution.mdp.under(solution.policy).diagonal() <= 1 - 1e-12
    for action, name in enumerate(scene_of(solution.mdp).action_arrows[: solution.mdp.n_actions]):
        direction = DIRECTIONS.get(name.lower())
        chance = solution.policy[:, action]
        here = visited & (chance >= MIN_ARROW_PROBABILITY)
        if direction is None or not here.any():
            continue
        reach = 0.42 * chance[here]
        x, y = cells[here, 1], cells[here, 0]
        dx, dy = direction[0] * reach, direction[1] * reach
        # a lone arrow sits in the middle of its cell; several leave a gap there and point apart
        shift = np.where(chance[here] > 1 - MIN_ARROW_PROBABILITY, -0.5 * reach, 0.08)
        x, y = x + shift * direction[0], y + shift * direction[1]
        style = {"angles": "xy", "scale_units": "xy", "scale": 1, "units": "xy", "width": 0.05}
        axes.quiver(x, y, dx, dy, color=inks[here], headwidth=4, headlength=3.4, headaxislength=3, **style)


def _marks(axes: Any, grid: Sequence[str], cells: Array, inks: Array, unmarked: str, bold: bool) -> None:
    style: dict[str, Any] = {"ha": "left", "va": "top", "parse_math": False, "clip_on": True}
    style |= {"fontsize": 9, "weight": "bold"} if bold else {"fontsize": 7.5 if len(cells) <= 200 else 5.0}
    for (row, column), ink in zip(cells, inks, strict=True):
        mark = grid[row][column]
        if mark not in unmarked:
            axes.text(column - 0.46, row - 0.46, mark, color=ink, **style)


def draw_busiest(axes: Any, solution: Solution, theme: Theme, among: Sequence[Solution]) -> None:
    """Bars of the states that are visited most, by this policy or another one ``among`` those to compare it with.

    Their drawings have the same states in the same order, on one scale; the title says what the other states share.
    """
    mass = 100 * shares_of_time(solution)
    most = np.max([shares_of_time(one) for one in among], axis=0)
    states = busiest_states(most, MAX_BARS)
    shares = [float(mass[state]) for state in states]
    places = np.arange(len(states))
    axes.barh(places, shares, color=theme.chosen, height=0.7)
    axes.set_yticks(places, [short(state_name(solution.mdp, state)) for state in states], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, 115 * float(most.max()))
    for place, share in zip(places, shares, strict=True):
        style = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        axes.annotate(f"{_short_share(share)} %", (share, place), color=theme.ink, **style)
    axes.set_xlabel(f"share of {time_words(solution.mdp)} (%)")
    others = int(np.count_nonzero(mass > 0)) - int(np.count_nonzero(shares))
    if others > 0:
        axes.set_title(f"the other {others:,} visited states share {_short_share(max(0.0, 100 - sum(shares)))} %")
    dress(axes, theme)


def _short_share(percentage: float) -> str:
    return "< 0.01" if 0 < percentage < 0.01 else f"{percentage:.3g}"
