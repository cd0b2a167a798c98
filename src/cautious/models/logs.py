"""A log: rows (state, action, reward, next state) of something that ran, in the order of time."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cautious.arrays import Array, Codes, Indices, Mask
from cautious.checks import first_bad
from cautious.errors import InputError
from cautious.tables import Columns, read_columns

ORDER = ("state", "action", "reward", "next_state")
FAMILIES = {"state": "state", "action": "action", "next_state": "state", "episode": "episode", "step": "step"}
ENDS = ("done", "terminated")


@dataclass(frozen=True)
class Log:
    """Columns (n,): codes of states, actions and next states, rewards, and whether the row ended its episode.

    ``first`` (k,): the first row of every episode, None without episodes. ``refusal(row, problem)`` is an error that
    says where a row stands in the table.
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


def read_log(table: Any, names: Mapping[str, Hashable] | None) -> Log:
    """Read a table; rows are put together by episode and step where it has such columns."""
    columns = read_columns(
        table,
        labels=FAMILIES,
        numbers=("reward",),
        flags=ENDS,
        optional=("episode", "step", *ENDS),
        names=names,
        order=ORDER,
    )
    if len(columns.flags) == 2:
        raise InputError('the table has the columns "done" and "terminated"; say which one counts: names={"done": ...}')
    order = _order(columns)
    log = _log(columns, order)
    if log.first is not None:
        _check_episodes(log)
    return log


def _log(columns: Columns, order: Indices | None) -> Log:
    def sorted_(column: Any) -> Any:
        return column if order is None else column[order]

    def refusal(row: int, problem: str) -> InputError:
        return columns.refusal(row if order is None else int(order[row]), problem)

    episodes = columns.codes.get("episode")
    ended = next(iter(columns.flags.values()), np.zeros(columns.n_rows, dtype=np.bool_))
    return Log(
        sorted_(columns.codes["state"]),
        sorted_(columns.codes["action"]),
        sorted_(columns.numbers["reward"]),
        sorted_(columns.codes["next_state"]),
        sorted_(ended),
        None if episodes is None else np.flatnonzero(np.diff(sorted_(episodes), prepend=-1)),
        columns.labels["state"],
        columns.labels["action"],
        refusal,
    )


def _order(columns: Columns) -> Indices | None:
    """Rows by the first appearance of their episode, then by step, then as they stand; None where nothing moves."""
    episodes, steps = columns.codes.get("episode"), columns.codes.get("step")
    if episodes is None:
        if steps is not None:
            raise InputError("the table has steps but no episodes; add the column episode, or leave step out")
        return None
    _, first, episode = np.unique(episodes, return_index=True, return_inverse=True)
    keys = [first[episode]]
    if steps is not None:
        numbers = columns.labels["step"]
        bad = next((n for n in numbers if isinstance(n, bool) or not isinstance(n, int) or n < 0), None)
        if bad is not None:
            row = int(np.argmax(steps == numbers.index(bad)))
            raise columns.refusal(row, f"the step is {bad!r:.80}; expected a whole number of at least 0")
        keys.insert(0, np.array(numbers, dtype=np.int64)[steps])
    order = np.lexsort(keys)
    if steps is not None:
        _check_steps(columns, keys[0][order], first[episode][order], order)
    return None if np.array_equal(order, np.arange(order.size)) else order


def _check_steps(columns: Columns, steps: Indices, episodes: Indices, order: Indices) -> None:
    """Steps count up by one: a missing row would shift the discount of all that follow."""
    inside = np.diff(episodes, prepend=-1) == 0
    jump = np.where(inside, np.diff(steps, prepend=0), 1)
    if np.any(jump != 1):
        (at,) = first_bad(jump != 1)
        raise columns.refusal(
            int(order[at]), f"step {steps[at]} follows step {steps[at - 1]} of this episode; steps count up by one"
        )


def _check_episodes(log: Log) -> None:
    """Within an episode each row goes on where the one before it led, and only the last one ends."""
    assert log.first is not None
    inside = np.ones(log.n_rows, dtype=np.bool_)
    inside[log.first] = False
    follows = np.flatnonzero(inside)
    over = log.ended[follows - 1]
    if over.any():
        at = int(follows[int(np.argmax(over))]) - 1
        raise log.refusal(at, "this row ends its episode, but it is not the last one of it")
    torn = log.next_states[follows - 1] != log.states[follows]
    if torn.any():
        at = int(follows[int(np.argmax(torn))])
        led, found = (log.state_labels[code] for code in (log.next_states[at - 1], log.states[at]))
        raise log.refusal(at, f"the episode goes on in state {found!r:.80}, but the row before it led to {led!r:.80}")
