"""The best policy for ANY reward table: the one big computation everything else calls.

For any values v and T the optimality operator, with low and high the least and largest entry of Tv - v over the
states that can be reached,

    <xi, Tv> + gamma low / (1-gamma) <= value of the greedy policy <= optimum <= <xi, Tv> + gamma high / (1-gamma).

Stopping rests on these two numbers alone, widened by what rounding can do. Modified policy iteration does the
work; exact policy iteration takes over for small models and for discounts near one, where sweeps crawl.
"""

from dataclasses import dataclass

import numpy as np

from cautious._checks import states_of
from cautious.arrays import Array, Indices, Mask
from cautious.kernels import sparse_rows
from cautious.models.tabular import MDP
from cautious.occupancy import DENSE_STATES, EPS, policy_values

PASSES = 20
SWEEP_ROUNDS = 150
POLICY_ROUNDS = 100


@dataclass(frozen=True)
class Plan:
    """A policy that is best for a reward table, up to ``upper - lower``.

    ``actions`` (S,); ``values`` (S,) the multipliers that prove ``upper``; both bounds hold for <start, value>.
    """

    actions: Indices
    values: Array
    lower: float
    upper: float

    def policy(self, n_actions: int) -> Array:
        """The actions as a table (S, A) of zeros and ones."""
        return np.eye(n_actions)[self.actions]


def plan(
    mdp: MDP, reward: Array, *, tolerance: float = 0.0, allowed: Mask | None = None, warm: Plan | None = None
) -> Plan:
    """Best policy for ``reward`` (S, A) among the ``allowed`` pairs.

    Stops when ``upper - lower <= tolerance``, or when rounding prevents anything better. ``allowed`` must be closed
    (``problem.active``): from a kept pair every successor has a kept pair.
    """
    allowed = mdp.allowed if allowed is None else allowed
    search = _Search(mdp, np.ascontiguousarray(reward).ravel(), allowed, tolerance)
    first = np.argmax(allowed, axis=1).astype(np.int64)
    if warm is None:
        values, actions = np.zeros(mdp.n_states), first
    else:
        kept = allowed[np.arange(mdp.n_states), warm.actions]
        values, actions = warm.values, np.where(kept, warm.actions, first)
    if mdp.n_states > DENSE_STATES:
        values, actions, done = search.by_sweeps(values, actions)
        if done:
            return search.best
    return search.by_policies(values, actions)


class _Search:
    """State of one planning call: the operator, the stopping rule and the best pair of bounds seen."""

    def __init__(self, mdp: MDP, reward: Array, allowed: Mask, tolerance: float) -> None:
        self.mdp, self.reward, self.tolerance = mdp, reward, tolerance
        self.allowed = np.ascontiguousarray(allowed).ravel()
        self.scope = mdp.reachable(allowed) & states_of(allowed)
        rows = mdp.transitions
        self.csr = (rows.indptr, rows.indices, rows.data)
        self.widest_row = int(np.diff(rows.indptr).max(initial=1))
        self.largest_reward = float(np.abs(reward[self.allowed]).max(initial=0.0))
        self.best: Plan = Plan(np.zeros(mdp.n_states, np.int64), np.zeros(mdp.n_states), -np.inf, np.inf)

    def improve(self, values: Array, actions: Indices) -> tuple[Array, Indices, bool]:
        """One sweep; records the bounds; says whether to stop."""
        gamma = self.mdp.discount
        actions = actions.copy()
        swept = sparse_rows.bellman(*self.csr, self.reward, self.allowed, gamma, values, actions)
        change = (swept - values)[self.scope]
        largest = max(float(np.abs(swept).max(initial=0.0)), float(np.abs(values).max(initial=0.0)))
        rounding = 4 * EPS * (self.widest_row + 4) * (self.largest_reward + largest)
        low = (gamma * float(change.min()) - rounding) / (1 - gamma)
        high = (gamma * float(change.max()) + rounding) / (1 - gamma)
        base = float(self.mdp.start @ swept)
        noise = 4 * EPS * self.mdp.n_states * largest * float(self.mdp.start.max())
        centred = swept + (low + high) / 2
        if high - low < self.best.upper - self.best.lower:
            self.best = Plan(actions, centred, base + low - noise, base + high + noise)
        floor = 4 * rounding / (1 - gamma)
        return centred, actions, high - low <= max(self.tolerance, floor)

    def by_sweeps(self, values: Array, actions: Indices) -> tuple[Array, Indices, bool]:
        for _ in range(SWEEP_ROUNDS):
            values, actions, done = self.improve(values, actions)
            if done:
                return values, actions, True
            values = sparse_rows.evaluate_passes(
                *self.csr, self.reward, self.allowed, self.mdp.discount, values, actions, PASSES
            )
        return values, actions, False

    def by_policies(self, values: Array, actions: Indices) -> Plan:
        table = self.reward.reshape(self.mdp.shape)
        every = np.arange(self.mdp.n_states)
        alive = self.allowed.reshape(self.mdp.shape)[every, actions]
        for _ in range(POLICY_ROUNDS):
            policy = np.eye(self.mdp.n_actions)[actions] * alive[:, None]
            before = actions
            _, actions, done = self.improve(policy_values(self.mdp, policy, table), actions)
            if done or np.array_equal(before, actions):
                break
        return self.best
