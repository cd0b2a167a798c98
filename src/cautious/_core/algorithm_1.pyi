"""Algorithm 1 as printed, on the tables of a known model."""

from cautious.arrays import Array, Codes, Indices, Mask

ENTROPIC: int
HALF_L1: int
HALF_SQUARES: int
WORST: int
BARRIER: int
SQUARE_OF: int
def run(
    steps: int,
    seed: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    cumulative: Array,
    rewards: Array,
    per_outcome: bool,
    xi: Array,
    allowed: Mask,
    low: float,
    width: float,
    gamma: float,
    alpha: float,
    beta: float,
    m1: float,
    m2: float,
    delta: float,
    box: float,
    kinds: Indices,
    on_states: Mask,
    weights: Array,
    first: Indices,
    rows: Array,
    numbers: Array,
    floor: float,
    log_lam: Array,
    v: Array,
    d_sum: Array,
    v_sum: Array,
    moments: Array,
    /,
) -> None:
    """Iterations of Algorithm 1, in place on log_lam, v, d_sum, v_sum and moments."""

