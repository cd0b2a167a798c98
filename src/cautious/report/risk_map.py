"""The map of a grid world coloured by what each cell adds to the risk."""

from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.report.canvas import Theme
from cautious.report.carriers import Carriers
from cautious.report.drawings import Scale, draw_bar, paint_cells
from cautious.solution import Solution


def draw_risk_map(figure: Any, axes: Any, solution: Solution, found: Carriers, theme: Theme) -> None:
    """Orange cells take risk away, purple ones add it; white is nothing. A pair that all readers can tell apart."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    limit, extend = _limit(found.contributions[solution.reached])
    scale = Scale(ScalarMappable(Normalize(-limit, limit, clip=True), "PuOr"), extend)
    paint_cells(axes, solution, scale.colours.to_rgba(found.contributions), theme)
    bar = draw_bar(figure, axes, scale, f"contribution to the risk ({solution.risk_label})", theme)
    bar.ax.yaxis.label.set_parse_math(False)
    # where all cells are on one side of nothing, the other half of the scale would only take room
    seen = found.contributions[solution.reached]
    bar.ax.set_ylim(-limit if seen.min() < -1e-3 * limit else 0, limit if seen.max() > 1e-3 * limit else 0)


def _limit(contributions: Array) -> tuple[float, str]:
    """Where the colours end: a few cells that carry nearly everything must not turn all the others white."""
    sizes = np.abs(contributions)
    top, most = float(sizes.max()), float(np.quantile(sizes, 0.98))
    if not top > 0:
        return 1.0, "neither"
    return (most, "both") if top > 4 * most > 0 else (top, "neither")
