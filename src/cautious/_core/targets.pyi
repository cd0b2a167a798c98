"""Planning on pairs of a state and a target."""

from cautious.arrays import Array, Codes, Indices, Mask

CHORD: int
EXP_CHORD: int
LIPSCHITZ: int
LOWER_NODE: int
UPPER_NODE: int
def plan_step(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    paid: Array,
    allowed: Mask,
    constant: Array,
    slope: Array,
    scale: float,
    v: Array,
    next_nodes: Array,
    next_step: float,
    left: Array,
    right: Array,
    cap: Array,
    kind: int,
    parameter: float,
    below_square: bool,
    snap: float,
    nodes: Array,
    step: float,
    values: Array,
    actions: Codes,
    first: int,
    last: int,
    /,
) -> None:
    """values and actions (S, n): the best of constant + slope x + E[V(x - scale paid)] at the nodes x."""

def follow_step(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    paid: Array,
    scale: float,
    actions: Codes,
    chances: Array,
    nodes: Array,
    step: float,
    mass: Array,
    cells: Array,
    rate: float,
    next_nodes: Array,
    next_step: float,
    to_upper: bool,
    snap: float,
    least: Array,
    most: Array,
    next_mass: Array,
    next_cells: Array,
    occupancy: Array,
    /,
) -> None:
    """Where a policy with memory goes in one step, and the moments of the targets."""

def split_step(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    paid: Array,
    scale: float,
    actions: Codes,
    nodes: Array,
    step: float,
    mass: Array,
    least: float,
    next_nodes: Array,
    next_step: float,
    next_mass: Array,
    /,
) -> None:
    """One step of mass (S, n) that is shared by the nodes next to a target."""

