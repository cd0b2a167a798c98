"""A simplified model in which each pair leads to its likeliest outcome."""

from cautious.arrays import Array, Codes, Indices, Mask

def mean_largest_chance(
    indptr: Codes | Indices,
    data: Array,
    sample: int,
    /,
) -> float:
    """The largest probability of a pair, on average over about `sample` pairs."""

def likely_moves(
    base: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    n_states: int,
    target: Codes | Indices,
    weight: Array,
    /,
) -> None:
    """Where each pair of a block most likely leads, and the discount until then."""

def follow_moves(
    target: Codes | Indices,
    weight: Array,
    r: Array,
    w: Array,
    backwards: bool,
    /,
) -> float:
    """Raises w to the best that a pair offers; the largest increase."""

def change_moves(
    pointer: Codes | Indices,
    successor: Codes | Indices,
    chance: Array,
    gamma: float,
    action: Indices,
    held: Indices,
    target: Codes | Indices,
    weight: Array,
    /,
) -> bool:
    """Brings the likely moves of the held actions to those of `action`; whether one of them changed."""

def order_moves(
    target: Codes | Indices,
    order: Codes | Indices,
    closes: Mask,
    /,
) -> None:
    """The states, each after the one it leads to, except for one of each cycle, which are in `closes`."""

def sum_along_paths(
    target: Codes | Indices,
    weight: Array,
    order: Codes | Indices,
    closes: Mask,
    gamma: float,
    r: Array,
    z: Array,
    /,
) -> None:
    """z: the discounted sum of r along the likely path from each state."""

