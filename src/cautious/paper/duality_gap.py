"""What Theorems 1 and 2 and Corollary 1 speak about, measured on models that are known.

lam_bar is the average of Algorithm 1, d_bar = (1-gamma) lam_bar its occupancy, lam* the optimum. The duality gap is
L(v_bar, lam*) - min over the box |v| <= 2C of L(v, lam_bar). lam* balances the flow, so the first part is the optimum
whatever v_bar is, and the minimum over a box is closed form:

    gap = objective(lam*) - objective(lam_bar) + 2C | flow violation of lam_bar |_1.

Everything is in the model's own units of return. The theorems want rewards in [0, 1]: with rewards in [low, high] their
bound on the gap, and C, count (high - low) times; the violation has no unit.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from cautious.arrays import Array
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.learning.printed.algorithm_1 import AlgorithmOne, AlgorithmOneRun, reward_scale
from cautious.occupancy import flow_residual
from cautious.paper import training
from cautious.problem import Problem
from cautious.solvers.solve import solve
from cautious.sweeps.jobs import run_jobs
from cautious.sweeps.statistics import Interval, interval

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Instance:
    """A problem and its optimum: the objective ``best`` and the occupancy ``optimum`` (S, A)."""

    name: str
    problem: Problem
    best: float
    optimum: Array

    @property
    def pairs(self) -> int:
        """How many pairs of a state and an action exist."""
        return int(np.count_nonzero(self.problem.mdp.allowed))


@dataclass(frozen=True)
class GapCurve:
    """One instance at increasing numbers of ``samples``; every number of ``measure`` as a table (samples, seeds)."""

    instance: Instance
    samples: Sequence[int]
    numbers: Mapping[str, Array]

    def across(self, number: str) -> list[Interval]:
        """The mean of a number over seeds."""
        return [interval(row) for row in self.numbers[number]]


def with_optimum(name: str, problem: Problem) -> Instance:
    """Solve a problem exactly."""
    solution = solve(problem, tolerance=TOLERANCE).require()
    return Instance(name, problem, solution.objective, solution.occupancy)


def begin(problem: Problem, samples: int, seed: int) -> AlgorithmOneRun:
    """Algorithm 1 as printed, with the constants of Theorem 1, on the model's simulator."""
    run, _ = training.begin(AlgorithmOne(), problem.mdp, problem.unbound_risk, problem.caution, samples, seed)
    assert isinstance(run, AlgorithmOneRun)
    return run


def violation_of(problem: Problem, average: Array) -> float:
    """| sum_a (I - gamma P_a') lam_a - xi |_1 of a table d = (1-gamma) lam (S, A)."""
    return float(np.abs(flow_residual(problem.mdp, average)).sum()) / (1 - problem.mdp.discount)


def gap_of(instance: Instance, average: Array, box: float) -> float:
    """The duality gap of a table d_bar (S, A), for multipliers between -box and box, in units of return."""
    problem = instance.problem
    return instance.best - problem.objective(average) + box * violation_of(problem, average)


def divergence_of(average: Array, optimum: Array) -> float:
    """KL(average || optimum) of two occupancies (S, A): the direction of Corollary 1.

    Examples
    --------
    >>> round(divergence_of(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])), 4)
    0.1438
    """
    return float(rel_entr(average, optimum).sum())


def measure(instance: Instance, samples: int, seed: int) -> dict[str, float]:
    """Run Algorithm 1 to its end and judge what it leaves; the module's text has the formulas.

    ``policy_error`` is what the policy read off the average loses, judged by its own occupancy. ``divergence`` is
    KL(d_bar || d*), infinite where the optimum leaves pairs out. ``bound`` is Theorem 1's epsilon, for the expected
    gap. ``violation_bound`` is Theorem 2's, (1-gamma) epsilon / (1 + c sigma); ``divergence_bound`` is Corollary 1's,
    epsilon / c; ``_allowed`` are the same with the measured gap for epsilon. ``box`` is 2C in units of return.
    """
    problem, run = instance.problem, begin(instance.problem, samples, seed)
    while not run.done:
        run.advance()
    constants, (_, width) = run.constants, reward_scale(run.task)
    average, box = run.occupancy, width * constants.box
    gap, bound = gap_of(instance, average, box), width * run.method.theorem_bound(constants)
    found = {
        "suboptimality": instance.best - problem.objective(average),
        "violation": violation_of(problem, average),
        "gap": gap,
        "policy_error": instance.best - evaluate_policy(problem, run.result().policy).objective,
        "divergence": divergence_of(average, instance.optimum),
        "bound": bound,
        "box": box,
        "violation_bound": 2 * bound / box,
        "violation_allowed": 2 * gap / box,
    }
    if problem.caution > 0:
        found |= {"divergence_bound": bound / problem.caution, "divergence_allowed": gap / problem.caution}
    return found


def measured(instances: Sequence[Instance], job: Mapping[str, int]) -> dict[str, float]:
    """``measure`` as a job: the number of the instance, the samples and the seed."""
    return measure(instances[job["instance"]], job["samples"], job["seed"])


def curve(instance: Instance, samples: Sequence[int], seeds: int, executor: Executor | None = None) -> GapCurve:
    """Independent runs for every number of samples: the steps of Theorem 1 depend on it."""
    jobs = [{"instance": 0, "samples": n, "seed": seed} for n in samples for seed in range(seeds)]
    runs = run_jobs(measured, [instance], jobs, executor, weight=lambda job: float(job["samples"]))
    shape = (len(samples), seeds)
    return GapCurve(instance, samples, {name: np.array([one[name] for one in runs]).reshape(shape) for name in runs[0]})
