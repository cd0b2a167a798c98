"""The Newton system of a finite horizon: as ``flow_system``, where a pair's steps answer together.

A pair has a row b of B for each step, and what bends on its sum couples these rows. Conjugate gradients multiply the
matrix with the answers of ``response``. Where factors are small, which they are on grids, these precondition it: what a
pair pays for its sum, and a state for its own, are unknowns too, and with the row continued by 1 at those of its pair
and of its state,

    sum of free b b'  +  diag(0, 1 / curvature of pairs, 1 / curvature of states)

is the matrix before they are eliminated, a sum of small blocks with sparse Cholesky factors.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from cautious._core import proximal as kernels
from cautious.arrays import Array
from cautious.risks.base import never
from cautious.runtime.clock import Clock
from cautious.solvers.balance import Balance
from cautious.solvers.interior_point.newton_matrix import System
from cautious.solvers.interior_point.sparse_cholesky import require_time
from cautious.solvers.proximal.flow_system import CLOCK_CHECK_ENTRIES, RELATIVE_RIDGE, ActivePart, Links
from cautious.solvers.proximal.response import Response

# a factorisation may take so many operations for each pair: it spares hundreds of multiplications, and Newton steps
MAX_FLOPS_PER_PAIR = 4e5
# no 1 / curvature is larger: what does not bend holds nothing back
LARGEST_COMPLIANCE = 1e30


class LayeredFactors:
    """Factors of the unknowns' matrix, for one response after the other.

    ``bends``: whether pairs, and whether states, pay for their sums. ``over`` is asked before every long computation.
    """

    def __init__(self, part: ActivePart, bends: tuple[bool, bool], over: Callable[[], bool] = never) -> None:
        self.bends, self.n_states = bends, part.states.size
        sums = [matrix for matrix, used in zip(part.sums(), bends, strict=True) if used]
        self.n = self.n_states + sum(matrix.shape[1] for matrix in sums)
        # a table with a row of pairs for every unknown: those of the sums have none
        counts = np.append(part.counts, np.zeros(self.n - self.n_states, np.int64))
        table = np.arange(int(counts.max())) < counts[:, None]
        require_time(over)
        place = sp.csr_array(
            (np.ones(part.pairs.size), (np.flatnonzero(table), np.arange(part.pairs.size))),
            (table.size, part.pairs.size),
        )
        require_time(over)
        beside = sp.hstack([part.rows, *sums], format="csr")
        require_time(over)
        rows, nothing = sp.csr_array(place @ beside), np.zeros(self.n)
        require_time(over)
        self.system = System(Balance(rows, 1.0, nothing, nothing), table, None)
        self.system.over = over

    @property
    def affordable(self) -> bool:
        """Whether a factorisation takes less work than the conjugate gradients that it replaces."""
        per_entry = self.system.pattern.flops / self.system.pair_start[-1]
        return self.system.affordable and per_entry <= MAX_FLOPS_PER_PAIR

    def update(self, response: Response) -> None:
        """Factor the matrix of these responses."""
        diagonal = np.zeros(self.n)
        used = [np.zeros(0), *(curve for curve, bent in zip(response.curvatures, self.bends, strict=True) if bent)]
        diagonal[self.n_states :] = 1 / np.maximum(np.concatenate(used), 1 / LARGEST_COMPLIANCE)
        self.system.refactor((response.free, np.zeros(self.n)), None, np.zeros(self.n), diagonal)

    def solve(self, right: Array) -> Array:
        """Prices (N,) for the last matrix."""
        return self.system.factor.solve(np.append(right, np.zeros(self.n - self.n_states)))[: self.n_states]


class LayeredSystem:
    """One Newton matrix, ready for several right-hand sides; with ``factors`` of it, or its diagonal alone."""

    def __init__(self, part: ActivePart, response: Response, links: Links, factors: LayeredFactors | None) -> None:
        self.part, self.links, self.response = part, links, response.without_offsets()
        own, marginal = np.empty(part.states.size), np.empty(part.states.size)
        alone = response.diagonal()
        kernels.newton_diagonal(*part.csr, alone, np.zeros(own.size), own, marginal)
        self.ridge = RELATIVE_RIDGE * own + np.finfo(float).tiny
        node = links.stiffness()
        if links.n_nodes:
            node[links.at] += part.on_states(alone)
        self.diagonal = np.concatenate([own + self.ridge, np.maximum(node, np.finfo(float).tiny)])
        self.precondition: Callable[[Array], Array] = lambda residual: residual / self.diagonal
        if factors is not None:
            factors.update(response)
            self.precondition = factors.solve
        self.steps = 0

    def multiply(self, prices: Array) -> Array:
        """The matrix times prices of the states and of the nodes, one after the other."""
        part, links, n = self.part, self.links, self.ridge.size
        push = part.price(prices[:n])
        if links.n_nodes:
            push -= part.of_states(prices[n:][links.at])
        moved = self.response.answer(push)
        on_states = part.flow(moved) + self.ridge * prices[:n]
        if not links.n_nodes:
            return on_states
        nodes = links.answer(prices[n:])
        nodes[links.at] -= part.on_states(moved)
        return np.concatenate([on_states, nodes])

    def solve(self, right: Array, right_nodes: Array, stop: float, limit: int, clock: Clock) -> tuple[Array, Array]:
        """Prices (N,) and (nodes,) whose residual has a 1-norm of at most ``stop``, if ``limit`` steps get there."""
        residual = np.concatenate([right, right_nodes])
        x, direction, inner = np.zeros_like(residual), np.zeros_like(residual), 0.0
        last, chunk = self.steps + limit, max(1, CLOCK_CHECK_ENTRIES // (self.part.n_entries + 1))
        while self.steps < last and float(np.abs(residual).sum()) > stop:
            if self.steps % chunk == 0 and clock.over:
                break
            fresh = self.precondition(residual)
            before, inner = inner, float(residual @ fresh)
            direction = fresh + (inner / before if before > 0 else 0.0) * direction
            product = self.multiply(direction)
            curvature = float(direction @ product)
            if not curvature > 0:
                break
            x += inner / curvature * direction
            residual -= inner / curvature * product
            self.steps += 1
        return x[: right.size], x[right.size :]
