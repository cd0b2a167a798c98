"""How policies of the maze change while they are learned: the numbers behind figure 2."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.evaluation.evaluate import evaluate, return_variance
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
        at = sorted({float(row["at"]) for row in rows})
        seeds = sorted({int(row["seed"]) for row in rows})
        found = {(int(row["seed"]), float(row["at"])): float(row[name]) for row in rows}
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
    trials = _Trials(problem, from_s, optimum.objective)
    read_off = [uniform, *(occupancy_policy(one.occupancy, uniform) for one in ascent.rounds)]
    rows = [trials.row(ASCENT, AVERSE, 0, "rounds", k, policy) for k, policy in enumerate(read_off)]
    looks = sorted({marks[0], *(marks[-1] * k // LOOKS for k in range(1, LOOKS + 1))})
    stages: list[Stage] = [(f"after {mark:,} samples", {}) for mark in marks]
    for seed in range(seeds):
        for method, policy, mark, learned in _learned(mdp, seed, marks):
            rows.append(trials.row(method, policy, seed, "samples", mark, learned))
            if method == FILMED and seed == FILMED_SEED:
                stages[marks.index(mark)][1][policy] = learned
        for shot in snapshots(mdp, Variance(), CAUTION, AlgorithmTwo(), marks[-1], seed, looks):
            rows.append(trials.row(ALGORITHM_2, AVERSE, seed, "samples", shot.samples, shot.policy))
    return Training(
        problem=problem,
        optimum=optimum,
        neutral_objective=evaluate_policy(problem, solve(Problem(mdp)).require().policy).objective,
        uniform_objective=evaluate_policy(problem, uniform).objective,
        ascent=ascent,
        rows=tuple(rows),
        stages=tuple(stages),
        samples=marks[-1],
    )


def _learned(mdp: MDP, seed: int, marks: Sequence[int]) -> Iterator[tuple[str, str, int, Array]]:
    """Method, policy's name, samples and learned policy of every run of a seed."""
    for name, method in LEARNERS.items():
        for policy, risk, caution in ((NEUTRAL, None, 0.0), (AVERSE, Variance(), CAUTION)):
            for mark in marks:
                yield name, policy, mark, snapshots(mdp, risk, caution, method, mark, seed, [])[-1].policy


@dataclass(frozen=True)
class _Trials:
    """Makes rows: the exact objective and returns of a policy and, for learners, returns of simulated trajectories."""

    problem: Problem
    from_s: MDP
    optimum: float

    def row(self, method: str, policy: str, seed: int, axis: str, at: int, table: Array) -> Row:
        objective = evaluate_policy(self.problem, table).objective
        mean, variance = return_variance(self.from_s, table)
        # the returns of Algorithm 2 are not drawn: their columns stay empty
        tried = evaluate(self.from_s, table, TRAJECTORIES, seed=seed) if method in LEARNERS else None
        return {
            "method": method,
            "policy": policy,
            "seed": seed,
            "axis": axis,
            "at": at,
            "objective": objective,
            "gap": self.optimum - objective,
            "mean": "" if tried is None else tried.mean,
            "variance": "" if tried is None else tried.variance,
            "exact mean": mean,
            "exact variance": variance,
        }
