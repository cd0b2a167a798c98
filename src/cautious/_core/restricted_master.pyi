"""The restricted master problem of column generation."""

from cautious.arrays import Array, Indices

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

