"""What a Gymnasium environment must be to become a simulator or a model, what it answers, what its wrappers change.

The interface of Gymnasium is a promise, not a type: every answer is checked.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from cautious.arrays import Array
from cautious.checks import as_array, as_distribution, one_state
from cautious.errors import IncompatibleError, InputError, shown
from cautious.models.gym_spaces import Spaces, deal, number_of, spaces_of

RESET = "(observation, info)"
STEP = "(observation, reward, terminated, truncated, info)"
AtEnd = Literal["absorb", "restart"]
AT_END = ("absorb", "restart")
SetState = Callable[[Any, Any], Any]
# tables (S, A) are made of every observation, reachable or not
MOST_PAIRS = 10**8


def first_observed(env: Any, spaces: Spaces, seed: int | None = None) -> int:
    """The number of the state that a reset leads to; without a seed the environment keeps its generator."""
    answer = env.reset() if seed is None else env.reset(seed=seed)
    (observation, _) = _parts("env.reset()", answer, RESET, 2)
    return spaces.observed("the observation of env.reset()", env, _single(observation))


def stepped(env: Any, spaces: Spaces, action: Any, what: str) -> tuple[int, float, bool, bool]:
    """The next state, the reward, and whether a step terminated or truncated; ``what`` says which step it is."""
    observation, reward, terminated, truncated, _ = _parts(what, env.step(action), STEP, 5)
    state = spaces.observed(f"the observation of {what}", env, _single(observation))
    if isinstance(reward, bool) or not isinstance(reward, int | float | np.integer | np.floating):
        raise InputError(f"the reward of {what} must be a number, found {shown(reward)}")
    return state, float(reward), _flag(what, "terminated", terminated), _flag(what, "truncated", truncated)


def _parts(what: str, answer: Any, expected: str, count: int) -> tuple[Any, ...]:
    if isinstance(answer, tuple) and len(answer) == count:
        return answer
    found = f"{len(answer)} values" if isinstance(answer, tuple) else f"{shown(answer)}"
    old = isinstance(answer, tuple) and (count, len(answer)) == (5, 4)
    hint = "; four are the interface of Gym before 0.26: say apart what ended and what ran out of time" if old else ""
    raise InputError(f"{what} returned {found}; expected {expected}{hint}")


def _single(observation: Any) -> Any:
    """Gymnasium allows whole numbers and arrays that hold one."""
    return observation[()] if isinstance(observation, np.ndarray) and observation.ndim == 0 else observation


def _flag(what: str, name: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_) or (isinstance(value, int | np.integer) and value in (0, 1)):
        return bool(value)
    raise InputError(f"{name} of {what} is {shown(value, 40)}; expected true or false")


@runtime_checkable
class SetsState(Protocol):
    """An environment that can be put into a state."""

    def set_state(self, state: Any) -> Any:
        """Be in the state in which this is observed."""
        ...


@runtime_checkable
class HasTable(Protocol):
    """``P[state][action]`` lists (probability, next state, reward, terminated)."""

    P: Any


@runtime_checkable
class ToyText(HasTable, Protocol):
    """What FrozenLake, CliffWalking and Taxi share: the whole state is the number ``s``, which is also observed."""

    s: int
    initial_state_distrib: Array


@runtime_checkable
class HasFirstStates(Protocol):
    """``initial_state_distrib``: the chance of each first state."""

    initial_state_distrib: Array


@dataclass(frozen=True)
class Wrappers:
    """The wrappers of an environment that count for its table, outermost first."""

    of_rewards: tuple[Any, ...]
    of_actions: tuple[Any, ...]

    def action(self, given: int) -> Any:
        """The action that reaches the environment inside."""
        inner: Any = given
        for wrapper in self.of_actions:
            inner = _twice(wrapper, wrapper.action, inner, "action")
        return inner

    def reward(self, paid: float) -> float:
        """The reward that comes out when the environment inside pays this."""
        outer: Any = paid
        for wrapper in reversed(self.of_rewards):
            outer = _twice(wrapper, wrapper.reward, outer, "reward")
        return float(outer)


def check_environment(env: Any, who: str) -> tuple[Spaces, set[str]]:
    """Refuse what has no states and actions to count; gives these and what wrappers change.

    Changed may be "observations" and "rewards"; ``who`` asks, for the messages.
    """
    spaces = spaces_of(env, who)
    import gymnasium
    from gymnasium.envs.toy_text.taxi import TaxiEnv
    from gymnasium.wrappers import Autoreset

    if spaces.n_states * spaces.n_actions > MOST_PAIRS:
        raise IncompatibleError(
            f"env has {spaces.n_states} observations and {spaces.n_actions} actions; {who} takes up to "
            f"{MOST_PAIRS:.0e} pairs. If few of them can be reached, write the outcomes down: ca.from_function"
        )
    if isinstance(env.unwrapped, TaxiEnv) and env.unwrapped.fickle_passenger:
        raise IncompatibleError(
            "Taxi with fickle_passenger=True remembers whether the passenger has changed their mind, which is not "
            "observed: the observation is not the whole state"
        )
    kinds = {gymnasium.ObservationWrapper: "observations", gymnasium.RewardWrapper: "rewards"}
    wrappers = list(wrappers_of(env))
    if any(isinstance(wrapper, Autoreset) for wrapper in wrappers):
        raise IncompatibleError("env has the wrapper Autoreset, which replaces every step after an end by a reset")
    changes = {change for kind, change in kinds.items() if any(isinstance(wrapper, kind) for wrapper in wrappers)}
    return spaces, changes


def understood_wrappers(env: Any) -> Wrappers:
    """The wrappers of rewards and actions; those of observations are passed over, unknown ones are refused.

    Nothing needs to be known of a wrapper that can be put into a state, nor of what is inside it.
    """
    import gymnasium
    from gymnasium import wrappers as known

    harmless = {
        known.OrderEnforcing,
        known.PassiveEnvChecker,
        known.TimeLimit,
        known.RecordEpisodeStatistics,
        known.RecordVideo,
        known.RenderCollection,
        known.HumanRendering,
    }
    of_rewards, of_actions = [], []
    for wrapper in wrappers_of(env):
        if isinstance(wrapper, SetsState):
            break
        kind: Any = type(wrapper)
        plain_reset = kind.reset is gymnasium.Wrapper.reset
        if kind in harmless or (plain_reset and kind.step is gymnasium.Wrapper.step):
            continue
        if isinstance(wrapper, gymnasium.ObservationWrapper) and kind.step is gymnasium.ObservationWrapper.step:
            continue
        if plain_reset and isinstance(wrapper, gymnasium.RewardWrapper) and kind.step is gymnasium.RewardWrapper.step:
            of_rewards.append(wrapper)
        elif plain_reset and isinstance(wrapper, gymnasium.ActionWrapper) and kind.step is gymnasium.ActionWrapper.step:
            of_actions.append(wrapper)
        else:
            raise IncompatibleError(
                f"env has the wrapper {kind.__name__}, which may change what a step or a reset does; leave it off, or "
                "learn from samples: ca.learn(ca.GymSimulator(env, ...))"
            )
    return Wrappers(tuple(of_rewards), tuple(of_actions))


def wrappers_of(env: Any) -> Iterator[Any]:
    """The wrappers of an environment, outermost first."""
    import gymnasium

    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env


def given_start(spaces: Spaces, start: Any) -> Array | None:
    """First states (S,) by a caller's word: a distribution, or one observation; None says nothing."""
    if start is None:
        return None
    number = number_of(spaces.states, start)
    if number is not None:
        return one_state(spaces.n_states, number)
    if isinstance(start, tuple) or as_array("start", start).ndim == 0:
        spaces.state_number("start", start)
    return as_distribution("start", start, (spaces.n_states,), "(S,), one chance per observation")


def own_start(env: Any, spaces: Spaces, changes: set[str]) -> Array | None:
    """First states (S,) as the environment's ``initial_state_distrib`` says; None where it does not."""
    bare, count = env.unwrapped, spaces.n_states
    if "observations" in changes or not isinstance(bare, HasFirstStates):
        return None
    return as_distribution("env.unwrapped.initial_state_distrib", bare.initial_state_distrib, (count,), "(S,)")


def sets_itself(env: Any) -> bool:
    """Whether a wrapper can be put into a state by its own ``set_state``."""
    return any(isinstance(wrapper, SetsState) for wrapper in wrappers_of(env))


def state_setter(env: Any, spaces: Spaces, changes: set[str], who: str) -> SetState:
    """How to put this environment into a state."""
    import gymnasium
    from gymnasium.envs.toy_text.blackjack import BlackjackEnv

    bare = env.unwrapped
    ways = (
        "pass set_state=..., a function of (env, observation): it may write the environment's attributes, or call "
        'env.reset(options={"state": observation}) where the environment takes such options'
    )
    for wrapper in wrappers_of(env):
        if isinstance(wrapper, SetsState):
            return _by_wrapper
        if isinstance(wrapper, gymnasium.ObservationWrapper):
            raise IncompatibleError(f"a wrapper of {env} changes the observations, so they are not its states; {ways}")
    if isinstance(bare, SetsState):
        return _by_method
    if isinstance(bare, BlackjackEnv):
        return deal
    # toy_text environments have a state from their first reset on
    observed = spaces.element(first_observed(env, spaces, 0))
    if isinstance(bare, ToyText) and bare.s == observed:
        return _by_attribute
    raise IncompatibleError(f"{who} does not know how to set the state of {env}; {ways}")


def title_of(env: Any) -> str:
    """What to call an environment."""
    return type(env.unwrapped).__name__ if env.spec is None else str(env.spec.id)


# functions of the module, so that a simulator can be pickled
def _by_wrapper(env: Any, observation: Any) -> None:
    next(wrapper for wrapper in wrappers_of(env) if isinstance(wrapper, SetsState)).set_state(observation)


def _by_method(env: Any, observation: Any) -> None:
    env.unwrapped.set_state(observation)


def _by_attribute(env: Any, observation: Any) -> None:
    env.unwrapped.s = observation


def _twice(wrapper: Any, function: Callable[[Any], Any], value: Any, what: str) -> Any:
    """``function(value)``, asked twice: a wrapper that remembers or draws cannot be part of a table."""
    one, two = function(value), function(value)
    if one != two:
        raise IncompatibleError(
            f"the wrapper {type(wrapper).__name__} turns the {what} {value!r} into {shown(one, 40)} and then into "
            f"{shown(two, 40)}; a table needs one answer"
        )
    return one
