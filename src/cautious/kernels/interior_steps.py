"""The entry-by-entry work of the interior point method, each formula in one pass and without temporaries.

Legend: ``x`` and ``z`` are variables and multipliers, ``dx`` and ``dz`` a step; the first ``n_free`` products x z tend
to zero, those after them to ``targets``, which is zero except for barriers; ``wanted`` are the changes of the products
that a direction has to make.

Compilers make vectors of a loop that writes one array, divides without asking for zeros, and may add in any order:
hence the options below, and one loop for every array unless vectors are written out.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.vector_ratios import larger, largest, over
from cautious.kernels.vectors import LANES, load, minus_product, plus_product, spread, store, times

# sums may be taken in any order; minima and maxima mind neither that nor numbers that are none
SUMS = {"reassoc", "contract", "nsz"}
BOUNDS = {"nnan", "nsz"}
TINY = 1e-30


@njit(cache=True, nogil=True, error_model="numpy")
def reach(x: Array, change: Array) -> float:
    """The largest step, at most 1e30, that keeps x + step * change >= 0."""
    zero, most = spread(0.0), spread(TINY)
    whole = x.size - x.size % LANES
    for i in range(0, whole, LANES):
        most = larger(over(minus_product(zero, load(change, i), spread(1.0)), load(x, i)), most)
    rate = largest(most)
    for i in range(whole, x.size):
        rate = max(rate, -change[i] / x[i])
    return float(1 / rate)


@njit(cache=True, nogil=True, error_model="numpy")
def reaches(x: Array, change: Array, other: Array) -> tuple[float, float, float, float]:
    """As ``reach``, for the steps that are one, two, three and four quarters on the way from a change to another."""
    a, b, c, d = spread(TINY), spread(TINY), spread(TINY), spread(TINY)
    quarter, half, three = spread(0.25), spread(0.5), spread(0.75)
    whole = x.size - x.size % LANES
    for i in range(0, whole, LANES):
        scale = over(spread(-1.0), load(x, i))
        first, last = times(scale, load(change, i)), times(scale, load(other, i))
        way = minus_product(last, first, spread(1.0))
        a, b = larger(plus_product(first, quarter, way), a), larger(plus_product(first, half, way), b)
        c, d = larger(plus_product(first, three, way), c), larger(last, d)
    most = np.array([largest(a), largest(b), largest(c), largest(d)])
    for i in range(whole, x.size):
        for k in range(4):
            most[k] = max(most[k], -(change[i] + (k + 1) / 4 * (other[i] - change[i])) / x[i])
    return 1 / most[0], 1 / most[1], 1 / most[2], 1 / most[3]


@njit(cache=True, nogil=True)
def furthest(x: Array) -> float:
    """The largest |x|; numbers that are none may be overlooked."""
    zero, one, most = spread(0.0), spread(1.0), spread(0.0)
    whole = x.size - x.size % LANES
    for i in range(0, whole, LANES):
        here = load(x, i)
        most = larger(here, larger(minus_product(zero, here, one), most))
    found = largest(most)
    for i in range(whole, x.size):
        found = max(found, abs(x[i]))
    return float(found)


@njit(cache=True, nogil=True)
def excess(x: Array, y: Array) -> float:
    """The largest x - y, if any is above zero; numbers that are none may be overlooked."""
    one, most = spread(1.0), spread(0.0)
    whole = x.size - x.size % LANES
    for i in range(0, whole, LANES):
        most = larger(minus_product(load(x, i), load(y, i), one), most)
    found = largest(most)
    for i in range(whole, x.size):
        found = max(found, x[i] - y[i])
    return float(found)


@njit(cache=True, nogil=True, fastmath=SUMS)
def mean_product(
    x: Array, z: Array, dx: Array, dz: Array, along: float, along_dual: float, n_free: int, targets: Array
) -> tuple[float, float]:
    """(mean now, mean after the step) of the products that tend to zero."""
    now, then, count = 0.0, 0.0, n_free
    for i in range(n_free):
        now += x[i] * z[i]
        then += (x[i] + along * dx[i]) * (z[i] + along_dual * dz[i])
    for i in range(n_free, x.size):
        if targets[i] == 0.0:
            now += x[i] * z[i]
            then += (x[i] + along * dx[i]) * (z[i] + along_dual * dz[i])
            count += 1
    return now / max(count, 1), then / max(count, 1)


@njit(cache=True, nogil=True)
def straight(x: Array, z: Array, targets: Array, wanted: Array) -> None:
    """``wanted`` of the predictor: all the way."""
    for i in range(x.size):
        wanted[i] = targets[i] - x[i] * z[i]


@njit(cache=True, nogil=True, fastmath=BOUNDS)
def curved(
    x: Array, z: Array, dx: Array, dz: Array, aim: float, most: float, n_free: int, targets: Array, wanted: Array
) -> None:
    """``wanted`` of the corrector: to ``aim``, less the second order of the predictor, at most ``most``.

    The second order of a barrier's product says little far from its target, and is left out.
    """
    for i in range(n_free):
        wanted[i] = aim - x[i] * z[i] - min(max(dx[i] * dz[i], -most), most)
    for i in range(n_free, x.size):
        second = min(max(dx[i] * dz[i], -most), most)
        wanted[i] = (aim - second if targets[i] == 0.0 else targets[i]) - x[i] * z[i]


@njit(cache=True, nogil=True, fastmath=BOUNDS)
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
) -> None:
    """``wanted`` of a further correction to a step.

    Products that a longer step, of these lengths, would leave far from ``aim`` are drawn back.
    """
    for i in range(n_free):
        then = (x[i] + along * dx[i]) * (z[i] + along_dual * dz[i])
        drawn = max(min(max(then, 0.1 * aim), 10 * aim) - then, -10 * aim)
        wanted[i] = x[i] * dz[i] + z[i] * dx[i] + drawn
    for i in range(n_free, x.size):
        then = (x[i] + along * dx[i]) * (z[i] + along_dual * dz[i])
        drawn = max(min(max(then, 0.1 * aim), 10 * aim) - then, -10 * aim)
        wanted[i] = x[i] * dz[i] + z[i] * dx[i] + (drawn if targets[i] == 0.0 else 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def pushed(residual: Array, wanted: Array, x: Array, out: Array) -> None:
    """out = residual + wanted / x."""
    for i in range(x.size):
        out[i] = residual[i] + wanted[i] / x[i]


@njit(cache=True, nogil=True)
def moved(x: Array, change: Array, length: float) -> Array:
    """x + length * change."""
    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = x[i] + length * change[i]
    return out


@njit(cache=True, nogil=True)
def draw(change: Array, other: Array, share: float) -> None:
    """other = change + share * (other - change)."""
    for i in range(change.size):
        other[i] = change[i] + share * (other[i] - change[i])


@njit(cache=True, nogil=True, error_model="numpy")
def changes(x: Array, z: Array, wanted: Array, dx: Array, dz: Array) -> tuple[float, float]:
    """dz for which x dz + z dx = wanted; then what ``reach`` says of x and of z."""
    zero, one, most, most_dual = spread(0.0), spread(1.0), spread(TINY), spread(TINY)
    whole = x.size - x.size % LANES
    for i in range(0, whole, LANES):
        change, other = load(dx, i), load(z, i)
        share = over(one, load(x, i))
        found = times(share, minus_product(load(wanted, i), other, change))
        store(dz, i, found)
        most = larger(minus_product(zero, share, change), most)
        most_dual = larger(over(minus_product(zero, found, one), other), most_dual)
    rate, rate_dual = largest(most), largest(most_dual)
    for i in range(whole, x.size):
        dz[i] = (wanted[i] - z[i] * dx[i]) / x[i]
        rate, rate_dual = max(rate, -dx[i] / x[i]), max(rate_dual, -dz[i] / z[i])
    return 1 / rate, 1 / rate_dual


@njit(cache=True, nogil=True, error_model="numpy")
def soften(y: Array, z: Array, curvature: Array) -> None:
    """curvature = 1 / (z / y + curvature)."""
    for i in range(y.size):
        curvature[i] = y[i] / (z[i] + curvature[i] * y[i])


@njit(cache=True, nogil=True, fastmath=SUMS | BOUNDS)
def opposed(x: Array, other: Array, z: Array, of_other: Array) -> float:
    """The sum of the products of two opposite variables, such as the sides of a kink, once they have cancelled."""
    gap = 0.0
    for i in range(x.size):
        net = x[i] - other[i]
        gap += max(net, 0.0) * z[i] + max(-net, 0.0) * of_other[i]
    return gap


@njit(cache=True, nogil=True, error_model="numpy")
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
) -> None:
    """Changes of the flows (first along, then against the edges) for a change of potentials.

    What they carry away is taken from ``missing``, if there is one.
    """
    n_edges = tail.size
    for e in range(n_edges):
        dz[e + n_edges] = potentials[np.uint64(tail[e])] - potentials[np.uint64(head[e])]
    for e in range(n_edges):
        dz[e] = -dz[e + n_edges]
    for e in range(2 * n_edges):
        dx[e] = (wanted[e] - x[e] * dz[e]) / z[e]
    if missing.size > 0:
        for e in range(n_edges):
            net = dx[e] - dx[e + n_edges]
            missing[np.uint64(tail[e])] -= net
            missing[np.uint64(head[e])] += net
