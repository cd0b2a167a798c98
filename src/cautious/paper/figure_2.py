"""Figure 2 of the paper: objective, mean and variance of the return while the maze is learned."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cautious.evaluation.evaluate import return_variance
from cautious.models.tabular import MDP
from cautious.paper.evidence import Claim, Interval, Part, Scale, Video, interval
from cautious.paper.figure_2_drawing import draw
from cautious.paper.maze_training import (
    ALGORITHM_2,
    AVERSE,
    CAUTION,
    FILMED,
    FILMED_SEED,
    LEARNERS,
    NEUTRAL,
    PLUG_IN,
    TRAJECTORIES,
    Training,
    measure,
)
from cautious.paper.videos import AGENTS, can_film, film
from cautious.problem import Problem
from cautious.risks.scalar import Variance
from cautious.solvers.solve import solve
from cautious.worlds.grids import maze

MARKS, ROUNDS = (1_000, 5_600, 32_000, 180_000, 1_000_000), 60
QUICK_MARKS, QUICK_ROUNDS = (1_000, 5_600, 30_000), 25
FILM_MOVES, FILM_STAGES = 48, 4
# converged: within this share of the optimum's size; comparable: within this share of the neutral mean's size
CONVERGED, COMPARABLE = 0.05, 0.10
PLACE = "Section 6.1, Figure 2"


def make(scale: Scale) -> Part:
    """The figure, its numbers, its claims and, where the packages for it are there, the film."""
    from_s = maze(start_at_s=True)
    marks, rounds = (QUICK_MARKS, QUICK_ROUNDS) if scale.quick else (MARKS, ROUNDS)
    training = measure(maze(), from_s, scale.seeds, marks, rounds)
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


@dataclass(frozen=True)
class Exact:
    """Exact mean and variance of the return from S of the best policies without and with risk."""

    neutral: tuple[float, float]
    averse: tuple[float, float]


def compare_exactly(mdp: MDP, from_s: MDP) -> Exact:
    """Solve with and without risk, and compute the returns from S."""
    neutral, averse = solve(Problem(mdp)).require(), solve(Problem(mdp, Variance(), CAUTION)).require()
    return Exact(return_variance(from_s, neutral.policy), return_variance(from_s, averse.policy))


def claims(training: Training, paying: Exact) -> tuple[Claim, ...]:
    """Convergence of the objective, per method, then the mean and the variance; ``paying``: where the goal pays."""
    return (
        _converges(training, ALGORITHM_2, "Algorithm 2, on samples"),
        _ascends(training),
        *(_converges(training, name, f"our learner {name}") for name in LEARNERS),
        _comparable(training),
        _lower(training, paying),
    )


def _converges(training: Training, method: str, who: str) -> Claim:
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
    return Claim(
        place=PLACE,
        said=f"The objective converges ({who}; we read: to within {100 * CONVERGED:g} % of the global optimum).",
        found=f"After {training.samples:,} samples the objective is {gap} below the global optimum {best:.4g} "
        f"({100 * gap.mean / abs(best):.3g} % of its size).",
        holds=gap.high <= CONVERGED * abs(best),
        caveat=caveat,
        numbers={"gap": gap, "optimum": best},
        of_paper=method == ALGORITHM_2,
    )


def _ascends(training: Training) -> Claim:
    best, ascent = training.optimum.objective, training.ascent
    chosen = ascent.rounds[ascent.chosen]
    gap, rounded = best - chosen.objective, best - chosen.rounded_objective
    lost = best - training.neutral_objective
    return Claim(
        place=PLACE,
        said="The objective converges (Algorithm 2 with a known model and exact inner solves; we read: to within "
        f"{100 * CONVERGED:g} % of the global optimum).",
        found=f"The best of {len(ascent.rounds)} rounds is {gap:.2g} below the global optimum {best:.4g} "
        f"({100 * gap / abs(best):.2g} %); with the most likely action in every state, {rounded:.2g}.",
        holds=gap <= CONVERGED * abs(best),
        caveat=f"It depends on the coupling, here {ascent.coupling:.3g}. From a uniform start the risk-neutral policy "
        f"is only {lost:.2g} below the optimum ({100 * lost / abs(best):.2g} %): a nearly best objective alone does "
        "not show that a policy is cautious; the returns from S do.",
        numbers={"gap": gap, "rounded gap": rounded, "optimum": best, "gap of the risk-neutral policy": lost},
    )


def _comparable(training: Training) -> Claim:
    compared = {name: _compared(training, name, "mean") for name in LEARNERS}
    numbers = _numbers(compared)
    share = {}
    for name, one in compared.items():
        size = abs(one.exact[0].mean)
        share[name] = interval(
            (training.last(name, AVERSE, "exact mean") - training.last(name, NEUTRAL, "exact mean")) / size
        )
    decides = share[PLUG_IN]
    return Claim(
        place=PLACE,
        said="The risk-averse policy has a comparable mean return (we read: the exact means differ by less than "
        f"{100 * COMPARABLE:g} % of the risk-neutral one, interval included; {PLUG_IN} decides).",
        found=_words("Mean", training, compared)
        + " Exact difference in per cent: "
        + "; ".join(f"{name} {one.percent}" for name, one in share.items())
        + ".",
        holds=max(abs(decides.low), abs(decides.high)) < COMPARABLE,
        numbers=numbers | {f"{name}: relative difference": one for name, one in share.items()},
    )


def _lower(training: Training, paying: Exact) -> Claim:
    compared = {name: _compared(training, name, "variance") for name in LEARNERS}
    ratios = {name: one.exact[1].mean / one.exact[0].mean for name, one in compared.items()}
    return Claim(
        place=PLACE,
        said="The risk-averse policy has a lower variance of the return (we read: the paired difference lies below "
        f"zero, interval included, simulated and exact; {PLUG_IN} decides).",
        found=_words("Variance", training, compared)
        + " Ratio of the exact means over seeds: "
        + "; ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items())
        + ".",
        holds=compared[PLUG_IN].simulated[2].high < 0 and compared[PLUG_IN].exact[2].high < 0,
        caveat=_dependence(paying),
        numbers=_numbers(compared),
    )


@dataclass(frozen=True)
class _Compared:
    """Risk-neutral, risk-averse and their paired difference at the end of training."""

    simulated: tuple[Interval, Interval, Interval]
    exact: tuple[Interval, Interval, Interval]


def _compared(training: Training, method: str, name: str) -> _Compared:
    found = []
    for column in (name, f"exact {name}"):
        neutral, averse = (training.last(method, policy, column) for policy in (NEUTRAL, AVERSE))
        found.append((interval(neutral), interval(averse), interval(averse - neutral)))
    return _Compared(*found)


def _numbers(compared: Mapping[str, _Compared]) -> dict[str, Interval | float]:
    return {
        f"{method}, {kind}: {what}": one
        for method, both in compared.items()
        for kind, three in (("simulated", both.simulated), ("exact", both.exact))
        for what, one in zip((NEUTRAL, AVERSE, "difference"), three, strict=True)
    }


def _words(what: str, training: Training, compared: Mapping[str, _Compared]) -> str:
    said = [
        f"{name}: {one.simulated[1]} against {one.simulated[0]} risk-neutral, paired difference {one.simulated[2]}; "
        f"exact {one.exact[1]} against {one.exact[0]}, difference {one.exact[2]}."
        for name, one in compared.items()
    ]
    return (
        f"{what} of the return from S after {training.samples:,} samples, over {TRAJECTORIES} trajectories. "
        + " ".join(said)
    )


def _dependence(paying: Exact) -> str:
    (mean, variance), (averse_mean, averse_variance) = paying.neutral, paying.averse
    return (
        "The risk is the variance of the reward of one step, not that of the return, so how much the latter falls "
        f"depends on the rewards. Where the goal pays +1 a step, caution {CAUTION:g} changes it from {variance:.3g} to "
        f"{averse_variance:.3g} (exact, ratio {averse_variance / variance:.2f}), and the mean from {mean:.3g} to "
        f"{averse_mean:.3g}."
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
