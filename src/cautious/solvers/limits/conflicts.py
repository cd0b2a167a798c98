"""Which requirements cannot be met together: a smallest set of them, and how far each can be met alone.

A proof of conflict weighs requirements. Leaving out one after the other, as long as a conflict of the rest can be
proved, ends in a set of which every requirement is needed (a deletion filter). Barriers count as one requirement each.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cautious.certificate.bounds import Conflict
from cautious.models.horizons import TOTAL
from cautious.problem import Problem
from cautious.risks.base import terms_of
from cautious.risks.features import WorstOf
from cautious.risks.limits import Limit
from cautious.solvers.base import Outcome, Target, Workspace

Dispatch = Callable[[Problem, Target], Outcome]

# a requirement with a smaller share of the largest weight, in units of its size, plays no part
MIN_RELATIVE_WEIGHT = 1e-6
# to which the best value of a limit alone is found, relative to its size
ALONE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Explained:
    """A conflict of the terms with these ``numbers``, none of which can be left out."""

    conflict: Conflict
    numbers: tuple[int, ...]


def explained(problem: Problem, conflict: Conflict, target: Target, dispatch: Dispatch) -> Explained:
    """The conflict of as few requirements as a deletion filter finds."""
    numbers = _involved(problem, conflict)
    for number in numbers:
        rest = tuple(other for other in numbers if other != number)
        if not rest or target.clock.over:
            break
        terms = [problem.terms[other] for other in rest]
        outcome = dispatch(problem.part(np.zeros(problem.mdp.shape), terms), _own(target))
        if outcome.conflict is not None:
            numbers, conflict = rest, expanded(problem, rest, outcome.conflict)
    return Explained(conflict, numbers)


def best_alone(problem: Problem, limit: Limit, target: Target, dispatch: Dispatch) -> float:
    """The best value of a limit's measure over all policies, as the user counts it."""
    terms = terms_of(limit.measure)
    alone = problem.part(np.zeros(problem.mdp.shape), terms, own_support=True)
    if alone.trapped is not None:
        # infinite for every policy
        return limit.sign * np.inf
    found = dispatch(alone, replace(_own(target), tolerance=ALONE_TOLERANCE))
    if problem.mdp.horizon == TOTAL and np.isinf(found.upper):
        # visits without end
        return -limit.sign * np.inf
    # no minus zero
    return -limit.sign * found.objective + 0.0


def equality(problem: Problem) -> tuple[Limit, Limit] | None:
    """Two limits of one measure, from above and from below, whose bounds are the same number."""
    rows = [(limit, limit.measure.features) for limit in problem.limits if isinstance(limit.measure, WorstOf)]
    for number, (limit, row) in enumerate(rows):
        for other, opposite in rows[:number]:
            if limit.bound == -other.bound and row.shape == opposite.shape and not abs(row + opposite).sum():
                return other, limit
    return None


def _own(target: Target) -> Target:
    return replace(target, absolute=None, start=None, workspace=Workspace())


def _blocks(problem: Problem) -> list[tuple[int, int]]:
    """Number and rows of every term that has requirements, in the order of ``requirements``."""
    blocks = [(term.number, term.risk.floors.size) for term in problem.parts.barriers]
    for term in problem.parts.limits:
        if term.risk.barrier is not None:
            blocks.append((term.number, term.risk.barrier.floors.size))
    return blocks


def _involved(problem: Problem, conflict: Conflict) -> tuple[int, ...]:
    scales = np.concatenate([np.zeros(0), *(risk.scales for risk in problem.parts.requirements)])
    rows, place, weight = np.asarray(conflict.weights) * scales, 0, {}
    for number, size in _blocks(problem):
        weight[number] = float(rows[place : place + size].max(initial=0.0))
        place += size
    for number, witness in conflict.limits.items():
        limit = problem.terms[number][1]
        assert isinstance(limit, Limit)
        weight[number] = witness.price * max(abs(limit.bound), MIN_RELATIVE_WEIGHT)
    most = max(weight.values(), default=0.0)
    return tuple(sorted(number for number, w in weight.items() if w > MIN_RELATIVE_WEIGHT * most))


def expanded(problem: Problem, numbers: tuple[int, ...], found: Conflict) -> Conflict:
    """A conflict of the terms with these numbers as one of the whole problem."""
    weights, place = [], 0
    for number, size in _blocks(problem):
        own = number in numbers
        weights.append(np.asarray(found.weights)[place : place + size] if own else np.zeros(size))
        place += size if own else 0
    limits = {numbers[inner]: witness for inner, witness in found.limits.items()}
    return Conflict(np.concatenate([np.zeros(0), *weights]), found.multipliers, limits)
