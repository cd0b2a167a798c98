"""The entry-by-entry work of the interior point method, each formula in one pass and without temporaries.

Legend: ``x`` and ``z`` are variables and multipliers, ``dx`` and ``dz`` a step; ``targets`` is what the products x z
tend to, zero except for barriers; ``wanted`` the changes of the products that a direction has to make.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices


@njit(cache=True, nogil=True)
def longest_step(x: Array, change: Array) -> float:
    """The largest step, at most 1e30, that keeps x + step * change >= 0."""
    step = 1e30
    for i in range(x.size):
        if change[i] < 0 and -x[i] > step * change[i]:
            step = -x[i] / change[i]
    return step


@njit(cache=True, nogil=True)
def mean_product(
    x: Array, z: Array, dx: Array, dz: Array, along: float, along_dual: float, targets: Array
) -> tuple[float, float]:
    """(mean now, mean after the step) of the products that tend to zero."""
    now, then, count = 0.0, 0.0, 0
    for i in range(x.size):
        if targets[i] == 0.0:
            now += x[i] * z[i]
            then += (x[i] + along * dx[i]) * (z[i] + along_dual * dz[i])
            count += 1
    return now / max(count, 1), then / max(count, 1)


@njit(cache=True, nogil=True)
def straight(x: Array, z: Array, targets: Array) -> Array:
    """``wanted`` of the predictor: all the way."""
    wanted = np.empty(x.size)
    for i in range(x.size):
        wanted[i] = targets[i] - x[i] * z[i]
    return wanted


@njit(cache=True, nogil=True)
def curved(x: Array, z: Array, dx: Array, dz: Array, aim: float, most: float, targets: Array) -> Array:
    """``wanted`` of the corrector: to ``aim``, less the second order of the predictor, at most ``most``.

    The second order of a barrier's product says little far from its target, and is left out.
    """
    wanted = np.empty(x.size)
    for i in range(x.size):
        if targets[i] == 0.0:
            wanted[i] = aim - x[i] * z[i] - min(max(dx[i] * dz[i], -most), most)
        else:
            wanted[i] = targets[i] - x[i] * z[i]
    return wanted


@njit(cache=True, nogil=True)
def centred(
    x: Array, z: Array, dx: Array, dz: Array, along: float, along_dual: float, aim: float, targets: Array, wanted: Array
) -> Array:
    """``wanted`` of a further correction: products that a longer step would leave far from ``aim`` are drawn back."""
    out = wanted.copy()
    for i in range(x.size):
        if targets[i] == 0.0:
            then = (x[i] + along * dx[i]) * (z[i] + along_dual * dz[i])
            out[i] += max(min(max(then, 0.1 * aim), 10 * aim) - then, -10 * aim)
    return out


@njit(cache=True, nogil=True)
def pushed(residual: Array, wanted: Array, x: Array) -> Array:
    """residual + wanted / x."""
    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = residual[i] + wanted[i] / x[i]
    return out


@njit(cache=True, nogil=True)
def changes(x: Array, z: Array, wanted: Array, dx: Array, dz: Array) -> None:
    """dz for which x dz + z dx = wanted."""
    for i in range(x.size):
        dz[i] = (wanted[i] - z[i] * dx[i]) / x[i]


@njit(cache=True, nogil=True)
def kink_offset(
    entries: Array,
    prior: Array,
    t: Array,
    s: Array,
    wanted_t: Array,
    wanted_s: Array,
    of_t: Array,
    of_s: Array,
    curvature: Array,
) -> Array:
    """The change of a kink's slope u when its entry does not change; ``of_t`` and ``of_s`` are the multipliers."""
    out = np.empty(t.size)
    for i in range(t.size):
        residual = entries[i] - prior[i] - t[i] + s[i]
        out[i] = curvature[i] * (residual + wanted_s[i] / of_s[i] - wanted_t[i] / of_t[i])
    return out


@njit(cache=True, nogil=True)
def kink_changes(slope: Array, x: Array, z: Array, wanted: Array, sign: float, dx: Array, dz: Array) -> None:
    """One side of a kink: its multiplier changes by ``sign`` times the slope's change, its variable accordingly."""
    for i in range(x.size):
        dz[i] = sign * slope[i]
        dx[i] = (wanted[i] - x[i] * dz[i]) / z[i]


@njit(cache=True, nogil=True)
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

    What they carry away is taken from ``missing``.
    """
    n_edges = tail.size
    for e in range(n_edges):
        f = e + n_edges
        i, j = np.uint64(tail[e]), np.uint64(head[e])
        change = potentials[i] - potentials[j]
        dz[e], dz[f] = -change, change
        dx[e], dx[f] = (wanted[e] + x[e] * change) / z[e], (wanted[f] - x[f] * change) / z[f]
        net = dx[e] - dx[f]
        missing[i] -= net
        missing[j] += net
