"""Figure 4 of the paper: return and time in unrewarding states while learning, with and without a prior.

Below the paper's Algorithm 1 stands our learner: what both show belongs to the formulation.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.paper.evidence import PaperClaim, Part, Row, Scale, Video
from cautious.paper.prior_study import (
    EARLY_SHARE,
    LEAST_LOOKS,
    LEVEL_SHARE,
    MULTIPLIER_STEPS,
    OCCUPANCY_STEPS,
    LearningCurves,
    PolicyValue,
    PriorStudy,
    Size,
    Speed,
    compare_speed,
    dark_avoided,
    ends_higher,
    mean_gain,
    overtaken_at,
    prior_risk,
    study,
)
from cautious.paper.training import snapshots
from cautious.paper.videos import AGENTS, can_film, film
from cautious.report.canvas import GREEN, Theme, dress_curves, new_figure, title
from cautious.sweeps.statistics import Interval, band
from cautious.worlds.grids import drift, drift_prior

CAUTIONS = (1.0, 5.0)
MIXED_SHARE = 0.05
# 5,000 iterations fit in one piece of work, so that all learners are looked at after the same iterations
FULL_SIZE = Size(1_000_000, 5_000, tuple(round(1000 * 2 ** (k / 2)) for k in range(15)), tuning_seeds=2)
QUICK_SIZE = Size(30_000, 1_500, (1_000, 2_000, 4_000, 8_000, 16_000), tuning_seeds=1)
# the parts of a run at which the time in dark cells is compared
MOMENTS = (1 / LEAST_LOOKS, EARLY_SHARE, 1.0)
# parts of the iterations at which the film looks; and the moves of each stage
STAGES, FILM_MOVES = (0.005, 0.02, 0.1), 30
# lines can be told apart without colours
DASHES = ("solid", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)))
LABELS = {"return": "discounted return (points)", "dark": "time in dark cells (%)"}

# samples, mean, low and high by learner, quantity, how and caution
Bands = Mapping[tuple[str, str, str, float], tuple[Array, Array, Array, Array]]
ByCaution = Mapping[float, Interval]


def make(scale: Scale, executor: Executor | None = None) -> Part:
    """The figure, its numbers, its claims and, where the packages for it are there, the film."""
    mdp, prior = drift(), drift_prior(MIXED_SHARE)
    size = QUICK_SIZE if scale.quick else FULL_SIZE
    found = study(mdp, prior, CAUTIONS, size, range(scale.seeds), executor)
    method, lines = found.tuning.method, bands(found)
    return Part(
        key="figure-4",
        title="Figure 4: learning with and without a prior",
        caption=(
            f"Drifted world, {scale.seeds} seeds, mean and 95 % interval of the mean. (a), (b): Algorithm 1. After "
            f"every {size.every:,} iterations the policy is read off the average occupancy, and its exact discounted "
            "return and exact share of discounted time in dark cells are computed; thick lines are the running "
            "averages of these numbers over all looks so far, dotted lines the numbers themselves. Steps "
            f"{method.multiplier_step:g} (multipliers) and {method.occupancy_step:g} (occupancy) for all three, no "
            "shifts. (c), (d): our learner (primal-dual), one whole run for each number of samples, no running "
            f"average. The grey line is the level at which learners are timed, {100 * LEVEL_SHARE:g} % of the smallest "
            f"optimal return. The prior is mixed with {100 * MIXED_SHARE:g} % of the uniform distribution."
        ),
        alt=(
            "Four panels over the number of samples: discounted return and time in dark cells, Algorithm 1 above and "
            "our learner below, each risk-neutral and with KL to the prior."
        ),
        draw=lambda theme: _draw(found, lines, theme),
        rows=tuple(_rows(lines)),
        claims=claims(found),
        videos=(_video(mdp, prior, found),) if can_film() else (),
    )


def running_average(values: Array) -> Array:
    """Mean of each entry and all entries before it, along the last axis.

    Examples
    --------
    >>> running_average(np.array([4.0, 2.0, 0.0])).tolist()
    [4.0, 3.0, 2.0]
    """
    return np.asarray(np.cumsum(values, axis=-1) / np.arange(1, values.shape[-1] + 1))


def bands(found: PriorStudy) -> Bands:
    """What is drawn; shares in percent."""
    lines = {}
    for quantity in LABELS:
        for learner, by_caution in (("Algorithm 1", found.printed), ("primal-dual", found.ours)):
            for caution, curves in by_caution.items():
                values = curves.expected_return if quantity == "return" else 100 * curves.dark_share
                tables = {"policy": values}
                if learner == "Algorithm 1":
                    tables = {"running average": running_average(values), **tables}
                for how, table in tables.items():
                    mean, low, high = band(table)
                    lines[learner, quantity, how, caution] = (curves.samples, mean, low, high)
    return lines


def _rows(lines: Bands) -> Iterator[Row]:
    for (learner, quantity, how, caution), line in lines.items():
        name = "return" if quantity == "return" else "percent of time in dark cells"
        case: Row = {"learner": learner, "quantity": name, "how": how, "caution": caution}
        for samples, mean, low, high in zip(*(part.tolist() for part in line), strict=True):
            yield {**case, "samples": int(samples), "mean": mean, "low": low, "high": high}


def _draw(found: PriorStudy, lines: Bands, theme: Theme) -> Any:
    figure = new_figure(theme, 9.6, 6.2)
    panels = figure.subplots(2, 2, sharex=True, sharey="col")
    colours = (theme.neutral, theme.chosen, GREEN)
    learners = (
        ("Algorithm 1", "running average", "Algorithm 1, running average"),
        ("primal-dual", "policy", "our learner"),
    )
    for row, (learner, how, name) in enumerate(learners):
        for column, quantity in enumerate(LABELS):
            axes = panels[row, column]
            for caution, colour, dashes in zip(found.printed, colours, DASHES, strict=True):
                samples, mean, low, high = lines[learner, quantity, how, caution]
                label = f"KL to the prior, caution {caution:g}" if caution > 0 else "risk-neutral"
                axes.plot(samples, mean, color=colour, linewidth=1.4, linestyle=dashes, label=label)
                axes.fill_between(samples, low, high, color=colour, alpha=0.22, linewidth=0)
                if how == "running average":
                    samples, mean, *_ = lines[learner, quantity, "policy", caution]
                    axes.plot(samples, mean, color=colour, linewidth=0.8, linestyle="dotted")
            if quantity == "return":
                axes.axhline(found.level, color=theme.wall, linewidth=0.8, zorder=0)
            axes.set(xscale="log", ylabel=LABELS[quantity])
            title(axes, f"({'abcd'[2 * row + column]}) {name}", theme)
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
    uniform = uniform_policy(mdp.allowed)
    neutral, cautious = "risk-neutral", f"KL to the prior, caution {caution:g}"
    stages = [("before learning", {neutral: uniform, cautious: uniform})]
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
            f"{FILM_MOVES} moves of each stage are shown, and the counts are over these."
        ),
        content=film(mdp, stages, seed=0, steps=FILM_MOVES),
    )


def claims(found: PriorStudy) -> tuple[PaperClaim, ...]:
    """All claims of the figure."""
    return faster(found), less_dark(found), other_learner(found)


def faster(found: PriorStudy) -> PaperClaim:
    """Whether the prior speeds up Algorithm 1: it reaches a common level sooner, and is better early on."""
    neutral = found.printed[0.0]
    speeds = _speeds(found, found.printed)
    gains = {c: mean_gain(neutral, found.printed[c], found.early) for c in found.cautions}
    ends, ending = _ends(found, found.printed, "iterations")
    caution = min(found.cautions)
    control = mean_gain(neutral, found.control, found.early)
    verdict = " The gain is due to what the prior knows." if control.high < gains[caution].low else ""
    return PaperClaim(
        place="Section 6.2, Figure 4a",
        said="With the prior, Algorithm 1 learns faster.",
        found=f"{_times(found, speeds, 'Iterations')} Mean return over the first {found.early:,.0f} iterations, minus "
        f"the neutral learner's: {_each(gains)}.",
        holds=all(one.saved.low > 0 for one in speeds.values()) and all(one.low > 0 for one in gains.values()),
        caveat=f"{ending} KL to the uniform distribution instead of the prior (caution {caution:g}) changes the early "
        f"mean return by {control}.{verdict} {_steps(found)}",
        numbers={
            "level of return": found.level,
            **_speed_numbers(speeds),
            **{f"early gain in return, caution {c:g}": one for c, one in gains.items()},
            **ends,
        },
    )


def less_dark(found: PriorStudy) -> PaperClaim:
    """Whether the prior keeps Algorithm 1 out of dark cells, all along."""
    avoided = _avoided(found.printed, [part * found.size.samples for part in MOMENTS])
    best = " and ".join(f"{100 * found.optimum[c].dark_share:.1f} % (caution {c:g})" for c in found.cautions)
    control = dark_avoided(found.printed[0.0], found.control, found.early)
    return PaperClaim(
        place="Section 6.2, Figure 4b",
        said="With the prior, less time is spent in unrewarding states.",
        found=f"Less than the neutral learner, in percentage points: {_moments(avoided, 'iterations')}.",
        holds=_all_less(avoided),
        caveat=(
            f"Part of it belongs to the problem and not to learning: the best policies spend "
            f"{100 * found.optimum[0.0].dark_share:.1f} % (neutral), {best} of their time there. Every learner begins "
            f"with the {100 * found.uniform.dark_share:.0f} % of the uniform policy. KL to the uniform distribution "
            f"instead of the prior (caution {min(found.cautions):g}) makes a difference of {control.percent} points "
            f"after {found.early:,.0f} iterations."
        ),
        numbers=_avoided_numbers(avoided),
    )


def other_learner(found: PriorStudy) -> PaperClaim:
    """Whether both claims also hold for our learner: then they belong to the formulation."""
    speeds = _speeds(found, found.ours)
    avoided = _avoided(found.ours, found.size.budgets)
    closest = min(avoided, key=lambda at: min(one.mean for one in avoided[at].values()))
    shown = {at: avoided[at] for at in sorted({min(avoided), closest, max(avoided)})}
    ends, ending = _ends(found, found.ours, "samples")
    printed = compare_speed(found.printed[0.0], found.ours[0.0], found.level)
    return PaperClaim(
        place="Section 6.2, Figure 4",
        of_paper=False,
        said=(
            "If faster learning and less time in unrewarding states belong to the formulation and not to Algorithm 1, "
            "both must also show with our learner (primal-dual)."
        ),
        found=f"{_times(found, speeds, 'Samples')} Time in dark cells, less than the neutral learner in percentage "
        f"points, at first, where it is closest, and at last: {_moments(shown, 'samples')}.",
        holds=all(one.saved.low > 0 for one in speeds.values()) and _all_less(avoided),
        caveat=f"{ending} Without any prior our learner reaches the level with {_thousands(printed.second)} thousand "
        f"samples, Algorithm 1 with {_thousands(printed.first)} thousand.",
        numbers={**_speed_numbers(speeds), **_avoided_numbers(avoided), **ends},
    )


def _speeds(found: PriorStudy, curves: Mapping[float, LearningCurves]) -> dict[float, Speed]:
    return {c: compare_speed(curves[0.0], curves[c], found.level) for c in found.cautions}


def _times(found: PriorStudy, speeds: Mapping[float, Speed], unit: str) -> str:
    """How long each learner takes, what is saved, and how many seeds never reach the level."""
    least = min(one.expected_return for one in found.optimum.values())
    first = next(iter(speeds.values()))
    takes = {0.0: first.first} | {c: one.second for c, one in speeds.items()}
    never = {0.0: first.never[0]} | {c: one.never[1] for c, one in speeds.items()}
    saved = _each({c: _thousands(one.saved) for c, one in speeds.items()})
    return (
        f"{unit} until the policy's return first reaches {found.level:.2f}, which is {100 * LEVEL_SHARE:g} % of the "
        f"smallest optimum, {least:.2f}, in thousands: {_each({c: _thousands(one) for c, one in takes.items()})}. "
        f"Saved, seed by seed: {saved}. Seeds that never reach it, counted with all their {unit.lower()}: "
        f"{_each(never)} of {first.first.n}."
    )


def _speed_numbers(speeds: Mapping[float, Speed]) -> dict[str, Interval | float]:
    numbers: dict[str, Interval | float] = {}
    for c, one in speeds.items():
        numbers |= {"samples to the level, neutral": one.first, "seeds that never reach it, neutral": one.never[0]}
        numbers |= {f"samples to the level, caution {c:g}": one.second, f"samples saved, caution {c:g}": one.saved}
        numbers |= {f"seeds that never reach it, caution {c:g}": one.never[1]}
    return numbers


def _ends(
    found: PriorStudy, curves: Mapping[float, LearningCurves], unit: str
) -> tuple[dict[str, Interval | float], str]:
    """By how much the neutral learner ends higher, as numbers and in words: the best policy with a prior earns less."""
    neutral = curves[0.0]
    ends = {c: ends_higher(neutral, curves[c]) for c in found.cautions}
    passed = []
    for c in found.cautions:
        when = overtaken_at(neutral, curves[c])
        words = "is not ahead at the end" if when is None else f"is ahead from {when:,.0f} {unit} to the end"
        passed.append(f"{words} (caution {c:g})")
    said = (
        f"Learning faster is not learning better: the optima are {_returns(found.optimum)}. After "
        f"{neutral.samples[-1]:,.0f} {unit} the neutral learner's return minus the cautious one's is {_each(ends)}; on "
        f"average it {' and '.join(passed)}."
    )
    return {f"return at the end, neutral minus caution {c:g}": one for c, one in ends.items()}, said


def _steps(found: PriorStudy) -> str:
    """Which steps were used, and what Theorem 1's do."""
    method = found.tuning.method
    return (
        f"All learners have the same steps, {method.multiplier_step:g} for the multipliers and "
        f"{method.occupancy_step:g} for the occupancy, without shifts: of "
        f"{len(MULTIPLIER_STEPS) * len(OCCUPANCY_STEPS)} pairs those with which the neutral learner earns most over "
        "the run, on other seeds, so the choice favours it. (The best end of such a run with any pair is "
        f"{found.tuning.highest_end:.2f}.) With the steps and shifts of Theorem 1, one run of "
        f"{found.size.samples:,} iterations each ends at {_returns(found.theory)}; the uniform policy earns "
        f"{found.uniform.expected_return:.2f}."
    )


def _avoided(curves: Mapping[float, LearningCurves], moments: Sequence[float]) -> dict[float, ByCaution]:
    """By moment and caution."""
    return {at: {c: dark_avoided(curves[0.0], curves[c], at) for c in curves if c > 0} for at in moments}


def _all_less(avoided: Mapping[float, ByCaution]) -> bool:
    return all(one.low > 0 for by_caution in avoided.values() for one in by_caution.values())


def _moments(avoided: Mapping[float, ByCaution], unit: str) -> str:
    return "; ".join(
        f"{_each({c: one.percent for c, one in by_caution.items()})} after {at:,.0f} {unit}"
        for at, by_caution in avoided.items()
    )


def _avoided_numbers(avoided: Mapping[float, ByCaution]) -> dict[str, Interval | float]:
    return {
        f"dark share avoided after {at:,.0f}, caution {c:g}": one
        for at, by_caution in avoided.items()
        for c, one in by_caution.items()
    }


def _each(by_caution: Mapping[float, object]) -> str:
    return ", ".join(f"{one} ({f'caution {c:g}' if c > 0 else 'neutral'})" for c, one in by_caution.items())


def _returns(values: Mapping[float, PolicyValue]) -> str:
    return _each({c: f"{one.expected_return:.2f}" for c, one in values.items()})


def _thousands(one: Interval) -> str:
    return f"{one.mean / 1000:.3g} [{one.low / 1000:.3g}, {one.high / 1000:.3g}]"
