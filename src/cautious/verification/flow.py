"""A model in exact arithmetic: which pairs can be used, and what no policy earns; discounted, without an end.

Distributions are stored as doubles, whose sum misses one by rounding. The start, every row of transitions and every row
of a policy stand for the exact multiple whose sum is one.

For any multipliers v (S,) and every occupancy d,  <d, r> / (1-gamma)  is at most

    <start, v> + max over the pairs that can be used of ( r + gamma E[v] - v ) / (1-gamma).
"""

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.verification.claim import Model
from cautious.verification.exact import Integers, Number, bits_of, ceil_ratio, dot, fraction, integers

# tables are rounded at 2^-(bits of the rewards) times 2^-GUARD_BITS, and never coarser than 2^-LEAST_BITS nor than
# 2^-GUARD_BITS times the claimed gap per step
GUARD_BITS, LEAST_BITS = 96, 256


class Rows:
    """The transitions of some pairs, given by a mask (S, A); tables are arrays over these pairs, in their order."""

    def __init__(self, model: Model, mask: Mask) -> None:
        self.model = model
        self.pairs: Indices = np.flatnonzero(mask)
        self.states: Indices = self.pairs // model.shape[1]
        self.entries, self.starts, self.owner = entries_of(model, self.pairs)
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

    def entry(self, numbers: Any) -> Any:
        """Numbers (nnz,) of the stored entries, at those of these pairs."""
        return numbers[self.entries]

    def pick(self, table: Any) -> Any:
        """The entries of a table (S, A), or (S,) for the state of each pair, at these pairs."""
        return table[self.states] if table.ndim == 1 else table.ravel()[self.pairs]


def entries_of(model: Model, pairs: Indices) -> tuple[Indices, Indices, Indices]:
    """The stored entries of some pairs, where those of each pair start, and which of the pairs each belongs to."""
    lengths = model.indptr[pairs + 1] - model.indptr[pairs]
    starts = np.cumsum(lengths) - lengths
    owner = np.repeat(np.arange(pairs.size), lengths)
    return (model.indptr[pairs] - starts)[owner] + np.arange(owner.size), starts, owner


class ExactModel(ABC):
    """The model, and the pairs ``permitted`` (S, A) by the risks; tables are integers of 2^-``bits``.

    ``active`` (S, A): the pairs that an occupancy of finite risk can use. ``first`` (S, A): those it can use to start.
    """

    active: Mask
    first: Mask

    def __init__(self, model: Model) -> None:
        self.model, self.gamma, self.length = model, Fraction(model.discount), model.length
        paid = [model.rewards] if model.outcome_rewards is None else [model.outcome_rewards]
        self.reward_bits = bits_of(*paid)
        self.bits = max(LEAST_BITS, self.reward_bits + GUARD_BITS)

    def refine(self, gap: float) -> None:
        """Let rounding be small compared with a gap, which may be far below the rewards."""
        if 0 < gap < math.inf:
            self.bits = max(self.bits, GUARD_BITS + int(self.length / Fraction(gap)).bit_length())

    @cached_property
    def rows(self) -> Rows:
        """The active pairs."""
        return Rows(self.model, self.active)

    @property
    def trapped(self) -> int | None:
        """A start state that every policy leaves by a pair that is not permitted, or meets such a pair later."""
        stuck = (self.model.start > 0) & ~self.first.any(axis=1)
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

    @abstractmethod
    def greatest_return(self, reward: Integers, *multipliers: Array) -> Number:
        """What no policy earns from a reward of the active pairs, given as integers of 2^-``bits``.

        The multipliers are the sum of what is given; any numbers prove something, so they may be rounded.
        """

    def ahead(self, values: Integers) -> Integers:
        """gamma E[values] of the active pairs, rounded up; values (S,) are integers."""
        rows, gamma = self.rows, self.gamma
        sums = gamma.numerator * rows.sums(rows.chances * values[rows.next_states])
        return np.asarray(ceil_ratio(sums, gamma.denominator * rows.totals), dtype=object)

    def start_mean(self, values: Integers, bits: int) -> Fraction:
        """Of values (S,) over the start distribution."""
        start = integers(self.model.start, bits_of(self.model.start))
        return fraction(dot(start, values), bits) / int(start.sum())


class Discounted(ExactModel):
    """Without an end."""

    def __init__(self, model: Model, permitted: Mask) -> None:
        super().__init__(model)
        self.first = _kept(model, permitted)
        self.active = self.first & reachable(model, self.first)[:, None]

    def greatest_return(self, reward: Integers, *multipliers: Array) -> Fraction:
        """See the module's text."""
        v = np.sum([integers(part, self.bits) for part in multipliers], axis=0)
        worst = int(np.max(reward + self.ahead(v) - v[self.rows.states]))
        return self.start_mean(v, self.bits) + fraction(worst, self.bits) * self.length


def _kept(model: Model, permitted: Mask) -> Mask:
    """The largest set of permitted pairs with which one can go on for ever; with discount 0 there is no going on."""
    kept, gone = permitted.copy(), np.zeros(len(permitted), dtype=np.bool_)
    shape = (kept.size, len(kept))
    into = sp.csc_array(sp.csr_array((np.ones(model.indices.size), model.indices, model.indptr), shape=shape))
    dead = np.flatnonzero(~kept.any(axis=1))
    while dead.size and model.discount > 0:
        gone[dead] = True
        # a pair that may lead to a state without kept pairs is not kept
        kept.ravel()[into[:, dead].indices] = False
        dead = np.flatnonzero(~kept.any(axis=1) & ~gone)
    return kept


def reachable(model: Model, pairs: Mask) -> Mask:
    """States (S,) that can be visited from the start with these pairs (S, A); with discount 0 only the start counts."""
    found: Mask = model.start > 0
    new = np.flatnonzero(found) if model.discount > 0 else np.empty(0, np.int64)
    n_actions = model.shape[1]
    while new.size:
        rows = (new[:, None] * n_actions + np.arange(n_actions))[pairs[new]]
        ahead = np.unique(model.indices[entries_of(model, rows)[0]])
        new = ahead[~found[ahead]]
        found[new] = True
    return found
