"""Wasserstein risk over a full matrix of distances, for models of moderate size: one dense interior point.

With d the pairs, F >= 0 (S, S) the plan, D the distances, q the prior, A the flow constraints, E the sums over actions,

    minimise  -<r, d> + w <D, F>     such that   A'd = (1-gamma) xi,   E'd = F 1,   F'1 = q,    d, F >= 0.

Multipliers (v, f, g) belong to the three groups. A Newton step eliminates d and F, which are diagonal, and then g,
which is diagonal too; one dense symmetric matrix in (v, f) remains, 2S by 2S, and the product F diag F' in it and its
factors are the cost of an iteration. The start is a policy's own occupancy with the product plan, which balances.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from cautious._core import dense_transport as kernels
from cautious.arrays import Array
from cautious.occupancy import policy_occupancy
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.risks.matrix_transport import MatrixTransport
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.candidates import proposals, prove
from cautious.solvers.shape import Shape

USUAL_ITERATIONS, WORK_PER_CUBE = 25, 0.5
MAX_ITERATIONS = 60
# the smallest gap worth asking for, in the program's units, and the share of the allowed one that is aimed at
MIN_GAP, GAP_SHARE = 1e-13, 1e-2
# of the starting point, in the program's units
MIN_SLACK = 0.1
# one part in this much is added to the diagonal, so that rounding does not stop the factorisation
RELATIVE_RIDGE = 1e-13
# share of entries of the constraints from which on their normal matrix is a dense product
MIN_DENSE_SHARE = 0.25
# the shortest step that is progress; and of the way to where a variable is zero, how much is gone
MIN_STEP_LENGTH, BOUNDARY_FRACTION = 1e-8, 0.995


class DenseTransport(Solver):
    """See the module's text."""

    name = "dense transport"

    accepts = frozenset({Structure.TRANSPORT})

    def further_refusal(self, problem: Problem) -> str | None:
        """Needs one Wasserstein risk with a matrix of distances."""
        if len(problem.terms) != 1 or problem.parts.transports[0].risk.on_graph:
            return "needs a Wasserstein risk with a matrix of distances, alone"
        return None

    def work(self, problem: Problem, shape: Shape) -> float:
        """A dense product of plans and a dense factor in every iteration."""
        return USUAL_ITERATIONS * WORK_PER_CUBE * float(problem.mdp.n_states) ** 3

    def memory(self, problem: Problem) -> int:
        """Two matrices over twice the states, and about ten tables of the plan's size."""
        n = problem.mdp.n_states
        return super().memory(problem) + 8 * (2 * (2 * n) ** 2 + 10 * n * n)

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """One candidate, at the end: iterations are cheap."""
        weight, risk = problem.terms[0]
        risk = cast(MatrixTransport, risk)
        program = _Program(problem, weight, risk)
        program.solve(target, GAP_SHARE * target.allowance(0.0))
        d = np.zeros(problem.mdp.shape)
        d[problem.active] = program.pairs.amount[0]
        potentials = np.zeros(problem.mdp.n_states)
        potentials[program.states] = -program.both[program.size :] / program.price
        witness, best = prove(problem, (potentials,), GAP_SHARE * target.allowance(problem.expected_return(d)))
        yield from proposals(problem, d, witness, best)


class _Block:
    """Amounts >= 0 of a table (m, n) with their slacks; (n,) pairs are a table with one row.

    slack = cost + f - g at a solution, f (m,) and g (n,) given.
    """

    def __init__(self, cost: Array, amount: Array) -> None:
        self.cost, self.amount, self.slack = cost, amount, np.maximum(cost, MIN_SLACK)
        self.change, self.slack_change = np.zeros_like(amount), np.zeros_like(amount)
        self.weight = np.empty_like(amount)

    @property
    def gap(self) -> float:
        """The sum of all products of amounts and slacks, which is zero at a solution."""
        return float(np.vdot(self.amount, self.slack))

    def weigh(self) -> tuple[Array, Array]:
        """Set the weights of the Newton matrix; their sums over rows and columns."""
        rows, columns = np.empty(self.amount.shape[0]), np.empty(self.amount.shape[1])
        kernels.weights(self.amount, self.slack, self.weight, rows, columns)
        return rows, columns

    def excess(self, f: Array, g: Array, centre: float) -> tuple[Array, Array]:
        """What the rows and columns would have too much of if f and g did not change."""
        rows, columns = np.empty_like(f), np.empty_like(g)
        kernels.excess(self.cost, f, g, self.amount, self.slack, self.change, self.slack_change, centre, rows, columns)
        return rows, columns

    def respond(self, f: Array, g: Array, centre: float, df: Array, dg: Array) -> tuple[float, float]:
        """Set the changes that go with those of f and g; how far amounts and slacks can follow, at most 1."""
        return kernels.changes(self.cost, f, g, self.amount, self.slack, self.change, self.slack_change, centre, df, dg)

    def ahead(self, primal: float, dual: float) -> float:
        """The gap after steps of these lengths."""
        return float(np.vdot(self.amount + primal * self.change, self.slack + dual * self.slack_change))

    def advance(self, primal: float, dual: float) -> None:
        """Take steps of these lengths; the next changes start from nothing."""
        for values, change, length in ((self.amount, self.change, primal), (self.slack, self.slack_change, dual)):
            values += length * change
            change[:] = 0.0


class _Program:
    """One program, in units in which a typical cost is one, and the present point: ``both`` holds v and f."""

    def __init__(self, problem: Problem, weight: float, risk: MatrixTransport) -> None:
        mdp, gamma = problem.mdp, problem.mdp.discount
        pairs = np.flatnonzero(problem.active)
        self.states, sinks = np.flatnonzero(problem.active_states), np.flatnonzero(risk.prior > 0)
        self.size = m = self.states.size
        reward = problem.reward.ravel()[pairs]
        unit = max(float(np.ptp(reward)), (1 - gamma) * weight * float(risk.distance.max()), 1e-300)
        self.price = (1 - gamma) * weight / unit
        self.horizon = unit / (1 - gamma)
        own = sp.csr_array(
            (np.ones(pairs.size), np.searchsorted(self.states, pairs // mdp.n_actions), np.arange(pairs.size + 1)),
            shape=(pairs.size, m),
        )
        # what multipliers (2m,) of the states say of each pair; transposed, what pairs put into the states' constraints
        self.constraints = sp.csr_array(sp.hstack([own - gamma * mdp.transitions[pairs][:, self.states], own]))
        full = self.constraints.nnz > MIN_DENSE_SHARE * pairs.size * 2 * m
        self.dense_constraints = np.ascontiguousarray(self.constraints.T.toarray()) if full else None
        self.inflow = (1 - gamma) * mdp.start[self.states]
        self.demand = risk.prior[sinks] / risk.prior[sinks].sum()
        first = policy_occupancy(mdp, problem.default_rows).occupancy.ravel()[pairs]
        d = np.maximum(first, 1e-6 * first.max())
        self.pairs = _Block(-(reward - reward.mean())[None, :] / unit, d[None, :])
        self.plan = _Block(self.price * risk.distance[np.ix_(self.states, sinks)], np.outer(own.T @ d, self.demand))
        self.both, self.g = np.zeros(2 * m), np.zeros(sinks.size)

    @property
    def gap(self) -> float:
        """The sum of all products of amounts and slacks, which is zero at a solution."""
        return self.pairs.gap + self.plan.gap

    def solve(self, target: Target, wanted: float) -> None:
        """Mehrotra's predictor and corrector, until the gap of the objective is ``wanted``."""
        for _ in range(MAX_ITERATIONS):
            gap = self.gap
            if gap < max(MIN_GAP, wanted / self.horizon) or target.clock.over:
                return
            try:
                newton = _NewtonMatrix(self)
            except np.linalg.LinAlgError:
                return
            primal, dual = newton.direct(0.0)
            ahead = self.pairs.ahead(primal, dual) + self.plan.ahead(primal, dual)
            centre = gap / (self.pairs.amount.size + self.plan.amount.size) * min((ahead / gap) ** 3, 1.0)
            primal, dual = newton.direct(centre)
            if max(primal, dual) < MIN_STEP_LENGTH or not np.isfinite(newton.both).all():
                return
            newton.advance(BOUNDARY_FRACTION * primal, BOUNDARY_FRACTION * dual)


class _NewtonMatrix:
    """One factored Newton matrix at a program's point; raises LinAlgError when rounding has made it useless."""

    def __init__(self, program: _Program) -> None:
        self.program = program
        pairs, plan, m = program.pairs, program.plan, program.size
        self.left = np.concatenate([program.inflow, plan.amount.sum(axis=1)])
        self.left -= program.constraints.T @ pairs.amount[0]
        self.left_g = program.demand - plan.amount.sum(axis=0)
        pairs.weigh()
        rows, columns = plan.weigh()
        # one constraint follows from the others: g of the last sink stays where it is
        self.inverse = 1 / columns
        self.inverse[-1] = 0.0
        matrix = np.zeros((2 * m, 2 * m))
        np.matmul(plan.weight * -self.inverse, plan.weight.T, out=matrix[m:, m:])
        if program.dense_constraints is None:
            sparse = program.constraints
            kernels.add_normal_matrix(sparse.indptr, sparse.indices, sparse.data, pairs.weight[0], matrix)
        else:
            matrix += (program.dense_constraints * pairs.weight[0]) @ program.dense_constraints.T
        matrix.ravel()[m * (2 * m + 1) :: 2 * m + 1] += rows
        self.matrix, factors = matrix, matrix.copy()
        factors.ravel()[:: 2 * m + 1] *= 1 + RELATIVE_RIDGE
        # LAPACK reads the transpose, which is the same
        self.factors, failed = sla.lapack.dpotrf(factors.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("not positive definite")
        self.both, self.dg = np.zeros(2 * m), np.zeros(columns.size)

    def direct(self, centre: float) -> tuple[float, float]:
        """Set the direction to products of ``centre``, corrected by the last direction; how far it can be followed."""
        program, pairs, plan, m = self.program, self.program.pairs, self.program.plan, self.program.size
        f, nothing, collected = program.both[m:], np.zeros(1), program.constraints @ program.both
        _, too_much = pairs.excess(nothing, collected, centre)
        too_much_f, too_much_g = plan.excess(f, program.g, centre)
        right_g = self.left_g + too_much_g
        right = self.left + program.constraints.T @ too_much
        right[m:] += plan.weight @ (self.inverse * right_g) - too_much_f
        self.both = self._solved(right)
        if centre > 0:
            # the predictor, towards a gap of zero, only determines the centring
            self.both += self._solved(right - self.matrix @ self.both)
        df = self.both[m:]
        self.dg = self.inverse * (right_g + df @ plan.weight)
        rooms = (
            pairs.respond(nothing, collected, centre, nothing, program.constraints @ self.both),
            plan.respond(f, program.g, centre, df, self.dg),
        )
        return min(primal for primal, _ in rooms), min(dual for _, dual in rooms)

    def advance(self, primal: float, dual: float) -> None:
        """Move the program's point along the direction."""
        self.program.pairs.advance(primal, dual)
        self.program.plan.advance(primal, dual)
        self.program.both += dual * self.both
        self.program.g += dual * self.dg

    def _solved(self, right: Array) -> Array:
        return np.asarray(sla.lapack.dpotrs(self.factors, right, lower=1)[0])
