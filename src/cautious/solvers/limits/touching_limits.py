"""Linear limits whose bound is the best value that any policy reaches, or hardly more: no room is left for a barrier.

Such a limit is kept by the policies that are optimal for its row, and by nearly no others. Those use only pairs whose
advantage under the optimal values of the row is zero. Without the other pairs the limit holds by itself, and what is
left is a problem without it. In the proof the limit has a price at which the other pairs are not worth using; what
little room there is may be worth that price times the room.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.certificate.bounds import Conflict, Witness, linear_problem, weights_of_term
from cautious.certificate.exact_limits import exact_multipliers
from cautious.checks import states_of
from cautious.errors import IncompatibleError
from cautious.horizons.average import relative_values
from cautious.horizons.plan import Plan
from cautious.horizons.recurrence import closed_classes
from cautious.models.chains import Chain, chain_of, factors_are_cheap, ordered
from cautious.models.encodings import read_only_view
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.limits import Limit
from cautious.solvers.base import Candidate, Target
from cautious.solvers.refinement import exact_optimum

# by how much a bound may be beyond the best value, and short of it by rounding, in units of the limit
MAX_ROOM, MAX_MISSING = 1e-7, 1e-12
# a pair is tight if its advantage is no further below zero, relative to the values: in twice the working precision, and
# in doubles
MAX_EXACT_LOSS, MAX_LOSS = 1e-14, 1e-11
# in which the price is found, and the share of the allowed gap that it may lose
MAX_PRICE_ROUNDS, PRICE_GAP_SHARE = 30, 0.1


@dataclass(frozen=True)
class TouchingLimits:
    """The ``limits`` of a problem that touch, by the number of their term.

    ``pairs`` are the tight ones, as in ``Problem.on_pairs``; None if not all limits can be kept together. ``conflicts``
    are with single limits that are missed by rounding, in fractions.
    """

    problem: Problem
    limits: dict[int, Limit]
    pairs: Mask | None
    conflicts: list[Candidate]

    @property
    def possible(self) -> bool:
        """Whether some policy uses tight pairs only; in the long run, with the same average from every start."""
        try:
            return self.pairs is not None and self.rest.trapped is None
        except IncompatibleError:
            return False

    @cached_property
    def rest(self) -> Problem:
        """The problem on the tight pairs, without these limits."""
        terms = [term for number, term in enumerate(self.problem.terms) if number not in self.limits]
        assert self.pairs is not None
        return self.problem.on_pairs(self.pairs, terms)

    def lift(self, witness: Witness, upper: float, target: Target) -> Witness:
        """The same proof in the whole problem; ``upper`` is the bound that it proves in the rest."""
        problem, price = self.problem, 0.0
        others, room = iter(witness.cuts), PRICE_GAP_SHARE * target.allowance(upper)
        known = {number: next(others) for number in range(len(problem.terms)) if number not in self.limits}
        while True:
            cuts = tuple(self._cut(number, price, known) for number in range(len(problem.terms)))
            linear = linear_problem(problem, problem.reward, problem.terms, cuts)
            best = plan(problem.mdp, linear.reward, tolerance=room, allowed=problem.kept, over=target.over)
            found = Witness(best.values, cuts)
            excess = best.lower + linear.constant - upper
            d = policy_occupancy(problem.mdp, best.policy(problem.mdp.n_actions)).pairs
            missed = sum(
                max(limit.measure.value(d) - limit.bound, 0.0) / _size(limit) for limit in self.limits.values()
            )
            more = price + excess / missed if missed > MAX_MISSING else price
            if excess <= room or not more > price or target.clock.over:
                return found
            price = more

    def _cut(self, number: int, price: float, known: dict[int, Any]) -> Any:
        limit = self.limits.get(number)
        return known[number] if limit is None else limit.witness_of(np.array([price / _size(limit)]))


def touching_limits(problem: Problem, target: Target) -> TouchingLimits | None:
    """The limits that touch, and the pairs that keep all of them; None if no limit does."""
    limits, conflicts, total = {}, [], np.zeros(problem.mdp.shape)
    for term in problem.parts.limits:
        limit = term.risk
        if limit.barrier is None or limit.barrier.floors.size > 1:
            continue
        size = _size(limit)
        table = limit.barrier.weighted(np.ones(1)) / size
        most, _, best = _most(problem, table, target)
        room = most + limit.bound / size
        if not -MAX_MISSING <= room <= MAX_ROOM:
            continue
        limits[term.number] = limit
        total += table
        if room <= MAX_MISSING:
            missed = exact_multipliers(problem.mdp, problem.active, limit, best.actions)
            if missed is not None:
                conflict = Conflict(weights_of_term(problem, term.number), missed[0], rest=missed[1])
                conflicts.append(Candidate(best.policy(problem.mdp.n_actions), conflict=conflict))
    if not limits:
        return None
    most, advantage, _ = _most(problem, total, target)
    room = most + sum(limit.bound / _size(limit) for limit in limits.values())
    loss = MAX_EXACT_LOSS if problem.mdp.horizon is None else MAX_LOSS
    together = -MAX_MISSING * len(limits) <= room <= MAX_ROOM * len(limits)
    return TouchingLimits(problem, limits, advantage >= -loss if together else None, conflicts)


def _size(limit: Limit) -> float:
    assert limit.barrier is not None
    return float(limit.barrier.scales[0])


def _most(problem: Problem, table: Array, target: Target) -> tuple[float, Array, Plan]:
    """The largest value of a table over all policies, the advantages under its optimal values, and the plan.

    Advantages are (S, A), or (T, S, A), and relative to the values.
    """
    mdp = problem.mdp
    best = plan(mdp, table, tolerance=MAX_MISSING / mdp.normaliser, allowed=problem.kept, over=target.over)
    if mdp.horizon is None:
        witness, advantage = exact_optimum(problem, table, best.values)
        assert witness.rest is not None
        return mdp.normaliser * float(mdp.start @ witness.multipliers + mdp.start @ witness.rest), advantage, best
    if isinstance(mdp.horizon, int):
        ahead = np.zeros(mdp.occupancy_shape)
        for t in range(mdp.horizon - 1):
            ahead[t] = mdp.discount * mdp.expect_next(best.values[t + 1])
        values, mean = best.values, 0.0
        worth = mdp.normaliser * float(mdp.start @ values[0])
    else:
        values, mean = _own_values(problem, table, best)
        ahead = mdp.expect_next(values)
        worth = mean if mdp.horizon == AVERAGE else float(mdp.start @ values)
    advantage = np.where(problem.kept, table + ahead - mean - values[..., None], -np.inf)
    return worth, advantage / (1 + float(np.abs(values).max(initial=0.0))), best


def _own_values(problem: Problem, table: Array, best: Plan) -> tuple[Array, float]:
    """The values (S,) of the policy of a plan, and its mean in the long run, to which they are relative."""
    mdp = problem.mdp
    inside = states_of(problem.kept) & ~mdp.ended if mdp.horizon == TOTAL else states_of(problem.kept)
    chain = chain_of(mdp, best.policy(mdp.n_actions))
    gain = np.where(inside, table[np.arange(mdp.n_states), best.actions], 0.0)
    tail = np.repeat(np.arange(mdp.n_states), np.diff(chain.pointer))
    staying = chain.chance * (inside[tail] & inside[chain.successor])
    chain = Chain(chain.pointer, chain.successor, read_only_view(staying))
    if mdp.horizon == TOTAL:
        return ordered(mdp, chain, None).values(gain, None, 0.0)[0], 0.0
    label = np.where(inside, closed_classes(chain.matrix), -1)
    mean, values = relative_values(chain, gain, label, best.values, factors_are_cheap(mdp))
    return np.where(inside, values, 0.0), mean
