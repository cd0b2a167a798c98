"""The small problem of column generation by a primal-dual interior point."""

from cautious.arrays import Array, Codes, Indices, Letters

def units(
    returns: Array,
    features: Array,
    floor: Array,
    group: Indices,
    least: float,
    /,
) -> tuple[float, Array]:
    """Units of the returns and of each feature."""

def scaled_columns(
    returns: Array,
    features: Array,
    chosen: Indices,
    unit: float,
    size: Array,
    group: Indices,
    /,
) -> tuple[Array, Array]:
    """Profits and features of the chosen columns in these units."""

def normalised_prices(
    prices: Array,
    group: Indices,
    totals: Array,
    /,
) -> Array:
    """Positive prices, those of a group scaled to its total."""

def solve_linear(
    matrix: Array,
    right: Array,
    /,
) -> None:
    """Solve in place; a pivot of zero leaves its unknown at zero."""

def newton_system(
    a: Array,
    group: Indices,
    own: Array,
    d: Array,
    pull: Array,
    gaps: Array,
    lacks: Array,
    total: float,
    matrix: Array,
    right: Array,
    /,
) -> None:
    """Matrix and right side for the changes of rows, groups and sum."""

def central_point(
    p: Array,
    c: Array,
    a: Array,
    h: Array,
    f: Array,
    group: Indices,
    q: Array,
    centre: Array,
    mu_end: float,
    /,
) -> tuple[Array, Array, float]:
    """Weights and prices on the central path, and what is still amiss there."""

def null_vector(
    matrix: Array,
    order: Indices,
    x: Array,
    /,
) -> None:
    """x with matrix x = 0; matrix and order are used up."""

def reduce_support(
    returns: Array,
    system: Array,
    weights: Array,
    /,
) -> None:
    """Leave weight on no more columns than the system has rows."""

def expected_reward(
    reward: Array,
    actions: Letters | Codes | Indices,
    states: Array,
    /,
) -> float:
    """What a behaviour is paid by a table of rewards."""

def nearest(
    asked: Array,
    near: Array,
    most: int,
    /,
) -> Indices:
    """The plans at the nearest prices, the nearest first."""

def curvature(
    steps: Array,
    rises: Array,
    lengths: Array,
    /,
) -> Array:
    """The positive matrix that best explains how slopes rise."""

def least_by_plans(
    asked: Array,
    slopes: Array,
    near: Array,
    most: int,
    reach: float,
    caution: Array,
    floor: Array,
    group: Indices,
    totals: Array,
    /,
) -> tuple[Array, float]:
    """The prices that minimise the bound by the nearest plans, and the mean curvature."""

