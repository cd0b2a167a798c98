"""Phase I of barriers: can all requirements be met, and if not, which ones stand against each other?

maximise over occupancies the smallest of (number_j - floor_j) / scale_j. A single requirement is one planning call;
several are a small max-min cone program whose weights, with a plan for the weighted numbers, are the proof.
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from cautious._checks import Array
from cautious.certificate import Conflict, requirements
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.epigraph import Epigraph
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.cone_program import ConeProgram
from cautious.occupancy import occupancy_policy


class PhaseOne(Solver):
    """Looks for a policy that meets every requirement, or for the proof that there is none."""

    name = "phase I"

    def refusal(self, problem: Problem) -> str | None:
        """Needs requirements."""
        return None if requirements(problem)[0] else "has no requirement"

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """The closest policy, with the conflict when there is one."""
        features, floors, scales = requirement_rows(problem)
        weights = np.ones(1)
        if floors.size > 1:
            m = floors.size
            form = Epigraph(
                cost=np.ones(1),
                on_pairs=sp.csr_array(-features / scales[:, None]),
                on_own=sp.csr_array(-np.ones((m, 1))),
                rhs=-floors / scales,
                cones=(("nonnegative", m),),
                witness=lambda z: np.maximum(z, 0.0),
            )
            nothing = np.zeros(problem.mdp.shape)
            answer = ConeProgram(problem.mdp, problem.active, nothing, [(1.0, form)]).solve(target.clock)
            if answer is not None:
                weights = np.asarray(answer.witnesses[0])
                yield Candidate(occupancy_policy(answer.occupancy, problem.default_rows))
        price = weights / scales
        table = np.asarray(features.T @ price).reshape(problem.mdp.shape)
        best = plan(problem.mdp, table, allowed=problem.kept)
        policy = best.policy(problem.mdp.n_actions) if floors.size == 1 else None
        if policy is not None:
            policy = np.where(problem.active.any(axis=1)[:, None], policy, problem.default_rows)
        yield Candidate(policy, conflict=Conflict(price, best.values))


def requirement_rows(problem: Problem) -> tuple[sp.csr_array, Array, Array]:
    """All requirements of the problem: features (m, S*A), floors (m,), scales (m,)."""
    _, places = requirements(problem)
    rows = [risk.features[[j]] for risk, j in places]
    floors = np.array([float(risk.floors[j]) for risk, j in places])
    scales = np.array([float(risk.scales(problem.active)[j]) for risk, j in places])
    return sp.csr_array(sp.vstack(rows)), floors, scales
