"""The outcomes of an environment without a table, found by stepping from every state that can be reached.

During a step the environment's random generator is replaced by one that lists draws instead of making them, so that a
step is seen in all its ways with their exact probabilities (``listed_draws``). Draws from anywhere else would be
missed. So every other generator must stay as it was (those among the environment's attributes, Python's and NumPy's),
and everything must come out the same when it is done again in another order from another seed.
"""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.errors import IncompatibleError, InputError
from cautious.models.gym_answers import first_observed
from cautious.models.gym_checks import SetState, state_setter
from cautious.models.gym_simulator import GymSimulator
from cautious.models.listed_draws import Result, UniformNumber, UnlistedDraw, listed_ways
from cautious.models.outcome_lists import OutcomeList

ENDED = -1
WAY_OUT = "learn from samples: ca.learn(ca.GymSimulator(env, ...)), or write the outcomes down: ca.from_function"
# next state, or ENDED, and reward, with their probability
Ways = dict[tuple[int, float], float]


def first_states(env: Any) -> Array:
    """The start (S,) of an environment, from all the ways of its reset."""
    env.reset(seed=0)
    chances = [np.zeros(int(env.observation_space.n)) for _ in range(2)]
    try:
        for start in chances:
            for state, chance in _all_ways(env, lambda: first_observed(env)).items():
                start[state] += chance
    except UnlistedDraw as reason:
        raise IncompatibleError(
            f"start is needed: env.reset() {reason}; pass start=..., one observation, or one chance per observation"
        ) from None
    if not np.array_equal(chances[0], chances[1]):
        raise IncompatibleError("start is needed: env.reset() does not come out the same when it is done again")
    return np.asarray(chances[0] / chances[0].sum())


def settable(env: Any, changes: set[str], set_state: SetState | None) -> GymSimulator:
    """The environment with a way to put it into a state; ``changes`` are those of its wrappers."""
    try:
        setter = state_setter(env, changes, "from_gym") if set_state is None else set_state
        # rewards are read, not checked: no range is known
        return GymSimulator(env, 0.0, "absorb", (0.0, 0.0), setter)
    except IncompatibleError as error:
        raise IncompatibleError(
            f"env has no table P for its observations, so every state must be tried: {error}. Where states cannot be "
            "set, learn from recorded episodes: ca.from_transitions"
        ) from error


def tried_outcomes(simulator: GymSimulator, first: Array) -> OutcomeList:
    """The outcomes of every pair that can be reached from the first states (S,)."""
    found: dict[tuple[int, int], Ways] = {}
    waiting = np.flatnonzero(first).tolist()
    seen = set(waiting)
    simulator.env.reset(seed=1)
    while waiting:
        state = waiting.pop()
        for action in range(simulator.n_actions):
            found[state, action] = _ways_of_step(simulator, state, action)
            news = {next_state for next_state, _ in found[state, action]} - seen - {ENDED}
            seen |= news
            waiting += sorted(news)
    simulator.env.reset(seed=2)
    for (state, action), ways in reversed(found.items()):
        if _ways_of_step(simulator, state, action) != ways:
            raise IncompatibleError(
                f"{_which(simulator, state, action)} comes out differently when tried again: it is random in a way "
                f"that cannot be listed, or the observation is not the whole state; {WAY_OUT}"
            )
    lines = [
        (state * simulator.n_actions + action, next_state, chance, reward)
        for (state, action), ways in found.items()
        for (next_state, reward), chance in ways.items()
    ]
    rows, next_states, chances, rewards = zip(*lines, strict=True)
    return OutcomeList(np.array(rows), np.array(next_states), np.array(chances), np.array(rewards))


def _ways_of_step(simulator: GymSimulator, state: int, action: int) -> Ways:
    def step() -> tuple[int, float]:
        next_state, reward, terminated, truncated = simulator.step(state, action)
        ended.append(terminated or truncated)
        if not math.isfinite(reward):
            raise InputError(f"the reward of {_which(simulator, state, action)} is {reward}; it must be finite")
        return (ENDED if terminated else next_state), reward

    def prepare() -> None:
        if ended and ended[-1]:
            simulator.env.reset()
        simulator.be_in(state)

    ended: list[bool] = []
    try:
        ways = _all_ways(simulator.env, step, prepare)
    except UnlistedDraw as reason:
        raise IncompatibleError(
            f"{_which(simulator, state, action)} {reason}, and env has no table P; {WAY_OUT}"
        ) from None
    if ended[-1]:
        simulator.env.reset()
    return ways


def _all_ways(env: Any, act: Callable[[], Result], prepare: Callable[[], Any] = lambda: None) -> dict[Result, float]:
    """What ``act`` can come out as, each with its probability; ``prepare`` goes before each try and may draw."""

    def attempt(draws: Any) -> Result:
        prepare()
        real, before = env.unwrapped.np_random, _generators(env)
        env.unwrapped.np_random = draws
        try:
            result = act()
        except TypeError as error:
            # operations that a uniform number does not have
            if UniformNumber.__name__ not in str(error):
                raise
            raise UnlistedDraw("draws a uniform number and does more than compare it") from error
        finally:
            env.unwrapped.np_random = real
        if before != _generators(env):
            raise UnlistedDraw("draws random numbers from elsewhere than env.np_random")
        return result

    ways: dict[Result, float] = {}
    for chance, result in listed_ways(attempt):
        ways[result] = ways.get(result, 0.0) + chance
    return ways


def _generators(env: Any) -> list[Any]:
    """The states of the generators a step may draw from: those the environment keeps, Python's and NumPy's."""
    states: list[Any] = [random.getstate(), np.random.get_state(legacy=False)]  # noqa: NPY002 - looked at, not used
    for value in vars(env.unwrapped).values():
        if isinstance(value, np.random.Generator):
            states.append(value.bit_generator.state)
        elif isinstance(value, np.random.RandomState):
            states.append(value.get_state(legacy=False))
        elif isinstance(value, random.Random):
            states.append(value.getstate())
    return [_comparable(state) for state in states]


def _comparable(state: Any) -> Any:
    """The state of a generator without arrays."""
    if isinstance(state, dict):
        return {key: _comparable(value) for key, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


def _which(simulator: GymSimulator, state: int, action: int) -> str:
    return f"env.step({action + simulator.first_action}) from the observation {state + simulator.first_state}"
