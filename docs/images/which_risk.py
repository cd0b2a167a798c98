"""Draw the pictures of docs/which-risk.md: the behaviour of the cart in the yard under each risk.

The code of the page computes the solutions, so that pictures and numbers belong together.
Run from the root of a checkout: python docs/images/which_risk.py
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle
from page_code import run_page

import cautious as ca
from cautious.report.canvas import LIGHT, new_figure, png, title
from cautious.report.drawings import paint_cells
from cautious.report.plots import plot_return

HERE = Path(__file__).parent
# up, right, down, left, as (column, row)
MOVES = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)])
TINTS = {"D": "#f6c9ae", "E": "#f6c9ae", "A": "#cdeadf", "B": "#cdeadf"}
# shares of time: that of a full disc, and that below which a cell has no arrow
FULL, LEAST = 0.12, 0.002
PICTURES = {
    "risk-limits": ("neutral", "safe_set", "task_floors"),
    "risk-worst-case": ("neutral", "peak_exposure", "worst_task"),
    "risk-steps": ("neutral", "variance", "cvar"),
    "risk-familiar": ("earlier", "kl", "total_variation", "quadratic"),
    "risk-places": ("neutral", "wasserstein", "entropy"),
}


def heading(name: str, solution: ca.Solution) -> str:
    """The risk, its caution and the return."""
    if name == "earlier":
        return "earlier behaviour"
    earned = f"return {solution.expected_return:.2f}"
    asked = "risk-neutral" if name == "neutral" else f"{solution.risk_label}, caution {solution.caution:g}"
    return f"{asked}\n{earned}"


def draw(names: tuple[str, ...], solutions: dict[str, Any]) -> bytes:
    """Several policies side by side."""
    figure = new_figure(LIGHT, 8.4, 2.2 if len(names) == 3 else 1.75)
    for axes, name in zip(figure.subplots(1, len(names)), names, strict=True):
        draw_yard(axes, solutions[name])
        title(axes, heading(name, solutions[name]), LIGHT)
    return png(figure, dpi=140)


def draw_yard(axes: Any, solution: ca.Solution) -> None:
    """The map, with a disc per cell whose area is the share of time, and an arrow for the mean direction."""
    scene, time = solution.mdp.scene, solution.occupancy.sum(axis=1)
    assert scene is not None
    rows, columns = np.array(scene.cells).T
    tints = np.array([to_rgb(TINTS.get(scene.grid[i][j], LIGHT.paper)) for i, j in scene.cells])
    paint_cells(axes, solution.mdp, tints, LIGHT, lines=LIGHT.faint)
    for row, column, share in zip(rows, columns, time, strict=True):
        radius = 0.46 * np.sqrt(min(share / FULL, 1.0))
        axes.add_patch(Circle((column, row), radius, color=LIGHT.chosen, alpha=0.45, linewidth=0))
    heads = solution.policy @ MOVES
    here = time > LEAST
    arrows = {"angles": "xy", "scale_units": "xy", "scale": 1, "units": "xy", "width": 0.07, "pivot": "mid"}
    axes.quiver(columns[here], rows[here], *(0.6 * heads[here].T), color=LIGHT.ink, **arrows)
    axes.set(xlabel="", ylabel="", xticks=[], yticks=[])


if __name__ == "__main__":
    solutions = run_page("which-risk.md")
    solutions["earlier"] = ca.solve(ca.Problem(solutions["before"]))
    for picture, names in PICTURES.items():
        (HERE / f"{picture}.png").write_bytes(draw(names, solutions))
    (HERE / "risk-return.png").write_bytes(png(plot_return(solutions["steady"]), dpi=110))
