"""The certificate's own loops: bounds that include rounding, and exact sums."""

from cautious.arrays import Array, Codes, Indices, Mask

def largest_advantage(
    base: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    size: Array,
    active: Mask,
    gamma: float,
    v: Array,
    unit: float,
    /,
) -> float:
    """The largest r + gamma E[v] - v over the active pairs, raised by what rounding can hide; NaN if not finite."""

def largest_rise(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    size: Array,
    active: Mask,
    v: Array,
    unit: float,
    /,
) -> float:
    """The largest r + E[v] - v over the active pairs, by differences of v, raised by what rounding can hide."""

def policy_advantages(
    base: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    pi: Array,
    active: Mask,
    counted: Mask,
    gamma: float,
    v: Array,
    unit: float,
    /,
) -> tuple[float, float]:
    """Least and largest r_pi + gamma E_pi[v] - v of a policy over the counted states, moved outwards."""

def exact_advantages(
    base: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    doubt: Array,
    share: float,
    active: Mask,
    gamma: float,
    v: Array,
    rest: Array,
    unit: float,
    out: Array,
    /,
) -> float:
    """out = r + gamma E[v + rest] - (v + rest) in twice the working precision; the largest, raised by what is not known."""

def exact_policy_advantages(
    base: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    r: Array,
    doubt: Array,
    share: float,
    pi: Array,
    active: Mask,
    counted: Mask,
    gamma: float,
    v: Array,
    rest: Array,
    unit: float,
    out: Array,
    /,
) -> tuple[float, float]:
    """The same of a policy, averaged over its actions; the least and the largest, moved outwards."""

def largest_sum_error(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    active: Mask,
    /,
) -> float:
    """The largest distance from one of the sum of chances of an active pair, in twice the working precision."""

def compensated_dot(
    x: Array,
    y: Array,
    /,
) -> tuple[float, float]:
    """(<x, y>, <|x|, |y|>), the first summed with compensation."""

def subtract_slope(
    slope: Array,
    price: float,
    active: Mask,
    r: Array,
    size: Array,
    /,
) -> float:
    """r -= price slope, size += |price slope|; the largest |slope| of an active pair."""

def largest_reward_taken(
    r: Array,
    pi: Array,
    reached: Mask,
    /,
) -> float:
    """The largest |r| of the pairs that a policy takes in the reached states."""

def add_inflow(
    base: int,
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    pi: Array,
    x: Array,
    inflow: Array,
    /,
) -> None:
    """inflow (S, 2) += P_pi' x from the states of a block, in twice the working precision."""

def flow_balance(
    inflow: Array,
    x: Array,
    xi: Array,
    gamma: float,
    out: Array,
    /,
) -> float:
    """out = (1 - gamma) xi + gamma P_pi' x - x, given all inflow; its 1-norm."""

def pair_occupancy(
    pi: Array,
    x: Array,
    total: float,
    out: Array,
    /,
) -> None:
    """out = pi(a | s) x(s) / total, (S*A,)."""

