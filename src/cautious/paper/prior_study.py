"""Algorithm 1 and our learner in a grid world, neutral and with KL to a prior, with the same samples and seeds.

The steps of Algorithm 1 are the same for all learners and chosen for the neutral one, on seeds used for nothing
else: whatever the prior gains is then not gained by the choice of steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.errors import InputError
from cautious.learning.printed.algorithm_1 import AlgorithmOne
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.paper.prior_curves import LearningCurve, Worth, worth
from cautious.paper.prior_runs import Job, budget_curve, follow_all, prior_risk
from cautious.problem import Problem
from cautious.solvers.solve import solve

MULTIPLIER_STEPS = (3e-4, 1e-3, 3e-3)
OCCUPANCY_STEPS = (5e-4, 1e-3, 2e-3)
FIRST_TUNING_SEED = 10_000
# learning is judged at this part of the best return that the most cautious learner can reach
LEVEL = 0.95
# the part of the iterations that counts as early
EARLY = 0.2
# curves are compared from the first of so many parts of a run on
LEAST_LOOKS = 20


@dataclass(frozen=True)
class Size:
    """How long the runs are.

    ``samples`` iterations of Algorithm 1, looked at every ``every``; ``budgets`` of our learner; ``workers`` processes;
    ``tuning_seeds`` runs for each pair of steps.
    """

    samples: int
    every: int
    budgets: tuple[int, ...]
    workers: int
    tuning_seeds: int

    def __post_init__(self) -> None:
        if LEAST_LOOKS * self.every > self.samples:
            most = self.samples // LEAST_LOOKS
            raise InputError(f"every is {self.every}; it can be at most {most}, samples / {LEAST_LOOKS}")


@dataclass(frozen=True)
class Tuning:
    """The steps chosen, and the highest return with which the neutral learner ended with any of the pairs tried."""

    method: AlgorithmOne
    highest_end: float


@dataclass(frozen=True)
class PriorStudy:
    """All curves, by caution (0: neutral) and then by seed.

    ``control``: Algorithm 1 with KL to the uniform distribution and the smallest caution, on the early part only.
    ``theory``: the policy's worth at the end of one run with Theorem 1's steps and shifts. ``optimum``: exact worth of
    the best policies. ``blank``: worth of the uniform policy, with which all learning begins.
    """

    size: Size
    tuning: Tuning
    printed: Mapping[float, Sequence[LearningCurve]]
    ours: Mapping[float, Sequence[LearningCurve]]
    control: Sequence[LearningCurve]
    theory: Mapping[float, Worth]
    optimum: Mapping[float, Worth]
    blank: Worth

    @property
    def cautions(self) -> tuple[float, ...]:
        """Without the neutral one."""
        return tuple(caution for caution in self.printed if caution > 0)

    @property
    def level(self) -> float:
        """The return at which learners are timed: all of them can reach it."""
        return LEVEL * min(one.earned for one in self.optimum.values())

    @property
    def early(self) -> float:
        """Iterations of Algorithm 1 that count as early."""
        return EARLY * self.size.samples


def study(mdp: MDP, prior: Array, cautions: Sequence[float], size: Size, seeds: Sequence[int]) -> PriorStudy:
    """Run everything."""
    tuning = best_steps(mdp, prior, size)
    method = tuning.method
    everyone = (0.0, *cautions)
    even = np.full(mdp.shape, 1 / mdp.allowed.sum()) * mdp.allowed
    early = int(EARLY * size.samples)
    runs = [Job(mdp, prior, c, method, size.samples, size.every, seed) for c in everyone for seed in seeds]
    control = [Job(mdp, even, min(cautions), method, early, size.every, seed) for seed in seeds]
    theory = [Job(mdp, prior, c, AlgorithmOne(), size.samples, size.samples, seeds[0]) for c in everyone]
    curves = iter(follow_all([*runs, *control, *theory], size.workers))
    return PriorStudy(
        size=size,
        tuning=tuning,
        printed={c: [next(curves) for _ in seeds] for c in everyone},
        control=[next(curves) for _ in seeds],
        theory={c: _last(next(curves)) for c in everyone},
        ours={c: [budget_curve(mdp, prior, c, size.budgets, seed) for seed in seeds] for c in everyone},
        optimum={c: _optimum(mdp, prior, c) for c in everyone},
        blank=worth(mdp, uniform_policy(mdp.allowed)),
    )


def best_steps(mdp: MDP, prior: Array, size: Size) -> Tuning:
    """Of a small table of steps, without shifts, those with which the neutral learner earns most on average."""
    tried = [
        AlgorithmOne(multiplier_step=alpha, occupancy_step=beta, shift_reward=0.0, shift_risk=0.0)
        for alpha in MULTIPLIER_STEPS
        for beta in OCCUPANCY_STEPS
    ]
    seeds = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + size.tuning_seeds)
    jobs = [Job(mdp, prior, 0.0, method, size.samples, size.every, seed) for method in tried for seed in seeds]
    earned = np.array([curve.earned for curve in follow_all(jobs, size.workers)])
    by_pair = earned.reshape(len(tried), size.tuning_seeds, -1).mean(axis=1)
    return Tuning(tried[int(np.argmax(by_pair.mean(axis=1)))], float(by_pair[:, -1].max()))


def _optimum(mdp: MDP, prior: Array, caution: float) -> Worth:
    return worth(mdp, solve(Problem(mdp, prior_risk(prior, caution), caution)).require().policy)


def _last(curve: LearningCurve) -> Worth:
    return Worth(float(curve.earned[-1]), float(curve.dark[-1]))
