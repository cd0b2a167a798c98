"""Bellman sweeps, and evaluation passes over the chain of one policy."""

from cautious.arrays import Array, Codes, Indices, Mask

BLOCK: int
PIECE: int
SUMMARY: int
def block_lengths(
    indptr: Codes | Indices,
    rows_per_block: int,
    /,
) -> Indices:
    """For each block of rows how long they all are; 0 where they differ."""

def bellman(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    lengths: Indices,
    r: Array,
    gamma: float,
    v: Array,
    scope: Mask,
    xi: Array,
    action: Indices,
    out: Array,
    summaries: Array,
    first: int,
    last: int,
    /,
) -> None:
    """One optimality sweep over pieces of states: out = T v and the best actions."""

def combine_summaries(
    summaries: Array,
    /,
) -> tuple[float, float, float, float, float]:
    """The summary of all pieces together."""

def evaluate(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    lengths: Indices,
    b: Array,
    gamma: float,
    old_values: Array,
    new_values: Array,
    first: int,
    last: int,
    /,
) -> None:
    """new = b + gamma P_pi old on pieces of states."""

def bellman_in_place(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    gamma: float,
    v: Array,
    backwards: bool,
    /,
) -> None:
    """v <- T v, state by state."""

