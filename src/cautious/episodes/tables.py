"""Episodes in a table, a csv, Parquet or Arrow file with one row per step and the columns

episode   any text or number: rows with the same one belong together, wherever they stand
step      optional: 0, 1, 2, ... (or 1, 2, 3, ...) within the episode; without it the order of the rows counts
state     a whole number, or one of the model's state names
action    optional, the same for actions; empty in the last row of an episode: the state after the last step
reward    optional, and not read
"""

import os
from collections.abc import Iterator

import numpy as np

from cautious.arrays import Indices
from cautious.episodes.records import Episode
from cautious.episodes.space import Space
from cautious.errors import FileError, InputError, shown
from cautious.tables import Columns, read_columns
from cautious.tables.cells import NO_LABEL
from cautious.tables.columns import open_source, rows_by_episode, step_numbers

NEEDED = ("episode", "state")
COLUMNS = ("episode", "step", "state", "action", "reward")
LABELS = {name: name for name in ("episode", "step", "state", "action")}
FileName = str | os.PathLike[str]


def read_table(path: FileName, space: Space) -> list[Episode]:
    """Every episode of the file, checked against the model."""
    table = read_columns(path, labels=LABELS, optional=("step", "action"), may_be_empty=("action",), names=_names(path))
    order, starts = rows_by_episode(table)
    _check_first_steps(table, order[starts])
    states = table.numbered("state", "state", lambda label: space.states.from_text(str(label)))[order]
    if "action" not in table.codes:
        return [Episode(part, None, None, True) for part in np.split(states, starts[1:])]
    actions = table.numbered("action", "action", lambda label: space.actions.from_text(str(label)))[order]
    return list(_with_actions(table, order, starts, states, actions, space))


def _names(path: FileName) -> dict[str, str]:
    """What each column is called in the file: blanks and capitals do not count; any other column is a mistake."""
    names: dict[str, str] = {}
    for column in open_source(path).columns:
        name = str(column).strip().lower()
        if name not in COLUMNS:
            raise FileError(
                f"{path}: column {shown(column)}; a table of episodes may have {', '.join(COLUMNS)}; remove it or "
                "rename it"
            )
        if name in names:
            raise FileError(f"{path}: column {name!r} is there twice")
        names[name] = str(column)
    for name in NEEDED:
        if name not in names:
            raise FileError(f"{path}: no column {name!r}; a table of episodes needs {' and '.join(NEEDED)}")
    names.pop("reward", None)
    return names


def _check_first_steps(table: Columns, rows: Indices) -> None:
    """Refuse episodes whose first row, of those given, has a step after 1."""
    if "step" not in table.codes:
        return
    late = step_numbers(table)[rows] > 1
    if late.any():
        row = int(rows[np.argmax(late)])
        begin = table.labels["step"][table.codes["step"][row]]
        raise table.refusal(row, f"episode {_episode(table, row)!r} begins with step {begin}; expected 0 or 1")


def _with_actions(
    table: Columns, order: Indices, starts: Indices, states: Indices, actions: Indices, space: Space
) -> Iterator[Episode]:
    ends = np.append(starts[1:], states.size)
    empty = actions == NO_LABEL
    no_final = empty.copy()
    no_final[ends - 1] = False
    if no_final.any():
        row = int(order[np.argmax(no_final)])
        raise table.refusal(row, "the action is empty; only the last row of an episode may leave it out")
    steps = np.flatnonzero(~empty)
    try:
        space.check_pairs(states[steps], actions[steps], lambda at: table.where(int(order[steps[at]])))
    except InputError as error:
        raise FileError(str(error)) from None
    for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
        last = end - int(empty[end - 1])
        if first == last:
            row = int(order[first])
            raise table.refusal(row, f"episode {_episode(table, row)!r} has no action, so no step")
        yield Episode(states[first:last], actions[first:last], int(states[last]) if last < end else None, True)


def _episode(table: Columns, row: int) -> str:
    return str(table.labels["episode"][table.codes["episode"][row]])
