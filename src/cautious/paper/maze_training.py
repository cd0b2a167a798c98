"""How policies of the maze change while they are learned: the numbers behind figure 2."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.evaluation.evaluate import evaluate
from cautious.evaluation.return_moments import return_variance
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
from cautious.risks.scalar import Variance
from cautious.solution import Solution
from cautious.solvers.solve import solve

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


def measure(mdp: MDP, from_s: MDP, seeds: int, marks: Sequence[int], rounds: int) -> Training:
    """Learn on ``mdp``, try every policy on ``from_s``, the same model with its start at S.

    The learners have a run of its own for every number of samples in ``marks``, because they plan their runs for the
    samples they are given. Algorithm 2 has one run with the largest number, looked at on the way.
    """
    problem = Problem(mdp, Variance(), CAUTION)
    optimum = solve(problem).require()
    ascent = block_ascent(problem, rounds=rounds)
    uniform = uniform_policy(mdp.allowed)
    rows: list[Row] = []

    def add(method: str, policy: str, seed: int, axis: str, at: int, table: Array) -> None:
        """A row: exact objective and returns of a policy and, for learners, returns of simulated trajectories."""
        objective = evaluate_policy(problem, table).objective
        mean, variance = return_variance(from_s, table)
        # the returns of Algorithm 2 are not drawn: their columns stay empty
        tried = evaluate(from_s, table, TRAJECTORIES, seed=seed) if method in LEARNERS else None
        rows.append(
            {
                "method": method,
                "policy": policy,
                "seed": seed,
                "axis": axis,
                "at": at,
                "objective": objective,
                "gap": optimum.objective - objective,
                "mean": "" if tried is None else tried.mean,
                "variance": "" if tried is None else tried.variance,
                "exact mean": mean,
                "exact variance": variance,
            }
        )

    read_off = [uniform, *(occupancy_policy(one.occupancy, uniform) for one in ascent.rounds)]
    for k, table in enumerate(read_off):
        add(ASCENT, AVERSE, 0, "rounds", k, table)
    looks = sorted({marks[0], *(marks[-1] * k // LOOKS for k in range(1, LOOKS + 1))})
    stages: tuple[Stage, ...] = tuple((f"after {mark:,} samples", {}) for mark in marks)
    for seed in range(seeds):
        for method, learner in LEARNERS.items():
            for policy, risk, caution in ((NEUTRAL, None, 0.0), (AVERSE, Variance(), CAUTION)):
                for mark, (_, stage) in zip(marks, stages, strict=True):
                    learned = snapshots(mdp, risk, caution, learner, mark, seed)[-1].policy
                    add(method, policy, seed, "samples", mark, learned)
                    if (method, seed) == (FILMED, FILMED_SEED):
                        stage[policy] = learned
        for shot in snapshots(mdp, Variance(), CAUTION, AlgorithmTwo(), marks[-1], seed, looks):
            add(ALGORITHM_2, AVERSE, seed, "samples", shot.samples, shot.policy)
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
