"""The problems on which the theorems are checked, all their measurements, and how they grow with the model.

Small models with a small discount, because only there does Theorem 1's bound fall below the range of returns within a
budget one can wait for: it grows with the square of the horizon. The growth is measured on garnets of one kind:
``ACTIONS`` actions, ``SUCCESSORS`` successors per pair, rewards uniform in [0, 1]. Each seed has its own models and its
own samples, so an interval speaks about the kind and not about one model.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.paper.duality_gap import GapCurve, Instance, curve, measured, with_optimum
from cautious.paper.evidence import Scale
from cautious.problem import Problem
from cautious.risks.divergence import KL
from cautious.risks.features import PeakExposure
from cautious.sweeps.jobs import run_jobs
from cautious.sweeps.statistics import Interval, interval
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
FIRST_SAMPLES = 2**12
ACTIONS, SUCCESSORS = 4, 5


@dataclass(frozen=True)
class Growth:
    """Numbers ``y`` (one interval each) against ``x``, and the exponent of the power law through them."""

    x: tuple[float, ...]
    y: tuple[Interval, ...]
    exponent: Interval


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent of the power law through the points.

    Examples
    --------
    >>> round(slope([1, 2, 4], [3, 24, 192]), 12)
    3.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def crossing(samples: Sequence[int], gaps: Array, accuracy: float) -> float:
    """The number of samples at which gaps (K,) first fall below the accuracy, between two marks on logarithmic scales.

    Outside the marks the gap is continued like T^-1/2; this happens when a seed is left out, and then by little.
    """
    below = np.flatnonzero(gaps <= accuracy)
    k = int(below[0]) if below.size else len(samples) - 1
    if k == 0 or not below.size:
        return float(samples[k] * (gaps[k] / accuracy) ** 2)
    share = np.log(gaps[k - 1] / accuracy) / np.log(gaps[k - 1] / gaps[k])
    return float(samples[k - 1] * (samples[k] / samples[k - 1]) ** share)


def jackknife(estimate: Callable[[Array], float], seeds: int) -> Interval:
    """The 95 % interval of an estimate from all seeds: Student's t on its pseudo-values.

    ``estimate`` takes weights (seeds,) that sum to one: all equal, or with one seed left out.
    """
    whole = estimate(np.full(seeds, 1 / seeds))
    without = (np.ones((seeds, seeds)) - np.eye(seeds)) / (seeds - 1)
    return interval(seeds * whole - (seeds - 1) * estimate(weights) for weights in without)


def samples_needed(
    sizes: Sequence[int], accuracy: float, discount: float, seeds: int, executor: Executor | None = None
) -> tuple[Growth, Interval]:
    """The samples after which the mean gap over seeds is below ``accuracy``, against the number of pairs.

    The interval is that of the exponent after division by the logarithm of the pairs.
    """
    pairs = tuple(float(ACTIONS * n) for n in sizes)
    tables = [_gaps(n, accuracy, discount, seeds, executor) for n in sizes]

    def needed(weights: Array) -> Array:
        return np.array([crossing(samples, weights @ gaps, accuracy) for samples, gaps in tables])

    def point(k: int) -> Interval:
        log = jackknife(lambda weights: float(np.log(needed(weights)[k])), seeds)
        return Interval(float(np.exp(log.mean)), float(np.exp(log.low)), float(np.exp(log.high)), log.n)

    growth = Growth(
        x=pairs,
        y=tuple(point(k) for k in range(len(sizes))),
        exponent=jackknife(lambda weights: slope(pairs, needed(weights).tolist()), seeds),
    )
    return growth, jackknife(lambda weights: slope(pairs, (needed(weights) / np.log(pairs)).tolist()), seeds)


def _garnet(n_states: int, discount: float, seed: int) -> Instance:
    model = garnet(n_states, ACTIONS, SUCCESSORS, discount, seed)
    return with_optimum(f"garnet of {n_states} states", Problem(model))


def _gaps(
    n_states: int, accuracy: float, discount: float, seeds: int, executor: Executor | None
) -> tuple[list[int], Array]:
    """Doubled numbers of samples until the mean gap is below the accuracy, and the gaps (seeds, K)."""
    instances = [_garnet(n_states, discount, seed) for seed in range(seeds)]
    samples: list[int] = []
    columns: list[list[float]] = []
    while len(columns) < 2 or np.mean(columns[-1]) > accuracy:
        samples.append(2 * samples[-1] if samples else FIRST_SAMPLES)
        jobs = [{"instance": seed, "samples": samples[-1], "seed": seed} for seed in range(seeds)]
        columns.append([found["gap"] for found in run_jobs(measured, instances, jobs, executor)])
    return samples, np.array(columns).T


def gap_against_horizon(
    discounts: Sequence[float], n_states: int, samples: int, seeds: int, executor: Executor | None = None
) -> Growth:
    """The gap after a fixed number of samples, against 1/(1 - discount); the models differ in the discount only."""
    horizons = tuple(1 / (1 - discount) for discount in discounts)
    instances = [_garnet(n_states, gamma, seed) for seed in range(seeds) for gamma in discounts]
    jobs = [{"instance": k, "samples": samples, "seed": k // len(discounts)} for k in range(len(instances))]
    found = run_jobs(measured, instances, jobs, executor)
    table = np.array([one["gap"] for one in found]).reshape(seeds, len(discounts))
    return Growth(
        x=horizons,
        y=tuple(interval(column) for column in table.T),
        exponent=interval(slope(horizons, row) for row in table.tolist()),
    )


@dataclass(frozen=True)
class StudyPlan:
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


FULL_PLAN = StudyPlan(7.0, 6.0, 5.5, (10, 20, 40, 80), 0.5, (0.5, 0.7, 0.8, 0.9, 0.95, 0.98), 300_000)
QUICK_PLAN = StudyPlan(5.0, 4.5, 4.5, (10, 20, 40), 0.8, (0.5, 0.8, 0.95), 10_000)


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
    plan: StudyPlan
    seeds: int


def marks(top: float) -> list[int]:
    """Half decades of samples from a thousand."""
    return [round(10**power) for power in np.arange(3, top + 0.1, 0.5)]


def peak_problem() -> Problem:
    """A 4x4 grid whose two groups of dark cells pay well; the risk is the time in the worse group."""
    mdp = from_grid(GRID, GRID_PAYS, discount=DISCOUNT)
    dark, half = cells_marked(mdp, "D"), mdp.n_states // 2
    return Problem(mdp, PeakExposure([dark[dark < half], dark[dark >= half]]), PEAK_CAUTION)


def study(scale: Scale, executor: Executor | None = None) -> TheoremStudy:
    """Measure all; the seeds of the first three panels draw samples on fixed models."""
    plan, seeds = QUICK_PLAN if scale.quick else FULL_PLAN, scale.seeds
    mdp = garnet(10, 2, 3, discount=DISCOUNT)
    prior = np.random.default_rng(0).dirichlet(np.ones(mdp.allowed.size)).reshape(mdp.shape)
    kl = Problem(mdp, KL(prior), SHOWN_CAUTION)
    neutral = curve(with_optimum("risk-neutral, garnet", Problem(mdp)), marks(plan.neutral), seeds, executor)
    by_caution = {
        c: curve(with_optimum(f"KL, caution {c:g}, garnet", kl.with_caution(c)), marks(plan.kl), seeds, executor)
        for c in CAUTIONS
    }
    peak = with_optimum(f"peak, caution {PEAK_CAUTION:g}, 4x4 grid", peak_problem())
    growth, per_log = samples_needed(plan.sizes, plan.accuracy, DISCOUNT, seeds, executor)
    return TheoremStudy(
        curves=(neutral, by_caution[SHOWN_CAUTION], curve(peak, marks(plan.peak), seeds, executor)),
        by_caution=by_caution,
        growth=growth,
        per_log=per_log,
        horizon=gap_against_horizon(plan.discounts, HORIZON_STATES, plan.horizon_samples, seeds, executor),
        plan=plan,
        seeds=seeds,
    )
