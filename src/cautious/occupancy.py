"""Policy to occupancy and back.

The occupancy d (S, A) of a policy pi is the discounted share of time spent in each pair:

    x = (1 - gamma) xi + gamma P_pi' x,     d(s, a) = x(s) pi(a | s),     sum d = 1.

One sparse solve gives x; refinement and the measured residual say how far it can be from the truth:
||x - x_true||_1 <= ||residual||_1 / (1 - gamma), because P_pi' does not increase the 1-norm.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from cautious._checks import as_policy, first_bad
from cautious.arrays import Array, Mask
from cautious.errors import InputError
from cautious.models.tabular import MDP

DENSE_STATES = 300
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class PolicyOccupancy:
    """The occupancy of a policy in a model, and how wrong it can be.

    ``occupancy`` (S, A); ``reached`` (S,) states the policy visits; ``error`` bounds the 1-norm distance to the
    exact occupancy, rounding included.
    """

    occupancy: Array
    reached: Mask
    error: float


def check_policy(mdp: MDP, policy: object) -> Array:
    """A policy (S, A): rows sum to one, nothing on forbidden pairs."""
    table = as_policy(policy, mdp.shape)
    forbidden = (table > 0) & ~mdp.allowed
    if forbidden.any():
        where = first_bad(forbidden)
        raise InputError(f"policy{list(where)} is {table[where]}; that action is not allowed in that state")
    return table


def policy_occupancy(mdp: MDP, policy: Array) -> PolicyOccupancy:
    """The occupancy of a checked policy: one linear solve, refined, its residual measured."""
    chain = mdp.under(policy)
    share = (1 - mdp.discount) * mdp.start
    solve = _solver(sp.csr_array(chain.T), mdp.discount)
    states = np.maximum(solve(share), 0.0)
    residual = _residual(mdp, policy, states)
    for _ in range(3):
        refined = np.maximum(states + solve(residual), 0.0)
        new_residual = _residual(mdp, policy, refined)
        if np.abs(new_residual).sum() >= 0.5 * np.abs(residual).sum():
            break
        states, residual = refined, new_residual
    reached = mdp.reachable(policy > 0)
    states = np.where(reached, states, 0.0)
    occupancy = policy * (states / states.sum())[:, None]
    error = 2 * (float(np.abs(residual).sum()) + 4 * EPS) / (1 - mdp.discount)
    return PolicyOccupancy(occupancy, reached, error)


def _residual(mdp: MDP, policy: Array, states: Array) -> Array:
    """(1-gamma) start + gamma inflow - states, in extended precision: its size is what the error bound rests on."""
    wide = np.longdouble
    into = mdp.columns
    mass = np.ravel(policy).astype(wide) * np.repeat(states, mdp.n_actions).astype(wide)
    carried = np.concatenate([mass[into.indices] * into.data.astype(wide), np.zeros(1, wide)])
    inflow = np.add.reduceat(carried, into.indptr[:-1])
    inflow[np.diff(into.indptr) == 0] = 0
    exact = (1 - wide(mdp.discount)) * mdp.start.astype(wide) + wide(mdp.discount) * inflow - states.astype(wide)
    return np.asarray(exact, dtype=np.float64)


def occupancy_policy(occupancy: Array, default: Array, floor: float = 0.0) -> Array:
    """Rows of the occupancy, normalised; states with at most ``floor`` mass get their ``default`` row."""
    mass = occupancy.sum(axis=1, keepdims=True)
    return np.asarray(np.where(mass > floor, occupancy / np.where(mass > 0, mass, 1.0), default))


def uniform_policy(allowed: Mask) -> Array:
    """Equal weight on every allowed action: the documented row of states that are never visited."""
    return np.asarray(allowed / allowed.sum(axis=1, keepdims=True))


def flow_residual(mdp: MDP, occupancy: Array) -> Array:
    """How far a table (S, A) is from balancing: (1-gamma) start + gamma inflow - outflow; (S,)."""
    inflow = mdp.discount * mdp.flow_into(occupancy)
    return np.asarray((1 - mdp.discount) * mdp.start + inflow - occupancy.sum(axis=1))


def policy_values(mdp: MDP, policy: Array, reward: Array, discount: float | None = None) -> Array:
    """Discounted values (S,) of a policy under a reward table (S, A); the model's discount by default."""
    solve = _solver(mdp.under(policy), mdp.discount if discount is None else discount)
    return solve((policy * reward).sum(axis=1))


def _solver(matrix: sp.csr_array, discount: float) -> Callable[[Array], Array]:
    """A function that solves x = right + discount * matrix @ x, factored once where that pays."""
    n = matrix.shape[0]
    if n <= DENSE_STATES:
        factors = sla.lu_factor(np.eye(n) - discount * matrix.toarray(), check_finite=False)
        return lambda right: np.asarray(sla.lu_solve(factors, right, check_finite=False))
    system = sp.csc_array(sp.eye_array(n) - discount * matrix)

    def iterate(right: Array) -> Array:
        """Short Krylov runs on the residual; factors of random models fill in, so those come last."""
        whole = float(np.abs(right).sum())
        x, residual, size = np.zeros(n), right, whole
        for _ in range(6):
            if size <= 1e-15 * whole:
                break
            # the iteration breaks down on small numbers: it is given a right-hand side of size one
            step, failed = spla.bicgstab(system, residual / size, rtol=1e-6, atol=0.0, maxiter=500)
            better = x + size * step
            left = right - system @ better
            if failed < 0 or not float(np.abs(left).sum()) < size:
                break
            x, residual, size = better, left, float(np.abs(left).sum())
        return x if size <= 1e-11 * whole else _direct(system)(right)

    return iterate


def _direct(system: sp.csc_array) -> Callable[[Array], Array]:
    factors = spla.splu(system)
    return lambda right: np.asarray(factors.solve(right))
