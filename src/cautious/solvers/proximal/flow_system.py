"""The active part of a problem, and Newton systems over its balance of flow solved by conjugate gradients.

Pairs and states that no occupancy can use are left out; where everything is active nothing is copied.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from cautious._core import proximal as kernels
from cautious._core.flow import flow_columns, flow_rows
from cautious.arrays import Array, Indices
from cautious.problem import Problem
from cautious.risks.separable import SeparableRisk
from cautious.runtime.clock import Clock

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
# the pairs' first rows, their CSR arrays, the discount and the pairs' weights
WeightedRows: TypeAlias = tuple[Indices, Any, Any, Array, float, Array]


@dataclass(frozen=True)
class Responses:
    """How pairs answer prices (``free`` (n,), ``damp`` (S,)), and the arcs of a transport with their ``ease``."""

    free: Array
    damp: Array
    at: Indices
    n_nodes: int
    tail: Indices
    head: Indices
    ease: Array


class ActivePart:
    """Pairs (n,) and states (S,) that can carry mass, and B = gamma P - E between them."""

    def __init__(self, problem: Problem) -> None:
        mdp = problem.mdp
        self.gamma = mdp.discount
        self.pairs: Indices = np.flatnonzero(problem.active)
        self.states: Indices = np.flatnonzero(problem.active_states)
        counts = problem.active.sum(axis=1)[self.states]
        self.counts: Indices = counts
        self.first: Indices = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = mdp.csr
        if self.pairs.size < problem.active.size:
            kept = mdp.transitions[self.pairs][:, self.states]
            rows = (kept.indptr, kept.indices, kept.data)
        self.csr = (self.first, *rows, self.gamma)
        self.inflow: Array = (1 - self.gamma) * mdp.start[self.states]
        self.n_entries = rows[2].size

    def spread(self, x: Array) -> Array:
        """A number per state, given to each of its pairs."""
        return np.repeat(x, self.counts)

    def gather(self, y: Array) -> Array:
        """Sums over the pairs of each state."""
        return np.asarray(np.add.reduceat(y, self.first[:-1]))

    def entries_and_prior(self, d: Array, risk: SeparableRisk) -> tuple[Array, Array]:
        """What a separable risk looks at in d (n,), and its prior there."""
        if risk.on_states:
            return self.gather(d), risk.prior[self.states]
        return d, risk.prior.ravel()[self.pairs]

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

    def __init__(self, part: ActivePart, responses: Responses) -> None:
        self.part, self.responses = part, responses
        own, marginal = np.empty(part.states.size), np.empty(part.states.size)
        kernels.newton_diagonal(*part.csr, responses.free, responses.damp, own, marginal)
        self.ridge = RELATIVE_RIDGE * own + np.finfo(float).tiny
        self.own = own + self.ridge
        # all prices up by one: every pair loses 1 - gamma
        self.common = 1 / max((1 - part.gamma) ** 2 * float(marginal.sum()), np.finfo(float).tiny)
        ends = np.concatenate([responses.tail, responses.head])
        node: Array = np.bincount(ends, np.tile(responses.ease, 2), responses.n_nodes).astype(np.float64)
        if responses.n_nodes:
            node[responses.at] += marginal
            # the corner of each block a little smaller than it is, so that rounding cannot make the block singular
            marginal = (1 - 1e-6) * np.minimum(marginal, np.sqrt(self.own * node[responses.at]))
        self.node, self.across = np.maximum(node, np.finfo(float).tiny), marginal
        arcs = (responses.at, responses.tail, responses.head, responses.ease)
        self._rest = (responses.damp, self.ridge, *arcs)
        self.heavy = self._heavy_rows()
        self.steps = 0

    def _heavy_rows(self) -> WeightedRows:
        """The pairs that count, their transitions and weights; all of them when that spares little."""
        csr, free = self.part.csr, self.responses.free
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
        everything = (*self.part.csr, self.responses.free)
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
