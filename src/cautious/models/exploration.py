"""``from_function``: a model written as two plain Python functions; its states are those that can be reached."""

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.checks import SUM_TOLERANCE, as_count, as_number
from cautious.errors import InputError
from cautious.models.exploration_progress import ExplorationProgress, Watch
from cautious.models.exploration_search import Exploration, is_listable, unhashable
from cautious.models.gym_checks import AtEnd, check_at_end
from cautious.models.outcome_lists import MergedOutcomes
from cautious.models.scene import Scene
from cautious.models.tabular import MDP


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
            outcomes.transitions,
            outcomes.rewards,
            discount,
            start,
            allowed=outcomes.allowed,
            reward_square=outcomes.reward_square,
            state_names=_names(states),
            action_names=_names(actions),
            scene=scene,
        )
        self.states, self.actions = tuple(states), tuple(actions)
        self._numbers = states

    def index(self, state: Hashable) -> int:
        """The number of a state."""
        try:
            return self._numbers[state]
        except (KeyError, TypeError):
            raise InputError(f"{state!r:.80} is none of the {self.n_states} states of this model") from None

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
        In [0, 1).
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
    not. Without a name of their own (an object that prints its address) they go by number.

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
    discount = as_number("discount", discount, 0, 1, open_ends=")")
    for name, function in (("actions", actions), ("outcomes", outcomes), ("callback", callback)):
        if not callable(function) and not (name == "callback" and callback is None):
            raise InputError(f"{name} must be a function, found {function!r:.80}")
    if at_end is not None:
        check_at_end(at_end)
    first = _first_states(initial_states)
    found = Exploration(actions, outcomes, as_count("max_states", max_states), at_end)
    with Watch(callback, progress) as watch:
        found.explore(first, watch)
    start = np.zeros(len(found.states))
    start[: len(first)] = list(first.values())
    return ExploredMDP(found.merged(start), discount, start, found.numbers, found.action_numbers, scene)


def _first_states(given: Any) -> dict[Hashable, float]:
    """The initial states with their chances."""
    if not is_listable(given):
        raise InputError(
            f"initial_states is {given!r:.80}; expected a list of states, such as [{given!r:.40}], or a mapping from "
            "states to chances"
        )
    if isinstance(given, Mapping):
        chances = {state: as_number(f"initial_states[{state!r:.80}]", p, 0.0, 1.0) for state, p in given.items()}
        total = math.fsum(chances.values())
        if abs(total - 1) > SUM_TOLERANCE:
            raise InputError(f"the chances of initial_states sum to {total:.12g}; they must sum to 1")
        return {state: chance for state, chance in chances.items() if chance > 0}
    listed = list(given)
    first: dict[Hashable, float] = {}
    for state in listed:
        try:
            if state in first:
                raise InputError(f"initial_states holds {state!r:.80} twice; give a mapping from states to chances")
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
        names = [spell(item) for item in items]
        if len(set(names)) == len(names):
            return names
    return None
