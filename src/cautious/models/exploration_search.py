"""The search behind ``from_function``: breadth first, each state once, numbered in the order in which it is found.

Outcomes go into flat buffers at once, so that the memory beyond the states themselves is near that of the model.
"""

import math
from array import array
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.checks import SUM_TOLERANCE
from cautious.errors import InputError
from cautious.models.exploration_progress import Watch
from cautious.models.gym_checks import AtEnd
from cautious.models.outcome_lists import MergedOutcomes, OutcomeList, is_single, merged_outcomes

# a table (S, A) of this size is no trouble; a larger one must have some of its pairs in use
FREE_PAIRS, PAIRS_PER_PAIR_IN_USE = 10**7, 100


class Exploration:
    """States and outcomes found so far; a pair is a place in ``pair_*``, an outcome one in the others."""

    def __init__(self, actions: Any, outcomes: Any, max_states: int, at_end: AtEnd | None) -> None:
        self.actions, self.outcomes, self.max_states, self.at_end = actions, outcomes, max_states, at_end
        self.states: list[Hashable] = []
        self.numbers: dict[Hashable, int] = {}
        self.action_numbers: dict[Hashable, int] = {}
        self.ends: list[int] = []
        self.pair_state, self.pair_action, self.pair_size = array("q"), array("q"), array("q")
        self.next_state, self.chance, self.pay = array("q"), array("d"), array("d")

    def explore(self, first: Mapping[Hashable, float], watch: Watch) -> None:
        """Find every state that can be reached."""
        for state in first:
            self._add(state)
        explored = 0
        while explored < len(self.states):
            self._expand(explored, self.states[explored])
            explored += 1
            watch.look(len(self.states), explored, len(self.chance))

    def _expand(self, number: int, state: Hashable) -> None:
        offered = _asked(self.actions, "actions", state)
        if not offered:
            if self.at_end is None:
                raise InputError(
                    f'actions({state!r:.80}) gives no action; say what follows: at_end="absorb" stays there and pays 0 '
                    'forever, at_end="restart" goes on from the initial states'
                )
            self.ends.append(number)
        begun = len(self.pair_state)
        for action in offered:
            self.pair_state.append(number)
            self.pair_action.append(self._action_number(state, action))
            self.pair_size.append(self._collect(state, action))
        if len(set(self.pair_action[begun:])) < len(offered):
            raise InputError(f"actions({state!r:.80}) gives an action twice, found {offered!r:.80}")

    def _collect(self, state: Hashable, action: Hashable) -> int:
        """Take in the outcomes of a pair; gives how many there are."""
        numbers, chance, pay = self.numbers, self.chance, self.pay
        begun, total = len(chance), 0.0
        for outcome in _asked(self.outcomes, "outcomes", state, action):
            try:
                probability, next_state, reward = outcome
                chance.append(probability)
                pay.append(reward)
            except (TypeError, ValueError, OverflowError):
                raise InputError(
                    f"{_pair(state, action)} gives {outcome!r:.60}; expected a number, a state and a number: "
                    "(probability, next state, reward)"
                ) from None
            probability = chance[-1]
            if not 0 <= probability <= 1 + SUM_TOLERANCE:
                raise InputError(f"{_pair(state, action)} gives the probability {probability}; expected 0 to 1")
            if not math.isfinite(pay[-1]):
                raise InputError(f"{_pair(state, action)} gives the reward {pay[-1]}; it must be finite")
            if probability == 0:
                chance.pop()
                pay.pop()
                continue
            total += probability
            try:
                there = numbers.get(next_state)
            except TypeError as error:
                raise unhashable(f"the next state of {_pair(state, action)}", next_state, error) from None
            self.next_state.append(self._add(next_state, state, action) if there is None else there)
        if not abs(total - 1) <= SUM_TOLERANCE:
            raise InputError(
                f"the probabilities of {_pair(state, action)} sum to {total:.12g}; they must sum to 1 within "
                f"{SUM_TOLERANCE:g}"
            )
        return len(chance) - begun

    def _add(self, state: Hashable, *pair: Hashable) -> int:
        number = len(self.states)
        if number >= self.max_states:
            source = _pair(*pair) if pair else "initial_states"
            raise InputError(
                f"more than max_states = {self.max_states} states can be reached; the next one is {state!r:.80}, from "
                f"{source}. Raise max_states, or see whether the model is finite"
            )
        self.numbers[state] = number
        self.states.append(state)
        return number

    def _action_number(self, state: Hashable, action: Hashable) -> int:
        try:
            return self.action_numbers.setdefault(action, len(self.action_numbers))
        except TypeError as error:
            raise unhashable(f"an action of actions({state!r:.80})", action, error) from None

    def merged(self, start: Array) -> MergedOutcomes:
        """The arrays of the model, once all is explored."""
        n_states, n_actions = len(self.states), len(self.action_numbers)
        if n_actions == 0:
            raise InputError("no initial state has an action; a model needs at least one")
        if n_states * n_actions > max(FREE_PAIRS, PAIRS_PER_PAIR_IN_USE * len(self.pair_state)):
            raise InputError(
                f"{n_states} states and {n_actions} different actions make {n_states * n_actions:.3g} pairs, of which "
                f"{len(self.pair_state)} are in use; call actions by what they do, so that states share them"
            )
        # the buffers are as large as the model: they are looked at, not copied
        state, action, size, next_state = (
            np.frombuffer(column, dtype=np.int64)
            for column in (self.pair_state, self.pair_action, self.pair_size, self.next_state)
        )
        chance, pay = np.frombuffer(self.chance), np.frombuffer(self.pay)
        found = OutcomeList(np.repeat(state * n_actions + action, size), next_state, chance, pay)
        if not self.ends:
            return merged_outcomes((n_states, n_actions), found)
        # where episodes end, every action does the same
        ends = np.array(self.ends, dtype=np.int64)
        after = (ends[:, None] * n_actions + np.arange(n_actions)).ravel()
        if self.at_end == "absorb":
            more = OutcomeList(after, after // n_actions, np.ones(after.size), np.zeros(after.size))
        else:
            places = np.flatnonzero(start)
            again = np.tile(places, after.size)
            more = OutcomeList(np.repeat(after, places.size), again, start[again], np.zeros(again.size))
        return merged_outcomes((n_states, n_actions), found.plus(more))


def _asked(function: Any, name: str, *arguments: Any) -> list[Any]:
    """What a user's function lists; what it raises says for which state."""
    try:
        listed = function(*arguments)
        if is_listable(listed):
            return list(listed)
    except Exception as error:
        error.add_note(f"raised by {_call(name, *arguments)}")
        raise
    raise InputError(f"{_call(name, *arguments)} gives {listed!r:.80}; expected a list of {name}")


def is_listable(value: Any) -> bool:
    """Whether a value can be gone through; a text could, letter by letter, and is not meant to."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and not is_single(value)


def _call(name: str, *arguments: Any) -> str:
    return f"{name}({', '.join(f'{one!r:.80}' for one in arguments)})"


def _pair(state: Hashable, action: Hashable) -> str:
    return _call("outcomes", state, action)


def unhashable(what: str, value: Any, error: TypeError) -> InputError:
    """The error about a state or action that cannot be a key."""
    return InputError(
        f"{what} is {value!r:.80}, which cannot be told apart from others ({error}); use something hashable, such as a "
        "tuple"
    )
