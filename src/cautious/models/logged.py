"""``ca.from_transitions``: the model that a log describes, with its counts.

Everything happens as often as it was seen: P(s' | s, a) = n(s, a, s') / n(s, a), rewards are averages. What was never
seen is not known, and how to treat it is a choice (``untried``).
"""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_distribution, as_flag, as_number, check_choice
from cautious.errors import CautiousWarning, IncompatibleError, InputError, shown
from cautious.models.gym_checks import AT_END, AtEnd
from cautious.models.log_counts import Layout, counted_arrays, layout_of
from cautious.models.logs import Log, as_written, names_of, number_of, read_log
from cautious.models.scene import Scene
from cautious.models.simulator_checks import as_reward_range
from cautious.models.tabular import MDP
from cautious.tables.columns import Gaps, Missing, counted

Untried = Literal["forbid", "pessimistic", "optimistic"]


@dataclass(frozen=True)
class LogRows:
    """What only the rows of a log tell; ``outcome_counts`` sparse (S*A, S)."""

    log: Log
    layout: Layout
    outcome_counts: sp.csr_array
    reward_range_given: bool
    independent_rows: bool


class LoggedMDP(MDP):
    """The model of a log; made by ``ca.from_transitions``.

    Beside everything an ``MDP`` has: ``counts`` (S, A), how often each pair was tried; ``logging_policy`` (S, A), what
    the log did; ``outcome_counts``, sparse (S*A, S); ``log``, its rows. A saved model keeps the first two: it can be
    solved, and learning from it, or comparing its episodes, needs the log again.

    Examples
    --------
    >>> import cautious as ca
    >>> rows = [("well", "wait", 1.0, "well"), ("well", "wait", 1.0, "ill"), ("ill", "treat", -2.0, "well")]
    >>> logged = ca.from_transitions(rows, discount=0.9, untried="forbid")
    >>> logged
    LoggedMDP(2 states, 2 actions, 3 transitions, discount 0.9, 3 rows)
    >>> logged.counts[logged.state_number("well"), logged.action_number("wait")]
    np.int64(2)
    >>> logged.save("ward.npz")
    >>> ca.read_model("ward.npz").counts.tolist()
    [[1, 0], [0, 2]]
    """

    def __init__(
        self,
        counts: Indices,
        reward_range: tuple[float, float],
        evidence: LogRows | None = None,
        *,
        transitions: Any,
        rewards: Any,
        discount: float,
        start: Array,
        allowed: Any,
        reward_square: Any,
        state_names: Sequence[str] | None,
        action_names: Sequence[str] | None,
        scene: Scene | None = None,
    ) -> None:
        super().__init__(
            transitions,
            rewards,
            discount,
            start,
            allowed=allowed,
            reward_square=reward_square,
            state_names=state_names,
            action_names=action_names,
            scene=scene,
        )
        self.counts, self._reward_range, self._evidence = counts, reward_range, evidence
        share = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, self.allowed)
        self.logging_policy: Array = share / share.sum(axis=1, keepdims=True)

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward: as promised to ``ca.from_transitions``, else as seen."""
        return self._reward_range

    @property
    def rewards_seen(self) -> tuple[float, float] | None:
        """Smallest and largest reward of the rows; None where the model is from a file."""
        rows = self._evidence
        return None if rows is None else (float(rows.log.rewards.min()), float(rows.log.rewards.max()))

    @property
    def evidence(self) -> LogRows:
        """The rows and what they tell; refused where the model is from a file."""
        if self._evidence is None:
            raise IncompatibleError(
                "this needs the rows of the log, and a saved model keeps only how often each pair was tried: read the "
                "log again, ca.from_transitions(...)"
            )
        return self._evidence

    @property
    def log(self) -> Log:
        """The rows."""
        return self.evidence.log

    @property
    def layout(self) -> Layout:
        """Which states come from the log, and which were added."""
        return self.evidence.layout

    @property
    def outcome_counts(self) -> sp.csr_array:
        """How often each pair led to each state, sparse (S*A, S); one more column counts new starts."""
        return self.evidence.outcome_counts

    def state_number(self, label: Hashable) -> int:
        """The index of the state with this label in the log."""
        return number_of("state", self.log.state_labels, label)

    def action_number(self, label: Hashable) -> int:
        """The index of the action with this label in the log."""
        return number_of("action", self.log.action_labels, label)

    def __repr__(self) -> str:
        return f"Logged{super().__repr__()[:-1]}, {self.counts.sum()} rows)"


def from_transitions(
    table: Any,
    discount: float,
    *,
    untried: Untried | None = None,
    at_end: AtEnd | None = None,
    start: Any = None,
    reward_range: tuple[float, float] | None = None,
    names: Mapping[str, Hashable] | None = None,
    independent_rows: bool = False,
    missing: Missing = "refuse",
    gaps: Gaps = "refuse",
) -> LoggedMDP:
    """The model that logged transitions describe.

    Parameters
    ----------
    table
        Columns ``state``, ``action``, ``reward``, ``next_state``; optional ``episode``, ``step``, and ``done`` (or
        ``terminated``). Labels are anything hashable. A DataFrame (pandas, polars), a mapping of arrays, a pyarrow
        Table, a structured array, a list of mappings, the path of a csv, Parquet or Arrow file; in the order of the
        four names also a list of tuples, a tuple of arrays (n,) or an array (n, 4). Other columns are not read. Rows
        stand in the order of time, at least within an episode.
    discount
        In [0, 1]. With discount 1 a ``ca.Problem`` needs a horizon.
    untried
        How to treat pairs that the log never tried; needed when there are any. "forbid": they do not exist; in a
        state that was reached and never left, nothing can be forbidden: it pays the lowest reward for ever, with a
        warning. "pessimistic": they lead to a state ``untried`` that pays the lowest reward for ever; "optimistic":
        the highest.
    at_end
        What follows a row whose ``done`` is true; needed when there are any. "absorb": nothing, for ever, at reward 0:
        in the next state if every row that leads there ends, else in an added state ``end``. "restart": a new first
        state.
    start
        The label of a state (or how it is written, "1" for 1), a mapping from labels to probabilities, (S,)
        probabilities in the order of the labels, or "uniform" over the states of the log (with "restart" without those
        that it only ends in).
        By default as often as in the first rows of episodes; uniform without episodes.
    reward_range
        (low, high): the rewards that can be paid at all, which ``ca.learn`` needs to know. By default those of the log.
    names
        What the columns are called, where that differs: ``{"state": "ward", "reward": "gain"}``.
    independent_rows
        The rows are no history: each is an independent draw for a pair that was fixed beforehand (a designed
        experiment). ``ca.learn`` then names that as its assumption; its numbers are the same.
    missing
        "drop" leaves out rows in which a cell is missing (empty, NaN, None; in a csv file also NA, N/A and null), with
        a warning that counts them per column; ``log.missing`` keeps the counts. "refuse" raises an error.
    gaps
        "split" begins an episode anew where steps are left out, or where a row does not go on in the state to which the
        one before it led. The default start then includes these rows. "refuse" raises an error.

    Examples
    --------
    >>> import cautious as ca
    >>> rows = [("well", "wait", 1.0, "well"), ("well", "wait", 1.0, "ill"), ("ill", "treat", -2.0, "well")]
    >>> logged = ca.from_transitions(rows, discount=0.9, untried="forbid")
    >>> logged.state_names, logged.counts.tolist()
    (('ill', 'well'), [[1, 0], [0, 2]])
    >>> ca.solve(ca.Problem(logged)).policy.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    independent_rows = as_flag("independent_rows", independent_rows)
    as_number("discount", discount, 0, 1)
    if untried is not None:
        check_choice("untried", untried, ("forbid", "pessimistic", "optimistic"))
    if at_end is not None:
        check_choice("at_end", at_end, AT_END)
    check_choice("missing", missing, ("refuse", "drop"))
    check_choice("gaps", gaps, ("refuse", "split"))
    log = read_log(table, names, missing, gaps)
    if log.missing:
        warnings.warn(
            f"rows with missing cells are left out, {log.n_rows:,} are kept; missing: {counted(log.missing)}",
            CautiousWarning,
            stacklevel=2,
        )
    if log.ended.any() and at_end is None:
        raise InputError('the log has rows that end an episode: say what follows, at_end="absorb" or at_end="restart"')
    seen = float(log.rewards.min()), float(log.rewards.max())
    promised = seen if reward_range is None else _promised(log, reward_range)
    layout, stuck, unknown = layout_of(log, untried, at_end == "restart", promised)
    _check_untried(log, untried, stuck, unknown, layout.reward_range[0])
    layout = replace(layout, start=_start(log, layout, start))
    found = counted_arrays(log, layout)
    return LoggedMDP(
        found.counts,
        layout.reward_range,
        LogRows(log, layout, found.outcome_counts, reward_range is not None, independent_rows),
        transitions=found.transitions,
        rewards=found.rewards,
        discount=discount,
        start=layout.start,
        allowed=found.allowed,
        reward_square=found.reward_square,
        state_names=names_of(log.state_labels, layout.extra_names),
        action_names=names_of(log.action_labels, ()),
    )


def _promised(log: Log, reward_range: Any) -> tuple[float, float]:
    low, high = as_reward_range(reward_range)
    outside = (log.rewards < low) | (log.rewards > high)
    if outside.any():
        row = int(np.argmax(outside))
        raise log.refusal(row, f"the reward is {log.rewards[row]:g}; reward_range promises {low:g} to {high:g}")
    return low, high


def _check_untried(log: Log, untried: str | None, stuck: Indices, unknown: Indices, low: float) -> None:
    """Ask for a choice where one is needed, and say what "forbid" cannot forbid."""
    first = f"{shown(log.state_labels[stuck[0]])}" if stuck.size else ""
    stuck_states = "1 state was" if stuck.size == 1 else f"{stuck.size} states were"
    if untried is None and (stuck.size or unknown.size):
        state, action = divmod(int(unknown[0]), len(log.action_labels)) if unknown.size else (0, 0)
        tried = f"action {shown(log.action_labels[action])} in state {shown(log.state_labels[state])}"
        pairs = "1 pair was" if unknown.size == 1 else f"{unknown.size} pairs were"
        what = f"{pairs} never tried, such as {tried}" if unknown.size else ""
        left = f"{stuck_states} reached and never left, such as {first}" if stuck.size else ""
        raise InputError(
            f"{' and '.join(filter(None, (what, left)))}: choose how to treat them, "
            'untried="forbid", "pessimistic" or "optimistic"'
        )
    if untried == "forbid" and stuck.size:
        warnings.warn(
            f"{stuck_states} reached in the log and never left, such as {first}: no action can be forbidden there, and "
            f"what follows is taken to pay {low:g} for ever; rows that end an episode need done and at_end",
            CautiousWarning,
            stacklevel=3,
        )


def _start(log: Log, layout: Layout, start: Any) -> Array:
    """(S,) probabilities."""
    n_labels, n_states = len(log.state_labels), layout.shape[0]
    chances = np.zeros(n_states)
    # where episodes go on elsewhere, the model leaves out states that episodes only end in
    known: Mask = np.full(n_labels, not layout.restart)
    known[log.states] = known[log.next_states[~log.ended]] = True
    if isinstance(start, str | int | np.integer) and start != "uniform":
        start = {start: 1.0}
    if isinstance(start, Mapping):
        for label, chance in start.items():
            state = number_of("start: state", log.state_labels, as_written(log.state_labels, label))
            chances[state] = as_number(f"start[{shown(label)}]", chance, 0, 1)
        chances = as_distribution("start", chances, (n_states,), "(S,)")
    elif isinstance(start, str) or (start is None and log.first is None):
        chances[:n_labels] = known / known.sum()
    elif start is None and log.first is not None:
        chances[:n_labels] = np.bincount(log.states[log.first], minlength=n_labels) / log.first.size
    else:
        chances[:n_labels] = as_distribution("start", start, (n_labels,), "(S,), the states of the log")
    lost = np.flatnonzero(chances[:n_labels] * ~known)
    if lost.size:
        label = f"{shown(log.state_labels[lost[0]])}"
        raise InputError(f'start: in the log all is over in state {label}, so at_end="restart" cannot begin there')
    return chances
