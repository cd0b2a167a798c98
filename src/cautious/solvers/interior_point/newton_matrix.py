"""The Newton matrix of the interior point method: pairs eliminated state by state, the rest factored.

The unknowns are the multipliers v (S,) of the flow and, for a transport distance on a graph, the potentials f (S,) of
its nodes. With B = R - E (``solvers/balance.py``), extended by -E for f, W the inverse Hessian of the pairs (a block
per state) and L the Laplacian of the graph, the matrix is  B' W B + L;  its pattern never changes, so it is analysed
once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from cautious._core import interior_blocks as kernels
from cautious.arrays import Array, Indices, Mask
from cautious.checks import state_sums_of
from cautious.risks.base import never
from cautious.solvers.balance import Balance
from cautious.solvers.interior_point.sparse_cholesky import Factor, Pattern, ordered, require_time

# a factor of this many entries takes about 1.5 gigabytes, and one of this many operations some seconds: a grid of a
# million states takes three quarters of the first and half of the second
MOST_NONZEROS = 150_000_000
MOST_FLOPS = 1.5e11
EMPTY = np.zeros(0)


@dataclass(frozen=True)
class Edges:
    """Undirected edges ``tail`` < ``head`` of a graph on the states, with their lengths."""

    tail: Indices
    head: Indices
    length: Array

    def divergence(self, flow: Array, n: int) -> Array:
        """What leaves each node minus what enters it."""
        return np.asarray(
            np.bincount(self.tail, weights=flow, minlength=n) - np.bincount(self.head, weights=flow, minlength=n)
        )


def edges_of(graph: sp.csr_array) -> Edges:
    """The edges of a symmetric graph."""
    half = sp.coo_array(sp.triu(graph, k=1))
    return Edges(half.row.astype(np.int64), half.col.astype(np.int64), np.asarray(half.data, dtype=np.float64))


class System:
    """Operators and factorisation on the active pairs of a model; ``edges`` adds the potentials of a graph.

    ``over`` is asked before every long computation.
    """

    over: Callable[[], bool] = staticmethod(never)

    def __init__(self, balance: Balance, active: Mask, edges: Edges | None) -> None:
        self.balance, self.edges, self.active = balance, edges, active
        self.n_states = balance.inflow.size
        self._rooms: dict[str, Array] = {}
        self.size = self.n_states * (1 if edges is None else 2)
        rows, extended = balance.rows, edges is not None
        self.pair_start = np.concatenate([[0], np.cumsum(state_sums_of(active.astype(np.int64)))])
        self.start, coefficient_start = kernels.block_sizes(rows.indptr, rows.indices, active, extended)
        places = self.start, coefficient_start
        self.members = np.empty(self.start[-1], np.int64)
        coefficients = np.empty(coefficient_start[-1] + kernels.SPARE)
        model = rows.indptr, rows.indices, rows.data, balance.discount, active
        kernels.fill_blocks(*model, extended, *places, self.members, coefficients)
        self._blocks = (self.pair_start, *places, self.members, coefficients)

    @cached_property
    def _ones(self) -> Array:
        return np.ones(self.pair_start[-1])

    def room(self, name: str, size: int) -> Array:
        """A vector to be filled, the same for the same name: fresh memory takes longer than filling it."""
        kept = self._rooms.get(name)
        if kept is None or kept.size != size:
            kept = self._rooms[name] = np.empty(size)
        return kept

    @cached_property
    def cliques(self) -> tuple[Indices, Indices]:
        """(start, members) of the matrix's dense blocks: states, then edges."""
        if self.edges is None:
            return self.start, self.members
        ends = np.stack([self.edges.tail, self.edges.head], axis=1).ravel() + self.n_states
        more = self.start[-1] + 2 * np.arange(1, self.edges.tail.size + 1)
        return np.concatenate([self.start, more]), np.concatenate([self.members, ends])

    @cached_property
    def pattern(self) -> Pattern:
        """Pattern and order, with the factor's size."""
        return ordered(*self.cliques, self.size, self.over, self.balance.hub)

    @property
    def affordable(self) -> bool:
        """Whether the factor is small enough."""
        return self.pattern.nonzeros <= MOST_NONZEROS and self.pattern.flops <= MOST_FLOPS

    @cached_property
    def factor(self) -> Factor:
        """The reusable factorisation."""
        return Factor(self.pattern, *self.cliques, self.over)

    def forward(self, push: Array, lift: Array, x: Array) -> Array:
        """push + lift + B x on the active pairs; ``lift`` (S,) is the same for all pairs of a state."""
        out, nothing = np.empty(push.size), np.zeros(self.n_states)
        kernels.respond(*self._blocks, self._ones, nothing, push, lift, x, out, np.empty(self.n_states), EMPTY)
        return out

    def backward(self, y: Array) -> tuple[Array, Array]:
        """Sums over the pairs of each state (S,), and -B' y."""
        sums, missing = np.empty(self.n_states), np.zeros(self.size)
        kernels.backward(*self._blocks, y, sums, missing)
        return sums, missing

    def spread(self, states: Indices, per_state: Array) -> Array:
        """Values of these states on their pairs, zero on those of others."""
        full = np.zeros(self.n_states)
        full[states] = per_state
        return np.asarray(np.repeat(full, np.diff(self.pair_start)))

    def respond(
        self, hessian: tuple[Array, Array], push: Array, lift: Array, x: Array, right: Array, out: Array
    ) -> tuple[Array, Array]:
        """out = W (push + lift + B x); coupling times its sums over the pairs of each state (S,), and right - B' out.

        ``hessian`` are softness and coupling. An empty x stands for zeros, and with an empty right nothing is
        missing. What is returned lasts until the next call.
        """
        shift, missing = self.room("shift", self.n_states), self.room("missing", self.size)[: right.size]
        missing[:] = right
        kernels.respond(*self._blocks, *hessian, push, lift, x, out, shift, missing)
        return shift, missing

    def refactor(
        self, hessian: tuple[Array, Array], conductance: Array | None, right: Array, diagonal: Array | None = None
    ) -> Array:
        """Assemble and factor the matrix for these Hessians; the solution of its first system.

        ``conductance`` are the weights of the edges; the ``diagonal`` is added.
        """
        require_time(self.over)
        factor = self.factor
        require_time(self.over)
        values = self.room("matrix", factor.n_entries)
        values.fill(0.0)
        kernels.assemble(*self._blocks, *hessian, factor.clique_place, factor.clique_entries, values)
        if conductance is not None:
            kernels.add_edges(conductance, factor.clique_entries, int(factor.clique_place[self.n_states]), values)
            # all flows sum to one already: one node's balance follows from the others
            pinned = factor.diagonal_entries[factor.place[self.n_states]]
            values[pinned] *= 2
        if diagonal is not None:
            values[factor.diagonal_entries[factor.place]] += diagonal
        require_time(self.over)
        return factor.update(values, right)


def small_solution(matrix: Array, right: Array) -> Array:
    """A small symmetric system, scaled: its rows may differ by many orders of magnitude."""
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        return np.full(right.size, np.nan)
    scale = 1 / np.sqrt(np.maximum(np.abs(matrix).max(axis=1), 1e-300))
    return np.asarray(scale * np.linalg.lstsq(matrix * scale * scale[:, None], right * scale, rcond=1e-15)[0])
