"""Certificates: what a policy is worth and how much better any policy could be, from the unscaled data alone.

Nothing here believes a solver. A solver sends a policy and a *witness*; this file recomputes everything else with
NumPy, SciPy and loops of its own (``kernels/checking.py``).

Upper bound of a convex problem. For any lines  risk_k(d) >= <u_k, d> + b_k  and any multipliers v (S,),

    objective(d)  <=  <xi, v> + max over active pairs of ( r~ + gamma E[v] - v ) / (1-gamma)  -  sum_k c_k b_k,
    r~ = r - (1-gamma) sum_k c_k u_k.

Upper bound with risks that are a minimum over a number t (variance, CVaR). Every occupancy has a best number for each
of them; boxes cover all that these can be. For the occupancies of a box each such risk stays above a line in d, which
leaves a convex problem, bounded as above.

Infeasible barriers. Weights w >= 0 and multipliers v that bound sum_j w_j (number_j - floor_j) by zero or less prove
that no policy meets all requirements.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Mask
from cautious.kernels import checking
from cautious.models.encodings import EPS
from cautious.occupancy import PolicyOccupancy, policy_occupancy, policy_values
from cautious.problem import Problem
from cautious.risks.base import Cut, Risk, ScalarRisk
from cautious.risks.features import LogBarrier

ERROR_SHARE = 0.02
ROUGH = 1e-9


@dataclass(frozen=True)
class Witness:
    """``multipliers`` (S,), and for every convex term of the problem what its ``cut`` needs."""

    multipliers: Array
    cuts: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Box:
    """A range (low, high] for the best number of each scalar risk, the line to use there (``at``), and its witness."""

    lows: tuple[float, ...]
    highs: tuple[float, ...]
    at: tuple[float, ...]
    witness: Witness


@dataclass(frozen=True)
class Cover:
    """Boxes that together cover every value the scalars can take."""

    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Conflict:
    """Proof that requirements cannot be met together: ``weights`` per requirement, ``multipliers`` (S,)."""

    weights: Array
    multipliers: Array


@dataclass(frozen=True)
class Delivered:
    """A policy and what it is worth; ``error`` bounds what rounding did to the objective."""

    policy: Array
    occupancy: PolicyOccupancy
    expected_return: float
    risk: float
    objective: float
    error: float


@dataclass(frozen=True)
class Certificate:
    """What was checked, and by how much.

    Attributes
    ----------
    kind
        "optimal" (convex, the gap bounds the lost value), "global" (not convex, bounded over all policies),
        "stationary" (not convex, first order only), "infeasible" (proved), "undecided" or "estimated".
    statement
        The same in a sentence.
    upper_bound, gap
        What no policy exceeds, and how far the delivered one is below it, rounding included.
    occupancy_error, objective_error
        What rounding can have done to the occupancy (1-norm) and to the objective.
    facts
        What a kind adds: the requirements that fail and the best reachable values, samples and confidence.

    Examples
    --------
    >>> import cautious as ca
    >>> certificate = ca.solve(ca.worlds.problem("queue")).certificate
    >>> certificate.kind, certificate.gap < 1e-3
    ('optimal', True)
    """

    kind: str
    statement: str
    upper_bound: float
    gap: float
    occupancy_error: float
    objective_error: float
    facts: dict[str, Any] = field(default_factory=dict)


def deliver(
    problem: Problem, policy: Array, states: Array | None = None, allowance: Callable[[float], float] | None = None
) -> Delivered:
    """The occupancy of a policy, and its objective with an error bound.

    ``states`` (S,) is a first guess of its state marginal; ``allowance`` says what gap an objective is allowed, a small
    part of which the occupancy's error may use up. Without it the occupancy is as exact as rounding permits.
    """
    if allowance is None:
        return _worth(problem, policy, policy_occupancy(problem.mdp, policy, guess=states))
    accuracy = ROUGH
    while True:
        found = _worth(problem, policy, policy_occupancy(problem.mdp, policy, accuracy, states))
        room = ERROR_SHARE * allowance(found.objective)
        if found.error <= room:
            return found
        if found.occupancy.error > accuracy or accuracy <= 4 * EPS:
            return _worth(problem, policy, found.occupancy, policy_values(problem.mdp, policy, problem.reward))
        accuracy *= max(0.5 * room / found.error, 1e-6)
        states = found.occupancy.occupancy.sum(axis=1)


def _worth(problem: Problem, policy: Array, found: PolicyOccupancy, values: Array | None = None) -> Delivered:
    # where the policy goes at all, also where its occupancy was rounded to zero
    used = found.reached[:, None] & (policy > 0)
    expected, error = _expected_return(problem, found, used)
    if values is not None:
        other = _return_by_values(problem, found, used, values)
        expected, error = other if other[1] < error else (expected, error)
    risk = problem.risk_value(found.occupancy) if _clear_of_floors(problem, found) else np.inf
    objective = expected if problem.neutral else expected - problem.caution * risk
    return Delivered(policy, found, expected, risk, objective, error + _risk_error(problem, found, risk))


def _expected_return(problem: Problem, found: PolicyOccupancy, used: Mask) -> tuple[float, float]:
    """<d, r> / (1-gamma), and how wrong it can be."""
    horizon = 1 / (1 - problem.mdp.discount)
    paid, magnitude = checking.careful_dot(found.occupancy.ravel(), problem.reward.ravel())
    largest = float(np.abs(problem.reward[used]).max(initial=0.0))
    return horizon * paid, horizon * (16 * EPS * magnitude + largest * found.error)


def _return_by_values(problem: Problem, found: PolicyOccupancy, used: Mask, v: Array) -> tuple[float, float]:
    """The same return as  <xi, v> + <d, r + gamma E[v] - v> / (1-gamma),  true for any v (S,), and its error.

    With v near the policy's values the bracket is near zero where the policy goes, and an error of d hardly counts.
    Near a discount of one nothing else will do: d cannot be known better than rounding / (1-gamma).
    """
    mdp, gamma, horizon = problem.mdp, problem.mdp.discount, 1 / (1 - problem.mdp.discount)
    advantage = np.where(used, problem.reward + gamma * mdp.expect_next(v) - v[:, None], 0.0)
    size = (np.abs(problem.reward) + gamma * mdp.expect_next(np.abs(v)) + np.abs(v)[:, None])[used].max(initial=0.0)
    rounding = 2 * EPS * (mdp.widest_row + 8) * float(size)
    largest = float(np.abs(advantage).max(initial=0.0)) + rounding
    paid, magnitude = checking.careful_dot(found.occupancy.ravel(), advantage.ravel())
    first, whole = checking.careful_dot(mdp.start, v)
    error = horizon * (16 * EPS * magnitude + largest * found.error + rounding) + 8 * EPS * whole
    return first + horizon * paid, error


def _clear_of_floors(problem: Problem, found: PolicyOccupancy) -> bool:
    """Whether every requirement is met by more than rounding can fake."""
    barriers = [risk for _, risk in problem.terms if isinstance(risk, LogBarrier)]
    return all(np.all(risk.slack(found.occupancy) > 2 * found.error * risk.scales()) for risk in barriers)


def _risk_error(problem: Problem, found: PolicyOccupancy, risk: float) -> float:
    """First-order effect of the occupancy's error on the risk, doubled, and the rounding of the risk."""
    if not np.isfinite(risk):
        return 0.0
    d, error = found.occupancy, 0.0
    for weight, term in problem.terms:
        slope = float(np.abs(np.asarray(term.gradient(d))[d > 0]).max(initial=0.0))
        error += weight * (2 * slope * found.error + 32 * EPS * (abs(risk) + slope))
    return error


def upper_bound(problem: Problem, witness: Witness | Cover) -> float:
    """What no policy exceeds; infinite when the witness proves nothing, as tangents of a risk that is not convex."""
    if isinstance(witness, Cover):
        return _cover_bound(problem, witness)
    if not all(risk.convex for _, risk in problem.terms):
        return np.inf
    return first_order_bound(problem, witness)


def first_order_bound(problem: Problem, witness: Witness) -> float:
    """What no policy exceeds if every risk stayed above its tangents; for convex risks that is a proof."""
    return _convex_bound(problem, problem.reward, problem.terms, witness)


def _convex_bound(
    problem: Problem, reward: Array, terms: Sequence[tuple[float, Risk]], witness: Witness, spare: float = 0.0
) -> float:
    mdp, active = problem.mdp, problem.active
    if len(witness.cuts) != len(terms):
        return np.inf
    gamma, v = mdp.discount, np.asarray(witness.multipliers, dtype=np.float64)
    adjusted, size, intercept, noise = reward.copy(), np.abs(reward), 0.0, spare
    for (weight, risk), given in zip(terms, witness.cuts, strict=True):
        line: Cut = risk.cut(given, active)
        price = (1 - gamma) * weight * line.slope
        adjusted, size = adjusted - price, size + np.abs(price)
        intercept += weight * line.intercept
        noise += 64 * EPS * weight * (abs(line.intercept) + float(np.abs(line.slope[active]).max(initial=0.0)))
    bound = _plan_bound(problem, adjusted, size, v) - intercept + noise
    # a witness that proves nothing must not slip through a comparison
    return np.inf if np.isnan(bound) else bound


def _plan_bound(problem: Problem, reward: Array, size: Array, v: Array) -> float:
    """What no policy earns from a reward table (S, A), by multipliers v; ``size`` is what rounding is relative to."""
    mdp, active = problem.mdp, problem.active
    if v.shape != (mdp.n_states,) or not (
        np.isfinite(v[problem.active_states]).all() and np.isfinite(reward[active]).all()
    ):
        return np.inf
    v = np.where(problem.active_states, v, 0.0)
    worst = checking.largest_advantage(
        *mdp.csr, reward.ravel(), size.ravel(), active.ravel(), mdp.discount, v, 2 * EPS
    ) / (1 - mdp.discount)
    mean, magnitude = checking.careful_dot(mdp.start, v)
    return float(mean + worst + 8 * EPS * (magnitude + abs(worst)))


def _cover_bound(problem: Problem, cover: Cover) -> float:
    scalars = [(weight, risk) for weight, risk in problem.terms if isinstance(risk, ScalarRisk)]
    convex = [(weight, risk) for weight, risk in problem.terms if not isinstance(risk, ScalarRisk)]
    if not all(risk.convex for _, risk in convex):
        return np.inf
    if not _covers([risk.interval() for _, risk in scalars], cover.boxes):
        return np.inf
    worst = -np.inf
    for box in cover.boxes:
        reward, offset, noise = problem.reward, 0.0, 0.0
        for (weight, risk), low, high, at in zip(scalars, box.lows, box.highs, box.at, strict=True):
            table, constant = risk.line(low, high, at)
            reward = reward - (1 - problem.mdp.discount) * weight * table
            offset += weight * constant
            noise += 64 * EPS * weight * (abs(constant) + float(np.abs(table).max()))
        bound = _convex_bound(problem, reward, convex, box.witness, noise) - offset
        # a box that proves nothing must not slip through the comparison
        worst = np.inf if np.isnan(bound) else max(worst, bound)
    return worst


def _covers(intervals: Sequence[tuple[float, float]], boxes: Sequence[Box]) -> bool:
    """Whether the boxes leave out nothing: every cell of the grid that all their edges make lies in some box."""
    edges = []
    for k, (low, high) in enumerate(intervals):
        every = np.array([low, high, *(edge for box in boxes for edge in (box.lows[k], box.highs[k]))])
        edges.append(np.unique(every[(low <= every) & (every <= high)]))
    covered = np.zeros([max(line.size - 1, 1) for line in edges], dtype=np.bool_)
    for box in boxes:
        cells = []
        for line, low, high in zip(edges, box.lows, box.highs, strict=True):
            # cell i lies between edge i and the next one; an interval that is a point is a cell too
            starts, ends = (line[:-1], line[1:]) if line.size > 1 else (line, line)
            cells.append((low <= starts) & (ends <= high))
        covered[np.ix_(*cells)] = True
    return bool(covered.all())


def requirements(problem: Problem) -> tuple[list[str], sp.csr_array, Array]:
    """Every barrier requirement of the problem, in the order of its terms: names, features (m, S*A), floors (m,)."""
    barriers = [risk for _, risk in problem.terms if isinstance(risk, LogBarrier)]
    names = [f"{risk.label}: {name}" for risk in barriers for name in risk.names]
    nothing = sp.csr_array((0, problem.active.size))
    features = sp.csr_array(sp.vstack([nothing, *(risk.features for risk in barriers)]))
    return names, features, np.concatenate([np.zeros(0), *(risk.floors for risk in barriers)])


def conflict_bound(problem: Problem, conflict: Conflict) -> float:
    """Upper bound of sum_j w_j (number_j - floor_j) over all policies; zero or less proves infeasibility."""
    mdp = problem.mdp
    _, features, floors = requirements(problem)
    weights = np.asarray(conflict.weights, dtype=np.float64)
    if weights.shape != floors.shape or np.any(weights < 0) or not weights.sum() > 0:
        return np.inf
    table = np.asarray(features.T @ weights).reshape(mdp.shape)
    v = np.asarray(conflict.multipliers, dtype=np.float64)
    reach = (1 - mdp.discount) * _plan_bound(
        problem, table, np.asarray(abs(features).T @ weights).reshape(mdp.shape), v
    )
    return reach - float(weights @ floors) + 8 * EPS * (float(weights @ np.abs(floors)) + abs(reach))
