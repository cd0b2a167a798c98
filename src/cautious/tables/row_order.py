"""The order of rows that belong to episodes: by the columns ``episode`` and ``step``."""

import re
from collections.abc import Hashable

import numpy as np

from cautious.arrays import Indices
from cautious.checks import first_bad
from cautious.tables.columns import Columns

STEP = re.compile(r"\+?[0-9]{1,18}")


def rows_by_episode(table: Columns) -> tuple[Indices, Indices]:
    """Rows (n,) by the first appearance of their episode, then by step, then as they stand; and where episodes begin.

    Without a column of steps the order of the rows counts. Steps count up by one within an episode: a missing row would
    shift the discount of all that follow.
    """
    _, first, which = np.unique(table.codes["episode"], return_index=True, return_inverse=True)
    episode = first[which]
    if "step" not in table.codes:
        order = np.argsort(episode, kind="stable")
        return order, np.flatnonzero(np.diff(episode[order], prepend=-1))
    steps = step_numbers(table)
    order = np.lexsort((steps, episode))
    begins = np.diff(episode[order], prepend=-1) != 0
    jump = np.where(begins, 1, np.diff(steps[order], prepend=0))
    if np.any(jump != 1):
        (at,) = first_bad(jump != 1)
        before, here = steps[order[at - 1]], steps[order[at]]
        raise table.refusal(int(order[at]), f"step {here} follows step {before} of this episode; steps count up by one")
    return order, np.flatnonzero(begins)


def step_numbers(table: Columns) -> Indices:
    """The step of each row (n,)."""
    codes, labels = table.codes["step"], table.labels["step"]
    bad = np.array([not _is_step(label) for label in labels])[codes]
    if bad.any():
        (row,) = first_bad(bad)
        raise table.refusal(row, f"the step is {labels[codes[row]]!r:.80}; expected a whole number of at least 0")
    return np.array([int(str(label)) for label in labels], dtype=np.int64)[codes]


def _is_step(label: Hashable) -> bool:
    is_whole = isinstance(label, int | str) and not isinstance(label, bool)
    return is_whole and STEP.fullmatch(str(label)) is not None
