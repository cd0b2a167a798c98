"""Algorithm 1 and our learner in a grid world, neutral and with KL to a prior, with the same samples and seeds.

All numbers are exact values of policies in the true model: the policy one would take after so many samples is read off
the learner, and its occupancy is computed. Only the policy depends on the seed. The steps of Algorithm 1 are the same
for all learners and chosen for the neutral one, on seeds used for nothing else: whatever the prior gains is then not
gained by the choice of steps.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array, Mask
from cautious.learning.primal_dual.primal_dual import PrimalDual
from cautious.learning.printed.algorithm_1 import AlgorithmOne
from cautious.models.tabular import MDP
from cautious.occupancy import policy_occupancy, uniform_policy
from cautious.paper.training import snapshots
from cautious.problem import Problem
from cautious.risks.divergence import KL
from cautious.solution import Solution
from cautious.solvers.solve import solve
from cautious.sweeps.folder import Job
from cautious.sweeps.jobs import run_jobs
from cautious.sweeps.statistics import Interval, interval
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


@dataclass(frozen=True)
class StudiedPrior:
    """What the runs share: the model, and the priors (S, A) that the jobs name."""

    mdp: MDP
    priors: Mapping[str, Array]


def learning_curve(shared: StudiedPrior, job: Job) -> Array:
    """Samples, expected return and dark share (3, k) of the policies of one run, or of a run for each budget.

    Algorithm 1 is looked at every so many iterations; our learner has a whole run for each number of samples, because
    its steps depend on how many it is given. Caution 0 ignores the prior.
    """
    mdp, caution, method = shared.mdp, job["caution"], job["method"]
    risk, seed = prior_risk(shared.priors[job["prior"]], caution), job["seed"]
    if "budgets" in job:
        runs = [snapshots(mdp, risk, caution, method, budget, seed)[-1] for budget in job["budgets"]]
        return _points(mdp, job["budgets"], [one.policy for one in runs])
    marks = range(job["every"], job["samples"] + 1, job["every"])
    found = snapshots(mdp, risk, caution, method, job["samples"], seed, marks)
    return _points(mdp, [one.samples for one in found], [one.policy for one in found])


def _points(mdp: MDP, samples: Sequence[int], policies: Sequence[Array]) -> Array:
    values = [policy_value(mdp, policy) for policy in policies]
    return np.array(
        [samples, [one.expected_return for one in values], [one.dark_share for one in values]], dtype=np.float64
    )


@dataclass(frozen=True)
class Size:
    """How long the runs are.

    ``samples`` iterations of Algorithm 1, looked at every ``every``, at least ``LEAST_LOOKS`` times; ``budgets`` of our
    learner; ``tuning_seeds`` runs for each pair of steps.
    """

    samples: int
    every: int
    budgets: tuple[int, ...]
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


def study(
    mdp: MDP,
    prior: Array,
    cautions: Sequence[float],
    size: Size,
    seeds: Sequence[int],
    executor: Executor | None = None,
) -> PriorStudy:
    """Run everything."""
    even = np.full(mdp.shape, 1 / mdp.allowed.sum()) * mdp.allowed
    shared = StudiedPrior(mdp, {"prior": prior, "even": even})
    tuning = best_steps(shared, size, executor)
    everyone, early = (0.0, *cautions), int(EARLY_SHARE * size.samples)
    chosen = {"prior": "prior", "method": tuning.method, "samples": size.samples, "every": size.every}
    ours = {"prior": "prior", "method": PrimalDual(), "budgets": size.budgets}
    control = {**chosen, "prior": "even", "caution": min(cautions), "samples": early}
    theory = {**chosen, "method": AlgorithmOne(), "every": size.samples, "seed": seeds[0]}
    jobs: list[Job] = [
        *({**one, "caution": c, "seed": seed} for one in (chosen, ours) for c in everyone for seed in seeds),
        *({**control, "seed": seed} for seed in seeds),
        *({**theory, "caution": c} for c in everyone),
    ]
    found = iter(run_jobs(learning_curve, shared, jobs, executor))
    return PriorStudy(
        size=size,
        tuning=tuning,
        printed={c: curves_of([next(found) for _ in seeds]) for c in everyone},
        ours={c: curves_of([next(found) for _ in seeds]) for c in everyone},
        control=curves_of([next(found) for _ in seeds]),
        theory={c: PolicyValue(*next(found)[1:, -1].tolist()) for c in everyone},
        optimum={c: policy_value(mdp, solved(mdp, prior, c).policy) for c in everyone},
        uniform=policy_value(mdp, uniform_policy(mdp.allowed)),
    )


def best_steps(shared: StudiedPrior, size: Size, executor: Executor | None = None) -> Tuning:
    """Of a small table of steps, without shifts, those with which the neutral learner earns most on average."""
    tried = [
        AlgorithmOne(multiplier_step=alpha, occupancy_step=beta, shift_reward=0.0, shift_risk=0.0)
        for alpha in MULTIPLIER_STEPS
        for beta in OCCUPANCY_STEPS
    ]
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + size.tuning_seeds)
    length = {"prior": "prior", "caution": 0.0, "samples": size.samples, "every": size.every}
    jobs = [{**length, "method": method, "seed": seed} for method in tried for seed in seeds]
    returns = np.array([run[1] for run in run_jobs(learning_curve, shared, jobs, executor)])
    by_pair = returns.reshape(len(tried), size.tuning_seeds, -1).mean(axis=1)
    return Tuning(tried[int(np.argmax(by_pair.mean(axis=1)))], float(by_pair[:, -1].max()))
