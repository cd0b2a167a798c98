"""Loops of the entropic dual: exponents, their normaliser, the dual along a line, and conjugate gradients.

Legend: row ``s*A + a`` of the CSR matrix (indptr, indices, data) is P(. | s, a); B = gamma P - E (S*A, S); ``u`` (S,)
multipliers in units of the temperature; ``base`` (S*A,) rewards in the same units plus the logarithm of the prior,
minus infinity where a pair cannot be used; ``ell`` (S*A,) exponents; ``y`` (S*A,) the weights exp(ell) over their
sum.

    N = [ B' diag(y) B   U ]     U (S, k) and K (k, k): border of the k prices, empty without features.
        [ U'             K ]
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.flow import normal_product


@njit(cache=True, nogil=True)
def exponents(indptr: Indices, indices: Indices, data: Array, gamma: float, base: Array, u: Array, ell: Array) -> float:
    """ell = base + B u where ``base`` is finite; returns the largest exponent."""
    n_actions = base.size // u.size
    row, one, top = np.uint64(0), np.uint64(1), -np.inf
    for s in range(u.size):
        for _ in range(n_actions):
            ell[row] = base[row]
            if base[row] > -np.inf:
                total = 0.0
                for k in range(np.uint64(indptr[row]), np.uint64(indptr[row + one])):
                    total += data[k] * u[np.uint64(indices[k])]
                ell[row] += gamma * total - u[s]
                top = max(top, ell[row])
            row += one
    return top


@njit(cache=True, nogil=True)
def by_state(ell: Array, out: Array, policy: Array) -> None:
    """out(s) = log sum_a exp(ell(s, a)) and policy(a | s) = exp(ell(s, a) - out(s)).

    Minus infinity and zeros in a state without a usable pair.
    """
    n_actions = ell.size // out.size
    for s in range(out.size):
        first = s * n_actions
        top = -np.inf
        for row in range(first, first + n_actions):
            top = max(top, ell[row])
        total = 0.0
        for row in range(first, first + n_actions):
            policy[row] = np.exp(ell[row] - top) if top > -np.inf else 0.0
            total += policy[row]
        for row in range(first, first + n_actions):
            policy[row] /= max(total, 1.0)
        out[s] = top + np.log(max(total, 1.0))


@njit(cache=True, nogil=True)
def spread_weights(policy: Array, log_mass: Array, wanted: Array, out: Array) -> None:
    """out(s, a) = policy(a | s) times the logarithmic mean of exp(``log_mass``(s)) and ``wanted``(s) > 0."""
    n_actions = policy.size // wanted.size
    for s in range(wanted.size):
        ratio = log_mass[s] - np.log(wanted[s])
        mean = wanted[s] * (np.expm1(ratio) / ratio if abs(ratio) > 1e-6 else 1.0)
        for row in range(s * n_actions, (s + 1) * n_actions):
            out[row] = policy[row] * mean


@njit(cache=True, nogil=True)
def along(ell: Array, p: Array, length: float, top: float) -> tuple[float, float, float]:
    """log sum exp(ell + length p) and its first two derivatives in ``length``; ``top`` is near the largest exponent.

    When ``top`` turns out too low or too high for double precision, the loop starts again with the right one.
    """
    while True:
        total, first, second, highest = 0.0, 0.0, 0.0, -np.inf
        for row in range(ell.size):
            if ell[row] > -np.inf:
                exponent = ell[row] + length * p[row]
                highest = max(highest, exponent)
                weight = np.exp(min(exponent - top, 600.0))
                total += weight
                first += weight * p[row]
                second += weight * p[row] * p[row]
        if abs(highest - top) < 500.0 or not np.isfinite(highest):
            break
        top = highest
    mean = first / total
    return top + np.log(total), mean, max(second / total - mean * mean, 0.0)


@njit(cache=True, nogil=True)
def precondition(inverse_diagonal: Array, corner: Array, residual: Array, out: Array) -> float:
    """out = M^-1 residual, block by block; returns <residual, out>. ``corner`` (k, k) inverts the prices' block."""
    n, k = inverse_diagonal.size, corner.shape[0]
    total = 0.0
    for s in range(n):
        out[s] = inverse_diagonal[s] * residual[s]
        total += residual[s] * out[s]
    for i in range(k):
        entry = 0.0
        for j in range(k):
            entry += corner[i, j] * residual[n + j]
        out[n + i] = entry
        total += residual[n + i] * entry
    return total


@njit(cache=True, nogil=True)
def bordered_product(
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    y: Array,
    border: Array,
    block: Array,
    x: Array,
    out: Array,
) -> None:
    """out = N x for x (S + k,)."""
    n, k = border.shape
    normal_product(indptr, indices, data, gamma, y, x[:n], out[:n])
    for i in range(k):
        entry = 0.0
        for j in range(k):
            entry += block[i, j] * x[n + j]
        out[n + i] = entry
    if k > 0:
        for s in range(n):
            for i in range(k):
                out[s] += border[s, i] * x[n + i]
                out[n + i] += border[s, i] * x[s]


@njit(cache=True, nogil=True)
def conjugate_gradients(
    indptr: Indices,
    indices: Indices,
    data: Array,
    gamma: float,
    y: Array,
    border: Array,
    block: Array,
    inverse_diagonal: Array,
    corner: Array,
    x: Array,
    residual: Array,
    direction: Array,
    gains: Array,
    share: float,
    steps: int,
) -> int:
    """Go on with N x = right for some steps from ``x``, ``residual`` and ``direction``, all overwritten.

    ``gains``: what the last steps added to <right, x>, oldest overwritten first; its last entry is the total. Stops,
    and returns the steps made, when the last ones together added at most ``share`` of the total; a negative number
    says that rounding ends it.
    """
    image, last = np.empty(x.size), gains.size - 1
    squared = precondition(inverse_diagonal, corner, residual, image)
    for step in range(steps):
        bordered_product(indptr, indices, data, gamma, y, border, block, direction, image)
        curvature = 0.0
        for s in range(x.size):
            curvature += direction[s] * image[s]
        if not curvature > 0.0 or not squared > 0.0:
            return -1
        length = squared / curvature
        for s in range(x.size):
            x[s] += length * direction[s]
            residual[s] -= length * image[s]
        gains[step % last] = length * squared
        gains[last] += length * squared
        before = squared
        squared = precondition(inverse_diagonal, corner, residual, image)
        for s in range(x.size):
            direction[s] = image[s] + squared / before * direction[s]
        if gains[:last].sum() <= share * gains[last]:
            return step + 1
    return steps
