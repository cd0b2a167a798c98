"""Figure 3 of the paper: with KL to what was learned before the world drifted, the dark block is still avoided.

The maps are exact solutions. The claims are tested on exact solutions and on policies learned from samples.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.learning.plug_in.plug_in import PlugIn
from cautious.models.tabular import MDP
from cautious.paper.evidence import PaperClaim, Part, Row, Scale
from cautious.paper.prior_study import PolicyValue, StudiedPrior, learning_curve, policy_value, solved
from cautious.planning import plan
from cautious.report.canvas import Theme, new_figure, title
from cautious.report.drawings import colour_scale, draw_time_bar, paint_cells
from cautious.report.words import scene_of
from cautious.sweeps.jobs import run_jobs
from cautious.sweeps.statistics import Interval, interval
from cautious.worlds.grids import dark_cells, drift, drift_prior

CAUTION = 1.0
MIXED_SHARE = 0.05
SAMPLES_PER_PAIR = 10
# to avoid the block is to spend less than this part of the neutral policy's time there
AVOIDED_SHARE = 0.5
CAUTIONS = (0.1, 0.3, 1.0, 3.0, 10.0)
MIXES = (0.01, 0.2, 0.5, 1.0)
# the light cells' reward: with it in the dark cells too, nothing is left to avoid
LIGHT_REWARD = 0.3
# black around white is seen on every colour of the map
OUTLINE = (("#000000", 2.6), ("#ffffff", 1.2))


def make(scale: Scale, executor: Executor | None = None) -> Part:
    """The figure, its numbers and its claims."""
    mdp, prior = drift(), drift_prior(MIXED_SHARE)
    tables = {
        "prior": prior,
        "neutral": solved(mdp, prior, 0.0).occupancy,
        "cautious": solved(mdp, prior, CAUTION).occupancy,
    }
    shares = {name: 100 * table.sum(axis=1) for name, table in tables.items()}
    before, neutral, cautious = (f"{share[dark_cells(mdp)].sum():.1f} %" for share in shares.values())
    titles = (
        f"(a) prior: {before} in the block",
        f"(b) risk-neutral: {neutral}",
        f"(c) KL to (a), caution {CAUTION:g}: {cautious}",
    )
    return Part(
        key="figure-3",
        title="Figure 3: caution as nearness to what was learned before",
        caption=(
            "Share of discounted time in each cell, exact solutions, one colour scale; G is the goal, the outline the "
            "dark block. (a) The prior: the occupancy of the risk-neutral policy where dark cells pay -5, light cells "
            f"{LIGHT_REWARD:g}, the goal 1 and p = 0.4, mixed with {100 * MIXED_SHARE:g} % of the uniform "
            "distribution, without which it would forbid most pairs. (b) and (c): the drifted world, where dark cells "
            f"pay 0 and p = 0.6; (c) minds KL to (a) with caution {CAUTION:g}. Time in the block: {before}, {neutral}, "
            f"{cautious}. Discount {mdp.discount:g}; episodes begin in every cell equally often."
        ),
        alt=(
            "Three maps of the same 10x10 grid, coloured by the share of time in each cell. The prior and the cautious "
            "policy leave the outlined dark block pale; the risk-neutral policy walks through it."
        ),
        draw=lambda theme: _draw(mdp, dict(zip(titles, shares.values(), strict=True)), theme),
        rows=tuple(_rows(mdp, shares)),
        claims=(_avoids(mdp, prior, scale, executor), _avoids_after_the_cause_is_gone(prior, scale, executor)),
    )


def _rows(mdp: MDP, shares: Mapping[str, Array]) -> Iterator[Row]:
    scene = scene_of(mdp)
    for state, (i, j) in enumerate(scene.cells):
        times = {f"{name}_percent_of_time": float(share[state]) for name, share in shares.items()}
        yield {"row": i, "column": j, "mark": scene.grid[i][j], **times}


@dataclass(frozen=True)
class Avoidance:
    """The neutral and the cautious policy: exact, and learned with the same samples, seed by seed."""

    neutral: PolicyValue
    cautious: PolicyValue
    learned: tuple[tuple[PolicyValue, PolicyValue], ...]

    @property
    def ratio(self) -> Interval:
        """The learned cautious policy's time in dark cells as a part of the learned neutral one's."""
        return interval(cautious.dark_share / neutral.dark_share for neutral, cautious in self.learned)

    @property
    def difference(self) -> Interval:
        """How much less of its time the learned cautious policy spends in dark cells, as a share of all time."""
        return interval(neutral.dark_share - cautious.dark_share for neutral, cautious in self.learned)

    @property
    def kept(self) -> float:
        """The exact cautious policy's return as a share of the exact neutral one's."""
        return self.cautious.expected_return / self.neutral.expected_return

    @property
    def learned_kept(self) -> Interval:
        """The learned cautious policy's return as a share of the learned neutral one's."""
        return interval(cautious.expected_return / neutral.expected_return for neutral, cautious in self.learned)

    @property
    def holds(self) -> bool:
        """Whether the dark cells are avoided, by the exact policies and, as sure as intervals are, by learned ones."""
        exact = self.cautious.dark_share < AVOIDED_SHARE * self.neutral.dark_share
        return exact and self.ratio.high < AVOIDED_SHARE and self.difference.low > 0

    @property
    def learned_words(self) -> str:
        """What the learned policies do."""
        neutral, cautious = (interval(one.dark_share for one in values) for values in zip(*self.learned, strict=True))
        return (
            f"Learned from {SAMPLES_PER_PAIR} samples per pair ({neutral.n} seeds, plug-in): {neutral.percent} % "
            f"against {cautious.percent} %, a difference per seed of {self.difference.percent} percentage points, at "
            f"{self.learned_kept.percent} % of the return."
        )

    @property
    def numbers(self) -> dict[str, Interval | float]:
        """For machines."""
        return {
            "dark share, neutral, exact": self.neutral.dark_share,
            "dark share, cautious, exact": self.cautious.dark_share,
            "return kept, exact": self.kept,
            "dark share, learned difference": self.difference,
            "dark share, learned ratio": self.ratio,
            "return kept, learned": self.learned_kept,
        }


def avoidance(
    mdp: MDP, prior: Array, caution: float, seeds: Sequence[int], executor: Executor | None = None
) -> Avoidance:
    """Neutral against cautious, exact and learned by plug-in with ``SAMPLES_PER_PAIR``."""
    budgets = (SAMPLES_PER_PAIR * int(mdp.allowed.sum()),)
    run = {"prior": "prior", "method": PlugIn(prove=False), "budgets": budgets}
    jobs = [{**run, "caution": c, "seed": seed} for seed in seeds for c in (0.0, caution)]
    found = run_jobs(learning_curve, StudiedPrior(mdp, {"prior": prior}), jobs, executor)
    learned = [PolicyValue(*curve[1:, -1].tolist()) for curve in found]
    neutral, cautious = (policy_value(mdp, solved(mdp, prior, c).policy) for c in (0.0, caution))
    return Avoidance(neutral, cautious, tuple(zip(learned[::2], learned[1::2], strict=True)))


def _avoids(mdp: MDP, prior: Array, scale: Scale, executor: Executor | None) -> PaperClaim:
    found = avoidance(mdp, prior, CAUTION, range(scale.seeds), executor)
    cost = np.zeros(mdp.shape)
    cost[dark_cells(mdp)] = -1.0
    least = policy_value(mdp, plan(mdp, cost).policy(mdp.n_actions)).dark_share
    return PaperClaim(
        place="Section 6.2, Figure 3",
        said=(
            "With KL to the prior the policy avoids the dark block, the risk-neutral policy does not. (To avoid: less "
            f"than {100 * AVOIDED_SHARE:g} % of the neutral policy's time there.)"
        ),
        found=(
            f"Exact policies: the neutral one spends {_percent(found.neutral.dark_share)} of its time in the dark "
            f"block, the cautious one {_percent(found.cautious.dark_share)} (caution {CAUTION:g}), at "
            f"{_percent(found.kept)} of the return. No policy can go below {_percent(least)}, because episodes begin "
            f"anywhere. {found.learned_words}"
        ),
        holds=found.holds,
        caveat=_dependence(mdp, prior, found.neutral),
        numbers={**found.numbers, "least possible dark share": least},
    )


def _avoids_after_the_cause_is_gone(prior: Array, scale: Scale, executor: Executor | None) -> PaperClaim:
    """The paper's mouse: the electricity is off, and it still does not go there."""
    found = avoidance(drift(dark=LIGHT_REWARD), prior, CAUTION, range(scale.seeds), executor)
    mdp = drift()
    without, with_less = (_dark(mdp, drift_prior(MIXED_SHARE, dark), CAUTION) for dark in (LIGHT_REWARD, 0.0))
    return PaperClaim(
        place="Section 6.2, the mouse",
        said="Past bad experience keeps working after its cause is gone, like the mouse that no longer eats.",
        found=(
            f"When dark cells pay as much as light ones ({LIGHT_REWARD:g}), the neutral policy spends "
            f"{_percent(found.neutral.dark_share)} of its time there, the cautious one "
            f"{_percent(found.cautious.dark_share)}, at {_percent(found.kept)} of the return. {found.learned_words}"
        ),
        holds=found.holds,
        caveat=(
            "The experience need not have been painful. In the drifted world of the figure, a prior from a world where "
            f"dark cells merely paid nothing gives {_percent(with_less)}; one from a world where they paid as much as "
            f"light cells gives {_percent(without)}. What matters is that the prior stayed away, not how much it hurt."
        ),
        numbers={
            **found.numbers,
            "dark share, prior without pain": with_less,
            "dark share, prior without reason to avoid": without,
        },
    )


def _dependence(mdp: MDP, prior: Array, neutral: PolicyValue) -> str:
    """How the exact shares change with everything that was ours to choose."""
    by_caution = {c: policy_value(mdp, solved(mdp, prior, c).policy) for c in CAUTIONS}
    cautions = ", ".join(
        f"{_percent(one.dark_share)} at caution {c:g} "
        f"({_percent(one.expected_return / neutral.expected_return)} of the return)"
        for c, one in by_caution.items()
    )
    mixes = ", ".join(f"{_percent(_dark(mdp, drift_prior(mix), CAUTION))} with {100 * mix:g} %" for mix in MIXES)
    afraid = [_percent(_dark(drift(dark=-1.0), prior, c)) for c in (0.0, CAUTION)]
    return (
        f"It is a matter of degree: {cautions}. The prior is mixed with {100 * MIXED_SHARE:g} % of the uniform "
        f"distribution; at caution {CAUTION:g} the share is {mixes} (a uniform prior: some avoidance comes from the "
        "randomness that KL asks for, not from experience). Where dark cells still cost 1 point, the neutral policy "
        f"avoids them itself: {afraid[0]} against {afraid[1]}. Map and discount are ours; the paper's are missing from "
        "its text."
    )


def _dark(mdp: MDP, prior: Array, caution: float) -> float:
    """The best policy's share of time in dark cells."""
    return policy_value(mdp, solved(mdp, prior, caution).policy).dark_share


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _draw(mdp: MDP, panels: Mapping[str, Array], theme: Theme) -> Any:
    """Maps of the time (S,) in percent by title, on one colour scale, with the dark cells outlined."""
    from matplotlib.colors import LogNorm

    everything = np.concatenate(list(panels.values()))
    norm = LogNorm(everything[everything > 0].min(), everything.max(), clip=True)
    scale = colour_scale(norm, "viridis")
    figure = new_figure(theme, 3.2 * len(panels), 3.5)
    row = figure.subplots(1, len(panels), sharey=True)
    dark = np.array([list(cells) for cells in scene_of(mdp).grid]) == "D"
    for axes, (name, share) in zip(row, panels.items(), strict=True):
        paint_cells(axes, mdp, scale.to_rgba(share)[:, :3], theme, lines="none", unmarked=". D", compact=True)
        for colour, width in OUTLINE:
            for x, y in edges(dark):
                axes.plot(x, y, color=colour, linewidth=width, solid_capstyle="round", snap=False, clip_on=False)
        title(axes, name, theme)
        axes.label_outer()
    draw_time_bar(figure, row, scale, theme, mdp)
    return figure


def edges(inside: Mask) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Sides, each as (x ends, y ends), between a cell of the set and one outside it or beyond the map.

    Examples
    --------
    >>> len(edges(np.array([[True, True, False]])))
    6
    """
    padded = np.pad(inside, 1)
    upright, level = padded[:, 1:] != padded[:, :-1], padded[1:] != padded[:-1]
    sides = [((j - 0.5, j - 0.5), (i - 1.5, i - 0.5)) for i, j in np.argwhere(upright).tolist()]
    return sides + [((j - 1.5, j - 0.5), (i - 0.5, i - 0.5)) for i, j in np.argwhere(level).tolist()]
