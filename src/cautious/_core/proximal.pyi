"""Products and solves with the Newton matrix of a separable problem."""

from cautious.arrays import Array, Codes, Indices, Mask

def newton_diagonal(
    first: Indices,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    free: Array,
    damp: Array,
    out: Array,
    marginal: Array,
    /,
) -> None:
    """About the diagonals of B' M B and E' M E: exact but for successors that several pairs of a state share."""

def apply_newton(
    first: Indices,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    free: Array,
    damp: Array,
    ridge: Array,
    at: Indices,
    tail: Indices,
    head: Indices,
    ease: Array,
    x: Array,
    f: Array,
    out: Array,
    on_nodes: Array,
    /,
) -> None:
    """(out, on_nodes) = the Newton matrix times (x, f)."""

def conjugate_gradients(
    first: Indices,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    free: Array,
    damp: Array,
    ridge: Array,
    at: Indices,
    tail: Indices,
    head: Indices,
    ease: Array,
    own: Array,
    node: Array,
    across: Array,
    common: float,
    vectors: Array,
    node_vectors: Array,
    inner: float,
    stop: float,
    steps: int,
    /,
) -> tuple[float, int]:
    """Steps of preconditioned conjugate gradients; <r, z> to go on with (0 when done) and the steps taken."""

def mark_heavy(
    first: Indices,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    free: Array,
    own: Array,
    share: float,
    heavy: Mask,
    /,
) -> tuple[int, int]:
    """Mark pairs that are more than a share of the diagonal somewhere; how many, and their transitions."""

def copy_heavy(
    first: Indices,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    free: Array,
    heavy: Mask,
    new_first: Indices,
    new_indptr: Codes | Indices,
    new_indices: Codes | Indices,
    new_data: Array,
    new_free: Array,
    /,
) -> None:
    """The marked pairs alone, with their transitions and weights."""

