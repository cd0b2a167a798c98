"""A model in exact arithmetic: which pairs can be used, what no policy earns, and where a policy spends its time.

Distributions are stored as doubles, whose sum misses one by rounding. The start, every row of transitions and every row
of a policy stand for the exact multiple whose sum is one.

What no policy earns. For any multipliers v (S,) and every occupancy d,  <d, r> / (1-gamma)  is at most

    <start, v> + max over the pairs that can be used of ( r + gamma E[v] - v ) / (1-gamma).

Where a policy spends its time. Its state marginal solves  x = (1-gamma) start + gamma P' x.  Any x~ is as far from it,
in the 1-norm, as |residual of x~|_1 / (1-gamma) at most, because P' does not increase the 1-norm. Floating point finds
x~, and the residual is exact.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from cautious.arrays import Array, Indices, Mask
from cautious.verification.claim import Model
from cautious.verification.exact import Integers, bits_of, ceil_ratio, dot, fraction, integers

# tables are rounded at 2^-(bits of the rewards) times 2^-GUARD, and never coarser than 2^-LEAST_BITS
GUARD, LEAST_BITS = 96, 256
# how close to the exact occupancy the refinement goes, if it can, and after how many solves it gives up
CLOSE_ENOUGH, ROUNDS = Fraction(1, 1 << 140), 12
KRYLOV_REDUCTION, KRYLOV_STEPS, KRYLOV_RESTARTS, KRYLOV_SUFFICES = 1e-10, 40, 10, 1e-3
CORRECTION_BITS = 106


class Rows:
    """The transitions of some pairs, given by a mask (S, A); tables are arrays over these pairs, in their order."""

    def __init__(self, model: Model, mask: Mask) -> None:
        self.model = model
        self.pairs: Indices = np.flatnonzero(mask)
        self.states: Indices = self.pairs // model.shape[1]
        lengths = np.diff(model.indptr)[self.pairs]
        self.starts: Indices = np.cumsum(lengths) - lengths
        self.entries: Indices = np.repeat(model.indptr[self.pairs] - self.starts, lengths) + np.arange(lengths.sum())
        self.owner: Indices = np.repeat(np.arange(self.pairs.size), lengths)
        self.next_states = model.indices[self.entries]

    @cached_property
    def chances(self) -> Integers:
        """Of every entry, up to the factor that makes the sum of a row one."""
        return integers(self.model.probabilities[self.entries], bits_of(self.model.probabilities))

    @cached_property
    def totals(self) -> Integers:
        """The sum of every row."""
        return self.sums(self.chances)

    def sums(self, entries: Integers) -> Integers:
        """Sums over the entries of every row."""
        return np.asarray(np.add.reduceat(entries, self.starts), dtype=object)

    def of_outcomes(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Expectation of a number given per entry: numerators and denominators."""
        return self.sums(self.chances * numbers), self.totals

    def pick(self, table: Any) -> Any:
        """The entries of a table (S, A), or (S,) for the state of each pair, at these pairs."""
        return table[self.states] if table.ndim == 1 else table.ravel()[self.pairs]


class ExactModel:
    """The model, and the pairs ``permitted`` (S, A) by the risks; tables are integers of 2^-``bits``."""

    def __init__(self, model: Model, permitted: Mask) -> None:
        self.model = model
        self.gamma, self.horizon = Fraction(model.discount), 1 / (1 - Fraction(model.discount))
        paid = [model.rewards] if model.outcome_rewards is None else [model.outcome_rewards]
        self.reward_bits = bits_of(*paid)
        self.bits = max(LEAST_BITS, self.reward_bits + GUARD)
        self.kept = _kept(model, permitted)
        states = reachable(model, self.kept)
        self.active: Mask = self.kept & states[:, None]

    @cached_property
    def rows(self) -> Rows:
        """The pairs that an occupancy of finite risk can use."""
        return Rows(self.model, self.active)

    @property
    def trapped(self) -> int | None:
        """A start state that every policy leaves by a pair that is not permitted, or meets such a pair later."""
        stuck = (self.model.start > 0) & ~self.kept.any(axis=1)
        return int(np.argmax(stuck)) if stuck.any() else None

    def reward(self, rows: Rows) -> tuple[Integers, Integers]:
        """The expected reward of every pair, as numerators of 2^-``reward_bits`` and denominators."""
        if self.model.outcome_rewards is not None:
            return rows.of_outcomes(integers(self.model.outcome_rewards[rows.entries], self.reward_bits))
        return integers(rows.pick(self.model.rewards), self.reward_bits), np.ones(rows.pairs.size, dtype=object)

    @cached_property
    def reward_above(self) -> Integers:
        """The expected reward of the active pairs, rounded up."""
        numerator, denominator = self.reward(self.rows)
        return np.asarray(ceil_ratio(numerator << (self.bits - self.reward_bits), denominator), dtype=object)

    def greatest_return(self, reward: Integers, *multipliers: Array) -> Fraction:
        """What no policy earns from a reward of the active pairs, given as integers of 2^-``bits``.

        The multipliers are the sum of what is given; any numbers prove something, so they may be rounded.
        """
        rows, v = self.rows, np.sum([integers(part, self.bits) for part in multipliers], axis=0)
        numerator, denominator = self.gamma.numerator, self.gamma.denominator
        ahead = ceil_ratio(numerator * rows.sums(rows.chances * v[rows.next_states]), denominator * rows.totals)
        worst = int(np.max(reward + ahead - v[rows.states]))
        return self.start_mean(v, self.bits) + fraction(worst, self.bits) * self.horizon

    def start_mean(self, values: Integers, bits: int) -> Fraction:
        """Of values (S,) over the start distribution."""
        start = integers(self.model.start, bits_of(self.model.start))
        return fraction(dot(start, values), bits) / int(start.sum())


def _kept(model: Model, permitted: Mask) -> Mask:
    """The largest set of permitted pairs with which one can go on for ever; with discount 0 there is no going on."""
    kept = permitted.copy()
    if model.discount == 0:
        return kept
    size = kept.size
    into = sp.csr_array((np.ones(model.indices.size, np.int8), model.indices, model.indptr), shape=(size, len(kept)))
    into = sp.csc_array(into)
    dead = np.flatnonzero(~kept.any(axis=1))
    while dead.size:
        # a pair that may lead to a state without kept pairs is not kept
        kept.ravel()[np.unique(into[:, dead].indices)] = False
        alive = kept.any(axis=1)
        found, dead = dead, np.flatnonzero(~alive)
        dead = np.setdiff1d(dead, found) if dead.size > found.size else dead[:0]
    return kept


def reachable(model: Model, pairs: Mask) -> Mask:
    """States (S,) that can be visited from the start with these pairs (S, A); with discount 0 only the start counts."""
    found: Mask = model.start > 0
    new = np.flatnonzero(found) if model.discount > 0 else np.empty(0, np.int64)
    n_actions = model.shape[1]
    while new.size:
        rows = (new[:, None] * n_actions + np.arange(n_actions))[pairs[new]]
        lengths = np.diff(model.indptr)[rows]
        first = np.repeat(model.indptr[rows] - (np.cumsum(lengths) - lengths), lengths)
        entries = first + np.arange(lengths.sum())
        ahead = np.unique(model.indices[entries])
        new = ahead[~found[ahead]]
        found[new] = True
    return found


@dataclass(frozen=True)
class Occupancy:
    """Where a policy spends its time: ``mass`` of the pairs of ``rows``, integers of 2^-``bits``, not negative.

    The exact occupancy uses no other pairs, and differs from this one by at most ``distance`` in the 1-norm.
    """

    rows: Rows
    mass: Integers
    bits: int
    distance: Fraction

    def mean(self, numerator: Integers, denominator: Any, bits: int) -> tuple[Fraction, Fraction]:
        """Of a table of fractions, numerators of 2^-bits: the ends of an interval with the exact occupancy's mean."""
        # quotients on a finer grid, rounded both ways
        below, above = (numerator << self.bits) // denominator, ceil_ratio(numerator << self.bits, denominator)
        largest = fraction(max(abs(int(np.min(below))), abs(int(np.max(above)))), bits + self.bits)
        low, high = (fraction(dot(self.mass, table), bits + 2 * self.bits) for table in (below, above))
        return low - largest * self.distance, high + largest * self.distance

    @cached_property
    def of_states(self) -> Integers:
        """The state marginal (S,)."""
        sums = np.zeros(self.rows.model.shape[0], dtype=object)
        np.add.at(sums, self.rows.states, self.mass)
        return sums


def occupancy(model: Model, policy: Array) -> Occupancy:
    """The occupancy of a policy (S, A); see the module's text."""
    used = policy > 0
    states = reachable(model, used)
    rows = Rows(model, used & states[:, None])
    shares = rows.pick(policy)
    bits = LEAST_BITS
    share_integers = integers(shares, bits_of(shares))
    share_totals = np.zeros(len(policy), dtype=object)
    np.add.at(share_totals, rows.states, share_integers)
    share_totals = share_totals[rows.states]
    gamma, chance_bits = Fraction(model.discount), bits_of(model.probabilities)
    start = integers(model.start, bits_of(model.start))
    entering = (start << bits) * (gamma.denominator - gamma.numerator) // (int(start.sum()) * gamma.denominator)
    solver = _Balance(rows, shares / policy.sum(axis=1)[rows.states])
    # every rounded quotient adds less than one unit, or two where it is multiplied by a row
    unit = Fraction(2 * len(policy) + 4 * rows.pairs.size, 1 << bits)
    best: tuple[Fraction, Integers] | None = None
    x = np.zeros(len(policy), dtype=object)
    for _ in range(ROUNDS):
        mass = x[rows.states] * share_integers // share_totals
        flow = (gamma.numerator * mass << chance_bits) // (gamma.denominator * rows.totals)
        inflow = np.zeros(len(policy), dtype=object)
        np.add.at(inflow, rows.next_states, flow[rows.owner] * rows.chances)
        residual = entering + (inflow >> chance_bits) - x
        distance = (fraction(int(np.sum(np.abs(residual))), bits) + unit) / (1 - gamma) + unit
        if best is not None and distance >= best[0]:
            break
        best = distance, mass
        correction = None if distance <= CLOSE_ENOUGH else solver.correction(residual)
        if correction is None:
            break
        x = np.maximum(x + correction, 0)
    assert best is not None
    return Occupancy(rows, best[1], bits, best[0])


class _Balance:
    """The equation  y - gamma P' y = residual  of a policy's chain, solved in floating point; proves nothing."""

    def __init__(self, rows: Rows, shares: Array) -> None:
        n = rows.model.shape[0]
        weights = shares[rows.owner] * rows.model.probabilities[rows.entries]
        chain = sp.csr_array((weights, (rows.next_states, rows.states[rows.owner])), shape=(n, n))
        self.matrix = sp.csc_array(sp.eye_array(n) - rows.model.discount * chain)
        self.factors: Any = None

    def correction(self, residual: Integers) -> Integers | None:
        """What to add, in the units of the residual: by a Krylov method, by sparse factors if that fails, or None."""
        largest = max(1, int(np.max(np.abs(residual))))
        right = np.array([float(Fraction(int(entry), largest)) for entry in residual])
        found = self._krylov(right) if self.factors is None else None
        if found is None:
            try:
                self.factors = sla.splu(self.matrix) if self.factors is None else self.factors
            except RuntimeError:
                # singular in floating point, as a discount of 1 - 1e-16 may be
                return None
            found = self.factors.solve(right)
        if not np.isfinite(found).all():
            return None
        return np.asarray((integers(found, CORRECTION_BITS) * largest) >> CORRECTION_BITS, dtype=object)

    def _krylov(self, right: Array) -> Array | None:
        found: Array = sla.gmres(
            self.matrix, right, rtol=KRYLOV_REDUCTION, restart=KRYLOV_STEPS, maxiter=KRYLOV_RESTARTS
        )[0]
        left_over = float(np.linalg.norm(right - self.matrix @ found))
        return found if left_over <= KRYLOV_SUFFICES * float(np.linalg.norm(right)) else None
