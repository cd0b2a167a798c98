"""Episodes held in memory: lists of states or of pairs, and records as Gymnasium loops and Minari make them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cautious.arrays import Indices, Mask
from cautious.checks import as_mask
from cautious.episodes.space import Space, as_labels
from cautious.errors import InputError

READ = ("observations", "actions", "terminations", "truncations")
# what such records also carry, and what a prior does not need
SKIPPED = ("rewards", "infos", "id", "seed")


@dataclass(frozen=True)
class Episode:
    """One demonstration: ``states`` (T,) and ``actions`` (T,) of its steps, and the ``final`` state after them.

    ``actions`` and ``final`` are None where they are unknown. ``ended`` is false when the recording was cut.
    """

    states: Indices
    actions: Indices | None
    final: int | None
    ended: bool


@runtime_checkable
class Record(Protocol):
    """``minari.EpisodeData``, or anything else with its members."""

    observations: Any
    actions: Any
    terminations: Any
    truncations: Any


def read_record(name: str, item: Any, space: Space) -> Episode:
    """One episode, checked against the model; messages call it by this name."""
    if isinstance(item, Mapping):
        return _record(name, _parts(name, item), space)
    # asking for members is slow, and lists are many
    if not isinstance(item, list | np.ndarray) and isinstance(item, Record):
        return _record(name, {part: getattr(item, part) for part in READ}, space)
    labels = as_labels(name, item)
    if labels.size == 0:
        raise InputError(f"{name} is empty; it needs at least one step")
    if labels.ndim == 1:
        return Episode(_states(name, labels, space), None, None, True)
    if labels.ndim == 2 and labels.shape[1] == 2:
        states = _states(name, labels[:, 0], space)
        return Episode(states, _actions(name, labels[:, 1], states, space), None, True)
    raise InputError(
        f"{name} has shape {labels.shape}; expected states (T,), pairs (T, 2) of a state and an action, or a record "
        "with observations and actions"
    )


def _parts(name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    for key in item:
        if key not in READ + SKIPPED:
            raise InputError(f"{name} has an unknown key {key!r}; allowed: {', '.join(READ + SKIPPED)}")
    if "observations" not in item:
        raise InputError(f"{name} needs observations")
    return {part: item.get(part) for part in READ}


def _record(name: str, parts: dict[str, Any], space: Space) -> Episode:
    if isinstance(parts["observations"], Mapping | tuple):
        raise InputError(f"{name}: its observations are of several parts; expected one whole number or name each")
    observed = as_labels(f"{name}: observations", parts["observations"])
    if observed.ndim != 1:
        raise InputError(
            f"{name}: observations has shape {observed.shape}; expected (T + 1,): one whole number or name each"
        )
    if observed.size < 2:
        raise InputError(f"{name} has {observed.size} observations; a step needs one before it and one after it")
    numbers, steps = _states(name, observed, space), observed.size - 1
    states, actions = numbers[:-1], None
    if parts["actions"] is not None:
        given = as_labels(f"{name}: actions", parts["actions"])
        if given.shape != (steps,):
            raise InputError(
                f"{name}: actions has shape {given.shape} beside {observed.size} observations; expected ({steps},): "
                "the observation after the last action is there too"
            )
        actions = _actions(name, given, states, space)
    return Episode(states, actions, int(numbers[-1]), _ended(name, parts, steps))


def _states(name: str, labels: Any, space: Space) -> Indices:
    return space.states.from_values(labels, lambda step: f"{name}, step {step}")


def _actions(name: str, labels: Any, states: Indices, space: Space) -> Indices:
    actions = space.actions.from_values(labels, lambda step: f"{name}, step {step}")
    space.check_pairs(states, actions, lambda step: f"{name}, step {step}")
    return actions


def _ended(name: str, parts: dict[str, Any], steps: int) -> bool:
    """Whether the episode came to an end; without marks, it did."""
    marks: dict[str, Mask] = {}
    for part in ("terminations", "truncations"):
        if parts[part] is None:
            continue
        marks[part] = as_mask(f"{name}: {part}", parts[part], (steps,), "(T,), one per step")
        if marks[part][:-1].any():
            raise InputError(f"{name}: {part}[{int(np.argmax(marks[part]))}] is true, and the episode goes on")
    if "terminations" in marks:
        return bool(marks["terminations"][-1])
    return "truncations" not in marks or not marks["truncations"][-1]
