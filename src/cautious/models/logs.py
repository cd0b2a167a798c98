"""A log: rows (state, action, reward, next state) of something that ran, in the order of time, and its labels."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cautious.arrays import Array, Codes, Indices, Mask
from cautious.errors import InputError, shown
from cautious.models.scene import free_name
from cautious.tables import read_columns
from cautious.tables.columns import Gaps, Missing, rows_by_episode

ORDER = ("state", "action", "reward", "next_state")
FAMILIES = {"state": "state", "action": "action", "next_state": "state", "episode": "episode", "step": "step"}
ENDS = ("done", "terminated")


@dataclass(frozen=True)
class Log:
    """Columns (n,): codes of states, actions and next states, rewards, and whether the row ended its episode.

    ``first`` (k,): the first row of every episode, None without episodes. ``refusal(row, problem)`` is an error that
    says where a row stands in the table. ``missing``: how many cells of a column were missing in rows left out.
    """

    states: Codes
    actions: Codes
    rewards: Array
    next_states: Codes
    ended: Mask
    first: Indices | None
    state_labels: tuple[Hashable, ...]
    action_labels: tuple[Hashable, ...]
    refusal: Callable[[int, str], InputError]
    missing: Mapping[str, int]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.states.size)

    @property
    def pairs(self) -> Indices:
        """The pair s*A + a of each row."""
        return self.states * np.int64(len(self.action_labels)) + self.actions

    def part(self, rows: Indices) -> "Log":
        """Some of the rows, without their episodes."""
        return replace(
            self,
            states=self.states[rows],
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            next_states=self.next_states[rows],
            ended=self.ended[rows],
            first=None,
        )


def read_log(
    table: Any, names: Mapping[str, Hashable] | None, missing: Missing = "refuse", gaps: Gaps = "refuse"
) -> Log:
    """Read a table; rows are put together by episode and step where it has such columns."""
    columns = read_columns(
        table,
        labels=FAMILIES,
        numbers=("reward",),
        flags=ENDS,
        optional=("episode", "step", *ENDS),
        names=names,
        order=ORDER,
        missing=missing,
    )
    if len(columns.flags) == 2:
        raise InputError('the table has the columns "done" and "terminated"; say which one counts: names={"done": ...}')
    order, first = None, None
    if "episode" in columns.codes:
        order, first = rows_by_episode(columns, gaps)
        order = None if np.array_equal(order, np.arange(order.size)) else order
    elif "step" in columns.codes:
        raise InputError("the table has steps but no episodes; add the column episode, or leave step out")

    def in_order(column: Any) -> Any:
        return column if order is None else column[order]

    def refusal(row: int, problem: str) -> InputError:
        return columns.refusal(row if order is None else int(order[row]), problem)

    ended = next(iter(columns.flags.values()), np.zeros(columns.n_rows, dtype=np.bool_))
    log = Log(
        in_order(columns.codes["state"]),
        in_order(columns.codes["action"]),
        in_order(columns.numbers["reward"]),
        in_order(columns.codes["next_state"]),
        in_order(ended),
        first,
        columns.labels["state"],
        columns.labels["action"],
        refusal,
        columns.missing,
    )
    if log.first is not None and gaps == "split":
        log = replace(log, first=_with_gaps(log, log.first))
    if log.first is not None:
        _check_episodes(log, log.first)
    return log


def _with_gaps(log: Log, first: Indices) -> Indices:
    """The first rows of episodes, and the rows that do not go on where the one before them led."""
    follows = np.flatnonzero(log.next_states[:-1] != log.states[1:]) + 1
    return np.union1d(first, follows)


def _check_episodes(log: Log, first: Indices) -> None:
    """Within an episode each row goes on where the one before it led, and only the last one ends."""
    inside = np.ones(log.n_rows, dtype=np.bool_)
    inside[first] = False
    follows = np.flatnonzero(inside)
    over = log.ended[follows - 1]
    if over.any():
        at = int(follows[int(np.argmax(over))]) - 1
        raise log.refusal(at, "this row ends its episode, but it is not the last one of it")
    broken = log.next_states[follows - 1] != log.states[follows]
    if broken.any():
        at = int(follows[int(np.argmax(broken))])
        led, found = (log.state_labels[code] for code in (log.next_states[at - 1], log.states[at]))
        raise log.refusal(at, f"the episode goes on in state {shown(found)}, but the row before it led to {shown(led)}")


def names_of(labels: tuple[Hashable, ...], extra: tuple[str, ...]) -> tuple[str, ...]:
    """Names for labels and added states: their texts; where two look the same, 1 and "1", as Python writes them."""
    try:
        names = tuple(str(label) for label in labels)
        if len(set(names)) < len(names):
            names = tuple(repr(label) for label in labels)
    except ValueError:
        # whole numbers of thousands of digits have no text
        raise InputError(f"the labels {shown(labels)} cannot be written as texts; use shorter ones") from None
    for name in extra:
        names = (*names, free_name(name, names))
    return names


def as_written(labels: tuple[Hashable, ...], label: Hashable) -> Hashable:
    """The label; if a text is not one, the only label that is written like it."""
    alike = [known for known in labels if isinstance(label, str) and str(known) == label]
    return alike[0] if label not in labels and len(alike) == 1 else label


def number_of(kind: str, labels: tuple[Hashable, ...], label: Hashable) -> int:
    """The place of a label; ``kind`` says what of, for the message."""
    try:
        return labels.index(label)
    except ValueError:
        some = ", ".join(f"{shown(known, 40)}" for known in labels[:5])
        raise InputError(f"{kind} {shown(label)} is not in the log; it has {len(labels)}, such as {some}") from None
