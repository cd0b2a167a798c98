"""Which states carry the risk: what each adds to it, and what a little more time there would cost.

With g a (sub)gradient of the risk at the occupancy d, read off the adjusted reward  r - caution (1-gamma) g,

    contribution(s, a) = d(s, a) ( g(s, a) - <d, g> + risk ),           which sums to the risk.

For the variance the contribution is d(s, a) E[(reward - mean)^2 | s, a], for KL d(s, a) log(d(s, a) / prior(s, a)).
Moving the share 1/100 of all time to the state s, from everywhere in proportion, makes d into  0.99 d + 0.01 e_s, with
e_s the policy's actions there. The price is the caution times the change of the risk, in units of return: computed,
because risks bend and have kinks, so it needs the problem.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array
from cautious.certificate.bounds import requirements
from cautious.report.accuracy import shares_of_time
from cautious.report.words import is_neutral
from cautious.solution import Solution

POINT = 0.01
# slopes that are known to fewer digits than this say nothing
DIGITS = 1e-6


@dataclass(frozen=True)
class Carriers:
    """Per state (S,): its part of the risk, and what it adds beyond its share of time, in units of risk."""

    contributions: Array
    beyond: Array


def carriers(solution: Solution) -> Carriers | None:
    """None where there is no finite risk, where rewards are not known (learned without a model), or are too large
    beside the caution for the slope of the risk to be read off.
    """
    if is_neutral(solution) or not np.isfinite(solution.risk) or not solution.mdp.known_transitions:
        return None
    mdp, d = solution.mdp, solution.occupancy
    scale = (1 - mdp.discount) * solution.caution
    slope = (mdp.rewards - solution.adjusted_reward) / scale
    rounding = np.finfo(np.float64).eps * float(np.abs(mdp.rewards).max()) / scale
    if rounding > DIGITS * max(abs(solution.risk), float(np.ptp(slope[d > 0]))):
        return None
    above = np.sum(d * (slope - float(np.sum(d * slope))), axis=1)
    return Carriers(above + solution.risk * d.sum(axis=1), above)


def largest(found: Carriers, solution: Solution, count: int) -> list[int]:
    """Visited states, those first that add most beyond their share of time; ties in the order of the states.

    Adding a constant to a risk changes nothing, and this order does not change with it either.
    """
    order = np.argsort(-found.beyond, kind="stable")
    return [int(state) for state in order[shares_of_time(solution)[order] > 0][:count]]


def price(solution: Solution, state: int) -> float:
    """What one percentage point more time in a state costs through the risk; for solutions that know their problem."""
    assert solution.problem is not None
    moved = (1 - POINT) * solution.occupancy
    moved[state] += POINT * solution.policy[state]
    return float(solution.caution * (solution.problem.risk_value(moved) - solution.risk))


@dataclass(frozen=True)
class Requirement:
    """``reached`` must exceed ``limit``; ``states`` are those of a safe set, where they are known."""

    name: str
    limit: float
    reached: float
    states: tuple[int, ...] | None = None

    @property
    def is_share(self) -> bool:
        """Whether it is about a share of time."""
        return self.name == "SafeSet: share of time in the safe set"


def barrier_requirements(solution: Solution, occupancy: Array | None = None) -> list[Requirement]:
    """What barrier risks (SafeSet, TaskFloors) demand, and what this policy, or an ``occupancy`` (S, A), reaches.

    Of a loaded solution only what its certificate names.
    """
    if solution.problem is not None:
        names, features, floors = requirements(solution.problem)
        reached = np.asarray(features @ (solution.occupancy if occupancy is None else occupancy).ravel())
        found = [Requirement(*row) for row in zip(names, floors.tolist(), reached.tolist(), strict=True)]
        return [
            replace(one, states=_members(features, j, solution)) if one.is_share else one for j, one in enumerate(found)
        ]
    facts = solution.certificate.facts
    if occupancy is not None:
        return []
    columns = (facts.get("requirements", []), facts.get("required", []), facts.get("reached", []))
    return [Requirement(*row) for row in zip(*columns, strict=False)]


def _members(features: sp.csr_array, row: int, solution: Solution) -> tuple[int, ...]:
    """The states that a row of features (m, S*A) looks at."""
    pairs = features.indices[features.indptr[row] : features.indptr[row + 1]]
    return tuple(np.unique(pairs // solution.mdp.n_actions).tolist())
