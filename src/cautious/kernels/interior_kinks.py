"""Kinks in the interior point method, entry by entry: each formula in one pass, in vectors that are written out.

Legend: an entry is ``away`` from its prior by t - s; ``of_t`` and ``of_s`` are the multipliers of t and s, the latter
the kink's slope u. Products of t and s with theirs are to change by ``wanted_t`` and ``wanted_s``.
"""

from numba import njit

from cautious.arrays import Array
from cautious.kernels.interior_steps import TINY
from cautious.kernels.vector_ratios import larger, largest, over
from cautious.kernels.vectors import LANES, load, minus_product, plus, plus_product, spread, store, times


@njit(cache=True, nogil=True, error_model="numpy")
def curvature(t: Array, s: Array, of_t: Array, of_s: Array, out: Array) -> None:
    """How much a kink's slope u changes with its entry."""
    for i in range(t.size):
        # a division less than with three quotients, and no product of multipliers, which may be tiny
        out[i] = of_t[i] / (t[i] + s[i] * (of_t[i] / of_s[i]))


@njit(cache=True, nogil=True, error_model="numpy")
def offset(
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
) -> None:
    """The change of a kink's slope u when its entry does not change; ``bend`` is its curvature.

    It is subtracted from ``less``, unless that is empty.
    """
    one = spread(1.0)
    whole = t.size - t.size % LANES
    for i in range(0, whole, LANES):
        residual = plus(minus_product(load(away, i), load(t, i), one), load(s, i))
        residual = plus(residual, over(load(wanted_s, i), load(of_s, i)))
        found = times(load(bend, i), minus_product(residual, over(load(wanted_t, i), load(of_t, i)), one))
        store(out, i, found)
        if less.size > 0:
            store(less, i, minus_product(load(less, i), found, one))
    for i in range(whole, t.size):
        residual_here = away[i] - t[i] + s[i]
        out[i] = bend[i] * (residual_here + wanted_s[i] / of_s[i] - wanted_t[i] / of_t[i])
        if less.size > 0:
            less[i] -= out[i]


@njit(cache=True, nogil=True, error_model="numpy")
def changes(
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
) -> tuple[float, float]:
    """Changes of both sides of a kink, whose entry has this ``change``, and of their multipliers.

    Returns how long a step may be for t and s to stay positive, and for their multipliers.
    """
    zero, one, most, most_dual = spread(0.0), spread(1.0), spread(TINY), spread(TINY)
    whole = t.size - t.size % LANES
    for i in range(0, whole, LANES):
        slope = plus_product(load(offset, i), load(bend, i), load(change, i))
        opposite = minus_product(zero, slope, one)
        store(dof_t, i, opposite)
        store(dof_s, i, slope)
        here, share = load(t, i), over(one, load(of_t, i))
        found = times(share, plus_product(load(wanted_t, i), here, slope))
        store(dt, i, found)
        most = larger(over(minus_product(zero, found, one), here), most)
        most_dual = larger(times(share, slope), most_dual)
        here, share = load(s, i), over(one, load(of_s, i))
        found = times(share, plus_product(load(wanted_s, i), here, opposite))
        store(ds, i, found)
        most = larger(over(minus_product(zero, found, one), here), most)
        most_dual = larger(times(share, opposite), most_dual)
    rate, rate_dual = largest(most), largest(most_dual)
    for i in range(whole, t.size):
        dof_s[i] = offset[i] + bend[i] * change[i]
        dof_t[i] = -dof_s[i]
        dt[i], ds[i] = (wanted_t[i] - t[i] * dof_t[i]) / of_t[i], (wanted_s[i] - s[i] * dof_s[i]) / of_s[i]
        rate = max(rate, -dt[i] / t[i], -ds[i] / s[i])
        rate_dual = max(rate_dual, -dof_t[i] / of_t[i], -dof_s[i] / of_s[i])
    return 1 / rate, 1 / rate_dual
