"""The chain of one policy and its two linear systems: values (I - gamma P) x = b and occupancy (I - gamma P') x = b.

Legend: (indptr, indices, data) the transitions, row ``s*A + a``; ``pi`` (S*A,) a policy; (pointer, successor, chance)
its chain P (S, S) by rows; ``inverse`` (S,) one over the diagonal of I - gamma P. All indices are unsigned. Both
systems read the chain by rows: one gathers, the other scatters, so no transposed copy is needed.

A gathering sweep spends its time waiting for the state before. So it visits the states in turn from ``LANES`` stretches
of equal length, which hardly depend on each other; sums are kept in four parts for the same reason.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.planning import ONE, expectation

LANES = np.uint64(4)


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
    """z = one symmetric Gauss-Seidel sweep on (I - gamma P) z = y from zero; az = (I - gamma P) z."""
    n = np.uint64(y.size)
    stretch = n // LANES
    left_over = n - LANES * stretch
    for s in range(n):
        z[s] = 0.0
        az[s] = inverse[s] * y[s]
    for i in range(stretch):
        for lane in range(LANES):
            _renew(pointer, successor, weight, az, z, lane * stretch + i)
    for i in range(left_over):
        _renew(pointer, successor, weight, az, z, LANES * stretch + i)
    for i in range(left_over):
        _renew(pointer, successor, weight, az, z, n - ONE - i)
    for i in range(stretch):
        for lane in range(LANES):
            _renew(pointer, successor, weight, az, z, (lane + ONE) * stretch - ONE - i)
    for s in range(n):
        az[s] = (z[s] - expectation(pointer, successor, weight, z, s)) / inverse[s]


@njit(cache=True, nogil=True)
def _hand_on(
    pointer: Indices, successor: Indices, weight: Array, inverse: Array, z: Array, left: Array, s: int
) -> None:
    """Take what is left at a state into z, and hand on what follows from it."""
    taken = left[s]
    left[s] = 0.0
    z[s] += inverse[s] * taken
    for k in range(pointer[s], pointer[s + ONE]):
        left[successor[k]] += taken * weight[k]


@njit(cache=True, nogil=True)
def _scatter(
    pointer: Indices, successor: Indices, weight: Array, inverse: Array, y: Array, z: Array, az: Array
) -> None:
    """The same for (I - gamma P') z = y; what the sweep leaves of y is its residual, so az costs nothing more."""
    n = np.uint64(y.size)
    z[:] = 0.0
    az[:] = y
    for s in range(n):
        _hand_on(pointer, successor, weight, inverse, z, az, s)
    for i in range(n):
        _hand_on(pointer, successor, weight, inverse, z, az, n - ONE - i)
    for s in range(n):
        az[s] = y[s] - az[s]


@njit(cache=True, nogil=True)
def _apply(
    pointer: Indices,
    successor: Indices,
    weight: Array,
    inverse: Array,
    transposed: bool,
    y: Array,
    z: Array,
    az: Array,
) -> None:
    if transposed:
        _scatter(pointer, successor, weight, inverse, y, z, az)
    else:
        _gather(pointer, successor, weight, inverse, y, z, az)


@njit(cache=True, nogil=True)
def _dot(x: Array, y: Array) -> float:
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.size - x.size % 4
    for i in range(0, whole, 4):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
    for i in range(whole, x.size):
        a += x[i] * y[i]
    return (a + b) + (c + d)


@njit(cache=True, nogil=True)
def _size(x: Array, summed: bool) -> float:
    """The 1-norm if ``summed``, else the largest entry."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.size - x.size % 4
    for i in range(0, whole, 4):
        a = a + abs(x[i]) if summed else max(a, abs(x[i]))
        b = b + abs(x[i + 1]) if summed else max(b, abs(x[i + 1]))
        c = c + abs(x[i + 2]) if summed else max(c, abs(x[i + 2]))
        d = d + abs(x[i + 3]) if summed else max(d, abs(x[i + 3]))
    for i in range(whole, x.size):
        a = a + abs(x[i]) if summed else max(a, abs(x[i]))
    return (a + b) + (c + d) if summed else max(max(a, b), max(c, d))


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
) -> tuple[Array, int]:
    """x with (I - gamma P) x = b, or with P' if ``transposed``, from zero; how many steps it took.

    BiCGStab, preconditioned by a symmetric Gauss-Seidel sweep; ``weight`` and ``inverse`` come from ``scaled_rows``.
    Stops when its own idea of the residual is below ``tolerance`` in the 1-norm (transposed) or the largest entry, on a
    breakdown, or after ``most`` steps: the caller measures.
    """
    x, r, shadow, p = np.zeros_like(b), b.copy(), b.copy(), b.copy()
    p_hat, r_hat, v, t = np.empty_like(b), np.empty_like(b), np.empty_like(b), np.empty_like(b)
    rho = _dot(r, r)
    for step in range(most):
        _apply(pointer, successor, weight, inverse, transposed, p, p_hat, v)
        along = _dot(shadow, v)
        if along == 0.0:
            return x, step
        alpha = rho / along
        for i in range(x.size):
            r[i] -= alpha * v[i]
        _apply(pointer, successor, weight, inverse, transposed, r, r_hat, t)
        tt = _dot(t, t)
        omega = _dot(t, r) / tt if tt > 0.0 else 0.0
        for i in range(x.size):
            x[i] += alpha * p_hat[i] + omega * r_hat[i]
            r[i] -= omega * t[i]
        new_rho = _dot(shadow, r)
        if _size(r, transposed) <= tolerance or omega == 0.0 or new_rho == 0.0:
            return x, step + 1
        beta = (new_rho / rho) * (alpha / omega)
        rho = new_rho
        for i in range(x.size):
            p[i] = r[i] + beta * (p[i] - omega * v[i])
    return x, most
