"""KL and entropy on pairs: Newton's method on the smooth dual.

With C the total caution, tau = C (1-gamma), mu the weighted geometric mean of the priors, and
adv(v) = r + gamma E[v] - v on the n active pairs,

    D(v) = <xi, v> + C log sum mu exp(adv(v) / tau)          is an upper bound for every v, and tight at its minimum;
    y(v) = mu exp(adv(v) / tau) / sum                        is the occupancy there; its rows are the policy.

    gradient  xi + B' y / (1-gamma),    B = gamma P - E  (n, S);    Newton matrix  B' diag(y) B / (tau (1-gamma)).

(D does not change along constants; leaving out the rank-one term of its Hessian fixes that direction and gives the
same step, because the gradient sums to zero.) A small tau is approached from larger ones, each a warm start.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.special import logsumexp

from cautious.arrays import Array
from cautious.certificate import Witness
from cautious.problem import Problem
from cautious.risks.separable import EntropicRisk
from cautious.solvers.base import Candidate, Solver, Target

COOLING = 4.0
NEWTON_STEPS = 60
DENSE_SHARE = 0.02
DENSE_STATES = 300
RIDGES = (1e-14, 1e-9, 1e-5, 1e-2)
SHORTEST = 1e-6


class Entropic(Solver):
    """See the module's text."""

    name = "dual Newton"
    margin = 0.25

    def refusal(self, problem: Problem) -> str | None:
        """Needs entropies of pairs only."""
        other = [r.label for _, r in problem.terms if not isinstance(r, EntropicRisk) or r.on_states]
        if other or not problem.terms:
            return f"cannot take {other[0]}" if other else "has no risk"
        tau = sum(weight for weight, _ in problem.terms) * (1 - problem.mdp.discount)
        spread = float(np.ptp(problem.reward[problem.active]))
        return "has a temperature beyond double precision" if tau < 1e-12 * max(spread, 1e-290) else None

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """One candidate per temperature, then one per Newton step at the last."""
        dual = Dual(problem)
        v = np.zeros(dual.states.size)
        warmest = max(dual.spread, dual.tau)
        stages = max(0, int(np.ceil(np.log(warmest / dual.tau) / np.log(COOLING))))
        if target.start is not None:
            v, stages = target.start.multipliers[dual.states], 0
        for stage in range(stages, -1, -1):
            tau = dual.tau * COOLING**stage
            if stage < stages:
                v = dual.cooled(v, COOLING * tau, tau)
            for step in range(NEWTON_STEPS):
                v, decrement = dual.newton_step(v, tau)
                if target.clock.over:
                    break
                if stage == 0 and step > 0:
                    yield dual.candidate(v)
                if decrement < (1e-2 if stage else 1e-14):
                    break
            yield dual.candidate(v)


class Dual:
    """The dual function of one problem over its active pairs and states."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        mdp, active = problem.mdp, problem.active
        self.gamma = mdp.discount
        self.pairs = np.flatnonzero(active)
        self.states = np.flatnonzero(problem.active_states)
        self.caution = sum(weight for weight, _ in problem.terms)
        self.tau = self.caution * (1 - self.gamma)
        self.xi = mdp.start[self.states]
        self.reward = problem.reward.ravel()[self.pairs]
        self.log_priors = [np.log(risk.prior.ravel()[self.pairs]) for _, risk in self._terms]
        shares = [weight / self.caution for weight, _ in self._terms]
        self.log_mu: Array = np.sum([share * log for share, log in zip(shares, self.log_priors, strict=True)], axis=0)

    @property
    def _terms(self) -> list[tuple[float, EntropicRisk]]:
        return [(weight, risk) for weight, risk in self.problem.terms if isinstance(risk, EntropicRisk)]

    @property
    def spread(self) -> float:
        """The range of rewards: a temperature at which one Newton step nearly solves the problem."""
        return float(self.reward.max() - self.reward.min())

    @cached_property
    def coupling(self) -> sp.csr_array:
        """B = gamma P - E, (n, S) on the active part."""
        mdp = self.problem.mdp
        own = np.searchsorted(self.states, self.pairs // mdp.n_actions)
        stay = sp.csr_array(
            (np.ones(self.pairs.size), (np.arange(self.pairs.size), own)), (self.pairs.size, self.states.size)
        )
        return sp.csr_array(self.gamma * mdp.transitions[self.pairs][:, self.states] - stay)

    def log_weights(self, v: Array, tau: float) -> tuple[Array, float]:
        """log y(v) and the log of its normaliser."""
        logits = self.log_mu + (self.reward + self.coupling @ v) / tau
        total = float(logsumexp(logits))
        return logits - total, total

    def value(self, v: Array, tau: float) -> float:
        """D(v) at a temperature."""
        return float(self.xi @ v) + tau / (1 - self.gamma) * self.log_weights(v, tau)[1]

    def newton_step(self, v: Array, tau: float) -> tuple[Array, float]:
        """The next v after a line search, and the decrease the step promised, relative to the temperature."""
        y = np.exp(self.log_weights(v, tau)[0])
        gradient = self.xi + (self.coupling.T @ y) / (1 - self.gamma)
        start = self.value(v, tau)
        for ridge in RIDGES:
            direction = -self._solve(y, gradient, ridge) * tau * (1 - self.gamma)
            promise = -float(gradient @ direction)
            if not np.isfinite(promise) or promise <= 0:
                continue
            length = 1.0
            while length > SHORTEST and self.value(v + length * direction, tau) > start - 1e-4 * length * promise:
                length /= 2
            if length > SHORTEST:
                return v + length * direction, promise / (tau / (1 - self.gamma))
        return v, 0.0

    def cooled(self, v: Array, warm: float, cold: float) -> Array:
        """v carried to a lower temperature along the path of minima, where that helps: their slope in tau."""
        y = np.exp(self.log_weights(v, warm)[0])
        pull = -(self.reward + self.coupling @ v) / warm / warm
        change = y * (pull - float(y @ pull))
        slope = -self._solve(y, self.coupling.T @ change, RIDGES[0]) * warm
        ahead = v + (cold - warm) * slope
        return ahead if self.value(ahead, cold) < self.value(v, cold) else v

    def _solve(self, y: Array, right: Array, ridge: float) -> Array:
        """(B' diag(y) B)^-1 right, scaled to a unit diagonal so that rarely visited states keep their digits.

        A ridge, as a share of the mean of y, keeps steps short where hardly any mass is.
        """
        weights = y + ridge / y.size
        matrix = sp.csr_array(self.coupling.T @ sp.csr_array(self.coupling * weights[:, None]))
        scale = 1 / np.sqrt(matrix.diagonal())
        scaled = sp.csr_array(matrix * scale[:, None] * scale[None, :])
        n = right.size
        if n <= DENSE_STATES or scaled.nnz > DENSE_SHARE * n * n:
            dense = scaled.toarray()
            try:
                solution = sla.cho_solve(sla.cho_factor(dense, check_finite=False), scale * right, check_finite=False)
            except np.linalg.LinAlgError:
                solution = np.linalg.lstsq(dense, scale * right)[0]
        else:
            factors = spla.splu(sp.csc_array(scaled), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
            solution = factors.solve(scale * right)
        return np.asarray(scale * solution)

    def candidate(self, v: Array) -> Candidate:
        """The policy and the witness of multipliers v, at the problem's own temperature."""
        problem = self.problem
        log_y, _ = self.log_weights(v, self.tau)
        logits = np.full(problem.active.size, -np.inf)
        logits[self.pairs] = log_y
        table = logits.reshape(problem.active.shape)
        here = problem.active_states
        rows = np.zeros(table.shape)
        rows[here] = np.exp(table[here] - table[here].max(axis=1, keepdims=True))
        rows[here] /= rows[here].sum(axis=1, keepdims=True)
        multipliers = np.zeros(problem.mdp.n_states)
        multipliers[self.states] = v
        cuts = tuple(log_y - log_prior for log_prior in self.log_priors)
        return Candidate(problem.completed(rows), Witness(multipliers, cuts))
