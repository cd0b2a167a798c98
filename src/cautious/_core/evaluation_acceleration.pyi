"""The best combination of a few corrections after evaluation passes."""

from cautious.arrays import Array, Codes, Indices

STEP_CORRECTIONS: int
def step_products(
    v0: Array,
    v1: Array,
    v2: Array,
    v3: Array,
    products: Array,
    first: int,
    last: int,
    /,
) -> None:
    """Inner products of the last two steps as corrections, piece by piece."""

def passes_suffice(
    products: Array,
    n_states: int,
    /,
) -> bool:
    """Whether corrections along paths are not worth their time."""

def add_steps(
    v1: Array,
    v2: Array,
    v3: Array,
    c: Array,
    first: int,
    last: int,
    /,
) -> None:
    """Adds the last two steps, with their weights, to v3."""

def tabulate_steps(
    v0: Array,
    v1: Array,
    v2: Array,
    v3: Array,
    products: Array,
    gain: Array,
    y: Array,
    first: int,
    last: int,
    /,
) -> None:
    """Writes the step corrections into the tables; v1 becomes the residual."""

def apply_correction(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    gamma: float,
    g: Array,
    gain: Array,
    y: Array,
    first: int,
    last: int,
    /,
) -> None:
    """gain = gamma P g and y = g - gain of one correction."""

def correction_products(
    y: Array,
    r: Array,
    products: Array,
    first: int,
    last: int,
    /,
) -> None:
    """Inner products of all corrections, piece by piece."""

def best_weights(
    products: Array,
    m: int,
    n_states: int,
    /,
) -> Array:
    """The weights of the corrections that leave the residual of the least variance."""

def add_corrections(
    v: Array,
    gain: Array,
    c: Array,
    first: int,
    last: int,
    /,
) -> None:
    """Adds the corrections, with their weights, to v."""

