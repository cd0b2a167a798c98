"""What a policy with memory earns: its occupancy and the distribution of its return, without simulation.

One pass from the start carries, for every state and node of memory, the mass that is there and sums over its true
targets x: of x, of x^2 and of exp(rate x), measured from the node, and their range. Means, variances and entropic risks
follow exactly. Of the distribution of the return every cell gives a mass, its mean and an interval around it, which
bounds shortfalls and probabilities from both sides: by Jensen's inequality a shortfall is least if a cell has its mean
for certain, and largest if it has only the ends of its interval.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from cautious._core import targets as kernels
from cautious.arrays import Array, Indices
from cautious.checks import as_number, state_sums_of
from cautious.horizons.visits import PolicyOccupancy
from cautious.models.encodings import EPS
from cautious.models.horizons import TOTAL
from cautious.occupancy import policy_occupancy
from cautious.returns.earnings import Earnings
from cautious.returns.memory_policy import MemoryPolicy
from cautious.returns.moments import log_exponentials

# of a mean of exponentials, what may have been lost by numbers that are too small for doubles
SMALLEST_POWER = 1e-290
# numbers that a cell keeps beside its mass, as in the compiled loop
KEPT = 5
# for quantiles, cells that differ by less than this share of the standard deviation are joined, where they are many
JOINED_SHARE, FEW_CELLS = 1e-3, 2000
# of the standard deviation: what bisection for a quantile leaves open
BISECTED_SHARE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class ReturnDistribution:
    """How the return R of an episode is distributed, computed from the model and not simulated.

    It is a list of cells. Of each the chance, the mean, the variance, and an interval that holds its returns are exact,
    but for rounding. Where few returns are possible every cell is one of them, and everything is exact (``is_exact``);
    elsewhere ``cvar``, ``below`` and ``quantile`` are bounds from both sides, and mean and variance are exact.

    Attributes
    ----------
    mass, mean, least, most, spread
        Of every cell (n,), from the lowest mean: its chance, mean, interval and variance.
    target
        The first target of the policy.
    error, relative
        Rounding moves a return by at most ``error``, and a mass by the share ``relative``.
    rate, log_power
        An interval around log E exp(-rate R), if a ``rate`` was asked for.

    Examples
    --------
    >>> import cautious as ca
    >>> returns = ca.solve(ca.Problem(ca.worlds.river_swim(), horizon=20)).return_distribution()
    >>> low, high = returns.cvar(0.9)
    >>> high - low < 1e-3, returns.resolution < 0.01
    (True, True)
    """

    mass: Array
    mean: Array
    least: Array
    most: Array
    spread: Array
    target: float
    error: float
    relative: float
    rate: float = 0.0
    log_power: tuple[float, float] | None = None

    @cached_property
    def expectation(self) -> float:
        """E R."""
        return float(self.mass @ self.mean)

    @cached_property
    def variance(self) -> float:
        """Var R."""
        centred = self.mean - self.expectation
        with np.errstate(over="ignore"):
            return float(self.mass @ (centred**2 + self.spread))

    def shortfall(self, x: float) -> tuple[float, float]:
        """Bounds of E max(x - R, 0)."""
        certain = np.maximum(x - self.mean, 0.0)
        width = self.most - self.least
        with np.errstate(divide="ignore", invalid="ignore"):
            low_share = np.where(width > 0, (self.most - self.mean) / width, 1.0)
        ends = low_share * np.maximum(x - self.least, 0.0) + (1 - low_share) * np.maximum(x - self.most, 0.0)
        # with unbounded cells the variance bounds it (Scarf)
        with np.errstate(over="ignore"):
            by_variance = 0.5 * (np.sqrt(self.spread + (x - self.mean) ** 2) + (x - self.mean))
        with np.errstate(invalid="ignore"):
            upper = np.where(np.isfinite(width), np.fmin(ends, by_variance), by_variance)
        return float(self.mass @ certain), float(self.mass @ np.maximum(upper, certain))

    def cvar(self, level: float) -> tuple[float, float]:
        """Bounds of minus the mean of the worst ``1 - level`` share."""
        tail = 1 - as_number("level", level, 0, 1, open_ends=")")
        # -CVaR = max over y of  y - E max(y - R, 0) / tail: best at the quantile, which is the mean of some cell
        order_mass = np.cumsum(self.mass)
        at = self.mean[min(int(np.searchsorted(order_mass, tail * (1 - 4 * EPS))), self.mean.size - 1)]
        # no target is better known than that of the policy: what is certain to earn it is not told apart
        upper = min(self.shortfall(x)[1] / tail - x for x in (float(at), self.target))
        low_order = np.argsort(self.mean, kind="stable")
        taken = np.minimum(np.cumsum(self.mass[low_order]), tail)
        parts = np.diff(taken, prepend=0.0)
        # of cells that are certain of their means the shortfall is least
        lower = -float(parts @ self.mean[low_order]) / max(float(parts.sum()), 1e-300)
        return min(lower, upper), upper

    def below(self, threshold: float) -> tuple[float, float]:
        """Bounds of P(R < threshold)."""
        return self._below(as_number("threshold", threshold) - self.error)

    def quantile(self, share: float) -> tuple[float, float]:
        """Bounds of the smallest return that at least this share of all returns does not exceed."""
        share = as_number("share", share, 0, 1, open_ends="()") * (1 - self.relative - 4 * EPS)
        if self.is_exact:
            place = min(int(np.searchsorted(np.cumsum(self.mass), share)), self.mass.size - 1)
            return float(self.mean[place]), float(self.mean[place])
        cells = self._joined
        low = _first_point(lambda x: cells._below(x)[1] >= share, cells.expectation, math.sqrt(cells.variance))
        high = _first_point(lambda x: cells._below(x)[0] >= share, cells.expectation, math.sqrt(cells.variance))
        return low - self.error, high + self.error

    @cached_property
    def is_exact(self) -> bool:
        """Whether every cell is a single return."""
        return bool((self.most - self.least <= 2 * self.error).all())

    @cached_property
    def resolution(self) -> float:
        """Returns that differ by less are not told apart: the standard deviation within cells, 0 where all is exact."""
        return 0.0 if self.is_exact else math.sqrt(float(self.mass @ self.spread))

    def _below(self, x: float) -> tuple[float, float]:
        """Bounds of P(R < x), of each cell by its interval, and by its mean and variance (Cantelli)."""
        away, spread = x - self.mean, self._spread_at_most
        with np.errstate(invalid="ignore", divide="ignore"):
            near = np.where(spread > 0, spread / (spread + away**2), 0.0)
        surely = np.where(x > self.most, 1.0, np.where(away > 0, 1 - near, 0.0))
        possibly = np.where(x <= self.least, 0.0, np.where(away > 0, 1.0, near))
        return float(self.mass @ surely), min(1.0, float(self.mass @ possibly))

    @cached_property
    def _spread_at_most(self) -> Array:
        """The variance within cells, with what rounding may have taken from it."""
        width = np.where(np.isfinite(self.most - self.least), self.most - self.least, 0.0)
        return np.where(width > 2 * self.error, self.spread + 8 * EPS * width**2, self.spread)

    @cached_property
    def _joined(self) -> "ReturnDistribution":
        """Cells whose means are next to each other, as one."""
        width = math.sqrt(self.variance) * JOINED_SHARE
        if self.mass.size <= FEW_CELLS or width == 0:
            return self
        firsts = np.flatnonzero(np.diff(np.floor((self.mean - self.expectation) / width), prepend=-np.inf))
        mass = np.add.reduceat(self.mass, firsts)
        mean = np.add.reduceat(self.mass * self.mean, firsts) / mass
        away = self.mean - np.repeat(mean, np.diff(firsts, append=self.mass.size))
        return replace(
            self,
            mass=mass,
            mean=mean,
            spread=np.add.reduceat(self.mass * (self.spread + away**2), firsts) / mass,
            least=np.minimum.reduceat(self.least, firsts),
            most=np.maximum.reduceat(self.most, firsts),
        )

    def __repr__(self) -> str:
        known = "exact" if self.is_exact else f"resolution={self.resolution:.2g}"
        spread = math.sqrt(self.variance)
        return f"ReturnDistribution(mean={self.expectation:.8g}, standard deviation={spread:.4g}, {known})"


def _first_point(reached: Callable[[float], bool], middle: float, size: float) -> float:
    """Where a condition that holds from some number on begins to hold, by bisection."""
    size = max(size, abs(middle) * EPS, 1e-300)
    low, high = middle - size, middle + size
    while reached(low):
        low -= 2 * (middle - low)
    while not reached(high):
        high += 2 * (high - middle)
    while high - low > BISECTED_SHARE * size:
        half = 0.5 * (low + high)
        if half in (low, high):
            break
        low, high = (low, half) if reached(half) else (half, high)
    return high


@dataclass(frozen=True)
class Followed:
    """What a policy with memory does: where it goes, and the distribution of its return."""

    visits: PolicyOccupancy
    returns: ReturnDistribution

    def averaged(self, default_rows: Array) -> Array:
        """The policy without memory of the same occupancy, (S, A) or (T, S, A): the chances of actions in each state.

        They are averages over what is remembered there; states that are never visited have the ``default_rows``.
        """
        sums = self.visits.occupancy.sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = self.visits.occupancy / sums
        rows = np.where((sums > 0) & np.isfinite(rows).all(axis=-1, keepdims=True), rows, default_rows)
        return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


class TimeOverError(Exception):
    """A policy was not followed to its end."""


def follow(
    earnings: Earnings,
    policy: MemoryPolicy,
    rate: float = 0.0,
    instead: Array | None = None,
    over: Callable[[], bool] = lambda: False,
    masses: list[Array] | None = None,
) -> Followed:
    """Carry the start distribution through all steps of a policy with memory.

    The earnings must be those of ``policy.n_steps`` steps, less the ``middle`` of the policy. A policy ``instead``,
    (S, A) or (T, S, A), is played in place of the actions of the tables: memory then only tells what was earned.
    ``TimeOverError`` is raised when ``over`` says so between two steps. A list of ``masses`` gets those of states and
    nodes (S, n) at the beginning of every step.
    """
    mdp, n_states = earnings.mdp, earnings.mdp.n_states
    grid, node = policy.grids[0], policy.first()
    off, blocks = policy.target - float(grid.nodes[node]), 3 if policy.clips else 1
    mass, cells = np.zeros((blocks * n_states, grid.count)), np.empty((blocks * n_states, grid.count, KEPT))
    mass[:n_states, node] = mdp.start
    cells[:n_states, node] = np.outer(mdp.start, [off, off**2, np.exp(rate * off), 0.0, 0.0])
    cells[:n_states, node, 3:] = off
    finite, nothing = isinstance(mdp.horizon, int), np.empty(0)
    occupancy = np.zeros((policy.n_steps, *mdp.shape) if finite else mdp.shape)
    for t in range(policy.n_steps):
        if over():
            raise TimeOverError
        if masses is not None:
            masses.append(mass.reshape(blocks, n_states, -1).sum(axis=0).astype(np.float32))
        own, behind = policy.grids[t], policy.grids[t + 1]
        chances = nothing
        if instead is not None:
            chances = np.ascontiguousarray(instead[t] if instead.ndim == 3 else instead, dtype=np.float64).ravel()
        shape = blocks * n_states, behind.count
        arrived, moved = np.zeros(shape), np.empty((*shape, KEPT))
        spent = np.zeros(n_states * mdp.n_actions)
        with np.errstate(all="ignore"):
            kernels.follow_step(
                *mdp.csr,
                earnings.paid,
                float(policy.scales[t]),
                policy.tables[t].whole() if instead is None else np.zeros((n_states, 0), np.int32),
                chances,
                own.nodes,
                own.step,
                mass.ravel(),
                cells.reshape(-1, KEPT),
                float(rate),
                behind.nodes,
                behind.step,
                policy.to_upper,
                float(policy.snap),
                earnings.at(earnings.least, t + 1) if policy.clips else nothing,
                earnings.at(earnings.most, t + 1) if policy.clips else nothing,
                arrived.ravel(),
                moved.reshape(-1, KEPT),
                spent,
            )
        if finite:
            occupancy[t] = policy.scales[t] * spent.reshape(mdp.shape)
        else:
            occupancy += policy.scales[t] * spent.reshape(mdp.shape)
        mass, cells = arrived, moved
    left, rounding = mass.sum(axis=1).reshape(blocks, -1).sum(axis=0), 4 * EPS * policy.n_steps * (mdp.widest_row + 2)
    error = rounding * (float(policy.scales.sum()) if mdp.horizon == TOTAL else 1.0)
    if not finite:
        later, unsure = _afterwards(earnings, policy, left)
        occupancy, error = occupancy + later, error + unsure
    if mdp.horizon == TOTAL:
        occupancy[mdp.ended] = 0.0
    else:
        occupancy *= mdp.normaliser
        occupancy /= occupancy.sum()
    reached = (state_sums_of(occupancy.reshape(-1, *mdp.shape)) > 0).any(axis=0)
    if mdp.horizon == TOTAL:
        reached = reached | (left > 0)
    return Followed(PolicyOccupancy(occupancy, reached, error), _distribution(earnings, policy, mass, cells, rate))


def _afterwards(earnings: Earnings, policy: MemoryPolicy, arrived: Array) -> tuple[Array, float]:
    """Discounted visits (S, A) after the last step that is remembered, of the mass (S,) that is left; their error."""
    mdp, mass = earnings.mdp, float(arrived.sum())
    if mass == 0 or policy.policy_after is None:
        return np.zeros(mdp.shape), 0.0
    later = policy_occupancy(mdp.with_start(arrived / mass), policy.policy_after)
    factor = mass * earnings.scales[earnings.n_steps] / mdp.normaliser
    return np.asarray(factor * later.occupancy), float(factor * later.error * mdp.normaliser)


# squares of returns may overflow: a spread that is not finite is not known
@np.errstate(all="ignore")
def _distribution(
    earnings: Earnings, policy: MemoryPolicy, masses: Array, cells: Array, rate: float
) -> ReturnDistribution:
    """Cells of the return, from those of the targets that are left, and of what is earned afterwards."""
    last = policy.grids[-1]
    state, node = np.nonzero(masses > 0)
    mass = masses[state, node]
    first, second, power, least, most = cells[state, node].T
    nodes = last.nodes[node]
    # of the first target all but what is left was earned
    reached = policy.target + earnings.offset - nodes
    mean = reached - first / mass
    spread = np.maximum(second / mass - (first / mass) ** 2, 0.0)
    state = state % earnings.mdp.n_states
    later = later_returns(earnings, policy, state)
    log_power = None
    if rate > 0:
        # what follows is no more than Hoeffding's bound, and no less than its mean
        width = later.most - later.least
        unsure = np.minimum((rate * width) ** 2 / 8, rate * width)
        if earnings.mdp.horizon == TOTAL and policy.policy_after is not None:
            least = log_exponentials(earnings.mdp, policy.policy_after, rate)[state] + rate * later.mean
            unsure = np.minimum(unsure, least)
        log_power = _log_power(rate, mass, power, nodes - policy.target - earnings.offset - later.mean, unsure)
    return distribution_of(
        earnings, policy, later, mass, mean, reached - most, reached - least, spread, rate=rate, log_power=log_power
    )


@dataclass(frozen=True)
class LaterReturns:
    """What is earned after the steps that are remembered, of every cell (n,): mean, variance and range."""

    mean: Array
    variance: Array
    least: Array
    most: Array


def later_returns(earnings: Earnings, policy: MemoryPolicy, state: Indices) -> LaterReturns:
    """Of cells that are in these states."""
    t = earnings.n_steps
    values, variances = earnings.moments_of(policy.policy_after)
    scale, least, most = earnings.scales[t], earnings.at(earnings.least, t), earnings.at(earnings.most, t)
    return LaterReturns(scale * values[state], scale**2 * variances[state], least[state], most[state])


def distribution_of(
    earnings: Earnings,
    policy: MemoryPolicy,
    later: LaterReturns,
    mass: Array,
    mean: Array,
    least: Array,
    most: Array,
    spread: Array,
    rate: float = 0.0,
    log_power: tuple[float, float] | None = None,
) -> ReturnDistribution:
    """From what cells have earned in the steps that are remembered, and what they earn later."""
    order = np.argsort(mean + later.mean, kind="stable")
    return ReturnDistribution(
        mass=mass[order],
        mean=(mean + later.mean)[order],
        least=(least + later.least)[order],
        most=(most + later.most)[order],
        spread=(spread + later.variance)[order],
        target=policy.target + earnings.offset,
        error=4 * EPS * (earnings.size + abs(policy.target) + abs(earnings.offset)) * (8 + earnings.n_steps),
        relative=(8 * EPS + earnings.mdp.row_sum_error) * (8 + earnings.n_steps),
        rate=rate,
        log_power=log_power,
    )


def _log_power(rate: float, mass: Array, power: Array, losses: Array, later: Array) -> tuple[float, float]:
    """Bounds of log E exp(-rate R), from losses at the means of what follows, which adds at most ``later``."""
    with np.errstate(divide="ignore", over="ignore"):
        lower = logsumexp(np.log(power) + rate * losses)
        # what was too small for a double is no larger than this
        upper = logsumexp(np.log(power + SMALLEST_POWER * mass) + rate * losses + later)
    return float(lower), float(upper)
