"""Spaces of Gymnasium whose elements can be counted: Discrete, MultiDiscrete and tuples of them.

Elements are numbered so that the last part changes fastest. State k of an environment is element k of its space of
observations. Blackjack is the one known environment that observes less than its state: with ``sab`` or ``natural`` a
hand of two cards that sum to 21 pays otherwise than one of three, so that its states have one more part, which agents
do not see.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.errors import IncompatibleError, InputError, MissingExtraError, shown
from cautious.models.interface import whole_number

# a soft hand that sums to 21 with more than two cards
SOFT_21 = (1, 5, 5)
NATURAL = (1, 10)
MOST_POINTS = 21


def size_of(space: Any) -> int | None:
    """How many elements a space has; None where they cannot be counted."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return _product(int(n) for n in np.ravel(space.nvec))
    if isinstance(space, spaces.Tuple):
        sizes = [size_of(part) for part in space.spaces]
        return None if None in sizes else _product(size for size in sizes if size is not None)
    return None


def _product(sizes: Any) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def number_of(space: Any, element: Any) -> int | None:
    """The number of an element; None for what is none."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        found = whole_number(element)
        number = None if found is None else found - int(space.start)
        return number if number is not None and 0 <= number < space.n else None
    if isinstance(space, spaces.MultiDiscrete):
        digits = np.asarray(element)
        if digits.shape != space.nvec.shape or not np.issubdtype(digits.dtype, np.integer):
            return None
        digits = digits - space.start
        if (digits < 0).any() or (digits >= space.nvec).any():
            return None
        return int(np.ravel_multi_index(tuple(np.ravel(digits)), tuple(np.ravel(space.nvec))))
    if not isinstance(element, tuple | list) or len(element) != len(space.spaces):
        return None
    number = 0
    for part, value in zip(space.spaces, element, strict=True):
        digit, size = number_of(part, value), size_of(part)
        if digit is None or size is None:
            return None
        number = number * size + digit
    return number


def element_of(space: Any, number: int) -> Any:
    """The element with this number."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return number + int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        digits = np.array(np.unravel_index(number, tuple(np.ravel(space.nvec))), dtype=space.dtype)
        return digits.reshape(space.nvec.shape) + space.start
    parts = []
    for part in reversed(space.spaces):
        number, digit = divmod(number, size_of(part) or 1)
        parts.append(element_of(part, digit))
    return tuple(reversed(parts))


def in_words(space: Any) -> str:
    """Which elements a space has, for a message."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return f"{space.start} to {space.start + space.n - 1}"
    return f"elements of {space}"


@dataclass(frozen=True)
class Spaces:
    """How states and actions of an environment are numbered.

    ``states`` is the space of what makes a state; ``shown`` is how many parts of it are observed, None for all.
    """

    states: Any
    actions: Any
    shown: int | None = None

    @property
    def n_states(self) -> int:
        """Elements of the space of states."""
        return size_of(self.states) or 0

    @property
    def n_actions(self) -> int:
        """Elements of the space of actions."""
        return size_of(self.actions) or 0

    @property
    def is_plain(self) -> bool:
        """Whether both are ``Discrete``, so that a table ``P`` can be about them."""
        from gymnasium import spaces

        return isinstance(self.states, spaces.Discrete) and isinstance(self.actions, spaces.Discrete)

    def element(self, state: int) -> Any:
        """The state as the environment has it."""
        return element_of(self.states, state)

    def action(self, number: int) -> Any:
        """The action as ``env.step`` takes it."""
        return element_of(self.actions, number)

    def observation(self, state: int) -> Any:
        """What is observed in a state; None after an end."""
        if state >= self.n_states:
            return None
        found = self.element(state)
        return found if self.shown is None else found[: self.shown]

    def action_number(self, answer: Any) -> int | None:
        """The number of an action; None for what is none."""
        return number_of(self.actions, answer)

    @property
    def actions_in_words(self) -> str:
        """Which answers are actions."""
        return f"an action, {in_words(self.actions)}"

    def state_number(self, what: str, element: Any) -> int:
        """The number of the state with this element; ``what`` says where it was found."""
        number = number_of(self.states, element)
        if number is None:
            raise InputError(f"{what} is {shown(element, 40)}; observations are {in_words(self.states)}")
        return number

    def observed(self, what: str, env: Any, observation: Any) -> int:
        """The number of the state that an environment is in when it shows this."""
        if self.shown is not None and isinstance(observation, tuple):
            observation = (*observation, int(tuple(sorted(env.unwrapped.player)) == NATURAL))
        return self.state_number(what, observation)


def spaces_of(env: Any, who: str) -> Spaces:
    """The spaces of an environment, if they can be counted; ``who`` asks, for the messages."""
    try:
        import gymnasium
        from gymnasium.envs.toy_text.blackjack import BlackjackEnv
    except ImportError:
        raise MissingExtraError(f'{who} needs gymnasium; install it with: pip install "cautious[gym]"') from None
    if not isinstance(env, gymnasium.Env):
        raise IncompatibleError(
            f"env must be a gymnasium.Env, found {type(env).__name__}; make one with gymnasium.make(name)"
        )
    for name, space in (("observation_space", env.observation_space), ("action_space", env.action_space)):
        if size_of(space) is None:
            raise IncompatibleError(
                f"env.{name} is {space}; {who} needs Discrete, MultiDiscrete or a Tuple of them, so that states and "
                "actions can be counted"
            )
    bare = env.unwrapped
    if (
        isinstance(bare, BlackjackEnv)
        and env.observation_space == bare.observation_space
        and (bare.sab or bare.natural)
    ):
        parts = bare.observation_space.spaces
        states = gymnasium.spaces.Tuple((*parts, gymnasium.spaces.Discrete(2)))
        return Spaces(states, env.action_space, len(parts))
    return Spaces(env.observation_space, env.action_space)


def deal(env: Any, element: tuple[int, ...]) -> None:
    """Put Blackjack into a state; the dealer's second card is drawn, as nothing observed says anything about it."""
    from gymnasium.envs.toy_text.blackjack import draw_card

    bare = env.unwrapped
    total, card, has_ace, *natural = element
    # play is over above 21: no step begins there, and one more card would lead to a sum that is not in the space
    total = min(total, MOST_POINTS)
    hand: tuple[int, ...] = (1, total - 11) if has_ace else (total,)
    if hand == NATURAL and not any(natural):
        hand = SOFT_21
    bare.player, bare.dealer = list(hand), [card, draw_card(bare.np_random)]
