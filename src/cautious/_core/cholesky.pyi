"""Sparse Cholesky factorisation by dense fronts, and solving with the factor."""

from cautious.arrays import Array, Indices

def factor_and_solve(
    values: Array,
    diagonal: Indices,
    share: float,
    entry_start: Indices,
    entry_place: Indices,
    first: Indices,
    row_start: Indices,
    rows: Indices,
    panel_start: Indices,
    tree: Indices,
    positions: Indices,
    update_start: Indices,
    order: Indices,
    panels: Array,
    updates: Array,
    right: Array,
    solution: Array,
    /,
) -> int:
    """L into ``panels``, and the solution of the first system; how many pivots vanished."""

def solve_again(
    first: Indices,
    row_start: Indices,
    rows: Indices,
    panel_start: Indices,
    order: Indices,
    panels: Array,
    right: Array,
    solution: Array,
    /,
) -> None:
    """The solution of another system with the last matrix."""

