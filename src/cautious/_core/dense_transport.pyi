"""The parts of a dense interior point whose work grows with a table."""

from cautious.arrays import Array, Codes, Indices

def weights(
    amount: Array,
    slack: Array,
    weight: Array,
    rows: Array,
    columns: Array,
    /,
) -> None:
    """weight = amount / slack, and its sums over rows and columns."""

def excess(
    cost: Array,
    f: Array,
    g: Array,
    amount: Array,
    slack: Array,
    d_amount: Array,
    d_slack: Array,
    mu: float,
    rows: Array,
    columns: Array,
    /,
) -> None:
    """Sums of how much too large the amounts would be if f and g did not change."""

def changes(
    cost: Array,
    f: Array,
    g: Array,
    amount: Array,
    slack: Array,
    d_amount: Array,
    d_slack: Array,
    mu: float,
    df: Array,
    dg: Array,
    /,
) -> tuple[float, float]:
    """Set the changes that go with df and dg; how far amounts and slacks can follow them."""

def add_normal_matrix(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    w: Array,
    out: Array,
    /,
) -> None:
    """out += B' diag(w) B."""

