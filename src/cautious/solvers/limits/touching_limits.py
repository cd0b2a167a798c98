"""Linear limits whose bound is the best value that any policy reaches: they leave no room for a barrier.

Such a limit is kept by the policies that are optimal for its row, and by no others. Those use only pairs whose
advantage under the optimal values of the row is zero. Without the other pairs the limit holds by itself, and what is
left is a problem without it. In the proof the limit has a price at which the other pairs are not worth using.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.certificate.bounds import Witness, linear_problem
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.limits import Limit
from cautious.solvers.base import Target
from cautious.solvers.refinement import exact_optimum

# a bound touches the best value if they differ by no more than this, in units of the limit; and a pair is tight if its
# advantage is no further below zero
MAX_ROOM, MAX_LOSS = 1e-12, 1e-14
# in which the price is found, and the share of the allowed gap that it may lose
MAX_PRICE_ROUNDS, PRICE_GAP_SHARE = 30, 0.1


@dataclass(frozen=True)
class TouchingLimits:
    """The ``limits`` of a problem that touch, by the number of their term, and the tight ``pairs`` (S, A)."""

    problem: Problem
    limits: dict[int, Limit]
    pairs: Mask

    @cached_property
    def rest(self) -> Problem:
        """The problem on the tight pairs, without these limits."""
        terms = [term for number, term in enumerate(self.problem.terms) if number not in self.limits]
        return self.problem.on_pairs(self.pairs, terms)

    def lift(self, witness: Witness, upper: float, target: Target) -> Witness:
        """The same proof in the whole problem: ``upper`` is what it proves of the rest."""
        problem, price = self.problem, 0.0
        others, room = iter(witness.cuts), PRICE_GAP_SHARE * target.allowance(upper)
        known = {number: next(others) for number in range(len(problem.terms)) if number not in self.limits}
        while True:
            cuts = tuple(self._cut(number, price, known) for number in range(len(problem.terms)))
            linear = linear_problem(problem, problem.reward, problem.terms, cuts)
            best = plan(problem.mdp, linear.reward, tolerance=room, allowed=problem.kept, over=target.over)
            found = Witness(best.values, cuts)
            excess = best.lower + linear.constant - upper
            d = policy_occupancy(problem.mdp, best.policy(problem.mdp.n_actions)).occupancy
            missed = sum(
                max(limit.measure.value(d) - limit.bound, 0.0) / _size(limit) for limit in self.limits.values()
            )
            more = price + excess / missed if missed > MAX_ROOM else price
            if excess <= room or not more > price or target.clock.over:
                return found
            price = more

    def _cut(self, number: int, price: float, known: dict[int, Any]) -> Any:
        limit = self.limits.get(number)
        return known[number] if limit is None else limit.witness_of(np.array([price / _size(limit)]))


def touching_limits(problem: Problem, target: Target) -> TouchingLimits | None:
    """The limits that touch and the pairs that keep all of them; None if no limit does, or not all together."""
    limits, total = {}, np.zeros(problem.mdp.shape)
    for term in problem.parts.limits:
        limit = term.risk
        if limit.barrier is None or limit.barrier.floors.size > 1:
            continue
        table = limit.barrier.weighted(np.ones(1)) / _size(limit)
        if abs(_room(problem, table, target)[0] + limit.bound / _size(limit)) <= MAX_ROOM:
            limits[term.number] = limit
            total += table
    if not limits:
        return None
    most, advantage = _room(problem, total, target)
    room = most + sum(limit.bound / _size(limit) for limit in limits.values())
    return TouchingLimits(problem, limits, advantage >= -MAX_LOSS) if abs(room) <= MAX_ROOM * len(limits) else None


def _size(limit: Limit) -> float:
    assert limit.barrier is not None
    return float(limit.barrier.scales[0])


def _room(problem: Problem, table: Array, target: Target) -> tuple[float, Array]:
    """The largest mean of a table over all policies, and the advantages (S, A) under its optimal values."""
    mdp = problem.mdp
    best = plan(mdp, table, tolerance=MAX_ROOM / (1 - mdp.discount), allowed=problem.kept, over=target.over)
    witness, advantage = exact_optimum(problem, table, best.values)
    assert witness.rest is not None
    return (1 - mdp.discount) * float(mdp.start @ witness.multipliers + mdp.start @ witness.rest), advantage
