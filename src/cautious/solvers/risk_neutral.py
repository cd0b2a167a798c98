"""Risk-neutral problems: one planning call is the whole answer."""

from collections.abc import Iterator
from functools import partial

from cautious.certificate.bounds import Witness
from cautious.planning import plan
from cautious.problem import Problem
from cautious.solvers.base import Candidate, Solver, Target


class RiskNeutral(Solver):
    """Plans with increasing precision until the certificate is satisfied."""

    name = "planning"

    def refusal(self, problem: Problem) -> str | None:
        """Needs a problem without risk."""
        return None if problem.neutral else "has a risk"

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """Each step asks for more precision.

        The first is precise enough for the return to be known by the values alone: that takes a few more sweeps, where
        the occupancy would take a linear solve.
        """
        warm = None
        for share in (2e-3, 1e-5, 0.0):
            enough = partial(_part, share, target)
            mdp, reward = problem.mdp, problem.reward
            warm = plan(mdp, reward, tolerance=enough, allowed=problem.kept, warm=warm, over=target.over)
            yield Candidate(warm.policy(mdp.n_actions), Witness(warm.values), values=warm.values)


def _part(share: float, target: Target, objective: float) -> float:
    """A share of the gap that an objective is allowed."""
    return share * target.allowance(objective)
