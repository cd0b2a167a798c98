"""``FunctionSimulator``: one plain Python function, called draw by draw."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.checks import as_allowed, as_count, as_distribution, as_number, one_state
from cautious.errors import InputError
from cautious.models.names import model_names
from cautious.models.simulator_checks import as_outcome, as_reward_range, as_state, checked_pairs
from cautious.models.simulators import Known

Step = Callable[[int, int, np.random.Generator], tuple[int, float]]
DrawStart = Callable[[np.random.Generator], int]


class FunctionSimulator:
    """A simulator made of ``step(state, action, rng) -> (next_state, reward)``.

    Parameters
    ----------
    step
        Draws one transition. It takes all its randomness from ``rng`` and remembers nothing. For a process pool it
        must be picklable: a function of a module, not a lambda.
    n_states, n_actions, discount
        Sizes, and the weight of the next step, in [0, 1).
    reward_range
        (low, high): the rewards ``step`` can pay. Every reward is checked against it.
    start
        Where episodes begin: a distribution (S,), one state, or ``start(rng) -> state``. Default: uniform.
    allowed
        Mask (S, A) of the actions that exist; ``step`` is never called for the others. Default: all.
    state_names, action_names
        For risks given by name, and for reports.

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
    ) -> None:
        if not callable(step):
            raise InputError(f"step must be a function of (state, action, rng), found {step!r:.80}")
        self.step = step
        self.n_states = as_count("n_states", n_states)
        self.n_actions = as_count("n_actions", n_actions)
        self.discount = as_number("discount", discount, 0, 1, open_ends=")")
        self.reward_range = as_reward_range(reward_range)
        self.allowed = as_allowed(allowed, (self.n_states, self.n_actions))
        self._draw_start: DrawStart | None = start if callable(start) else None
        self.known = Known(
            allowed=self.allowed,
            start=None if callable(start) else _as_start(start, self.n_states),
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


def _as_start(start: Any, n_states: int) -> Array:
    """The start distribution (S,) of a distribution, of one state, or of nothing said."""
    if start is None:
        return np.full(n_states, 1 / n_states)
    if np.ndim(start) > 0:
        return as_distribution("start", start, (n_states,), "(S,)")
    return one_state(n_states, as_state("start", start, n_states))
