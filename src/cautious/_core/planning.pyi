"""Bellman sweeps, and evaluation passes over the chain of one policy."""

from cautious.arrays import Array, Codes, Indices, Mask

PIECE: int
SUMMARY: int
KEPT_ITERATES: int
def bellman(
    base: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
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
    b: Array,
    gamma: float,
    old_values: Array,
    new_values: Array,
    first: int,
    last: int,
    /,
) -> None:
    """new = b + gamma P_pi old on pieces of states."""

def evaluate_repeatedly(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    b: Array,
    gamma: float,
    v: Array,
    passes: int,
    iterates: Array,
    /,
) -> None:
    """The last four iterates of v <- b + gamma P_pi v."""

def bellman_in_place(
    base: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    gamma: float,
    v: Array,
    backwards: bool,
    /,
) -> None:
    """v <- T v in the states of a block, state by state."""

def bellman_in_order(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    order: Indices,
    block: Indices,
    group: Indices,
    sweeps: int,
    aim: float,
    v: Array,
    /,
) -> float:
    """v <- T v without discount, block by block from the last one, each until it changes by less than aim."""

