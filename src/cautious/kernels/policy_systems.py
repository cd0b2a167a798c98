"""The chain of one policy and its two linear systems: values (I - gamma P) x = b and occupancy (I - gamma P') x = b.

Legend: (indptr, indices, data) the transitions, row ``s*A + a``; ``pi`` (S*A,) a policy; (pointer, successor, chance)
its chain P (S, S) by rows; ``inverse`` (S,) one over the diagonal of I - gamma P. All indices are unsigned. Both
systems read the chain by rows: one gathers, the other scatters, so no transposed copy is needed.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.planning import ONE, expectation


@njit(cache=True, nogil=True)
def choose_rows(
    indptr: Indices,
    indices: Indices,
    data: Array,
    r: Array,
    action: Indices,
    pointer: Indices,
    successor: Indices,
    chance: Array,
    b: Array,
) -> None:
    """The chain of a deterministic policy and its reward ``b`` (S,): one row of the transitions per state.

    ``r`` (S*A,) is minus infinity on pairs that may not be used; a state that has no other is paid nothing.
    """
    n_actions = np.uint64(r.size // action.size)
    n = np.uint64(0)
    for s in range(np.uint64(action.size)):
        pointer[s] = n
        row = s * n_actions + action[s]
        for k in range(indptr[row], indptr[row + ONE]):
            successor[n] = indices[k]
            chance[n] = data[k]
            n += ONE
        b[s] = r[row] if r[row] > -np.inf else 0.0
    pointer[action.size] = n


@njit(cache=True, nogil=True)
def change_rows(
    indptr: Indices,
    indices: Indices,
    data: Array,
    r: Array,
    action: Indices,
    held: Indices,
    pointer: Indices,
    successor: Indices,
    chance: Array,
    b: Array,
) -> bool:
    """Bring the chain of the ``held`` actions (S,) to those of ``action``; False if a row has not the same length.

    Everything must be as ``choose_rows`` left it. After False the chain is of no use.
    """
    n_actions = np.uint64(r.size // action.size)
    for s in range(np.uint64(action.size)):
        if action[s] != held[s]:
            row, n = s * n_actions + action[s], pointer[s]
            if indptr[row + ONE] - indptr[row] != pointer[s + ONE] - n:
                return False
            for k in range(indptr[row], indptr[row + ONE]):
                successor[n] = indices[k]
                chance[n] = data[k]
                n += ONE
            b[s] = r[row] if r[row] > -np.inf else 0.0
            held[s] = action[s]
    return True


@njit(cache=True, nogil=True)
def mix_rows(
    indptr: Indices, indices: Indices, data: Array, pi: Array, pointer: Indices, successor: Indices, chance: Array
) -> None:
    """The chain of any policy: rows of the same state mixed, entries of the same successor added."""
    n_states = np.uint64(pointer.size - 1)
    n_actions = np.uint64(pi.size // (pointer.size - 1))
    place = np.zeros(pointer.size, np.uint64)
    n = np.uint64(0)
    for s in range(n_states):
        start = n
        pointer[s] = n
        for row in range(s * n_actions, (s + ONE) * n_actions):
            weight = pi[row]
            if weight > 0.0:
                for k in range(indptr[row], indptr[row + ONE]):
                    j = indices[k]
                    # a place counts only if it lies in this row and was made for this successor
                    at = place[j]
                    if start <= at < n and successor[at] == j:
                        chance[at] += weight * data[k]
                    else:
                        place[j] = n
                        successor[n] = j
                        chance[n] = weight * data[k]
                        n += ONE
    pointer[n_states] = n


@njit(cache=True, nogil=True)
def missing_flow(
    pointer: Indices, successor: Indices, chance: Array, gamma: float, b: Array, x: Array
) -> tuple[Array, float]:
    """b + gamma P' x - x, (S,), and its 1-norm."""
    out, size = b - x, 0.0
    for s in range(np.uint64(x.size)):
        carried = gamma * x[s]
        if carried != 0.0:
            for k in range(pointer[s], pointer[s + ONE]):
                out[successor[k]] += carried * chance[k]
    for s in range(out.size):
        size += abs(out[s])
    return out, size


@njit(cache=True, nogil=True)
def inverse_diagonal(pointer: Indices, successor: Indices, chance: Array, gamma: float) -> Array:
    """1 / (1 - gamma P(s, s))."""
    out = np.ones(pointer.size - 1)
    for s in range(np.uint64(out.size)):
        for k in range(pointer[s], pointer[s + ONE]):
            if successor[k] == s:
                out[s] -= gamma * chance[k]
        out[s] = 1.0 / out[s]
    return out


@njit(cache=True, nogil=True)
def _gather(
    pointer: Indices, successor: Indices, chance: Array, inverse: Array, gamma: float, y: Array, z: Array, az: Array
) -> None:
    """z = one symmetric Gauss-Seidel sweep on (I - gamma P) z = y from zero; az = (I - gamma P) z."""
    n = np.uint64(y.size)
    z[:] = 0.0
    for s in range(n):
        z[s] = inverse[s] * (y[s] + gamma * expectation(pointer, successor, chance, z, s))
    for i in range(n):
        back = n - ONE - i
        step = inverse[back] * (y[back] + gamma * expectation(pointer, successor, chance, z, back) - z[back])
        z[back] += step
    for s in range(n):
        az[s] = z[s] - gamma * expectation(pointer, successor, chance, z, s)


@njit(cache=True, nogil=True)
def _hand_on(
    pointer: Indices, successor: Indices, chance: Array, inverse: Array, gamma: float, z: Array, left: Array, s: int
) -> None:
    """Take what is left at a state into z, and hand on what follows from it."""
    step = inverse[s] * left[s]
    z[s] += step
    left[s] -= step
    step *= gamma
    for k in range(pointer[s], pointer[s + ONE]):
        left[successor[k]] += step * chance[k]


@njit(cache=True, nogil=True)
def _scatter(
    pointer: Indices, successor: Indices, chance: Array, inverse: Array, gamma: float, y: Array, z: Array, az: Array
) -> None:
    """The same for (I - gamma P') z = y; what the sweep leaves of y is its residual, so az costs nothing more."""
    n = np.uint64(y.size)
    z[:] = 0.0
    az[:] = y
    for s in range(n):
        _hand_on(pointer, successor, chance, inverse, gamma, z, az, s)
    for i in range(n):
        _hand_on(pointer, successor, chance, inverse, gamma, z, az, n - ONE - i)
    for s in range(n):
        az[s] = y[s] - az[s]


@njit(cache=True, nogil=True)
def _apply(
    pointer: Indices,
    successor: Indices,
    chance: Array,
    inverse: Array,
    gamma: float,
    transposed: bool,
    y: Array,
    z: Array,
    az: Array,
) -> None:
    if transposed:
        _scatter(pointer, successor, chance, inverse, gamma, y, z, az)
    else:
        _gather(pointer, successor, chance, inverse, gamma, y, z, az)


@njit(cache=True, nogil=True)
def bicgstab(
    pointer: Indices,
    successor: Indices,
    chance: Array,
    inverse: Array,
    gamma: float,
    transposed: bool,
    b: Array,
    tolerance: float,
    most: int,
) -> tuple[Array, int]:
    """x with (I - gamma P) x = b, or with P' if ``transposed``, from zero; how many steps it took.

    BiCGStab, preconditioned by a symmetric Gauss-Seidel sweep. Stops when its own idea of the residual is below
    ``tolerance`` in the 1-norm (transposed) or the largest entry, on a breakdown, or after ``most`` steps: the caller
    measures.
    """
    x, r, shadow, p = np.zeros_like(b), b.copy(), b.copy(), b.copy()
    p_hat, r_hat, v, t = np.empty_like(b), np.empty_like(b), np.empty_like(b), np.empty_like(b)
    rho = float(np.sum(r * r))
    for step in range(most):
        _apply(pointer, successor, chance, inverse, gamma, transposed, p, p_hat, v)
        along = np.sum(shadow * v)
        if along == 0.0:
            return x, step
        alpha = rho / along
        r -= alpha * v
        _apply(pointer, successor, chance, inverse, gamma, transposed, r, r_hat, t)
        tt, tr = 0.0, 0.0
        for i in range(x.size):
            tt += t[i] * t[i]
            tr += t[i] * r[i]
        omega = tr / tt if tt > 0.0 else 0.0
        size, new_rho = 0.0, 0.0
        for i in range(x.size):
            x[i] += alpha * p_hat[i] + omega * r_hat[i]
            r[i] -= omega * t[i]
            size = size + abs(r[i]) if transposed else max(size, abs(r[i]))
            new_rho += shadow[i] * r[i]
        if size <= tolerance or omega == 0.0 or new_rho == 0.0:
            return x, step + 1
        beta = (new_rho / rho) * (alpha / omega)
        rho = new_rho
        for i in range(x.size):
            p[i] = r[i] + beta * (p[i] - omega * v[i])
    return x, most
