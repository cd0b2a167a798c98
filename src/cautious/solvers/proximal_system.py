"""The active part of a problem, and Newton systems over its balance of flow solved by conjugate gradients.

Pairs and states that no occupancy can use are left out; where everything is active nothing is copied.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array, Indices
from cautious.kernels import proximal as kernels
from cautious.problem import Problem
from cautious.solvers.base import Clock

RIDGE = 1e-12
CHUNK_ENTRIES = 5_000_000
EMPTY = np.zeros(0)
NOWHERE = np.zeros(0, dtype=np.int64)


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
        rows = mdp.transitions
        if self.pairs.size < problem.active.size:
            rows = rows[self.pairs][:, self.states]
        self.csr = (self.first, rows.indptr, rows.indices, rows.data, self.gamma)
        self.inflow: Array = (1 - self.gamma) * mdp.start[self.states]
        self.n_entries = int(rows.nnz)

    def spread(self, x: Array) -> Array:
        """A number per state, given to each of its pairs."""
        return np.repeat(x, self.counts)

    def gather(self, y: Array) -> Array:
        """Sums over the pairs of each state."""
        return np.asarray(np.add.reduceat(y, self.first[:-1]))

    def price(self, v: Array) -> Array:
        """B v."""
        out = np.empty(self.pairs.size)
        kernels.price_rows(*self.csr, v, out)
        return out

    def flow(self, y: Array) -> Array:
        """B' y."""
        out = np.empty(self.states.size)
        kernels.flow_columns(*self.csr, y, out)
        return out


class NewtonSystem:
    """One Newton matrix (see ``kernels.proximal``), ready for several right-hand sides."""

    def __init__(self, part: ActivePart, responses: Responses) -> None:
        self.part, self.responses = part, responses
        own, marginal = np.empty(part.states.size), np.empty(part.states.size)
        kernels.newton_diagonal(*part.csr, responses.free, responses.damp, own, marginal)
        self.ridge = RIDGE * own + np.finfo(float).tiny
        self.own = own + self.ridge
        ends = np.concatenate([responses.tail, responses.head])
        node: Array = np.bincount(ends, np.tile(responses.ease, 2), responses.n_nodes).astype(np.float64)
        if responses.n_nodes:
            node[responses.at] += marginal
            # the corner of each block a little smaller than it is, so that rounding cannot make the block singular
            marginal = (1 - 1e-6) * np.minimum(marginal, np.sqrt(self.own * node[responses.at]))
        self.node, self.across = np.maximum(node, np.finfo(float).tiny), marginal
        self.steps = 0

    def solve(self, right: Array, right_nodes: Array, stop: float, limit: int, clock: Clock) -> tuple[Array, Array]:
        """Prices (S,) and (nodes,) whose residual has a 1-norm of at most ``stop``, if ``limit`` steps get there."""
        part, r = self.part, self.responses
        vectors, node_vectors = np.zeros((3, right.size)), np.zeros((3, right_nodes.size))
        vectors[1], node_vectors[1] = right, right_nodes
        inner, chunk = 0.0, max(1, CHUNK_ENTRIES // part.n_entries)
        while limit > 0 and not clock.over:
            inner, taken = kernels.conjugate_gradients(
                *part.csr,
                r.free,
                r.damp,
                self.ridge,
                r.at,
                r.tail,
                r.head,
                r.ease,
                self.own,
                self.node,
                self.across,
                vectors,
                node_vectors,
                inner,
                stop,
                min(chunk, limit),
            )
            self.steps += taken
            limit -= taken
            if inner == 0.0:
                break
        return vectors[0].copy(), node_vectors[0].copy()
