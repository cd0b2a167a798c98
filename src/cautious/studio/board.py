"""Models whose states are counts, such as "6 present" or "2 urgent, 3 routine", as a board with a cell for each state.

One count is a line of cells that is broken into rows, two counts are rows and columns. The names of the states say it,
so that a file is drawn like a world of this package.
"""

import math
import re
from dataclasses import dataclass

import numpy as np

from cautious.models.tabular import MDP
from cautious.worlds.grids import WALL

FLOOR = "."
COUNT = re.compile(r"(\d{1,4}) (\D*[^\d\s,])")
LARGEST_COUNT = 60
# a longer line is broken where rows of this many cells would be about as high as wide
CELLS_IN_LINE = 10
CELLS_PER_ROW = 5


@dataclass(frozen=True)
class Board:
    """``rows`` of the map, the ``things`` that are counted, and how many of each there are in every state."""

    rows: tuple[str, ...]
    things: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


def board_of(mdp: MDP) -> Board | None:
    """The board of a model; None where the names of its states are not all combinations of one or two counts."""
    read = [[COUNT.fullmatch(part) for part in name.split(", ")] for name in mdp.state_names or ()]
    found = [[match for match in parts if match is not None] for parts in read]
    if not found or len(found[0]) not in (1, 2) or [len(one) for one in found] != [len(one) for one in read]:
        return None
    things = tuple(match[2] for match in found[0])
    if any(tuple(match[2] for match in matches) != things for matches in found):
        return None
    counts = tuple(tuple(int(match[1]) for match in matches) for matches in found)
    shape = tuple(most + 1 for most in counts[-1])
    # walkers and brushes number the cells row by row
    if max(shape) > LARGEST_COUNT + 1 or counts != tuple(np.ndindex(shape)):
        return None
    return Board(_rows(shape), things, counts)


def _rows(shape: tuple[int, ...]) -> tuple[str, ...]:
    if len(shape) == 2:
        return (FLOOR * shape[1],) * shape[0]
    (size,) = shape
    lines = 1 if size <= CELLS_IN_LINE else math.ceil(math.sqrt(size / CELLS_PER_ROW))
    width = math.ceil(size / lines)
    whole = FLOOR * size + WALL * (-size % width)
    return tuple(whole[start : start + width] for start in range(0, len(whole), width))
