"""Figure 1 of the paper: the maze, and one path of the risk-neutral and of the risk-averse policy on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.evaluation.evaluate import default_horizon
from cautious.models.tabular import MDP
from cautious.paper import maze_paths
from cautious.paper.evidence import PaperClaim, Part, Row, Scale
from cautious.paper.maze_training import AVERSE, CAUTION, NEUTRAL, TRAJECTORIES
from cautious.problem import Problem
from cautious.report.canvas import LIGHT, Theme, new_figure, title
from cautious.report.drawings import draw_bar
from cautious.report.words import scene_of
from cautious.returns.moments import return_variance
from cautious.risks.scalar import Variance
from cautious.solvers.solve import solve
from cautious.sweeps.statistics import Interval, interval
from cautious.worlds.grids import cells_marked, maze

MORE_CAUTION = 50.0
DARK_SHARE, GOAL_SHARE = "share entering a dark cell", "share reaching the goal"
COMPARED_CAUTIONS = (0.0, CAUTION, MORE_CAUTION)
PATH_SEED, DRAWN_PATHS = 0, 30
# a smaller share counts as none, one above 1 minus this as all
NEGLIGIBLE_SHARE = 0.01
# the map is light in both themes, so the paths keep the colours of the light one
PATH_COLOURS = (LIGHT.neutral, LIGHT.chosen)
TRIED_CAUTIONS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


@dataclass(frozen=True)
class Walks:
    """What the policies of several cautions do from S: one row per seed and caution.

    ``paths``: some of seed 0 to draw. ``entries``: all moves at which a path entered its first dark cell.
    """

    mdp: MDP
    rows: tuple[Row, ...]
    paths: Mapping[float, Indices]
    entries: Mapping[float, Indices]
    moves: int

    def per_seed(self, caution: float, name: str) -> Array:
        """A column of the rows of one caution, in the order of the seeds."""
        return np.array([float(row[name]) for row in self.rows if row["caution"] == caution])

    def mean(self, caution: float, name: str) -> Interval:
        """Its mean over seeds."""
        return interval(self.per_seed(caution, name))


def make(scale: Scale) -> Part:
    """The figure, its numbers and its claims."""
    mdp, from_s = maze(), maze(start_at_s=True)
    walks = measure(mdp, from_s, scale.seeds)
    return Part(
        key="figure-1",
        title="Two ways through the maze",
        caption=(
            "(a) What entering a cell pays, in points; walls are grey. (b) The risk-neutral policy and (c) the policy "
            f"with the variance of the reward of one step as risk and caution {CAUTION:g}, both solved exactly for a "
            f"uniform start and walked from S. Bold: one simulated path each, the first of seed {PATH_SEED}; other "
            f"draws look different, and some paths of (c) do enter the dark. Thin: the next {DRAWN_PATHS - 1}. Ring: "
            "first cell, square: last cell, 2x: two moves in one cell. The shares above the maps and the claims rest "
            f"on {scale.seeds} x {TRAJECTORIES} paths of each policy."
        ),
        alt=(
            "Three maps of a 10 by 10 maze: the rewards with two dark bands around the corridor from S to G, a path of "
            "the risk-neutral policy, and a path of the risk-averse policy."
        ),
        draw=lambda theme: draw(walks, theme),
        rows=walks.rows,
        claims=claims(walks, staying(mdp, from_s), staying(maze(goal=1.0), maze(goal=1.0, start_at_s=True))),
    )


def measure(mdp: MDP, from_s: MDP, seeds: int) -> Walks:
    """Solve ``mdp`` for every caution and walk the policies on ``from_s``, the same model with its start at S."""
    moves = default_horizon(mdp.discount)
    dark, goal = cells_marked(mdp, maze_paths.DARK_CELL), cells_marked(mdp, maze_paths.GOAL_CELL)
    rows: list[Row] = []
    drawn, entries = dict[float, Indices](), dict[float, Indices]()
    for caution in COMPARED_CAUTIONS:
        policy = solve(Problem(mdp, Variance(), caution)).require().policy
        mean, variance = return_variance(from_s, policy)
        walked = [maze_paths.walk(from_s, policy, TRAJECTORIES, moves, seed) for seed in range(seeds)]
        drawn[caution] = walked[PATH_SEED][:DRAWN_PATHS]
        entries[caution] = np.concatenate([maze_paths.first_entries(paths, dark) for paths in walked])
        for seed, paths in enumerate(walked):
            rows.append(
                {
                    "policy": NEUTRAL if caution == 0 else AVERSE,
                    "caution": caution,
                    "seed": seed,
                    "trajectories": TRAJECTORIES,
                    DARK_SHARE: maze_paths.share_entering(paths, dark),
                    GOAL_SHARE: maze_paths.share_entering(paths, goal),
                    "exact mean of the return": mean,
                    "exact variance of the return": variance,
                }
            )
    return Walks(mdp, tuple(rows), drawn, entries, moves)


@dataclass(frozen=True)
class Staying:
    """The smallest caution tried whose policy stays away from the goal, and what its paths and returns are like."""

    caution: float
    reach: float
    dark: float
    variance: float
    goal_pays: float


def staying(mdp: MDP, from_s: MDP, cautions: Sequence[float] = TRIED_CAUTIONS) -> Staying | None:
    """Raise the caution until the agent no longer goes to the goal; None when it always does."""
    dark, goal = cells_marked(mdp, maze_paths.DARK_CELL), cells_marked(mdp, maze_paths.GOAL_CELL)
    for caution in cautions:
        policy = solve(Problem(mdp, Variance(), caution)).require().policy
        paths = maze_paths.walk(from_s, policy, TRAJECTORIES, default_horizon(mdp.discount), PATH_SEED)
        reach = maze_paths.share_entering(paths, goal)
        if reach < NEGLIGIBLE_SHARE:
            variance = return_variance(from_s, policy)[1]
            return Staying(
                caution, reach, maze_paths.share_entering(paths, dark), variance, float(mdp.rewards[goal[0], 0])
            )
    return None


def claims(walks: Walks, *stays: Staying | None) -> tuple[PaperClaim, ...]:
    """Whether the risk-averse policy avoids the dark cells and still reaches the goal."""
    return _avoids(walks), _reaches(walks, [one for one in stays if one is not None])


def _avoids(walks: Walks) -> PaperClaim:
    neutral, averse, more = (walks.mean(caution, DARK_SHARE) for caution in COMPARED_CAUTIONS)
    change = interval(walks.per_seed(CAUTION, DARK_SHARE) - walks.per_seed(0.0, DARK_SHARE))
    caveat = ""
    if averse.low > NEGLIGIBLE_SHARE and neutral.low > NEGLIGIBLE_SHARE:
        late, early = (float(np.median(walks.entries[caution])) for caution in (CAUTION, 0.0))
        caveat = (
            f"With caution {CAUTION:g} avoidance is not complete. The dark cells that are left are entered after "
            f"{late:g} moves (median; risk-neutral: {early:g}), where discounting has made them cheaper."
        )
    return PaperClaim(
        place="Section 6.1, Figure 1",
        said=f"The risk-averse policy avoids the dark cells (we read: fewer paths enter one with caution {CAUTION:g}, "
        f"and below {100 * NEGLIGIBLE_SHARE:g} % with {MORE_CAUTION:g}).",
        found=f"Share of paths from S that enter a dark cell: {neutral.percent} % risk-neutral, {averse.percent} % "
        f"with caution {CAUTION:g}; paired difference {change.percent} percentage points. With caution "
        f"{MORE_CAUTION:g}: {more.percent} %.",
        holds=change.high < 0 and more.high < NEGLIGIBLE_SHARE,
        caveat=caveat,
        numbers={"neutral": neutral, "averse": averse, "difference": change, "more averse": more},
    )


def _reaches(walks: Walks, stays: Sequence[Staying]) -> PaperClaim:
    neutral, averse, more = (walks.mean(caution, GOAL_SHARE) for caution in COMPARED_CAUTIONS)
    where = " and ".join(
        f"{one.caution:g} where the goal pays {'nothing' if one.goal_pays == 0 else f'{one.goal_pays:+g} a step'} "
        f"({100 * one.reach:.0f} % of {TRAJECTORIES} paths reach the goal, {100 * one.dark:.0f} % enter a dark "
        f"cell, the return has variance {abs(one.variance):.2f})"
        for one in stays
    )
    tried = ", ".join(f"{caution:g}" for caution in TRIED_CAUTIONS)
    dependence = (
        f"It depends on the caution and on the rewards. Of the cautions tried ({tried}), the first with which the "
        f"agent stays among the light cells for ever is {where}."
    )
    return PaperClaim(
        place="Section 6.1, Figure 1",
        said="The risk-averse policy still reaches the goal "
        f"(we read: in more than {100 * (1 - NEGLIGIBLE_SHARE):g} % of the paths).",
        found=f"Share of paths from S that reach the goal within {walks.moves} moves: {averse.percent} % with caution "
        f"{CAUTION:g}, {more.percent} % with caution {MORE_CAUTION:g}, {neutral.percent} % risk-neutral.",
        holds=min(averse.low, more.low) > 1 - NEGLIGIBLE_SHARE,
        caveat=dependence if stays else "",
        numbers={"neutral": neutral, "averse": averse, "more averse": more},
    )


def draw(walks: Walks, theme: Theme) -> Any:
    """Rewards, and one path of the neutral and of the averse policy."""
    figure = new_figure(theme, 11.0, 3.9)
    panels = figure.subplots(1, 3, sharey=True)
    neutral, averse = (100 * walks.mean(caution, DARK_SHARE).mean for caution in (0.0, CAUTION))
    names = (
        "(a) reward map",
        f"(b) risk-neutral: {neutral:.0f} % enter the dark",
        f"(c) caution {CAUTION:g}: {averse:.0f} % enter the dark",
    )
    for axes, name in zip(panels, names, strict=True):
        scale, levels = maze_paths.draw_rewards(axes, walks.mdp, theme)
        title(axes, name, theme)
        axes.label_outer()
    for axes, caution, colour in zip(panels[1:], (0.0, CAUTION), PATH_COLOURS, strict=True):
        maze_paths.draw_bundle(axes, walks.mdp, walks.paths[caution][1:], colour)
        maze_paths.draw_path(axes, walks.mdp, walks.paths[caution][0], colour)
    bar = draw_bar(figure, panels, scale, f"reward on entering ({scene_of(walks.mdp).reward_unit})", theme)
    bar.set_ticks(np.arange(levels.size) + 0.5, labels=[f"{level:g}" for level in levels])
    bar.minorticks_off()
    bar.ax.tick_params(length=0)
    return figure
