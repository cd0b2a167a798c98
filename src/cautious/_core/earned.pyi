"""What a policy with memory has earned."""

from cautious.arrays import Array, Codes, Indices

def reach_bins(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    paid: Array,
    scale: float,
    actions: Codes,
    nodes: Array,
    step: float,
    next_nodes: Array,
    next_step: float,
    to_upper: bool,
    snap: float,
    width: float,
    low: Indices,
    high: Indices,
    next_low: Indices,
    next_high: Indices,
    /,
) -> None:
    """next_low and next_high: the bins that the rows of a policy with memory lead to."""

def move_cells(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    paid: Array,
    scale: float,
    actions: Codes,
    nodes: Array,
    step: float,
    next_nodes: Array,
    next_step: float,
    to_upper: bool,
    snap: float,
    width: float,
    low: Indices,
    high: Indices,
    place: Indices,
    cells: Array,
    next_low: Indices,
    next_high: Indices,
    next_place: Indices,
    next_cells: Array,
    /,
) -> None:
    """next_cells (KEPT, n): one step of a policy with memory, and of what it has earned."""

