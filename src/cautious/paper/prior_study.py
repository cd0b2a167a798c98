"""Algorithm 1 and our learner in a grid world, neutral and with KL to a prior, with the same samples and seeds.

All numbers are exact values of policies in the true model: the policy one would take after so many samples is read off
the learner, and its occupancy is computed. Only the policy depends on the seed. The steps of Algorithm 1 are the same
for all learners and chosen for the neutral one, on seeds used for nothing else: whatever the prior gains is then not
gained by the choice of steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array, Mask
from cautious.learning.primal_dual.primal_dual import PrimalDual
from cautious.learning.printed.algorithm_1 import AlgorithmOne
from cautious.models.tabular import MDP
from cautious.occupancy import policy_occupancy, uniform_policy
from cautious.paper.evidence import Interval, interval
from cautious.paper.training import snapshots
from cautious.problem import Problem
from cautious.risks.divergence import KL
from cautious.runtime.processes import process_pool
from cautious.solution import Solution
from cautious.solvers.solve import solve
from cautious.worlds.grids import dark_cells

MULTIPLIER_STEPS = (3e-4, 1e-3, 3e-3)
OCCUPANCY_STEPS = (5e-4, 1e-3, 2e-3)
FIRST_TUNING_SEED = 10_000
# learning is judged at this part of the best return that the most cautious learner can reach
LEVEL_SHARE = 0.95
# the part of the iterations that counts as early
EARLY_SHARE = 0.2
# curves are compared from the first of so many parts of a run on
LEAST_LOOKS = 20
# arguments of ``run_algorithm_1``
Job = tuple[MDP, Array, float, AlgorithmOne, int, int, int]


@dataclass(frozen=True)
class PolicyValue:
    """A policy's discounted return, and its share in [0, 1] of discounted time in dark cells."""

    expected_return: float
    dark_share: float


def policy_value(mdp: MDP, policy: Array) -> PolicyValue:
    """Exact, for a policy (S, A) in a grid world."""
    occupancy = policy_occupancy(mdp, policy).occupancy
    expected_return = float(np.sum(occupancy * mdp.rewards)) / (1 - mdp.discount)
    return PolicyValue(expected_return, float(occupancy[dark_cells(mdp)].sum()))


def solved(mdp: MDP, prior: Array, caution: float) -> Solution:
    """The exact optimum with KL to a prior (S, A)."""
    return solve(Problem(mdp, KL(prior), caution)).require()


def prior_risk(prior: Array, caution: float) -> KL | None:
    """The risk of a learner: KL to the prior (S, A), or none without caution."""
    return KL(prior) if caution > 0 else None


@dataclass(frozen=True)
class LearningCurves:
    """One learner: after ``samples`` (k,) transitions the numbers of ``PolicyValue`` of its policy, (seeds, k) each."""

    samples: Array
    expected_return: Array
    dark_share: Array

    def looks_until(self, samples: float) -> int:
        """How many of the points lie at or before so many samples."""
        return int(np.count_nonzero(self.samples <= samples))

    def samples_to_level(self, level: float) -> tuple[Array, Mask]:
        """(seeds,) samples at the first point whose return is at least ``level``, True; or all samples, False."""
        there = self.expected_return >= level
        reached: Mask = np.any(there, axis=1)
        return self.samples[np.where(reached, there.argmax(axis=1), -1)], reached


def curves_of(runs: Sequence[Array]) -> LearningCurves:
    """The curves of a learner from one table (3, k) per seed: samples, expected return, dark share."""
    table = np.array(runs)
    return LearningCurves(table[0, 0], np.ascontiguousarray(table[:, 1]), np.ascontiguousarray(table[:, 2]))


@dataclass(frozen=True)
class Speed:
    """How much sooner the second of two learners reaches a return, seed by seed.

    ``first``, ``second``: samples it takes; ``saved`` their difference. A run that never gets there counts with all its
    samples; ``never`` says how many do not, of each learner.
    """

    first: Interval
    second: Interval
    saved: Interval
    never: tuple[int, int]


def compare_speed(first: LearningCurves, second: LearningCurves, level: float) -> Speed:
    """Two learners with the same seeds, in the same order."""
    (slow, slow_reached), (fast, fast_reached) = (one.samples_to_level(level) for one in (first, second))
    never = int(np.count_nonzero(~slow_reached)), int(np.count_nonzero(~fast_reached))
    return Speed(interval(slow), interval(fast), interval(slow - fast), never)


def mean_gain(first: LearningCurves, second: LearningCurves, samples: float) -> Interval:
    """Mean return of the second learner minus that of the first over the points up to ``samples``, seed by seed."""
    early, late = (one.expected_return[:, : one.looks_until(samples)].mean(axis=1) for one in (first, second))
    return interval(late - early)


def dark_avoided(first: LearningCurves, second: LearningCurves, samples: float) -> Interval:
    """Time in dark cells of the first learner minus that of the second, at the last point up to ``samples``."""
    there, here = (one.dark_share[:, one.looks_until(samples) - 1] for one in (first, second))
    return interval(there - here)


def ends_higher(first: LearningCurves, second: LearningCurves) -> Interval:
    """Return of the first learner minus that of the second, when all samples are used."""
    return interval(first.expected_return[:, -1] - second.expected_return[:, -1])


def overtaken_at(first: LearningCurves, second: LearningCurves) -> float | None:
    """Samples from which on the first learner's mean return stays above the second's; None when it ends below."""
    gap = (first.expected_return - second.expected_return).mean(axis=0)
    below = np.flatnonzero(gap <= 0)
    if not below.size:
        return float(first.samples[0])
    return None if below[-1] == gap.size - 1 else float(first.samples[below[-1] + 1])


def run_algorithm_1(
    mdp: MDP, prior: Array, caution: float, method: AlgorithmOne, samples: int, every: int, seed: int
) -> Array:
    """Samples, expected return and dark share (3, k) of the policies read off the averages, every so many iterations.

    Caution 0 ignores the prior.
    """
    marks = range(every, samples + 1, every)
    found = snapshots(mdp, prior_risk(prior, caution), caution, method, samples, seed, marks)
    return _points(mdp, [one.samples for one in found], [one.policy for one in found])


def run_all(jobs: Sequence[Job], workers: int) -> list[Array]:
    """``run_algorithm_1`` of all jobs, in their order; the same numbers with any number of ``workers``."""
    if workers == 1:
        return [run_algorithm_1(*job) for job in jobs]
    with process_pool(workers) as pool:
        return [one.result() for one in [pool.submit(run_algorithm_1, *job) for job in jobs]]


def _budget_run(mdp: MDP, prior: Array, caution: float, budgets: Sequence[int], seed: int) -> Array:
    """Our learner (3, k), a whole run for each number of samples: its steps depend on how many it is given."""
    risk = prior_risk(prior, caution)
    finals = [snapshots(mdp, risk, caution, PrimalDual(), budget, seed)[-1].policy for budget in budgets]
    return _points(mdp, budgets, finals)


def _points(mdp: MDP, samples: Sequence[int], policies: Sequence[Array]) -> Array:
    values = [policy_value(mdp, policy) for policy in policies]
    return np.array(
        [samples, [one.expected_return for one in values], [one.dark_share for one in values]], dtype=np.float64
    )


@dataclass(frozen=True)
class Size:
    """How long the runs are.

    ``samples`` iterations of Algorithm 1, looked at every ``every``, at least ``LEAST_LOOKS`` times; ``budgets`` of our
    learner; ``workers`` processes; ``tuning_seeds`` runs for each pair of steps.
    """

    samples: int
    every: int
    budgets: tuple[int, ...]
    workers: int
    tuning_seeds: int


@dataclass(frozen=True)
class Tuning:
    """The steps chosen, and the highest return with which the neutral learner ended with any of the pairs tried."""

    method: AlgorithmOne
    highest_end: float


@dataclass(frozen=True)
class PriorStudy:
    """All curves by caution, 0 being the neutral learner.

    ``control``: Algorithm 1 with KL to the uniform distribution and the smallest caution, on the early part only.
    ``theory``: the policy at the end of one run with Theorem 1's steps and shifts. ``optimum``: the best policies.
    ``uniform``: the uniform policy, with which all learning begins.
    """

    size: Size
    tuning: Tuning
    printed: Mapping[float, LearningCurves]
    ours: Mapping[float, LearningCurves]
    control: LearningCurves
    theory: Mapping[float, PolicyValue]
    optimum: Mapping[float, PolicyValue]
    uniform: PolicyValue

    @property
    def cautions(self) -> tuple[float, ...]:
        """Without the neutral one."""
        return tuple(caution for caution in self.printed if caution > 0)

    @property
    def level(self) -> float:
        """The return at which learners are timed: all of them can reach it."""
        return LEVEL_SHARE * min(one.expected_return for one in self.optimum.values())

    @property
    def early(self) -> float:
        """Iterations of Algorithm 1 that count as early."""
        return EARLY_SHARE * self.size.samples


def study(mdp: MDP, prior: Array, cautions: Sequence[float], size: Size, seeds: Sequence[int]) -> PriorStudy:
    """Run everything."""
    tuning = best_steps(mdp, prior, size)
    method = tuning.method
    everyone = (0.0, *cautions)
    even = np.full(mdp.shape, 1 / mdp.allowed.sum()) * mdp.allowed
    early = int(EARLY_SHARE * size.samples)
    runs = [(mdp, prior, c, method, size.samples, size.every, seed) for c in everyone for seed in seeds]
    control = [(mdp, even, min(cautions), method, early, size.every, seed) for seed in seeds]
    theory = [(mdp, prior, c, AlgorithmOne(), size.samples, size.samples, seeds[0]) for c in everyone]
    found = iter(run_all([*runs, *control, *theory], size.workers))
    return PriorStudy(
        size=size,
        tuning=tuning,
        printed={c: curves_of([next(found) for _ in seeds]) for c in everyone},
        control=curves_of([next(found) for _ in seeds]),
        theory={c: PolicyValue(*next(found)[1:, -1].tolist()) for c in everyone},
        ours={c: curves_of([_budget_run(mdp, prior, c, size.budgets, seed) for seed in seeds]) for c in everyone},
        optimum={c: policy_value(mdp, solved(mdp, prior, c).policy) for c in everyone},
        uniform=policy_value(mdp, uniform_policy(mdp.allowed)),
    )


def best_steps(mdp: MDP, prior: Array, size: Size) -> Tuning:
    """Of a small table of steps, without shifts, those with which the neutral learner earns most on average."""
    tried = [
        AlgorithmOne(multiplier_step=alpha, occupancy_step=beta, shift_reward=0.0, shift_risk=0.0)
        for alpha in MULTIPLIER_STEPS
        for beta in OCCUPANCY_STEPS
    ]
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + size.tuning_seeds)
    jobs = [(mdp, prior, 0.0, method, size.samples, size.every, seed) for method in tried for seed in seeds]
    returns = np.array([run[1] for run in run_all(jobs, size.workers)])
    by_pair = returns.reshape(len(tried), size.tuning_seeds, -1).mean(axis=1)
    return Tuning(tried[int(np.argmax(by_pair.mean(axis=1)))], float(by_pair[:, -1].max()))
