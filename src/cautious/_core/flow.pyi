"""The flow operator of a model and its adjoint, without building a matrix."""

from cautious.arrays import Array, Codes, Indices

def flow_rows(
    first: Indices,
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
    first: Indices,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    y: Array,
    out: Array,
    /,
) -> None:
    """out = B' y."""

