"""Columns: deterministic behaviours found so far, each with its return and its features."""

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array
from cautious.occupancy import policy_occupancy
from cautious.planning import Plan, plan
from cautious.problem import Problem

LARGEST_POOL = 400
RECENT = 20


class Columns:
    """A pool of behaviours; ``price_out`` adds the best one for given prices of the features."""

    def __init__(self, problem: Problem, features: sp.csr_array) -> None:
        self.problem, self.features = problem, features
        self.horizon = 1 / (1 - problem.mdp.discount)
        self.tables: list[Array] = []
        self.returns = np.empty(0)
        self.numbers = np.empty((features.shape[0], 0))
        self.last: Plan | None = None

    def price_out(self, reward: Array, prices: Array, tolerance: float) -> tuple[Plan, bool]:
        """Plan for reward + (1-gamma) sum of prices * features; keep the behaviour, and say whether it is new."""
        shape = self.problem.mdp.shape
        priced = reward + np.asarray(self.features.T @ prices).reshape(shape) / self.horizon
        found = plan(self.problem.mdp, priced, tolerance=tolerance, allowed=self.problem.kept, warm=self.last)
        self.last = found
        return found, self.add(found.policy(shape[1]))

    def add(self, policy: Array) -> bool:
        """Keep a behaviour, unless one with the same numbers is there already."""
        d = policy_occupancy(self.problem.mdp, self.problem.completed(policy)).occupancy
        value, numbers = self.horizon * float(np.sum(d * self.problem.reward)), np.asarray(self.features @ d.ravel())
        known, new = np.vstack([self.returns, self.numbers]), np.append(value, numbers)
        if np.any(np.all(np.abs(known - new[:, None]) <= 1e-15 * np.abs(new)[:, None], axis=0)):
            return False
        self.tables.append(d)
        self.returns, self.numbers = np.append(self.returns, value), np.column_stack([self.numbers, numbers])
        return True

    def forget(self, weights: Array) -> None:
        """Drop columns without weight when the pool is full; the newest always stay."""
        if len(self.tables) > LARGEST_POOL:
            weighty = np.append(weights > 1e-12, np.ones(len(self.tables) - weights.size, dtype=np.bool_))
            chosen = np.flatnonzero(weighty | (np.arange(weighty.size) >= weighty.size - RECENT))
            self.tables = [self.tables[k] for k in chosen]
            self.returns, self.numbers = self.returns[chosen], self.numbers[:, chosen]

    def mixture(self, weights: Array) -> Array:
        """The occupancy (S, A) of a mixture of the first columns."""
        total = np.zeros(self.problem.mdp.shape)
        for weight, table in zip(weights, self.tables, strict=False):
            if weight > 0:
                total += weight * table
        return total
