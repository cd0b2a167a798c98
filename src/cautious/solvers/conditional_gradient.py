"""Weakly weighted quadratic distances: the conditional gradient method of Frank and Wolfe, with improved steps.

In a large model the squares of an occupancy's entries are small, so the best occupancy is close to that of the best
plan and differs from it only where actions are nearly equally good. No matrix is needed then. A step plans for the
gradient at the present occupancy, which also bounds how far from optimal that is. Every state then moves its mass to
where its own pairs would be equally good if all other states stayed as they are, and a line search goes towards the
occupancy of this mixed policy instead of that of the plan.

The method gives up at once where the distance has a large weight: other methods are faster then.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cautious._core.simplex import projected_step
from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.checks import picked, state_sums_of
from cautious.horizons.plan import Plan
from cautious.models.encodings import read_only_view
from cautious.occupancy import occupancy_policy, policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.solvers.base import Candidate, Solver, Target, shape_of
from cautious.solvers.proximal.proximal import Proximal
from cautious.solvers.shape import Shape

# what the work is estimated by: plans, as many as a light distance takes, or a heavy one until it is known to be heavy
USUAL_PLANS = 4
# steps at most, and the gaps beyond which these cannot suffice, in allowed gaps: at first, and after one step
MAX_STEPS, MAX_GAPS_IN_ALLOWED_GAPS = 12, (5000.0, 100.0)
# weighted squares of the prior, in allowed gaps, beyond which it is not tried where factors are cheap; from how many
# states on that is so, and below how many it is never tried
MAX_PRIOR_SQUARES, LARGE_STATES, SMALL_STATES = 400.0, 20_000, 300
# shares of the allowed gap: at which a policy is proposed, what the error of an occupancy may use up, and the precision
# of the first plan
PROPOSAL_SHARE, OCCUPANCY_ERROR_SHARE, FIRST_PLAN_SHARE = 0.9, 0.1, 30.0
# a distance of states stiffens a pair by what its successors get more of, about this much of a distance of pairs
STATE_STIFFNESS_SHARE = 0.5


class ConditionalGradient(Solver):
    """See the module's text."""

    name = "conditional gradient"

    accepts = frozenset({Structure.SQUARE})

    def work(self, problem: Problem, shape: Shape) -> float:
        """The work of a few plans; the run ends at once if the distances have too much weight for that."""
        return USUAL_PLANS * shape.plan_work

    def memory(self, problem: Problem) -> int:
        """As much as the proximal method, which is run where this one ends without a proof."""
        return Proximal().memory(problem)

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """A candidate as soon as a plan proves it; none if that would take too many steps."""
        past = target.workspace.of(self.name, _HeaviestFailure)
        heaviness = sum(weight for weight, _ in problem.terms) / target.allowance(0.0)
        if heaviness >= past.too_heavy or not _may_be_light(problem, target):
            return
        iterate, gaps = _ConditionalGradientRun(problem, target), []
        for _ in range(MAX_STEPS):
            gaps.append(iterate.look())
            if gaps[-1] <= PROPOSAL_SHARE * iterate.allowed or target.clock.over:
                yield iterate.candidate()
            if target.clock.over or _needs_too_many_steps(gaps, iterate.allowed) or not iterate.step():
                break
        if not target.clock.over:
            past.too_heavy = heaviness


@dataclass
class _HeaviestFailure:
    """The least weight of a frontier's distances, in allowed gaps, at which steps did not end in a proof."""

    too_heavy: float = np.inf


def _may_be_light(problem: Problem, target: Target) -> bool:
    """Whether the weight of the distances may be small enough for a few plans."""
    mdp = problem.mdp
    if mdp.n_states < SMALL_STATES:
        return False
    if mdp.n_states < LARGE_STATES:
        # where a model mixes fast, factors are large and other methods slow, so the method is always tried
        return shape_of(problem, target.workspace).mixes_fast
    squares = sum(term.weight * float(np.sum(term.risk.prior**2)) for term in problem.parts.squares)
    typical = float(problem.reward[problem.active].mean()) / (1 - mdp.discount)
    return squares <= 2 * MAX_PRIOR_SQUARES * target.allowance(typical)


def _needs_too_many_steps(gaps: list[float], allowed: float) -> bool:
    """Whether the steps that are left will not suffice if gaps go on falling as they did."""
    if len(gaps) <= len(MAX_GAPS_IN_ALLOWED_GAPS):
        return not gaps[-1] <= MAX_GAPS_IN_ALLOWED_GAPS[len(gaps) - 1] * allowed
    # gaps of neighbouring steps often take turns: two steps apart they tell the pace
    last, pace = np.log(gaps[-1]), (np.log(gaps[-3]) - np.log(gaps[-1])) / 2
    return bool(last - np.log(PROPOSAL_SHARE * allowed) > (MAX_STEPS - len(gaps)) * pace)


class _ConditionalGradientRun:
    """The present occupancy ``d`` (S, A), and the last plan for its slopes."""

    def __init__(self, problem: Problem, target: Target) -> None:
        self.problem, self.target = problem, target
        self.terms = [(term.weight, term.risk) for term in problem.parts.squares]
        mdp = problem.mdp
        if target.start is not None and problem.usable(target.start.policy):
            policy = target.start.policy
            self.best = Plan(np.argmax(policy, axis=1), target.start.multipliers, -np.inf, np.inf)
        else:
            self.best = plan(mdp, problem.reward, tolerance=self._rough, allowed=problem.kept, over=target.over)
            policy = self.best.policy(mdp.n_actions)
        self.allowed = target.allowance(self.best.upper)
        self.d = self._behaviour(problem.completed(policy))

    def _rough(self, objective: float) -> float:
        return FIRST_PLAN_SHARE * self.target.allowance(objective)

    @cached_property
    def _accuracy(self) -> float:
        """How accurately, in the 1-norm, the occupancy of a policy must be known."""
        gamma = self.problem.mdp.discount
        steepest = (1 - gamma) * sum(weight for weight, _ in self.terms)
        size = max(float(np.abs(self.problem.reward[self.problem.active]).max()), steepest)
        return OCCUPANCY_ERROR_SHARE * self.allowed * (1 - gamma) / size

    def _behaviour(self, policy: Array, guess: Array | None = None) -> Array:
        return policy_occupancy(self.problem.mdp, policy, self._accuracy, guess).occupancy

    def look(self) -> float:
        """Plan for the slopes at this occupancy; about how much more than it any occupancy can be worth."""
        problem = self.problem
        self.reward = problem.reward
        for weight, risk in self.terms:
            self.reward = self.reward - (1 - problem.mdp.discount) * weight * risk.gradient(self.d)
        known = float(np.sum(self.reward * self.d)) / (1 - problem.mdp.discount)
        enough = 0.5 * PROPOSAL_SHARE * self.allowed
        self.best = plan(
            problem.mdp,
            self.reward,
            tolerance=enough,
            allowed=problem.kept,
            warm=self.best,
            known=known,
            over=self.target.over,
        )
        self.allowed = self.target.allowance(problem.objective(self.d))
        return self.best.upper - known

    def step(self) -> bool:
        """Move towards the occupancy of the plan; False if that does not raise the objective."""
        problem, mdp = self.problem, self.problem.mdp
        gamma, policy = mdp.discount, np.empty(mdp.shape)
        stiffness = (1 - gamma) * sum(
            weight * (STATE_STIFFNESS_SHARE if risk.on_states else 1.0) for weight, risk in self.terms
        )
        projected_step(
            *mdp.csr,
            read_only_view(self.reward).ravel(),
            problem.active.ravel(),
            gamma,
            self.best.values,
            self.d.ravel(),
            stiffness,
            policy,
        )
        way = self._behaviour(problem.completed(policy), state_sums_of(self.d)) - self.d
        gain = float(np.sum(self.reward * way)) / (1 - gamma)
        bend = sum(weight * float(np.sum(risk.entries(way) ** 2)) for weight, risk in self.terms)
        if not gain > 0:
            return False
        self.d += (1.0 if gain >= bend else gain / bend) * way
        return True

    def candidate(self) -> Candidate:
        """The policy of the present occupancy, with the multipliers of the plan."""
        problem = self.problem
        greedy = problem.completed(self.best.policy(problem.mdp.n_actions))
        policy = problem.completed(occupancy_policy(self.d, greedy))
        slopes = tuple(
            picked(risk.entries(self.d) - risk.prior, risk.active_entries(problem.active)) for _, risk in self.terms
        )
        return Candidate(policy, Witness(self.best.values, slopes), states=state_sums_of(self.d))
