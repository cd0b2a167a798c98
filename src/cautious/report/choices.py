"""What a policy does, state by state, and where that changes with the caution.

Neighbouring cautions often have one and the same best policy: such a ``Run`` is one column of a table, one drawing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cautious.arrays import Array, Mask
from cautious.models.tabular import MDP
from cautious.report.accuracy import shares_of_time
from cautious.report.text_tables import NOTABLE, Table, busiest_states, is_idle
from cautious.report.words import action_name, number, percent, state_name
from cautious.solution import Solution

# policies are the same where so little of the time is spent otherwise: tables show no less either
SAME = 1e-4
# more states, or more columns, are no table that anyone reads
STATES, COLUMNS = 16, 9
NOT_THERE = "—"


@dataclass(frozen=True)
class Run:
    """Solutions of neighbouring cautions that do the same."""

    solutions: tuple[Solution, ...]

    @property
    def first(self) -> Solution:
        """Of the smallest caution."""
        return self.solutions[0]

    @property
    def name(self) -> str:
        """Its cautions, from the first to the last."""
        ends = [number(self.solutions[i].caution) for i in (0, -1)]
        return ends[0] if len(self.solutions) == 1 else f"{ends[0]} to {ends[1]}"


def runs(solutions: Sequence[Solution]) -> list[Run]:
    """The solutions, neighbours that do the same put together."""
    found: list[list[Solution]] = []
    for one in solutions:
        if found and np.abs(one.occupancy - found[-1][0].occupancy).sum() / 2 <= SAME:
            found[-1].append(one)
        else:
            found.append([one])
    return [Run(tuple(members)) for members in found]


def spread_out(found: Sequence[Run], count: int) -> list[Run]:
    """At most ``count`` of them, evenly, both ends included."""
    places = np.unique(np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int))
    return [found[place] for place in places]


@dataclass(frozen=True)
class Choices:
    """What is done as a table, its cells (row, column) that are news, and in words what the table does not have."""

    table: Table
    changed: frozenset[tuple[int, int]]
    words: str
    shows_gaps: bool


def choices(found: Sequence[Run]) -> Choices:
    """What is done in the states where the caution changes it, and in those that are visited most."""
    shown = spread_out(found, COLUMNS)
    mdp = shown[0].first.mdp
    shares = np.array([shares_of_time(run.first) for run in found])
    most = shares.max(axis=0)
    differs = changing_states([run.first for run in found], shares)
    states = busiest_states(np.where(differs, most, 0.0), STATES)
    states = in_order(mdp, [*states, *busiest_states(np.where(differs, 0.0, most), STATES - len(states))])
    columns = [(run, share) for run, share in zip(found, shares, strict=True) if run in shown]
    rows, changed = [], set()
    for row, state in enumerate(states):
        cells = [choice(mdp, run.first.policy, state) if share[state] > 0 else NOT_THERE for run, share in columns]
        rows.append((state_name(mdp, state), *cells))
        changed |= {(row, column + 1) for column in _news(cells)}
    table = Table("", ("state", *(f"caution {run.name}" for run in shown)), tuple(rows))
    words = _words(most, differs, states, len(found), len(shown))
    return Choices(table, frozenset(changed), words, any(NOT_THERE in row[1:] for row in rows))


def in_order(mdp: MDP, states: Sequence[int]) -> list[int]:
    """The states in the order of the model; where that is the order of the letters, 2 comes before 10 all the same."""
    numbered = sorted(states)
    names = [state_name(mdp, state) for state in numbered]
    if names != sorted(names):
        return numbered
    return sorted(numbered, key=lambda state: _counting(state_name(mdp, state)))


def _counting(name: str) -> list[tuple[int, str]]:
    """What to sort a name by so that its numbers count: of two, the longer one is the larger."""
    parts = re.split(r"0*([0-9]+)", name)
    return [(len(part) if place % 2 else 0, part) for place, part in enumerate(parts)]


def changing_states(solutions: Sequence[Solution], shares: Array) -> Mask:
    """States (S,) where some policy does something else than the one before it that came there.

    ``shares`` of time, one row (S,) per solution.
    """
    before, seen = solutions[0].policy.copy(), shares[0] > 0
    differs = np.zeros(seen.size, dtype=np.bool_)
    for one, share in zip(solutions[1:], shares[1:], strict=True):
        here = share > 0
        differs |= here & seen & (np.abs(one.policy - before).sum(axis=1) / 2 > NOTABLE)
        before[here] = one.policy[here]
        seen |= here
    return differs


def choice(mdp: MDP, policy: Array, state: int) -> str:
    """What a policy (S, A) does in a state, in few words: actions that are rare or third are left out."""
    usable = policy[state][mdp.allowed[state]]
    if is_idle(mdp, policy, state) or (usable.size > 1 and np.ptp(usable) < 1e-9):
        return "any"
    order = [int(action) for action in np.argsort(-policy[state], kind="stable") if policy[state, action] > NOTABLE]
    if len(order) < 2:
        return action_name(mdp, int(np.argmax(policy[state])))
    parts = [f"{action_name(mdp, action)} {100 * policy[state, action]:.0f} %" for action in order[:2]]
    return ", ".join(parts) + (", …" if len(order) > 2 else "")


def _news(cells: Sequence[str]) -> list[int]:
    """Places of cells that differ from the last one before them that says anything."""
    known = [place for place, cell in enumerate(cells) if cell != NOT_THERE]
    return [place for last, place in pairwise(known) if cells[place] != cells[last]]


def _words(most: Array, differs: Mask, states: list[int], policies: int, columns: int) -> str:
    visited, changing = int(np.count_nonzero(most > 0)), int(np.count_nonzero(differs))
    text = f"What is done changes with the caution in {changing:,} of {visited:,} visited states."
    if policies == 1:
        text = f"What is done in the {visited:,} visited states:" if visited > 1 else "What is done:"
    left = visited - len(states)
    if left:
        hidden = changing - int(np.count_nonzero(differs[states]))
        kept = "these and the most visited of the others" if changing else f"the {len(states)} most visited"
        text += f" The table has {f'the {len(states)} most visited of these' if hidden else kept}."
        least = percent(float(np.delete(most, states).max())).removeprefix("< ")
        text += f" None of the {left:,} states that it leaves out takes more than {least} of the time."
    if columns < policies:
        text += f" {columns} of the {policies} different policies are shown."
    return text
