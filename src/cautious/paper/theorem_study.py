"""The problems on which the theorems are checked, and all their measurements.

Small models with a small discount, because only there does Theorem 1's bound fall below the range of returns within a
budget one can wait for: it grows with the square of the horizon.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.models.tabular import MDP
from cautious.paper.duality_gap import GapCurve, curve, with_optimum
from cautious.paper.evidence import Interval, Scale
from cautious.paper.sample_growth import Growth, gap_against_horizon, samples_needed
from cautious.problem import Problem
from cautious.risks.divergence import KL
from cautious.risks.features import PeakExposure
from cautious.worlds.grids import cells_marked, from_grid
from cautious.worlds.random_models import garnet

DISCOUNT = 0.5
CAUTIONS = (0.1, 1.0, 10.0)
SHOWN_CAUTION = 1.0
GRID = ("..D.", "..D.", "....", "DD.G")
# outside [0, 1], so that the rescaling inside is tested too
GRID_PAYS = {".": -1.0, "D": 0.5, "G": 2.0}
PEAK_CAUTION = 5.0
HORIZON_STATES = 20


@dataclass(frozen=True)
class Plan:
    """How far to go.

    ``neutral``, ``kl``, ``peak``: the largest powers of ten of T. ``sizes`` and ``accuracy``: the numbers of states of
    the growth, and the gap to be reached. ``discounts`` and ``horizon_samples``: the growth with the horizon.
    """

    neutral: float
    kl: float
    peak: float
    sizes: tuple[int, ...]
    accuracy: float
    discounts: tuple[float, ...]
    horizon_samples: int


FULL_PLAN = Plan(7.0, 6.0, 5.5, (10, 20, 40, 80), 0.5, (0.5, 0.7, 0.8, 0.9, 0.95, 0.98), 300_000)
QUICK_PLAN = Plan(5.0, 4.5, 4.5, (10, 20, 40), 0.8, (0.5, 0.8, 0.95), 10_000)


@dataclass(frozen=True)
class TheoremStudy:
    """Everything measured.

    ``curves`` are the problems of Theorems 1 and 2; ``by_caution`` has the KL problem for each caution of Corollary 1;
    ``growth`` the samples needed against the pairs, ``per_log`` its exponent after division by the logarithm of the
    pairs, ``horizon`` the gap against the horizon.
    """

    curves: tuple[GapCurve, ...]
    by_caution: Mapping[float, GapCurve]
    growth: Growth
    per_log: Interval
    horizon: Growth
    plan: Plan
    seeds: int


def marks(top: float) -> list[int]:
    """Half decades of samples from a thousand."""
    return [round(10**power) for power in np.arange(3, top + 0.1, 0.5)]


def small_garnet() -> MDP:
    """Ten states, two actions, three successors per pair, rewards in [0, 1]."""
    return garnet(10, 2, 3, discount=DISCOUNT)


def random_prior(mdp: MDP) -> Array:
    """A prior (S, A) drawn once, uniformly on the simplex."""
    return np.random.default_rng(0).dirichlet(np.ones(mdp.allowed.size)).reshape(mdp.shape)


def peak_problem() -> Problem:
    """A 4x4 grid whose two groups of dark cells pay well; the risk is the time in the worse group."""
    mdp = from_grid(GRID, GRID_PAYS, discount=DISCOUNT)
    dark, half = cells_marked(mdp, "D"), mdp.n_states // 2
    return Problem(mdp, PeakExposure([dark[dark < half], dark[dark >= half]]), PEAK_CAUTION)


def study(scale: Scale) -> TheoremStudy:
    """Measure all; the seeds of the first three panels draw samples on fixed models."""
    plan, seeds = QUICK_PLAN if scale.quick else FULL_PLAN, scale.seeds
    mdp = small_garnet()
    kl = Problem(mdp, KL(random_prior(mdp)), SHOWN_CAUTION)
    neutral = curve(with_optimum("risk-neutral, garnet", Problem(mdp)), marks(plan.neutral), seeds)
    by_caution = {
        c: curve(with_optimum(f"KL, caution {c:g}, garnet", kl.with_caution(c)), marks(plan.kl), seeds)
        for c in CAUTIONS
    }
    peak = curve(with_optimum(f"peak, caution {PEAK_CAUTION:g}, 4x4 grid", peak_problem()), marks(plan.peak), seeds)
    growth, per_log = samples_needed(plan.sizes, plan.accuracy, DISCOUNT, seeds)
    return TheoremStudy(
        curves=(neutral, by_caution[SHOWN_CAUTION], peak),
        by_caution=by_caution,
        growth=growth,
        per_log=per_log,
        horizon=gap_against_horizon(plan.discounts, HORIZON_STATES, plan.horizon_samples, seeds),
        plan=plan,
        seeds=seeds,
    )
