"""Wasserstein risk over a full matrix of distances, for models of moderate size: one dense interior point.

With d the pairs, F >= 0 (S, S) the plan, D the distances, q the prior, A the flow constraints, E the sums over actions,

    minimise  -<r, d> + w <D, F>     such that   A'd = (1-gamma) xi,   E'd = F 1,   F'1 = q,    d, F >= 0.

Multipliers (v, f, g) belong to the three groups. A Newton step eliminates d and F, which are diagonal, and then g,
which is diagonal too; one dense symmetric matrix in (v, f) remains, 2S by 2S, and the product F diag F' in it is the
cost of an iteration. The start is a policy's own occupancy with the product plan, which balances exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from cautious.arrays import Array
from cautious.kernels.mixing import room
from cautious.occupancy import policy_occupancy
from cautious.problem import Problem
from cautious.risks.matrix_transport import MatrixTransport
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.rounding import proposals, prove

MOST_STATES = 600
ITERATIONS = 60
FINEST = 1e-13
RIDGE = 1e-13
SHORTEST = 1e-8
NEARLY = 0.995


class DenseTransport(Solver):
    """See the module's text."""

    name = "dense transport"

    def refusal(self, problem: Problem) -> str | None:
        """Needs one Wasserstein risk with a matrix, and not too many states: time grows with their cube."""
        if len(problem.terms) != 1 or not isinstance(problem.terms[0][1], MatrixTransport):
            return "needs a Wasserstein risk with a matrix of distances, alone"
        return "has too many states" if problem.mdp.n_states > MOST_STATES else None

    def memory(self, problem: Problem) -> int:
        """Two matrices over twice the states, the flow as a table, and about twenty tables of the plan's size."""
        n = problem.mdp.n_states
        return super().memory(problem) + 8 * (2 * (2 * n) ** 2 + n * problem.active.size + 20 * n * n)

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """One answer: iterations are cheap enough to go straight to the end."""
        weight, risk = problem.terms[0]
        assert isinstance(risk, MatrixTransport)
        program = _Program(problem, weight, risk)
        point = program.solve(target)
        d = np.zeros(problem.mdp.shape)
        d[problem.active] = point.d
        whole = np.zeros(risk.distance.shape)
        whole[np.ix_(program.states, program.sinks)] = point.plan
        risk.memory.flow = whole
        potentials = np.zeros(problem.mdp.n_states)
        potentials[program.states] = -point.f / program.price
        witness, best = prove(problem, (potentials,), 1e-3 * target.allowance(problem.expected_return(d)))
        yield from proposals(problem, d, witness, best)


@dataclass(frozen=True)
class _Point:
    """Pairs (n,), plan, their slacks, and the multipliers of the three groups; also used for directions."""

    d: Array
    plan: Array
    slack_d: Array
    slack_f: Array
    v: Array
    f: Array
    g: Array

    @property
    def gap(self) -> float:
        """How far from complementary, in all."""
        return float(self.d @ self.slack_d + np.sum(self.plan * self.slack_f))

    def moved(self, step: "_Point", primal: float, dual: float) -> "_Point":
        """Along a direction."""
        return _Point(
            self.d + primal * step.d,
            self.plan + primal * step.plan,
            self.slack_d + dual * step.slack_d,
            self.slack_f + dual * step.slack_f,
            self.v + dual * step.v,
            self.f + dual * step.f,
            self.g + dual * step.g,
        )

    def room(self, step: "_Point") -> tuple[float, float]:
        """How far along a direction the primal and the dual part stay positive, at most 1."""
        primal = min(room(self.d, step.d), room(self.plan.ravel(), step.plan.ravel()))
        dual = min(room(self.slack_d, step.slack_d), room(self.slack_f.ravel(), step.slack_f.ravel()))
        return min(primal, 1.0), min(dual, 1.0)


class _Program:
    """The data of one program, in units in which a typical cost is one."""

    def __init__(self, problem: Problem, weight: float, risk: MatrixTransport) -> None:
        mdp, gamma = problem.mdp, problem.mdp.discount
        self.pairs = np.flatnonzero(problem.active)
        self.states = np.flatnonzero(problem.active_states)
        self.sinks = np.flatnonzero(risk.prior > 0)
        reward = problem.reward.ravel()[self.pairs]
        unit = max(float(np.ptp(reward)), (1 - gamma) * weight * float(risk.distance.max()), 1e-300)
        self.price = (1 - gamma) * weight / unit
        self.cost_d = -(reward - reward.mean()) / unit
        self.cost_f = self.price * risk.distance[np.ix_(self.states, self.sinks)]
        self.own = np.searchsorted(self.states, self.pairs // mdp.n_actions)
        # pairs come state by state
        self.starts = np.searchsorted(self.own, np.arange(self.states.size))
        # flow constraints (m, n), dense: the normal matrix is dense anyway
        self.flow = -gamma * mdp.transitions[self.pairs][:, self.states].toarray().T
        self.flow[self.own, np.arange(self.pairs.size)] += 1
        self.inflow = (1 - gamma) * mdp.start[self.states]
        self.demand = risk.prior[self.sinks] / risk.prior[self.sinks].sum()
        self.first = policy_occupancy(mdp, problem.default_rows).occupancy.ravel()[self.pairs]

    def start(self) -> _Point:
        """A policy's occupancy, kept off the boundary, and the product plan."""
        d = np.maximum(self.first, 1e-6 * self.first.max())
        m = self.states.size
        return _Point(
            d,
            self.sums(d)[:, None] * self.demand[None, :],
            np.maximum(self.cost_d, 0.1),
            np.maximum(self.cost_f, 0.1),
            np.zeros(m),
            np.zeros(m),
            np.zeros(self.sinks.size),
        )

    def solve(self, target: Target) -> _Point:
        """Mehrotra's predictor and corrector, until the gap is as small as rounding permits."""
        point = self.start()
        for _ in range(ITERATIONS):
            residuals = self.residuals(point)
            # the last steps are the fastest, and a precise plan spares computing the distance from scratch
            if point.gap < FINEST or target.clock.over:
                break
            try:
                step = _Newton(self, point)
            except np.linalg.LinAlgError:
                break
            guess = step.direction(residuals, -point.d * point.slack_d, -point.plan * point.slack_f)
            ahead = point.moved(guess, *point.room(guess))
            centre = point.gap / (point.d.size + point.plan.size) * min((ahead.gap / point.gap) ** 3, 1.0)
            final = step.direction(
                residuals,
                centre - point.d * point.slack_d - guess.d * guess.slack_d,
                centre - point.plan * point.slack_f - guess.plan * guess.slack_f,
            )
            primal, dual = point.room(final)
            if max(primal, dual) < SHORTEST or not np.isfinite(final.d).all():
                break
            point = point.moved(final, NEARLY * primal, NEARLY * dual)
        return point

    def residuals(self, point: _Point) -> tuple[Array, ...]:
        """What the three groups of constraints and the two groups of slacks still miss."""
        return (
            self.inflow - self.flow @ point.d,
            point.plan.sum(axis=1) - self.sums(point.d),
            self.demand - point.plan.sum(axis=0),
            self.cost_d - self.flow.T @ point.v - point.f[self.own] - point.slack_d,
            self.cost_f + point.f[:, None] - point.g[None, :] - point.slack_f,
        )

    def sums(self, d: Array) -> Array:
        """Pairs (n,) summed over actions; (m,)."""
        return np.asarray(np.add.reduceat(d, self.starts))


class _Newton:
    """One factored Newton matrix, for two right-hand sides; raises LinAlgError when rounding has made it useless."""

    def __init__(self, program: _Program, point: _Point) -> None:
        self.program, self.point = program, point
        self.weight_d, self.weight_f = point.d / point.slack_d, point.plan / point.slack_f
        m = program.states.size
        # one constraint follows from the others: g of the last sink stays where it is
        self.inverse = 1 / self.weight_f.sum(axis=0)
        self.inverse[-1] = 0.0
        matrix = np.empty((2 * m, 2 * m))
        weighted = program.flow * self.weight_d
        matrix[:m, :m] = weighted @ program.flow.T
        matrix[:m, m:] = np.add.reduceat(weighted, program.starts, axis=1)
        matrix[m:, :m] = matrix[:m, m:].T
        matrix[m:, m:] = -(self.weight_f * self.inverse) @ self.weight_f.T
        index = np.arange(m, 2 * m)
        matrix[index, index] += self.weight_f.sum(axis=1) + program.sums(self.weight_d)
        self.scale = 1 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
        matrix *= self.scale[:, None] * self.scale[None, :]
        if not np.isfinite(matrix).all():
            raise np.linalg.LinAlgError("the weights have overflowed")
        self.matrix = matrix
        self.factors = sla.cho_factor(matrix + RIDGE * np.eye(2 * m), overwrite_a=True, check_finite=False)

    def direction(self, residuals: tuple[Array, ...], target_d: Array, target_f: Array) -> _Point:
        """The change that meets the residuals and moves the products of entries and slacks by the targets."""
        program, point = self.program, self.point
        left_v, left_f, left_g, dual_d, dual_f = residuals
        m = left_v.size
        push_d = self.weight_d * dual_d - target_d / point.slack_d
        push_f = self.weight_f * dual_f - target_f / point.slack_f
        right_v = left_v + program.flow @ push_d
        right_g = left_g + push_f.sum(axis=0)
        right_f = left_f + program.sums(push_d) - push_f.sum(axis=1) + self.weight_f @ (self.inverse * right_g)
        right = self.scale * np.concatenate([right_v, right_f])
        both = sla.cho_solve(self.factors, right, check_finite=False)
        both += sla.cho_solve(self.factors, right - self.matrix @ both, check_finite=False)
        both *= self.scale
        dv, df = both[:m], both[m:]
        dg = self.inverse * (right_g + self.weight_f.T @ df)
        slack_d = dual_d - program.flow.T @ dv - df[program.own]
        slack_f = dual_f + df[:, None] - dg[None, :]
        d = (target_d - point.d * slack_d) / point.slack_d
        plan = (target_f - point.plan * slack_f) / point.slack_f
        return _Point(d, plan, slack_d, slack_f, dv, df, dg)
