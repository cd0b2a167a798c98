"""Where Newton's method on the entropic dual begins.

In terms of the soft residual  w(s) = log( mass of s in y ) - log t(s),  where t (S,) is a guess of the state
marginal, sweeps u <- u + w  are value iteration with a soft maximum for the reward  r - tau log t;  at their end y
has the marginal t, so no state is empty and Newton's steps are long. Where sweeps are slow (low temperature, discount
near one) planning gives nearly the same multipliers at once, and with them a policy; its own state marginal is then
the next guess.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.solvers.base import Target
from cautious.solvers.dual_newton.entropic_dual import Dual, DualIterate, SharedData

# soft sweeps; the range of the residual at which they end, and the largest from which Newton's method starts
MAX_SWEEPS, WANTED_RESIDUAL_RANGE, MAX_RESIDUAL_RANGE = 24, 1.0, 6.0
# solved cautions that are kept, and how many of them a polynomial of low order goes through
KEPT_SOLVES, LOW_ORDER_SOLVES = 5, 3
# plans, each for the marginal of the last; another one is made if it divided the divergence by ten
MAX_PLANS, MAX_DIVERGENCE_RATIO = 3, 0.1
# of the planned policy's value, in cautions; of a marginal, in the 1-norm
PLAN_TOLERANCE, MARGINAL_ACCURACY = 0.1, 1e-3
# a marginal is mixed with this share of the prior; logarithms of masses are taken for no less than this
PRIOR_SHARE, MIN_LOG_MASS = 1e-3, -1e6


@dataclass(frozen=True)
class SolvedCaution:
    """How a solve at some caution ended: multipliers and logarithmic mass of states (S,), prices (m,)."""

    caution: float
    multipliers: Array
    log_states: Array
    prices: Array


class SolvedCautions:
    """The last few solves of the same model and risk."""

    def __init__(self) -> None:
        self.past: list[SolvedCaution] = []
        self._shared_data: SharedData | None = None

    def shared_data(self, problem: Problem) -> SharedData:
        """That of the problem, made anew where the last one does not fit."""
        if self._shared_data is None or not self._shared_data.fits(problem):
            self._shared_data = SharedData(problem)
        return self._shared_data

    def add(self, dual: Dual, point: DualIterate) -> None:
        """Remember the end of a solve, instead of another one at the same caution."""
        log_states = np.where(dual.problem.active_states, point.log_states, 0.0)
        solved = SolvedCaution(dual.caution, dual.tau * point.u, log_states, dual.prices.unscaled())
        others = [one for one in self.past if one.caution != dual.caution]
        self.past = [*others, solved][-KEPT_SOLVES:]

    def extrapolated(self, caution: float, n_solves: int) -> SolvedCaution:
        """What the last ``n_solves`` suggest at another caution: the polynomial through them in its logarithm."""
        past = self.past[-n_solves:]
        at = np.log([one.caution for one in past])
        weights = [
            float(np.prod([(np.log(caution) - other) / (own - other) for other in at if other != own])) for own in at
        ]
        return SolvedCaution(
            caution,
            np.asarray(sum(w * one.multipliers for w, one in zip(weights, past, strict=True))),
            np.asarray(sum(w * one.log_states for w, one in zip(weights, past, strict=True))),
            np.exp(sum(w * np.log(one.prices) for w, one in zip(weights, past, strict=True))),
        )


@dataclass(frozen=True)
class StartingPoint:
    """A first point and a guess of the mass (S,) its states should have."""

    point: DualIterate
    states: Array


def starting_point(dual: Dual, solved: SolvedCautions, target: Target) -> StartingPoint:
    """From the last solves, a neighbour's multipliers, or nothing."""
    if solved.past and solved.past[-1].prices.size == dual.prices.omega.size:
        known = len(solved.past)
        # prices of worst cases have kinks
        few = known <= LOW_ORDER_SOLVES or bool(dual.prices.groups)
        counts = (1, min(known, LOW_ORDER_SOLVES)) if few else (LOW_ORDER_SOLVES, known)
        tries = [_suggested(dual, solved.extrapolated(dual.caution, number)) for number in counts]
        past, point, _ = min(tries, key=lambda suggested: suggested[2])
        dual.prices.warm_start(past.prices)
        point, residual_range = _swept(dual, point, past.log_states, MAX_RESIDUAL_RANGE)
        if residual_range <= MAX_RESIDUAL_RANGE:
            return StartingPoint(point, np.exp(past.log_states))
    used = dual.problem.active_states
    u = np.zeros(used.size) if target.start is None else np.where(used, target.start.multipliers, 0.0) / dual.tau
    point, residual_range = _swept(dual, dual.at(u - u.mean()), dual.log_prior)
    if residual_range > MAX_RESIDUAL_RANGE:
        return _priced(dual, _planned(dual, point, target), target)
    return _priced(dual, StartingPoint(point, _marginal(dual, point)), target)


def _suggested(dual: Dual, past: SolvedCaution) -> tuple[SolvedCaution, DualIterate, float]:
    """A suggestion from solved cautions, its point and the bound that it gives."""
    dual.prices.warm_start(past.prices)
    point = dual.at(past.multipliers / dual.tau)
    bound = dual.bound(point)
    return past, point, bound if np.isfinite(bound) else np.inf


def _swept(
    dual: Dual, point: DualIterate, wanted: Array, wanted_range: float = WANTED_RESIDUAL_RANGE
) -> tuple[DualIterate, float]:
    """Soft sweeps towards a marginal whose logarithm is ``wanted`` (S,), and the range of the residual they left."""
    used = dual.problem.active_states
    for _ in range(MAX_SWEEPS):
        residual = np.where(used, point.log_states - wanted, 0.0)
        if np.ptp(residual[used]) <= wanted_range:
            break
        point = dual.at(point.u + residual)
    return point, float(np.ptp((point.log_states - wanted)[used]))


def _marginal(dual: Dual, point: DualIterate) -> Array:
    """The state marginal of the point's policy, roughly."""
    problem = dual.problem
    policy = problem.completed(point.policy.reshape(problem.active.shape))
    states = policy_occupancy(problem.mdp, policy, MARGINAL_ACCURACY, point.states).occupancy.sum(axis=1)
    # with a little of the prior's mass: a state that one policy does not reach may still matter
    return np.asarray((1 - PRIOR_SHARE) * states + PRIOR_SHARE * np.exp(dual.log_prior))


def _planned(dual: Dual, point: DualIterate, target: Target) -> StartingPoint:
    """Planning for the reward that makes a marginal even, and again for the marginal of its policy where that pays.

    It pays at low temperatures, where the plan is nearly the answer. Elsewhere the policies of two such rounds
    differ, and the second would be too close to deterministic for a start.
    """
    problem = dual.problem
    base = (point.ell + np.repeat(point.u, problem.mdp.n_actions)).reshape(problem.active.shape)
    base = np.where(problem.active, base - dual.gamma * problem.mdp.expect_next(point.u), 0.0)
    wanted, warm, best, gap = dual.log_prior, None, None, np.inf
    for _ in range(MAX_PLANS):
        reward = dual.tau * (base - wanted[:, None])
        enough = PLAN_TOLERANCE * dual.caution
        warm = plan(problem.mdp, reward, tolerance=enough, allowed=problem.kept, warm=warm, over=target.over)
        u = np.where(problem.active_states, warm.values, 0.0) / dual.tau
        found = dual.at(u - u.mean())
        states = _marginal(dual, found)
        # the gap between phi and the value of a policy with the rows of y is the divergence of their marginals
        left = float(np.sum(states * (np.log(states) - np.maximum(found.log_states, MIN_LOG_MASS))))
        if best is not None and not left < MAX_DIVERGENCE_RATIO * gap:
            break
        best, gap, wanted = StartingPoint(found, states), left, np.log(states)
        if target.clock.over:
            break
    assert best is not None
    return best


def _priced(dual: Dual, start: StartingPoint, target: Target) -> StartingPoint:
    """First prices of features, from the numbers of the first policy."""
    if dual.prices.omega.size == 0:
        return start
    y = start.point.policy * np.repeat(start.states, start.point.policy.size // start.states.size)
    dual.prices.initialise(dual.prices.numbers(y))
    point, residual_range = _swept(dual, dual.at(start.point.u), np.log(start.states))
    return StartingPoint(point, start.states) if residual_range <= MAX_RESIDUAL_RANGE else _planned(dual, point, target)
