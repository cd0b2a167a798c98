"""Simulators: batched draws of next states and rewards; the generator is always an argument."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from cautious._core import sampling
from cautious.arrays import Array, Indices, Mask
from cautious.models.scene import Scene
from cautious.models.simulator_checks import checked_pairs


@runtime_checkable
class Simulator(Protocol):
    """Anything that draws transitions. Subclassing is optional: the members are what counts.

    ``reward_range`` is (low, high), the rewards that can be paid. Nothing may be remembered between calls.

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> class Coin:
    ...     n_states, n_actions, discount, reward_range = 2, 1, 0.9, (0.0, 1.0)
    ...     def start_states(self, n, rng):
    ...         return np.zeros(n, dtype=np.int64)
    ...     def sample(self, states, actions, rng):
    ...         return rng.integers(2, size=len(states)), np.asarray(states, dtype=float)
    >>> isinstance(Coin(), ca.Simulator)
    True
    >>> round(ca.learn(Coin(), samples=20_000).objective, 1)
    4.5
    """

    n_states: int
    n_actions: int
    discount: float
    reward_range: tuple[float, float]

    def start_states(self, n: int, rng: np.random.Generator) -> Indices:
        """``n`` first states."""
        ...

    def sample(self, states: Indices, actions: Indices, rng: np.random.Generator) -> tuple[Indices, Array]:
        """Next states and rewards, one of each per given pair."""
        ...


@dataclass(frozen=True)
class Known:
    """What a simulator may tell beyond the protocol; everything is optional.

    ``allowed`` (S, A): the actions that exist. ``start`` (S,): the distribution of ``start_states``. Names and scene
    are for risks given by name, and for drawings.
    """

    allowed: Mask | None = None
    start: Array | None = None
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    scene: Scene | None = None


@runtime_checkable
class TellsMore(Protocol):
    """A simulator that says what it knows."""

    known: Known


class TableSimulator:
    """A known model as a simulator; ``mdp.simulator()`` makes one.

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> simulator = ca.worlds.river_swim().simulator()
    >>> next_states, rewards = simulator.sample(np.array([0, 1]), np.array([1, 1]), np.random.default_rng(0))
    >>> len(next_states), len(rewards)
    (2, 2)
    """

    def __init__(
        self,
        rows: sp.csr_array,
        rewards: Array,
        outcome_rewards: Array | None,
        discount: float,
        reward_range: tuple[float, float],
        known: Known,
        hides_spread: bool,
    ) -> None:
        assert known.allowed is not None
        assert known.start is not None
        self.n_states, self.n_actions = rewards.shape
        self.discount = discount
        self.reward_range = reward_range
        self.known = known
        # rewards (S, A) with a ``reward_square`` are averages: how they are drawn is not known, so averages are paid
        self.hides_spread = hides_spread
        self.allowed = known.allowed
        self.rows = rows
        indices = np.ascontiguousarray(rows.indices)
        indptr = np.ascontiguousarray(rows.indptr, dtype=indices.dtype)
        cumulative = np.empty(rows.data.size)
        sampling.running_sums(indptr, indices, np.ascontiguousarray(rows.data), cumulative)
        # the rows as compiled loops draw from them: running sums instead of probabilities
        self.sums: tuple[Indices, Indices, Array] = (indptr, indices, cumulative)
        # what is paid: per stored outcome, or per pair
        self.pays_per_outcome = outcome_rewards is not None
        self.pay: Array = np.ravel(rewards if outcome_rewards is None else outcome_rewards)
        self.running_start: Array = np.cumsum(known.start)

    def start_states(self, n: int, rng: np.random.Generator) -> Indices:
        """``n`` first states."""
        draws = np.searchsorted(self.running_start, rng.random(n) * self.running_start[-1], side="right")
        return np.asarray(draws, dtype=np.int64)

    def sample(self, states: Indices, actions: Indices, rng: np.random.Generator) -> tuple[Indices, Array]:
        """Next states and rewards, one of each per given pair."""
        whole, chosen = checked_pairs(self.allowed, states, actions)
        rows = whole * self.n_actions + chosen
        position = sampling.draw_successors(*self.sums, rows, rng.random(rows.size))
        return self.rows.indices[position].astype(np.int64), self.pay[position if self.pays_per_outcome else rows]
