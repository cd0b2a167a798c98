"""The Markov chain of one policy and its linear systems."""

from cautious.arrays import Array, Codes, Indices

WORK_VECTORS: int
MAX_BLOCK: int
def choose_rows(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    action: Indices,
    pointer: Codes | Indices,
    successor: Codes | Indices,
    chance: Array,
    b: Array,
    /,
) -> None:
    """The chain of a deterministic policy and its reward b (S,)."""

def change_rows(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    action: Indices,
    held: Indices,
    pointer: Codes | Indices,
    successor: Codes | Indices,
    chance: Array,
    b: Array,
    /,
) -> bool:
    """Bring the chain of the held actions to those of `action`; False if a row has not the same length."""

def mix_rows(
    base: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    pi: Array,
    pointer: Codes | Indices,
    successor: Codes | Indices,
    chance: Array,
    place: Codes | Indices,
    /,
) -> None:
    """The chain of any policy (S*A,) in the states of a block."""

def missing_flow(
    pointer: Codes | Indices,
    successor: Codes | Indices,
    chance: Array,
    gamma: float,
    b: Array,
    x: Array,
    out: Array,
    /,
) -> float:
    """out = b + gamma P' x - x; its 1-norm."""

def substitute(
    pointer: Codes | Indices,
    successor: Codes | Indices,
    chance: Array,
    order: Indices,
    block: Indices,
    largest: int,
    transposed: bool,
    b: Array,
    x: Array,
    /,
) -> None:
    """x = (I - P)^-1 b, or with P', for a chain without cycles but in blocks of at most `largest` states."""

def scaled_rows(
    pointer: Codes | Indices,
    successor: Codes | Indices,
    chance: Array,
    gamma: float,
    weight: Array,
    inverse: Array,
    /,
) -> None:
    """The entries of the chain beside its diagonal, scaled for bicgstab, and 1 / (1 - gamma P(s, s))."""

def bicgstab(
    pointer: Codes | Indices,
    successor: Codes | Indices,
    weight: Array,
    inverse: Array,
    transposed: bool,
    b: Array,
    tolerance: float,
    most: int,
    x: Array,
    work: Array,
    /,
) -> int:
    """x = (I - gamma P)^-1 b, or with P'; how many steps it took."""

