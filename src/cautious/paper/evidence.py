"""What every part of the reproduction hands over: a figure, its numbers, and the paper's claims with the evidence."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import stdtrit

from cautious.arrays import Array
from cautious.errors import InputError
from cautious.report.canvas import Theme

CONFIDENCE = 0.95

# one line of a csv file
Row = Mapping[str, float | int | str]


@dataclass(frozen=True)
class Scale:
    """How much to run: ``seeds`` independent repetitions, and whether long parts are cut short (``quick``)."""

    seeds: int = 20
    quick: bool = False


FULL = Scale()
QUICK = Scale(seeds=5, quick=True)


@dataclass(frozen=True)
class Interval:
    """The mean of ``n`` independent numbers and the 95 % interval of Student's t around it."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def percent(self) -> str:
        """A share as per cent, without the sign."""
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def interval(values: Iterable[float]) -> Interval:
    """The mean over seeds and its 95 % interval; a difference or a ratio is taken per seed first.

    Examples
    --------
    >>> str(interval([1.0, 2.0, 3.0]))
    '2 [-0.484, 4.48]'
    """
    sample = np.asarray(list(values), dtype=np.float64)
    if sample.size < 2 or not np.isfinite(sample).all():
        raise InputError(f"an interval needs at least two finite numbers, found {sample.tolist()}")
    mean, error = float(sample.mean()), float(sample.std(ddof=1)) / np.sqrt(sample.size)
    reach = float(stdtrit(sample.size - 1, 0.5 + CONFIDENCE / 2) * error)
    return Interval(mean, mean - reach, mean + reach, sample.size)


def band(values: Array) -> Array:
    """Mean, low and high end of the interval (3, k) of every column of a table (seeds, k)."""
    found = [interval(column) for column in values.T]
    return np.array([(one.mean, one.low, one.high) for one in found]).T


@dataclass(frozen=True)
class Claim:
    """One claim of the paper: where it is, what it says (our words), what was found, and whether it holds.

    ``caveat`` says what the finding depends on, in plain words; ``numbers`` are those in ``found``, for machines. Where
    ``of_paper`` is false the paper does not say it, and we checked it beside.
    """

    place: str
    said: str
    found: str
    holds: bool
    caveat: str = ""
    numbers: Mapping[str, Interval | float] = field(default_factory=dict)
    of_paper: bool = True


@dataclass(frozen=True)
class Video:
    """A short film as the bytes of an mp4 file."""

    name: str
    caption: str
    content: bytes


@dataclass(frozen=True)
class Part:
    """One figure of the reproduction.

    ``key`` names its files ("figure-1"). ``draw`` makes the matplotlib figure for a theme. ``rows`` are the numbers
    that were drawn, one mapping per line of the csv file, all with the same keys.
    """

    key: str
    title: str
    caption: str
    alt: str
    draw: Callable[[Theme], Any]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    videos: tuple[Video, ...] = ()


def claims_held(parts: Sequence[Part]) -> tuple[int, int]:
    """How many of the paper's claims hold, and how many there are; those that are ours are not counted."""
    theirs = [claim.holds for part in parts for claim in part.claims if claim.of_paper]
    return sum(theirs), len(theirs)
