"""The linear systems of one policy's chain: values (I - gamma P) x = b and occupancy (I - gamma P') x = b.

Legend: (pointer, successor, chance) the chain P (S, S) by rows; ``inverse`` (S,) one over the diagonal of I - gamma P.
All indices are unsigned. Both systems read the chain by rows: one gathers, the other scatters, so no transposed copy is
needed.

A sweep spends its time waiting for the state before. So it visits the states in turn from a few stretches of equal
length, which hardly depend on each other: ``GATHERED`` of them where it gathers, two where it scatters and there are at
least ``MANY`` states. Loops over whole vectors wait for memory in large models: what can be done in one is.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.planning import ONE, expectation

GATHERED = np.uint64(4)
MANY, TWO, NONE = np.uint64(30_000), np.uint64(2), np.uint64(0)
# vectors (S,) of room that ``bicgstab`` works in
ROOM = 6
SUMS = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True)
def scaled_rows(pointer: Indices, successor: Indices, chance: Array, gamma: float) -> tuple[Array, Array]:
    """``weight``: gamma P(s, j) / (1 - gamma P(s, s)) for each stored entry, 0 where j = s; ``inverse`` as below."""
    weight, inverse = np.empty_like(chance), np.ones(pointer.size - 1)
    for s in range(np.uint64(inverse.size)):
        for k in range(pointer[s], pointer[s + ONE]):
            if successor[k] == s:
                inverse[s] -= gamma * chance[k]
        inverse[s] = 1.0 / inverse[s]
        for k in range(pointer[s], pointer[s + ONE]):
            weight[k] = gamma * chance[k] * inverse[s] if successor[k] != s else 0.0
    return weight, inverse


@njit(cache=True, nogil=True)
def _renew(pointer: Indices, successor: Indices, weight: Array, own: Array, z: Array, s: int) -> None:
    """Make the equation of one state hold; ``own`` (S,) is its right-hand side, scaled as its row is."""
    z[s] = own[s] + expectation(pointer, successor, weight, z, s)


@njit(cache=True, nogil=True)
def _gather(pointer: Indices, successor: Indices, weight: Array, inverse: Array, y: Array, z: Array, az: Array) -> None:
    """z = one symmetric Gauss-Seidel sweep on (I - gamma P) z = y from zero; az becomes y - (I - gamma P) z."""
    n = np.uint64(y.size)
    stretch = n // GATHERED
    left_over = n - GATHERED * stretch
    for s in range(n):
        z[s] = 0.0
        az[s] = inverse[s] * y[s]
    for i in range(stretch):
        for lane in range(GATHERED):
            _renew(pointer, successor, weight, az, z, lane * stretch + i)
    for i in range(left_over):
        _renew(pointer, successor, weight, az, z, GATHERED * stretch + i)
    for i in range(left_over):
        _renew(pointer, successor, weight, az, z, n - ONE - i)
    for i in range(stretch):
        for lane in range(GATHERED):
            _renew(pointer, successor, weight, az, z, (lane + ONE) * stretch - ONE - i)
    for s in range(n):
        az[s] = y[s] - (z[s] - expectation(pointer, successor, weight, z, s)) / inverse[s]


@njit(cache=True, nogil=True)
def _hand_on(
    pointer: Indices, successor: Indices, weight: Array, inverse: Array, z: Array, left: Array, s: int, again: bool
) -> None:
    """Take what is left at a state into z, to what it took before if this is ``again``; hand on what follows."""
    taken = left[s]
    left[s] = 0.0
    z[s] = z[s] + inverse[s] * taken if again else inverse[s] * taken
    for k in range(pointer[s], pointer[s + ONE]):
        left[successor[k]] += taken * weight[k]


@njit(cache=True, nogil=True)
def _scatter(
    pointer: Indices, successor: Indices, weight: Array, inverse: Array, y: Array, z: Array, left: Array
) -> None:
    """The same for (I - gamma P') z = y; what the sweep leaves of y is its residual, which costs nothing more."""
    n = np.uint64(y.size)
    half = n // TWO if n >= MANY else NONE
    left[:] = y
    for s in range(half):
        _hand_on(pointer, successor, weight, inverse, z, left, s, False)
        _hand_on(pointer, successor, weight, inverse, z, left, half + s, False)
    for s in range(TWO * half, n):
        _hand_on(pointer, successor, weight, inverse, z, left, s, False)
    for i in range(n - TWO * half):
        _hand_on(pointer, successor, weight, inverse, z, left, n - ONE - i, True)
    for i in range(half):
        _hand_on(pointer, successor, weight, inverse, z, left, half - ONE - i, True)
        _hand_on(pointer, successor, weight, inverse, z, left, TWO * half - ONE - i, True)


@njit(cache=True, nogil=True, fastmath=SUMS)
def _product(y: Array, left: Array, other: Array) -> tuple[float, float]:
    """y - left, in place of ``left``, and its products with ``other`` (S,) and with itself."""
    along, square = 0.0, 0.0
    for i in range(y.size):
        product = y[i] - left[i]
        left[i] = product
        along += other[i] * product
        square += product * product
    return along, square


@njit(cache=True, nogil=True)
def _apply(
    pointer: Indices,
    successor: Indices,
    weight: Array,
    inverse: Array,
    transposed: bool,
    y: Array,
    other: Array,
    z: Array,
    az: Array,
) -> tuple[float, float]:
    """z: y after the preconditioner; az: z after the matrix; the products of az with ``other`` (S,) and with itself."""
    if transposed:
        _scatter(pointer, successor, weight, inverse, y, z, az)
    else:
        _gather(pointer, successor, weight, inverse, y, z, az)
    along, square = _product(y, az, other)
    return along, square


@njit(cache=True, nogil=True, fastmath=SUMS)
def _move(
    x: Array, r: Array, p_hat: Array, r_hat: Array, t: Array, shadow: Array, alpha: float, omega: float, summed: bool
) -> tuple[float, float]:
    """Both halves of a step: <shadow, r> afterwards, and the 1-norm of r if ``summed``, else its largest entry."""
    rho, total, largest = 0.0, 0.0, 0.0
    for i in range(x.size):
        x[i] += alpha * p_hat[i] + omega * r_hat[i]
        left = r[i] - omega * t[i]
        r[i] = left
        rho += shadow[i] * left
        total += abs(left)
        largest = max(largest, abs(left))
    return rho, total if summed else largest


@njit(cache=True, nogil=True)
def bicgstab(
    pointer: Indices,
    successor: Indices,
    weight: Array,
    inverse: Array,
    transposed: bool,
    b: Array,
    tolerance: float,
    most: int,
    x: Array,
    room: Array,
) -> int:
    """x (S,) with (I - gamma P) x = b, or with P' if ``transposed``, from zero; returns how many steps it took.

    BiCGStab, preconditioned by a symmetric Gauss-Seidel sweep; ``weight`` and ``inverse`` come from ``scaled_rows``.
    Stops when its own idea of the residual is below ``tolerance`` in the 1-norm (transposed) or the largest entry, on a
    breakdown, or after ``most`` steps: the caller measures. ``room`` (ROOM, S) is overwritten.
    """
    r, p, p_hat, r_hat, v, t = room[0], room[1], room[2], room[3], room[4], room[5]
    rows = (pointer, successor, weight, inverse, transposed)
    rho = 0.0
    for i in range(b.size):
        x[i], r[i], p[i] = 0.0, b[i], b[i]
        rho += b[i] * b[i]
    for step in range(most):
        along, _ = _apply(*rows, p, b, p_hat, v)
        if along == 0.0:
            return step
        alpha = rho / along
        for i in range(x.size):
            r[i] -= alpha * v[i]
        along, square = _apply(*rows, r, r, r_hat, t)
        omega = along / square if square > 0.0 else 0.0
        new_rho, size = _move(x, r, p_hat, r_hat, t, b, alpha, omega, transposed)
        if size <= tolerance or omega == 0.0 or new_rho == 0.0:
            return step + 1
        beta = (new_rho / rho) * (alpha / omega)
        rho = new_rho
        for i in range(x.size):
            p[i] = r[i] + beta * (p[i] - omega * v[i])
    return most
