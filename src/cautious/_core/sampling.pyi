"""Random numbers, draws from tables, counts, and sweeps of the practical Algorithm 1."""

from cautious.arrays import Array, Codes, Indices, Mask

def uniform(
    seed: int,
    counter: int,
    /,
) -> float:
    """The number in [0, 1) at a place of the stream of a seed."""

def uniforms(
    seed: int,
    out: Array,
    /,
) -> None:
    """The first numbers of a stream."""

def running_sums(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    data: Array,
    out: Array,
    /,
) -> None:
    """Running sums that restart in every row."""

def draw_successors(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    cumulative: Array,
    rows: Indices,
    uniforms: Array,
    /,
) -> Indices:
    """For each row, the position in the arrays of the successor that a uniform number selects."""

def draw_hits(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    cumulative: Array,
    n: Indices,
    seed: int,
    hits: Indices,
    /,
) -> None:
    """Draw n successors of every row; hits counts which entries came out."""

def fill_slots(
    slots: Indices,
    keys: Indices,
    used: int,
    /,
) -> None:
    """Enter the first keys, all different, into an empty hash table."""

def add_groups(
    slots: Indices,
    keys: Indices,
    count: Indices,
    first: Array,
    shift: Array,
    square: Array,
    used: int,
    new_keys: Indices,
    new_count: Indices,
    new_first: Array,
    new_shift: Array,
    new_square: Array,
    /,
) -> int:
    """Add groups of rewards; returns how many different keys there are now."""

def plan_samples(
    d: Array,
    allowed: Mask,
    delta: float,
    batch: int,
    offset: float,
    w: Array,
    n: Indices,
    /,
) -> int:
    """Systematic sampling: how often to draw each pair; returns the sum of n."""

def draw_samples(
    indptr: Codes | Indices,
    indices: Codes | Indices,
    cumulative: Array,
    pay: Array,
    pay_per_outcome: bool,
    n: Indices,
    seed: int,
    counter: int,
    s_next: Indices,
    r_hat: Array,
    /,
) -> None:
    """Draw next states and rewards from the rows of a table."""

def gather_samples(
    n: Indices,
    w: Array,
    s_next: Indices,
    r_hat: Array,
    d: Array,
    v: Array,
    gamma: float,
    rate: float,
    q: Array,
    inflow: Array,
    /,
) -> None:
    """Move q towards the samples, and estimate the flow into every state."""

def add_rewards(
    n: Indices,
    r_hat: Array,
    paid: Array,
    drawn: Indices,
    /,
) -> None:
    """Add the rewards and the numbers of samples of each pair."""

def move_marginal(
    inflow: Array,
    xi: Array,
    gamma: float,
    rate: float,
    weight: float,
    x: Array,
    y_bar: Array,
    /,
) -> None:
    """Move the state marginal and its average towards balance."""

def weighted_deviation(
    u: Array,
    w: Array,
    /,
) -> float:
    """Standard deviation of u under the weights w."""

def add_log_marginal(
    x: Array,
    tau: float,
    floor: float,
    u: Array,
    /,
) -> None:
    """Add tau log x(s) to every pair of s."""

def improve_policy(
    q: Array,
    u: Array,
    allowed: Mask,
    eta: float,
    tau: float,
    log_mu: Array,
    big_q: Array,
    log_pi: Array,
    v: Array,
    /,
) -> None:
    """The policy's step; overwrites Q, the policy and its values."""

def update_occupancy(
    allowed: Mask,
    log_pi: Array,
    x: Array,
    weight: float,
    horizon: float,
    v: Array,
    d: Array,
    d_bar: Array,
    /,
) -> None:
    """Centre v, set d = x pi, and move the average of d."""

