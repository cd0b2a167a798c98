"""Maps of the time spent in each cell, several on one colour scale, with the dark cells outlined."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.models.tabular import MDP
from cautious.report.canvas import Theme, new_figure, title
from cautious.report.drawings import ColourScale, draw_time_bar, paint_cells
from cautious.report.words import scene_of

# black around white is seen on every colour of the map
OUTLINE = (("#000000", 2.6), ("#ffffff", 1.2))


def draw_maps(mdp: MDP, panels: Sequence[tuple[str, Array]], theme: Theme) -> Any:
    """A figure of maps, each (title, time (S,) in percent), with one colour bar."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    everything = np.concatenate([share for _, share in panels])
    norm = LogNorm(everything[everything > 0].min(), everything.max(), clip=True)
    scale = ColourScale(ScalarMappable(norm, "viridis"), "neither")
    figure = new_figure(theme, 3.2 * len(panels), 3.5)
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (name, share) in zip(row, panels, strict=True):
        paint_cells(axes, mdp, scale.colours.to_rgba(share)[:, :3], theme, lines="none", unmarked=". D", compact=True)
        _outline(axes, mdp)
        title(axes, name, theme)
        axes.label_outer()
    draw_time_bar(figure, row, scale, theme)
    return figure


def _outline(axes: Any, mdp: MDP) -> None:
    """Around the dark cells."""
    dark = np.array([list(row) for row in scene_of(mdp).grid]) == "D"
    for colour, width in OUTLINE:
        for x, y in edges(dark):
            axes.plot(x, y, color=colour, linewidth=width, solid_capstyle="round", snap=False, clip_on=False)


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
