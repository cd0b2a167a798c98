"""KL and entropy on pairs, alone or beside risks of features: Newton's method on the smooth dual.

``entropic_dual`` has the mathematics, ``newton_start`` the first point, ``feature_prices`` the features. Nothing
is built or factored: a Newton system is solved by conjugate gradients, one pass over the transitions for each of
their steps. The dual is itself the upper bound, and the rows of y the policy.
"""

from collections.abc import Iterator

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.checks import picked
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.dual_newton.entropic_dual import ENOUGH, REST, SHARE, SMALLEST_SHARE, Dual, Point, caution_of
from cautious.solvers.dual_newton.newton_start import Memory, begin, ended
from cautious.solvers.shape import Shape

NEWTON_STEPS = 150
# operations per transition: those of any solve, and more for every level of the model
PASSES, PASSES_PER_LEVEL = 60.0, 3.0
LEAST_PROMISE = 1e-15
TIGHTER, GENTLER = 0.05, 0.3


class DualNewton(Solver):
    """See the module's text."""

    name = "dual Newton"
    margin = 0.25

    accepts = frozenset({Structure.ENTROPY, Structure.FEATURES})

    def limits(self, problem: Problem) -> str | None:
        """Needs an entropy of pairs; takes features beside it."""
        entropies = problem.parts.entropies
        if any(term.risk.on_states for term in entropies):
            return "takes entropies of pairs only"
        return None if entropies else "has no entropy of pairs"

    def work(self, problem: Problem, shape: Shape) -> float:
        """Conjugate gradients: the more steps, the more slowly the model mixes."""
        return shape.n_entries * (PASSES + PASSES_PER_LEVEL * shape.n_levels)

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """A candidate when the expected gap is small enough, and after every further Newton step."""
        if too_cold(problem):
            return
        memory = target.workspace.of(self.name, Memory)
        dual = Dual(problem, memory.shared_data(problem))
        start = begin(dual, memory, target)
        point, states, share, stuck = start.point, start.states, SHARE, 0
        # beside a worst case an error of the linear solve counts in the first order, and takes another step to be seen
        enough = np.inf if dual.prices.groups else ENOUGH
        for _ in range(NEWTON_STEPS):
            allowed = self.margin * target.allowance(dual.bound(point)) / dual.caution
            step = dual.step(point, states, share, enough * allowed, target.clock)
            length = dual.search(point, step) if step.promise > 0 else 0.0
            dual.prices.move(step.omega, length)
            point, states = dual.at(point.u + length * step.u), step.states
            # what is left after a full step: what the linear solve left out, and the next order
            rest = max(step.promise, 0.0) * (1 - length + min(1.0, max(REST * step.share, step.promise)))
            expected = rest + max(dual.prices.loss, dual.lost(point))
            dual.prices.tighten(TIGHTER if length > 0.9 else GENTLER, 0.1 * allowed)
            share = min(SHARE, max(SMALLEST_SHARE, 0.1 * allowed / max(rest, allowed), SHARE * rest))
            stuck = stuck + 1 if step.promise <= LEAST_PROMISE * max(1.0, abs(point.value)) or length == 0 else 0
            if expected <= allowed or stuck or target.clock.over:
                memory.add(ended(dual, point))
                yield candidate(dual, point)
                # the certificate rejected the candidate
                enough *= ENOUGH
            if stuck > 1 or dual.prices.hopeless or target.clock.over:
                return


def too_cold(problem: Problem) -> bool:
    """Whether rewards in units of the temperature are beyond double precision."""
    widest = 1e290 * caution_of(problem) * (1 - problem.mdp.discount)
    # picking the active pairs takes longer than looking at all, and mostly all will do
    return not (_range(problem.reward) < widest or _range(problem.reward[problem.active]) < widest)


def _range(reward: Array) -> float:
    return float(reward.max()) - float(reward.min())


def candidate(dual: Dual, point: Point) -> Candidate:
    """The policy and the witness of a point."""
    problem, active = dual.problem, dual.problem.active.ravel()
    cuts, prices, place = [np.zeros(0)] * len(problem.terms), dual.prices.in_units(), 0
    for term in problem.parts.entropies:
        cuts[term.number] = picked(point.ell - term.risk.log_prior.ravel(), active)
    for feature in problem.parts.features:
        size = len(feature.risk.names)
        cuts[feature.number] = prices[place : place + size] / feature.weight
        place += size
    policy = problem.completed(point.policy.reshape(problem.active.shape))
    multipliers = np.where(problem.active_states, dual.tau * point.u, 0.0)
    return Candidate(policy, Witness(multipliers, tuple(cuts)), states=point.states)
