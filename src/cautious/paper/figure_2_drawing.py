"""How figure 2 is drawn: curves over training with bands, and rounds on an upper axis."""

from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.paper.evidence import band
from cautious.paper.maze_training import (
    ALGORITHM_2,
    ASCENT,
    AVERSE,
    LEARNERS,
    NEUTRAL,
    PLUG_IN,
    PRIMAL_DUAL,
    Training,
)
from cautious.report.canvas import GREEN, PURPLE, Theme, dress_curves, new_figure, title
from cautious.report.words import scene_of

DASHES = {PLUG_IN: "-", PRIMAL_DUAL: (0, (4, 2))}
MARKERS = {PLUG_IN: "o", PRIMAL_DUAL: "s", ALGORITHM_2: "^"}
# the upper half of panel (a) enlarges this share of the distance from the uniform policy to the optimum
ENLARGED = 0.06
OPTIMUM, EXACT = "global optimum, proved", f"{ASCENT} (rounds, upper axis)"
# returns that never vary have no logarithm
LEAST_VARIANCE = 1e-6


def draw(training: Training, theme: Theme) -> Any:
    """Objective, mean and variance against training."""
    figure = new_figure(theme, 12.6, 4.6)
    grid = figure.add_gridspec(2, 3, width_ratios=(1.2, 1, 1), hspace=0.02)
    upper, lower = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    mean, variance = figure.add_subplot(grid[:, 1]), figure.add_subplot(grid[:, 2])
    unit = scene_of(training.problem.mdp).reward_unit
    _objective(upper, lower, training, theme)
    upper.set_ylabel(f"objective ({unit})")
    lower.set_ylabel(f"objective ({unit})")
    _returns(mean, training, theme, "mean")
    _returns(variance, training, theme, "variance")
    mean.set_ylabel(f"mean of the return ({unit})")
    variance.set(ylabel=f"variance of the return ({unit}², log scale)", yscale="log")
    named = {upper: "(a) objective, enlarged at the top", mean: "(b) mean", variance: "(c) variance"}
    for axes in (upper, lower, mean, variance):
        axes.set_xscale("log")
        title(axes, named.get(axes, ""), theme)
        axes.set_xlabel("" if axes is upper else "samples used in training (log scale)")
        dress_curves(axes, theme)
    _upper_half(upper, training)
    figure.align_ylabels((upper, lower))
    _legend(figure, (upper, mean), theme)
    return figure


def _objective(upper: Any, lower: Any, training: Training, theme: Theme) -> None:
    """One curve on two axes: near the optimum above, everything below it on another scale."""
    best, worst = training.optimum.objective, training.uniform_objective
    rounds, values = training.table(ASCENT, AVERSE, "objective")
    low, high = _ends(training)
    for axes in (upper, lower):
        axes.axhline(best, color=theme.ink, linewidth=1.0, linestyle=(0, (1, 1.5)), label=OPTIMUM)
        for name in LEARNERS:
            _curve(axes, training, name, AVERSE, "objective", theme.chosen)
        _curve(axes, training, ALGORITHM_2, AVERSE, "objective", PURPLE)
        shown = {"color": GREEN, "linewidth": 1.3, "label": EXACT}
        axes.plot(_samples_of(rounds, training), values[0], **shown)
        axes.set_xlim(low / 1.15, high * 1.15)
    reach = best - worst
    upper.set_ylim(best - ENLARGED * reach, best + 0.01 * reach)
    floor = min(worst, float(training.table(ALGORITHM_2, AVERSE, "objective")[1].min()))
    lower.set_ylim(floor - 0.1 * reach, best - ENLARGED * reach)


def _samples_of(rounds: Array, training: Training) -> Array:
    """Where a round lies on the axis of the samples: the rounds are spread evenly over its length."""
    low, high = _ends(training)
    return np.asarray(low * (high / low) ** (rounds / len(training.ascent.rounds)))


def _ends(training: Training) -> tuple[float, float]:
    at, _ = training.table(PLUG_IN, AVERSE, "gap")
    return float(at[0]), float(at[-1])


def _upper_half(axes: Any, training: Training) -> None:
    """Rounds above it; below, only the break between the two scales."""
    axes.tick_params(which="both", labelbottom=False, bottom=False)
    axes.spines["bottom"].set_linestyle((0, (3, 3)))
    rounds = np.arange(0.0, len(training.ascent.rounds) + 1, 10.0)
    scale = axes.secondary_xaxis("top")
    scale.set_ticks(_samples_of(rounds, training), [f"{k:g}" for k in rounds])
    scale.minorticks_off()
    scale.set_xlabel("rounds of Algorithm 2 with exact inner solves", fontsize=9, color=GREEN)
    scale.tick_params(colors=GREEN, labelsize=8)
    scale.spines["top"].set_color(GREEN)


def _returns(axes: Any, training: Training, theme: Theme, name: str) -> None:
    for policy, colour in ((NEUTRAL, theme.neutral), (AVERSE, theme.chosen)):
        for method in LEARNERS:
            _curve(axes, training, method, policy, name, colour)


def _curve(axes: Any, training: Training, method: str, policy: str, name: str, colour: str) -> None:
    """The mean over seeds and its band; of the logarithms for the variance, which is drawn on their scale."""
    at, values = training.table(method, policy, name)
    if name == "variance":
        middle, low, high = np.exp(band(np.log(np.maximum(values, LEAST_VARIANCE))))
    else:
        middle, low, high = band(values)
    style = {"color": colour, "linewidth": 1.3, "linestyle": DASHES.get(method, "-"), "markersize": 3.5}
    label = method if method == ALGORITHM_2 else f"{policy}, {method}"
    axes.plot(at, middle, marker=MARKERS[method], label=label, **style)
    axes.fill_between(at, low, high, color=colour, alpha=0.2, linewidth=0)


def _legend(figure: Any, panels: tuple[Any, ...], theme: Theme) -> None:
    """One for all panels: a column per policy, one for Algorithm 2, and the optimum."""
    handles: dict[str, Any] = {}
    for axes in panels:
        found, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    names = [f"{policy}, {method}" for policy in (NEUTRAL, AVERSE) for method in LEARNERS]
    names += [ALGORITHM_2, EXACT, OPTIMUM]
    style = {"frameon": False, "fontsize": 9, "labelcolor": theme.ink, "ncols": 4}
    figure.legend([handles[name] for name in names], names, loc="outside lower center", **style)
