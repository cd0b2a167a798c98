"""``MarkovPolicies``: the best policy without memory that is found for a risk of the return, and the bound of all.

A policy that remembers nothing, (S, A), or (T, S, A) with a finite horizon, is improved from several starts: the policy
of the largest mean, the one that is best at a larger caution, the averages of the best policy with memory and their
likeliest actions, and random ones. The bound is that of ``TargetSearch``, which holds for all policies.
"""

from collections.abc import Callable, Iterator

import numpy as np

from cautious.arrays import Array
from cautious.certificate.policy_evaluation import EvaluatedPolicy
from cautious.occupancy import policy_occupancy
from cautious.problem import Problem
from cautious.returns.earnings import earnings_of
from cautious.returns.plain import PlainPolicy
from cautious.risks.base import Structure
from cautious.risks.returns import ReturnRisk
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.return_risk.policy_improvement import (
    COMPARED_MOVES,
    NEGLIGIBLE_SHARE,
    Improved,
    PolicyImprovement,
)
from cautious.solvers.return_risk.target_search import search_for
from cautious.solvers.shape import Shape

# a policy that is best when the risk counts so many times is a start, and so many random ones are
MORE_CAUTION, RANDOM_STARTS = 10.0, 6
# of the time limit, what the improvement may use before the bound is looked for
SHARE_OF_TIME = 0.4
# of the largest objective, how much less a policy may seem to be worth to be looked at more closely
CLOSE_SHARE, MOST_CLOSE = 1e-3, 3


class MarkovPolicies(Solver):
    """Improves policies without memory, and bounds all policies."""

    name = "policy improvement"
    accepts = frozenset({Structure.RETURN})
    every_horizon = True

    def work(self, problem: Problem, shape: Shape) -> float:
        """It is asked for, not chosen."""
        return np.inf

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """The best of the first starts, bounds of all policies, and the best of all starts."""
        term = problem.parts.returns[0]
        risk, clock = term.risk.of, target.clock
        earnings = target.workspace.of("target search", lambda: earnings_of(problem.mdp))
        search = search_for(earnings, risk, term.weight, target)
        assert search.best is not None

        def early() -> bool:
            return target.over() or clock.seconds > SHARE_OF_TIME * clock.limit

        improvement = PolicyImprovement(problem, risk, term.weight, early)
        neutral = search.best.followed.averaged(problem.default_rows)
        found = [improvement.improved(neutral)]
        careful = improvement.improved(neutral, MORE_CAUTION * term.weight)
        starts = [careful.policy, *self._random(problem)]
        for start in starts:
            if early():
                break
            found.append(improvement.improved(start))
        yield self._best(problem, risk, found, search.upper, target.over)
        for _ in search.rounds(target.allowance):
            yield Candidate(bound=search.upper)
        improvement.asked_to_end = target.over
        averages = search.best.followed.averaged(problem.default_rows)
        for start in (_likeliest(averages), averages):
            if target.over():
                return
            found.append(improvement.improved(start))
        yield self._best(problem, risk, found, search.upper, target.over)

    def _random(self, problem: Problem) -> Iterator[Array]:
        """Policies that take one allowed action everywhere."""
        rng, shape = np.random.default_rng(0), problem.mdp.occupancy_shape
        for _ in range(RANDOM_STARTS):
            yield _likeliest(np.where(problem.mdp.allowed, rng.random(shape), -1.0))

    def _best(
        self, problem: Problem, risk: ReturnRisk, found: list[Improved], bound: float, over: Callable[[], bool]
    ) -> Candidate:
        """The best of these policies, when they are looked at closely; only one of them when time is ``over``."""
        found.sort(key=lambda one: -one.objective)
        top, close = found[0].objective, list[Improved]()
        for one in found:
            near = one.objective >= top - CLOSE_SHARE * max(1.0, abs(top))
            if near and not any(np.array_equal(one.policy, other.policy) for other in close):
                close.append(one)
        evaluated = list[EvaluatedPolicy]()
        for one in close[:MOST_CLOSE]:
            if not evaluated or not over():
                evaluated.append(evaluated_closely(problem, risk, one.policy, over))
        return Candidate(evaluated=max(evaluated, key=lambda one: one.objective - one.error), bound=bound)


def evaluated_closely(
    problem: Problem, risk: ReturnRisk, policy: Array, over: Callable[[], bool] = lambda: False
) -> EvaluatedPolicy:
    """A policy without memory, with its risk from above; the error says how far that can be off.

    When time is ``over`` it is followed no more closely than policies are compared.
    """
    term = problem.parts.returns[0]
    effort = (COMPARED_MOVES, NEGLIGIBLE_SHARE) if over() else ()
    played = PlainPolicy(problem.mdp, policy, *effort)
    low, above, followed = risk.of(played.followed, over)
    returns = followed.returns
    unsure = above - low if np.isfinite(low) else 0.0
    size = float(np.abs(returns.mean).max(initial=0.0))
    rounding = (1 + term.weight) * (returns.error + returns.relative * size)
    return EvaluatedPolicy(
        policy,
        policy_occupancy(problem.mdp, policy),
        played.mean,
        term.weight / problem.caution * above + 0.0,
        played.mean - term.weight * above,
        rounding + term.weight * unsure,
    )


def _likeliest(policy: Array) -> Array:
    """The policy that takes the likeliest action everywhere."""
    return np.asarray(np.eye(policy.shape[-1])[np.argmax(policy, axis=-1)])
