"""Which states carry the risk: what each adds to it, and what a little more time there would cost.

With g a (sub)gradient of the risk at the occupancy d, read off the adjusted reward  r - caution (1-gamma) g,

    contribution(s, a) = d(s, a) ( g(s, a) - <d, g> + risk ),           which sums to the risk;
    price(s)           = caution ( sum_a pi(a|s) g(s, a) - <d, g> ) / 100.

For the variance the contribution is d(s, a) E[(reward - mean)^2 | s, a], for KL d(s, a) log(d(s, a) / prior(s, a)).
Moving a small share h of all time to the state s, from everywhere in proportion, makes d into (1-h) d + h e_s and
changes the risk by h (g(s) - <d, g>): the price is that of h = 1/100, in units of return.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.certificate import requirements
from cautious.report.words import is_neutral
from cautious.solution import Solution


@dataclass(frozen=True)
class Carriers:
    """Per state (S,): its part of the risk, and the price in units of return of one percentage point more time."""

    contributions: Array
    prices: Array


def carriers(solution: Solution) -> Carriers | None:
    """None where there is no finite risk, or where the rewards are not known (learned without a model)."""
    if is_neutral(solution) or not np.isfinite(solution.risk) or not solution.mdp.known_transitions:
        return None
    mdp, d = solution.mdp, solution.occupancy
    slope = (mdp.rewards - solution.adjusted_reward) / ((1 - mdp.discount) * solution.caution)
    above = slope - float(np.sum(d * slope))
    contributions = np.sum(d * (above + solution.risk), axis=1)
    prices = solution.caution * np.sum(solution.policy * above, axis=1) / 100
    return Carriers(contributions, prices)


def largest(found: Carriers, solution: Solution, count: int) -> list[int]:
    """Visited states, those first that add most beyond their share of time; ties in the order of the states.

    Adding a constant to a risk changes nothing, and this order does not change with it either.
    """
    order = np.argsort(-solution.occupancy.sum(axis=1) * found.prices, kind="stable")
    return [int(state) for state in order[solution.reached[order]][:count]]


@dataclass(frozen=True)
class Requirement:
    """``reached`` must exceed ``limit``."""

    name: str
    limit: float
    reached: float


def barrier_requirements(solution: Solution) -> list[Requirement]:
    """What barrier risks (SafeSet, TaskFloors) demand; of a loaded solution, only what its certificate names."""
    if solution.problem is not None:
        names, features, floors = requirements(solution.problem)
        reached = np.asarray(features @ solution.occupancy.ravel())
        return [Requirement(*row) for row in zip(names, floors.tolist(), reached.tolist(), strict=True)]
    facts = solution.certificate.facts
    columns = (facts.get("requirements", []), facts.get("required", []), facts.get("reached", []))
    return [Requirement(*row) for row in zip(*columns, strict=False)]
