"""What a scalar search leaves for the next caution: where its numbers are going, and how it covered all values.

Neighbouring cautions need boxes of about the same sizes at the same distances from the best number. Cutting them from
nothing takes about as many boxes that fail as boxes that hold; the last cover, moved along with the best number, has
hardly any that fail. How the multipliers that bounded a box differ from those at the best number changes little, too,
and says where to start. Nothing here is needed for a proof: every box is bounded anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Box

# how many times more boxes a cover from another caution may have than one from nothing
MAX_COVER_GROWTH = 1.3
# beyond this factor a caution is no neighbour; and how many times the last change of the caution a line is followed for
MAX_CAUTION_RATIO, MAX_EXTRAPOLATION = 4.0, 2.0
# bytes that the multipliers of a cover may take
MAX_COVER_BYTES = 64e6

Range = tuple[float, float]
Ends = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Incumbent:
    """The best policy so far, and a small range around each of its numbers."""

    objective: float
    policy: Array
    states: Array
    numbers: tuple[float, ...]
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class Covered:
    """A box of a cover: its ends, and by how much its multipliers (S,) differ from those at the best number."""

    ends: Ends
    apart: Array | None = None


@dataclass(frozen=True)
class _Solved:
    """One caution: its logarithm, and objective, numbers and ranges of the best policy."""

    log_caution: float
    objective: float
    numbers: tuple[float, ...]
    ranges: tuple[Range, ...]


@dataclass
class SearchHistory:
    """The last two cautions that were solved, and the boxes that covered the ``intervals`` in the last one."""

    intervals: list[Range] = field(default_factory=list)
    solved: list[_Solved] = field(default_factory=list)
    boxes: list[Covered] = field(default_factory=list)
    most: float = 0.0

    def of(self, intervals: list[Range]) -> "SearchHistory":
        """This, emptied if it is about other risks or another model."""
        if intervals != self.intervals:
            self.intervals, self.solved, self.boxes = intervals, [], []
        return self

    def add(self, caution: float, best: Incumbent, boxes: Sequence[Box], fresh: bool) -> None:
        """Remember one more, instead of an older answer for the same caution; was its cover made from nothing?"""
        others = [one for one in self.solved if one.log_caution != np.log(caution)]
        self.solved = [*others, _Solved(float(np.log(caution)), best.objective, best.numbers, best.ranges)][-2:]
        self.most = MAX_COVER_GROWTH * len(boxes) if fresh else self.most
        room = 0 if sum(box.witness.multipliers.nbytes for box in boxes) > MAX_COVER_BYTES else len(boxes)
        centre = next((box.witness.multipliers for box in boxes[:room] if _holds(box, best.numbers)), None)
        self.boxes = [
            Covered((box.lows, box.highs), None if centre is None else box.witness.multipliers - centre)
            for box in boxes
        ]

    @property
    def objective(self) -> float:
        """The last one; minus infinity before there is any."""
        return self.solved[-1].objective if self.solved else -np.inf

    def _is_near(self, caution: float) -> bool:
        return bool(self.solved) and abs(np.log(caution) - self.solved[-1].log_caution) <= np.log(MAX_CAUTION_RATIO)

    def ahead(self, caution: float) -> tuple[float, ...] | None:
        """Where the line through the last two numbers leads; None when there are no two, or they are far away."""
        if len(self.solved) < 2 or not self._is_near(caution):
            return None
        before, now = self.solved
        share = (float(np.log(caution)) - now.log_caution) / (now.log_caution - before.log_caution)
        share = min(share, MAX_EXTRAPOLATION)
        return tuple(
            min(max(new + share * (new - old), low), high)
            for old, new, (low, high) in zip(before.numbers, now.numbers, self.intervals, strict=True)
        )

    def moved(self, caution: float, best: Incumbent) -> list[Covered]:
        """The last cover, moved with the best policy's ranges, which become its new ones; empty boxes are left out.

        None at all where a new cover is better.
        """
        # boxes are cut and never joined, so that after a while there are too many
        if not self.boxes or len(self.boxes) > self.most or not self._is_near(caution):
            return []
        around = list(zip(self.intervals, self.solved[-1].ranges, best.ranges, strict=True))
        points = [start == end for start, end in self.intervals]
        # tables count in proportion to the caution
        growth, kept = float(np.exp(np.log(caution) - self.solved[-1].log_caution)), []
        for box in self.boxes:
            lows, highs = (tuple(map(_moved, side, around)) for side in box.ends)
            if all(low < high or point for low, high, point in zip(lows, highs, points, strict=True)):
                kept.append(Covered((lows, highs), None if box.apart is None else growth * box.apart))
        return kept


def _holds(box: Box, numbers: tuple[float, ...]) -> bool:
    return all(low <= t <= high for low, t, high in zip(box.lows, numbers, box.highs, strict=True))


def _moved(x: float, around: tuple[Range, Range, Range]) -> float:
    """An edge after a range inside an interval has changed: edges keep their order, and the interval its ends."""
    (start, end), (low, high), (new_low, new_high) = around
    if x <= start or x >= end:
        return x
    if low < x < high:
        x = new_low + (x - low) * (new_high - new_low) / (high - low)
    else:
        x += new_low - low if x <= low else new_high - high
    return min(max(x, start), end)
