"""Episodes in a csv file: a header, then one row per step, with the columns

    episode   any text or number: rows with the same one belong together, wherever they stand
    step      optional: 0, 1, 2, ... (or 1, 2, 3, ...) within the episode; without it the order of the rows counts
    state     a whole number, or one of the model's state names
    action    optional, the same for actions; empty in the last row of an episode: the state after the last step
    reward    optional, and not read

Rows are read one by one; numbers, not texts, are kept.
"""

import csv
import os
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.arrays import Indices
from cautious.checks import first_bad
from cautious.episodes.records import Episode
from cautious.episodes.space import WHOLE, Space
from cautious.errors import FileError, InputError

NEEDED = ("episode", "state")
COLUMNS = ("episode", "step", "state", "action", "reward")
NO_ACTION = -1
FileName = str | os.PathLike[str]


class Numbers(dict[str, int]):
    """Texts to numbers, each text read once."""

    def __init__(self, read: Callable[[str], int]) -> None:
        super().__init__()
        self.read = read

    def __missing__(self, text: str) -> int:
        number = self[text] = self.read(text)
        return number


@dataclass(frozen=True)
class Rows:
    """Columns (n,) in the order of episodes and steps; ``line`` says where each row stands in the file."""

    path: FileName
    names: list[str]
    line: Indices
    columns: dict[str, Indices]

    def where(self, row: int) -> str:
        """File and line of a row."""
        return f"{self.path}, line {self.line[row]}"


def read_table(path: FileName, space: Space) -> list[Episode]:
    """Every episode of the file, checked against the model."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = _sorted(_read(path, csv.reader(file, strict=True), space))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not a csv file in UTF-8: {error}") from None
    starts = np.flatnonzero(np.diff(rows.columns["episode"], prepend=-1))
    _check_steps(rows, starts)
    return list(_episodes(rows, starts, space))


def _read(path: FileName, reader: Any, space: Space) -> Rows:
    names: dict[str, int] = {}
    read = {
        "episode": lambda text: _episode_number(text, names),
        "step": _step_number,
        "state": space.states.from_text,
        "action": lambda text: space.actions.from_text(text) if text.strip() else NO_ACTION,
    }
    line = array("q")
    try:
        header = _header(next(reader, []))
        wanted = {name: (array("q"), Numbers(read[name]), place) for name, place in header.items() if name in read}
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise InputError(f"{len(row)} cells; the header has {len(header)}")
            line.append(reader.line_num)
            for column, numbers, place in wanted.values():
                column.append(numbers[row[place]])
    except (InputError, csv.Error) as error:
        raise FileError(f"{path}, line {max(1, reader.line_num)}: {error}") from None
    if not line:
        raise FileError(f"{path}: no rows below the header")
    columns = {name: np.array(column) for name, (column, _, _) in wanted.items()}
    return Rows(path, list(names), np.array(line), columns)


def _header(cells: list[str]) -> dict[str, int]:
    """Place of every column."""
    found = [cell.strip().lower() for cell in cells]
    for place, name in enumerate(found):
        if name not in COLUMNS:
            hint = "; cells are separated by commas here" if ";" in name or "\t" in name else "; remove it or rename it"
            raise InputError(f"column {cells[place]!r:.80}; the header may hold {', '.join(COLUMNS)}{hint}")
        if name in found[:place]:
            raise InputError(f"column {name!r} is there twice")
    for name in NEEDED:
        if name not in found:
            raise InputError(f"the header has no column {name!r}; it needs {' and '.join(NEEDED)}")
    return {name: place for place, name in enumerate(found)}


def _episode_number(text: str, names: dict[str, int]) -> int:
    if not text.strip():
        raise InputError("the episode is empty; expected a number or a name")
    return names.setdefault(text.strip(), len(names))


def _step_number(text: str) -> int:
    digits = text.strip()
    if not WHOLE.fullmatch(digits) or int(digits) < 0:
        raise InputError(f"the step is {text!r:.80}; expected a whole number of at least 0")
    return int(digits)


def _sorted(rows: Rows) -> Rows:
    """By episode, then by step; rows without steps keep their order."""
    keys = [rows.columns[name] for name in ("step", "episode") if name in rows.columns]
    order = np.lexsort(keys)
    return Rows(rows.path, rows.names, rows.line[order], {name: x[order] for name, x in rows.columns.items()})


def _check_steps(rows: Rows, starts: Indices) -> None:
    """Steps count up by one from 0 or 1: a missing row would shift the discount of all that follow."""
    if "step" not in rows.columns:
        return
    step = rows.columns["step"]
    jump = np.diff(step, prepend=0)
    jump[starts] = 1
    first = np.zeros(step.size, dtype=np.bool_)
    first[starts] = step[starts] > 1
    wrong = (jump != 1) | first
    if not wrong.any():
        return
    (at,) = first_bad(wrong)
    name = rows.names[rows.columns["episode"][at]]
    if first[at]:
        what = f"begins with step {step[at]}; expected 0 or 1"
    elif jump[at] == 0:
        what = f"has step {step[at]} twice"
    else:
        what = f"goes from step {step[at - 1]} to step {step[at]}; steps count up by one"
    raise FileError(f"{rows.where(at)}: episode {name!r} {what}")


def _episodes(rows: Rows, starts: Indices, space: Space) -> Iterator[Episode]:
    states, actions = rows.columns["state"], rows.columns.get("action")
    ends = np.append(starts[1:], states.size)
    if actions is None:
        for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
            yield Episode(states[first:end], None, None, True)
        return
    _check_actions(rows, actions, ends, space)
    final = (actions[ends - 1] == NO_ACTION).tolist()
    for first, end, left_out in zip(starts.tolist(), ends.tolist(), final, strict=True):
        if end - first == left_out:
            name = rows.names[rows.columns["episode"][first]]
            raise FileError(f"{rows.where(first)}: episode {name!r} has no action, so no step")
        last = end - 1 if left_out else end
        yield Episode(states[first:last], actions[first:last], int(states[last]) if left_out else None, True)


def _check_actions(rows: Rows, actions: Indices, ends: Indices, space: Space) -> None:
    taken = actions != NO_ACTION
    missing = ~taken
    missing[ends - 1] = False
    if missing.any():
        (at,) = first_bad(missing)
        raise FileError(f"{rows.where(at)}: the action is empty; only the last row of an episode may leave it out")
    steps = np.flatnonzero(taken)
    try:
        space.check_pairs(rows.columns["state"][steps], actions[steps], lambda at: rows.where(int(steps[at])))
    except InputError as error:
        raise FileError(str(error)) from None
