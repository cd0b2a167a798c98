"""Linear limits: every one becomes a barrier with a small weight mu, and the solvers of the other terms do the rest.

At the optimum with barriers, a limit has the price mu / slack. The slack times this price is mu: that much of the
objective, at most, is lost for every row. The policy keeps a distance from every limit, so that rounding cannot break
it. With a weight of some hundredths of the allowed gap the loss does not count. How large that gap is depends on the
objective, which is at first taken to be as large as it is without limits and risks: a weight that is too small leaves a
slack that rounding hides, and a weight that is too large loses too much.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cautious.certificate.bounds import Conflict, Witness, weights_of_term
from cautious.checks import state_sums_of
from cautious.models.horizons import TOTAL
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.solvers.base import Candidate, Dispatch, Outcome, Solver, Target, Workspace
from cautious.solvers.column_generation.phase_one import PhaseOne
from cautious.solvers.limits.touching_limits import touching_limits
from cautious.solvers.shape import Shape

# shares of the allowed gap: what all barriers may lose together, and what the inner problem is solved to
BARRIER_SHARE, INNER_GAP_SHARE = 0.05, 0.8
# what the weights are multiplied by when the inner problem with larger ones is not solved
WEIGHT_FACTORS = (1.0, 1e-3)
# relative accuracy of the best return; and by how much the gap that is allowed at this return must exceed that of a
# small objective, to be worth another try with the latter
SIZE_ACCURACY, MAX_REPEATED = 0.1, 1e3


@dataclass(frozen=True)
class LinearLimits(Solver):
    """``dispatch`` solves the problem with barriers."""

    dispatch: Dispatch
    name = "linear limits"
    every_horizon = True
    every_model = True

    accepts = frozenset(Structure) - {Structure.SCALAR, Structure.RETURN, Structure.RETURN_LIMIT}

    def further_refusal(self, problem: Problem) -> str | None:
        """Needs limits, all of them linear."""
        if not problem.parts.limits:
            return "has no limits"
        return None if all(limit.linear for limit in problem.limits) else "has limits that are not linear"

    def work(self, problem: Problem, shape: Shape) -> float:
        """Tried before what takes limits as they are: the problems without limits are estimated by themselves."""
        return 0.0

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """The answer of the problem with barriers; phase I; that where limits touch; with smaller weights."""
        impossible = _never_kept(problem)
        if impossible is not None:
            yield impossible
        # without a policy yet, the best return says how large the objective is
        best = plan(
            problem.mdp,
            problem.reward,
            tolerance=lambda worth: SIZE_ACCURACY * max(1.0, abs(worth)),
            allowed=problem.kept,
            over=target.over,
        )
        gaps = [target.allowance(best.lower)]
        if gaps[0] > MAX_REPEATED * target.allowance(0.0):
            gaps.append(target.allowance(0.0))
        rooms = [factor * gap for gap in gaps for factor in WEIGHT_FACTORS]
        first, inner = self._with_barriers(problem, rooms[0], target)
        yield first
        # steps that cost nothing may lead ever farther from a limit: then barriers of any weight have no best policy
        unbounded = problem.mdp.horizon == TOTAL and np.isfinite(inner.objective) and inner.upper == np.inf
        if not np.isfinite(inner.objective) and inner.conflict is None:
            # solvers that only follow a policy within all limits found none: is there one?
            yield from PhaseOne().steps(problem, target)
        touching = touching_limits(problem, target) if problem.mdp.written_down else None
        if touching is not None and touching.possible:
            # on fewer pairs nothing fits that solvers keep for each other
            own = replace(target, start=None, workspace=Workspace())
            found, inner = self._with_barriers(touching.rest, gaps[0], own)
            if isinstance(found.witness, Witness):
                found = replace(found, witness=touching.lift(found.witness, inner.upper, target))
            yield replace(found, conflict=None)
        if touching is not None:
            yield from touching.conflicts
        if unbounded:
            return
        for room in rooms[1:]:
            yield self._with_barriers(problem, room, target)[0]

    def _with_barriers(self, problem: Problem, room: float, target: Target) -> tuple[Candidate, Outcome]:
        """The answer with barriers, as a proposal for the problem with limits, and as it is.

        The barriers lose a share of ``room``.
        """
        n_rows = sum(risk.floors.size for risk in problem.parts.requirements)
        weight = BARRIER_SHARE * room / max(n_rows, 1)
        absolute = None if target.absolute is None else INNER_GAP_SHARE * target.absolute
        inner = replace(target, tolerance=INNER_GAP_SHARE * target.tolerance, absolute=absolute)
        outcome = self.dispatch(_with_barriers(problem, weight), inner)
        return _lifted(problem, weight, outcome), outcome


def _never_kept(problem: Problem) -> Candidate | None:
    """A conflict with a limit whose row is above its bound on every pair, as a negative share of time would be."""
    for term in problem.parts.limits:
        barrier = term.risk.barrier
        if barrier is not None and term.risk.never_holds:
            weights = weights_of_term(problem, term.number, 1 / barrier.scales[0])
            nothing = np.zeros(problem.mdp.occupancy_shape[:-1])
            closest = plan(problem.mdp, barrier.weighted(np.ones(1)), allowed=problem.kept)
            policy = problem.completed(closest.policy(problem.mdp.n_actions))
            return Candidate(policy, conflict=Conflict(weights, nothing))
    return None


def _with_barriers(problem: Problem, weight: float) -> Problem:
    """The problem with a barrier of this weight for every limit that has rows; the others forbid pairs only."""
    terms = []
    for number, (own, risk) in enumerate(problem.terms):
        limit = problem.parts.limit_by_number.get(number)
        if limit is None:
            terms.append((own, risk))
        elif limit.barrier is not None:
            terms.append((weight, limit.barrier))
    return problem.part(problem.reward, terms)


def _lifted(problem: Problem, weight: float, outcome: Outcome) -> Candidate:
    """What was found with barriers, as a proposal for the problem with limits."""
    best, witness = outcome.evaluated, None
    if isinstance(outcome.witness, Witness):
        given, cuts = iter(outcome.witness.cuts), []
        for number in range(len(problem.terms)):
            limit = problem.parts.limit_by_number.get(number)
            if limit is None:
                cuts.append(next(given, None))
            elif limit.barrier is None:
                cuts.append(limit.simple_witness(problem.active_pairs))
            else:
                slopes = next(given, None)
                cuts.append(None if slopes is None else limit.witness_of(weight * np.asarray(slopes)))
        known = all(cut is not None for cut in cuts)
        witness = Witness(outcome.witness.multipliers, tuple(cuts), outcome.witness.rest) if known else None
    return Candidate(
        policy=None if best is None else best.policy,
        witness=witness,
        conflict=outcome.conflict,
        states=None if best is None else state_sums_of(best.occupancy.occupancy),
        known=best,
    )
