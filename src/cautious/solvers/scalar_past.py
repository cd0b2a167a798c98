"""What a scalar search leaves for the next caution: where its numbers are going, and how it covered all values.

Neighbouring cautions need boxes of about the same sizes at the same distances from the best number. Cutting them from
nothing takes about as many boxes that fail as boxes that hold; the last cover, moved along with the best number, has
hardly any that fail. Nothing here is needed for a proof: every box is bounded anew.
"""

from dataclasses import dataclass, field

import numpy as np

from cautious.arrays import Array

# how many times more boxes a cover from another caution may have than one from nothing
GROWTH = 1.3
# beyond this factor a caution is no neighbour; and steps of the last length that a line is followed for
NEIGHBOUR = 4.0
FARTHEST = 2.0

Range = tuple[float, float]
Ends = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Favourite:
    """The best policy so far, and a small range around each of its numbers."""

    objective: float
    policy: Array
    states: Array
    numbers: tuple[float, ...]
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class _Solved:
    """One caution: its logarithm, and objective, numbers and ranges of the best policy."""

    log_caution: float
    objective: float
    numbers: tuple[float, ...]
    ranges: tuple[Range, ...]


@dataclass
class Past:
    """The last two cautions that were solved, and the boxes that covered the ``intervals`` in the last one."""

    intervals: list[Range] = field(default_factory=list)
    solved: list[_Solved] = field(default_factory=list)
    boxes: list[Ends] = field(default_factory=list)
    most: float = 0.0

    def of(self, intervals: list[Range]) -> "Past":
        """This, emptied if it is about other risks or another model."""
        if intervals != self.intervals:
            self.intervals, self.solved, self.boxes = intervals, [], []
        return self

    def add(self, caution: float, best: Favourite, boxes: list[Ends], fresh: bool) -> None:
        """Remember one more, instead of an older answer for the same caution; was its cover made from nothing?"""
        others = [one for one in self.solved if one.log_caution != np.log(caution)]
        self.solved = [*others, _Solved(float(np.log(caution)), best.objective, best.numbers, best.ranges)][-2:]
        self.boxes, self.most = boxes, GROWTH * len(boxes) if fresh else self.most

    @property
    def objective(self) -> float:
        """The last one; minus infinity before there is any."""
        return self.solved[-1].objective if self.solved else -np.inf

    def _is_near(self, caution: float) -> bool:
        return bool(self.solved) and abs(np.log(caution) - self.solved[-1].log_caution) <= np.log(NEIGHBOUR)

    def ahead(self, caution: float) -> tuple[float, ...] | None:
        """Where the line through the last two numbers leads; None when there are no two, or they are far away."""
        if len(self.solved) < 2 or not self._is_near(caution):
            return None
        before, now = self.solved
        share = (float(np.log(caution)) - now.log_caution) / (now.log_caution - before.log_caution)
        share = min(share, FARTHEST)
        return tuple(
            min(max(new + share * (new - old), low), high)
            for old, new, (low, high) in zip(before.numbers, now.numbers, self.intervals, strict=True)
        )

    def moved(self, caution: float, best: Favourite) -> list[Ends]:
        """The last cover, moved with the best policy's ranges, which become its new ones; empty boxes are left out.

        None at all where a new cover is better.
        """
        # boxes are cut and never joined, so that after a while there are too many
        if not self.boxes or len(self.boxes) > self.most or not self._is_near(caution):
            return []
        around = list(zip(self.intervals, self.solved[-1].ranges, best.ranges, strict=True))
        ends = [tuple(tuple(map(_moved, side, around)) for side in box) for box in self.boxes]
        points = [start == end for start, end in self.intervals]
        return [
            (lows, highs)
            for lows, highs in ends
            if all(low < high or point for low, high, point in zip(lows, highs, points, strict=True))
        ]


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
