"""Sparse Cholesky factors of matrices that share one pattern: analysed once, factored many times.

The pattern is a list of cliques (see ``cholesky_analysis.hpp``); the order is nested dissection, and columns of
similar structure are joined to dense blocks. On grids this order is as good as minimum degree or METIS, and faster.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cautious._core import cholesky, cholesky_analysis
from cautious.arrays import Array, Codes, Indices
from cautious.risks.base import never

# share of a diagonal entry below which a pivot is only rounding
TINY_PIVOT = 1e-15
# a factor of 150 million entries takes about 1.5 gigabytes
BYTES_PER_NONZERO = 10
# entries of the pattern that dissection looks at between two questions whether time is over: a fraction of a second
CLOCK_CHECK_ENTRIES = 10_000_000


class OutOfTime(Exception):
    """The clock says that the run is over, before the matrix was factored."""


def require_time(over: Callable[[], bool]) -> None:
    """Raise ``OutOfTime`` where time is over."""
    if over():
        raise OutOfTime


@dataclass(frozen=True)
class Pattern:
    """A symmetric pattern (CSR, no diagonal), an order of elimination and what the factor costs."""

    indptr: Codes
    indices: Codes
    order: Indices
    parent: Indices
    counts: Indices

    @property
    def nonzeros(self) -> int:
        """Entries of the factor."""
        return int(self.counts.sum())

    @property
    def bytes(self) -> int:
        """Of the factor, and of what is left of it on the way."""
        return BYTES_PER_NONZERO * self.nonzeros

    @property
    def flops(self) -> float:
        """Multiplications and additions of one factorisation."""
        return float(np.sum(self.counts.astype(np.float64) ** 2))


def ordered(
    clique_start: Indices, members: Indices, n: int, over: Callable[[], bool] = never, hub: int | None = None
) -> Pattern:
    """The pattern of cliques on n unknowns in a good order; raises ``OutOfTime`` where time is ``over`` before that.

    An unknown that meets all others, the ``hub``, comes last: beside it nothing could be divided.
    """
    indptr = np.empty(n + 1, np.int32)
    require_time(over)
    indices = cholesky_analysis.neighbours(clique_start, members, indptr)
    order = dissected(*(_without(indptr, indices, hub) if hub is not None else (indptr, indices)), over)
    if hub is not None:
        order = np.append(order[order != hub], hub)
    where = (indptr, indices, order, _inverse(order))
    require_time(over)
    parent = cholesky_analysis.elimination_tree(*where)
    require_time(over)
    children_first = cholesky_analysis.postorder(parent, np.zeros_like(parent))
    require_time(over)
    counts = cholesky_analysis.column_counts(*where, parent, children_first)
    require_time(over)
    last = cholesky_analysis.postorder(parent, counts)
    moved = np.append(_inverse(last), -1)
    return Pattern(indptr, indices, order[last], moved[parent[last]], counts[last])


def dissected(indptr: Codes, indices: Codes, over: Callable[[], bool] = never) -> Indices:
    """An order of elimination by nested dissection, position -> unknown; ``over`` is asked between its parts."""
    n = indptr.size - 1
    order, low, high = np.arange(n), np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    high[0], waiting = n, min(n, 1)
    while waiting:
        require_time(over)
        waiting = cholesky_analysis.nested_dissection(indptr, indices, order, low, high, waiting, CLOCK_CHECK_ENTRIES)
    return order


def _without(indptr: Codes, indices: Codes, node: int) -> tuple[Codes, Codes]:
    """The pattern with a node that has no neighbours."""
    kept = indices != node
    kept[indptr[node] : indptr[node + 1]] = False
    before = np.concatenate([[0], np.cumsum(kept)])
    return before[indptr].astype(indptr.dtype), indices[kept]


def _inverse(order: Indices) -> Indices:
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return place


class Factor:
    """L of one matrix after another; buffers are kept. ``clique_start``, ``members``, ``over`` as given to ``ordered``.

    ``vanished`` is how many pivots of the last matrix did.
    """

    vanished = 0

    def __init__(
        self, pattern: Pattern, clique_start: Indices, members: Indices, over: Callable[[], bool] = never
    ) -> None:
        order, counts = pattern.order, pattern.counts
        self.order, self.place, self.n = order, _inverse(order), order.size
        where = (pattern.indptr, pattern.indices, order, self.place)
        first = cholesky_analysis.supernodes(pattern.parent, counts)
        tree = cholesky_analysis.supernode_tree(first, pattern.parent)
        require_time(over)
        row_start, rows = cholesky_analysis.supernode_rows(*where, first, tree, counts)
        require_time(over)
        column_start, entry_row, entry_place = cholesky_analysis.number_entries(*where, first, row_start, rows)
        require_time(over)
        self.clique_place, self.clique_entries = cholesky_analysis.clique_entries(
            clique_start, members, self.place, column_start, entry_row
        )
        require_time(over)
        positions = cholesky_analysis.positions_in_parent(first, row_start, rows, tree)
        panel_start, panel_room = cholesky_analysis.panel_places(first, row_start)
        update_start, update_room = cholesky_analysis.update_places(first, row_start, tree)
        self.n_entries, self.diagonal_entries = entry_row.size, column_start[:-1]
        self._entries = (column_start[first], entry_place)
        self._supernodes, self._tree = (first, row_start, rows, panel_start), (tree, positions, update_start)
        self._panels, self._updates = np.zeros(panel_room), np.zeros(update_room)

    def update(self, values: Array, right: Array) -> Array:
        """Factor the matrix with these entries (numbered by ``clique_entries``); the solution of its first system.

        Unknowns that meet nothing get a diagonal entry of one, in ``values`` too.
        """
        solution = np.empty(self.n)
        self.vanished = cholesky.factor_and_solve(
            values,
            self.diagonal_entries,
            TINY_PIVOT,
            *self._entries,
            *self._supernodes,
            *self._tree,
            self.order,
            self._panels,
            self._updates,
            right,
            solution,
        )
        return solution

    def solve(self, right: Array) -> Array:
        """The solution of another system with the last matrix; (n,)."""
        solution = np.empty(self.n)
        cholesky.solve_again(*self._supernodes, self.order, self._panels, right, solution)
        return solution
