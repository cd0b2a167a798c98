"""The entry-by-entry work of the interior point method."""

from cautious.arrays import Array, Indices

def reach(
    x: Array,
    change: Array,
    /,
) -> float:
    """The largest step that keeps x + step * change >= 0."""

def reaches(
    x: Array,
    change: Array,
    other: Array,
    /,
) -> tuple[float, float, float, float]:
    """The same for four mixtures of two changes."""

def furthest(
    x: Array,
    /,
) -> float:
    """The largest |x|."""

def excess(
    x: Array,
    y: Array,
    /,
) -> float:
    """The largest x - y, if any is above zero."""

def mean_product(
    x: Array,
    z: Array,
    dx: Array,
    dz: Array,
    along: float,
    along_dual: float,
    n_free: int,
    targets: Array,
    /,
) -> tuple[float, float]:
    """Means of the products that tend to zero, now and after a step."""

def straight(
    x: Array,
    z: Array,
    targets: Array,
    wanted: Array,
    /,
) -> None:
    """Changes of the products for the predictor."""

def curved(
    x: Array,
    z: Array,
    dx: Array,
    dz: Array,
    aim: float,
    most: float,
    n_free: int,
    targets: Array,
    wanted: Array,
    /,
) -> None:
    """The same for the corrector."""

def centred(
    x: Array,
    z: Array,
    dx: Array,
    dz: Array,
    along: float,
    along_dual: float,
    aim: float,
    n_free: int,
    targets: Array,
    wanted: Array,
    /,
) -> None:
    """The same for a further correction."""

def pushed(
    residual: Array,
    wanted: Array,
    x: Array,
    out: Array,
    /,
) -> None:
    """out = residual + wanted / x."""

def moved(
    x: Array,
    change: Array,
    length: float,
    out: Array,
    /,
) -> None:
    """out = x + length * change."""

def draw(
    change: Array,
    other: Array,
    share: float,
    /,
) -> None:
    """other = change + share * (other - change)."""

def changes(
    x: Array,
    z: Array,
    wanted: Array,
    dx: Array,
    dz: Array,
    /,
) -> tuple[float, float]:
    """dz for which x dz + z dx = wanted; how far x and z reach."""

def soften(
    y: Array,
    z: Array,
    curvature: Array,
    /,
) -> None:
    """curvature = 1 / (z / y + curvature)."""

def opposed(
    x: Array,
    other: Array,
    z: Array,
    of_other: Array,
    /,
) -> float:
    """The products of opposite variables that have cancelled, summed."""

def flow_changes(
    tail: Indices,
    head: Indices,
    potentials: Array,
    x: Array,
    z: Array,
    wanted: Array,
    dx: Array,
    dz: Array,
    missing: Array,
    /,
) -> None:
    """Changes of the flows for a change of potentials."""

def kink_curvature(
    t: Array,
    s: Array,
    of_t: Array,
    of_s: Array,
    out: Array,
    /,
) -> None:
    """How much a kink's slope changes with its entry."""

def kink_offset(
    away: Array,
    t: Array,
    s: Array,
    of_t: Array,
    of_s: Array,
    wanted_t: Array,
    wanted_s: Array,
    bend: Array,
    out: Array,
    less: Array,
    /,
) -> None:
    """The change of a kink's slope when its entry does not change."""

def kink_changes(
    t: Array,
    s: Array,
    of_t: Array,
    of_s: Array,
    wanted_t: Array,
    wanted_s: Array,
    dt: Array,
    ds: Array,
    dof_t: Array,
    dof_s: Array,
    offset: Array,
    bend: Array,
    change: Array,
    /,
) -> tuple[float, float]:
    """Changes of both sides of a kink and of their multipliers; how far they reach."""

