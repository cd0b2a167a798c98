"""Distributions nearest to given numbers."""

from cautious.arrays import Array, Codes, Indices, Mask

def simplex_threshold(
    x: Array,
    mass: float,
    /,
) -> float:
    """The number that the entries above it exceed by `mass` together."""

def projected_step(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    active: Mask,
    gamma: float,
    v: Array,
    d: Array,
    h: float,
    policy: Array,
    /,
) -> None:
    """policy: every state's mass spread nearest to d + (r + gamma E[v] - v) / h."""

