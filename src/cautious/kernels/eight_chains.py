"""The chains of eight policies side by side: what reading a row of the transitions once tells all of them.

Legend: (indptr, indices, data) the transitions, row ``s*A + a``, unsigned indices. A table (n, 8) is flat, number 8 i + l
belongs to policy l; on a boundary of 64 bytes (``aligned``) eight numbers are one access to memory. A *used* row has
a positive weight for some policy: those of state s are ``rows[pointer[s]]`` to ``rows[pointer[s+1]]``, ``w`` (rows, 8)
says how likely each policy takes them; near policies mostly agree. ``inverse`` (S, 8): one over the diagonal of I -
gamma P.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.vector_ratios import larger
from cautious.kernels.vectors import (
    EIGHT_LANES,
    load_eight,
    minus_product,
    plus,
    plus_product,
    spread_eight,
    store,
    times,
)

ONE = np.uint64(1)


def aligned(count: int) -> Array:
    """Room for ``count`` eights of numbers, (8 count,), from a boundary of 64 bytes on."""
    room = np.empty(EIGHT_LANES * (count + 1))
    first = -(room.ctypes.data // room.itemsize) % EIGHT_LANES
    return room[first : first + EIGHT_LANES * count]


@njit(cache=True, nogil=True)
def used_rows(weights: Array, n_states: int, pointer: Indices, rows: Indices) -> None:
    """``pointer`` (S+1,) and ``rows`` (S*A,), as many as there are, of policies with these ``weights`` (S*A, 8)."""
    n_actions, n = weights.size // (EIGHT_LANES * n_states), 0
    for s in range(n_states):
        pointer[s] = n
        for row in range(s * n_actions, (s + 1) * n_actions):
            used = False
            for lane in range(EIGHT_LANES):
                used |= weights[np.uint64(EIGHT_LANES * row + lane)] > 0.0
            if used:
                rows[n] = row
                n += 1
    pointer[n_states] = n


@njit(cache=True, nogil=True)
def diagonals(
    indptr: Indices,
    indices: Indices,
    data: Array,
    pointer: Indices,
    rows: Indices,
    w: Array,
    gamma: float,
    inverse: Array,
) -> None:
    """Fill ``inverse``."""
    for s in range(pointer.size - 1):
        own = spread_eight(1.0)
        for i in range(pointer[s], pointer[s + 1]):
            row = np.uint64(rows[i])
            for k in range(indptr[row], indptr[row + ONE]):
                if np.int64(indices[k]) == s:
                    own = minus_product(own, spread_eight(gamma * data[k]), load_eight(w, EIGHT_LANES * i))
        store(inverse, EIGHT_LANES * s, own)
    for i in range(inverse.size):
        inverse[i] = 1.0 / inverse[i]


@njit(cache=True, nogil=True)
def missing_flow(
    indptr: Indices,
    indices: Indices,
    data: Array,
    pointer: Indices,
    rows: Indices,
    w: Array,
    gamma: float,
    b: Array,
    x: Array,
    out: Array,
) -> Array:
    """out = b + gamma P' x - x, (S, 8); returns the 1-norm of each, (8,). ``b`` (S,) is the same for all."""
    n_states = pointer.size - 1
    for s in range(n_states):
        here = minus_product(spread_eight(b[s]), spread_eight(1.0), load_eight(x, EIGHT_LANES * s))
        store(out, EIGHT_LANES * s, here)
    for s in range(n_states):
        carried = times(spread_eight(gamma), load_eight(x, EIGHT_LANES * s))
        for i in range(pointer[s], pointer[s + 1]):
            part, row = times(carried, load_eight(w, EIGHT_LANES * i)), np.uint64(rows[i])
            for k in range(indptr[row], indptr[row + ONE]):
                at = EIGHT_LANES * np.int64(indices[k])
                store(out, at, plus_product(load_eight(out, at), spread_eight(data[k]), part))
    return sizes(out)


@njit(cache=True, nogil=True)
def sizes(x: Array) -> Array:
    """The 1-norm of each of eight vectors (S, 8)."""
    total, found = spread_eight(0.0), np.empty(EIGHT_LANES)
    for at in range(0, x.size, EIGHT_LANES):
        here = load_eight(x, at)
        total = plus(total, larger(here, minus_product(spread_eight(0.0), spread_eight(1.0), here)))
    store(found, 0, total)
    return found


@njit(cache=True, nogil=True)
def _dots(x: Array, y: Array, found: Array) -> None:
    """Inner products (8,) of eight pairs of vectors."""
    total = spread_eight(0.0)
    for at in range(0, x.size, EIGHT_LANES):
        total = plus_product(total, load_eight(x, at), load_eight(y, at))
    store(found, 0, total)


@njit(cache=True, nogil=True)
def _sweep(
    indptr: Indices,
    indices: Indices,
    data: Array,
    pointer: Indices,
    rows: Indices,
    w: Array,
    inverse: Array,
    gamma: float,
    y: Array,
    z: Array,
    az: Array,
) -> None:
    """z = one symmetric Gauss-Seidel sweep on (I - gamma P') z = y from zero; az = (I - gamma P') z."""
    n_states = pointer.size - 1
    z[:] = 0.0
    az[:] = y
    for number in range(2 * n_states):
        s = number if number < n_states else 2 * n_states - 1 - number
        here = EIGHT_LANES * s
        taken = times(load_eight(az, here), load_eight(inverse, here))
        store(z, here, plus(load_eight(z, here), taken))
        taken = times(taken, spread_eight(gamma))
        for i in range(pointer[s], pointer[s + 1]):
            part, row = times(taken, load_eight(w, EIGHT_LANES * i)), np.uint64(rows[i])
            for k in range(indptr[row], indptr[row + ONE]):
                at = EIGHT_LANES * np.int64(indices[k])
                store(az, at, plus_product(load_eight(az, at), spread_eight(data[k]), part))
        # what came back to the state itself is in ``inverse``
        store(az, here, spread_eight(0.0))
    for at in range(0, y.size, EIGHT_LANES):
        store(az, at, minus_product(load_eight(y, at), spread_eight(1.0), load_eight(az, at)))


@njit(cache=True, nogil=True)
def _divided(above: Array, below: Array, live: Mask, out: Array) -> None:
    """Quotients (8,) where a system is still being solved; 0, and no longer live, where there is none."""
    for lane in range(EIGHT_LANES):
        live[lane] &= below[lane] != 0.0 and np.isfinite(above[lane] / below[lane])
        out[lane] = above[lane] / below[lane] if live[lane] else 0.0


@njit(cache=True, nogil=True)
def solve_flow(
    indptr: Indices,
    indices: Indices,
    data: Array,
    pointer: Indices,
    rows: Indices,
    w: Array,
    inverse: Array,
    gamma: float,
    b: Array,
    tolerance: Array,
    most: int,
    x: Array,
    room: Array,
) -> int:
    """x (S, 8) with (I - gamma P') x = b (S, 8) for each policy, from zero; how many steps it took.

    BiCGStab, preconditioned by a symmetric Gauss-Seidel sweep, as ``policy_systems.bicgstab``. A system rests when its
    own idea of the residual is below its ``tolerance`` (8,) in the 1-norm, or on a breakdown. ``room`` (7, 8 S).
    """
    r, shadow, p, p_hat, r_hat, v, t = room[0], room[1], room[2], room[3], room[4], room[5], room[6]
    x[:] = 0.0
    r[:], shadow[:], p[:] = b, b, b
    rho, below, above = np.empty(EIGHT_LANES), np.empty(EIGHT_LANES), np.empty(EIGHT_LANES)
    alpha, omega, beta = np.zeros(EIGHT_LANES), np.zeros(EIGHT_LANES), np.zeros(EIGHT_LANES)
    _dots(r, r, rho)
    live = sizes(b) > tolerance
    for step in range(most):
        if not live.any():
            return step
        _sweep(indptr, indices, data, pointer, rows, w, inverse, gamma, p, p_hat, v)
        _dots(shadow, v, below)
        _divided(rho, below, live, alpha)
        by = load_eight(alpha, 0)
        for at in range(0, x.size, EIGHT_LANES):
            store(r, at, minus_product(load_eight(r, at), by, load_eight(v, at)))
        _sweep(indptr, indices, data, pointer, rows, w, inverse, gamma, r, r_hat, t)
        _dots(t, r, above)
        _dots(t, t, below)
        # a resting system has no alpha; one that rests from here on takes half a step
        _divided(above, below, live, omega)
        to = load_eight(omega, 0)
        for at in range(0, x.size, EIGHT_LANES):
            here = plus_product(load_eight(x, at), by, load_eight(p_hat, at))
            store(x, at, plus_product(here, to, load_eight(r_hat, at)))
            store(r, at, minus_product(load_eight(r, at), to, load_eight(t, at)))
        _dots(shadow, r, above)
        live &= (sizes(r) > tolerance) & (omega != 0.0)
        _divided(above * alpha, rho * omega, live, beta)
        rho[:] = above
        on = load_eight(beta, 0)
        for at in range(0, x.size, EIGHT_LANES):
            back = minus_product(load_eight(p, at), to, load_eight(v, at))
            store(p, at, plus_product(load_eight(r, at), on, back))
    return most
