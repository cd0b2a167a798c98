"""The Markov chain of one policy, and its two linear systems.

    values      x = b + gamma P_pi x          occupancy      x = b + gamma P_pi' x

Solved by BiCGStab with a symmetric Gauss-Seidel sweep as preconditioner; a factorisation takes over where that fails.
Without discount, chains whose states are hardly ever entered again are solved by substitution, and those with cheap
factors by these.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from cautious._core import chains, planning
from cautious._core.cholesky_analysis import widest_level
from cautious._core.rows import reach
from cautious.arrays import Array, Indices, Mask
from cautious.models.encodings import EPS, read_only_view
from cautious.models.ends import ForwardOrder, forward_order_of
from cautious.models.tabular import MDP
from cautious.runtime.threads import over_pieces, threads_for

MAX_DENSE_STATES = 300
# a factor of a sparse matrix costs about the cube of its widest level; up to here it is cheaper than a Krylov method
MAX_CHEAP_WIDTH = 400
MAX_KRYLOV_STEPS = 300
# solves of one system, each for the residual of the last; one is asked to reduce the residual at most to this share of
# it, because rounding spoils its own estimate
MAX_REFINEMENTS, MIN_RESIDUAL_RATIO = 8, 1e-10


def factors_are_cheap(mdp: MDP) -> bool:
    """Whether sparse factors of the chains of a model have few entries, as on grids; not where moves are random."""
    return int(widest_level(mdp.transitions.indptr, mdp.transitions.indices, mdp.n_states)) <= MAX_CHEAP_WIDTH


class SingularFactors:
    """In place of factors of a matrix that rounding, or numbers that are not finite, make singular: no solutions."""

    def solve(self, right: Array, trans: str = "N") -> Array:
        """Not a number everywhere, which callers must expect of factors that are hardly regular as well."""
        return np.full(right.shape, np.nan)


Factors: TypeAlias = spla.SuperLU | SingularFactors


def factors_of(matrix: sp.csc_array, **options: Any) -> Factors:
    """Factors of a sparse matrix; SciPy raises an error of its own where it is singular in floating point."""
    try:
        return spla.splu(matrix, **options)
    except RuntimeError:
        return SingularFactors()


def balance_factors(leaving: Array, others: sp.csr_array) -> Factors:
    """Factors of diag(leaving) - others, whose rows do not have negative sums: no pivots are needed."""
    matrix = sp.csc_array(sp.diags_array(leaving) - others)
    options = {"SymmetricMode": True, "Equil": False}
    return factors_of(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


@dataclass(frozen=True)
class Chain:
    """P_pi by rows: row s has ``successor`` and ``chance`` from ``pointer[s]`` to ``pointer[s+1]``."""

    pointer: Any
    successor: Any
    chance: Array

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.pointer.size) - 1

    @property
    def arrays(self) -> tuple[Any, Any, Array]:
        """For compiled loops."""
        return self.pointer, self.successor, self.chance

    @property
    def matrix(self) -> sp.csr_array:
        """As SciPy's matrix."""
        shape = (self.n_states, self.n_states)
        return sp.csr_array((self.chance, self.successor, self.pointer), shape=shape)

    def reachable(self, start: Mask) -> Mask:
        """States (S,) the chain visits from these."""
        return reach(self.pointer, self.successor, np.ones(self.n_states, np.bool_), start)

    def values(self, discount: float, right: Array, guess: Array | None = None, aim: float = 0.0) -> tuple[Array, int]:
        """x = right + discount P_pi x, (S,), and the Krylov steps it took.

        Stops when no entry of the residual is above ``aim``, or as rounding permits.
        """
        x = np.zeros(self.n_states) if guess is None else guess
        residual, spent = self.missing(discount, right, x), 0
        for _ in range(MAX_REFINEMENTS):
            size, goal = _largest(residual), max(aim, EPS * (_largest(right) + _largest(x)))
            if size <= goal:
                return x, spent
            step, steps = self.krylov(discount, residual, max(0.5 * goal, 1e-9 * size), transposed=False)
            better, spent = self.missing(discount, right, x + step), spent + steps
            if not _largest(better) < 0.5 * size:
                break
            x, residual = x + step, better
        if _largest(residual) > max(aim, 64 * EPS * (_largest(right) + _largest(x))):
            step = self.direct(discount, residual, transposed=False)
            better = self.missing(discount, right, x + step)
            x = x + step if _largest(better) < _largest(residual) else x
        return x, spent

    def flow(self, discount: float, right: Array, guess: Array | None, aim: float) -> tuple[Array, float]:
        """x >= 0 with x = right + discount P_pi' x, (S,), and the 1-norm of its residual: mostly at most ``aim``.

        There is no fallback where the Krylov method fails, unlike in ``occupancy.py``: the caller reads the residual.
        """
        x, residual = np.zeros(self.n_states) if guess is None else read_only_view(guess), np.empty(self.n_states)
        size = chains.missing_flow(*self.arrays, discount, right, x, residual)
        for _ in range(MAX_REFINEMENTS):
            if size <= aim:
                break
            step, _ = self.krylov(discount, residual, max(0.5 * aim, 1e-9 * size), transposed=True)
            better = np.maximum(x + step, 0.0)
            left = chains.missing_flow(*self.arrays, discount, right, better, residual)
            if not left < size:
                break
            x, slow, size = better, left > 0.5 * size, left
            if slow:
                break
        return x, size

    def missing_inflow(self, right: Array, x: Array) -> Array:
        """right + P_pi' x - x, (S,)."""
        residual = np.empty(self.n_states)
        chains.missing_flow(*self.arrays, 1.0, right, read_only_view(x), residual)
        return residual

    def missing(self, discount: float, right: Array, x: Array) -> Array:
        """right + discount P_pi x - x, (S,)."""
        swept = np.empty(self.n_states)
        sweep = partial(planning.evaluate, *self.arrays, right, discount, x, swept)
        over_pieces(self.n_states, threads_for(self.chance.size), sweep)
        swept -= x
        return swept

    def krylov(self, discount: float, right: Array, tolerance: float, *, transposed: bool) -> tuple[Array, int]:
        """A solution for a right-hand side (S,), to an absolute residual that is not proved; and the steps it took."""
        size = float(np.abs(right).max(initial=0.0))
        if size == 0.0:
            return np.zeros(self.n_states), 0
        # the iteration breaks down on small numbers: it is given a right-hand side of size one
        x, weight, inverse = np.empty(self.n_states), np.empty(self.chance.size), np.empty(self.n_states)
        chains.scaled_rows(*self.arrays, discount, weight, inverse)
        # memory from NumPy: the system hands it over in larger pages than to compiled code
        work = np.empty((chains.WORK_VECTORS, self.n_states))
        system = (self.pointer, self.successor, weight, inverse, transposed)
        steps = chains.bicgstab(*system, right / size, tolerance / size, MAX_KRYLOV_STEPS, x, work)
        x *= size
        return x, steps

    def direct(self, discount: float, right: Array, *, transposed: bool) -> Array:
        """A solution for a right-hand side (S,) by factors."""
        n = self.n_states
        if n <= MAX_DENSE_STATES:
            # without the warning of lu_factor: what divides by zero is not finite
            factors, pivots, _ = sla.lapack.dgetrf(np.eye(n) - discount * self.matrix.toarray())
            return np.asarray(sla.lapack.dgetrs(factors, pivots, right, trans=int(transposed))[0])
        sparse = factors_of(sp.csc_array(sp.eye_array(n) - discount * self.matrix))
        return np.asarray(sparse.solve(right, trans="T" if transposed else "N"))


@dataclass(frozen=True)
class OrderedChain:
    """A chain without discount, and an ``order`` in which its states come before those that they lead to.

    Where only few states are on a cycle together, linear systems are solved by substitution, and by factors where these
    have few entries (``thin``). The Krylov method, which cycles without discount slow down, is then not needed.
    """

    chain: Chain
    order: ForwardOrder
    thin: bool = False

    @cached_property
    def _factors(self) -> Factors | None:
        """Of I - P; None where they are not cheap, or where rounding leaves no inverse."""
        if not self.thin:
            return None
        found = factors_of(sp.csc_array(sp.eye_array(self.chain.n_states) - self.chain.matrix))
        return None if isinstance(found, SingularFactors) else found

    @property
    def _is_direct(self) -> bool:
        return self.order.has_short_cycles or self._factors is not None

    def _solved(self, right: Array, transposed: bool) -> Array:
        """(I - P)^-1 right, or with P', by substitution or by factors."""
        order = self.order
        if not order.has_short_cycles:
            assert self._factors is not None
            return np.asarray(self._factors.solve(right, trans="T" if transposed else "N"))
        x = np.empty(right.size)
        chains.substitute(*self.chain.arrays, order.states, order.block, order.largest, transposed, right, x)
        return x

    def values(self, right: Array, guess: Array | None, aim: float) -> tuple[Array, int]:
        """As ``Chain.values``."""
        if not self._is_direct:
            return self.chain.values(1.0, right, guess, aim)
        x = self._solved(right, False) if guess is None else guess
        residual = self.chain.missing(1.0, right, x)
        for _ in range(MAX_REFINEMENTS):
            if _largest(residual) <= max(aim, EPS * (_largest(right) + _largest(x))):
                break
            better = x + self._solved(residual, False)
            left = self.chain.missing(1.0, right, better)
            if not _largest(left) < 0.5 * _largest(residual):
                break
            x, residual = better, left
        return x, 1

    def missing(self, right: Array, x: Array) -> Array:
        """As ``Chain.missing``."""
        return self.chain.missing(1.0, right, x)

    def missing_inflow(self, right: Array, x: Array) -> Array:
        """right + P_pi' x - x, (S,)."""
        return self.chain.missing_inflow(right, x)

    def inflow_step(self, right: Array, aim: float, by_factors: bool) -> Array:
        """About the x with x = right + P_pi' x, (S,): by the Krylov method to this residual, or by factors."""
        if self._is_direct:
            return self._solved(right, True)
        if by_factors:
            return self.chain.direct(1.0, right, transposed=True)
        return self.chain.krylov(1.0, right, aim, transposed=True)[0]


def ordered(mdp: MDP, chain: Chain, known: ForwardOrder | None) -> OrderedChain:
    """The chain of a policy with an order of its states: the ``known`` one of more pairs, if that has short cycles."""
    if known is not None and known.has_short_cycles:
        return OrderedChain(chain, known)
    every = np.ones(chain.n_states, np.bool_)
    order = forward_order_of((chain.pointer, chain.successor), every)
    return OrderedChain(chain, order, not order.has_short_cycles and factors_are_cheap(mdp))


def chain_of(mdp: MDP, policy: Array) -> Chain:
    """The chain of a policy (S, A)."""
    pi = read_only_view(policy).ravel()
    pointer, successor, chance = _room(mdp, mdp.entries_of(pi > 0))
    pointer[0], place = 0, np.empty(mdp.n_states, pointer.dtype)
    for block in mdp.row_blocks():
        chains.mix_rows(*block.rows, pi, pointer, successor, chance, place)
    return _cut(pointer, successor, chance)


class DeterministicChains:
    """Chains of deterministic policies, one after the other in the same memory: a new one overwrites the last."""

    def __init__(self, mdp: MDP, reward: Array) -> None:
        """``reward`` (S*A,) is minus infinity on pairs that may not be used."""
        self.mdp, self.reward, self.room = mdp, reward, _room(mdp, mdp.most_entries)
        self.gain = np.empty(mdp.n_states)
        self.held: Indices | None = None
        self.now: Chain

    def chain(self, actions: Indices) -> tuple[Chain, Array]:
        """The chain of actions (S,) and what they are paid (S,)."""
        if self.held is None or not self.mdp.change_rows(self.reward, actions, self.held, self.room, self.gain):
            self.mdp.choose_rows(self.reward, actions, self.room, self.gain)
            self.held, self.now = actions.copy(), _cut(*self.room)
        # rows of the same lengths: the same chain with other numbers in it
        return self.now, self.gain


def _room(mdp: MDP, size: int) -> tuple[Any, Any, Array]:
    """Memory for a chain of so many entries; indices of 32 bits if possible, because passes read them often."""
    index = np.int32 if max(size, mdp.n_states) < 2**31 else np.int64
    return np.empty(mdp.n_states + 1, index), np.empty(size, index), np.empty(size)


def _cut(pointer: Any, successor: Any, chance: Array) -> Chain:
    n = int(pointer[-1])
    return Chain(read_only_view(pointer), read_only_view(successor[:n]), read_only_view(chance[:n]))


def _largest(x: Array) -> float:
    return max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))
