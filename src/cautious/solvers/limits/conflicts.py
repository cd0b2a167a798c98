"""Which requirements cannot be met together: a smallest set of them, and how far each can be met alone.

A proof of conflict weighs requirements. Leaving out one after the other, as long as a conflict of the rest can be
proved, ends in a set of which every requirement is needed (a deletion filter). Barriers count as one requirement each.
"""

from dataclasses import dataclass, replace

import numpy as np

from cautious.certificate.bounds import Conflict, conflict_bound, requirement_rows
from cautious.models.horizons import TOTAL
from cautious.problem import Problem
from cautious.risks.base import terms_of
from cautious.risks.limits import Limit
from cautious.solvers.base import Target, Workspace, run
from cautious.solvers.choose import dispatch
from cautious.solvers.column_generation.phase_one import PhaseOne

# a requirement with a smaller share of the largest weight, in units of its size, plays no part
MIN_RELATIVE_WEIGHT = 1e-6
# to which the best value of a limit alone is found, relative to its size
ALONE_TOLERANCE = 1e-9
# a limit that is kept with this room by its best value alone, relative to its bound, is no conflict
CLEAR_ROOM = 1e-6


@dataclass(frozen=True)
class SmallestConflict:
    """A conflict of the terms with these ``numbers``, none of which can be left out.

    ``alone`` has the best values of limits alone, as far as they were looked at.
    """

    conflict: Conflict
    numbers: tuple[int, ...]
    alone: dict[int, float]


def smallest_conflict(problem: Problem, conflict: Conflict, target: Target) -> SmallestConflict:
    """The conflict of as few requirements as a deletion filter finds."""
    numbers = _involved(problem, conflict, MIN_RELATIVE_WEIGHT)
    small = _without_others(problem, conflict, numbers)
    if conflict_bound(problem, small) < 0:
        conflict = small
    else:
        # a small weight may be all that a requirement needs: beside one that is met to the last digit, say
        numbers = _involved(problem, conflict, 0.0)
    alone: dict[int, float] = {}
    every_pair = np.array_equal(problem.permitted, problem.mdp.allowed)
    for number in numbers:
        rest = tuple(other for other in numbers if other != number)
        if not rest or target.clock.over:
            break
        if every_pair and len(rest) == 1 and rest[0] in problem.parts.limit_by_number:
            limit = problem.parts.limit_by_number[rest[0]]
            alone[rest[0]] = best_alone(problem, limit, target)
            if limit.sign * alone[rest[0]] < limit.bound - CLEAR_ROOM * max(1.0, abs(limit.bound)):
                continue
        inner = problem.part(np.zeros(problem.mdp.shape), [problem.terms[other] for other in rest])
        # with nothing to gain, requirements that are all linear need no more than phase I
        linear = all(limit.linear for limit in inner.limits)
        outcome = run(PhaseOne(), inner, _own(target)) if linear else dispatch(inner, _own(target))
        if outcome.conflict is not None:
            numbers, conflict = rest, outcome.conflict.in_whole(problem, rest)
    return SmallestConflict(conflict, numbers, alone)


def best_alone(problem: Problem, limit: Limit, target: Target) -> float:
    """The best value of a limit's measure over all policies, as the user counts it."""
    terms, reward = terms_of(limit.measure), np.zeros(problem.mdp.shape)
    if limit.rows is not None and len(limit.rows.names) == 1:
        # one linear number is a reward
        terms, reward = (), -problem.mdp.normaliser * limit.rows.weighted(np.ones(1))
    alone = problem.part(reward, terms, own_support=True)
    found = dispatch(alone, replace(_own(target), tolerance=ALONE_TOLERANCE))
    if problem.mdp.horizon == TOTAL and np.isinf(found.upper) and not found.excluded:
        # visits without end
        return -limit.sign * np.inf
    least = -found.objective
    if alone.neutral and found.evaluated is not None and np.isfinite(least):
        # a return that is known by values alone is not exactly zero where the policy never pays
        least = float(limit.measure.value(found.evaluated.occupancy.pairs))
    # the objective is minus infinity if the measure is infinite for every policy; no minus zero
    return limit.sign * least + 0.0


def _own(target: Target) -> Target:
    return replace(target, absolute=None, start=None, workspace=Workspace())


def _involved(problem: Problem, conflict: Conflict, least: float) -> tuple[int, ...]:
    """The numbers of the terms with more than this share of the largest weight, in units of their size."""
    scales = np.concatenate([np.zeros(0), *(risk.scales for risk in problem.parts.requirements)])
    scaled = np.asarray(conflict.weights) * scales
    weight = {number: float(scaled[rows].max(initial=0.0)) for number, rows in requirement_rows(problem).items()}
    for number, witness in conflict.limits.items():
        weight[number] = witness.price * max(abs(problem.parts.limit_by_number[number].bound), MIN_RELATIVE_WEIGHT)
    most = max(weight.values(), default=0.0)
    return tuple(sorted(number for number, w in weight.items() if w > least * most))


def _without_others(problem: Problem, conflict: Conflict, numbers: tuple[int, ...]) -> Conflict:
    """The same weights for the terms with these numbers, and none for the others."""
    weights = np.array(conflict.weights, dtype=np.float64)
    for number, rows in requirement_rows(problem).items():
        if number not in numbers:
            weights[rows] = 0.0
    limits = {number: witness for number, witness in conflict.limits.items() if number in numbers}
    return replace(conflict, weights=weights, limits=limits)
