"""Maps of the time spent in each cell, several on one colour scale, with the dark cells outlined."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.models.tabular import MDP
from cautious.report.canvas import Theme, dress, new_figure
from cautious.report.words import scene_of

# black around white is seen on every colour of the map
OUTLINE = (("#000000", 2.6), ("#ffffff", 1.2))
# colours above this part of the scale are too bright for white letters
BRIGHT = 0.6


def draw_maps(mdp: MDP, panels: Sequence[tuple[str, Array]], theme: Theme) -> Any:
    """A figure of maps, each (title, time (S,) in percent), with one colour bar."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    everything = np.concatenate([share for _, share in panels])
    colours = ScalarMappable(LogNorm(everything[everything > 0].min(), everything.max(), clip=True), "viridis")
    figure = new_figure(theme, 3.2 * len(panels), 3.5)
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, share) in zip(row, panels, strict=True):
        _draw_map(axes, mdp, share, colours)
        axes.set_title(title, loc="left", fontsize=10, color=theme.ink)
        axes.set_xlabel("column")
        dress(axes, theme, frame=False)
        axes.tick_params(which="both", length=0)
    row[0].set_ylabel("row")
    bar = figure.colorbar(colours, ax=list(row), shrink=0.8, pad=0.02, aspect=24)
    bar.set_label("share of discounted time (%, log scale)", color=theme.ink, fontsize=9)
    bar.ax.tick_params(colors=theme.ink, which="both", labelsize=8)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    bar.outline.set_visible(False)
    return figure


def _draw_map(axes: Any, mdp: MDP, share: Array, colours: Any) -> None:
    scene = scene_of(mdp)
    marks, cells = np.array([list(row) for row in scene.grid]), np.array(scene.cells)
    picture = np.full(marks.shape, np.nan)
    picture[cells[:, 0], cells[:, 1]] = share
    axes.imshow(picture, norm=colours.norm, cmap=colours.cmap, interpolation="nearest")
    for colour, width in OUTLINE:
        for x, y in edges(marks == "D"):
            axes.plot(x, y, color=colour, linewidth=width, solid_capstyle="round", snap=False, clip_on=False)
    for i, j in np.argwhere(marks == "G"):
        ink = "#10151c" if colours.norm(picture[i, j]) > BRIGHT else "#ffffff"
        axes.text(j, i, "G", ha="center", va="center", fontsize=9, weight="bold", color=ink)
    axes.set(xticks=range(0, marks.shape[1], 3), yticks=range(0, marks.shape[0], 3))


def edges(inside: Mask) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Sides, each as (x ends, y ends), between a cell of the set and one outside it or beyond the map.

    Examples
    --------
    >>> len(edges(np.array([[True, True, False]])))
    6
    """
    padded = np.pad(inside, 1)
    upright, level = padded[:, 1:] != padded[:, :-1], padded[1:] != padded[:-1]
    sides = [((j - 0.5, j - 0.5), (i - 1.5, i - 0.5)) for i, j in np.argwhere(upright).tolist()]
    return sides + [((j - 1.5, j - 0.5), (i - 0.5, i - 0.5)) for i, j in np.argwhere(level).tolist()]
