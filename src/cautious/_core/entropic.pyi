"""Loops of the entropic dual: sums of exponentials, and conjugate gradients."""

from cautious.arrays import Array, Codes, Indices

def exponentials(
    x: Array,
    /,
) -> None:
    """x = exp(x) in place."""

def by_state(
    ell: Array,
    out: Array,
    policy: Array,
    /,
) -> None:
    """out = log sum_a exp(ell(s, a)), policy = exp(ell - out)."""

def spread_weights(
    policy: Array,
    log_mass: Array,
    wanted: Array,
    out: Array,
    /,
) -> None:
    """out = policy times the logarithmic mean of exp(log_mass) and wanted."""

def along(
    ell: Array,
    p: Array,
    length: float,
    /,
) -> tuple[float, float, float]:
    """log sum exp(ell + length p) and its first two derivatives in length."""

def precondition(
    inverse_diagonal: Array,
    corner: Array,
    residual: Array,
    out: Array,
    /,
) -> float:
    """out = M^-1 residual, block by block; returns <residual, out>."""

def conjugate_gradients(
    first: Indices,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    y: Array,
    border: Array,
    block: Array,
    inverse_diagonal: Array,
    corner: Array,
    x: Array,
    residual: Array,
    direction: Array,
    gains: Array,
    share: float,
    steps: int,
    /,
) -> int:
    """Go on with N x = right; returns the steps made, or a negative number when rounding ends it."""

