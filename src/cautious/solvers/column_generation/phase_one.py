"""Phase I: mix behaviours until every floor of the barriers is cleared, or prove that none can clear them all.

    maximise the smallest scaled slack:  a worst case of the losses (floor - number) / scale.

Weights w >= 0 of the floors, found as the prices of that worst case, bound it:  best slack <= V(w) - <w, floors>, where
V(w) is what a planner earns from the weighted features. Zero or less is a proof of conflict.
"""

from collections.abc import Iterator

import numpy as np

from cautious.arrays import Array, Mask
from cautious.certificate.bounds import Conflict, requirements
from cautious.checks import state_sums_of
from cautious.occupancy import occupancy_policy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.column_generation.column_pool import ColumnPool
from cautious.solvers.column_generation.restricted_master import MIN_RELATIVE_WEIGHT, RestrictedMaster
from cautious.solvers.feature_rows import Rows

MAX_PLANNING_CALLS = 500
STALL_CALLS = 10
SUFFICIENT_SLACK = 1e-3
ERROR_SHARE = 0.1
MAX_CONFLICT_GAP = 1e-7
MIN_FLOOR_WEIGHT = 1e-12


class PhaseOne(Solver):
    """Barriers beside other risks: is there a policy that meets every floor? If not, prove it."""

    name = "phase I"
    every_horizon = True
    every_model = True

    accepts = frozenset(Structure) - {Structure.RETURN, Structure.RETURN_LIMIT}

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """The policies closest to meeting all floors, with the conflict when there is one."""
        _, features, floors = requirements(problem)
        pool = ColumnPool(problem, features)
        pool.price_out(problem.reward, np.zeros(floors.size), 0.0, 0.0)
        yield from meet_floors(pool, np.ones(floors.size, dtype=np.bool_), floors, target, offered=True)


def meet_floors(
    pool: ColumnPool, bar: Mask, floors: Array, target: Target, offered: bool = False
) -> Iterator[Candidate]:
    """Add columns until a mixture is clear of all floors, or offer the closest one with a proof that none is.

    ``bar`` (m,) says which rows are barriers. A mixture that is clear of them is ``offered`` only if asked for.
    """
    problem, m = pool.problem, int(bar.sum())
    scale = np.concatenate([risk.scales for risk in problem.parts.requirements])
    rows = Rows(np.zeros(m), np.zeros(m), np.zeros(m, dtype=np.int64), np.ones(1))
    nothing, every = np.zeros(problem.mdp.shape), np.zeros(bar.size)
    reach, gaps, conflict = np.inf, [np.inf], None
    endless: Mask | None = None
    while True:
        losses = (floors[bar, None] - pool.numbers[bar]) / scale[:, None]
        mixture = RestrictedMaster(np.zeros(pool.returns.size), losses, rows).best()
        if mixture is None:
            return
        carried = np.where(mixture.weights > MIN_RELATIVE_WEIGHT, mixture.weights, 0.0)
        worst = float((losses @ mixture.weights).max())
        gap = reach + worst
        # clear of the floors by a good part of what is possible is enough for the barrier to start from
        settled = worst < 0 and -worst > min(SUFFICIENT_SLACK, ERROR_SHARE * reach)
        stuck = len(gaps) > STALL_CALLS and not gap < 0.5 * gaps[-STALL_CALLS]
        ended = (
            settled
            or (reach <= 0 and gap <= MAX_CONFLICT_GAP)
            or stuck
            or target.clock.over
            or len(gaps) > MAX_PLANNING_CALLS
        )
        if ended and pool.sharpen(carried, ERROR_SHARE * abs(worst)):
            continue
        if ended and settled and not offered:
            pool.cleared = True
            return
        if ended:
            yield _closest(pool, carried, ERROR_SHARE * abs(worst), conflict)
            return
        weights = rows.normalised(mixture.prices)
        # prices below rounding would only weaken the proof
        weights = np.where(weights < MIN_FLOOR_WEIGHT, 0.0, weights) / scale
        every[bar] = weights
        rough = ERROR_SHARE * min(gap, ERROR_SHARE)
        found = pool.price_out(nothing, every, rough, rough)
        if found.upper == np.inf:
            endless = _endless(pool, bar, scale) if endless is None else endless
            if endless.any() and not endless.all():
                # such rows have no price in a conflict of the others; no column closes their gap, so that one plan of
                # the others must do
                weights = np.where(endless, 0.0, rows.normalised(np.where(endless, 0.0, weights * scale)) / scale)
                every[bar] = weights
                found = pool.price_out(nothing, every, ERROR_SHARE * MAX_CONFLICT_GAP, rough)
        bound = found.upper - float(weights @ floors[bar])
        if bound < reach:
            reach, conflict = bound, Conflict(weights, pool.horizon * found.values)
        gaps.append(gap)


def _endless(pool: ColumnPool, bar: Mask, scale: Array) -> Mask:
    """Which of the rows ``bar`` have no largest value, because going on for ever improves them."""
    problem, tables = pool.problem, pool.features[np.flatnonzero(bar)].toarray() / scale[:, None]
    shape, kept = problem.mdp.shape, problem.kept
    uppers = [plan(problem.mdp, table.reshape(shape), tolerance=1.0, allowed=kept).upper for table in tables]
    return np.isinf(uppers)


def _closest(pool: ColumnPool, weights: Array, accuracy: float, conflict: Conflict | None) -> Candidate:
    d = pool.mixture(weights, accuracy)
    policy = occupancy_policy(d, pool.default_policy())
    return Candidate(policy, conflict=conflict, states=state_sums_of(d))
