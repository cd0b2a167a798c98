"""What each state contributes to the risk, and what a little more time there would cost.

With g a (sub)gradient of the risk at the occupancy d, read off the adjusted reward  r - caution (1-gamma) g,

    contribution(s, a) = d(s, a) ( g(s, a) - <d, g> + risk ),           which sums to the risk.

For the variance the contribution is d(s, a) E[(reward - mean)^2 | s, a], for KL d(s, a) log(d(s, a) / prior(s, a)).
Moving the share 1/100 of all time to the state s, from everywhere in proportion, makes d into  0.99 d + 0.01 e_s, with
e_s the policy's actions there. The price is the caution times the change of the risk, in units of return. It is
computed and not linearised, because risks are curved and have kinks, so it needs the problem.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.report.accuracy import rounded_to_zero, shares_of_time, unsure_risk
from cautious.report.text_tables import Table
from cautious.report.words import is_neutral, is_of_return, number, percent, state_name
from cautious.solution import Solution

PERCENTAGE_POINT = 0.01
MAX_RELATIVE_ROUNDING = 1e-6
# states in the table of contributions
LARGEST_LISTED = 10


@dataclass(frozen=True)
class Contributions:
    """Per state (S,): its part of the risk, and what it adds beyond its share of time, in units of risk."""

    by_state: Array
    beyond: Array

    def largest(self, solution: Solution, count: int) -> list[int]:
        """Visited states, those first that add most beyond their share of time; ties in the order of the states.

        Adding a constant to a risk changes nothing, and this order does not change with it either.
        """
        order = np.argsort(-self.beyond, kind="stable")
        return [int(state) for state in order[shares_of_time(solution)[order] > 0][:count]]

    def shown(self, solution: Solution) -> Array:
        """What each state (S,) adds to the risk, 0 where that may be nothing."""
        return rounded_to_zero(self.by_state, unsure_risk(solution))


def contributions(solution: Solution) -> Contributions | None:
    """None where there is no finite risk, where rewards are not known (learned without a model), or are too large
    beside the caution for the gradient of the risk to be read off.
    """
    if is_neutral(solution) or not np.isfinite(solution.risk) or not solution.mdp.known_transitions:
        return None
    if is_of_return(solution):
        # a risk of the return is not one of time spent in states, with memory or without
        return None
    mdp, d = solution.mdp, solution.occupancy
    scale = mdp.normaliser * solution.caution
    gradient = (mdp.rewards - solution.adjusted_reward) / scale
    rounding = np.finfo(np.float64).eps * float(np.abs(mdp.rewards).max()) / scale
    if rounding > MAX_RELATIVE_ROUNDING * max(abs(solution.risk), float(np.ptp(gradient[d > 0]))):
        return None
    beyond = np.sum(d * (gradient - float(np.sum(d * gradient))), axis=1)
    return Contributions(beyond + solution.risk * d.sum(axis=1), beyond)


def price(solution: Solution, state: int) -> float:
    """What one percentage point more time in a state costs through the risk; for solutions that know their problem."""
    assert solution.problem is not None
    moved = (1 - PERCENTAGE_POINT) * solution.occupancy
    moved[state] += PERCENTAGE_POINT * solution.policy[state]
    return float(solution.caution * (solution.problem.risk_value(moved) - solution.risk))


def contributions_table(solution: Solution, found: Contributions) -> Table:
    """The states that add most to the risk, and what a percentage point more time there would cost, where known."""
    mass, parts, states = shares_of_time(solution), found.shown(solution), found.largest(solution, LARGEST_LISTED)
    headers: tuple[str, ...] = ("state", "share of time", "contribution to the risk")
    rows: list[tuple[str, ...]] = [
        (state_name(solution.mdp, state), percent(float(mass[state])), number(float(parts[state]), 4))
        for state in states
    ]
    if solution.problem is not None:
        prices = np.array([price(solution, state) for state in states])
        prices = rounded_to_zero(prices, solution.caution * unsure_risk(solution))
        headers = (*headers, "price of a percentage point")
        rows = [(*row, number(float(cost), 3)) for row, cost in zip(rows, prices, strict=True)]
    return Table("", headers, tuple(rows))
