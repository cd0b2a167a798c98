"""``GymSimulator``: a Gymnasium environment as a simulator, by setting its state before every step."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from cautious._checks import as_number, check_shape
from cautious.arrays import Array, Indices
from cautious.errors import IncompatibleError, InputError, MissingExtraError
from cautious.models.scene import Scene
from cautious.models.simulator_parts import as_outcome, as_reward_range, as_state, checked_pairs
from cautious.models.simulators import Known

AtEnd = Literal["absorb", "restart"]
SetState = Callable[[Any, int], Any]
# environments may hand their seed to generators that take no more
SEEDS = 2**31


@runtime_checkable
class SetsState(Protocol):
    """An environment that can be put into a state."""

    def set_state(self, state: int) -> Any:
        """Be in the state that is observed as this number."""
        ...


@runtime_checkable
class HasTable(Protocol):
    """``P[state][action]`` lists (probability, next state, reward, terminated)."""

    P: Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]


@runtime_checkable
class ToyText(HasTable, Protocol):
    """What FrozenLake, CliffWalking and Taxi share: the whole state is the number ``s``, which is also observed."""

    s: int
    initial_state_distrib: Array


class GymSimulator:
    """A Gymnasium environment with a finite number of states and actions (extra ``gym``).

    Parameters
    ----------
    env
        With ``Discrete`` observations that are its whole state, and ``Discrete`` actions. It is stepped through its
        wrappers and must not be used elsewhere at the same time.
    discount
        Weight of the next step, in [0, 1).
    at_end
        What follows ``terminated``: "absorb" leads to one more state, the last one, which pays 0 forever; "restart"
        leads to a fresh first state. Truncation, such as a time limit, is not an end: the state goes on.
    reward_range
        (low, high). Default: from the environment's table ``P``, where it has one.
    set_state
        ``set_state(env, observation)`` puts the environment into a state. Default: ``env.unwrapped.set_state``, or
        the attribute ``s`` of Gymnasium's toy_text environments.

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
        at_end: AtEnd,
        reward_range: tuple[float, float] | None = None,
        set_state: SetState | None = None,
    ) -> None:
        changes = _check_environment(env)
        self.discount = as_number("discount", discount, 0, 1, open_ends=")")
        if at_end not in ("absorb", "restart"):
            raise InputError(f'at_end is {at_end!r}; expected "absorb" or "restart"')
        if set_state is not None and not callable(set_state):
            raise InputError(f"set_state must be a function of (env, observation), found {set_state!r:.80}")
        self.env, self.at_end = env, at_end
        self.first_state, self.first_action = int(env.observation_space.start), int(env.action_space.start)
        self._observed, self.n_actions = int(env.observation_space.n), int(env.action_space.n)
        self.n_states = self._observed + (at_end == "absorb")
        low, high = _table_range(env, changes) if reward_range is None else as_reward_range(reward_range)
        # the absorbing state pays 0, whatever the environment does
        self.reward_range = (min(low, 0.0), max(high, 0.0)) if at_end == "absorb" else (low, high)
        self.allowed = np.ones((self.n_states, self.n_actions), dtype=np.bool_)
        self._set_state = self._tried(_setter(env, changes) if set_state is None else set_state)
        self.known = Known(start=self._start(changes), scene=Scene(_title(env)))
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

    def _step(self, state: int, action: int) -> tuple[int, float]:
        if state == self._observed:
            return state, 0.0
        self._set_state(self.env, state + self.first_state)
        found, reward, terminated, truncated, _ = self.env.step(action + self.first_action)
        what = f"env.step({action + self.first_action}) from the observation {state + self.first_state}"
        next_state, paid = as_outcome(what, (self._number(found), reward), self._observed)
        # Gymnasium asks for a reset after either; where the state goes on, the next draw sets it anyway
        fresh = self._reset(None) if terminated or truncated else next_state
        if not terminated:
            return next_state, paid
        return (self._observed if self.at_end == "absorb" else fresh), paid

    def _reset(self, rng: np.random.Generator | None) -> int:
        """A first state; the generator, where there is one, seeds everything the environment draws from now on."""
        found, _ = self.env.reset(seed=None if rng is None else int(rng.integers(SEEDS)))
        return as_state("the state of env.reset()", self._number(found), self._observed)

    def _number(self, observation: Any) -> Any:
        """The state of an observation; Gymnasium allows whole numbers and arrays that hold one."""
        return (
            observation[()] - self.first_state
            if isinstance(observation, np.ndarray)
            else observation - self.first_state
        )

    def _tried(self, set_state: SetState) -> SetState:
        """The function, when it works: better to fail here than in the middle of a run."""
        first = self._reset(np.random.default_rng(0)) + self.first_state
        try:
            set_state(self.env, first)
        except Exception as error:
            raise IncompatibleError(
                f"setting the state of {self.env} to {first} raised {type(error).__name__}: {error}"
            ) from error
        return set_state

    def _start(self, changes: set[str]) -> Array | None:
        bare = self.env.unwrapped
        if "observations" in changes or not isinstance(bare, ToyText):
            return None
        start = np.asarray(bare.initial_state_distrib, dtype=np.float64)
        check_shape("env.unwrapped.initial_state_distrib", start, (self._observed,), "(S,)")
        return np.append(start, 0.0) if self.at_end == "absorb" else start

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


def _check_environment(env: Any) -> set[str]:
    """Refuse what cannot be sampled; gives what wrappers change: "observations", "rewards"."""
    try:
        import gymnasium
        from gymnasium.envs.toy_text.taxi import TaxiEnv
        from gymnasium.wrappers import Autoreset
    except ImportError:
        raise MissingExtraError("GymSimulator needs gymnasium; install it with: pip install cautious[gym]") from None
    if not isinstance(env, gymnasium.Env):
        raise IncompatibleError(
            f"env must be a gymnasium.Env, found {type(env).__name__}; make one with gymnasium.make(name)"
        )
    for name, space in (("observation_space", env.observation_space), ("action_space", env.action_space)):
        if not isinstance(space, gymnasium.spaces.Discrete):
            raise IncompatibleError(
                f"env.{name} is {space}; GymSimulator needs Discrete, so that states and actions can be counted"
            )
    if isinstance(env.unwrapped, TaxiEnv) and env.unwrapped.fickle_passenger:
        raise IncompatibleError(
            "Taxi with fickle_passenger=True remembers whether the passenger has changed their mind, which is not "
            "observed: the observation is not the whole state"
        )
    kinds = {gymnasium.ObservationWrapper: "observations", gymnasium.RewardWrapper: "rewards"}
    wrappers = list(_wrappers(env, gymnasium.Wrapper))
    if any(isinstance(wrapper, Autoreset) for wrapper in wrappers):
        raise IncompatibleError("env has the wrapper Autoreset, which replaces every step after an end by a reset")
    return {change for kind, change in kinds.items() if any(isinstance(wrapper, kind) for wrapper in wrappers)}


def _wrappers(env: Any, kind: Any) -> Iterator[Any]:
    while isinstance(env, kind):
        yield env
        env = env.env


def _table_range(env: Any, changes: set[str]) -> tuple[float, float]:
    """Smallest and largest reward of the environment's table."""
    bare = env.unwrapped
    if "rewards" in changes or not isinstance(bare, HasTable):
        why = "a wrapper changes the rewards" if "rewards" in changes else "the environment has no table P"
        raise InputError(f"reward_range is needed: {why}; pass reward_range=(low, high)")
    paid = [line[2] for actions in bare.P.values() for lines in actions.values() for line in lines if line[0] > 0]
    return as_reward_range((min(paid), max(paid)))


def _setter(env: Any, changes: set[str]) -> SetState:
    """How to put this environment into a state."""
    bare = env.unwrapped
    ways = (
        "pass set_state=..., a function of (env, observation): it may write the environment's attributes, or call "
        'env.reset(options={"state": observation}) where the environment takes such options'
    )
    if "observations" in changes:
        raise IncompatibleError(f"a wrapper of {env} changes the observations, so they are not its states; {ways}")
    if isinstance(bare, SetsState):
        return _by_method
    found, _ = env.reset(seed=0)
    if isinstance(bare, ToyText) and int(bare.s) == int(found):
        return _by_attribute
    raise IncompatibleError(f"GymSimulator does not know how to set the state of {env}; {ways}")


# functions of the module, so that a simulator can be pickled
def _by_method(env: Any, observation: int) -> None:
    env.unwrapped.set_state(observation)


def _by_attribute(env: Any, observation: int) -> None:
    env.unwrapped.s = observation


def _title(env: Any) -> str:
    return type(env.unwrapped).__name__ if env.spec is None else str(env.spec.id)
