"""What a solution says of its constraints: the value of each measure, its bound, the slack and the price."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Conflict, Cover, Witness
from cautious.problem import Problem
from cautious.risks.limits import Limit, LimitWitness
from cautious.solution import ConstraintValue
from cautious.solvers.base import Outcome, Target, Workspace

Dispatch = Callable[[Problem, Target], Outcome]

# in which the price of a limit that forbids pairs is found
MAX_PRICE_ROUNDS = 30


def constraint_values(
    problem: Problem, d: Array, outcome: Outcome, target: Target, dispatch: Dispatch
) -> tuple[ConstraintValue, ...]:
    """One row for every constraint, in the order given; d (S, A) is the occupancy of the delivered policy."""
    prices = _prices(problem, outcome, d)
    rows = []
    for term in problem.parts.limits:
        limit, price = term.risk, prices[term.number]
        if limit.forbids and np.isfinite(outcome.objective) and outcome.witness is not None:
            price = _forbidding_price(problem, limit, outcome, target, dispatch)
        value = float(limit.measure.value(d))
        if np.isfinite(outcome.objective):
            # the limit is kept, and only the rounding of this number can exceed it
            value = limit.bound if limit.forbids else min(value, limit.bound)
        slack, bound = limit.bound - value, limit.sign * limit.bound
        rows.append(ConstraintValue(limit.name, limit.sign * value, bound, slack, price))
    return tuple(rows)


def _prices(problem: Problem, outcome: Outcome, d: Array) -> dict[int, float]:
    """The prices of the limits by the number of their term; infinite for those of a conflict, and without a witness."""
    conflict, witness = outcome.conflict, outcome.witness
    if conflict is not None:
        return _conflict_prices(problem, conflict)
    numbers = [term.number for term in problem.parts.limits]
    if isinstance(witness, Cover):
        # the box that holds the policy's own numbers, whose prices are those of its neighbourhood
        best = [term.risk.best(d) for term in problem.parts.scalars]
        inside = [
            box
            for box in witness.boxes
            if all(low < t <= high for low, t, high in zip(box.lows, best, box.highs, strict=True))
        ]
        box = min(inside or witness.boxes, key=lambda box: box.volume)
        places = {term.number: place for place, term in enumerate(problem.parts.without_scalars)}
        cuts = [box.witness.cuts[places[number]] for number in numbers] if box.witness.cuts else []
    else:
        whole = isinstance(witness, Witness) and len(witness.cuts) == len(problem.terms)
        cuts = [witness.cuts[number] for number in numbers] if whole and witness is not None else []
    found = {
        number: float(cut.price) for number, cut in zip(numbers, cuts, strict=False) if isinstance(cut, LimitWitness)
    }
    return {number: found.get(number, np.inf) for number in numbers}


def _conflict_prices(problem: Problem, conflict: Conflict) -> dict[int, float]:
    place = sum(term.risk.floors.size for term in problem.parts.barriers)
    prices = {}
    for term in problem.parts.limits:
        weight = conflict.limits[term.number].price if term.number in conflict.limits else 0.0
        if term.risk.barrier is not None:
            size = term.risk.barrier.floors.size
            weight, place = float(np.sum(conflict.weights[place : place + size])), place + size
        prices[term.number] = np.inf if weight > 0 else 0.0
    return prices


def _forbidding_price(problem: Problem, limit: Limit, outcome: Outcome, target: Target, dispatch: Dispatch) -> float:
    """The least price at which the pairs that a limit forbids are not worth using: with it the limit can be left out.

    A policy that uses such pairs earns so much per unit of the excess; the largest such ratio is found as a root by
    Dinkelbach's method, from below.
    """
    price, own = 0.0, replace(target, start=None, workspace=Workspace())
    others = [(weight, risk) for weight, risk in problem.terms if risk is not limit]
    for _ in range(MAX_PRICE_ROUNDS):
        priced = [*others, (price, limit.excess)] if price > 0 else others
        found = dispatch(problem.part(problem.reward, priced, own_support=True), own)
        if found.upper <= outcome.bound + target.allowance(outcome.objective):
            return price
        if found.evaluated is None:
            break
        excess = float(limit.excess.value(found.evaluated.occupancy.pairs))
        more = price + (found.objective - outcome.objective) / excess if excess > 0 else price
        if not more > price:
            break
        price = more
    return np.inf
