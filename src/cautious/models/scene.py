"""How a model is described: names of states and actions, and ``Scene``; never used in a computation.

Names are texts that a file can hold. Importers add two states: "end", where episodes end, and "untried", where unknown
pairs lead.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from cautious.arrays import Indices
from cautious.checks import as_array, as_names, check_shape, did_you_mean
from cautious.errors import InputError, shown

END, UNTRIED = "end", "untried"
SURROGATE = re.compile("[\ud800-\udfff]")
# of the states of a model, in errors
NAMES_SHOWN = 4


def free_name(wanted: str, taken: Collection[str]) -> str:
    """The name of an added state: as wanted, or "end 2", "end 3", ... where the model has a state called that."""
    if wanted not in taken:
        return wanted
    return next(name for number in count(2) if (name := f"{wanted} {number}") not in taken)


def model_names(name: str, value: Any, count: int) -> tuple[str, ...]:
    """``count`` different names that can be written."""
    names = as_names(name, value, count)
    check_texts(name, names)
    return names


def check_texts(name: str, texts: Sequence[str]) -> None:
    """Refuse texts that have no UTF-8: halves of characters, as broken decoders leave them."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        place = next(index for index, text in enumerate(texts) if SURROGATE.search(text))
        raise InputError(
            f"{name}[{place}] is {shown(texts[place])}, which holds half a character (a lone surrogate); names must be "
            "texts that can be written as UTF-8"
        ) from None


def state_indices(name: str, states: Any, n_states: int, state_names: Sequence[str] | None) -> Indices:
    """Indices, a mask (S,) or state names to sorted indices; duplicates are dropped."""
    items = as_array(name, list(states) if isinstance(states, set | frozenset) else states)
    if items.size == 0:
        return np.empty(0, dtype=np.int64)
    if items.dtype == np.bool_:
        check_shape(name, items, (n_states,), "(S,), a mask of states")
        return np.flatnonzero(items).astype(np.int64)
    if items.dtype.kind in "US":
        return np.unique(named_states(name, np.ravel(items).tolist(), state_names))
    if not np.issubdtype(items.dtype, np.integer):
        raise InputError(
            f"{name} must hold state indices, a mask or state names, found {shown(states)} (dtype {items.dtype})"
        )
    flat = np.ravel(items).astype(np.int64)
    bad = (flat < 0) | (flat >= n_states)
    if bad.any():
        where = int(np.argmax(bad))
        raise InputError(f"{name}[{where}] is {flat[where]}; states are numbered 0 to {n_states - 1}")
    return np.flatnonzero(np.bincount(flat, minlength=n_states))  # a tenth of the time of sorting


def named_states(name: str, labels: list[Any], state_names: Sequence[str] | None) -> Indices:
    """The number of the state of each label."""
    labels = [str(label) for label in labels]
    numbers = {label: index for index, label in enumerate(state_names or ())}
    for label in labels:
        if state_names is None:
            raise InputError(f"{name} names the state {shown(label)}, but this model has no state names")
        if label not in numbers:
            more = "" if len(state_names) <= NAMES_SHOWN else f" and {len(state_names) - NAMES_SHOWN:,} more"
            known = f"; it has {', '.join(map(shown, state_names[:NAMES_SHOWN]))}{more}"
            hint = did_you_mean(label, state_names) or known
            raise InputError(f"{name} names the state {shown(label)}, which this model does not have{hint}")
    return np.array([numbers[label] for label in labels], dtype=np.int64)


@dataclass(frozen=True)
class Scene:
    """Title, units and an optional map of a model.

    ``grid`` holds one string per row of the map; character ``#`` is a wall (no state), every other character is a
    state, numbered row by row. ``step`` and ``reward_unit`` are the real units of time and reward.

    Examples
    --------
    >>> import cautious as ca
    >>> scene = ca.Scene("Yard", step="minute", reward_unit="euros", grid=("S.", "#G"))
    >>> scene.cells
    [(0, 0), (0, 1), (1, 1)]
    """

    title: str
    story: str = ""
    step: str = "step"
    reward_unit: str = "reward"
    grid: tuple[str, ...] = ()
    action_arrows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in ("title", "story", "step", "reward_unit"):
            if not isinstance(getattr(self, field), str):
                raise InputError(f"scene {field} must be a text, found {shown(getattr(self, field))}")
        for field in ("grid", "action_arrows"):
            texts = getattr(self, field)
            if not isinstance(texts, tuple | list) or not all(isinstance(text, str) for text in texts):
                raise InputError(f"scene {field} must be a tuple of texts, found {shown(texts)}")
        words = (self.title, self.story, self.step, self.reward_unit)
        for name, texts in (("words", words), ("grid", self.grid), ("action_arrows", self.action_arrows)):
            check_texts(f"scene {name}", list(texts))

    @property
    def cells(self) -> list[tuple[int, int]]:
        """(row, column) of each state, in the order of the states."""
        return [(i, j) for i, row in enumerate(self.grid) for j, mark in enumerate(row) if mark != "#"]
