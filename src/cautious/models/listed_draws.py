"""Random draws listed instead of drawn: every way a piece of code can come out, with its exact probability.

Code that draws from a ``ListedDraws`` is run again and again. Each draw is a fork; a run follows a given list of turns
and takes the first way at every fork after it, and the other ways are put on a list of runs to come. A uniform number
is never made up: it is an interval, each comparison cuts it in two, and which part is kept is a fork. A draw that
cannot be listed, or anything done to a uniform number but comparing it, raises ``UnlistedDraw``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

MOST_WAYS = 10_000
MOST_DRAWS = 1000
# how far the chances of a choice may be from one in sum: what NumPy allows
NEAR_ONE = math.sqrt(math.ulp(1.0))
Result = TypeVar("Result")


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
            raise UnlistedDraw(f"draws by the chances {list(chances)!r:.60}, none of which is above zero")
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
        way = self.fork(_equal(len(things)) if p is None else _chances(p, len(things)))
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
    if len(chances) != count or not all(chance >= 0 for chance in chances) or abs(total - 1) > NEAR_ONE:
        raise UnlistedDraw(
            f"draws by np_random.choice with p={chances!r:.60}; expected {count} chances of at least 0 that sum to 1"
        )
    return [chance / total for chance in chances]


def _refuse_size(name: str, size: Any) -> None:
    if size is not None:
        raise UnlistedDraw(f"draws many numbers at once (np_random.{name} with size={size!r})")
