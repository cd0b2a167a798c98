"""Outcomes that a function gives: checked, then stored as sparse rows."""

from cautious.arrays import Array, Codes, Indices

def store_outcomes(
    successors: Indices,
    probabilities: Array,
    rewards: Array,
    n_states: int,
    at: Indices,
    indices: Codes | Indices,
    data: Array,
    mean: Array,
    /,
) -> tuple[int, float, float]:
    """Checks the outcomes of n pairs and stores them as rows; the first refused pair or -1, and two sums."""

