"""Mean, variance and quantiles of numbers that come in blocks, in bounded memory.

Quantiles come from a sketch that depends on the order of the blocks only. It holds sorted buffers, and one of level h
stands for 2^h times its numbers. Two buffers of the same level become one of the next by sorting them together and
keeping every second number, by turns the first or the second of each two. So the number of those up to any x is what
the sketch says, up to 2^h for each such step: too many by turns, and too few. Both errors are added up; they are no
estimates.

A quantile of the law that the numbers come from lies between two order statistics, whatever that law is, with the
chance that a binomial variable lies between their ranks. The intervals are those of 95 %, widened by the errors of the
sketch.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtr

from cautious.arrays import Array, Indices

CONFIDENCE = 0.95
# numbers that are kept as they are: quantiles of no more than these are exact
MOST_KEPT = 2**20
BUFFERED_NUMBERS = 2**17


class Stream:
    """What is known of the numbers so far; ``kept`` are the first of them."""

    def __init__(self, most_kept: int = MOST_KEPT, buffer: int = BUFFERED_NUMBERS) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0
        self.least, self.largest = math.inf, -math.inf
        self.most_kept, self.buffer = most_kept, buffer
        self._blocks: list[Array] = []
        self._waiting: list[Array] = []
        self._levels: dict[int, Array] = {}
        self._turns: dict[int, int] = {}
        # of all ranks that the sketch says: by how much they may be too large, and too small
        self.over, self.under = 0, 0

    def add(self, numbers: Array) -> None:
        """The next block."""
        mean = float(numbers.mean())
        with np.errstate(over="ignore"):
            squares = float(np.sum(np.square(numbers - mean)))
        total, apart = self.count + numbers.size, mean - self.mean
        # products in this order are zero for the first block, however large its numbers are, and never raise
        self.squares += squares + apart * self.count / total * apart * numbers.size
        self.mean = mean if self.count == 0 else self.mean + apart * numbers.size / total
        room = max(0, self.most_kept - self.count)
        self.count = total
        self.least, self.largest = min(self.least, float(numbers.min())), max(self.largest, float(numbers.max()))
        if room:
            self._blocks.append(numbers[:room])
        self._waiting.append(numbers)
        if sum(one.size for one in self._waiting) >= self.buffer:
            waiting = np.concatenate(self._waiting)
            whole = waiting.size - waiting.size % self.buffer
            for first in range(0, whole, self.buffer):
                self._push(0, np.sort(waiting[first : first + self.buffer]))
            self._waiting = [waiting[whole:]]

    def _push(self, level: int, sorted_numbers: Array) -> None:
        other = self._levels.pop(level, None)
        if other is None:
            self._levels[level] = sorted_numbers
            return
        turn = self._turns.get(level, 0)
        self._turns[level] = 1 - turn
        self.over, self.under = self.over + (1 - turn) * 2**level, self.under + turn * 2**level
        self._push(level + 1, np.sort(np.concatenate([other, sorted_numbers]))[turn::2])

    @property
    def kept(self) -> Array:
        """The first numbers, at most ``most_kept``."""
        return np.concatenate(self._blocks) if self._blocks else np.empty(0)

    @property
    def variance(self) -> float:
        """Unbiased."""
        return self.squares / (self.count - 1)

    def quantiles(self, percents: tuple[int, ...]) -> tuple[dict[int, float], dict[int, tuple[float, float]]]:
        """The quantiles by percent, and their intervals; an end is infinite where there are too few numbers for one."""
        if self.count <= self.most_kept:
            numbers, over, under = np.sort(self.kept), 0, 0
            ranks: Indices = np.arange(1, self.count + 1, dtype=np.int64)
            points = dict(zip(percents, np.percentile(numbers, percents).tolist(), strict=True))
        else:
            numbers, ranks = self._sketch()
            over, under = self.over, self.under
            points = {one: _at(numbers, ranks, math.ceil(one / 100 * self.count)) for one in percents}
        intervals = {}
        for one in percents:
            low, high = order_statistics(self.count, one / 100)
            below = int(np.searchsorted(ranks, low - under)) - (over + under > 0)
            bottom = -math.inf if low < 1 else self.least if below < 0 else float(numbers[below])
            top = math.inf if high > self.count else _at(numbers, ranks, high + over)
            intervals[one] = (bottom, min(top, self.largest) if math.isfinite(top) else top)
        return points, intervals

    def _sketch(self) -> tuple[Array, Indices]:
        """All numbers of the sketch in order, and how many numbers it says are up to each of them."""
        parts = [(np.concatenate(self._waiting), 1), *((one, 2**level) for level, one in self._levels.items())]
        numbers = np.concatenate([one for one, _ in parts])
        weights = np.concatenate([np.full(one.size, weight) for one, weight in parts])
        order = np.argsort(numbers, kind="stable")
        return numbers[order], np.asarray(np.cumsum(weights[order]), dtype=np.int64)


def _at(numbers: Array, ranks: Indices, rank: int) -> float:
    """The first number up to which there are so many; the last one, if there are fewer."""
    return float(numbers[min(int(np.searchsorted(ranks, rank)), numbers.size - 1)])


def order_statistics(count: int, share: float) -> tuple[int, int]:
    """Ranks, from 1, of order statistics with the quantile of this share between them, with 95 % chance or more.

    0 and ``count + 1`` stand for no bound.

    Examples
    --------
    >>> order_statistics(100, 0.5)
    (40, 61)
    """
    tail = (1 - CONFIDENCE) / 2
    # as many numbers as this lie below the quantile: a binomial variable
    low = _first(count, lambda k: bool(bdtr(k, count, share) > tail))
    high = _first(count, lambda k: bool(bdtr(k, count, share) >= 1 - tail)) + 1
    return low, high


def _first(count: int, holds: Callable[[int], bool]) -> int:
    """The smallest k from 0 to count for which a condition, once true always true, holds."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
