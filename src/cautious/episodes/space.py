"""States and actions as demonstrations write them, and the model they are counted in."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.arrays import Indices, Mask
from cautious.checks import as_allowed, as_array, first_bad
from cautious.errors import IncompatibleError, InputError, shown
from cautious.models.gym_simulator import GymSimulator
from cautious.models.simulator_checks import check_members
from cautious.models.simulators import Known, Simulator, known_of
from cautious.models.tabular import MDP

WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
# says where entry number i of some values stands: "episode 3, step 7"
Where = Callable[[int], str]


@dataclass(frozen=True)
class Labels:
    """What the states or the actions are called: numbers from ``first``, or names."""

    kind: str
    count: int
    names: tuple[str, ...] | None
    first: int = 0

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Number of every name."""
        return {name: index for index, name in enumerate(self.names or ())}

    @cached_property
    def names_only(self) -> bool:
        """Whether a text must be a name, because some names look like numbers."""
        return any(WHOLE.fullmatch(name) for name in self.names or ())

    def from_text(self, text: str) -> int:
        """The number of a cell of a file: a name, or a whole number where no name looks like one."""
        label = text.strip()
        if label in self.by_name:
            return self.by_name[label]
        # tables with gaps have their whole numbers written as 3.0 by other programs
        digits = label.removesuffix(".0")
        if self.names_only or not WHOLE.fullmatch(digits):
            raise self._refusal(label)
        return self._checked(int(digits))

    def from_values(self, values: NDArray[Any], where: Where) -> Indices:
        """The numbers of values (n,): whole numbers, names, or a mixture of both."""
        if values.dtype.kind in "iu":
            bad = (values < self.first) | (values >= self.first + self.count)
            if bad.any():
                (at,) = first_bad(bad)
                raise InputError(f"{where(at)}: {self._refusal(values[at].item())}")
            return values.astype(np.int64) - self.first
        numbers = np.empty(values.size, dtype=np.int64)
        for at, value in enumerate(values.tolist()):
            try:
                numbers[at] = self._from_value(value)
            except InputError as error:
                raise InputError(f"{where(at)}: {error}") from None
        return numbers

    def say(self, number: int) -> str:
        """What to call a number in messages."""
        named = "" if self.names is None else f" ({self.names[number]!r})"
        return f"{self.kind} {number + self.first}{named}"

    def _from_value(self, value: Any) -> int:
        if isinstance(value, str) and value in self.by_name:
            return self.by_name[value]
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise self._refusal(value)
        return self._checked(int(value))

    def _checked(self, number: int) -> int:
        if not self.first <= number < self.first + self.count:
            raise self._refusal(number)
        return number - self.first

    def _refusal(self, found: Any) -> InputError:
        whole = f"a whole number from {self.first} to {self.first + self.count - 1}"
        named = f"one of the model's {self.kind} names, such as {self.names[0]!r}" if self.names else ""
        expected = named if self.names_only else whole if not named else f"{whole} or {named}"
        return InputError(f"the {self.kind} is {shown(found)}; expected {expected}")


@dataclass(frozen=True)
class Space:
    """Sizes, names and discount of a model; ``allowed`` (S, A).

    A Gymnasium simulator knows what follows its ends: ``at_end``, and the ``end_state`` that "absorb" leads to.
    """

    states: Labels
    actions: Labels
    discount: float
    allowed: Mask
    at_end: str | None = None
    end_state: int | None = None

    def check_pairs(self, states: Indices, actions: Indices, where: Where) -> None:
        """Refuse a pair that the model does not have."""
        forbidden = ~self.allowed[states, actions]
        if forbidden.any():
            (at,) = first_bad(forbidden)
            state, action = self.states.say(int(states[at])), self.actions.say(int(actions[at]))
            raise InputError(f"{where(at)}: {action} is taken in {state}, where the model does not allow it")


def space_of(model: Any) -> Space:
    """The space of a model or a simulator."""
    if isinstance(model, MDP):
        known = Known(model.allowed, None, model.state_names, model.action_names)
    elif isinstance(model, Simulator) and not isinstance(model, type):
        check_members(model)
        known = known_of(model)
    else:
        raise IncompatibleError(
            f"ca.demonstrations needs the ca.MDP or the simulator that the prior is for, found {type(model).__name__}"
        )
    shape = (int(model.n_states), int(model.n_actions))
    names = [None if given is None else tuple(map(str, given)) for given in (known.state_names, known.action_names)]
    states, actions = Labels("state", shape[0], names[0]), Labels("action", shape[1], names[1])
    allowed, discount = as_allowed(known.allowed, shape), float(model.discount)
    if not isinstance(model, GymSimulator):
        return Space(states, actions, discount, allowed)
    # the extra state of "absorb" is ours: the environment never shows it
    extra, spaces = model.at_end == "absorb", model.spaces
    return Space(
        _observed("state", spaces.n_states, spaces.element(0), names[0]),
        _observed("action", spaces.n_actions, spaces.action(0), names[1]),
        discount,
        allowed,
        model.at_end,
        shape[0] - 1 if extra else None,
    )


def _observed(kind: str, count: int, first: Any, names: tuple[str, ...] | None) -> Labels:
    """Labels of an environment: its numbers from the first on, or names where an element has several parts."""
    if isinstance(first, int):
        return Labels(kind, count, None, first)
    return Labels(kind, count, None if names is None else names[:count])


def as_labels(name: str, value: Any) -> NDArray[Any]:
    """An array of labels; numbers beside names stay numbers."""
    found = as_array(name, value)
    if found.dtype.kind == "U" and not isinstance(value, np.ndarray):
        return np.array(value, dtype=object)
    return found
