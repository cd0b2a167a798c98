"""The restricted master problem of column generation."""

from cautious.arrays import Array, Indices

def solve_linear(
    matrix: Array,
    right: Array,
    /,
) -> None:
    """Solve matrix x = right in place."""

def newton_system(
    a: Array,
    group: Indices,
    own: Array,
    d: Array,
    pull: Array,
    gaps: Array,
    lacks: Array,
    total: float,
    matrix: Array,
    right: Array,
    /,
) -> None:
    """Matrix and right side of a Newton step."""

def central_point(
    p: Array,
    c: Array,
    a: Array,
    h: Array,
    f: Array,
    group: Indices,
    q: Array,
    centre: Array,
    mu_end: float,
    /,
) -> tuple[Array, Array, float]:
    """Weights and prices on the central path at mu_end, and the largest error there."""

