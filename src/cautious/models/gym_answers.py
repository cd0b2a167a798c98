"""What an environment answers to a reset and a step, checked: the interface of Gymnasium is a promise, not a type."""

from typing import Any

import numpy as np

from cautious.errors import InputError

RESET = "(observation, info)"
STEP = "(observation, reward, terminated, truncated, info)"


def first_observed(env: Any, seed: int | None = None) -> int:
    """The number of the state that a reset leads to; without a seed the environment keeps its generator."""
    answer = env.reset() if seed is None else env.reset(seed=seed)
    (observation, _) = _parts("env.reset()", answer, RESET, 2)
    return observed_state("the observation of env.reset()", _single(observation), env.observation_space)


def stepped(env: Any, action: int, what: str) -> tuple[int, float, bool, bool]:
    """The next state, the reward, and whether a step terminated or truncated; ``what`` says which step it is."""
    observation, reward, terminated, truncated, _ = _parts(what, env.step(action), STEP, 5)
    state = observed_state(f"the observation of {what}", _single(observation), env.observation_space)
    if isinstance(reward, bool) or not isinstance(reward, int | float | np.integer | np.floating):
        raise InputError(f"the reward of {what} must be a number, found {reward!r:.80}")
    return state, float(reward), _flag(what, "terminated", terminated), _flag(what, "truncated", truncated)


def observed_state(what: str, observation: Any, space: Any) -> int:
    """The number of the state with this observation; ``what`` says where it was found."""
    first, last = int(space.start), int(space.start) + int(space.n) - 1
    is_whole = isinstance(observation, int | np.integer) and not isinstance(observation, bool)
    if not is_whole or not first <= observation <= last:
        raise InputError(f"{what} is {observation!r:.40}; observations are {first} to {last}")
    return int(observation) - first


def _parts(what: str, answer: Any, expected: str, count: int) -> tuple[Any, ...]:
    if isinstance(answer, tuple) and len(answer) == count:
        return answer
    found = f"{len(answer)} values" if isinstance(answer, tuple) else f"{answer!r:.80}"
    old = isinstance(answer, tuple) and (count, len(answer)) == (5, 4)
    hint = "; four are the interface of Gym before 0.26: say apart what ended and what ran out of time" if old else ""
    raise InputError(f"{what} returned {found}; expected {expected}{hint}")


def _single(observation: Any) -> Any:
    """Gymnasium allows whole numbers and arrays that hold one."""
    return observation[()] if isinstance(observation, np.ndarray) else observation


def _flag(what: str, name: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_) or (isinstance(value, int | np.integer) and value in (0, 1)):
        return bool(value)
    raise InputError(f"{name} of {what} is {value!r:.40}; expected true or false")
