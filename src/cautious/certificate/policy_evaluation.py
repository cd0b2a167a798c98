"""What a policy is worth, from the unscaled data alone, and how wrong that can be; one half of every certificate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cautious._core import certificate as kernels
from cautious.arrays import Array
from cautious.checks import picked, state_sums_of
from cautious.models.encodings import EPS, frozen
from cautious.occupancy import LaterOccupancy, Visits, policy_occupancy, policy_values
from cautious.problem import Problem
from cautious.risks.base import never

# of the allowed gap, what an occupancy's error may use up, and the error of a return that is known by values alone
ERROR_SHARE, VALUES_SHARE = 0.02, 0.002
ROUGH = 1e-9


@dataclass(frozen=True)
class EvaluatedPolicy:
    """A policy and what it is worth; ``error`` bounds what rounding did to the objective.

    ``slopes``: the gradients (S, A) of the terms of a finite risk at the occupancy.
    """

    policy: Array
    occupancy: Visits
    expected_return: float
    risk: float
    objective: float
    error: float
    slopes: tuple[Array, ...] = ()


def evaluate_return(
    problem: Problem, policy: Array, values: Array, allowance: Callable[[float], float]
) -> EvaluatedPolicy | None:
    """The return of a policy by what it is worth in each state, ``values`` (S,); None if that does not tell it exactly.

    For any v, the mean of  r + gamma E[v] - v  over the policy's occupancy lies between the least and the largest
    entry: where these agree the occupancy need not be known. It is solved for when somebody asks.
    """
    mdp, horizon, counted = problem.mdp, 1 / (1 - problem.mdp.discount), problem.active_states
    v, pi, reward = np.where(counted, values, 0.0), frozen(policy).ravel(), problem.reward
    least, largest = kernels.policy_advantages(
        *mdp.csr, reward.ravel(), pi, problem.active.ravel(), counted, mdp.discount, v, 2 * EPS
    )
    first, whole = kernels.compensated_dot(mdp.start, v)
    worth = first + horizon * (least + largest) / 2
    error = horizon * (largest - least) / 2 + 8 * EPS * (whole + horizon * max(abs(least), abs(largest)))
    room = VALUES_SHARE * allowance(worth)
    if not error <= room:
        return None
    largest_reward = max(float(reward.max()), -float(reward.min()), 1e-300)
    accuracy = min(ROUGH, room / (horizon * largest_reward))
    return EvaluatedPolicy(policy, LaterOccupancy(mdp, policy, accuracy), worth, 0.0, worth, error)


def evaluate_policy(
    problem: Problem,
    policy: Array,
    states: Array | None = None,
    allowance: Callable[[float], float] | None = None,
    hints: Mapping[int, Any] | None = None,
    over: Callable[[], bool] = never,
) -> EvaluatedPolicy:
    """The occupancy of a policy, and its objective with an error bound.

    ``states`` (S,) is a first guess of its state marginal; ``allowance`` says what gap an objective is allowed, a small
    part of which the occupancy's error may use up. Without it the occupancy is as exact as rounding permits. ``hints``,
    by the number of the term, and ``over`` are handed to the risks (``Risk.value_and_gradient``).
    """
    worth = partial(_worth, problem, policy, hints or {}, over)
    if allowance is None:
        return worth(policy_occupancy(problem.mdp, policy, guess=states))
    accuracy = ROUGH
    while True:
        found = worth(policy_occupancy(problem.mdp, policy, accuracy, states))
        room = ERROR_SHARE * allowance(found.objective)
        if found.error <= room:
            return found
        if found.occupancy.error > accuracy or accuracy <= 4 * EPS:
            return worth(found.occupancy, policy_values(problem.mdp, policy, problem.reward))
        accuracy *= max(0.5 * room / found.error, 1e-6)
        states = state_sums_of(found.occupancy.occupancy)


def _worth(
    problem: Problem,
    policy: Array,
    hints: Mapping[int, Any],
    over: Callable[[], bool],
    found: Visits,
    values: Array | None = None,
) -> EvaluatedPolicy:
    expected, error = _expected_return(problem, policy, found)
    if values is not None:
        other = _return_by_values(problem, policy, found, values)
        expected, error = other if other[1] < error else (expected, error)
    risk, slopes = _risk(problem, found.occupancy, hints, over) if _clear_of_floors(problem, found) else (np.inf, ())
    objective = expected if problem.neutral else expected - problem.caution * risk
    return EvaluatedPolicy(
        policy, found, expected, risk, objective, error + _risk_error(problem, found, risk, slopes), slopes
    )


def _risk(
    problem: Problem, d: Array, hints: Mapping[int, Any], over: Callable[[], bool]
) -> tuple[float, tuple[Array, ...]]:
    """The risk of an occupancy and the gradients of its terms; none where it is infinite."""
    risk, slopes = 0.0, []
    for number, (weight, term) in enumerate(problem.terms):
        value, slope = term.value_and_gradient(d, hints.get(number), over)
        if slope is None:
            return np.inf, ()
        risk += weight / problem.caution * value
        slopes.append(slope)
    return risk, tuple(slopes)


def _expected_return(problem: Problem, policy: Array, found: Visits) -> tuple[float, float]:
    """<d, r> / (1-gamma), and how wrong it can be."""
    horizon, reward = 1 / (1 - problem.mdp.discount), frozen(problem.reward).ravel()
    paid, magnitude = kernels.compensated_dot(found.occupancy.ravel(), reward)
    # where the policy goes at all, also where its occupancy was rounded to zero
    largest = kernels.largest_reward_taken(reward, frozen(policy).ravel(), found.reached)
    return horizon * paid, horizon * (16 * EPS * magnitude + largest * found.error)


def _return_by_values(problem: Problem, policy: Array, found: Visits, v: Array) -> tuple[float, float]:
    """The same return as  <xi, v> + <d, r + gamma E[v] - v> / (1-gamma),  true for any v (S,), and its error.

    With v near the policy's values the bracket is near zero where the policy goes, and an error of d hardly counts.
    Near a discount of one nothing else will do: d cannot be known better than rounding / (1-gamma).
    """
    mdp, gamma, horizon = problem.mdp, problem.mdp.discount, 1 / (1 - problem.mdp.discount)
    used = found.reached[:, None] & (policy > 0)
    advantage = np.where(used, problem.reward + gamma * mdp.expect_next(v) - v[:, None], 0.0)
    size = (np.abs(problem.reward) + gamma * mdp.expect_next(np.abs(v)) + np.abs(v)[:, None])[used].max(initial=0.0)
    rounding = 2 * EPS * (mdp.widest_row + 8) * float(size)
    largest = float(np.abs(advantage).max(initial=0.0)) + rounding
    paid, magnitude = kernels.compensated_dot(found.occupancy.ravel(), advantage.ravel())
    first, whole = kernels.compensated_dot(mdp.start, v)
    error = horizon * (16 * EPS * magnitude + largest * found.error + rounding) + 8 * EPS * whole
    return first + horizon * paid, error


def _clear_of_floors(problem: Problem, found: Visits) -> bool:
    """Whether every requirement is met by more than rounding can fake."""
    barriers = [term.risk for term in problem.parts.barriers]
    return all(np.all(risk.slack(found.occupancy) > 2 * found.error * risk.scales) for risk in barriers)


def _risk_error(problem: Problem, found: Visits, risk: float, slopes: tuple[Array, ...]) -> float:
    """First-order effect of the occupancy's error on the risk, doubled, and the rounding of the risk."""
    reached, error = found.occupancy > 0, 0.0
    for (weight, _), table in zip(problem.terms, slopes, strict=bool(slopes)):
        slope = float(np.abs(picked(table, reached)).max(initial=0.0))
        error += weight * (2 * slope * found.error + 32 * EPS * (abs(risk) + slope))
    return error
