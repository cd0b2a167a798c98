"""Distances to a prior that are sums over entries, on pairs (S, A) or on the state marginal (S,).

With x the pairs or the marginal, p the prior, u a slope, and minima over distributions x on the active entries:

    KL, Entropy:     sum x log(x/p)      min KL - <u, x>  = -log sum p e^u                 (Entropy: p = 1)
    TotalVariation:  1/2 |x - p|_1       min TV - <u, x>  = 1 - u_max - sum p (1 + u - u_max)_+
    Quadratic:       1/2 |x - p|^2       minimum at the projection of p + u on the simplex

These minima are the intercepts of the lines <u, x> + intercept below each risk; any slope u is a valid witness.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious._core.simplex import simplex_threshold
from cautious.arrays import Array, Indices, Mask
from cautious.checks import picked, spread_to, state_sums_of, states_of
from cautious.models.encodings import EPS
from cautious.models.tabular import MDP
from cautious.risks.base import ConicRisk, Cut, Structure, never
from cautious.risks.epigraph import Epigraph, identity, state_sums

SMALLEST_POSITIVE = float(np.finfo(float).tiny)
# the exponential of less than minus this is zero beside one, however many there are
LARGEST_EXPONENT = 200.0


@dataclass(frozen=True)
class SeparableRisk(ConicRisk):
    """``prior`` is (S, A) or (S,); ``shape`` is (S, A); ``outside`` is what entries that were left out add."""

    prior: Array
    shape: tuple[int, int]
    title: str
    outside: float = 0.0

    @property
    def label(self) -> str:
        """The recipe's name, and what it looks at."""
        return f"{self.title} (states)" if self.on_states else self.title

    @property
    def on_states(self) -> bool:
        """Whether the risk looks at the state marginal only."""
        return self.prior.ndim == 1

    def entries(self, d: Array) -> Array:
        """The pairs, or the marginal."""
        return np.asarray(state_sums_of(d)) if self.on_states else d

    def as_table(self, x: Array) -> Array:
        """A table (S, A) from entries."""
        return np.broadcast_to(x[:, None], self.shape).copy() if self.on_states else x

    def active_entries(self, active: Mask) -> Mask:
        """Which entries can be positive."""
        return states_of(active) if self.on_states else active

    def restricted(self, mdp: MDP, states: Indices) -> "SeparableRisk":
        """The prior on these states; no mass can be elsewhere."""
        elsewhere = np.ones(self.shape[0], np.bool_)
        elsewhere[states] = False
        outside = self.outside + self.of_nothing(self.prior[elsewhere])
        return replace(self, prior=self.prior[states], shape=mdp.shape, outside=outside)

    def of_nothing(self, prior: Array) -> float:
        """What entries without mass add to the risk, where the prior is this."""
        return 0.0

    def selector(self, active: Mask) -> sp.csr_array:
        """(active entries, S*A): the active entries of d as a matrix."""
        full = state_sums(active) if self.on_states else identity(active.size)
        return sp.csr_array(full[np.flatnonzero(self.active_entries(active))])

    def witness_at(self, d: Array, active: Mask) -> Array:
        """The gradient at the active entries."""
        gradient = self.gradient(d)
        return np.asarray((gradient[:, 0] if self.on_states else gradient)[self.active_entries(active)])

    def simple_witness(self, active: Mask) -> Array:
        """The slope zero."""
        return np.zeros(np.count_nonzero(self.active_entries(active)))

    def cut(self, witness: Any, active: Mask) -> Cut:
        """The line of slope ``witness``, given per active entry."""
        here = self.active_entries(active)
        given, count = np.asarray(witness, dtype=np.float64), np.count_nonzero(here)
        # a witness that is not a slope is replaced by the slope zero, which is always valid
        if given.shape != (count,) or not np.isfinite(given).all():
            given = np.zeros(count)
        slope, intercept, size = self.tightest_line(given, here)
        return Cut(self.as_table(spread_to(here, slope)), intercept, intercept_size=size)

    @abstractmethod
    def tightest_line(self, u: Array, here: Mask) -> tuple[Array, float, float]:
        """A slope that is nowhere below u, the intercept of both, and what the rounding of that is relative to.

        The intercept is the minimum over distributions x on the active entries of risk(x) - <u, x>; a little below it
        is sound. Where a far lower slope than elsewhere leaves no mass, it may be raised without changing that minimum:
        the line is then steeper for pairs that cost much, and does not round as their costs do.
        """


@dataclass(frozen=True)
class EntropicRisk(SeparableRisk):
    """Relative entropy to the prior; the prior need not sum to one (ones give the negative entropy)."""

    structure = Structure.ENTROPY

    @cached_property
    def positive(self) -> bool:
        """Whether the prior is positive everywhere."""
        return bool(np.all(self.prior > 0))

    @cached_property
    def log_prior(self) -> Array:
        """Its logarithm, 0 where it is zero."""
        return np.log(self.prior, out=np.zeros_like(self.prior), where=self.prior > 0)

    def value(self, d: Array) -> float:
        """sum x log(x/p); infinite where p = 0 < x."""
        x = self.entries(d)
        return np.inf if self._outside(x) else float(np.sum(x * self._logarithms(x)))

    def gradient(self, d: Array) -> Array:
        """1 + log(x/p)."""
        return self.as_table(1 + self._logarithms(self.entries(d)))

    def value_and_gradient(
        self, d: Array, hint: Any = None, over: Callable[[], bool] = never
    ) -> tuple[float, Array | None]:
        """Both, from the same logarithms."""
        x = self.entries(d)
        if self._outside(x):
            return np.inf, None
        logs = self._logarithms(x)
        return float(np.sum(x * logs)), self.as_table(1 + logs)

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """To first order in the entries that are much larger than the distance; the others by themselves.

        A change of mass without a sum changes a smooth function by at most half the range of its slopes, times its
        1-norm; and slopes 1 + log(x/p) change by less than one where x changes by less than half. k entries with a sum
        of m add up to at most m (log k + log(1/m) + 1 + |log p|) in x log(x/p).
        """
        x = self.entries(d)
        logs = self._logarithms(x)
        small, large = (x > 0) & (x < 4 * distance), x >= max(4 * distance, SMALLEST_POSITIVE)
        slopes = logs[large]
        error = distance * (1 + (float(np.ptp(slopes)) / 2 if slopes.size else 0.0))
        if small.any():
            mass = min(distance + float(x[small].sum()), 1.0)
            steep = float(np.abs(self.log_prior[small]).max())
            error += 2 * mass * (float(np.log(np.count_nonzero(small))) - float(np.log(mass)) + 1 + steep)
        return error + 32 * EPS * (abs(value) + float(np.sum(x * np.abs(logs))) + 1)

    def _outside(self, x: Array) -> bool:
        return not self.positive and bool(np.any((x > 0) & (self.prior == 0)))

    def _logarithms(self, x: Array) -> Array:
        """log(x/p); entries with x = 0 are taken at the smallest positive number, to stay finite: they add nothing."""
        logs = np.maximum(x, SMALLEST_POSITIVE)
        np.log(logs, out=logs)
        logs -= self.log_prior
        return logs

    def permitted(self) -> Mask | None:
        """Pairs (S, A) where the prior is positive."""
        return None if self.positive else self.as_table(self.prior) > 0

    def tightest_line(self, u: Array, here: Mask) -> tuple[Array, float, float]:
        """-log sum p e^u. An exponent that rounds counts as much as its exponential has of the sum."""
        log_prior = picked(self.log_prior, here)
        exponents = u + log_prior
        top = float(exponents.max())
        if float(exponents.min()) < top - LARGEST_EXPONENT:
            u = np.maximum(u, top - LARGEST_EXPONENT - log_prior)
            exponents = u + log_prior
        exponents -= top
        np.exp(exponents, out=exponents)
        total = float(exponents.sum())
        parts = np.abs(u)
        parts += np.abs(log_prior)
        log_total = float(np.log(total))
        return u, -(top + log_total), 1 + abs(top) + log_total + float(np.vdot(exponents, parts)) / total

    def epigraph(self, active: Mask) -> Epigraph:
        """t >= n x log(n x) per entry, as (-t, n x, 1) in the exponential cone; -log(n p) is a linear cost on d."""
        pick = self.selector(active)
        n = pick.shape[0]
        scale = float(n)
        rows = np.arange(n)
        spread = sp.csr_array((np.full(n, -scale), (3 * rows + 1, rows)), shape=(3 * n, n))
        rhs = np.zeros(3 * n)
        rhs[2::3] = 1
        log_prior = np.log(self.prior[self.active_entries(active)] * scale)
        return Epigraph(
            cost=np.full(n, 1 / scale),
            on_pairs=sp.csr_array(spread @ pick),
            on_own=sp.csr_array((np.ones(n), (3 * rows, rows)), shape=(3 * n, n)),
            rhs=rhs,
            cones=(("exponential", 3),) * n,
            linear=-np.asarray(pick.T @ log_prior),
            witness=lambda z: -scale * z[1::3] - log_prior,
        )


@dataclass(frozen=True)
class HalfL1(SeparableRisk):
    """Total variation."""

    smooth = False
    structure = Structure.L1

    def value(self, d: Array) -> float:
        """1/2 |x - p|_1."""
        return 0.5 * float(np.abs(self.entries(d) - self.prior).sum()) + self.outside

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """Half of that distance; the slope says nothing at a kink."""
        return distance + 32 * EPS

    def of_nothing(self, prior: Array) -> float:
        """Half of it."""
        return 0.5 * float(prior.sum())

    def gradient(self, d: Array) -> Array:
        """1/2 sign(x - p)."""
        return self.as_table(0.5 * np.sign(self.entries(d) - self.prior))

    def largest_change(self, n: int) -> float:
        """All of that mass."""
        return 1 / n

    def tightest_line(self, u: Array, here: Mask) -> tuple[Array, float, float]:
        """1 - u_max - sum p (1 + u - u_max)_+."""
        top = float(u.max())
        u = np.maximum(u, top - 1)
        return u, 1 - top - float(np.sum(self.prior[here] * np.maximum(1 + u - top, 0))), 3 + 2 * abs(top)

    def epigraph(self, active: Mask) -> Epigraph:
        """For two distributions half the L1 distance is the sum of (x - p)_+."""
        pick = self.selector(active)
        n, width = pick.shape
        return Epigraph(
            cost=np.ones(n),
            on_pairs=sp.csr_array(sp.vstack([pick, sp.csr_array((n, width))])),
            on_own=sp.csr_array(sp.vstack([identity(n, -1.0), identity(n, -1.0)])),
            rhs=np.concatenate([self.prior[self.active_entries(active)], np.zeros(n)]),
            cones=(("nonnegative", 2 * n),),
            witness=lambda z: z[:n],
        )


@dataclass(frozen=True)
class HalfSquares(SeparableRisk):
    """Half the squared Euclidean distance."""

    structure = Structure.SQUARE

    @property
    def typical_slope(self) -> float:
        """The largest entry of the prior."""
        return float(self.prior.max())

    def value(self, d: Array) -> float:
        """1/2 |x - p|^2."""
        return 0.5 * float(np.sum((self.entries(d) - self.prior) ** 2)) + self.outside

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """To first order, and the square of the distance."""
        return super().value_error(d, value, slope, distance) + distance**2

    def of_nothing(self, prior: Array) -> float:
        """Half of its squares."""
        return 0.5 * float(np.sum(prior**2))

    def gradient(self, d: Array) -> Array:
        """x - p."""
        return self.as_table(self.entries(d) - self.prior)

    def largest_change(self, n: int) -> float:
        """Two entries change by 1/n, and none is further than one from its prior."""
        return (2 + 1 / n) / n

    def tightest_line(self, u: Array, here: Mask) -> tuple[Array, float, float]:
        """At the projection of p + u on the simplex, plus what the unreachable entries cost anyway.

        Distributions sum to one, so that for any number t the minimum over x >= 0 of risk(x) - <u - t, x> - t is not
        above it: rounding in the level of the projection makes this lower, never wrong.
        """
        p = picked(self.prior, here)
        top = float((p + u).max())
        u = u - top
        least = simplex_threshold(p + u, 1.0)
        u -= least
        x = np.maximum(p + u, 0.0)
        u = np.maximum(u, -p)
        elsewhere = self.of_nothing(self.prior[~here]) + self.outside
        half = 0.5 * float(np.sum((x - p) ** 2))
        size = half + float(np.abs(u) @ x) + abs(top) + abs(least) + elsewhere
        return u + (top + least), half - float(u @ x) - (top + least) + elsewhere, size

    def epigraph(self, active: Mask) -> Epigraph:
        """y = x - p and half its square."""
        pick = self.selector(active)
        n = pick.shape[0]
        return Epigraph(
            cost=np.zeros(n),
            quadratic=np.ones(n),
            on_pairs=pick,
            on_own=identity(n, -1.0),
            rhs=self.prior[self.active_entries(active)],
            cones=(("zero", n),),
            witness=lambda z: np.asarray(z),
        )


def project_on_simplex(x: Array) -> Array:
    """The nearest distribution to x (n,)."""
    # from the largest entry down, so that a constant added to all of them takes no digits away
    shifted = x - x.max()
    return np.asarray(np.maximum(shifted - simplex_threshold(shifted, 1.0), 0.0))
