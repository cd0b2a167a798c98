"""``from_function``: a model written as two plain Python functions; its states are those that can be reached.

The search is breadth first: each state once, numbered in the order in which it is found. Outcomes go into flat buffers
at once, so that the memory beyond the states themselves is near that of the model.
"""

import math
import time
from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from cautious.arrays import Array, Indices
from cautious.checks import SUM_TOLERANCE, as_count, as_flag, as_number, check_choice, is_listable
from cautious.errors import InputError, shown
from cautious.models.gym_checks import AT_END, AtEnd
from cautious.models.interface import Objects
from cautious.models.outcome_lists import MergedOutcomes, OutcomeList, merged_outcomes, staying_outcomes
from cautious.models.scene import Scene
from cautious.models.tabular import MDP

EVERY_SECONDS = 0.1
# a table (S, A) of this size is always made; of a larger one a certain share of the pairs must be in use
FREE_PAIRS, PAIRS_PER_PAIR_IN_USE = 10**7, 100


@dataclass(frozen=True)
class ExplorationProgress:
    """What the callback of ``ca.from_function`` receives, about ten times a second and at the end.

    ``found`` states are known, ``explored`` of them have been asked for their actions and outcomes.

    Examples
    --------
    >>> import cautious as ca
    >>> seen = []
    >>> mdp = ca.from_function([0], lambda s: ["on"], lambda s, a: [(1.0, (s + 1) % 5, 0.0)], callback=seen.append)
    >>> seen[-1].found, seen[-1].explored, seen[-1].outcomes
    (5, 5, 5)
    """

    found: int
    explored: int
    outcomes: int
    seconds: float


class ExploredMDP(MDP):
    """A model that knows the objects it was explored from; ``ca.from_function`` makes one.

    ``states`` and ``actions`` are the user's own, in the order of their numbers. A saved model keeps their names only.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.from_function([(0, 0)], lambda s: ["flip"], lambda s, a: [(1.0, (s[0], 1 - s[1]), 0.0)])
    >>> mdp.states, mdp.index((0, 1)), mdp.where(lambda state: state[1] == 1)
    (((0, 0), (0, 1)), 1, array([1]))
    """

    def __init__(
        self,
        outcomes: MergedOutcomes,
        discount: float,
        start: Array,
        states: dict[Hashable, int],
        actions: dict[Hashable, int],
        scene: Scene | None,
    ) -> None:
        super().__init__(
            **outcomes._asdict(),
            discount=discount,
            start=start,
            state_names=_names(states),
            action_names=_names(actions),
            scene=scene,
        )
        self.states, self.actions = tuple(states), tuple(actions)
        self.interface = Objects(self.states, self.actions)
        self._numbers = states

    def index(self, state: Hashable) -> int:
        """The number of a state."""
        try:
            return self._numbers[state]
        except (KeyError, TypeError):
            raise InputError(f"{shown(state)} is none of the {self.n_states} states of this model") from None

    def where(self, condition: Callable[[Any], bool]) -> Indices:
        """The numbers of the states that meet a condition, for risks that take sets of states."""
        return np.array([number for number, state in enumerate(self.states) if condition(state)], dtype=np.int64)


def from_function(
    initial_states: Any,
    actions: Callable[[Any], Iterable[Any]],
    outcomes: Callable[[Any, Any], Iterable[tuple[float, Any, float]]],
    discount: float = 0.95,
    *,
    at_end: AtEnd | None = None,
    max_states: int = 1_000_000,
    scene: Scene | None = None,
    callback: Callable[[ExplorationProgress], Any] | None = None,
    progress: bool = False,
) -> ExploredMDP:
    """A model from two functions; its states are those that can be reached.

    Parameters
    ----------
    initial_states
        A list of states, all equally likely, or a mapping from states to their chances. A state is anything hashable.
    actions
        ``actions(state)`` gives the actions that exist there, anything hashable. States may have different ones.
    outcomes
        ``outcomes(state, action)`` gives (probability, next state, reward) for everything that can happen. Outcomes
        with the same next state are merged.
    discount
        In [0, 1]. With discount 1 a ``ca.Problem`` needs a horizon.
    at_end
        What follows a state without actions: "absorb" stays there and pays 0 forever; "restart" goes on from the
        initial states, with reward 0 for that step. By default such a state is refused.
    max_states
        Refuse models with more states than this.
    scene
        Title and units for reports.
    callback
        Called about ten times a second with an ``ExplorationProgress``; raise an exception to stop.
    progress
        Draw a progress bar on standard error.

    The names of states and actions are their ``str()``, or their ``repr()`` where that tells apart what ``str()`` does
    not. Without a name of their own (an object that prints its address) they are numbered.

    Examples
    --------
    >>> import cautious as ca
    >>> def actions(wear):
    ...     return ["run", "repair"] if wear < 3 else ["repair"]
    >>> def outcomes(wear, action):
    ...     if action == "repair":
    ...         return [(1.0, 0, -4.0)]
    ...     return [(0.7, wear, 1.0), (0.3, wear + 1, 1.0)]
    >>> mdp = ca.from_function([0], actions, outcomes, discount=0.9)
    >>> mdp.state_names, mdp.action_names
    (('0', '1', '2', '3'), ('run', 'repair'))
    >>> solution = ca.solve(ca.Problem(mdp, ca.SafeSet(mdp.where(lambda wear: wear < 3), slack=0.1), caution=0.1))
    >>> round(solution.expected_return, 2)
    7.01
    """
    discount = as_number("discount", discount, 0, 1)
    for name, function in (("actions", actions), ("outcomes", outcomes), ("callback", callback)):
        if not callable(function) and not (name == "callback" and callback is None):
            raise InputError(f"{name} must be a function, found {shown(function)}")
    if at_end is not None:
        check_choice("at_end", at_end, AT_END)
    first = _first_states(initial_states)
    found = Exploration(actions, outcomes, as_count("max_states", max_states), at_end)
    console = Console(stderr=True)
    columns = TextColumn("exploring"), BarColumn(bar_width=20), TextColumn("{task.fields[figures]}")
    # rich writes an empty line where nothing can be redrawn
    hidden = not as_flag("progress", progress) or not (console.is_terminal or console.is_jupyter)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        found.explore(first, callback, bar)
    start = np.zeros(len(found.states))
    start[: len(first)] = list(first.values())
    return ExploredMDP(found.merged(start), discount, start, found.numbers, found.action_numbers, scene)


def _first_states(given: Any) -> dict[Hashable, float]:
    """The initial states with their chances."""
    if not is_listable(given):
        raise InputError(
            f"initial_states is {shown(given)}; expected a list of states, such as [{shown(given, 40)}], or a mapping "
            "from states to chances"
        )
    if isinstance(given, Mapping):
        chances = {state: as_number(f"initial_states[{shown(state)}]", p, 0.0, 1.0) for state, p in given.items()}
        total = math.fsum(chances.values())
        if abs(total - 1) > SUM_TOLERANCE:
            raise InputError(f"the chances of initial_states sum to {total:.12g}; they must sum to 1")
        return {state: chance for state, chance in chances.items() if chance > 0}
    listed = list(given)
    first: dict[Hashable, float] = {}
    for state in listed:
        try:
            if state in first:
                raise InputError(f"initial_states holds {shown(state)} twice; give a mapping from states to chances")
            first[state] = 1 / len(listed)
        except TypeError as error:
            raise unhashable("a state of initial_states", state, error) from None
    if not first:
        raise InputError("initial_states is empty; a model needs at least one")
    return first


def _names(items: Collection[Hashable]) -> list[str] | None:
    """Different names for different objects, or None."""
    if any(type(item).__str__ is object.__str__ and type(item).__repr__ is object.__repr__ for item in items):
        return None
    for spell in (str, repr):
        try:
            names = [spell(item) for item in items]
        except ValueError:
            # whole numbers of thousands of digits have no text
            return None
        if len(set(names)) == len(names):
            return names
    return None


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

    def explore(
        self, first: Mapping[Hashable, float], callback: Callable[[ExplorationProgress], Any] | None, bar: Progress
    ) -> None:
        """Find every state that can be reached; now and then, call back and move the bar."""
        begun = told = time.perf_counter()
        task = bar.add_task("", total=None, figures="")
        for state in first:
            self._add(state)
        explored = 0
        while explored < len(self.states):
            self._expand(explored, self.states[explored])
            explored += 1
            found, outcomes, now = len(self.states), len(self.chance), time.perf_counter()
            if now - told < EVERY_SECONDS and explored < found:
                continue
            told = now
            if callback is not None:
                callback(ExplorationProgress(found, explored, outcomes, now - begun))
            figures = f"{explored:,} of {found:,} states found  {outcomes:,} outcomes  {now - begun:.0f} s"
            bar.update(task, total=found, completed=explored, figures=figures)

    def _expand(self, number: int, state: Hashable) -> None:
        offered = _called(self.actions, "actions", state)
        if not offered:
            if self.at_end is None:
                raise InputError(
                    f'actions({shown(state)}) gives no action; say what follows: at_end="absorb" stays there and pays '
                    '0 forever, at_end="restart" goes on from the initial states'
                )
            self.ends.append(number)
        begun = len(self.pair_state)
        for action in offered:
            self.pair_state.append(number)
            try:
                self.pair_action.append(self.action_numbers.setdefault(action, len(self.action_numbers)))
            except TypeError as error:
                raise unhashable(f"an action of actions({shown(state)})", action, error) from None
            self.pair_size.append(self._collect(state, action))
        if len(set(self.pair_action[begun:])) < len(offered):
            raise InputError(f"actions({shown(state)}) gives an action twice, found {shown(offered)}")

    def _collect(self, state: Hashable, action: Hashable) -> int:
        """Take in the outcomes of a pair; gives how many there are."""
        numbers, chance, pay = self.numbers, self.chance, self.pay
        begun, total = len(chance), 0.0
        for outcome in _called(self.outcomes, "outcomes", state, action):
            try:
                probability, next_state, reward = outcome
                chance.append(probability)
                pay.append(reward)
            except (TypeError, ValueError, OverflowError):
                raise InputError(
                    f"{_pair(state, action)} gives {shown(outcome, 60)}; expected a number, a state and a number: "
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
                f"more than max_states = {self.max_states} states can be reached; the next one is {shown(state)}, from "
                f"{source}. Raise max_states, or see whether the model is finite"
            )
        self.numbers[state] = number
        self.states.append(state)
        return number

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
        more = staying_outcomes(np.array(self.ends, dtype=np.int64), n_actions)
        if self.at_end == "restart":
            places = np.flatnonzero(start)
            again = np.tile(places, more.rows.size)
            more = OutcomeList(np.repeat(more.rows, places.size), again, start[again], np.zeros(again.size))
        return merged_outcomes((n_states, n_actions), found.plus(more))


def _called(function: Any, name: str, *arguments: Any) -> list[Any]:
    """The list that a user's function returns; what it raises gets a note with the call."""
    try:
        listed = function(*arguments)
        if is_listable(listed):
            return list(listed)
    except Exception as error:
        error.add_note(f"raised by {_call(name, *arguments)}")
        raise
    raise InputError(f"{_call(name, *arguments)} gives {shown(listed)}; expected a list of {name}")


def _call(name: str, *arguments: Any) -> str:
    return f"{name}({', '.join(f'{shown(one)}' for one in arguments)})"


def _pair(state: Hashable, action: Hashable) -> str:
    return _call("outcomes", state, action)


def unhashable(what: str, value: Any, error: TypeError) -> InputError:
    """The error about a state or action that cannot be a key."""
    return InputError(
        f"{what} is {shown(value)}, which is not hashable ({error}); use something hashable, such as a tuple"
    )
