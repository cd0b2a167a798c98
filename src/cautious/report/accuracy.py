"""Numbers below both the remaining gap and 1e-9 of the model's scale are shown as 0.

A solver stops at a gap, rounding included. Risk that could be avoided at no cost is worth at most that gap, so it is at
most gap / caution. A number is shown as 0 where it is below that and also below 1e-9 of the size that such numbers have
in this model, so that a coarse tolerance hides nothing.
"""

import numpy as np

from cautious.arrays import Array
from cautious.models.horizons import TOTAL
from cautious.problem import Problem
from cautious.solution import Solution
from cautious.status import DEFAULT_TOLERANCE

RELATIVE_ZERO = 1e-9


def settled(value: float, unsure: float) -> float:
    """The value, or 0 where its size is at most ``unsure``."""
    return 0.0 if abs(value) <= unsure else value


def rounded_to_zero(values: Array, unsure: float) -> Array:
    """The values, 0 where their size is at most ``unsure`` or only rounding beside the largest."""
    return np.where(np.abs(values) > max(unsure, RELATIVE_ZERO * _largest(values)), values, 0.0)


def shown_return(solution: Solution) -> float:
    """The expected return of the policy."""
    return settled(solution.expected_return, _smaller(solution.gap, RELATIVE_ZERO * _return_size(solution)))


def shown_risk(solution: Solution) -> float | None:
    """The risk of the policy, also at caution 0; None where it is not known."""
    risk = solution.policy_risk
    return None if risk is None else settled(risk, unsure_risk(solution))


def shown_objective(solution: Solution) -> float:
    """The objective of the policy."""
    size = _return_size(solution) + solution.caution * _risk_size(solution)
    return settled(solution.objective, _smaller(solution.gap, RELATIVE_ZERO * size))


def unsure_risk(solution: Solution) -> float:
    """Risks up to this size may be 0."""
    if solution.caution > 0:
        return _smaller(solution.gap / solution.caution, RELATIVE_ZERO * _risk_size(solution))
    if solution.problem is None:
        return 0.0
    return rounding_of_risk(solution.problem, solution.certificate.visits.pairs, solution.certificate.occupancy_error)


def rounding_of_risk(problem: Problem, occupancy: Array, error: float) -> float:
    """How much an error (1-norm) of an occupancy (S, A) can change the risk, to first order."""
    if problem.risk is None or problem.is_of_return or not np.isfinite(problem.risk.value(occupancy)):
        return 0.0
    return error * _largest(np.asarray(problem.risk.gradient(occupancy)))


def shares_of_time(solution: Solution) -> Array:
    """Shares of time (S,); 0 where they are below what the tolerance leaves open beside the largest.

    Of discounted time, or of what the horizon counts: until an end, of all steps.
    """
    mass = solution.certificate.visits.pairs.sum(axis=1)
    if solution.horizon == TOTAL and mass.any():
        mass = mass / mass.sum()
    unsure = RELATIVE_ZERO * _smaller(solution.tolerance / DEFAULT_TOLERANCE, 1.0) * float(mass.max())
    return np.where(mass > unsure, mass, 0.0)


def _return_size(solution: Solution) -> float:
    """The trivial bound on the size of a return: max |reward| / (1 - discount), or over what the horizon says."""
    return _largest(solution.mdp.rewards) / solution.mdp.normaliser


def _risk_size(solution: Solution) -> float:
    """The largest entry of the risk's gradient, read off the adjusted reward."""
    scale = solution.mdp.normaliser * solution.caution
    return _largest(solution.mdp.rewards - solution.adjusted_reward) / scale if scale > 0 else 0.0


def _smaller(one: float, other: float) -> float:
    """The smaller one; of a learned solution some are unknown, not a number."""
    return float(np.fmin(one, other))


def _largest(values: Array) -> float:
    """The largest size of the finite ones."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
