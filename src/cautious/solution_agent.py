"""``SolutionAgent``: plays a solution step by step, with whatever its policy remembers."""

from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.checks import as_array, as_number, as_seed, first_bad
from cautious.errors import InputError, shown
from cautious.models.scene import named_states
from cautious.models.tabular import MDP, Memory
from cautious.returns.memory_policy import MemoryPolicy


class SolutionAgent:
    """One episode after the other: ``reset``, then ``act`` and ``observe`` in turn; made by ``solution.agent()``.

    It remembers what the policy needs: nothing, the number of steps taken, which states have been entered
    (``ca.Reach``), or what is still to be earned (risks of the return).

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> mdp = ca.worlds.river_swim()
    >>> agent = ca.solve(ca.Problem(mdp, ca.ReturnCVaR(0.9), horizon=20)).agent()
    >>> simulator, rng, earned = mdp.simulator(), np.random.default_rng(0), 0.0
    >>> agent.reset(seed=0)
    >>> (state,) = simulator.start_states(1, rng)
    >>> for _ in range(20):
    ...     action = agent.act(state)
    ...     (state,), (reward,) = simulator.sample(np.array([state]), np.array([action]), rng)
    ...     agent.observe(reward, state)
    ...     earned += reward
    """

    def __init__(self, mdp: MDP, policy: Array, memory_policy: MemoryPolicy | None = None) -> None:
        self._mdp, self._memory_policy = mdp, memory_policy
        self._running = np.cumsum(policy, axis=-1)
        self._rng = np.random.default_rng()
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode; with a ``seed`` the actions of this and later episodes are drawn from it."""
        if seed is not None:
            self._rng = np.random.default_rng(as_seed(seed))
        self._taken, self._entered = 0, np.zeros((), np.int64)
        self._node = np.asarray(0 if self._memory_policy is None else self._memory_policy.first())

    def act(self, state: Any) -> int:
        """An action in this state, given by number or name."""
        place = self._place(state)
        memory, taken = self._memory_policy, self._taken
        if isinstance(self._mdp.horizon, int) and taken >= self._mdp.horizon:
            raise InputError(
                f"the policy is one for {self._mdp.horizon} steps, and so many were taken; call reset() to begin again"
            )
        if memory is not None and taken < memory.n_steps:
            return int(memory.tables[taken].at(place, self._node))
        if memory is not None:
            assert memory.policy_after is not None
            return int(drawn(np.cumsum(memory.policy_after[place]), self._rng))
        running = self._running[taken, place] if self._running.ndim == 3 else self._running[place]
        return int(drawn(running, self._rng))

    def observe(self, reward: float, next_state: Any) -> None:
        """What the last action paid, and where it led."""
        paid = as_number("reward", reward)
        memory = self._memory_policy
        if memory is not None and self._taken < memory.n_steps:
            self._node = memory.moved(self._taken, self._node, np.asarray(paid))
        self._taken += 1
        self._place(next_state)

    def _place(self, state: Any) -> Indices:
        """The state of the model that is solved; what has been entered is noted."""
        memory = self._mdp.memory
        places = observed_states(self._mdp.without_memory, state)
        if places.ndim:
            raise InputError(f"an agent is in one state, found {shown(state)}")
        if memory is not None:
            places, self._entered = with_entered(memory, places, self._entered)
        return places


def drawn(running: Array, rng: np.random.Generator) -> Indices:
    """An action for each row of running sums of chances (..., A)."""
    # rounding may take the product up to the total, which belongs to no action
    draws = np.minimum(rng.random(running.shape[:-1]) * running[..., -1], np.nextafter(running[..., -1], 0.0))
    return np.asarray(np.argmax(running > draws[..., None], axis=-1))


def observed_states(mdp: MDP, observation: Any) -> Indices:
    """State numbers of an observation, or of an array of them, given by number or by name; the shape is kept."""
    items = as_array("observation", observation)
    if items.dtype.kind == "U":
        return named_states("observation", items.ravel().tolist(), mdp.state_names).reshape(items.shape)
    if not np.issubdtype(items.dtype, np.integer):
        raise InputError(f"observation must hold state numbers or names, found {shown(observation)}")
    bad = (items < 0) | (items >= mdp.n_states)
    if bad.any():
        raise InputError(f"observation is {items[first_bad(bad)]}; states are numbered 0 to {mdp.n_states - 1}")
    return items.astype(np.int64)


def with_entered(memory: Memory, places: Indices, entered: Indices) -> tuple[Indices, Indices]:
    """The states with memory that these states are, and the bits of all that has been entered now."""
    own = np.zeros(memory.base.n_states, np.int64)
    for number, states in enumerate(memory.sets):
        own[states] |= 1 << number
    entered = entered | own[places]
    number_of = np.full((2 ** len(memory.sets), memory.base.n_states), -1)
    number_of[memory.bits, memory.origin] = np.arange(memory.origin.size)
    found = number_of[entered, places]
    if np.any(found < 0):
        raise InputError(
            "these states cannot be reached with what state says has been entered; hand back the state that predict "
            "returned for the last observation"
        )
    return found, entered
