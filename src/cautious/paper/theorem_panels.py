"""The figure of the theorems: six panels on logarithmic axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.paper.duality_gap import GapCurve
from cautious.paper.evidence import band
from cautious.paper.sample_growth import Growth
from cautious.paper.theorem_study import TheoremStudy
from cautious.report.canvas import GREEN, PURPLE, Theme, dress, new_figure, title

MARKERS = ("o", "s", "^")
SMALL = 8
LINE = {"linewidth": 1.1, "markersize": 3.5}
GUIDE = {"linewidth": 1.0, "marker": "none"}


def draw(found: TheoremStudy, theme: Theme) -> Any:
    """Theorem 1, the two halves of Theorem 2, Corollary 1, and the growth with pairs and horizon."""
    figure = new_figure(theme, 12.5, 7.6)
    (gap, loss, flow), (divergence, pairs, horizon) = figure.subplots(2, 3)
    colours = (theme.neutral, theme.chosen, GREEN)
    _against_samples(gap, found.curves, colours, ("gap", "-"), ("bound", ":"))
    _against_samples(loss, found.curves, colours, ("suboptimality", "-"), ("bound", ":"), ("policy_error", "--"))
    _against_samples(flow, found.curves, colours, ("violation", "-"), ("violation_bound", ":"))
    by_caution = list(found.by_caution.values())
    kinds = ("divergence", "-"), ("divergence_bound", ":"), ("divergence_allowed", "--")
    _against_samples(divergence, by_caution, (PURPLE, theme.chosen, theme.ink), *kinds)
    names = ("Theorem 1: duality gap", "Theorem 2: loss of the average", "Theorem 2: flow violation of the average")
    labels = ("duality gap, units of return", "loss, units of return", "flow violation, 1-norm")
    for axes, letter, name, label in zip((gap, loss, flow), "abc", names, labels, strict=True):
        _name(axes, theme, f"({letter}) {name}", "samples T", label)
    _name(divergence, theme, "(d) Corollary 1: divergence from the optimum", "samples T", "KL divergence, nats")
    _samples_needed(pairs, found.growth, found.plan.accuracy, theme)
    _horizon(horizon, found.horizon, found.plan.horizon_samples, theme)
    _legends(theme, gap, loss, flow, divergence, found)
    for axes in (gap, loss, flow, divergence, pairs, horizon):
        dress(axes, theme)
        axes.minorticks_off()
    return figure


def _against_samples(axes: Any, curves: Sequence[GapCurve], colours: Sequence[str], *kinds: tuple[str, str]) -> None:
    """Each kind is a number of ``Measured`` and a line; the first has markers and its 95 % intervals."""
    for one, colour, marker in zip(curves, colours, MARKERS, strict=True):
        (first, line), *others = kinds
        mean, low, high = band(one.each(first).T)
        _band(axes, one.samples, low, high, colour)
        axes.loglog(one.samples, np.abs(mean), line, color=colour, **LINE)
        # a hollow mark is a negative number, drawn by its size
        _marks(axes, one.samples, np.abs(mean), mean < 0, colour, marker)
        for name, style in others:
            axes.loglog(one.samples, one.each(name).mean(axis=1), style, color=colour, **GUIDE)


def _band(axes: Any, x: Sequence[float], low: Array, high: Array, colour: str) -> None:
    """The 95 % interval where it is positive: there is no other place for it on a logarithmic axis."""
    shown = low > 0
    axes.fill_between(np.asarray(x), np.where(shown, low, 1), high, where=shown, color=colour, alpha=0.22, linewidth=0)


def _marks(axes: Any, x: Sequence[float], y: Array, negative: Array, colour: str, marker: str) -> None:
    for hollow in (False, True):
        here = negative == hollow
        face = "none" if hollow else colour
        axes.plot(
            np.asarray(x)[here], y[here], marker, color=colour, markerfacecolor=face, markersize=LINE["markersize"]
        )


def _name(axes: Any, theme: Theme, name: str, x: str, y: str) -> None:
    title(axes, name, theme)
    axes.set(xlabel=x, ylabel=y)


def _legends(theme: Theme, gap: Any, loss: Any, flow: Any, divergence: Any, found: TheoremStudy) -> None:
    """Problems are named once, in (a); the other panels say what their lines are."""
    colours = (theme.neutral, theme.chosen, GREEN)
    for one, colour, marker in zip(found.curves, colours, MARKERS, strict=True):
        gap.plot([], [], f"{marker}-", color=colour, label=one.instance.name, **LINE)
    for axes, lines in (
        (gap, {":": "bound of Theorem 1"}),
        (loss, {"-": "average (95 % band)", "--": "policy read off it", ":": "bound of Theorem 2"}),
        (flow, {"-": "average", ":": "bound of Theorem 2"}),
    ):
        for style, label in lines.items():
            axes.plot([], [], style, color=theme.ink, linewidth=1.0, label=label)
    for (caution, _), colour, marker in zip(
        found.by_caution.items(), (PURPLE, theme.chosen, theme.ink), MARKERS, strict=True
    ):
        divergence.plot([], [], f"{marker}-", color=colour, label=f"caution c = {caution:g}", **LINE)
    divergence.plot([], [], "--", color=theme.ink, linewidth=1.0, label="measured gap / c")
    divergence.plot([], [], ":", color=theme.ink, linewidth=1.0, label="bound of Theorem 1 / c")
    for axes in (gap, loss, flow, divergence):
        _room_below(axes)
        _legend(axes, theme, "lower left")


def _room_below(axes: Any) -> None:
    """Space for the legend under the curves."""
    low, high = np.log10(axes.get_ylim())
    axes.set_ylim(10 ** (low - 0.42 * (high - low)), 10**high)


def _legend(axes: Any, theme: Theme, place: str) -> None:
    axes.legend(fontsize=SMALL, frameon=False, loc=place, labelcolor=theme.ink, handlelength=2.2, labelspacing=0.3)


def _samples_needed(axes: Any, growth: Growth, accuracy: float, theme: Theme) -> None:
    x, y = np.array(growth.x), np.array([one.mean for one in growth.y])
    _points(axes, growth, theme)
    middle = np.exp(np.log(y).mean())
    for law, style, label in ((x, "--", "|S||A|"), (x * np.log(x), ":", "|S||A| log(|S||A|), Theorem 1")):
        axes.loglog(
            x, middle * law / np.exp(np.log(law).mean()), style, color=theme.ink, label=f"slope of {label}", **GUIDE
        )
    _ticks(axes, growth)
    _name(axes, theme, f"(e) Samples for a mean gap of {accuracy:g}", "pairs |S||A|", "samples T")
    _legend(axes, theme, "upper left")


def _horizon(axes: Any, growth: Growth, samples: int, theme: Theme) -> None:
    x, y = np.array(growth.x), np.array([one.mean for one in growth.y])
    _points(axes, growth, theme)
    axes.loglog(x, y[0] * (x / x[0]) ** 2, ":", color=theme.ink, label="slope 2, Theorem 1", **GUIDE)
    _ticks(axes, growth)
    _name(axes, theme, f"(f) Gap after {samples:,} samples", "horizon 1/(1 - gamma)", "duality gap, units of return")
    _legend(axes, theme, "upper left")


def _points(axes: Any, growth: Growth, theme: Theme) -> None:
    y = np.array([one.mean for one in growth.y])
    reach = np.array([[one.mean - one.low, one.high - one.mean] for one in growth.y]).T
    colour = theme.neutral
    label = f"measured, exponent {growth.exponent.mean:.2f}"
    axes.loglog(growth.x, y, "o-", color=colour, label=label, **LINE)
    axes.errorbar(growth.x, y, reach, fmt="none", ecolor=colour, elinewidth=1.0, capsize=2.5)


def _ticks(axes: Any, growth: Growth) -> None:
    """Marks at the measured places, and plain numbers at the side; after all lines, which reset them."""
    axes.set_xticks(growth.x, [f"{mark:.2g}" if mark < 10 else f"{mark:.0f}" for mark in growth.x], minor=False)
    low, high = axes.get_ylim()
    steps = np.ravel(np.outer(10.0 ** np.arange(-2, 9), (1, 2, 5) if high < 100 * low else (1,)))
    shown = [mark for mark in steps if low <= mark <= high]
    axes.set_yticks(shown, [f"{mark:,.10g}" for mark in shown], minor=False)
