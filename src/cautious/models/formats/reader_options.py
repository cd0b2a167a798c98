"""What a file says and what the caller says about the same thing: one of the two is needed, both must agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.checks import as_distribution, as_number, did_you_mean, one_state
from cautious.errors import InputError, shown

# names that a message lists
LONGEST_NUMBER = 19
LISTED = 10


@dataclass(frozen=True)
class ReaderOptions:
    """The keywords of ``ca.read_model``; None where nothing was given."""

    discount: float | None = None
    start: Any = None
    reward: str | float | None = None
    outcome: Any = None
    columns: Mapping[str, str] | None = None
    normalise: bool = False

    def refuse_others(self, path: Path, format_name: str, *allowed: str) -> None:
        """Refuse keywords that a format does not support."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("discount", "start", *allowed) and value is not None and value is not False:
                raise InputError(
                    f"{path}: keyword {field.name} is not supported by {format_name}; found {shown(value)}"
                )


def settled_discount(path: Path, given: ReaderOptions, stored: Any) -> float:
    """The discount of the file or of the caller."""
    if given.discount is None:
        if stored is None:
            raise InputError(f"{path}: the file does not hold a discount; give one, as in discount=0.95")
        return as_number("discount", stored, 0, 1)
    wanted = as_number("discount", given.discount, 0, 1)
    if stored is not None and stored != wanted:
        raise InputError(f"{path}: the file holds the discount {stored!r}, and discount={wanted!r} was given")
    return wanted


def settled_reward(path: Path, given: ReaderOptions, names: Sequence[str]) -> int | None:
    """Which of the reward structures is meant; None where there is none."""
    if given.reward is not None and not (isinstance(given.reward, str) and given.reward in names):
        raise InputError(f"{path}: reward={shown(given.reward)} is none of its rewards: {list(names)}")
    if given.reward is None and len(names) > 1:
        raise InputError(f"{path}: has several rewards; give reward= one of {list(names)}")
    if not names:
        return None
    return 0 if given.reward is None else names.index(given.reward)


def settled_start(
    path: Path,
    given: ReaderOptions,
    stored: Array | None,
    n_states: int,
    names: tuple[str, ...] | None,
    needed: str | None = None,
) -> Array | None:
    """The distribution (S,) of the first state; None is uniform. ``needed`` says why one must be given."""
    if given.start is None:
        if stored is None and needed is not None:
            raise InputError(f"{path}: {needed}; give the first state, as in start=0")
        return stored
    wanted = _distribution(given.start, n_states, names)
    if stored is not None and not np.array_equal(stored, wanted):
        raise InputError(f"{path}: the file says where the model starts ({_told(stored)}), and start= says otherwise")
    return wanted


def _distribution(start: Any, n_states: int, names: tuple[str, ...] | None) -> Array:
    """One state by number or name, or a distribution (S,)."""
    if isinstance(start, str):
        if names is not None and start in names:
            return one_state(n_states, names.index(start))
        if not start.isdecimal() or len(start) > LONGEST_NUMBER:
            raise InputError(
                f"start is {shown(start)}, which is not the name of a state{_known_states(start, n_states, names)}"
            )
        # a number that was typed: where no state is called that, it is one
        start = int(start)
    if isinstance(start, int | np.integer) and not isinstance(start, bool):
        if not -(10**LONGEST_NUMBER) < start < 10**LONGEST_NUMBER:
            raise InputError(f"start is {shown(start)}; states are numbered 0 to {n_states - 1}")
        if names is not None and str(start) in names[:start] + names[start + 1 :]:
            raise InputError(
                f"start is {start}, and number {names.index(str(start))} is the state that is called {str(start)!r}; "
                f"give its name, start={str(start)!r}, or probabilities (S,)"
            )
        if not 0 <= start < n_states:
            raise InputError(f"start is {start}; states are numbered 0 to {n_states - 1}")
        return one_state(n_states, int(start))
    return as_distribution("start", start, (n_states,), "(S,)")


def _known_states(start: str, n_states: int, names: tuple[str, ...] | None) -> str:
    """The nearest name, and what the states are called."""
    if names is None:
        return f"; they have no names, and are numbered 0 to {n_states - 1}"
    hint = did_you_mean(start, names) or ";"
    more = f" and {n_states - LISTED:,} more" if n_states > LISTED else ""
    return f"{hint} the states are {', '.join(names[:LISTED])}{more}"


def _told(start: Array) -> str:
    support = np.flatnonzero(start)
    return f"state {support[0]}" if support.size == 1 else f"{support.size} states"
