"""States and actions as agents of others know them: the observation of a state, and the number of an action."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from cautious.errors import shown


@runtime_checkable
class Interface(Protocol):
    """Observations and actions as they are outside of a model, where both are numbers."""

    def observation(self, state: int) -> Any:
        """What is observed in a state; None where nothing is, after an end."""
        ...

    def action_number(self, answer: Any) -> int | None:
        """The number of an action; None for what is no action."""
        ...

    @property
    def actions_in_words(self) -> str:
        """Which answers are actions, for a message."""
        ...


def whole_number(value: Any) -> int | None:
    """A whole number, also as an array that holds one; None for anything else."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(())[()]
    return int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else None


class Numbered:
    """States and actions go by their numbers."""

    def __init__(self, n_actions: int) -> None:
        self.n_actions = n_actions

    def observation(self, state: int) -> int:
        """The number of the state."""
        return state

    def action_number(self, answer: Any) -> int | None:
        """The number itself, if it is one."""
        number = whole_number(answer)
        return number if number is not None and 0 <= number < self.n_actions else None

    @property
    def actions_in_words(self) -> str:
        """Their range."""
        return f"an action, a whole number from 0 to {self.n_actions - 1}"


class Objects:
    """States and actions are a user's own objects."""

    def __init__(self, states: tuple[Any, ...], actions: tuple[Any, ...]) -> None:
        self.states, self._numbers = states, {action: number for number, action in enumerate(actions)}

    def observation(self, state: int) -> Any:
        """The object."""
        return self.states[state]

    def action_number(self, answer: Any) -> int | None:
        """By the actions that the model was explored with."""
        try:
            return self._numbers.get(answer)
        except TypeError:
            return None

    @property
    def actions_in_words(self) -> str:
        """All of them, or the first."""
        return f"one of the actions {shown(list(self._numbers))}"
