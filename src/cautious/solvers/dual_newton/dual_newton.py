"""KL and entropy on pairs, alone or beside risks of features: Newton's method on the smooth dual.

``entropic_dual`` has the mathematics, ``newton_start`` the first point, ``feature_prices`` the features. Nothing
is built or factored: a Newton system is solved by conjugate gradients, one pass over the transitions for each of
their steps. The dual is itself the upper bound, and the rows of y the policy.
"""

from collections.abc import Iterator

import numpy as np

from cautious.certificate.bounds import Witness
from cautious.checks import picked
from cautious.models.horizons import AVERAGE
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.dual_newton.entropic_dual import (
    CG_ERROR_FACTOR,
    CG_GAP_SHARE,
    MAX_CG_SHARE,
    MIN_CG_SHARE,
    Dual,
    DualIterate,
)
from cautious.solvers.dual_newton.newton_start import SolvedCautions, starting_point
from cautious.solvers.shape import Shape

MAX_NEWTON_STEPS = 150
# operations per transition: those of any solve, and more for every level of the model
PASSES, PASSES_PER_LEVEL = 60.0, 3.0
# a squared Newton decrement below this share of the value is rounding
MIN_RELATIVE_DECREMENT = 1e-15
# a step of at least this length counts as a full one; by what the targets of worst cases are then multiplied, and else
FULL_STEP_LENGTH, TARGET_FACTOR_AFTER_FULL_STEP, TARGET_FACTOR_AFTER_SHORT_STEP = 0.9, 0.05, 0.3
# rewards in units of the temperature beyond this are taken for beyond double precision
MAX_REWARD_RANGE = 1e290


class DualNewton(Solver):
    """See the module's text."""

    name = "dual Newton"
    margin = 0.25
    every_horizon = True

    accepts = frozenset({Structure.ENTROPY, Structure.FEATURES})

    def further_refusal(self, problem: Problem) -> str | None:
        """Needs an entropy of pairs; takes features beside it; discounted for ever, or long-run averages."""
        if problem.mdp.horizon not in (None, AVERAGE):
            return "needs a problem that goes on for ever"
        entropies = problem.parts.entropies
        if any(term.risk.on_states for term in entropies):
            return "takes entropies of pairs only"
        return None if entropies else "has no entropy of pairs"

    def work(self, problem: Problem, shape: Shape) -> float:
        """Conjugate gradients: the more steps, the more slowly the model mixes."""
        return shape.n_entries * (PASSES + PASSES_PER_LEVEL * shape.n_levels)

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """A candidate when the expected gap is small enough, and after every further Newton step."""
        solved = target.workspace.of(self.name, SolvedCautions)
        dual = Dual(problem, solved.shared_data(problem))
        if not dual.reward_range < MAX_REWARD_RANGE * dual.tau:
            return
        start = starting_point(dual, solved, target)
        point, states, share, stuck = start.point, start.states, MAX_CG_SHARE, 0
        # beside a worst case an error of the linear solve counts in the first order, and takes another step to be seen
        enough = np.inf if dual.prices.groups else CG_GAP_SHARE
        for _ in range(MAX_NEWTON_STEPS):
            allowed = self.margin * target.allowance(dual.bound(point)) / dual.caution
            step = dual.step(point, states, share, enough * allowed, target.clock)
            length = dual.search(point, step) if step.decrement > 0 else 0.0
            dual.prices.move(step.omega, length)
            point, states = dual.at(point.u + length * step.u), step.states
            # what is left after a full step: what the linear solve left out, and the next order
            rest = max(step.decrement, 0.0) * (1 - length + min(1.0, max(CG_ERROR_FACTOR * step.share, step.decrement)))
            expected = rest + max(dual.prices.loss, dual.lost(point))
            dual.prices.tighten(
                TARGET_FACTOR_AFTER_FULL_STEP if length > FULL_STEP_LENGTH else TARGET_FACTOR_AFTER_SHORT_STEP,
                0.1 * allowed,
            )
            share = min(MAX_CG_SHARE, max(MIN_CG_SHARE, 0.1 * allowed / max(rest, allowed), MAX_CG_SHARE * rest))
            stuck = (
                stuck + 1 if step.decrement <= MIN_RELATIVE_DECREMENT * max(1.0, abs(point.value)) or length == 0 else 0
            )
            if expected <= allowed or stuck or target.clock.over:
                solved.add(dual, point)
                yield candidate(dual, point)
                # the certificate rejected the candidate
                enough *= CG_GAP_SHARE
            if stuck > 1 or dual.prices.diverged or target.clock.over:
                return


def candidate(dual: Dual, point: DualIterate) -> Candidate:
    """The policy and the witness of a point."""
    problem, active = dual.problem, dual.problem.active.ravel()
    cuts, prices, place = [np.zeros(0)] * len(problem.terms), dual.prices.unscaled(), 0
    for term in problem.parts.entropies:
        cuts[term.number] = picked(point.ell - term.risk.log_prior.ravel(), active)
    for feature in problem.parts.features:
        size = len(feature.risk.names)
        cuts[feature.number] = prices[place : place + size] / feature.weight
        place += size
    policy = problem.completed(point.policy.reshape(problem.active.shape))
    multipliers = np.where(problem.active_states, dual.tau * point.u, 0.0)
    return Candidate(policy, Witness(multipliers, tuple(cuts)), states=point.states)
