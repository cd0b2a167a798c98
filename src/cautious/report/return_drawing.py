"""Pictures of how the return of an episode is distributed: computed, with quantiles and tail marked, or simulated."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.evaluation.evaluate import TAIL_LEVEL, Evaluation
from cautious.report.canvas import Theme, dress
from cautious.report.words import number, percent
from cautious.returns.forward import ReturnDistribution
from cautious.risks.returns import ReturnBelow
from cautious.solution import Solution

BINS = 60
# what is beyond these shares on both sides is drawn at the ends
DRAWN_SHARE = 1e-3
MARKED_SHARES = (0.05, 0.95)
# of the standard deviation: with bounds of quantiles that are further apart nothing is drawn
LARGEST_RESOLUTION = 0.15
# of the standard deviation: smaller errors are not mentioned
SHOWN_SHARE = 1e-3


def is_drawable(returns: ReturnDistribution | None) -> bool:
    """Whether its cells are narrow enough for a drawing."""
    return returns is not None and returns.resolution <= LARGEST_RESOLUTION * math.sqrt(returns.variance)


def tail_level(solution: Solution) -> float:
    """The level that the risk of a solution has, else the usual one."""
    risk = None if solution.problem is None else solution.problem.return_risk
    return (None if risk is None else risk.tail_level) or TAIL_LEVEL


def draw_return(
    axes: Any, series: Sequence[tuple[str, str, ReturnDistribution]], level: float, label: str, theme: Theme
) -> None:
    """Chances of the returns of one or two policies, (name, colour, distribution); those of the last are marked."""
    ends = [
        one.quantile(share)[side] for *_, one in series for side, share in enumerate((DRAWN_SHARE, 1 - DRAWN_SHARE))
    ]
    low, high = min(ends), max(ends)
    room = 0.02 * (high - low) or max(1e-9 * abs(low), 1e-9)
    edges = np.linspace(low - room, high + room, BINS + 1)
    for name, colour, one in series:
        share = 100 * np.histogram(np.clip(one.mean, edges[0], edges[-1]), edges, weights=one.mass)[0]
        _draw_shares(axes, name, colour, share, edges, one.expectation)
    _, colour, marked = series[-1]
    for below in MARKED_SHARES:
        axes.axvline(np.mean(marked.quantile(below)), color=colour, linewidth=1.0, linestyle=":")
    low, high = marked.cvar(level)
    tail = f"mean of the worst {percent_of(1 - level)}: {number(-0.5 * (low + high), 4)}"
    axes.plot([-0.5 * (low + high)], [0.0], "^", color=colour, markersize=9, clip_on=False, label=tail, zorder=5)
    axes.plot([], [], ":", color=colour, linewidth=1.0, label="5 % and 95 % quantiles")
    _name_axes(axes, label, "chance (%)", theme)


def draw_returns(axes: Any, series: Sequence[tuple[str, str, Evaluation]], label: str, theme: Theme) -> None:
    """Histograms of the simulated returns of one or two policies, (name, colour, evaluation), on common bins."""
    edges = np.histogram_bin_edges(np.concatenate([one.returns for *_, one in series]), bins=40)
    for name, colour, one in series:
        share = 100 * np.histogram(one.returns, edges)[0] / one.episodes
        # simulated means of two policies can stand in the wrong order
        _draw_shares(axes, name, colour, share, edges, one.mean if one.exact_mean is None else one.exact_mean)
    _name_axes(axes, label, "share of episodes (%)", theme)


def _draw_shares(axes: Any, name: str, colour: str, share: Array, edges: Array, mean: float) -> None:
    """The percentages of returns between edges, and their mean."""
    axes.stairs(share, edges, fill=True, color=colour, alpha=0.30)
    axes.stairs(share, edges, color=colour, linewidth=1.4, label=f"{name} (dashed: mean {number(mean, 4)})")
    axes.axvline(mean, color=colour, linewidth=1.4, linestyle=(0, (5, 3)))


def _name_axes(axes: Any, label: str, shares: str, theme: Theme) -> None:
    """Names of the axes, and a legend above them."""
    axes.set(xlabel=label, ylabel=shares)
    axes.xaxis.label.set_parse_math(False)
    axes.set_ylim(bottom=0)
    legend = axes.legend(frameon=False, fontsize=9, labelcolor=theme.ink, loc="lower left", bbox_to_anchor=(0, 1.0))
    legend.set_in_layout(True)
    dress(axes, theme)


def percent_of(share: float) -> str:
    """A round percentage: 5 %."""
    return f"{100 * share:.3g} %"


def return_words_of(returns: ReturnDistribution, level: float, unit: str) -> str:
    """Mean, deviation, quantiles and the mean of the worst returns, in sentences."""
    bounds = [returns.quantile(share) for share in (0.05, 0.5, 0.95)]
    low, high = returns.cvar(level)
    bounds.append((-high, -low))
    quantiles = [number(0.5 * sum(ends), 4) for ends in bounds]
    unsure = max(0.5 * (end - begin) for begin, end in bounds)
    known = "Computed from the model, not simulated."
    if unsure > SHOWN_SHARE * math.sqrt(returns.variance):
        known = f"Computed from the model, not simulated; all but mean and deviation to within {number(unsure, 2)}."
    return (
        f"An episode earns {number(returns.expectation, 5)}{unit} on average, with a standard deviation of "
        f"{number(math.sqrt(returns.variance), 4)}. One in twenty earns no more than {quantiles[0]}, half of them no "
        f"more than {quantiles[1]}, and all but one in twenty no more than {quantiles[2]}. The worst "
        f"{percent_of(1 - level)} earn {quantiles[3]} on average. {known}"
    )


def threshold_words(solution: Solution, returns: ReturnDistribution) -> str:
    """What is to be said of a threshold, if the risk has one."""
    risk = None if solution.problem is None else solution.problem.return_risk
    if not isinstance(risk, ReturnBelow):
        return ""
    low, high = returns.below(risk.threshold)
    chance = percent(high) if high - low < 1e-6 else f"{percent(low)} to {percent(high)}"
    return f"The chance to earn less than {number(risk.threshold)} is {chance}."
