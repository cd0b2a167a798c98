"""Theorems 1 and 2 and Corollary 1, checked on models whose optimum is known."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.paper.duality_gap import GapCurve
from cautious.paper.evidence import Part, Row, Scale
from cautious.paper.theorem_claims import all_claims
from cautious.paper.theorem_study import (
    ACTIONS,
    DISCOUNT,
    GRID,
    HORIZON_STATES,
    SUCCESSORS,
    Growth,
    TheoremStudy,
    study,
)
from cautious.report.canvas import GREEN, PURPLE, Theme, dress, new_figure, title
from cautious.sweeps.statistics import Interval, band

MARKERS = ("o", "s", "^")
LINE = {"linewidth": 1.1, "markersize": 3.5}
GUIDE = {"linewidth": 1.0, "marker": "none"}
# what is drawn against T, and the bound beside it
AGAINST_SAMPLES = (("gap", "bound"), ("suboptimality", "bound"), ("policy_error", ""), ("violation", "violation_bound"))
OF_COROLLARY = (("divergence", "divergence_bound"), ("divergence_allowed", "divergence_bound"))


def make(scale: Scale, executor: Executor | None = None) -> Part:
    """The figure, its numbers and its claims."""
    found = study(scale, executor)
    return Part(
        key="theorems",
        title="The theorems, checked",
        caption=_caption(found),
        alt=(
            "Six panels on logarithmic axes: the duality gap, the loss and the flow violation of the average of "
            "Algorithm 1 against the number of samples, each well below its bound; the KL divergence from the optimum "
            "for three cautions; the samples needed against the number of pairs; the gap against the horizon."
        ),
        draw=lambda theme: _draw(found, theme),
        rows=tuple(rows(found)),
        claims=all_claims(found),
    )


def rows(found: TheoremStudy) -> Iterator[Row]:
    """One mapping per measured point: the mean over seeds, its interval, and the bound where there is one."""
    for one in found.curves:
        yield from _curve_rows(one, AGAINST_SAMPLES)
    for one in found.by_caution.values():
        yield from _curve_rows(one, OF_COROLLARY)
    needed, after = (
        f"samples for a mean gap of {found.plan.accuracy:g}",
        f"gap after {found.plan.horizon_samples} samples",
    )
    for growth, case, number, against in (
        (found.growth, f"garnets, discount {DISCOUNT:g}", needed, "pairs"),
        (found.horizon, f"garnets of {HORIZON_STATES} states", after, "horizon"),
    ):
        for x, mean in zip(growth.x, growth.y, strict=True):
            yield _row(case, number, against, x, mean, "")


def _curve_rows(one: GapCurve, numbers: tuple[tuple[str, str], ...]) -> Iterator[Row]:
    for number, bound in numbers:
        limits: list[float | str] = list(one.numbers[bound].mean(axis=1)) if bound else [""] * len(one.samples)
        for samples, mean, limit in zip(one.samples, one.across(number), limits, strict=True):
            yield _row(one.instance.name, number, "samples", samples, mean, limit)


def _row(case: str, number: str, against: str, x: float, mean: Interval, bound: float | str) -> Row:
    return {
        "case": case,
        "number": number,
        "against": against,
        "x": x,
        "mean": mean.mean,
        "low": mean.low,
        "high": mean.high,
        "seeds": mean.n,
        "bound": bound,
    }


def _caption(found: TheoremStudy) -> str:
    garnet, grid = found.curves[0].instance, found.curves[-1].instance
    return (
        f"Algorithm 1 as printed, with the constants of Theorem 1; means over {found.seeds} seeds with 95 % intervals. "
        "(a)-(c) Against the samples T, beside the bounds (dotted), on a garnet of "
        f"{garnet.problem.mdp.n_states} states ({garnet.pairs} pairs) and a {len(GRID)}x{len(GRID[0])} grid "
        f"({grid.pairs} pairs), discount {DISCOUNT:g}; every T is a run of its own, because the steps depend on T. "
        "(b) The average does not balance the flow, so the policy read off it (dashed) has a loss of its own; a hollow "
        "mark is a loss below zero. (d) The KL divergence of the average from the optimum, beside epsilon / c with the "
        "measured gap (dashed) and with the bound (dotted) for epsilon. (e) The samples after which the mean gap is "
        f"{found.plan.accuracy:g}, on garnets of one kind ({ACTIONS} actions, {SUCCESSORS} successors, discount "
        f"{DISCOUNT:g}). (f) The gap at one T, on garnets of {HORIZON_STATES} states that differ in the discount only. "
        "Gaps and losses are in units of return; rewards outside [0, 1] are rescaled inside, and the bounds are scaled "
        "back."
    )


def _draw(found: TheoremStudy, theme: Theme) -> Any:
    """Theorem 1, both halves of Theorem 2, Corollary 1, and the growth with pairs and horizon, on logarithmic axes."""
    figure = new_figure(theme, 12.5, 7.6)
    (gap, loss, flow), (divergence, pairs, horizon) = figure.subplots(2, 3)
    problems = list(zip(found.curves, (theme.neutral, theme.chosen, GREEN), strict=True))
    cautions = list(zip(found.by_caution.values(), (PURPLE, theme.chosen, theme.ink), strict=True))
    # the problems are named once, in (a); the other panels say what their lines are
    names = [one.instance.name for one in found.curves]
    _against_samples(gap, theme, problems, {"gap": "", "bound": "bound of Theorem 1"}, names)
    lines = {
        "suboptimality": "average (95 % band)",
        "policy_error": "policy read off it",
        "bound": "bound of Theorem 2",
    }
    _against_samples(loss, theme, problems, lines)
    _against_samples(flow, theme, problems, {"violation": "average", "violation_bound": "bound of Theorem 2"})
    lines = {"divergence": "", "divergence_allowed": "measured gap / c", "divergence_bound": "bound of Theorem 1 / c"}
    _against_samples(divergence, theme, cautions, lines, [f"caution c = {caution:g}" for caution in found.by_caution])
    x, y = np.array(found.growth.x), np.array([one.mean for one in found.growth.y])
    middle = np.exp(np.log(y).mean())
    laws = {"|S||A|": x, "|S||A| log(|S||A|), Theorem 1": x * np.log(x)}
    scaled = {f"slope of {name}": middle * law / np.exp(np.log(law).mean()) for name, law in laws.items()}
    _growth(pairs, found.growth, dict(zip(("--", ":"), scaled.items(), strict=True)), theme)
    x = np.array(found.horizon.x)
    _growth(horizon, found.horizon, {":": ("slope 2, Theorem 1", found.horizon.y[0].mean * (x / x[0]) ** 2)}, theme)
    loss_label = "duality gap, units of return"
    for axes, name, across, up in (
        (gap, "(a) Theorem 1: duality gap", "samples T", loss_label),
        (loss, "(b) Theorem 2: loss of the average", "samples T", "loss, units of return"),
        (flow, "(c) Theorem 2: flow violation of the average", "samples T", "flow violation, 1-norm"),
        (divergence, "(d) Corollary 1: divergence from the optimum", "samples T", "KL divergence, nats"),
        (pairs, f"(e) Samples for a mean gap of {found.plan.accuracy:g}", "pairs |S||A|", "samples T"),
        (horizon, f"(f) Gap after {found.plan.horizon_samples:,} samples", "horizon 1/(1 - gamma)", loss_label),
    ):
        title(axes, name, theme)
        axes.set(xlabel=across, ylabel=up)
        place = "upper left" if axes in (pairs, horizon) else "lower left"
        axes.legend(fontsize=8, frameon=False, loc=place, labelcolor=theme.ink, handlelength=2.2, labelspacing=0.3)
        dress(axes, theme)
        axes.minorticks_off()
    return figure


def _against_samples(
    axes: Any, theme: Theme, curves: Sequence[tuple[GapCurve, str]], lines: Mapping[str, str], names: Sequence[str] = ()
) -> None:
    """Curves in their colours; ``lines`` has numbers of ``measure`` and what the legend says about them.

    The first number is a solid line with markers and its 95 % interval, a second of three is dashed, the bound, which
    is the last, is dotted.
    """
    first, *others = lines
    styles = {first: "-", **dict(zip(others, ("--", ":")[-len(others) :], strict=True))}
    for (one, colour), marker in zip(curves, MARKERS, strict=True):
        samples = np.asarray(one.samples)
        mean, low, high = band(one.numbers[first].T)
        # there is no other place on a logarithmic axis than where the interval is positive
        shown = low > 0
        axes.fill_between(samples, np.where(shown, low, 1), high, where=shown, color=colour, alpha=0.22, linewidth=0)
        axes.loglog(samples, np.abs(mean), "-", color=colour, **LINE)
        # a hollow mark is a negative number, drawn by its size
        for here, face in ((mean >= 0, colour), (mean < 0, "none")):
            style = {"color": colour, "markerfacecolor": face, "markersize": LINE["markersize"]}
            axes.plot(samples[here], np.abs(mean)[here], marker, **style)
        for number in reversed(others):
            axes.loglog(samples, one.numbers[number].mean(axis=1), styles[number], color=colour, **GUIDE)
    for name, (_, colour), marker in zip(names, curves, MARKERS, strict=False):
        axes.plot([], [], f"{marker}-", color=colour, label=name, **LINE)
    for number, label in lines.items():
        if label:
            axes.plot([], [], styles[number], color=theme.ink, linewidth=1.0, label=label)
    # room for the legend under the curves
    low, high = np.log10(axes.get_ylim())
    axes.set_ylim(10 ** (low - 0.42 * (high - low)), 10**high)


def _growth(axes: Any, growth: Growth, laws: Mapping[str, tuple[str, Array]], theme: Theme) -> None:
    """Measured points with their intervals beside power laws, each by its style: its label and its values."""
    y = np.array([one.mean for one in growth.y])
    reach = np.array([[one.mean - one.low, one.high - one.mean] for one in growth.y]).T
    label = f"measured, exponent {growth.exponent.mean:.2f}"
    axes.loglog(growth.x, y, "o-", color=theme.neutral, label=label, **LINE)
    axes.errorbar(growth.x, y, reach, fmt="none", ecolor=theme.neutral, elinewidth=1.0, capsize=2.5)
    for style, (name, values) in laws.items():
        axes.loglog(growth.x, values, style, color=theme.ink, label=name, **GUIDE)
    # marks at the measured places, and plain numbers at the side; after all lines, which reset them
    axes.set_xticks(growth.x, [f"{mark:.2g}" if mark < 10 else f"{mark:.0f}" for mark in growth.x], minor=False)
    low, high = axes.get_ylim()
    steps = np.ravel(np.outer(10.0 ** np.arange(-2, 9), (1, 2, 5) if high < 100 * low else (1,)))
    shown = [mark for mark in steps if low <= mark <= high]
    axes.set_yticks(shown, [f"{mark:,.10g}" for mark in shown], minor=False)
