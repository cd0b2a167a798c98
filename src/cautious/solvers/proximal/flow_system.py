"""The active part of a problem, and Newton systems over its balance of flow solved by conjugate gradients.

Pairs and states that no occupancy can use are left out; where everything is active nothing is copied.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from cautious._core import proximal as kernels
from cautious._core.flow import flow_columns, flow_rows
from cautious.arrays import Array, Indices
from cautious.models.encodings import read_only_view
from cautious.problem import Problem
from cautious.risks.base import never
from cautious.risks.separable import SeparableRisk
from cautious.runtime.clock import Clock
from cautious.solvers.balance import balance_of
from cautious.solvers.interior_point.sparse_cholesky import require_time

# added to the diagonal, as a share of it
RELATIVE_RIDGE = 1e-12
# entries of transitions between two looks at the clock
CLOCK_CHECK_ENTRIES = 5_000_000
# pairs below this share of every diagonal entry they touch are left out, if that leaves out half of the transitions
LIGHT_PAIR_SHARE, MAX_HEAVY_SHARE = 1e-4, 0.5
# with some left out: how far each solve goes, and what the next has to gain
HEAVY_RESIDUAL_SHARE, MIN_RESIDUAL_FALL = 0.7, 2.0
EMPTY = np.zeros(0)
NO_INDICES = np.zeros(0, dtype=np.int64)
# the pairs' first rows, their CSR arrays and the discount; and the pairs' weights
FlowRows: TypeAlias = tuple[Indices, Any, Any, Array, float]
WeightedRows: TypeAlias = tuple[Indices, Any, Any, Array, float, Array]


def net_flow(tail: Indices, head: Indices, flow: Array, n: int) -> Array:
    """What leaves each of n nodes over the arcs, minus what arrives."""
    return np.asarray(np.bincount(tail, flow, n) - np.bincount(head, flow, n), dtype=np.float64)


def numbered(places: Indices, n: int) -> tuple[Indices, Indices]:
    """Which of n places there are, ascending, and the number of each given place among these."""
    there = np.zeros(n, np.bool_)
    there[places] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[places]


@dataclass(frozen=True)
class Links:
    """The arcs of a transport with their ``ease``; the active states are the nodes ``at`` (M,)."""

    at: Indices
    n_nodes: int
    tail: Indices
    head: Indices
    ease: Array

    def stiffness(self) -> Array:
        """The diagonal (nodes,) of the derivative of net flows by the prices of the nodes."""
        ends = np.concatenate([self.tail, self.head])
        return np.bincount(ends, np.tile(self.ease, 2), self.n_nodes).astype(np.float64)

    def answer(self, prices: Array) -> Array:
        """What leaves each node minus what arrives, for prices (nodes,)."""
        return net_flow(self.tail, self.head, self.ease * (prices[self.tail] - prices[self.head]), self.n_nodes)


class ActivePart:
    """Pairs (n,) and states (N,) that can carry mass, and B = R - E between them (``solvers/balance.py``).

    ``pairs`` and ``states`` are their places in an occupancy and in its marginal; with a finite horizon these are of
    every step. Risks see sums over the steps: of ``risk_pairs`` (m,) and ``risk_states`` (M,), places in (S, A), (S,).
    Raises ``OutOfTime`` where time is ``over`` before they are found.
    """

    def __init__(self, problem: Problem, over: Callable[[], bool] = never) -> None:
        balance, self.normaliser = balance_of(problem.mdp, problem.active), problem.mdp.normaliser
        self.pairs: Indices = np.flatnonzero(problem.active)
        self.states: Indices = np.flatnonzero(problem.active_states)
        require_time(over)
        counts = problem.active.sum(axis=-1).ravel()[self.states]
        self.counts: Indices = counts
        self.first: Indices = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = balance.rows
        if self.pairs.size < problem.active.size:
            rows = rows[self.pairs][:, self.states]
        indptr = read_only_view(np.asarray(rows.indptr, rows.indices.dtype))
        indices, data = read_only_view(rows.indices), read_only_view(rows.data)
        self.csr: FlowRows = (self.first, indptr, indices, data, balance.discount)
        self.inflow: Array = balance.inflow.ravel()[self.states]
        self.unit_value: Array = balance.unit_value.ravel()[self.states]
        self.n_entries = rows.nnz
        self.layered = problem.active.ndim == 3
        self.risk_pairs, self.risk_states = self.pairs, self.states
        if self.layered:
            require_time(over)
            self.risk_pairs, self._pair_at = numbered(self.pairs % problem.reward.size, problem.reward.size)
            of_pairs = self.risk_pairs // problem.mdp.n_actions
            self.risk_states, self._state_at = numbered(of_pairs, problem.mdp.n_states)

    def spread(self, x: Array) -> Array:
        """The number of its state for every pair."""
        return np.repeat(x, self.counts)

    def gather(self, y: Array) -> Array:
        """Sums over the pairs of each state."""
        return np.asarray(np.add.reduceat(y, self.first[:-1]))

    @cached_property
    def rows(self) -> sp.csr_array:
        """R, the discount included; (n, N)."""
        _, indptr, indices, data, gamma = self.csr
        return sp.csr_array((gamma * data, indices, indptr), (self.pairs.size, self.states.size))

    def sums(self) -> tuple[sp.csr_array, sp.csr_array]:
        """Matrices (n, m) and (n, M) with a 1 at the pair, and at the state, of every row; over several steps."""
        n, every = self.pairs.size, np.arange(self.pairs.size + 1)
        of_pair = sp.csr_array((np.ones(n), self._pair_at, every), (n, self.risk_pairs.size))
        return of_pair, sp.csr_array((np.ones(n), self._state_at[self._pair_at], every), (n, self.risk_states.size))

    def on_pairs(self, y: Array) -> Array:
        """Numbers of the pairs (n,), summed over the steps; (m,)."""
        return np.asarray(np.bincount(self._pair_at, y, self.risk_pairs.size)) if self.layered else y

    def on_states(self, y: Array) -> Array:
        """Sums over the pairs of each state, and over the steps; (M,)."""
        if not self.layered:
            return self.gather(y)
        return np.asarray(np.bincount(self._state_at, self.on_pairs(y), self.risk_states.size))

    def of_pairs(self, x: Array) -> Array:
        """A number per pair (m,), given to it at every step; (n,)."""
        return np.asarray(x[self._pair_at]) if self.layered else x

    def of_states(self, x: Array) -> Array:
        """A number per state (M,), given to each of its pairs at every step; (n,)."""
        return self.of_pairs(x[self._state_at]) if self.layered else self.spread(x)

    def entries_and_prior(self, d: Array, risk: SeparableRisk) -> tuple[Array, Array]:
        """The entries of d (n,) that a separable risk depends on, and its prior there."""
        if risk.on_states:
            return self.on_states(d), risk.prior[self.risk_states]
        return self.on_pairs(d), risk.prior.ravel()[self.risk_pairs]

    def price(self, v: Array) -> Array:
        """B v."""
        out = np.empty(self.pairs.size)
        flow_rows(*self.csr, v, out)
        return out

    def flow(self, y: Array) -> Array:
        """B' y."""
        out = np.empty(self.states.size)
        flow_columns(*self.csr, y, out)
        return out


class NewtonSystem:
    """One Newton matrix (see ``_core/proximal.hpp``), ready for several right-hand sides.

    Near the solution few pairs still answer prices, about as many as there are states: steps are made with these alone,
    and what the others add is mended by repeating the solve with the residual of the whole matrix.
    """

    def __init__(self, part: ActivePart, free: Array, damp: Array, links: Links) -> None:
        self.part, self.free = part, free
        own, marginal = np.empty(part.states.size), np.empty(part.states.size)
        kernels.newton_diagonal(*part.csr, free, damp, own, marginal)
        self.ridge = RELATIVE_RIDGE * own + np.finfo(float).tiny
        self.own = own + self.ridge
        # all prices up by one: every pair loses one unit
        self.common = 1 / max(part.normaliser**2 * float(marginal.sum()), np.finfo(float).tiny)
        node = links.stiffness()
        if links.n_nodes:
            node[links.at] += marginal
            # the corner of each block a little smaller than it is, so that rounding cannot make the block singular
            marginal = (1 - 1e-6) * np.minimum(marginal, np.sqrt(self.own * node[links.at]))
        self.node, self.across = np.maximum(node, np.finfo(float).tiny), marginal
        self._rest = (damp, self.ridge, links.at, links.tail, links.head, links.ease)
        self.heavy = self._heavy_rows()
        self.steps = 0

    def _heavy_rows(self) -> WeightedRows:
        """The pairs that count, their transitions and weights; all of them when that spares little."""
        csr, free = self.part.csr, self.free
        heavy = np.empty(free.size, np.bool_)
        n_rows, n_entries = kernels.mark_heavy(*csr, free, self.own, LIGHT_PAIR_SHARE, heavy)
        if n_entries > MAX_HEAVY_SHARE * self.part.n_entries:
            return (*csr, free)
        first, indptr, indices, data, gamma = csr
        kept = (np.empty_like(first), np.empty(n_rows + 1, indptr.dtype), np.empty(n_entries, indices.dtype))
        new_data, new_free = np.empty(n_entries), np.empty(n_rows)
        kernels.copy_heavy(first, indptr, indices, data, free, heavy, *kept, new_data, new_free)
        return (*kept, new_data, gamma, new_free)

    def solve(self, right: Array, right_nodes: Array, stop: float, limit: int, clock: Clock) -> tuple[Array, Array]:
        """Prices (S,) and (nodes,) whose residual has a 1-norm of at most ``stop``, if ``limit`` steps get there."""
        everything = (*self.part.csr, self.free)
        rows, last = self.heavy, self.steps + limit
        x, f = np.zeros_like(right), np.zeros_like(right_nodes)
        left, left_nodes, before = right, right_nodes, np.inf
        while self.steps < last and not clock.over:
            more, more_nodes = self._descend(rows, left, left_nodes, HEAVY_RESIDUAL_SHARE * stop, last, clock)
            x += more
            f += more_nodes
            if rows[-1] is everything[-1]:
                break
            left, left_nodes = np.empty_like(right), np.empty_like(right_nodes)
            kernels.apply_newton(*everything, *self._rest, x, f, left, left_nodes)
            left, left_nodes = right - left, right_nodes - left_nodes
            size = float(np.abs(left).sum() + np.abs(left_nodes).sum())
            if size <= stop:
                break
            # also where it is no number any more
            if not size <= before / MIN_RESIDUAL_FALL:
                rows = everything
            before = size
        return x, f

    def _descend(
        self, rows: WeightedRows, right: Array, right_nodes: Array, stop: float, last: int, clock: Clock
    ) -> tuple[Array, Array]:
        """Conjugate gradients with some of the pairs, in chunks between which the clock is asked."""
        vectors, node_vectors = np.zeros((3, right.size)), np.zeros((3, right_nodes.size))
        vectors[1], node_vectors[1] = right, right_nodes
        inner, chunk = 0.0, max(1, CLOCK_CHECK_ENTRIES // (rows[3].size + 1))
        while self.steps < last and not clock.over:
            inner, taken = kernels.conjugate_gradients(
                *rows,
                *self._rest,
                self.own,
                self.node,
                self.across,
                self.common,
                vectors,
                node_vectors,
                inner,
                stop,
                min(chunk, last - self.steps),
            )
            self.steps += taken
            if inner == 0.0:
                break
        return vectors[0], node_vectors[0]
