"""How policies of the maze change while they are learned: the numbers behind figure 2."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.evaluation.evaluate import evaluate
from cautious.learning.method import Method
from cautious.learning.plug_in.plug_in import PlugIn
from cautious.learning.primal_dual.primal_dual import PrimalDual
from cautious.learning.printed.algorithm_2 import AlgorithmTwo
from cautious.learning.printed.block_ascent import BlockAscent, block_ascent
from cautious.models.tabular import MDP
from cautious.occupancy import occupancy_policy, uniform_policy
from cautious.paper.evidence import Row
from cautious.paper.training import snapshots
from cautious.problem import Problem
from cautious.returns.moments import return_variance
from cautious.risks.scalar import Variance
from cautious.solution import Solution
from cautious.solvers.solve import solve
from cautious.sweeps.jobs import run_jobs

CAUTION = 10.0
NEUTRAL, AVERSE = "risk-neutral", "risk-averse"
ALGORITHM_2, ASCENT, PLUG_IN, PRIMAL_DUAL = "Algorithm 2, samples", "Algorithm 2, exact", "plug-in", "primal-dual"
LEARNERS: Mapping[str, Method] = {PLUG_IN: PlugIn(prove=False), PRIMAL_DUAL: PrimalDual()}
# the learner whose stages of training the film shows, and the seed it had
FILMED, FILMED_SEED = PRIMAL_DUAL, 0
TRAJECTORIES = 100
LOOKS = 10

Stage = tuple[str, dict[str, Array]]


@dataclass(frozen=True)
class Training:
    """``rows``: one per method, policy, seed and look. ``stages``: the policies for the film.

    ``optimum`` is proved over all policies; ``neutral_objective`` is what the best policy without risk is worth with
    it; ``uniform_objective`` is where Algorithm 2 begins.
    """

    problem: Problem
    optimum: Solution
    neutral_objective: float
    uniform_objective: float
    ascent: BlockAscent
    rows: tuple[Row, ...]
    stages: tuple[Stage, ...]
    samples: int

    def table(self, method: str, policy: str, name: str) -> tuple[Array, Array]:
        """Where it was looked at (looks,), and a column of the rows as (seeds, looks)."""
        rows = [row for row in self.rows if row["method"] == method and row["policy"] == policy]
        found = {(int(row["seed"]), float(row["at"])): float(row[name]) for row in rows}
        seeds, at = (sorted(set(keys)) for keys in zip(*found, strict=True))
        return np.array(at), np.array([[found[seed, place] for place in at] for seed in seeds])

    def last(self, method: str, policy: str, name: str) -> Array:
        """A column at the end of training (seeds,)."""
        return self.table(method, policy, name)[1][:, -1]


@dataclass(frozen=True)
class Maze:
    """What all runs share: the problem, its optimum, and ``from_s``, the same model with its start at S."""

    problem: Problem
    optimum: float
    from_s: MDP

    def row(self, job: Mapping[str, Any], axis: str, at: int, table: Array) -> Row:
        """Exact objective and returns of a policy and, for learners, returns of simulated trajectories."""
        objective = evaluate_policy(self.problem, table).objective
        mean, variance = return_variance(self.from_s, table)
        # the returns of Algorithm 2 are not drawn: their columns stay empty
        drawn = job["method"] in LEARNERS
        tried = evaluate(self.from_s, table, TRAJECTORIES, seed=job["seed"]) if drawn else None
        return {
            "method": job["method"],
            "policy": job["policy"],
            "seed": job["seed"],
            "axis": axis,
            "at": at,
            "objective": objective,
            "gap": self.optimum - objective,
            "mean": "" if tried is None else tried.mean,
            "variance": "" if tried is None else tried.variance,
            "exact mean": mean,
            "exact variance": variance,
        }


def learned(maze: Maze, job: Mapping[str, Any]) -> tuple[list[Row], Array]:
    """The rows of one run, one for each look, and its last policy."""
    risk, caution = (Variance(), CAUTION) if job["policy"] == AVERSE else (None, 0.0)
    method = LEARNERS.get(job["method"], AlgorithmTwo())
    shots = snapshots(maze.problem.mdp, risk, caution, method, job["samples"], job["seed"], job["looks"])
    shots = shots if job["looks"] else shots[-1:]
    rows = [maze.row(job, "samples", shot.samples if job["looks"] else job["samples"], shot.policy) for shot in shots]
    return rows, shots[-1].policy


def measure(
    mdp: MDP, from_s: MDP, seeds: int, marks: Sequence[int], rounds: int, executor: Executor | None = None
) -> Training:
    """Learn on ``mdp``, try every policy on ``from_s``, the same model with its start at S.

    The learners have a run of its own for every number of samples in ``marks``, because they plan their runs for the
    samples they are given. Algorithm 2 has one run with the largest number, looked at on the way.
    """
    problem = Problem(mdp, Variance(), CAUTION)
    optimum = solve(problem).require()
    ascent = block_ascent(problem, rounds=rounds)
    uniform = uniform_policy(mdp.allowed)
    maze = Maze(problem, optimum.objective, from_s)
    exact = {"method": ASCENT, "policy": AVERSE, "seed": 0}
    read_off = [uniform, *(occupancy_policy(one.occupancy, uniform) for one in ascent.rounds)]
    rows = [maze.row(exact, "rounds", k, table) for k, table in enumerate(read_off)]
    looks = sorted({marks[0], *(marks[-1] * k // LOOKS for k in range(1, LOOKS + 1))})
    jobs: list[dict[str, Any]] = []
    for seed in range(seeds):
        jobs += [
            {"method": method, "policy": policy, "seed": seed, "samples": mark, "looks": ()}
            for method in LEARNERS
            for policy in (NEUTRAL, AVERSE)
            for mark in marks
        ]
        jobs.append({"method": ALGORITHM_2, "policy": AVERSE, "seed": seed, "samples": marks[-1], "looks": looks})
    stages: tuple[Stage, ...] = tuple((f"after {mark:,} samples", {}) for mark in marks)
    for job, (found, policy) in zip(jobs, run_jobs(learned, maze, jobs, executor), strict=True):
        rows += found
        if (job["method"], job["seed"]) == (FILMED, FILMED_SEED):
            stages[marks.index(job["samples"])][1][job["policy"]] = policy
    return Training(
        problem=problem,
        optimum=optimum,
        neutral_objective=evaluate_policy(problem, solve(Problem(mdp)).require().policy).objective,
        uniform_objective=evaluate_policy(problem, uniform).objective,
        ascent=ascent,
        rows=tuple(rows),
        stages=stages,
        samples=marks[-1],
    )
