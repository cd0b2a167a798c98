"""What every part of the reproduction hands over: a figure, its numbers, and the paper's claims with the evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cautious.report.canvas import Theme
from cautious.sweeps.statistics import Interval

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
class PaperClaim:
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
    claims: tuple[PaperClaim, ...]
    videos: tuple[Video, ...] = ()


def claims_held(parts: Sequence[Part]) -> tuple[int, int]:
    """How many of the paper's claims hold, and how many there are; those that are ours are not counted."""
    theirs = [claim.holds for part in parts for claim in part.claims if claim.of_paper]
    return sum(theirs), len(theirs)
