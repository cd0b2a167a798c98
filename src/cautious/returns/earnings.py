"""``Earnings``: what can be earned in a model, step by step: bounds over all policies, before any risk is asked.

The return of an episode is  R = sum_t scale_t r_t,  scale_t = gamma^t. Where it only adds a constant, and no reward is
zero, the ``middle`` between the smallest and the largest reward is taken off, so that sums of rewards round as little
as they can. Where some rewards are zero they leave a target as it is, exactly.

A policy with memory remembers its target for ``n_steps`` steps. Discounted for ever, and until an end, it plays the
policy of the largest mean (``policy_after``) from then on; bounds take into account whatever else could be done.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cautious.arrays import Array, Mask
from cautious.models.encodings import EPS, row_of_entries, weighted_rows
from cautious.models.horizons import TOTAL
from cautious.models.tabular import MDP
from cautious.planning import plan
from cautious.returns.moments import moments_by_state

# passes over all transitions that bounds on single returns may take
MOST_PASSES = 20_000
# a bound on returns that changes by less than this share of it is not improved further
MIN_RELATIVE_CHANGE = 1e-3


@dataclass(frozen=True)
class Earnings:
    """What can be earned; see the text of the module.

    ``paid`` (nnz,) and ``rewards`` (S, A) are shifted; ``allowed`` are the pairs that a policy may use. Of what is
    earned from a state on until the end, without discounting for the steps before: ``mean_most`` and ``mean_least``
    bound its mean over all policies, ``most`` and ``least`` any single return; (S,), or (T + 1, S) with T steps.
    """

    mdp: MDP
    n_steps: int
    paid: Array
    rewards: Array
    middle: float
    allowed: Mask
    mean_most: Array
    mean_least: Array
    most: Array
    least: Array

    @property
    def offset(self) -> float:
        """What every return has more than the shifted rewards add up to."""
        return self.middle / self.mdp.normaliser

    @cached_property
    def scales(self) -> Array:
        """What a reward of step t counts; (n_steps + 1,)."""
        return np.asarray(self.mdp.discount ** np.arange(self.n_steps + 1.0))

    def at(self, bound: Array, t: int) -> Array:
        """One of the bounds for what is earned from step t on, as it counts from the start; (S,)."""
        return np.asarray(self.scales[t] * (bound[t] if bound.ndim == 2 else bound))

    @cached_property
    def square(self) -> Array:
        """E[r^2] of the shifted rewards; (S, A)."""
        return weighted_rows(self.mdp.transitions, self.paid**2).reshape(self.mdp.shape)

    @cached_property
    def earned(self) -> tuple[Array, Array]:
        """The least and the most that may have been earned before step t; (n_steps + 1,) each."""
        starts = self.mdp.start > 0
        low, high = np.zeros(self.n_steps + 1), np.zeros(self.n_steps + 1)
        least, most = np.where(starts, 0.0, np.inf), np.where(starts, 0.0, -np.inf)
        walk, exact = _Walk(self.mdp, self.allowed, self.paid), self.n_steps <= _affordable_passes(self.mdp)
        extremes = walk.extremes
        for t in range(self.n_steps):
            if exact:
                least, most = walk.onwards(least, most, self.scales[t])
                low[t + 1], high[t + 1] = least.min(), most.max()
            else:
                low[t + 1] = low[t] + self.scales[t] * extremes[0]
                high[t + 1] = high[t] + self.scales[t] * extremes[1]
        return low, high

    def paid_at(self, t: int) -> Array:
        """The different rewards that can be paid at step t, or at a later one where states are no longer told apart."""
        states = self._visited[min(t, len(self._visited) - 1)]
        pairs = row_of_entries(self.mdp.transitions)
        used = (states[:, None] & self.allowed).ravel()[pairs] & (self.mdp.transitions.data > 0)
        return np.unique(self.paid[used])

    @cached_property
    def _visited(self) -> list[Mask]:
        """States (S,) that can be visited at the first steps, until the set stays the same."""
        visited = [self.mdp.start > 0]
        for _ in range(min(self.n_steps, self.mdp.n_states)):
            here = self.mdp.flow_into((visited[-1][:, None] & self.allowed).astype(np.float64)) > 0
            if np.array_equal(here, visited[-1]):
                break
            visited.append(here)
        return visited

    @cached_property
    def size(self) -> float:
        """The largest number that is added up on the way to a return."""
        low, high = self.earned
        after = np.concatenate([self.mean_most.ravel(), self.mean_least.ravel()])
        after = after[np.isfinite(after)]
        return float(max(-low.min(), high.max(), np.abs(after).max(initial=0.0)))

    @cached_property
    def policy_after(self) -> Array:
        """(S, A): what is played after the last step that is remembered."""
        actions = plan(self.mdp, self.rewards, allowed=self._kept).actions
        return np.asarray(np.eye(self.mdp.n_actions)[actions])

    @property
    def _kept(self) -> Mask | None:
        return self.mdp.ending_pairs(self.mdp.allowed) if self.mdp.horizon == TOTAL else None

    @cached_property
    def moments_after(self) -> tuple[Array, Array]:
        """Mean and variance (S,) of what that policy earns from each state on."""
        return self.moments_of(None if isinstance(self.mdp.horizon, int) else self.policy_after)

    def moments_of(self, policy: Array | None) -> tuple[Array, Array]:
        """Mean and variance (S,) of what a policy (S, A) earns from each state on; zeros without one."""
        if policy is None:
            return np.zeros(self.mdp.n_states), np.zeros(self.mdp.n_states)
        values, variances = moments_by_state(self.mdp, policy)
        constant = 0.0 if self.mdp.horizon == TOTAL else self.offset
        return values - constant, np.maximum(variances, 0.0)

    def with_steps(self, n_steps: int) -> "Earnings":
        """The same with another number of steps that are remembered."""
        return replace(self, n_steps=n_steps)


def earnings_of(mdp: MDP, middle: float | None = None) -> Earnings:
    """What can be earned in a model, as its horizon says; remembered for one step, where that is not given.

    The ``middle`` that is taken off is chosen here unless it is given.
    """
    finite, ending = isinstance(mdp.horizon, int), mdp.horizon == TOTAL
    allowed = mdp.ending_pairs(mdp.allowed) if ending else mdp.allowed
    pairs = row_of_entries(mdp.transitions)
    paid = mdp.rewards.ravel()[pairs] if mdp.outcome_rewards is None else mdp.outcome_rewards
    own = paid[allowed.ravel()[pairs]]
    if middle is None:
        middle = 0.0 if ending or (own == 0).any() else 0.5 * (float(own.min()) + float(own.max()))
    paid = np.ascontiguousarray(paid - middle)
    rewards = np.where(allowed, mdp.rewards - middle, 0.0)
    n_steps = int(mdp.horizon) if finite else 1  # type: ignore[arg-type]
    if finite:
        bounds = _over_steps(mdp, rewards, paid, allowed)
    else:
        bounds = (*_mean_bounds(mdp, rewards, allowed), *_single_bounds(mdp, paid, allowed))
    return Earnings(mdp, n_steps, paid, rewards, middle, allowed, *bounds)


class _Walk:
    """The largest and smallest sums along transitions of allowed pairs."""

    def __init__(self, mdp: MDP, allowed: Mask, paid: Array) -> None:
        rows = mdp.transitions
        pairs = row_of_entries(rows)
        used = allowed.ravel()[pairs] & (rows.data > 0)
        self.n_states = mdp.n_states
        self.state, self.next, self.paid = pairs[used] // mdp.n_actions, rows.indices[used], paid[used]
        self.extremes = float(self.paid.min()), float(self.paid.max())
        # entries are in the order of their states; a copy in that of their successors
        self.firsts = np.flatnonzero(np.diff(self.state, prepend=-1))
        order = np.argsort(self.next, kind="stable")
        self.into = self.state[order], self.next[order], self.paid[order]
        self.into_firsts = np.flatnonzero(np.diff(self.into[1], prepend=-1))

    def backwards(self, least: Array, most: Array, discount: float) -> tuple[Array, Array]:
        """One step more before what may be earned from each state on (S,)."""
        low, high = np.zeros(self.n_states), np.zeros(self.n_states)
        states = self.state[self.firsts]
        low[states] = np.minimum.reduceat(self.paid + discount * least[self.next], self.firsts)
        high[states] = np.maximum.reduceat(self.paid + discount * most[self.next], self.firsts)
        return low, high

    def onwards(self, least: Array, most: Array, scale: float) -> tuple[Array, Array]:
        """One step more after what may have been earned on the way to each state (S,)."""
        state, successor, paid = self.into
        low, high = np.full(self.n_states, np.inf), np.full(self.n_states, -np.inf)
        states = successor[self.into_firsts]
        low[states] = np.minimum.reduceat(least[state] + scale * paid, self.into_firsts)
        high[states] = np.maximum.reduceat(most[state] + scale * paid, self.into_firsts)
        return low, high


def _affordable_passes(mdp: MDP) -> int:
    return max(10, int(1e9 / max(1, mdp.transitions.nnz)) if mdp.transitions.nnz > 5e4 else MOST_PASSES)


def _over_steps(mdp: MDP, rewards: Array, paid: Array, allowed: Mask) -> tuple[Array, Array, Array, Array]:
    """The four bounds for a number of steps; (T + 1, S) each."""
    assert isinstance(mdp.horizon, int)
    walk, shape = _Walk(mdp, allowed, paid), (mdp.horizon + 1, mdp.n_states)
    mean_most, mean_least, most, least = (np.zeros(shape) for _ in range(4))
    for t in range(mdp.horizon - 1, -1, -1):
        high = rewards + mdp.discount * mdp.expect_next(mean_most[t + 1])
        low = rewards + mdp.discount * mdp.expect_next(mean_least[t + 1])
        mean_most[t] = np.where(allowed, high, -np.inf).max(axis=1)
        mean_least[t] = np.where(allowed, low, np.inf).min(axis=1)
        least[t], most[t] = walk.backwards(least[t + 1], most[t + 1], mdp.discount)
    unsure = EPS * (mdp.widest_row + 8) * (mdp.horizon + 1) * max(np.abs(mean_most).max(), np.abs(mean_least).max())
    return mean_most + unsure, mean_least - unsure, most, least


def _mean_bounds(mdp: MDP, rewards: Array, allowed: Mask) -> tuple[Array, Array]:
    """What no policy earns more, or less, than in the mean from each state on; (S,) each.

    Until an end nothing bounds a mean from below.
    """
    if mdp.horizon == TOTAL:
        return _raised(mdp, rewards, allowed), np.where(mdp.ended, 0.0, -np.inf)
    return _raised(mdp, rewards, allowed), -_raised(mdp, -rewards, allowed)


def _raised(mdp: MDP, rewards: Array, allowed: Mask) -> Array:
    """Values (S,) that the best policy does not exceed: the planned ones, raised by what the plan leaves open."""
    if mdp.horizon == TOTAL:
        # a plan is proved for its start: from all states at once, none can be off by more than all together
        going_on = ~mdp.ended & allowed.any(axis=1)
        alike = mdp.with_start(going_on / float(max(1, int(np.count_nonzero(going_on)))))
        best = plan(alike, rewards, allowed=allowed)
        values = np.where(going_on, best.values, 0.0)
        open_share = max(0.0, best.upper - float(alike.start @ values)) + EPS * float(np.abs(values).max())
        return np.where(going_on, values + mdp.n_states * open_share, 0.0)
    values = plan(mdp, rewards, allowed=allowed).values
    size = float(np.abs(values).max() + np.abs(rewards).max())
    swept = np.where(allowed, rewards + mdp.discount * mdp.expect_next(values), -np.inf).max(axis=1)
    missing = max(0.0, float((swept - values).max())) + EPS * (mdp.widest_row + 8) * size
    return np.asarray(values + missing / (1 - mdp.discount))


def _single_bounds(mdp: MDP, paid: Array, allowed: Mask) -> tuple[Array, Array]:
    """What no single return is above, or below, from each state on; (S,) each, infinite where nothing is known."""
    if mdp.horizon == TOTAL:
        ends = np.where(mdp.ended, 0.0, np.inf)
        return ends, -ends
    walk = _Walk(mdp, allowed, paid)
    low, high = walk.extremes
    least = np.full(mdp.n_states, low / (1 - mdp.discount))
    most = np.full(mdp.n_states, high / (1 - mdp.discount))
    for _ in range(min(_affordable_passes(mdp), 20 + int(10 / (1 - mdp.discount)))):
        before, after = (least, most), walk.backwards(least, most, mdp.discount)
        least, most = after
        change = max(np.abs(least - before[0]).max(), np.abs(most - before[1]).max())
        if change <= MIN_RELATIVE_CHANGE * (1 - mdp.discount) * (most.max() - least.min()):
            break
    return most, least
