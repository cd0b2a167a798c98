"""The flow operator state by state, and its normal matrix."""

from cautious.arrays import Array, Codes, Indices, Mask

SPARE: int
def block_sizes(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    active: Mask,
    extra: bool,
    /,
) -> tuple[Indices, Indices]:
    """Where members and coefficients of every state begin."""

def fill_blocks(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    active: Mask,
    extra: bool,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
    /,
) -> None:
    """Members and coefficients of every state."""

def backward(
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
    y: Array,
    sums: Array,
    missing: Array,
    /,
) -> None:
    """Sums over the pairs of each state; missing -= B' y."""

def respond(
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
    softness: Array,
    coupling: Array,
    push: Array,
    lift: Array,
    x: Array,
    out: Array,
    shift: Array,
    missing: Array,
    /,
) -> None:
    """out = W (push + lift + B x); missing -= B' out."""

def assemble(
    pair_start: Indices,
    start: Indices,
    coefficient_start: Indices,
    members: Indices,
    coefficients: Array,
    softness: Array,
    coupling: Array,
    entry_start: Indices,
    entries: Codes | Indices,
    values: Array,
    /,
) -> None:
    """Add B' W B to the entries of a matrix."""

def add_edges(
    weights: Array,
    entries: Codes | Indices,
    first: int,
    values: Array,
    /,
) -> None:
    """Add the Laplacian of weighted edges to the entries of a matrix."""

