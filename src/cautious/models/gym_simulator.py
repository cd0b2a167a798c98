"""``GymSimulator``: a Gymnasium environment as a simulator, by setting its state before every step."""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.checks import as_number, check_choice
from cautious.errors import IncompatibleError, InputError, shown
from cautious.models import gym_checks
from cautious.models.gym_naming import ENDS, naming_of
from cautious.models.simulator_checks import as_reward_range, checked_pairs
from cautious.models.simulators import Known, as_draws_per_seed

# environments may hand their seed to generators that take no more
N_SEEDS = 2**31


class GymSimulator:
    """A Gymnasium environment with a finite number of states and actions (extra ``gym``).

    Parameters
    ----------
    env
        Its observations are its whole state, and they and the actions can be counted: ``Discrete``, ``MultiDiscrete``
        or a ``Tuple`` of them. It is stepped through its wrappers and must not be used elsewhere at the same time.
    discount
        Weight of the next step, in [0, 1]; ``ca.learn`` needs one below 1.
    at_end
        What follows ``terminated``: "absorb" leads to one more state, the last one, which pays 0 forever; "restart"
        leads to a fresh first state. Truncation, such as a time limit, is not an end: the state goes on.
    reward_range
        (low, high). Default: from the environment's table ``P``, where it has one.
    set_state
        ``set_state(env, observation)`` puts the environment into a state. Default: the method ``set_state`` of the
        environment or of a wrapper, or what is known of Gymnasium's toy_text environments.
    draws_per_seed
        As of ``ca.FunctionSimulator``; the environment is reset once per seed.

    Action masks are ignored: every action is tried in every state.

    Examples
    --------
    >>> import gymnasium, cautious as ca
    >>> lake = ca.GymSimulator(gymnasium.make("FrozenLake-v1"), discount=0.95, at_end="absorb")
    >>> lake.n_states, lake.n_actions, lake.reward_range
    (17, 4, (0.0, 1.0))
    """

    def __init__(
        self,
        env: Any,
        discount: float,
        at_end: gym_checks.AtEnd,
        reward_range: tuple[float, float] | None = None,
        set_state: gym_checks.SetState | None = None,
        draws_per_seed: int | None = None,
    ) -> None:
        spaces, changes = gym_checks.check_environment(env, "GymSimulator")
        self.discount = as_number("discount", discount, 0, 1)
        self.draws_per_seed = as_draws_per_seed(draws_per_seed)
        check_choice("at_end", at_end, gym_checks.AT_END)
        if set_state is not None and not callable(set_state):
            raise InputError(f"set_state must be a function of (env, observation), found {shown(set_state)}")
        self.env, self.at_end, self.spaces = env, at_end, spaces
        self._observed, self.n_actions = spaces.n_states, spaces.n_actions
        self.n_states = self._observed + (at_end == "absorb")
        low, high = _table_range(env, changes) if reward_range is None else as_reward_range(reward_range)
        # the absorbing state pays 0, whatever the environment does
        self.reward_range = (min(low, 0.0), max(high, 0.0)) if at_end == "absorb" else (low, high)
        self.allowed = np.ones((self.n_states, self.n_actions), dtype=np.bool_)
        self._set_state = self._tried(
            gym_checks.state_setter(env, spaces, changes, "GymSimulator") if set_state is None else set_state
        )
        self.known = Known(
            start=self._start(changes),
            **naming_of(env, spaces, ENDS if at_end == "absorb" else ()),
            interface=spaces,
        )
        self._lock = threading.Lock()

    def start_states(self, n: int, rng: np.random.Generator) -> Indices:
        """``n`` first states."""
        states = np.empty(n, dtype=np.int64)
        with self._lock:
            for i in range(n):
                states[i] = self._reset(rng if i == 0 else None)
        return states

    def sample(self, states: Indices, actions: Indices, rng: np.random.Generator) -> tuple[Indices, Array]:
        """Next states and rewards, one of each per given pair."""
        states, actions = checked_pairs(self.allowed, states, actions)
        next_states, rewards = np.empty(states.size, dtype=np.int64), np.empty(states.size)
        # one environment has one state: threads take turns
        with self._lock:
            self._reset(rng)
            for i, (state, action) in enumerate(zip(states.tolist(), actions.tolist(), strict=True)):
                next_states[i], rewards[i] = self._step(state, action)
        return next_states, rewards

    def be_in(self, state: int) -> None:
        """Put the environment into a state."""
        self._set_state(self.env, self.spaces.element(state))

    def step(self, state: int, action: int) -> tuple[int, float, bool, bool]:
        """One step from the state it was put into: the next one, the reward, and whether it terminated or truncated."""
        return gym_checks.stepped(self.env, self.spaces, self.spaces.action(action), self.call(state, action))

    def call(self, state: int, action: int) -> str:
        """What to call a step in a message."""
        return f"env.step({self.spaces.action(action)}) from the observation {self.spaces.observation(state)}"

    def _step(self, state: int, action: int) -> tuple[int, float]:
        if state == self._observed:
            return state, 0.0
        self.be_in(state)
        next_state, paid, terminated, truncated = self.step(state, action)
        # Gymnasium asks for a reset after either; where the state goes on, the next draw sets it anyway
        fresh = self._reset(None) if terminated or truncated else next_state
        if not terminated:
            return next_state, paid
        return (self._observed if self.at_end == "absorb" else fresh), paid

    def _reset(self, rng: np.random.Generator | None) -> int:
        """A first state; the generator, where there is one, seeds everything the environment draws from now on."""
        return gym_checks.first_observed(self.env, self.spaces, None if rng is None else int(rng.integers(N_SEEDS)))

    def _tried(self, set_state: gym_checks.SetState) -> gym_checks.SetState:
        """The function, when it works: better to fail here than in the middle of a run."""
        first = self.spaces.element(self._reset(np.random.default_rng(0)))
        try:
            set_state(self.env, first)
        except Exception as error:
            raise IncompatibleError(
                f"setting the state of {self.env} to {first} raised {type(error).__name__}: {error}"
            ) from error
        return set_state

    def _start(self, changes: set[str]) -> Array | None:
        is_toy = isinstance(self.env.unwrapped, gym_checks.ToyText)
        start = gym_checks.own_start(self.env, self.spaces, changes) if is_toy else None
        return np.append(start, 0.0) if start is not None and self.at_end == "absorb" else start

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


def _table_range(env: Any, changes: set[str]) -> tuple[float, float]:
    """Smallest and largest reward of the environment's table."""
    bare = env.unwrapped
    if "rewards" in changes or not isinstance(bare, gym_checks.HasTable):
        why = "a wrapper changes the rewards" if "rewards" in changes else "the environment has no table P"
        raise InputError(f"reward_range is needed: {why}; pass reward_range=(low, high)")
    # each level is keyed by number, or a list
    levels = bare.P.values() if isinstance(bare.P, Mapping) else bare.P
    listed = [actions.values() if isinstance(actions, Mapping) else actions for actions in levels]
    paid = [line[2] for actions in listed for lines in actions for line in lines if line[0] > 0]
    return as_reward_range((min(paid), max(paid)))
