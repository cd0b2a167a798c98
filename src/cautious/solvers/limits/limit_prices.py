"""The price of a limit: what one more unit of room adds to the objective at most."""

from dataclasses import replace

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Conflict, Cover, Witness, requirement_rows
from cautious.problem import Problem
from cautious.risks.limits import Limit, LimitWitness
from cautious.solvers.base import Outcome, Target, Workspace
from cautious.solvers.choose import dispatch

# in which the price of a limit that forbids pairs is found
MAX_PRICE_ROUNDS = 30


def limit_prices(problem: Problem, outcome: Outcome, d: Array, target: Target) -> dict[int, float]:
    """The prices of the limits by the number of their term, at the occupancy d (S, A) of the delivered policy.

    Infinite for those of a conflict, and where no witness has one.
    """
    if outcome.conflict is not None:
        return _conflict_prices(problem, outcome.conflict)
    prices = _witness_prices(problem, outcome.witness, d)
    if np.isfinite(outcome.objective) and outcome.witness is not None:
        for term in problem.parts.limits:
            if term.risk.forbids:
                prices[term.number] = _forbidding_price(problem, term.risk, outcome, target)
    return prices


def _witness_prices(problem: Problem, witness: Witness | Cover | None, d: Array) -> dict[int, float]:
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
    rows, prices = requirement_rows(problem), {}
    for term in problem.parts.limits:
        weight = conflict.limits[term.number].price if term.number in conflict.limits else 0.0
        if term.number in rows:
            weight = float(np.sum(conflict.weights[rows[term.number]]))
        prices[term.number] = np.inf if weight > 0 else 0.0
    return prices


def _forbidding_price(problem: Problem, limit: Limit, outcome: Outcome, target: Target) -> float:
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
