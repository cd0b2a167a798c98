"""The map of a grid world coloured by what each cell adds to the risk."""

from typing import Any

import numpy as np

from cautious.report.canvas import Theme
from cautious.report.carriers import Carriers
from cautious.report.drawings import ColourScale, colour_limit, draw_bar, paint_cells, reached_colours
from cautious.solution import Solution


def draw_risk_map(figure: Any, axes: Any, solution: Solution, found: Carriers, theme: Theme) -> None:
    """Orange cells take risk away, purple ones add it; white is nothing. A pair that all readers can tell apart."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    seen = found.contributions[solution.reached]
    most, cut = colour_limit(np.abs(seen))
    limit = most if most > 0 else 1.0
    scale = ColourScale(ScalarMappable(Normalize(-limit, limit, clip=True), "PuOr"), "both" if cut else "neither")
    colours = reached_colours(solution, scale.colours.to_rgba(found.contributions), theme)
    paint_cells(axes, solution.mdp, colours, theme)
    bar = draw_bar(figure, axes, scale, f"contribution to the risk ({solution.risk_label})", theme)
    bar.ax.yaxis.label.set_parse_math(False)
    # where all cells are on one side of nothing, the other half of the scale would only take room
    bar.ax.set_ylim(-limit if seen.min() < -1e-3 * limit else 0, limit if seen.max() > 1e-3 * limit else 0)
