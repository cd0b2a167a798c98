"""Backward induction on pairs of a state and a target, for the largest mean of a utility of the return.

A policy that may remember what it has earned maximises  E[R - loss(x - R)]  for a target x: with V_t(s, x) the value
from step t on, where x is still to be earned,

    V_t(s, x) = max over a of  E[ rho + V_{t+1}(s', x - rho) ],     rho = scale_t r.

Only values at the nodes of a grid are kept. What is known of the value between two nodes makes the result an upper
bound over all policies (``Utility.rule``):

- variance, loss y^2 without R itself: F = V + x^2 is a maximum of functions that are linear in x, hence convex, and
  lies below its chords;
- entropic, loss kappa (exp(rate y) - 1): V is a maximum of functions that are linear in exp(rate x), and lies below
  chords over that;
- shortfall, loss kappa max(y, 0): V falls in x, by at most kappa a unit;
- threshold, loss k if y > 0: V falls in x.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from cautious._core import targets as kernels
from cautious.arrays import Array
from cautious.models.encodings import EPS
from cautious.returns.earnings import Earnings
from cautious.runtime.threads import over_pieces, threads_for

# a loss with an exponent beyond this is larger than any that can be chosen
LARGEST_EXPONENT = 300.0
# of a chord; what is larger, or not known, is as large
LARGEST_ERROR = 1e30
# rounding moves a target by at most this share of the largest number that enters
TARGET_ROUNDING = 1e-13


class Grid:
    """Targets ``nodes`` (n,) that ascend; ``step`` is the distance between neighbours where all are alike, else 0."""

    def __init__(self, nodes: Array) -> None:
        self.nodes, self.step, self.low, self.count = nodes, 0.0, float(nodes[0]), int(nodes.size)

    @classmethod
    def even(cls, low: float, step: float, count: int) -> "Grid":
        """``low``, ``low + step``, ...: ``count`` of them, which are made when they are asked for."""
        grid = object.__new__(cls)
        grid.step, grid.low, grid.count = step, low, count
        return grid

    @cached_property
    def nodes(self) -> Array:
        """(n,)."""
        return np.asarray(self.low + self.step * np.arange(self.count))

    @property
    def high(self) -> float:
        """The last one."""
        return self.low + self.step * (self.count - 1) if self.step > 0 else float(self.nodes[-1])


@dataclass(frozen=True)
class Utility:
    """What is maximised: the mean of  R - loss(x - R).

    ``kind``: "variance", "entropic", "shortfall" or "threshold", with its ``weight`` kappa or k and its ``rate``.
    ``pessimistic``: bounds from below instead, as a policy can keep them (shortfall and threshold only).
    """

    kind: str
    weight: float = 1.0
    rate: float = 0.0
    pessimistic: bool = False

    @property
    def rule(self) -> int:
        """What is known of values between two nodes."""
        if self.kind == "entropic":
            return kernels.EXP_CHORD
        if self.kind == "threshold":
            return kernels.UPPER_NODE if self.pessimistic else kernels.LOWER_NODE
        # rounding the target at random, without changing its mean, can only lose: chords are what a policy reaches
        return kernels.LIPSCHITZ if self.kind == "shortfall" and not self.pessimistic else kernels.CHORD

    @property
    def parameter(self) -> float:
        """The number that belongs to the rule."""
        return self.rate if self.kind == "entropic" else self.weight

    def loss(self, y: Array) -> Array:
        """Of what is missing, but for the variance."""
        if self.kind == "entropic":
            return np.asarray(self.weight * np.expm1(np.minimum(self.rate * y, LARGEST_EXPONENT)))
        if self.kind == "shortfall":
            return np.asarray(self.weight * np.maximum(y, 0.0))
        return np.asarray(self.weight * (y > 0))

    def at_end(self, x: Array, earnings: Earnings) -> Array:
        """Values (S, n) after the last step that is remembered; with means in place of what is still uncertain.

        By Jensen's inequality a certain return of the largest mean is best; the values of ``policy_after`` are what can
        be kept at least. A return that is over a threshold must be possible.
        """
        t = earnings.n_steps
        mean = earnings.at(earnings.mean_most, t)[:, None]
        if self.kind == "variance":
            reachable = np.clip(x, earnings.at(earnings.mean_least, t)[:, None], mean)
            return np.asarray(2 * x * reachable - reachable**2)
        if self.pessimistic:
            mean = earnings.scales[t] * earnings.moments_after[0][:, None]
        if self.kind == "threshold":
            certain = earnings.at(earnings.least if self.pessimistic else earnings.most, t)[:, None]
            return np.asarray(mean - self.loss(x - certain - TARGET_ROUNDING * earnings.size))
        return np.asarray(mean - self.loss(x - mean))

    def magnitude(self, earnings: Earnings, values: Array, largest: float) -> Array:
        """The size of what is added up to values (S, n); ``largest`` is that of the values of all steps.

        Means and losses are bounded apart: losses are never negative, so that none on the way is larger, on average,
        than that of the sum.
        """
        if self.kind == "variance":
            return np.full(values.shape, largest)
        means = earnings.size + (self.weight if self.kind == "entropic" else 0.0)
        targets = 0.0 if self.kind == "threshold" else self.slope_at(values, means) * earnings.size
        return np.asarray(np.abs(values) + 2 * means + targets)

    def slope_at(self, values: Array, means: float) -> Array:
        """How much values (S, n) can fall when targets rise by one."""
        if self.kind == "shortfall":
            return np.full(values.shape, self.weight)
        return np.asarray(self.rate * (np.abs(values) + 2 * means))

    def step_terms(self, earnings: Earnings, t: int) -> tuple[Array, Array]:
        """What a step adds itself: constants and multiples of x for each pair; (S*A,) each."""
        scale = earnings.scales[t]
        mean = scale * earnings.rewards.ravel()
        if self.kind == "variance":
            return -(scale**2) * earnings.square.ravel(), 2 * mean
        return mean, np.zeros_like(mean)

    def outside(self, earnings: Earnings, t: int, grid: Grid, values: Array) -> tuple[Array, Array, Array]:
        """What bounds the values beyond the grid of step t: slopes (S,) left and right, and a cap (S,) for all."""
        most, n_states = earnings.at(earnings.mean_most, t), len(values)
        zero, infinite = np.zeros(n_states), np.full(n_states, np.inf)
        if self.kind == "variance":
            return 2 * earnings.at(earnings.mean_least, t), 2 * most, infinite
        if self.kind == "entropic":
            # with no weight on the loss the mean is all that counts: V is convex in exp(rate x)
            exponent = np.minimum(self.rate * (grid.high - most), LARGEST_EXPONENT)
            cap = most + self.weight
            return np.minimum(values[:, 0] - cap, 0.0), -self.weight * np.exp(exponent), cap
        if self.pessimistic:
            return zero, (zero if self.kind == "threshold" else zero - self.weight), infinite
        if self.kind == "threshold":
            return zero + self.weight, zero, most
        # right of all that can be earned every unit more is a unit of shortfall
        none = grid.high >= earnings.at(earnings.most, t)
        return zero - self.weight, np.where(none, -self.weight, 0.0), most

    def chord_errors(self, grid: Grid, values: Array) -> Array:
        """About what chords can be off by between the nodes of a grid, from the slopes on both sides; (S, n - 1).

        For convex values only: variance, and entropic in exp(rate x).
        """
        width = np.diff(grid.nodes)
        growth = np.ones(width.size)
        if self.kind == "entropic":
            exponent = np.minimum(self.rate * width, LARGEST_EXPONENT)
            width, growth = np.expm1(exponent), np.exp(exponent)
        slopes = np.diff(values, axis=1) / np.maximum(width, 1e-300)
        # how much the slope changes at every inner node, by the scale of the interval on the right
        with np.errstate(over="ignore", invalid="ignore"):
            bends = np.maximum(slopes[:, 1:] - slopes[:, :-1] * growth[:-1], 0.0)
        left, right = np.zeros_like(slopes), np.zeros_like(slopes)
        left[:, 1:], right[:, :-1] = bends, bends / growth[:-1]
        with np.errstate(over="ignore", invalid="ignore"):
            found = 0.25 * width * (left + right)
        return np.asarray(np.fmin(found, LARGEST_ERROR), dtype=np.float32)


@dataclass(frozen=True)
class Planned:
    """Values (S, n) at the nodes of the first grid, how far they can be off by rounding, and the best actions.

    ``chord_errors`` are those of every later grid, if they were asked for.
    """

    grids: list[Grid]
    values: Array
    error: Array
    actions: list[Array]
    chord_errors: list[Array]


def plan_targets(
    earnings: Earnings,
    utility: Utility,
    grids: list[Grid],
    over: Callable[[], bool] | None = None,
    snap: float = 0.0,
    with_errors: bool = False,
) -> Planned | None:
    """Values and actions for every step from the last to the first; None if time is ``over`` before that.

    Targets less than ``snap`` from a node are taken for the node.
    """
    mdp, last = earnings.mdp, len(grids) - 1
    values = utility.at_end(grids[last].nodes[None, :], earnings)
    actions, errors = list[Array](), list[Array]()
    relative, largest = 4 * EPS, float(np.abs(values).max(initial=0.0))
    dtype = np.min_scalar_type(mdp.n_actions)
    allowed = np.ascontiguousarray(earnings.allowed).ravel()
    for t in range(last - 1, -1, -1):
        if over is not None and over():
            return None
        grid, behind = grids[t], grids[t + 1]
        if with_errors:
            errors.append(utility.chord_errors(behind, values))
        left, right, cap = utility.outside(earnings, t + 1, behind, values)
        constant, slope = utility.step_terms(earnings, t)
        found = np.empty((mdp.n_states, grid.count))
        chosen = np.empty(found.shape, np.int32)
        swept = partial(
            kernels.plan_step,
            *mdp.csr,
            earnings.paid,
            allowed,
            constant,
            slope,
            float(earnings.scales[t]),
            values,
            behind.nodes,
            behind.step,
            left,
            right,
            cap,
            utility.rule,
            utility.parameter,
            utility.kind == "variance",
            float(snap),
            grid.nodes,
            grid.step,
            found,
            chosen,
        )
        # states are worked on one by one: pieces of one state
        over_pieces(mdp.n_states, threads_for(mdp.transitions.nnz * grid.count), swept, size=1)
        relative += EPS * (mdp.widest_row + 16) + mdp.row_sum_error
        values = found
        largest = max(largest, float(np.abs(values).max(initial=0.0)))
        actions.append(chosen.astype(dtype))
    return Planned(grids, values, relative * utility.magnitude(earnings, values, largest), actions[::-1], errors[::-1])
