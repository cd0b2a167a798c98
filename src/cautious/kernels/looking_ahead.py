"""Where passes over the chain of a policy lead: the best mixture of a few guesses.

Values v with the residual r = b + gamma P v - v lack the solution z of  z - gamma P z = r.  A guess g of z, with some
weight c, leaves the residual r - c (g - gamma P g). Of all mixtures of the guesses the one is taken whose residual
varies least from state to state, in the mean square; a constant does not count, because bounds are shifted to their
middle anyway. The guesses are

* the last two steps. Iterates may swing to and fro, as in a world where every move changes the colour of one's square;
  or the chain may fall apart into regions that are left late or never, each wrong by a constant of its own;
* what r adds up to along likely paths (``likely_moves.py``), and the same for the residual of that guess, and so on:
  the error of the simpler world grows with the length of a path, and passes correct it a step at a time.

Nothing is proved here: bounds are measured by the next sweep.

Legend: v0, ..., v3 (S,) four iterates, one pass after the other; ``y`` (m, S) of each guess g what it takes off the
residual, g - gamma P g; ``gain`` (m, S) gamma P g. Loops run over pieces of ``PIECE`` states, so that any number of
threads gives the same bytes.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices, Mask
from cautious.kernels.likely_moves import add_up
from cautious.kernels.planning import evaluate
from cautious.kernels.threads import PIECE
from cautious.kernels.trailing_passes import trailing_passes

STEPS = 2
# guesses along likely paths
PATHS = 3
# numbers of a vector that are multiplied with those of all others while they are near
NEAR = 512
# passes that leave less than this share of the residual soon do what likely paths would
FAST = 0.9
SUMS = {"reassoc", "contract", "nsz"}
# guesses that nearly say the same must not be played off against each other
RIDGE = 1e-10


@njit(cache=True, nogil=True, fastmath=SUMS)
def _step_products(v0: Array, v1: Array, v2: Array, v3: Array, table: Array) -> None:
    """``table`` (3, 4) of a few states, as in ``multiply``."""
    aa, ab, bb, ar, br, rr, a_sum, b_sum, r_sum = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for s in range(v0.size):
        second, r = v2[s] - v1[s], v3[s] - v2[s]
        a, b = v1[s] - v0[s] - second, second - r
        aa, ab, bb, ar, br, rr = aa + a * a, ab + a * b, bb + b * b, ar + a * r, br + b * r, rr + r * r
        a_sum, b_sum, r_sum = a_sum + a, b_sum + b, r_sum + r
    table[0, 0], table[1, 0], table[1, 1] = aa, ab, bb
    table[2, 0], table[2, 1], table[2, 2] = ar, br, rr
    table[0, 3], table[1, 3], table[2, 3] = a_sum, b_sum, r_sum


@njit(cache=True, nogil=True)
def multiply_steps(v0: Array, v1: Array, v2: Array, v3: Array, products: Array, first: int, last: int) -> None:
    """``products`` (pieces, 3, 4) of the last two steps as guesses, as ``multiply`` has them: no table is written."""
    for piece in range(first, last):
        here = slice(piece * PIECE, min((piece + 1) * PIECE, v0.size))
        products[piece] = 0.0
        _step_products(v0[here], v1[here], v2[here], v3[here], products[piece])


@njit(cache=True, nogil=True)
def passes_do(products: Array, n_states: int) -> bool:
    """Whether a pass leaves so little of the residual that more guesses than the steps are not worth making."""
    table = products.sum(axis=0)
    now_sum, before_sum = table[2, 3], table[1, 3] + table[2, 3]
    now = table[2, 2] - now_sum * now_sum / n_states
    before = table[1, 1] + 2.0 * table[2, 1] + table[2, 2] - before_sum * before_sum / n_states
    return bool(now < FAST**2 * before)


@njit(cache=True, nogil=True)
def move_by_steps(v1: Array, v2: Array, v3: Array, c: Array, first: int, last: int) -> None:
    """Add what the last two steps say, with their weights, to v3 (S,)."""
    for s in range(first * PIECE, min(last * PIECE, v3.size)):
        v3[s] += c[0] * (v2[s] - v1[s]) + c[1] * (v3[s] - v2[s])


@njit(cache=True, nogil=True, fastmath=SUMS)
def list_steps(v0: Array, v1: Array, v2: Array, v3: Array, gain: Array, y: Array) -> None:
    """The first guesses in the tables: the last two steps.

    The memory of v0, v1 and v2 is put to other use: v1 becomes r, the residual of v2 but for a constant, v2 zero.
    """
    now = 0.0
    for s in range(v0.size):
        first, second, third = v1[s] - v0[s], v2[s] - v1[s], v3[s] - v2[s]
        gain[0, s], y[0, s] = second, first - second
        gain[1, s], y[1, s] = third, second - third
        v1[s], v2[s] = third, 0.0
        now += third
    v1 -= now / v0.size


@njit(cache=True, nogil=True)
def try_guess(
    pointer: Indices,
    successor: Indices,
    chance: Array,
    widths: Indices,
    nothing: Array,
    gamma: float,
    guess: Array,
    gain: Array,
    y: Array,
    first: int,
    last: int,
) -> None:
    """``gain`` and ``y`` (S,) of one guess (S,); ``nothing`` (S,) holds zeros."""
    for piece in range(first, last):
        evaluate(pointer, successor, chance, widths, nothing, gamma, guess, gain, piece, piece + 1)
        for s in range(piece * PIECE, min((piece + 1) * PIECE, guess.size)):
            y[s] = guess[s] - gain[s]


@njit(cache=True, nogil=True, fastmath=SUMS)
def _dot(x: Array, y: Array) -> float:
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True, fastmath=SUMS)
def _sum(x: Array) -> float:
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return total


@njit(cache=True, nogil=True)
def multiply(y: Array, r: Array, products: Array, first: int, last: int) -> None:
    """``products`` (pieces, m+1, m+2): of all y and r with each other, and in the last column their sums."""
    m = len(y)
    for piece in range(first, last):
        table = products[piece]
        table[:] = 0.0
        for start in range(piece * PIECE, min((piece + 1) * PIECE, r.size), NEAR):
            end = min(start + NEAR, (piece + 1) * PIECE, r.size)
            for i in range(m + 1):
                x = y[i, start:end] if i < m else r[start:end]
                for j in range(i + 1):
                    table[i, j] += _dot(x, y[j, start:end] if j < m else r[start:end])
                table[i, m + 1] += _sum(x)


@njit(cache=True, nogil=True)
def best_mixture(products: Array, n_states: int) -> Array:
    """The weights (m,) of the guesses."""
    m = products.shape[1] - 1
    table, c = products.sum(axis=0), np.zeros(m)
    for i in range(m + 1):
        for j in range(i + 1):
            table[i, j] -= table[i, m + 1] * table[j, m + 1] / n_states
    scale = np.zeros(m)
    for i in range(m):
        # zero and infinity are of no use, nor is what is not a number
        if 1e-300 < table[i, i] < 1e300:
            scale[i] = 1.0 / np.sqrt(table[i, i])
    a = np.eye(m)
    for i in range(m):
        a[i, i] += RIDGE
        if scale[i] > 0.0:
            c[i] = table[m, i] * scale[i]
        for j in range(i):
            if scale[i] > 0.0 and scale[j] > 0.0:
                a[i, j] = table[i, j] * scale[i] * scale[j]
                a[j, i] = a[i, j]
    for i in range(m):
        if a[i, i] < RIDGE:
            # it says nothing that those before it do not say
            a[i], a[:, i], a[i, i], c[i] = 0.0, 0.0, 1.0, 0.0
        for k in range(i + 1, m):
            share = a[k, i] / a[i, i]
            a[k] -= share * a[i]
            c[k] -= share * c[i]
    for i in range(m - 1, -1, -1):
        for k in range(i + 1, m):
            c[i] -= a[i, k] * c[k]
        c[i] /= a[i, i]
    c *= scale
    return c if np.isfinite(c).all() else np.zeros(m)


@njit(cache=True, nogil=True)
def move(v: Array, gain: Array, c: Array, first: int, last: int) -> None:
    """Add what the guesses say, with their weights, to v (S,)."""
    for start in range(first * PIECE, min(last * PIECE, v.size), NEAR):
        end = min(start + NEAR, last * PIECE, v.size)
        for i in range(c.size):
            weight, row = c[i], gain[i]
            for s in range(start, end):
                v[s] += weight * row[s]


@njit(cache=True, nogil=True)
def evaluate_ahead(
    pointer: Indices,
    successor: Indices,
    chance: Array,
    widths: Indices,
    b: Array,
    gamma: float,
    v: Array,
    passes: int,
    ahead: Indices,
    behind: Indices,
    target: Indices,
    weight: Array,
    order: Indices,
    closes: Mask,
    iterates: Array,
    gain: Array,
    y: Array,
) -> Array:
    """The evaluation operator of a policy applied ``passes`` times, at least four, then moved to where that leads.

    ``iterates`` (4, S), ``gain`` and ``y`` are room to work in; there are no paths if the last two have no room.
    """
    pieces = -(-v.size // PIECE)
    trailing_passes(pointer, successor, chance, widths, b, gamma, v, passes, ahead, behind, iterates)
    guess, r, nothing = iterates[passes % 4], iterates[(passes + 1) % 4], iterates[(passes + 2) % 4]
    out: Array = iterates[(passes + 3) % 4]
    products = np.empty((pieces, STEPS + 1, STEPS + 2))
    multiply_steps(guess, r, nothing, out, products, 0, pieces)
    if len(y) == 0 or passes_do(products, v.size):
        move_by_steps(r, nothing, out, best_mixture(products, v.size), 0, pieces)
        return out
    list_steps(guess, r, nothing, out, gain, y)
    for i in range(STEPS, len(y)):
        add_up(target, weight, order, closes, gamma, r if i == STEPS else y[i - 1], guess)
        try_guess(pointer, successor, chance, widths, nothing, gamma, guess, gain[i], y[i], 0, pieces)
    products = np.empty((pieces, len(y) + 1, len(y) + 2))
    multiply(y, r, products, 0, pieces)
    move(out, gain, best_mixture(products, v.size), 0, pieces)
    return out
