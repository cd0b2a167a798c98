"""Figure 2 of the paper: objective, mean and variance of the return while the maze is learned."""

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.models.tabular import MDP
from cautious.paper.evidence import PaperClaim, Part, Scale, Video
from cautious.paper.maze_training import (
    ALGORITHM_2,
    ASCENT,
    AVERSE,
    CAUTION,
    FILMED,
    FILMED_SEED,
    LEARNERS,
    NEUTRAL,
    PLUG_IN,
    PRIMAL_DUAL,
    TRAJECTORIES,
    Training,
    measure,
)
from cautious.paper.videos import AGENTS, can_film, film
from cautious.problem import Problem
from cautious.report.canvas import GREEN, PURPLE, Theme, dress_curves, new_figure, title
from cautious.report.words import scene_of
from cautious.returns.moments import return_variance
from cautious.risks.scalar import Variance
from cautious.solvers.solve import solve
from cautious.sweeps.statistics import Interval, band, interval
from cautious.worlds.grids import maze

MARKS, ROUNDS = (1_000, 5_600, 32_000, 180_000, 1_000_000), 60
QUICK_MARKS, QUICK_ROUNDS = (1_000, 5_600, 30_000), 25
FILM_MOVES, FILM_STAGES = 48, 4
# converged: within this share of the optimum's size; comparable: within this share of the neutral mean's size
CONVERGED_SHARE, COMPARABLE_SHARE = 0.05, 0.10
PLACE, DIFFERENCE = "Section 6.1, Figure 2", "difference"
DASHES = {PLUG_IN: "-", PRIMAL_DUAL: (0, (4, 2))}
MARKERS = {PLUG_IN: "o", PRIMAL_DUAL: "s", ALGORITHM_2: "^"}
# the upper half of panel (a) enlarges this share of the distance from the uniform policy to the optimum
ENLARGED_SHARE = 0.06
OPTIMUM, EXACT = "global optimum, proved", f"{ASCENT} (rounds, upper axis)"
# returns that never vary have no logarithm
LEAST_VARIANCE = 1e-6


def make(scale: Scale, executor: Executor | None = None) -> Part:
    """The figure, its numbers, its claims and, where the packages for it are there, the film."""
    from_s = maze(start_at_s=True)
    marks, rounds = (QUICK_MARKS, QUICK_ROUNDS) if scale.quick else (MARKS, ROUNDS)
    training = measure(maze(), from_s, scale.seeds, marks, rounds, executor)
    paying = compare_exactly(maze(goal=1.0), maze(goal=1.0, start_at_s=True))
    return Part(
        key="figure-2",
        title="Learning the maze with the variance as risk",
        caption=(
            f"(a) Objective with caution {CAUTION:g} of the policy one would take at each moment, exact, against the "
            "samples used; Algorithm 2 with exact inner solves against its rounds (upper axis). The line is the global "
            "optimum, proved; its surroundings are drawn on a larger scale. (b) Mean and (c) variance of the "
            f"discounted return over {TRAJECTORIES} simulated trajectories from S, learned with and without risk. "
            f"Lines are means over {scale.seeds} seeds (in (c) of the logarithms), bands their 95 % intervals. Plug-in "
            "and primal-dual have a run of their own for every number of samples. The paper calls (c) the reward "
            "variance: the risk that is minimised is the variance of the reward of one step under the discounted "
            "occupancy from a uniform start; what is plotted, there and here, is the variance of the return."
        ),
        alt=(
            "Three panels over training: the objective of four methods beside the global optimum; mean and variance of "
            "the return, learned with and without risk."
        ),
        draw=lambda theme: draw(training, theme),
        rows=training.rows,
        claims=claims(training, paying),
        videos=(_video(training, from_s),) if can_film() else (),
    )


def compare_exactly(mdp: MDP, from_s: MDP) -> list[tuple[float, float]]:
    """Exact mean and variance of the return from S of the best policies without and with risk."""
    problems = (Problem(mdp), Problem(mdp, Variance(), CAUTION))
    return [return_variance(from_s, solve(problem).require().policy) for problem in problems]


def claims(training: Training, paying: Sequence[tuple[float, float]]) -> tuple[PaperClaim, ...]:
    """Convergence of the objective, per method, then the mean and the variance; ``paying``: where the goal pays."""
    return (
        _converges(training, ALGORITHM_2, "Algorithm 2, on samples"),
        _ascends(training),
        *(_converges(training, name, f"our learner {name}") for name in LEARNERS),
        _comparable(training),
        _lower(training, paying),
    )


def _converges(training: Training, method: str, who: str) -> PaperClaim:
    best = training.optimum.objective
    at, gaps = training.table(method, AVERSE, "gap")
    gap, caveat = interval(gaps[:, -1]), ""
    if method == ALGORITHM_2:
        caveat = (
            f"The uniform policy, where it begins, has objective {training.uniform_objective:.3g}; at the end it is "
            f"{best - gap.mean:.3g}. The steps of its theorem shrink as the coupling M grows. Corrections to the "
            "printed text are made, and the round that seems best is taken instead of a random one."
        )
    elif at.size > 1:
        caveat = f"With {at[-2]:,.0f} samples it was {interval(gaps[:, -2])} below."
    return PaperClaim(
        place=PLACE,
        said=f"The objective converges ({who}; we read: to within {100 * CONVERGED_SHARE:g} % of the global optimum).",
        found=f"After {training.samples:,} samples the objective is {gap} below the global optimum {best:.4g} "
        f"({100 * gap.mean / abs(best):.3g} % of its size).",
        holds=gap.high <= CONVERGED_SHARE * abs(best),
        caveat=caveat,
        numbers={"gap": gap, "optimum": best},
        of_paper=method == ALGORITHM_2,
    )


def _ascends(training: Training) -> PaperClaim:
    best, ascent = training.optimum.objective, training.ascent
    chosen = ascent.rounds[ascent.chosen]
    gap, rounded = best - chosen.objective, best - chosen.rounded_objective
    lost = best - training.neutral_objective
    return PaperClaim(
        place=PLACE,
        said="The objective converges (Algorithm 2 with a known model and exact inner solves; we read: to within "
        f"{100 * CONVERGED_SHARE:g} % of the global optimum).",
        found=f"The best of {len(ascent.rounds)} rounds is {gap:.2g} below the global optimum {best:.4g} "
        f"({100 * gap / abs(best):.2g} %); with the most likely action in every state, {rounded:.2g}.",
        holds=gap <= CONVERGED_SHARE * abs(best),
        caveat=f"It depends on the coupling, here {ascent.coupling:.3g}. From a uniform start the risk-neutral policy "
        f"is only {lost:.2g} below the optimum ({100 * lost / abs(best):.2g} %): a nearly best objective alone does "
        "not show that a policy is cautious; the returns from S do.",
        numbers={"gap": gap, "rounded gap": rounded, "optimum": best, "gap of the risk-neutral policy": lost},
    )


# risk-neutral, risk-averse and their paired difference at the end of training, by learner and kind (simulated, exact)
Compared = dict[tuple[str, str], dict[str, Interval]]


def _compared(training: Training, name: str) -> tuple[Compared, str, dict[str, Any]]:
    """Mean or variance of the return; in words; and as numbers of a claim."""
    found: Compared = {}
    for method in LEARNERS:
        for kind, column in (("simulated", name), ("exact", f"exact {name}")):
            neutral, averse = (training.last(method, policy, column) for policy in (NEUTRAL, AVERSE))
            pairs = ((NEUTRAL, neutral), (AVERSE, averse), (DIFFERENCE, averse - neutral))
            found[method, kind] = {what: interval(values) for what, values in pairs}
    after = f"after {training.samples:,} samples, over {TRAJECTORIES} trajectories"
    said = [f"{name.capitalize()} of the return from S {after}."]
    for method in LEARNERS:
        simulated, exact = found[method, "simulated"], found[method, "exact"]
        said.append(
            f"{method}: {simulated[AVERSE]} against {simulated[NEUTRAL]} risk-neutral, paired difference "
            f"{simulated[DIFFERENCE]}; exact {exact[AVERSE]} against {exact[NEUTRAL]}, difference {exact[DIFFERENCE]}."
        )
    numbers = {
        f"{method}, {kind}: {what}": value for (method, kind), one in found.items() for what, value in one.items()
    }
    return found, " ".join(said), numbers


def _comparable(training: Training) -> PaperClaim:
    compared, said, numbers = _compared(training, "mean")
    share = {}
    for name in LEARNERS:
        neutral, averse = (training.last(name, policy, "exact mean") for policy in (NEUTRAL, AVERSE))
        share[name] = interval((averse - neutral) / abs(compared[name, "exact"][NEUTRAL].mean))
    decides = share[PLUG_IN]
    return PaperClaim(
        place=PLACE,
        said="The risk-averse policy has a comparable mean return (we read: the exact means differ by less than "
        f"{100 * COMPARABLE_SHARE:g} % of the risk-neutral one, interval included; {PLUG_IN} decides).",
        found=f"{said} Exact difference in per cent: "
        + "; ".join(f"{name} {one.percent}" for name, one in share.items())
        + ".",
        holds=max(abs(decides.low), abs(decides.high)) < COMPARABLE_SHARE,
        numbers=numbers | {f"{name}: relative difference": one for name, one in share.items()},
    )


def _lower(training: Training, paying: Sequence[tuple[float, float]]) -> PaperClaim:
    compared, said, numbers = _compared(training, "variance")
    exact = {name: compared[name, "exact"] for name in LEARNERS}
    (mean, variance), (averse_mean, averse_variance) = paying
    return PaperClaim(
        place=PLACE,
        said="The risk-averse policy has a lower variance of the return (we read: the paired difference lies below "
        f"zero, interval included, simulated and exact; {PLUG_IN} decides).",
        found=f"{said} Ratio of the exact means over seeds: "
        + "; ".join(f"{name} {one[AVERSE].mean / one[NEUTRAL].mean:.2g}" for name, one in exact.items())
        + ".",
        holds=compared[PLUG_IN, "simulated"][DIFFERENCE].high < 0 and exact[PLUG_IN][DIFFERENCE].high < 0,
        caveat="The risk is the variance of the reward of one step, not that of the return, so how much the latter "
        f"falls depends on the rewards. Where the goal pays +1 a step, caution {CAUTION:g} changes it from "
        f"{variance:.3g} to {averse_variance:.3g} (exact, ratio {averse_variance / variance:.2f}), and the mean from "
        f"{mean:.3g} to {averse_mean:.3g}.",
        numbers=numbers,
    )


def _video(training: Training, from_s: MDP) -> Video:
    """At most four stages of training, the first and the last among them."""
    places = np.unique(np.linspace(0, len(training.stages) - 1, FILM_STAGES).round().astype(int))
    stages = [training.stages[k] for k in places]
    return Video(
        name="maze-training",
        caption=(
            f"{AGENTS} agents walk from S with the policies of {FILMED} at several stages of training (seed "
            f"{FILMED_SEED}): risk-neutral on the left, with the variance as risk and caution {CAUTION:g} on the "
            f"right. {FILM_MOVES} moves of each stage are shown, and the counts are over these."
        ),
        content=film(from_s, stages, FILMED_SEED, FILM_MOVES),
    )


def draw(training: Training, theme: Theme) -> Any:
    """Objective, mean and variance against training."""
    figure = new_figure(theme, 12.6, 4.6)
    grid = figure.add_gridspec(2, 3, width_ratios=(1.2, 1, 1), hspace=0.02)
    upper, lower = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    mean, variance = figure.add_subplot(grid[:, 1]), figure.add_subplot(grid[:, 2])
    unit = scene_of(training.problem.mdp).reward_unit
    _objective(upper, lower, training, theme)
    for axes, name in ((mean, "mean"), (variance, "variance")):
        for policy, colour in ((NEUTRAL, theme.neutral), (AVERSE, theme.chosen)):
            for method in LEARNERS:
                _curve(axes, training, method, policy, name, colour)
    upper.set_ylabel(f"objective ({unit})")
    lower.set_ylabel(f"objective ({unit})")
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
    # one legend for all panels: a column per policy, one for Algorithm 2, and the optimum
    handles: dict[str, Any] = {}
    for axes in (upper, mean):
        found, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    names = [f"{policy}, {method}" for policy in (NEUTRAL, AVERSE) for method in LEARNERS]
    names += [ALGORITHM_2, EXACT, OPTIMUM]
    style = {"frameon": False, "fontsize": 9, "labelcolor": theme.ink, "ncols": 4}
    figure.legend([handles[name] for name in names], names, loc="outside lower center", **style)
    return figure


def _objective(upper: Any, lower: Any, training: Training, theme: Theme) -> None:
    """One curve on two axes: near the optimum above, everything below it on another scale."""
    best, worst = training.optimum.objective, training.uniform_objective
    rounds, values = training.table(ASCENT, AVERSE, "objective")
    low, high = _ends(training)
    for axes in (upper, lower):
        axes.axhline(best, color=theme.ink, linewidth=1.0, linestyle=(0, (1, 1.5)), label=OPTIMUM)
        for name, colour in (*((name, theme.chosen) for name in LEARNERS), (ALGORITHM_2, PURPLE)):
            _curve(axes, training, name, AVERSE, "objective", colour)
        axes.plot(_samples_of(rounds, training), values[0], color=GREEN, linewidth=1.3, label=EXACT)
        axes.set_xlim(low / 1.15, high * 1.15)
    reach = best - worst
    upper.set_ylim(best - ENLARGED_SHARE * reach, best + 0.01 * reach)
    floor = min(worst, float(training.table(ALGORITHM_2, AVERSE, "objective")[1].min()))
    lower.set_ylim(floor - 0.1 * reach, best - ENLARGED_SHARE * reach)


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
