"""The flow operator of a model and its adjoint, without building a matrix."""

from cautious.arrays import Array, Codes, Indices

def flow_rows(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    x: Array,
    out: Array,
    /,
) -> None:
    """out = B x on all pairs."""

def flow_columns(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    y: Array,
    out: Array,
    /,
) -> None:
    """out = B' y."""

def normal_diagonal(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    w: Array,
    out: Array,
    /,
) -> None:
    """The diagonal of B' diag(w) B."""

