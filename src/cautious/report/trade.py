"""What caution buys: return given up and risk removed from one caution to another.

Of two cautions a < b with best policies, the return given up per unit of risk removed lies between a and b: at a the
step did not pay, at b it does. To first order one more unit of caution lowers the best objective by the risk.

Beside the risk-neutral policy, the neighbours of a solution are the only problems a report solves, and it gives each of
them only seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from cautious.report.accuracy import settled, shown_return, shown_risk
from cautious.report.words import is_learned, number
from cautious.solution import Solution
from cautious.solvers.request import Request
from cautious.solvers.solve import answer
from cautious.status import Status

# what a neighbour may take; it is not tried if the solution itself took much longer
NEIGHBOUR_SECONDS, LONG_SECONDS = 4.0, 20.0
FACTORS = (0.5, 2.0)
# relative changes below this may be none: solutions are known up to their tolerance, and this is the usual one
UNSURE = 1e-6


@dataclass(frozen=True)
class Point:
    """What a caution leads to; relative changes up to ``unsure`` may be none."""

    caution: float
    expected_return: float
    risk: float
    unsure: float = UNSURE


@dataclass(frozen=True)
class Step:
    """From one caution to a larger one."""

    before: Point
    after: Point

    @property
    def given_up(self) -> float:
        """Return lost."""
        return self._change(self.before.expected_return, self.after.expected_return)

    @property
    def removed(self) -> float:
        """Risk less."""
        return self._change(self.before.risk, self.after.risk)

    @property
    def price(self) -> float | None:
        """Return per unit of risk; None where too little of either changes to divide by."""
        return self.given_up / self.removed if self.removed > 0 and self.given_up > 0 else None

    def _change(self, before: float, after: float) -> float:
        """The difference, or 0 where it is no more than what solving up to a tolerance leaves open."""
        unsure = max(self.before.unsure, self.after.unsure) * max(abs(before), abs(after))
        return settled(before - after, unsure)


def point(solution: Solution) -> Point | None:
    """None when the risk is unknown or infinite."""
    risk = shown_risk(solution)
    if risk is None or not np.isfinite(risk) or not np.isfinite(solution.expected_return):
        return None
    return Point(solution.caution, shown_return(solution), risk, certain_change(solution))


def certain_change(solution: Solution) -> float:
    """Relative changes above this are none of the tolerance's."""
    return float(np.fmin(UNSURE, solution.tolerance))


def steps(points: Sequence[Point | None]) -> list[Step]:
    """Between neighbours; unknown points are left out."""
    known = [one for one in points if one is not None]
    return [Step(before, after) for before, after in pairwise(known)]


def steady(points: Sequence[Point]) -> list[Point]:
    """The points, each figure as in the one before where it does not change: drawings would enlarge the difference."""
    found = list(points[:1])
    for here in points[1:]:
        step = Step(found[-1], here)
        earned = here.expected_return if step.given_up else found[-1].expected_return
        risk = here.risk if step.removed else found[-1].risk
        found.append(replace(here, expected_return=earned, risk=risk))
    return found


def refusal(solution: Solution) -> str | None:
    """Why the neighbours of a solution are not solved, or None."""
    if solution.problem is None:
        return "The neighbouring cautions were not solved: a solution from a file does not keep its risk's data."
    if is_learned(solution):
        return "The neighbouring cautions were not tried: that would take samples."
    if solution.status is not Status.SOLVED:
        return "The neighbouring cautions were not solved: this one is not proved best itself."
    if solution.seconds > LONG_SECONDS:
        return f"The neighbouring cautions were not solved: this one took {number(solution.seconds, 2)} s."
    return None


def neighbours(solution: Solution) -> list[Point]:
    """The best policies at half and at twice the caution, solved from this one, up to the first that takes too long.

    Only for solutions with a risk and without a ``refusal``.
    """
    assert solution.problem is not None
    found = []
    for factor in FACTORS:
        problem = solution.problem.with_caution(factor * solution.caution)
        request = Request(solution.tolerance, NEIGHBOUR_SECONDS)
        one = answer(problem, request, solution)
        here = point(one) if one.status is Status.SOLVED else None
        if here is None:
            break
        found.append(here)
    return found
