"""The chains of eight policies side by side: reading a row of the transitions once tells all of them.

Legend: (indptr, indices, data) the transitions, row ``s*A + a``, unsigned indices. A table (n, 8) is flat, number
8 i + l is of policy l; from a boundary of 64 bytes on (``aligned``) eight numbers are one access to memory. (pointer,
successor, chance) are the chains P: state s leads to ``successor[k]``, k from ``pointer[s]`` to ``pointer[s+1]``, with
the chances of row k of ``chance`` (n, 8). ``on`` (S, 8): gamma / (1 - gamma P(s, s)).
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.vector_ratios import larger, over
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
def mix_rows(
    indptr: Indices,
    indices: Indices,
    data: Array,
    weights: Array,
    pointer: Indices,
    successor: Indices,
    chance: Array,
) -> None:
    """Fill the chains of policies with these ``weights`` (S*A, 8): entries of the same successor are added."""
    n_states = pointer.size - 1
    n_actions = weights.size // (EIGHT_LANES * n_states)
    place = np.zeros(n_states, np.int64)
    n = 0
    for s in range(n_states):
        start = n
        pointer[s] = n
        for row in range(np.uint64(s * n_actions), np.uint64((s + 1) * n_actions)):
            share = load_eight(weights, EIGHT_LANES * np.int64(row))
            for k in range(indptr[row], indptr[row + ONE]):
                j = np.int64(indices[k])
                at = place[j]
                # a place counts only if it lies in this row and was made for this successor
                if not (start <= at < n and np.int64(successor[at]) == j):
                    at = n
                    place[j], successor[n] = n, j
                    store(chance, EIGHT_LANES * n, spread_eight(0.0))
                    n += 1
                at *= EIGHT_LANES
                store(chance, at, plus_product(load_eight(chance, at), spread_eight(data[k]), share))
    pointer[n_states] = n


@njit(cache=True, nogil=True)
def onwards(pointer: Indices, successor: Indices, chance: Array, gamma: float, on: Array) -> None:
    """Fill ``on``."""
    for s in range(pointer.size - 1):
        own = spread_eight(1.0)
        for k in range(pointer[s], pointer[s + 1]):
            if np.int64(successor[k]) == s:
                own = minus_product(own, spread_eight(gamma), load_eight(chance, EIGHT_LANES * k))
        store(on, EIGHT_LANES * s, over(spread_eight(gamma), own))


@njit(cache=True, nogil=True)
def missing_flow(
    pointer: Indices, successor: Indices, chance: Array, gamma: float, b: Array, x: Array, out: Array
) -> Array:
    """out = b + gamma P' x - x, (S, 8); returns the 1-norm of each, (8,). ``b`` (S,) is the same for all."""
    for s in range(pointer.size - 1):
        here = EIGHT_LANES * s
        store(out, here, minus_product(spread_eight(b[s]), spread_eight(1.0), load_eight(x, here)))
    for s in range(pointer.size - 1):
        mass = times(spread_eight(gamma), load_eight(x, EIGHT_LANES * s))
        for k in range(np.uint64(pointer[s]), np.uint64(pointer[s + 1])):
            at = EIGHT_LANES * np.int64(successor[k])
            part = load_eight(chance, EIGHT_LANES * np.int64(k))
            store(out, at, plus_product(load_eight(out, at), part, mass))
    found: Array = sizes(out)
    return found


@njit(cache=True, nogil=True)
def sizes(x: Array) -> Array:
    """The 1-norm of each of eight vectors (S, 8)."""
    total, found = spread_eight(0.0), np.empty(EIGHT_LANES)
    for at in range(0, x.size, EIGHT_LANES):
        here = load_eight(x, at)
        total = plus(total, larger(here, times(spread_eight(-1.0), here)))
    store(found, 0, total)
    return found


@njit(cache=True, nogil=True)
def _sweep(pointer: Indices, successor: Indices, chance: Array, on: Array, left: Array, z: Array) -> None:
    """One symmetric Gauss-Seidel sweep on (I - gamma P') x = ``left`` (S, 8), which becomes what it leaves of it.

    x = z on / gamma: what arrives at a state is added to z, and goes on, times ``on``, to where it leads.
    """
    n_states = pointer.size - 1
    for number in range(2 * n_states):
        s = number if number < n_states else 2 * n_states - 1 - number
        here = EIGHT_LANES * s
        taken = load_eight(left, here)
        store(z, here, taken if number < n_states else plus(load_eight(z, here), taken))
        mass = times(taken, load_eight(on, here))
        for k in range(np.uint64(pointer[s]), np.uint64(pointer[s + 1])):
            at = EIGHT_LANES * np.int64(successor[k])
            part = load_eight(chance, EIGHT_LANES * np.int64(k))
            store(left, at, plus_product(load_eight(left, at), part, mass))
        # what came back to the state itself is in ``on``
        store(left, here, spread_eight(0.0))


@njit(cache=True, nogil=True)
def _divided(above: Array, below: Array, live: Mask, out: Array) -> None:
    """Quotients (8,) where a system is still being solved; 0, and no longer live, where there is none."""
    for lane in range(EIGHT_LANES):
        live[lane] &= below[lane] != 0.0 and np.isfinite(above[lane] / below[lane])
        out[lane] = above[lane] / below[lane] if live[lane] else 0.0


@njit(cache=True, nogil=True)
def solve_flow(
    pointer: Indices,
    successor: Indices,
    chance: Array,
    on: Array,
    gamma: float,
    b: Array,
    tolerance: Array,
    most: int,
    x: Array,
    room: Array,
) -> int:
    """x (S, 8) with (I - gamma P') x = b (S, 8) for each policy, from zero; how many steps it took.

    BiCGStab, preconditioned by a symmetric Gauss-Seidel sweep, as ``policy_systems.bicgstab``; loops are joined, for
    eight vectors do not stay in the cache. A system rests when its own idea of the residual is below its ``tolerance``
    (8,) in the 1-norm, or on a breakdown. ``room`` (6, 8 S).
    """
    r, p, p_hat, r_hat, v, t = room[0], room[1], room[2], room[3], room[4], room[5]
    scalars = np.zeros((6, EIGHT_LANES))
    rho, above, below, alpha, omega, beta = scalars[0], scalars[1], scalars[2], scalars[3], scalars[4], scalars[5]
    minus, nothing, live = spread_eight(-1.0), spread_eight(0.0), sizes(b) > tolerance
    total = nothing
    for at in range(0, b.size, EIGHT_LANES):
        here = load_eight(b, at)
        store(x, at, nothing)
        store(r, at, here)
        store(p, at, here)
        store(v, at, here)
        total = plus_product(total, here, here)
    store(rho, 0, total)
    for step in range(most):
        if not live.any():
            return step
        _sweep(pointer, successor, chance, on, v, p_hat)
        total = nothing
        for at in range(0, b.size, EIGHT_LANES):
            # A p_hat: what the sweep did not leave
            here = plus_product(load_eight(p, at), minus, load_eight(v, at))
            store(v, at, here)
            total = plus_product(total, load_eight(b, at), here)
        store(below, 0, total)
        _divided(rho, below, live, alpha)
        by = load_eight(alpha, 0)
        for at in range(0, b.size, EIGHT_LANES):
            here = minus_product(load_eight(r, at), by, load_eight(v, at))
            store(r, at, here)
            store(t, at, here)
        _sweep(pointer, successor, chance, on, t, r_hat)
        total, square = nothing, nothing
        for at in range(0, b.size, EIGHT_LANES):
            before = load_eight(r, at)
            here = plus_product(before, minus, load_eight(t, at))
            store(t, at, here)
            total, square = plus_product(total, here, before), plus_product(square, here, here)
        store(above, 0, total)
        store(below, 0, square)
        # a resting system has no alpha; one that rests from here on takes half a step
        _divided(above, below, live, omega)
        to, scale = load_eight(omega, 0), spread_eight(1.0 / gamma)
        total, square = nothing, nothing
        for at in range(0, b.size, EIGHT_LANES):
            way = plus_product(times(by, load_eight(p_hat, at)), to, load_eight(r_hat, at))
            store(x, at, plus_product(load_eight(x, at), times(scale, load_eight(on, at)), way))
            here = minus_product(load_eight(r, at), to, load_eight(t, at))
            store(r, at, here)
            total, square = plus_product(total, load_eight(b, at), here), plus(square, larger(here, times(minus, here)))
        store(above, 0, total)
        store(below, 0, square)
        live &= (below > tolerance) & (omega != 0.0)
        _divided(above * alpha, rho * omega, live, beta)
        rho[:] = above
        turn = load_eight(beta, 0)
        for at in range(0, b.size, EIGHT_LANES):
            back = minus_product(load_eight(p, at), to, load_eight(v, at))
            here = plus_product(load_eight(r, at), turn, back)
            store(p, at, here)
            store(v, at, here)
    return most
