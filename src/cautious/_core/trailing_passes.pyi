"""Several evaluation passes at once, close behind each other in the cache."""

from cautious.arrays import Array, Codes, Indices

KEPT: int
def block_reach(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    n_states: int,
    /,
) -> tuple[Indices, Indices]:
    """How far a pass must have come before the next one may do a block, and before it may be overwritten."""

def trailing_passes(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    lengths: Indices,
    b: Array,
    gamma: float,
    v: Array,
    passes: int,
    ahead: Indices,
    behind: Indices,
    iterates: Array,
    /,
) -> None:
    """The last four iterates of v <- b + gamma P_pi v."""

