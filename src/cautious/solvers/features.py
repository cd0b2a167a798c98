"""Risks of a few numbers (barriers, worst cases, sums of them): column generation.

Each planning call, for the reward corrected by the present prices of the features, adds one deterministic behaviour;
the small problem ``mix`` finds the best mixture of all behaviours so far and the next prices. While the gap is large,
prices of worst cases are drawn towards the ones with the best bound so far, which saves calls; near the end, and for
barriers, whose first prices are far too high, that would only slow down.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Mask
from cautious.certificate import Conflict, Witness, requirements
from cautious.occupancy import occupancy_policy
from cautious.planning import Plan
from cautious.problem import Problem
from cautious.risks.features import FeatureRisk, LogBarrier, WorstOf
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.columns import Columns
from cautious.solvers.mixing import Rows, mix

CALLS = 500
PULL = 0.5
FAR = 1e-3


class Features(Solver):
    """See the module's text."""

    name = "column generation"
    margin = 0.25

    def refusal(self, problem: Problem) -> str | None:
        """Needs features only."""
        other = [risk.label for _, risk in problem.terms if not isinstance(risk, LogBarrier | WorstOf)]
        if not problem.terms:
            return "has no risk"
        return f"cannot take {other[0]}" if other else None

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """One candidate per planning call."""
        features, rows = feature_rows(problem)
        pool = Columns(problem, features)
        sign = np.where(rows.barrier, 1.0, -1.0)
        pool.price_out(problem.reward, np.zeros(sign.size), 0.0)
        if rows.barrier.any():
            yield from _meet_floors(problem, pool, rows.barrier, rows.floor, target)
            if pool.numbers.size == 0 or mix(pool.returns, pool.numbers, rows) is None:
                return
        centre, best_bound, fresh = np.zeros(sign.size), np.inf, False
        for _ in range(CALLS):
            mixture = mix(pool.returns, pool.numbers, rows)
            if mixture is None:
                return
            pulling = fresh and best_bound - mixture.value > FAR * max(1.0, abs(mixture.value))
            drawn = PULL * centre + (1 - PULL) * mixture.prices if pulling else mixture.prices
            prices = _normalised(np.where(rows.barrier, mixture.prices, drawn), rows)
            d = pool.mixture(mixture.weights)
            allowance = target.allowance(mixture.value if np.isfinite(mixture.value) else 0.0)
            found, fresh = pool.price_out(problem.reward, sign * prices, 1e-2 * allowance)
            yield Candidate(_policy(problem, d, found), Witness(found.values, _cuts(problem, prices)))
            bound = found.upper - _intercepts(prices, rows)
            if bound < best_bound:
                centre, best_bound = prices, bound
            if not fresh and not pulling:
                return
            pool.forget(mixture.weights)


def feature_rows(problem: Problem) -> tuple[sp.csr_array, Rows]:
    """All features of the problem's terms, with their kind."""
    blocks: list[sp.csr_array] = []
    caution: list[float] = []
    floor: list[float] = []
    group: list[int] = []
    group_caution: list[float] = []
    for weight, risk in problem.terms:
        if isinstance(risk, LogBarrier):
            caution += [weight] * risk.floors.size
            floor += risk.floors.tolist()
            group += [-1] * risk.floors.size
            blocks.append(risk.features)
        elif isinstance(risk, WorstOf):
            m = len(risk.names)
            caution, floor = caution + [0.0] * m, floor + [0.0] * m
            group += [len(group_caution)] * m
            group_caution.append(weight)
            blocks.append(risk.features)
    rows = Rows(np.array(caution), np.array(floor), np.array(group, dtype=np.int64), np.array(group_caution))
    return sp.csr_array(sp.vstack(blocks)), rows


def _normalised(prices: Array, rows: Rows) -> Array:
    """Prices of a worst case sum to its caution; those of a barrier are positive."""
    out = np.maximum(prices, 1e-300)
    for g, caution in enumerate(rows.group_caution):
        here = rows.group == g
        out[here] *= caution / out[here].sum()
    return out


def _intercepts(prices: Array, rows: Rows) -> float:
    """What the lines of the barriers add, in units of the objective."""
    bar = rows.barrier
    c, b, u = rows.caution[bar], rows.floor[bar], prices[bar]
    return float(np.sum(c * (1 + np.log(u / c)) + u * b))


def _cuts(problem: Problem, prices: Array) -> tuple[Array, ...]:
    """Prices, term by term, in the form each risk's ``cut`` takes."""
    cuts, place = [], 0
    for weight, risk in problem.terms:
        size = len(cast(FeatureRisk, risk).names)
        cuts.append(prices[place : place + size] / weight)
        place += size
    return tuple(cuts)


def _policy(problem: Problem, d: Array, found: Plan) -> Array:
    return occupancy_policy(d, problem.completed(found.policy(problem.mdp.n_actions)))


class PhaseOne(Solver):
    """Barriers beside other risks: is there a policy that meets every floor? If not, prove it."""

    name = "phase I"

    def refusal(self, problem: Problem) -> str | None:
        """Needs requirements."""
        return None if requirements(problem)[0] else "has no requirement"

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """The policies closest to meeting all floors, with the conflict when there is one."""
        _, features, floors = requirements(problem)
        pool = Columns(problem, features)
        pool.price_out(problem.reward, np.zeros(floors.size), 0.0)
        yield from _meet_floors(problem, pool, np.ones(floors.size, dtype=np.bool_), floors, target)


def _meet_floors(problem: Problem, pool: Columns, bar: Mask, floors: Array, target: Target) -> Iterator[Candidate]:
    """Add columns until a mixture is clear of all floors; on the way, offer every proof that none can be.

    maximise the smallest scaled slack: a worst case of the losses (floor - number) / scale.
    """
    m = int(bar.sum())
    scale = np.concatenate([risk.scales() for _, risk in problem.terms if isinstance(risk, LogBarrier)])
    rows = Rows(np.zeros(m), np.zeros(m), np.zeros(m, dtype=np.int64), np.ones(1))
    nothing = np.zeros(problem.mdp.shape)
    for _ in range(CALLS):
        losses = (floors[bar, None] - pool.numbers[bar]) / scale[:, None]
        mixture = mix(np.zeros(pool.returns.size), losses, rows)
        if mixture is None:
            return
        worst = float((losses @ mixture.weights).max())
        weights = _normalised(mixture.prices, rows)
        # prices below rounding would only blur the proof
        weights = np.where(weights < 1e-12, 0.0, weights) / scale
        prices = np.zeros(bar.size)
        prices[bar] = weights
        found, fresh = pool.price_out(nothing, prices, 0.0)
        reach = found.upper - float(weights @ floors[bar])
        # clear of the floors by a good part of what is possible: enough for the barrier to start from
        settled = worst < 0 and -worst > 0.1 * reach
        needed = settled or reach <= 0 or not fresh
        if needed or worst < 0:
            losses = (floors[bar, None] - pool.numbers[bar]) / scale[:, None]
            final = mix(np.zeros(pool.returns.size), losses, rows) if fresh else mixture
            d = pool.mixture((final or mixture).weights)
            yield Candidate(_policy(problem, d, found), conflict=Conflict(weights, pool.horizon * found.values))
        if needed or target.clock.over:
            return
