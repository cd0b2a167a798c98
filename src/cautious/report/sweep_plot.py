"""The figure of a sweep: a panel for each problem, a line with its band for each method."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from cautious.errors import InputError, shown
from cautious.report.canvas import GREEN, LIGHT, PURPLE, Theme, dress_curves, new_figure, title
from cautious.sweeps.results import Sweep
from cautious.sweeps.runs import EXACT

PANEL_WIDTH, PANEL_HEIGHT = 4.6, 3.6
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
MOST_TICKS, LARGEST_PLAIN_NUMBER = 5, 1_000_000
LABELS = {
    "objective": "objective",
    "expected_return": "expected return",
    "risk": "risk",
    "gap": "gap to the best policy",
    "samples": "samples",
    "caution": "caution",
}


def plot_sweep(sweep: Sweep, number: str | None = None, against: str | None = None, *, theme: Theme = LIGHT) -> Any:
    """Interquartile means over seeds, and their bootstrap bands."""
    if against is None:
        learned = {row["samples"] for row in sweep.rows if row["method"] != EXACT}
        against = "samples" if len(learned) > 1 else "caution"
    if not isinstance(against, str) or against not in ("samples", "caution"):
        raise InputError(f"against is {shown(against)}; it can be samples or caution")
    if number is None:
        has_gap = any(row["gap"] is not None for row in sweep.rows)
        number = "gap" if against == "samples" and has_gap else "objective"
    points = [row for row in sweep.summary(number) if row["method"] != EXACT or number != "gap"]
    if not points:
        raise InputError(f"no run of this sweep has a finite {LABELS[number]}; there is nothing to draw")
    problems = list(dict.fromkeys(row["problem"] for row in points))
    methods = list(dict.fromkeys(row["method"] for row in points))
    colours = dict(zip(methods, cycle((theme.chosen, theme.neutral, GREEN, PURPLE, theme.wall)), strict=False))
    figure = new_figure(theme, PANEL_WIDTH * len(problems), PANEL_HEIGHT)
    panels = figure.subplots(1, len(problems), squeeze=False)[0]
    for axes, problem in zip(panels, problems, strict=True):
        _draw_problem(axes, [row for row in points if row["problem"] == problem], against, colours)
        axes.set(xlabel=LABELS[against], ylabel=LABELS[number])
        if number == "gap" and axes.dataLim.y0 > 0:
            axes.set_yscale("log")
        title(axes, problem, theme)
        dress_curves(axes, theme)
        axes.legend(frameon=False, fontsize=8, labelcolor=theme.ink)
    return figure


def _draw_problem(axes: Any, points: Sequence[dict[str, Any]], against: str, colours: Mapping[str, str]) -> None:
    """A line for each method and, dashed otherwise, for each value of what the axis does not show."""
    other = "caution" if against == "samples" else "samples"
    learned = [row for row in points if row["method"] != EXACT]
    values = sorted({row[other] for row in learned})
    for method in dict.fromkeys(row["method"] for row in points):
        style = {"color": colours[method], "label": method}
        mine = [row for row in points if row["method"] == method]
        if method == EXACT and against == "samples":
            for row in mine:
                axes.axhline(row["iqm"], linewidth=1.0, **style)
        elif method == EXACT:
            _draw_line(axes, mine, against, style)
        else:
            for value, dashes in zip(values, cycle(DASHES), strict=False):
                line = [row for row in mine if row[other] == value]
                label = method if len(values) == 1 else f"{method}, {other} {value:,g}"
                _draw_line(axes, line, against, {**style, "label": label, "linestyle": dashes})
    places = sorted({row[against] for row in learned or points})
    if places[0] > 0 and places[-1] > 5 * places[0]:
        axes.set_xscale("log")
    axes.minorticks_off()
    shown_places = places[:: -(-len(places) // MOST_TICKS)]
    axes.set_xticks(
        shown_places, [f"{place:,g}" if place < LARGEST_PLAIN_NUMBER else f"{place:.3g}" for place in shown_places]
    )


def _draw_line(axes: Any, line: Sequence[dict[str, Any]], against: str, style: dict[str, Any]) -> None:
    if not line:
        return
    line = sorted(line, key=lambda row: float(row[against]))
    x, middle, low, high = (np.array([row[name] for row in line], float) for name in (against, "iqm", "low", "high"))
    axes.fill_between(x, low, high, color=style["color"], alpha=0.2, linewidth=0)
    axes.plot(x, middle, marker="o", markersize=3, linewidth=1.4, **style)
