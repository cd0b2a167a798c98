"""What is nothing as far as a solve can tell: such figures read 0 in tables, on pages and in drawings.

A solver stops at a gap, rounding included. Risk that could be shed for nothing is worth at most that gap: it is at most
gap / caution. A figure is taken for 0 where it is below that and also below a billionth of the size that such figures
have in this model, so that a coarse tolerance hides nothing.
"""

import numpy as np

from cautious.arrays import Array
from cautious.problem import Problem
from cautious.solution import Solution

SMALL = 1e-9
USUAL_TOLERANCE = 1e-6


def settled(value: float, unsure: float) -> float:
    """The value, or 0 where it is within what is unsure."""
    return 0.0 if abs(value) <= unsure else value


def shown_return(solution: Solution) -> float:
    """The expected return of the policy."""
    return settled(solution.expected_return, _smaller(solution.gap, SMALL * _return_size(solution)))


def shown_risk(solution: Solution) -> float | None:
    """The risk of the policy, also at caution 0; None where it is not known."""
    risk = solution.policy_risk
    return None if risk is None else settled(risk, unsure_risk(solution))


def shown_objective(solution: Solution) -> float:
    """What the policy is worth."""
    size = _return_size(solution) + solution.caution * _risk_size(solution)
    return settled(solution.objective, _smaller(solution.gap, SMALL * size))


def unsure_risk(solution: Solution) -> float:
    """Risks up to here may be none."""
    if solution.caution > 0:
        return _smaller(solution.gap / solution.caution, SMALL * _risk_size(solution))
    if solution.problem is None:
        return 0.0
    return rounding_of_risk(solution.problem, solution.occupancy, solution.certificate.occupancy_error)


def rounding_of_risk(problem: Problem, occupancy: Array, error: float) -> float:
    """What an error (1-norm) of an occupancy (S, A) can have done to a small risk."""
    if problem.risk is None or not np.isfinite(problem.risk.value(occupancy)):
        return 0.0
    return error * _largest(np.asarray(problem.risk.gradient(occupancy)))


def shares_of_time(solution: Solution) -> Array:
    """Shares of discounted time (S,); 0 where there is no more, beside the largest, than a tolerance leaves open."""
    mass = solution.occupancy.sum(axis=1)
    unsure = SMALL * _smaller(solution.tolerance / USUAL_TOLERANCE, 1.0) * float(mass.max())
    return np.where(mass > unsure, mass, 0.0)


def _return_size(solution: Solution) -> float:
    """The most that could be earned or lost."""
    return _largest(solution.mdp.rewards) / (1 - solution.mdp.discount)


def _risk_size(solution: Solution) -> float:
    """The most that time could add to the risk, by the slope that the adjusted reward tells."""
    scale = (1 - solution.mdp.discount) * solution.caution
    return _largest(solution.mdp.rewards - solution.adjusted_reward) / scale if scale > 0 else 0.0


def _smaller(one: float, other: float) -> float:
    """The smaller one; of a learned solution some are unknown, not a number."""
    return float(np.fmin(one, other))


def _largest(values: Array) -> float:
    """The largest size of the finite ones."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
