"""Risk-neutral problems: one planning call is the whole answer."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.horizons.plan import Plan
from cautious.models.horizons import AVERAGE
from cautious.planning import plan
from cautious.problem import Problem
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.refinement import exact_optimum


class RiskNeutral(Solver):
    """Plans with increasing precision until the certificate is satisfied."""

    name = "planning"
    every_horizon = True
    every_model = True
    # 88 to 480 bytes a state were measured for 1 to 40 actions and three outcomes, where this gives 180 to 1,116
    held_without_matrix = 3, 12

    def refusal(self, problem: Problem) -> str | None:
        """Needs a problem without risk."""
        return None if problem.neutral else "has a risk"

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """Each step asks for more precision.

        The first is precise enough for the return to be known by the values alone: that takes a few more sweeps, where
        the occupancy would take a linear solve.
        """
        mdp, reward, warm = problem.mdp, problem.reward, None
        for share in (2e-3, 1e-5, 0.0):
            enough = partial(_part, share, target)
            warm = plan(mdp, reward, tolerance=enough, allowed=problem.kept, warm=warm, over=target.over)
            yield Candidate(_with_kept_rows(problem, warm), Witness(warm.values), values=warm.values)
        if mdp.horizon is not None:
            return
        # rounding may have hidden which action is best: policy iteration in twice the working precision
        best, advantages = exact_optimum(problem, reward, np.zeros(mdp.n_states) if warm is None else warm.values)
        yield Candidate(problem.completed(np.eye(mdp.n_actions)[np.argmax(advantages, axis=1)]), best)


def _with_kept_rows(problem: Problem, found: Plan) -> Array:
    """The policy of a plan, which names any action where limits leave none; there it takes the documented rows."""
    policy, usable = found.policy(problem.mdp.n_actions), problem.support.kept_states
    if problem.mdp.horizon == AVERAGE:
        # in the long run, states outside the component that counts have to lead there
        return problem.completed(policy)
    return policy if usable.all() else np.where(usable[..., None], policy, problem.default_rows)


def _part(share: float, target: Target, objective: float) -> float:
    """A share of the gap that an objective is allowed."""
    return share * target.allowance(objective)
