"""Loops over the rows and the graph of a model."""

from cautious.arrays import Array, Codes, Indices, Mask

def reach(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    allowed: Mask,
    start: Mask,
    /,
) -> Mask:
    """States (S,) that allowed pairs can reach from the start states."""

def keep_safe(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    allowed: Mask,
    n_states: int,
    /,
) -> Mask:
    """The largest set of pairs (S*A,) that need never be left."""

def row_lengths(
    indptr: Codes | Indices,
    n_states: int,
    /,
) -> tuple[int, int]:
    """Length of the longest row, and the sum over the states of the longest of each."""

def well_formed(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    n_columns: int,
    /,
) -> bool:
    """Whether rows are sorted, without duplicates and within bounds."""

def are_probabilities(
    indptr: Codes | Indices,
    data: Array,
    allowed: Mask,
    eps: float,
    /,
) -> bool:
    """Whether rows are positive, sum to one, and are empty where not allowed."""

def absorbing_states(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    allowed: Mask,
    n_states: int,
    /,
) -> Mask:
    """States (S,) that nothing leaves."""

def end_components(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    allowed: Mask,
    inside: Mask,
    n_states: int,
    /,
) -> Indices:
    """The number of the maximal end component of each state, -1 for none; and the pairs inside."""

def forward_order(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    allowed: Mask,
    order: Indices,
    block: Indices,
    /,
) -> int:
    """The states, each before those it leads to; block = the components of cycles; the size of the largest."""

def ending_actions(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    allowed: Mask,
    ended: Mask,
    /,
) -> Indices:
    """Actions (S,) that lead towards ended states; -1 where there is none."""

def duplicate_actions(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    reward: Array,
    pay: Array,
    allowed: Mask,
    n_states: int,
    /,
) -> Indices:
    """How many states have two actions that lead to and pay the same: (A, A)."""

