"""The dual of an entropic problem in units of its temperature.

With C the caution of all entropies together, tau = C (1-gamma), mu the weighted geometric mean of their priors,
u = multipliers / tau and B = gamma P - E,

    phi(u) = (1-gamma) <xi, u> + log sum exp(ell),    ell = log mu + r / tau + B u,      C phi(u) >= any objective;
    y = exp(ell) / sum                                is the occupancy where phi is least, and its rows the policy.

    gradient  (1-gamma) xi + B' y,      Newton matrix  B' diag(y) B.

(phi does not change along constants; leaving out the rank-one term of its Hessian fixes that direction and gives the
same step, because the gradient sums to zero. For long-run averages gamma is 1, tau is C, and nothing flows in: B is
zero along constants, and conjugate gradients stay in the space in which their right-hand side lies.) Prices of features
(``Prices``) are further variables.

Two changes make Newton's steps long. The policy moves in the exponents, where a state that lacks mass by a factor f
asks for log f and not for f - 1: so y enters the matrix with the *logarithmic mean* of the mass a state has and the
mass it should have, which the last step knows (the occupancy y + dy of the linear model balances exactly). And the
line is searched.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as sla

from cautious._core import entropic as kernels
from cautious._core.flow import flow_columns, flow_rows
from cautious._core.proximal import newton_diagonal
from cautious.arrays import Array
from cautious.problem import Problem
from cautious.runtime.clock import Clock
from cautious.solvers.dual_newton.feature_prices import Prices, ScaledFeatures

# conjugate gradients: how many steps count as the last ones, steps of a solve, and entries of transitions between two
# looks at the clock
CG_WINDOW, MAX_CG_STEPS, CLOCK_CHECK_ENTRIES = 8, 4000, 2 * 10**7
# diagonal entries of the Newton matrix below this are taken for zero
SMALLEST_PIVOT = 1e-290
# shares of the squared Newton decrement that the last steps of a linear solve may add; a solve goes on only towards at
# most this multiple of its share; of the allowed gap, what a solve need not go below; and the error of a linear solve
# in units of what its last steps added
MAX_CG_SHARE, MIN_CG_SHARE, MIN_CG_REFINEMENT, CG_GAP_SHARE, CG_ERROR_FACTOR = 0.02, 1e-5, 0.5, 0.1, 3.0
# line search: points, and the slope that counts as flat, as a share of the squared decrement
MAX_LINE_SEARCH_POINTS, MAX_SLOPE_SHARE = 25, 0.3
# the mass that a state should have is at least these shares of what it has and of what the prior gives it
MIN_MASS_RATIO, MIN_PRIOR_SHARE = 0.05, 1e-9


@dataclass(frozen=True)
class DualIterate:
    """Multipliers ``u`` (S,), their exponents and policy (S*A,), log mass and mass of each state (S,), and phi."""

    u: Array
    ell: Array
    policy: Array
    log_states: Array
    states: Array
    value: float


@dataclass(frozen=True)
class DualStep:
    """A change of multipliers (S,), prices (m,) and exponents (S*A,), and the mass (S,) it aims at.

    ``decrement`` is the squared Newton decrement, twice what the step is expected to gain; the last steps of its linear
    solve added the ``share`` of it.
    """

    u: Array
    omega: Array
    ell: Array
    states: Array
    decrement: float
    share: float


class SharedData:
    """Data independent of caution and reward: log mu (S*A,), minus infinity where a pair is not active, and features.

    ``log_prior`` (S,) is the log of the mass that mu gives to each state, as if mu summed to one; 0 where nothing is
    active.
    """

    def __init__(self, problem: Problem) -> None:
        self.active, self.weights = problem.active, _weights(problem)
        self.risks = tuple(risk for _, risk in problem.terms)
        log_mu = np.zeros(problem.active.shape)
        for term in problem.parts.entropies:
            log_mu += self.weights[term.number] * term.risk.log_prior
        log_mu[~problem.active] = -np.inf
        self.log_mu = log_mu.ravel()
        log_states = np.empty(problem.mdp.n_states)
        kernels.by_state(self.log_mu, log_states, np.empty(log_mu.size))
        self.log_prior = np.where(problem.active_states, log_states - _log_sum(log_states), 0.0)
        self.features = ScaledFeatures(problem)

    def fits(self, problem: Problem) -> bool:
        """Whether it is that of another problem too."""
        same = len(self.risks) == len(problem.terms) and problem.active is self.active
        same = same and all(risk is other for risk, (_, other) in zip(self.risks, problem.terms, strict=True))
        return same and bool(np.allclose(_weights(problem), self.weights, rtol=1e-15, atol=0.0))


def _weights(problem: Problem) -> Array:
    """The weight of every entropy in units of all entropies; 0 for other terms."""
    weights = np.zeros(len(problem.terms))
    for term in problem.parts.entropies:
        weights[term.number] = term.weight
    return np.asarray(weights / weights.sum())


class Dual:
    """phi and its Newton steps for one problem; ``shared_data`` is its own."""

    def __init__(self, problem: Problem, shared_data: SharedData) -> None:
        self.problem, self.gamma = problem, problem.mdp.discount
        self.n_actions = problem.mdp.n_actions
        n_pairs = problem.active.size
        self.flow = (np.arange(0, n_pairs + 1, self.n_actions), *problem.mdp.csr, self.gamma)
        # nothing flows in from the start where nothing is discounted
        self.xi = (1 - self.gamma) * problem.mdp.start
        self.caution = sum(term.weight for term in problem.parts.entropies)
        self.tau = self.caution * problem.mdp.normaliser
        self.prices = Prices(problem, self.caution, shared_data.features)
        reward = problem.reward[problem.active]
        least, most = float(reward.min()), float(reward.max())
        # a constant reward changes nothing, and costs digits
        self.middle, self.reward_range = 0.5 * (most + least), most - least
        self.log_mu, self.log_prior = shared_data.log_mu, shared_data.log_prior
        self.passes = 0

    @cached_property
    def base(self) -> Array:
        """log mu + r / tau, (S*A,)."""
        return np.asarray(self.log_mu + (self.problem.reward.ravel() - self.middle) / self.tau)

    def at(self, u: Array) -> DualIterate:
        """Everything about u and the present prices."""
        base = self.base
        if self.prices.omega.size:
            base = base + self.prices.exponents(self.prices.omega)
        ell, policy, log_states = np.empty(base.size), np.empty(base.size), np.empty(u.size)
        flow_rows(*self.flow, u, ell)
        ell += base
        kernels.by_state(ell, log_states, policy)
        self.passes += 1
        total = _log_sum(log_states)
        states = log_states - total
        kernels.exponentials(states)
        return DualIterate(u, ell - total, policy, log_states - total, states, float(self.xi @ u) + total)

    def bound(self, point: DualIterate) -> float:
        """What no policy exceeds, by these multipliers and the present prices."""
        prices, bar = self.prices, self.prices.barrier
        kept = prices.target[bar]
        own = -float(prices.floor[bar] @ prices.omega[bar])
        # the line below a logarithm: -log x >= 1 + log w - w x
        own -= float(np.sum(kept * (1 + np.log(prices.omega[bar] / (kept * prices.size[bar])))))
        return self.middle / self.problem.mdp.normaliser + self.caution * (point.value + own)

    def lost(self, point: DualIterate) -> float:
        """What the point loses by prices of rows that are not the worst of their worst case."""
        if not self.prices.groups:
            return 0.0
        return self.prices.lost(self.prices.numbers(point.policy * np.repeat(point.states, self.n_actions)))

    def step(self, point: DualIterate, wanted: Array, share: float, enough: float, clock: Clock) -> DualStep:
        """The step from a point whose states should have about the mass ``wanted`` (S,); see the module's text.

        Conjugate gradients stop when their last steps add no more than ``share`` of the squared decrement. Where that
        is small they go on at once, to ``enough`` or to what Newton's method leaves anyway: a share as small as the
        decrement.
        """
        n, prices = point.u.size, self.prices
        y = point.policy * np.repeat(point.states, self.n_actions)
        weights = np.empty(y.size)
        # made positive: not far below what a state has, nor below all that matters
        wanted = np.maximum(np.maximum(wanted, MIN_MASS_RATIO * point.states), MIN_PRIOR_SHARE * np.exp(self.log_prior))
        kernels.spread_weights(point.policy, point.log_states, wanted, weights)
        right = np.empty(n + prices.basis.shape[1])
        flow_columns(*self.flow, y, right[:n])
        right[:n] = -(self.xi + right[:n])
        right[n:] = -(prices.basis.T @ prices.slopes(prices.numbers(y)))
        solution, share = self._solve(weights, right, share, enough, clock)
        omega, ell = prices.basis @ solution[n:], np.empty(y.size)
        flow_rows(*self.flow, solution[:n], ell)
        if omega.size:
            ell += prices.exponents(omega)
        self.passes += 2
        y += weights * ell
        return DualStep(solution[:n], omega, ell, y.reshape(n, -1).sum(axis=1), float(right @ solution), share)

    def _solve(self, weights: Array, right: Array, share: float, enough: float, clock: Clock) -> tuple[Array, float]:
        """Newton matrix \\ right by conjugate gradients, and what share their last steps added.

        The preconditioner is the diagonal and the prices' block.
        """
        n = self.xi.size
        border, block = self._border(weights, n)
        inverse = np.empty(n)
        newton_diagonal(*self.flow, weights, np.zeros(n), inverse, np.empty(n))
        inverse = np.divide(1.0, inverse, out=np.zeros(n), where=inverse > SMALLEST_PIVOT)
        if not np.isfinite(block).all():
            raise np.linalg.LinAlgError("the prices' block of Newton's matrix is not finite")
        corner = np.ascontiguousarray(sla.pinvh(block)) if block.size else block
        x, residual, direction, gains = (
            np.zeros(right.size),
            right.copy(),
            np.empty(right.size),
            np.zeros(CG_WINDOW + 1),
        )
        kernels.precondition(inverse, corner, residual, direction)
        matrix = (*self.flow, weights, border, block, inverse, corner)
        chunk = CG_WINDOW * max(1, CLOCK_CHECK_ENTRIES // (CG_WINDOW * self.problem.mdp.transitions.nnz))
        for _ in range(0, MAX_CG_STEPS, chunk):
            made = kernels.conjugate_gradients(*matrix, x, residual, direction, gains, share, chunk)
            self.passes += abs(made)
            if made < 0 or clock.over:
                break
            decrement = max(float(gains[CG_WINDOW]), SMALLEST_PIVOT)
            finer = max(decrement, enough / decrement)
            if made < chunk and not finer < MIN_CG_REFINEMENT * share:
                break
            # the oldest gain first, where the next one goes
            share, gains[:CG_WINDOW] = min(share, finer), np.roll(gains[:CG_WINDOW], -made)
        return x, share

    def _border(self, weights: Array, n: int) -> tuple[Array, Array]:
        """The columns and the block of the prices in the Newton matrix."""
        prices = self.prices
        k = prices.basis.shape[1]
        border, column = np.empty((n, k)), np.empty(n)
        block = prices.basis.T @ ((prices.slack / prices.omega)[:, None] * prices.basis)
        for j in range(k):
            weighted = weights * prices.exponents(prices.basis[:, j])
            flow_columns(*self.flow, weighted, column)
            border[:, j] = column
            block[:, j] += prices.basis.T @ prices.numbers(weighted)
        return border, np.ascontiguousarray(block)

    def search(self, point: DualIterate, step: DualStep) -> float:
        """How far to go: to where phi is nearly flat along the step."""
        linear, longest = float(self.xi @ step.u), self.prices.max_step_length(step.omega)
        length, low, high = min(1.0, longest), 0.0, longest
        for _ in range(MAX_LINE_SEARCH_POINTS):
            _, slope, curve = kernels.along(point.ell, step.ell, length)
            own = self.prices.line_derivatives(step.omega, length)
            slope, curve = linear + slope + own[0], curve + own[1]
            if abs(slope) <= MAX_SLOPE_SHARE * step.decrement or (length == longest and slope <= 0):
                return length
            low, high = (low, length) if slope > 0 else (length, high)
            ahead = length - slope / curve if curve > 0 else np.inf
            if not low < ahead < high:
                ahead = 0.5 * (low + high) if high < 1e300 else 4 * length
            length = min(ahead, 4 * length, longest)
        return low


def _log_sum(exponents: Array) -> float:
    top = float(exponents.max())
    weights = exponents - top
    kernels.exponentials(weights)
    return top + float(np.log(weights.sum()))
