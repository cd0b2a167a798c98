"""The outcomes of an environment without a table, found by stepping from every state that can be reached.

During a step the environment's random generator is replaced by ``ListedDraws``, which lists draws instead of making
them, so that a step is seen in all its ways with their exact probabilities. Code that draws from it is run again and
again. Each draw is a fork; a run follows a given list of turns and takes the first way at every fork after it, and the
other ways are put on a list of runs to come. A uniform number is an interval; each comparison cuts it in two, and which
part is kept is a fork. A draw that cannot be listed, or anything done to a uniform number but comparing it, raises
``UnlistedDraw``.

Draws from anywhere else would be missed. So every other generator must stay as it was (those among the environment's
attributes, Python's and NumPy's), and everything must come out the same when it is done again in another order from
another seed.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from cautious.arrays import Array
from cautious.errors import IncompatibleError, InputError, shown
from cautious.models.gym_checks import SetState, first_observed, state_setter
from cautious.models.gym_simulator import GymSimulator
from cautious.models.gym_spaces import Spaces
from cautious.models.outcome_lists import OutcomeList

MOST_WAYS = 10_000
MOST_DRAWS = 1000
# how far the chances of a choice may be from one in sum: what NumPy allows
MAX_SUM_ERROR = math.sqrt(math.ulp(1.0))
Result = TypeVar("Result")
ENDED = -1
WAY_OUT = "learn from samples: ca.learn(ca.GymSimulator(env, ...)), or write the outcomes down: ca.from_function"
# next state, or ENDED, and reward, with their probability
Ways = dict[tuple[int, float], float]


class UnlistedDraw(Exception):
    """Why the ways cannot be listed."""


class ListedDraws:
    """Stands in for a ``numpy.random.Generator`` during one run; ``turns`` says which way to take at each fork."""

    def __init__(self, turns: Sequence[int]) -> None:
        self._given = turns
        self.turns: list[int] = []
        self.n_ways: list[int] = []
        self.probability = 1.0
        self.is_over = False

    def fork(self, chances: Sequence[float]) -> int:
        """Which of the ways this run takes, by their chances; those of chance zero are none."""
        ways = [way for way, chance in enumerate(chances) if chance > 0]
        if not ways:
            raise UnlistedDraw(f"draws by the chances {shown(list(chances), 60)}, none of which is above zero")
        if len(ways) == 1:
            return ways[0]
        place = len(self.turns)
        if place >= MOST_DRAWS:
            raise UnlistedDraw(f"can draw more than {MOST_DRAWS} random numbers")
        turn = self._given[place] if place < len(self._given) else 0
        self.turns.append(turn)
        self.n_ways.append(len(ways))
        self.probability *= float(chances[ways[turn]])
        return ways[turn]

    def random(self, size: Any = None) -> "UniformNumber":
        """A number between 0 and 1."""
        return self.uniform(0.0, 1.0, size)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> "UniformNumber":
        """A number between two others."""
        _refuse_size("uniform", size)
        if not -math.inf < low < high < math.inf:
            raise UnlistedDraw(f"draws a uniform number between {low} and {high}")
        return UniformNumber(self, float(low), float(high))

    def integers(
        self, low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """A whole number of a range."""
        _refuse_size("integers", size)
        first, last = (0, low) if high is None else (low, high)
        count = int(last) - int(first) + bool(endpoint)
        return np.int64(int(first) + self.fork(_equal(count)))

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        """One of several things."""
        _refuse_size("choice", size)
        things = range(int(a)) if np.ndim(a) == 0 else a
        chances = _equal(len(things)) if p is None else _chances(p, len(things))
        if isinstance(a, list | tuple) and all(isinstance(thing, int | str) for thing in a):
            # equal entries are one way, with the sum of their chances
            first = {thing: place for place, thing in reversed(list(enumerate(a)))}
            merged = [0.0] * len(a)
            for thing, chance in zip(a, chances, strict=True):
                merged[first[thing]] += chance
            chances = merged
        way = self.fork(chances)
        return np.int64(way) if np.ndim(a) == 0 else things[way]

    def __getattr__(self, name: str) -> Any:
        # copies and pickles look for methods of their own
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnlistedDraw(f"draws by np_random.{name}, whose outcomes cannot be listed")


class UniformNumber:
    """A number of which only the interval is known, as far as it has been compared."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, draws: ListedDraws, low: float, high: float) -> None:
        self._draws, self._low, self._high = draws, low, high

    def _is_below(self, bound: Any) -> Any:
        if self._draws.is_over:
            raise UnlistedDraw("uses a random number of an earlier step, which is not observed")
        if isinstance(bound, np.ndarray) and bound.ndim > 0:
            answers = np.asarray(bound >= self._high)
            for place in zip(*np.nonzero((bound > self._low) & ~answers), strict=True):
                answers[place] = self._is_below(bound[place])
            return answers
        cut = min(max(float(bound), self._low), self._high)
        share = (cut - self._low) / (self._high - self._low)
        below = self._draws.fork((share, 1 - share)) == 0
        self._low, self._high = (self._low, cut) if below else (cut, self._high)
        return below

    def _is_above(self, bound: Any) -> Any:
        below = self._is_below(bound)
        return ~below if isinstance(below, np.ndarray) else not below

    # NumPy's searches compare a number with itself
    def __lt__(self, bound: Any) -> Any:
        return bound is not self and self._is_below(bound)

    def __le__(self, bound: Any) -> Any:
        return bound is self or self._is_below(bound)

    def __gt__(self, bound: Any) -> Any:
        return bound is not self and self._is_above(bound)

    def __ge__(self, bound: Any) -> Any:
        return bound is self or self._is_above(bound)

    def __repr__(self) -> str:
        return "a uniform random number"

    def _unlisted(self, *_: Any) -> Any:
        raise UnlistedDraw("draws a uniform number and does more than compare it")

    __eq__ = __ne__ = __bool__ = __float__ = __int__ = __index__ = __round__ = _unlisted
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _unlisted
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = _unlisted


def listed_ways(run: Callable[[ListedDraws], Result]) -> Iterator[tuple[float, Result]]:
    """Every way that ``run(draws)`` can come out, with its probability."""
    waiting: list[list[int]] = [[]]
    found = 0
    while waiting:
        given = waiting.pop()
        draws = ListedDraws(given)
        result = run(draws)
        draws.is_over = True
        found += 1
        if found > MOST_WAYS:
            raise UnlistedDraw(f"can come out in more than {MOST_WAYS} ways")
        yield draws.probability, result
        for place in range(len(given), len(draws.turns)):
            waiting += [[*draws.turns[:place], turn] for turn in range(1, draws.n_ways[place])]


def _equal(count: int) -> list[float]:
    """Equal chances."""
    if count > MOST_WAYS:
        raise UnlistedDraw(f"can come out in more than {MOST_WAYS} ways")
    return [1 / count] * count if count > 0 else []


def _chances(given: Any, count: int) -> list[float]:
    """The chances of ``choice``, as NumPy takes them: small errors of the sum are shared out."""
    chances = [float(chance) for chance in given]
    total = math.fsum(chances)
    if len(chances) != count or not all(chance >= 0 for chance in chances) or abs(total - 1) > MAX_SUM_ERROR:
        raise UnlistedDraw(
            f"draws by np_random.choice with p={shown(chances, 60)}; expected {count} chances of at least 0 that "
            "sum to 1"
        )
    return [chance / total for chance in chances]


def _refuse_size(name: str, size: Any) -> None:
    if size is not None:
        raise UnlistedDraw(f"draws many numbers at once (np_random.{name} with size={size!r})")


def first_states(env: Any, spaces: Spaces) -> Array:
    """The start (S,) of an environment, from all the ways of its reset."""
    env.reset(seed=0)
    chances = [np.zeros(spaces.n_states) for _ in range(2)]
    try:
        for start in chances:
            for state, chance in _all_ways(env, lambda: first_observed(env, spaces)).items():
                start[state] += chance
    except UnlistedDraw as reason:
        raise IncompatibleError(
            f"start is needed: env.reset() {reason}; pass start=..., one observation, or one chance per observation, "
            "or learn from samples: ca.learn(ca.GymSimulator(env, ...))"
        ) from None
    if not np.array_equal(chances[0], chances[1]):
        raise IncompatibleError("start is needed: env.reset() does not come out the same when it is done again")
    return np.asarray(chances[0] / chances[0].sum())


def settable(env: Any, spaces: Spaces, changes: set[str], set_state: SetState | None) -> GymSimulator:
    """The environment with a way to put it into a state; ``changes`` are those of its wrappers."""
    try:
        setter = state_setter(env, spaces, changes, "from_gym") if set_state is None else set_state
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
                f"{simulator.call(state, action)} comes out differently when tried again: it is random in a way "
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
            raise InputError(f"the reward of {simulator.call(state, action)} is {reward}; it must be finite")
        return (ENDED if terminated else next_state), reward

    def prepare() -> None:
        if ended and ended[-1]:
            simulator.env.reset()

    ended: list[bool] = []
    try:
        ways = _all_ways(simulator.env, step, prepare, lambda: simulator.be_in(state))
    except UnlistedDraw as reason:
        raise IncompatibleError(
            f"{simulator.call(state, action)} {reason}, and env has no table P; {WAY_OUT}"
        ) from None
    if ended[-1]:
        simulator.env.reset()
    return ways


def _nothing() -> None:
    pass


def _all_ways(
    env: Any,
    act: Callable[[], Result],
    prepare: Callable[[], Any] = _nothing,
    settle: Callable[[], Any] = _nothing,
) -> dict[Result, float]:
    """What ``act`` can come out as, each with its probability.

    ``prepare`` goes before each try and may draw; then ``settle``, whose draws are listed as those of ``act`` are.
    """

    def attempt(draws: Any) -> Result:
        prepare()
        real = env.unwrapped.np_random
        env.unwrapped.np_random = draws
        try:
            settle()
            env.unwrapped.np_random = real
            before = _generators(env)
            env.unwrapped.np_random = draws
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
