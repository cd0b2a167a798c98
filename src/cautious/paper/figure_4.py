"""Figure 4 of the paper: return and time in unrewarding states while learning, with and without a prior.

Below the paper's Algorithm 1 stands our learner: what both show belongs to the formulation.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.paper.evidence import Part, Row, Scale, Video, band
from cautious.paper.prior_claims import claims
from cautious.paper.prior_curves import LearningCurve, running_average
from cautious.paper.prior_runs import prior_risk
from cautious.paper.prior_study import LEVEL, PriorStudy, Size, study
from cautious.paper.training import snapshots
from cautious.paper.videos import AGENTS, can_film, film
from cautious.report.canvas import GREEN, Theme, dress_curves, new_figure, title
from cautious.worlds.grids import drift, drift_prior

CAUTIONS = (1.0, 5.0)
MIX = 0.05
# 5,000 iterations fit in one piece of work, so that all learners are looked at after the same iterations
FULL_SIZE = Size(1_000_000, 5_000, tuple(round(1000 * 2 ** (k / 2)) for k in range(15)), workers=2, tuning_seeds=2)
QUICK_SIZE = Size(30_000, 1_500, (1_000, 2_000, 4_000, 8_000, 16_000), workers=1, tuning_seeds=1)
# parts of the iterations at which the film looks; and the moves of each stage
STAGES, MOVES = (0.005, 0.02, 0.1), 30
# for those who see no colours
DASHES = ("solid", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)))
QUANTITIES = ("earned", "dark")
LABELS = {"earned": "discounted return (points)", "dark": "time in dark cells (%)"}

Band = tuple[Array, Array, Array, Array]


def make(scale: Scale) -> Part:
    """Run it and say what came out."""
    mdp, prior = drift(), drift_prior(MIX)
    size = QUICK_SIZE if scale.quick else FULL_SIZE
    found = study(mdp, prior, CAUTIONS, size, range(scale.seeds))
    lines = bands(found)
    return Part(
        key="figure-4",
        title="Figure 4: learning with and without a prior",
        caption=_caption(found, scale),
        alt=(
            "Four panels over the number of samples: discounted return and time in dark cells, Algorithm 1 above and "
            "our learner below, each risk-neutral and with KL to the prior."
        ),
        draw=lambda theme: _draw(found, lines, theme),
        rows=tuple(_rows(lines)),
        claims=claims(found),
        videos=(_video(mdp, prior, found),) if can_film() else (),
    )


def bands(found: PriorStudy) -> dict[tuple[str, str, str, float], Band]:
    """What is drawn, (samples, mean, low, high) by (learner, quantity, how, caution); shares in percent."""
    lines: dict[tuple[str, str, str, float], Band] = {}
    for quantity in QUANTITIES:
        for caution, curves in found.printed.items():
            now = _values(curves, quantity)
            average = np.array([running_average(one) for one in now])
            lines["Algorithm 1", quantity, "running average", caution] = _band(curves[0].samples, average)
            lines["Algorithm 1", quantity, "policy", caution] = _band(curves[0].samples, now)
        for caution, curves in found.ours.items():
            lines["primal-dual", quantity, "policy", caution] = _band(curves[0].samples, _values(curves, quantity))
    return lines


def _values(curves: Sequence[LearningCurve], quantity: str) -> Array:
    """(seeds, points)."""
    return np.array([one.earned if quantity == "earned" else 100 * one.dark for one in curves])


def _band(samples: Array, values: Array) -> Band:
    mean, low, high = band(values)
    return samples, mean, low, high


def _rows(lines: Mapping[tuple[str, str, str, float], Band]) -> Iterator[Row]:
    for (learner, quantity, how, caution), line in lines.items():
        name = "return" if quantity == "earned" else "percent of time in dark cells"
        for samples, mean, low, high in zip(*(part.tolist() for part in line), strict=True):
            yield {
                "learner": learner,
                "quantity": name,
                "how": how,
                "caution": caution,
                "samples": int(samples),
                "mean": mean,
                "low": low,
                "high": high,
            }


def _caption(found: PriorStudy, scale: Scale) -> str:
    size, method = found.size, found.tuning.method
    return (
        f"Drifted world, {scale.seeds} seeds, mean and 95 % interval of the mean. (a), (b): Algorithm 1. After every "
        f"{size.every:,} iterations the policy is read off the average occupancy, and its exact discounted return and "
        "exact share of discounted time in dark cells are computed; thick lines are the running averages of these "
        "numbers over all looks so far, dotted lines the numbers themselves. Steps "
        f"{method.multiplier_step:g} (multipliers) and {method.occupancy_step:g} (occupancy) for all three, no shifts. "
        "(c), (d): our learner (primal-dual), one whole run for each number of samples, no running average. The grey "
        f"line is the level at which learners are timed, {100 * LEVEL:g} % of the smallest optimal return. "
        f"The prior is mixed with {100 * MIX:g} % of the uniform distribution."
    )


def _draw(found: PriorStudy, lines: Mapping[tuple[str, str, str, float], Band], theme: Theme) -> Any:
    figure = new_figure(theme, 9.6, 6.2)
    panels = figure.subplots(2, 2, sharex=True, sharey="col")
    colours = dict(zip(found.printed, (theme.neutral, theme.chosen, GREEN), strict=True))
    dashes = dict(zip(found.printed, DASHES, strict=True))
    names = ("Algorithm 1, running average", "our learner")
    for row, learner in enumerate(("Algorithm 1", "primal-dual")):
        for column, quantity in enumerate(QUANTITIES):
            axes = panels[row, column]
            for caution, colour in colours.items():
                how = "running average" if learner == "Algorithm 1" else "policy"
                samples, mean, low, high = lines[learner, quantity, how, caution]
                label = f"KL to the prior, caution {caution:g}" if caution > 0 else "risk-neutral"
                axes.plot(samples, mean, color=colour, linewidth=1.4, linestyle=dashes[caution], label=label)
                axes.fill_between(samples, low, high, color=colour, alpha=0.22, linewidth=0)
                if how == "running average":
                    samples, mean, *_ = lines[learner, quantity, "policy", caution]
                    axes.plot(samples, mean, color=colour, linewidth=0.8, linestyle="dotted")
            if quantity == "earned":
                axes.axhline(found.level, color=theme.wall, linewidth=0.8, zorder=0)
            axes.set(xscale="log", ylabel=LABELS[quantity])
            title(axes, f"({'abcd'[2 * row + column]}) {names[row]}", theme)
            dress_curves(axes, theme)
    for axes in panels[:, 1]:
        axes.set_ylim(bottom=0)
    for axes in panels[1]:
        axes.set_xlabel("samples (= iterations of Algorithm 1, log scale)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9, labelcolor=theme.ink)
    return figure


def _video(mdp: MDP, prior: Array, found: PriorStudy) -> Video:
    """Agents at four moments of training, neutral beside cautious."""
    caution, marks = min(found.cautions), [int(part * found.size.samples) for part in STAGES]
    blank = uniform_policy(mdp.allowed)
    neutral, cautious = "risk-neutral", f"KL to the prior, caution {caution:g}"
    stages = [("before learning", {neutral: blank, cautious: blank})]
    runs = (
        [one.policy for one in snapshots(mdp, prior_risk(prior, c), c, found.tuning.method, marks[-1], 0, marks)]
        for c in (0.0, caution)
    )
    for mark, first, second in zip(marks, *runs, strict=True):
        stages.append((f"after {mark:,} iterations of Algorithm 1", {neutral: first, cautious: second}))
    return Video(
        name="figure-4-training",
        caption=(
            f"{AGENTS} agents in the drifted world, before and during training with Algorithm 1 (seed 0): risk-neutral "
            f"on the left, with KL to the prior and caution {caution:g} on the right, with the same random numbers. "
            f"{MOVES} moves of each stage are shown, and the counts are over these."
        ),
        content=film(mdp, stages, seed=0, steps=MOVES),
    )
