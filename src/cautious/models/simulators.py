"""Simulators: batched draws of next states and rewards; the generator is always an argument.

``TableSimulator`` draws from a known model, ``FunctionSimulator`` calls one plain Python function, draw by draw.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import psutil
import scipy.sparse as sp

from cautious._core import sampling
from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_allowed, as_array, as_count, as_distribution, as_number, fitting_memory, one_state
from cautious.errors import IncompatibleError, InputError, MemoryLimitError, shown
from cautious.models.interface import Interface
from cautious.models.scene import Scene, model_names
from cautious.models.simulator_checks import as_outcome, as_reward_range, as_state, checked_pairs

Step = Callable[[int, int, np.random.Generator], tuple[int, float]]
DrawStart = Callable[[np.random.Generator], int]


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
    are for risks given by name, and for drawings; the interface is what agents of others see and say.
    """

    allowed: Mask | None = None
    start: Array | None = None
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    scene: Scene | None = None
    interface: Interface | None = None


@runtime_checkable
class TellsMore(Protocol):
    """A simulator that says what it knows."""

    known: Known


def known_of(simulator: Simulator) -> Known:
    """What a simulator tells beyond the protocol."""
    known = simulator.known if isinstance(simulator, TellsMore) else Known()
    if not isinstance(known, Known):
        raise IncompatibleError(
            f"simulator.known must be a cautious.models.simulators.Known, found {type(known).__name__}"
        )
    return known


@runtime_checkable
class TellsDrawsPerSeed(Protocol):
    """A simulator that says how many draws one call is to ask for; None leaves it to the number of samples."""

    draws_per_seed: int | None


# about so many calls, 700 to 1,500, cost little beside any run
CALLS_OF_A_RUN, MOST_DRAWS_PER_SEED = 1024, 4096


def draws_per_seed(simulator: Simulator, samples: int) -> int:
    """How many draws of a run share a call and its random numbers, 1 where every draw may take long.

    It must not depend on a clock, because the samples depend on it: who asks for few samples has a simulator that
    takes its time, or a run that takes none.
    """
    told = as_draws_per_seed(simulator.draws_per_seed) if isinstance(simulator, TellsDrawsPerSeed) else None
    if told is not None:
        return told
    return min(MOST_DRAWS_PER_SEED, 1 << max(0, round(math.log2(samples / CALLS_OF_A_RUN))))


def as_draws_per_seed(value: Any) -> int | None:
    """None, or a number of draws that is not too large for one call."""
    return None if value is None else as_count("draws_per_seed", value, high=MOST_DRAWS_PER_SEED)


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


MOST_STATES, MOST_ACTIONS = 2**40, 2**20
# tables of numbers for every pair that any learner needs
LEARNED_TABLES = 2


class FunctionSimulator:
    """A simulator made of ``step(state, action, rng) -> (next_state, reward)``.

    Parameters
    ----------
    step
        Draws one transition. It takes all its randomness from ``rng`` and remembers nothing. For a process pool it
        must be picklable: a function of a module, not a lambda.
    n_states, n_actions, discount
        Sizes, and the weight of the next step, in [0, 1]; ``ca.learn`` needs one below 1.
    reward_range
        (low, high): the rewards ``step`` can pay. Every reward is checked against it.
    start
        Where episodes begin: a distribution (S,), one state, or ``start(rng) -> state``. Default: uniform.
    allowed
        Mask (S, A) of the actions that exist; ``step`` is never called for the others. Default: all.
    state_names, action_names
        For risks given by name, and for reports.
    draws_per_seed
        How many draws share one generator; 1 for steps that take long, so that each can be a task of its own.
        Default: by the number of samples of a run.

    Examples
    --------
    >>> import cautious as ca
    >>> def step(state, action, rng):
    ...     moved = rng.random() < 0.9
    ...     return (action if moved else state), float(state == 1)
    >>> simulator = ca.FunctionSimulator(step, n_states=2, n_actions=2, discount=0.9, reward_range=(0, 1), start=0)
    >>> ca.testing.check_simulator(simulator)
    """

    def __init__(
        self,
        step: Step,
        n_states: int,
        n_actions: int,
        discount: float,
        reward_range: tuple[float, float],
        start: Any = None,
        allowed: Any = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        draws_per_seed: int | None = None,
    ) -> None:
        if not callable(step):
            raise InputError(f"step must be a function of (state, action, rng), found {shown(step)}")
        self.step = step
        self.n_states = as_count("n_states", n_states, high=MOST_STATES)
        self.n_actions = as_count("n_actions", n_actions, high=MOST_ACTIONS)
        self.discount = as_number("discount", discount, 0, 1)
        self.reward_range = as_reward_range(reward_range)
        self.draws_per_seed = as_draws_per_seed(draws_per_seed)
        tables = f"a table of {self.n_states} states and {self.n_actions} actions"
        if 8 * LEARNED_TABLES * self.n_states * self.n_actions > psutil.virtual_memory().total:
            raise MemoryLimitError(f"{tables}, {LEARNED_TABLES} times, does not fit into the memory of this machine")
        with fitting_memory(tables):
            self.allowed = as_allowed(allowed, (self.n_states, self.n_actions))
            first = None if callable(start) else as_start(start, self.n_states)
        self._draw_start: DrawStart | None = start if callable(start) else None
        self.known = Known(
            allowed=self.allowed,
            start=first,
            state_names=None if state_names is None else model_names("state_names", state_names, self.n_states),
            action_names=None if action_names is None else model_names("action_names", action_names, self.n_actions),
        )

    def start_states(self, n: int, rng: np.random.Generator) -> Indices:
        """``n`` first states."""
        if self._draw_start is None:
            return rng.choice(self.n_states, size=n, p=self.known.start)
        states = [as_state(f"start(rng), draw {i},", self._draw_start(rng), self.n_states) for i in range(n)]
        return np.array(states, dtype=np.int64)

    def sample(self, states: Indices, actions: Indices, rng: np.random.Generator) -> tuple[Indices, Array]:
        """Next states and rewards, one of each per given pair."""
        states, actions = checked_pairs(self.allowed, states, actions)
        next_states, rewards = np.empty(states.size, dtype=np.int64), np.empty(states.size)
        for i, (state, action) in enumerate(zip(states.tolist(), actions.tolist(), strict=True)):
            outcome = self.step(state, action, rng)
            next_states[i], rewards[i] = as_outcome(f"step({state}, {action}, rng)", outcome, self.n_states)
        return next_states, rewards


def as_start(start: Any, n_states: int) -> Array:
    """The start distribution (S,) of a distribution, of one state, or of nothing said."""
    if start is None:
        return np.full(n_states, 1 / n_states)
    if as_array("start", start).ndim > 0:
        return as_distribution("start", start, (n_states,), "(S,)")
    return one_state(n_states, as_state("start", start, n_states))
