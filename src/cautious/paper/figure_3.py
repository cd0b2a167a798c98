"""Figure 3 of the paper: with KL to what was learned before the world drifted, the dark block is still avoided.

The maps are exact solutions. The claims are tested on exact solutions and on policies learned from samples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.learning.plug_in.plug_in import PlugIn
from cautious.models.tabular import MDP
from cautious.paper.evidence import Claim, Interval, Part, Row, Scale, interval
from cautious.paper.prior_curves import Worth, worth
from cautious.paper.prior_maps import draw_maps
from cautious.paper.prior_runs import prior_risk
from cautious.paper.training import snapshots
from cautious.planning import plan
from cautious.problem import Problem
from cautious.report.words import scene_of
from cautious.risks.divergence import KL
from cautious.solution import Solution
from cautious.solvers.solve import solve
from cautious.worlds.grids import dark_cells, drift, drift_prior

CAUTION = 1.0
MIX = 0.05
SAMPLES_PER_PAIR = 10
# to avoid the block is to spend less than this part of the neutral policy's time there
AVOIDS = 0.5
CAUTIONS = (0.1, 0.3, 1.0, 3.0, 10.0)
MIXES = (0.01, 0.2, 0.5, 1.0)
# the light cells' reward: with it in the dark cells too, nothing is left to avoid
LIGHT_REWARD = 0.3


@dataclass(frozen=True)
class Avoidance:
    """The neutral and the cautious policy: exact, and learned with the same samples, seed by seed."""

    neutral: Worth
    cautious: Worth
    learned: tuple[tuple[Worth, Worth], ...]

    @property
    def ratio(self) -> Interval:
        """The learned cautious policy's time in dark cells as a part of the learned neutral one's."""
        return interval(cautious.dark / neutral.dark for neutral, cautious in self.learned)

    @property
    def difference(self) -> Interval:
        """How much less of its time the learned cautious policy spends in dark cells, as a share of all time."""
        return interval(neutral.dark - cautious.dark for neutral, cautious in self.learned)

    @property
    def kept(self) -> float:
        """The exact cautious policy's return as a share of the exact neutral one's."""
        return self.cautious.earned / self.neutral.earned

    @property
    def learned_kept(self) -> Interval:
        """The learned cautious policy's return as a share of the learned neutral one's."""
        return interval(cautious.earned / neutral.earned for neutral, cautious in self.learned)

    @property
    def holds(self) -> bool:
        """Whether the dark cells are avoided, by the exact policies and, as sure as intervals are, by learned ones."""
        exact = self.cautious.dark < AVOIDS * self.neutral.dark
        return exact and self.ratio.high < AVOIDS and self.difference.low > 0


def solved(mdp: MDP, prior: Array, caution: float) -> Solution:
    """The exact optimum with KL to a prior (S, A)."""
    return solve(Problem(mdp, KL(prior), caution)).require()


def avoidance(mdp: MDP, prior: Array, caution: float, seeds: Sequence[int]) -> Avoidance:
    """Neutral against cautious, exact and learned by plug-in with ``SAMPLES_PER_PAIR``."""
    neutral, cautious = (worth(mdp, solved(mdp, prior, c).policy) for c in (0.0, caution))
    learned = [(_learned_worth(mdp, prior, 0.0, seed), _learned_worth(mdp, prior, caution, seed)) for seed in seeds]
    return Avoidance(neutral, cautious, tuple(learned))


def _learned_worth(mdp: MDP, prior: Array, caution: float, seed: int) -> Worth:
    samples, risk = SAMPLES_PER_PAIR * int(mdp.allowed.sum()), prior_risk(prior, caution)
    return worth(mdp, snapshots(mdp, risk, caution, PlugIn(prove=False), samples, seed, [])[-1].policy)


def make(scale: Scale) -> Part:
    """Run it and say what came out."""
    mdp, prior = drift(), drift_prior(MIX)
    tables = {
        "prior": prior,
        "neutral": solved(mdp, prior, 0.0).occupancy,
        "cautious": solved(mdp, prior, CAUTION).occupancy,
    }
    shares = {name: 100 * table.sum(axis=1) for name, table in tables.items()}
    claims = (_avoids(mdp, prior, scale), _nothing_left_to_fear(prior, scale))
    dark = {name: float(share[dark_cells(mdp)].sum()) for name, share in shares.items()}
    titles = {
        "prior": f"(a) prior: {dark['prior']:.1f} % in the block",
        "neutral": f"(b) risk-neutral: {dark['neutral']:.1f} %",
        "cautious": f"(c) KL to (a), caution {CAUTION:g}: {dark['cautious']:.1f} %",
    }
    return Part(
        key="figure-3",
        title="Figure 3: caution as nearness to what was learned before",
        caption=_caption(mdp, dark),
        alt=(
            "Three maps of the same 10x10 grid, coloured by the share of time in each cell. The prior and the cautious "
            "policy leave the outlined dark block pale; the risk-neutral policy walks through it."
        ),
        draw=lambda theme: draw_maps(mdp, [(title, shares[name]) for name, title in titles.items()], theme),
        rows=tuple(_rows(mdp, shares)),
        claims=claims,
    )


def _avoids(mdp: MDP, prior: Array, scale: Scale) -> Claim:
    found = avoidance(mdp, prior, CAUTION, range(scale.seeds))
    least = _least_dark(mdp)
    text = (
        f"Exact policies: the neutral one spends {_percent(found.neutral.dark)} of its time in the dark block, the "
        f"cautious one {_percent(found.cautious.dark)} (caution {CAUTION:g}), at {_percent(found.kept)} of the return. "
        f"No policy can go below {_percent(least)}, because episodes begin anywhere. {_learned(found)}"
    )
    return Claim(
        place="Section 6.2, Figure 3",
        said=(
            "With KL to the prior the policy avoids the dark block, the risk-neutral policy does not. (To avoid: less "
            f"than {100 * AVOIDS:g} % of the neutral policy's time there.)"
        ),
        found=text,
        holds=found.holds,
        caveat=_dependence(mdp, prior, found),
        numbers={**_numbers(found), "least possible dark share": least},
    )


def _nothing_left_to_fear(prior: Array, scale: Scale) -> Claim:
    """The paper's mouse: the electricity is off, and it still does not go there."""
    found = avoidance(drift(dark=LIGHT_REWARD), prior, CAUTION, range(scale.seeds))
    harmless, harmful = (drift_prior(MIX, dark) for dark in (LIGHT_REWARD, 0.0))
    without, with_less = (worth(drift(), solved(drift(), one, CAUTION).policy).dark for one in (harmless, harmful))
    return Claim(
        place="Section 6.2, the mouse",
        said="Past bad experience keeps working after its cause is gone, like the mouse that no longer eats.",
        found=(
            f"When dark cells pay as much as light ones ({LIGHT_REWARD:g}), the neutral policy spends "
            f"{_percent(found.neutral.dark)} of its time there, the cautious one {_percent(found.cautious.dark)}, at "
            f"{_percent(found.kept)} of the return. {_learned(found)}"
        ),
        holds=found.holds,
        caveat=(
            "The experience need not have been painful. In the drifted world of the figure, a prior from a world where "
            f"dark cells merely paid nothing gives {_percent(with_less)}; one from a world where they paid as much as "
            f"light cells gives {_percent(without)}. What matters is that the prior stayed away, not how much it hurt."
        ),
        numbers={
            **_numbers(found),
            "dark share, prior without pain": with_less,
            "dark share, prior without reason to avoid": without,
        },
    )


def _learned(found: Avoidance) -> str:
    neutral, cautious = interval(one.dark for one, _ in found.learned), interval(one.dark for _, one in found.learned)
    return (
        f"Learned from {SAMPLES_PER_PAIR} samples per pair ({len(found.learned)} seeds, plug-in): {neutral.percent} % "
        f"against {cautious.percent} %, a difference per seed of {found.difference.percent} percentage points, at "
        f"{found.learned_kept.percent} % of the return."
    )


def _numbers(found: Avoidance) -> dict[str, Interval | float]:
    return {
        "dark share, neutral, exact": found.neutral.dark,
        "dark share, cautious, exact": found.cautious.dark,
        "return kept, exact": found.kept,
        "dark share, learned difference": found.difference,
        "dark share, learned ratio": found.ratio,
        "return kept, learned": found.learned_kept,
    }


def _dependence(mdp: MDP, prior: Array, found: Avoidance) -> str:
    """How the exact shares change with everything that was ours to choose."""
    by_caution = [worth(mdp, solved(mdp, prior, c).policy) for c in CAUTIONS]
    cautions = ", ".join(
        f"{_percent(one.dark)} at caution {c:g} ({_percent(one.earned / found.neutral.earned)} of the return)"
        for c, one in zip(CAUTIONS, by_caution, strict=True)
    )
    mixes = ", ".join(
        f"{_percent(worth(mdp, solved(mdp, drift_prior(mix), CAUTION).policy).dark)} with {100 * mix:g} %"
        for mix in MIXES
    )
    costly = drift(dark=-1.0)
    afraid = [_percent(worth(costly, solved(costly, prior, c).policy).dark) for c in (0.0, CAUTION)]
    return (
        f"It is a matter of degree: {cautions}. The prior is mixed with {100 * MIX:g} % of the uniform distribution; "
        f"at caution {CAUTION:g} the share is {mixes} (a uniform prior: some avoidance comes from the randomness that "
        "KL asks for, not from experience). Where dark cells still cost 1 point, the neutral policy avoids them "
        f"itself: {afraid[0]} against {afraid[1]}. Map and discount are ours; the paper's are missing from its text."
    )


def _least_dark(mdp: MDP) -> float:
    """The smallest share of time in dark cells that any policy has."""
    cost = np.zeros(mdp.shape)
    cost[dark_cells(mdp)] = -1.0
    return worth(mdp, plan(mdp, cost).policy(mdp.n_actions)).dark


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _caption(mdp: MDP, dark: dict[str, float]) -> str:
    return (
        "Share of discounted time in each cell, exact solutions, one colour scale; G is the goal, the outline the dark "
        "block. (a) The prior: the occupancy of the risk-neutral policy where dark cells pay -5, light cells "
        f"{LIGHT_REWARD:g}, the goal 1 and p = 0.4, mixed with {100 * MIX:g} % of the uniform distribution, without "
        "which it would forbid most pairs. (b) and (c): the drifted world, where dark cells pay 0 and p = 0.6; (c) "
        f"minds KL to (a) with caution {CAUTION:g}. Time in the block: {dark['prior']:.1f} %, {dark['neutral']:.1f} %, "
        f"{dark['cautious']:.1f} %. Discount {mdp.discount:g}; episodes begin in every cell equally often."
    )


def _rows(mdp: MDP, shares: dict[str, Array]) -> Iterator[Row]:
    scene = scene_of(mdp)
    for state, (i, j) in enumerate(scene.cells):
        times = {f"{name}_percent_of_time": float(share[state]) for name, share in shares.items()}
        yield {"row": i, "column": j, "mark": scene.grid[i][j], **times}
