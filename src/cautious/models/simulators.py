"""Simulators: batched draws of next states and rewards; the generator is always an argument."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from cautious._checks import Array, Indices, Mask, first_bad
from cautious.errors import InputError
from cautious.kernels import sparse_rows
from cautious.models.scene import Scene


@runtime_checkable
class Simulator(Protocol):
    """Anything that draws transitions. Subclassing is optional: the members are what counts.

    ``reward_range`` is (low, high), the rewards that can be paid. Nothing may be remembered between calls.
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
    ) -> None:
        assert known.allowed is not None
        assert known.start is not None
        self.n_states, self.n_actions = rewards.shape
        self.discount = discount
        self.reward_range = reward_range
        self.known = known
        self.allowed = known.allowed
        self.rows = rows
        self.rewards = np.ravel(rewards)
        self.outcome_rewards = outcome_rewards
        self.cumulative = sparse_rows.running_sums(rows.indptr, rows.data)
        self._start = np.cumsum(known.start)

    def start_states(self, n: int, rng: np.random.Generator) -> Indices:
        """``n`` first states."""
        draws = np.searchsorted(self._start, rng.random(n) * self._start[-1], side="right")
        return np.asarray(draws, dtype=np.int64)

    def sample(self, states: Indices, actions: Indices, rng: np.random.Generator) -> tuple[Indices, Array]:
        """Next states and rewards, one of each per given pair."""
        rows = self._pair_rows(states, actions)
        position = sparse_rows.draw_successors(self.rows.indptr, self.cumulative, rows, rng.random(rows.size))
        source, index = (self.rewards, rows) if self.outcome_rewards is None else (self.outcome_rewards, position)
        return self.rows.indices[position].astype(np.int64), source[index]

    def _pair_rows(self, states: Any, actions: Any) -> Indices:
        states, actions = np.asarray(states), np.asarray(actions)
        if states.shape != actions.shape or states.ndim != 1:
            raise InputError(f"states {states.shape} and actions {actions.shape} must be one-dimensional, same length")
        for name, values in (("states", states), ("actions", actions)):
            if not np.issubdtype(values.dtype, np.integer):
                raise InputError(f"{name} must hold whole numbers, found dtype {values.dtype}")
        for name, values, count in (("states", states, self.n_states), ("actions", actions, self.n_actions)):
            bad = (values < 0) | (values >= count)
            if bad.any():
                where = first_bad(bad)
                raise InputError(f"{name}[{where[0]}] is {values[where]}; expected 0 to {count - 1}")
        forbidden = ~self.allowed[states, actions]
        if forbidden.any():
            where = first_bad(forbidden)
            raise InputError(f"action {actions[where]} is not allowed in state {states[where]}")
        return np.asarray(states * self.n_actions + actions, dtype=np.int64)
