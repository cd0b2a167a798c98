"""``TargetSearch``: the solver of problems with a risk of the return."""

from collections.abc import Iterator

import numpy as np

from cautious.certificate.policy_evaluation import EvaluatedPolicy
from cautious.problem import Problem
from cautious.returns.earnings import Earnings, earnings_of
from cautious.risks.base import Structure
from cautious.risks.returns import ReturnEVaR, ReturnRisk
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.return_risk.objectives import objective_of
from cautious.solvers.return_risk.rate_search import RateSearch
from cautious.solvers.return_risk.search import MOST_PRODUCTS, Search
from cautious.solvers.shape import Shape


class TargetSearch(Solver):
    """Plans on states and targets, finer and finer, until the bound and a policy with memory meet."""

    name = "target search"
    accepts = frozenset({Structure.RETURN})
    every_horizon = True

    def work(self, problem: Problem, shape: Shape) -> float:
        """No other solver takes these problems."""
        return 0.0

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """A candidate for every grid."""
        term = problem.parts.returns[0]
        earnings = target.workspace.of(self.name, lambda: earnings_of(problem.mdp))
        search = search_for(earnings, term.risk.of, term.weight, target)
        yield self._candidate(problem, search)
        for _ in search.rounds(target.allowance):
            yield self._candidate(problem, search)

    def _candidate(self, problem: Problem, search: Search | RateSearch) -> Candidate:
        best = search.best
        assert best is not None
        # the weight of the only term of a sum belongs to the risk
        weight = problem.parts.returns[0].weight / problem.caution
        followed = best.followed
        evaluated = EvaluatedPolicy(
            followed.averaged(problem.default_rows),
            followed.visits,
            best.expected_return,
            weight * best.risk + 0.0,
            best.objective,
            best.error,
            memory_policy=best.policy,
        )
        return Candidate(evaluated=evaluated, bound=search.upper)


def search_for(
    earnings: Earnings,
    risk: ReturnRisk,
    caution: float,
    target: Target,
    most_products: float | None = None,
) -> Search | RateSearch:
    """The search that goes with a risk; ``most_products`` of a value and a probability may be taken by one plan.

    By default that is a limit for those who give none: who gives a time limit has all of that time.
    """
    patient = most_products is None and np.isfinite(target.clock.limit)
    if isinstance(risk, ReturnEVaR):
        return RateSearch(earnings, risk, caution, target.over, np.inf if patient else 1.0)
    if most_products is None:
        most_products = np.inf if patient else MOST_PRODUCTS
    return Search(earnings, objective_of(risk, caution, earnings.offset), target.over, most_products)
