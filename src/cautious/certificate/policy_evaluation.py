"""What a policy is worth, from the unscaled data alone, and how wrong that can be; one half of every certificate."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cautious._core import certificate as kernels
from cautious.arrays import Array, Mask
from cautious.certificate.bounds import TABLE_ROUNDING, LinearProblem, scalar_lines
from cautious.certificate.exact_limits import exactly_kept
from cautious.certificate.twofold import twofold_sum
from cautious.checks import state_sums_of
from cautious.models.chains import chain_of
from cautious.models.encodings import EPS, read_only_view
from cautious.models.horizons import AVERAGE
from cautious.occupancy import LaterOccupancy, Visits, policy_occupancy
from cautious.problem import Problem
from cautious.returns.memory_policy import MemoryPolicy
from cautious.risks.base import never
from cautious.risks.features import PlannedFeatures

# of the allowed gap, what an occupancy's error may use up, and the error of a return that is known by values alone
OCCUPANCY_ERROR_SHARE, RETURN_ERROR_SHARE = 0.02, 0.002
# the same for an error that a more exact occupancy hardly lessens: values in twice the precision take far longer
SETTLED_ERROR_SHARE = 0.05
# of an occupancy in the 1-norm, before it is known what its error does to the objective: usually, and if time is over
FIRST_ACCURACY, HURRIED_ACCURACY = 1e-9, 1e-6
# of values; each gains about as many digits as a linear solve has right
MAX_CORRECTIONS = 6


@dataclass(frozen=True)
class EvaluatedPolicy:
    """A policy and what it is worth; ``error`` bounds what rounding did to the objective.

    ``slopes``: the gradients (S, A) of the terms of a finite risk at the occupancy. ``memory_policy``: what is
    evaluated, where that remembers more than the state; ``policy`` is then its average in each state.
    """

    policy: Array
    occupancy: Visits
    expected_return: float
    risk: float
    objective: float
    error: float
    slopes: tuple[Array, ...] = ()
    memory_policy: MemoryPolicy | None = None


def evaluate_return(
    problem: Problem, policy: Array, values: Array, allowance: Callable[[float], float]
) -> EvaluatedPolicy | None:
    """The return of a policy by its ``values`` (S,); None if these do not determine it exactly enough.

    For discounted problems and long-run averages; with other horizons the occupancy is needed.

    For any v, the mean of  r + gamma E[v] - v  over the policy's occupancy lies between the least and the largest
    entry: where these agree the occupancy need not be known. It is solved for when it is first asked for. In the long
    run a policy that takes active pairs where there are any takes no others: without risks, they are all that can last.
    """
    if problem.mdp.horizon not in (None, AVERAGE):
        return None
    mdp, horizon, counted = problem.mdp, 1 / problem.mdp.normaliser, problem.active_states
    v, pi, reward = np.where(counted, values, 0.0), read_only_view(policy).ravel(), problem.reward
    # 4 u for each of as many operations as the successors of all actions taken, the actions, and 8 more: see ``bounds``
    given: Any = (reward.ravel(), pi, problem.active.ravel(), counted, mdp.discount, v, 2 * EPS)
    least, largest = _widest(kernels.policy_advantages(*block.rows, *given) for block in mdp.row_blocks())
    first, whole = kernels.compensated_dot(mdp.start, v) if mdp.horizon is None else (0.0, 0.0)
    worth = first + horizon * (least + largest) / 2
    # 16 u: 2 for the dot product, 5 for the horizon and the sums above, 4 for a start that does not sum to one
    error = horizon * (largest - least) / 2 + 8 * EPS * (whole + horizon * max(abs(least), abs(largest)))
    room = RETURN_ERROR_SHARE * allowance(worth)
    if not error <= room:
        return None
    largest_reward = max(float(reward.max()), -float(reward.min()), 1e-300)
    accuracy = min(FIRST_ACCURACY, room / (horizon * largest_reward))
    return EvaluatedPolicy(policy, LaterOccupancy(mdp, policy, accuracy), worth, 0.0, worth, error)


def evaluate_policy(
    problem: Problem,
    policy: Array,
    states: Array | None = None,
    allowance: Callable[[float], float] | None = None,
    hints: Mapping[int, Any] | None = None,
    over: Callable[[], bool] = never,
    known: EvaluatedPolicy | None = None,
) -> EvaluatedPolicy:
    """The occupancy of a policy, and its objective with an error bound.

    ``states`` (S,) is a first guess of its state marginal; ``allowance`` says what gap an objective is allowed, a small
    part of which the occupancy's error may use up. Without it the occupancy is as exact as rounding permits. ``hints``,
    by the number of the term, and ``over`` are handed to the risks (``Risk.value_and_gradient``); when it is over, the
    first occupancy will do. ``known`` is what was found for the same policy and model with other terms: its occupancy
    is taken, if that is exact enough.
    """
    worth = partial(_worth, problem, policy, hints or {}, over)
    if allowance is None:
        return worth(policy_occupancy(problem.mdp, policy, guess=states))
    if known is not None:
        found = worth(known.occupancy)
        if found.error <= OCCUPANCY_ERROR_SHARE * allowance(found.objective):
            return found
    accuracy, last_error = HURRIED_ACCURACY if over() else FIRST_ACCURACY, np.inf
    while True:
        found = worth(policy_occupancy(problem.mdp, policy, accuracy, states))
        room = OCCUPANCY_ERROR_SHARE * allowance(found.objective)
        if found.error <= room or over():
            return found
        if 0.5 * last_error < found.error <= SETTLED_ERROR_SHARE * allowance(found.objective):
            # the occupancy became more exact, and what is left is rounding in the numbers of a risk
            return found
        last_error = found.error
        if found.occupancy.error > accuracy or accuracy <= 4 * EPS:
            return worth(found.occupancy, by_values=True)
        # the occupancy may be more exact than was asked for
        accuracy = min(accuracy, found.occupancy.error) * max(0.5 * room / found.error, 1e-6)
        states = state_sums_of(found.occupancy.occupancy)


def _worth(
    problem: Problem,
    policy: Array,
    hints: Mapping[int, Any],
    over: Callable[[], bool],
    found: Visits,
    by_values: bool = False,
) -> EvaluatedPolicy:
    if not np.isfinite(found.error):
        # a policy that never ends is worth minus infinity
        return EvaluatedPolicy(policy, found, -np.inf, 0.0, -np.inf, 0.0)
    # values in twice the working precision are those of discounted problems
    by_values &= problem.mdp.horizon is None
    expected, error = _expected_return(problem, policy, found)
    numbers = _numbers_by_values(problem, policy, found) if by_values else {}
    clear = _clear_of_floors(problem, policy, found, numbers)
    risk, slopes, errors = _risk(problem, found, hints, over, numbers) if clear else (np.inf, (), [])
    if not clear and not by_values and _may_be_clear(problem, found):
        # a more exact look may find that every floor is kept
        error = np.inf
    # values do not help where the error is that of the convex risks
    convex_error = sum(errors[term.number] for term in problem.parts.without_scalars) if errors else 0.0
    if by_values and error > convex_error:
        other = _return_by_values(problem, policy, found.reached, LinearProblem(problem.reward, 0.0, None))
        expected, error = other if other[1] < error else (expected, error)
    # a limit that is not kept is worth minus infinity, without caution too
    cost = problem.caution * risk if np.isfinite(risk) else np.inf
    objective = expected if problem.neutral else expected - cost
    if slopes:
        # 8 u: 2 for the product and the difference above, the rest for the weights of the risk's sum
        error += sum(errors) + 4 * EPS * (abs(expected) + problem.caution * abs(risk))
    if by_values and slopes and problem.parts.scalars and sum(errors) > 2 * convex_error:
        objective, error = _objective_by_values(problem, policy, found, (objective, error))
        risk = (expected - objective) / problem.caution
    return EvaluatedPolicy(policy, found, expected, risk, objective, error, slopes)


def _objective_by_values(
    problem: Problem, policy: Array, found: Visits, known: tuple[float, float]
) -> tuple[float, float]:
    """The objective and its error again, with the tables of variance and CVaR as part of the rewards.

    The numbers of these risks are nearly the best ones of the exact occupancy, which leaves errors of second order.
    """
    d, terms = found.occupancy, problem.parts.scalars
    numbers = [term.risk.best(d) for term in terms]
    linear = scalar_lines(
        problem, [(term.risk.table(t), term.risk.offset(t)) for term, t in zip(terms, numbers, strict=True)]
    )
    objective, error = _return_by_values(problem, policy, found.reached, linear)
    objective += linear.constant
    error += sum(term.weight * term.risk.line_error(d, t, found.error) for term, t in zip(terms, numbers, strict=True))
    for term in problem.parts.without_scalars:
        value, slope = term.risk.value_and_gradient(d)
        objective -= term.weight * value
        error += np.inf if slope is None else term.weight * term.risk.value_error(d, value, slope, found.error)
    # 256 u: 4 for every term that was subtracted, and 128 for the offsets in ``scalar_lines``
    error += 128 * EPS * (abs(objective) + abs(linear.constant))
    return (objective, error) if error < known[1] else known


def _risk(
    problem: Problem,
    found: Visits,
    hints: Mapping[int, Any],
    over: Callable[[], bool],
    numbers: Mapping[int, tuple[Array, Array]],
) -> tuple[float, tuple[Array, ...], list[float]]:
    """The risk of an occupancy, the gradients of its terms, and how far each weighted term can be off.

    There are no gradients and errors where the risk is infinite; ``numbers`` are those of ``_numbers_by_values``.
    """
    risk, slopes, errors, d = 0.0, [], [], found.pairs
    for number, (weight, term) in enumerate(problem.terms):
        if number in numbers and isinstance(term, PlannedFeatures):
            known, off = numbers[number]
            value, error = term.outer(known), term.outer_error(known, off)
            slope = term.weighted(term.outer_gradient(known))
        else:
            value, given = term.value_and_gradient(d, hints.get(number), over)
            if given is None:
                return np.inf, (), []
            slope, error = given, term.value_error(d, value, given, found.error)
        # that of a limit is 0, and a caution may be too small to divide by
        risk += weight / problem.caution * value if value else 0.0
        # 8 u: 3 for weight, caution and value, the rest for sums of up to five terms; ``value_error`` has room for more
        errors.append(weight * (error + 4 * EPS * abs(value)))
        slopes.append(slope)
    return risk, tuple(slopes), errors


def _expected_return(problem: Problem, policy: Array, found: Visits) -> tuple[float, float]:
    """<d, r> / normaliser, and a bound of its error."""
    horizon, reward = 1 / problem.mdp.normaliser, read_only_view(problem.reward).ravel()
    paid, magnitude = kernels.compensated_dot(found.pairs.ravel(), reward)
    # all pairs that the policy uses, also those whose occupancy was rounded to zero
    taken = policy.max(axis=0) if policy.ndim == 3 else policy
    largest = kernels.largest_reward_taken(reward, read_only_view(taken).ravel(), found.reached)
    # 32 u: 2 for the dot product, 3 for the horizon, 2 for the entries of d, and about 20 for the sum d was divided by
    return horizon * paid, horizon * (16 * EPS * magnitude + largest * found.error)


def _return_by_values(problem: Problem, policy: Array, reached: Mask, linear: LinearProblem) -> tuple[float, float]:
    """The return that a policy gets from a table, by values in twice the working precision, and its error.

    As in ``evaluate_return``, for any v the return lies between  <xi, v> + low / (1-gamma)  and the same with high, the
    least and the largest  r_pi + gamma E_pi[v] - v.  These differences, which are computed nearly exactly, correct v
    until nothing is gained. An occupancy cannot do the same: it is not known better than rounding / (1-gamma).
    """
    mdp, gamma, horizon = problem.mdp, problem.mdp.discount, 1 / (1 - problem.mdp.discount)
    chain, missing = chain_of(mdp, policy), np.empty(mdp.n_states)
    # states that are not reached are worth nothing, and the policy never leads there
    reward, share = read_only_view(linear.reward), 0.0 if linear.size is None else TABLE_ROUNDING * EPS
    size = reward if linear.size is None else read_only_view(linear.size)
    gain = np.where(reached, np.einsum("sa,sa->s", policy, reward), 0.0)
    values = np.where(reached, chain.values(gamma, gain)[0], 0.0), np.zeros(mdp.n_states)
    table = (reward.ravel(), size.ravel(), share, read_only_view(policy).ravel(), mdp.allowed.ravel())
    worth, error = np.nan, np.inf
    for _ in range(MAX_CORRECTIONS):
        given: Any = (*table, reached, gamma, *values, 2 * EPS, missing)
        low, high = _widest(kernels.exact_policy_advantages(*block.rows, *given) for block in mdp.row_blocks())
        (first, whole), (more, _) = (kernels.compensated_dot(mdp.start, part) for part in values)
        # 16 u as in ``evaluate_return``
        off = horizon * (high - low) / 2 + 8 * EPS * (whole + horizon * max(abs(low), abs(high)))
        if not off < 0.5 * error:
            break
        worth, error = first + more + horizon * (low + high) / 2, off
        values = twofold_sum(*values, np.where(reached, chain.values(gamma, missing)[0], 0.0))
    return worth, error


def _widest(ranges: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The least and the largest of ranges (least, largest); NaN if one of them is."""
    ends = np.array(list(ranges))
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def _numbers_by_values(problem: Problem, policy: Array, found: Visits) -> dict[int, tuple[Array, Array]]:
    """The numbers (m,) of barriers, worst cases and linear limits, and how far each can be off, by the terms' numbers.

    Each number is a return, so that values tell it in twice the working precision. Where a floor is near, or the
    caution is large, an occupancy does not suffice.
    """
    known: dict[int, tuple[Array, Array]] = {}
    parts = problem.parts
    rows = [(term.number, term.risk) for term in parts.features]
    rows += [(term.number, term.risk.rows) for term in parts.limits if term.risk.rows is not None]
    for number, risk in rows:
        d = found.occupancy
        numbers, errors = risk.numbers(d), risk.number_errors(d, found.error)
        # the features were divided by 1 - gamma, and the products below round
        rounding = 8 * EPS * np.asarray(risk.sizes @ np.ravel(d))
        for j in range(numbers.size):
            row = np.asarray(risk.features[[j]].toarray()).reshape(problem.mdp.shape)
            worth, off = _return_by_values(problem, policy, found.reached, LinearProblem(row, 0.0, None))
            share = 1 - problem.mdp.discount
            if share * off + rounding[j] < errors[j]:
                numbers[j], errors[j] = share * worth, share * off + rounding[j]
        known[number] = numbers, errors
    return known


def _clear_of_floors(problem: Problem, policy: Array, found: Visits, known: Mapping[int, tuple[Array, Array]]) -> bool:
    """Whether every barrier and every limit is kept by more than the rounding errors, or, of a small model, exactly."""
    for term in problem.parts.barriers:
        numbers, errors = known.get(term.number) or _numbers(term.risk, found)
        if not np.all(numbers - term.risk.floors > 2 * term.risk.with_floors(errors)):
            return False
    for limit in problem.parts.limits:
        if limit.number in known and limit.risk.is_kept_by(*known[limit.number]):
            continue
        least, largest = limit.risk.slack_range(found.pairs, found.error)
        if largest < 0 or (least < 0 and not exactly_kept(problem.mdp, policy, found.reached, limit.risk)):
            return False
    return True


def _may_be_clear(problem: Problem, found: Visits) -> bool:
    """Whether no barrier and no linear limit is certainly broken."""
    for risk in problem.parts.requirements:
        numbers, errors = _numbers(risk, found)
        if np.any(numbers - risk.floors < -2 * risk.with_floors(errors)):
            return False
    return True


def _numbers(risk: PlannedFeatures, found: Visits) -> tuple[Array, Array]:
    return risk.numbers(found.pairs), risk.number_errors(found.pairs, found.error)
