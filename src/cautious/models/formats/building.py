"""The last steps of every reader: choices to actions, and outcomes and all else about a model to the model.

Tools number the choices of each state, a model has the same actions everywhere. If every choice has a word and no state
uses a word twice, the words are the actions. Otherwise an action is the number of a choice in its state; words then say
nothing about the model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.arrays import Array, Mask
from cautious.checks import SUM_TOLERANCE
from cautious.errors import FileError
from cautious.models.outcome_lists import OutcomeList, index_kind, merged_outcomes
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.storage import errors_of_file

# tables (S, A) are only made when the outcomes can justify their size
MOST_PAIRS = 2**31
PAIRS_PER_OUTCOME, FREE_PAIRS = 1000, 10**6


def action_of_choices(
    path: Path,
    state: NDArray[Any],
    choice: NDArray[Any],
    word: NDArray[Any],
    words: tuple[str, ...],
    known: tuple[str, ...] | None,
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """The action of each entry, and the words of the actions in their order; None: actions are numbers.

    ``word`` is negative where there is none; ``known`` is the order of the words, where a companion tells it.
    """
    if word.size == 0 or int(word.min()) < 0 or not _one_choice_each(state, choice, word, len(words)):
        if known is not None:
            raise FileError(f"{path}: every choice must have its own action out of {list(known)}")
        return choice, None
    if known is None:
        return word, words
    numbers = {name: index for index, name in enumerate(known)}
    strange = [name for name in words if name not in numbers]
    if strange:
        raise FileError(f"{path}: the action {strange[0]!r} is none of {list(known)}")
    return np.array([numbers[name] for name in words], dtype=word.dtype)[word], known


def _one_choice_each(state: NDArray[Any], choice: NDArray[Any], word: NDArray[Any], count: int) -> bool:
    """Whether choices and words of each state correspond one to one."""
    new = np.ones(state.size, np.bool_)
    new[1:] = (state[1:] != state[:-1]) | (choice[1:] != choice[:-1]) | (word[1:] != word[:-1])
    where = state[new].astype(np.int64)
    by_choice = where * (int(choice.max()) + 1) + choice[new]
    by_word = where * count + word[new]
    order = np.argsort(by_choice, kind="stable")
    by_choice, by_word = by_choice[order], by_word[order]
    fresh = np.ones(by_choice.size, np.bool_)
    fresh[1:] = by_choice[1:] != by_choice[:-1]
    same_within = bool(np.all(fresh[1:] | (by_word[1:] == by_word[:-1])))
    return same_within and np.unique(by_word[fresh]).size == int(fresh.sum())


@dataclass(frozen=True)
class ModelFacts:
    """All else about a model. ``per_outcome``: whether equal rewards of a pair's outcomes stay rewards of outcomes."""

    shape: tuple[int, int]
    discount: float
    start: Array | None
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    scene: Scene | None = None
    per_outcome: bool = False
    normalise: bool = False
    reward_square: Array | None = None


def pair_rows(path: Path, state: NDArray[Any], action: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    """The rows s*A + a of pairs, which must be enough for a table of this shape (S, A)."""
    require_pairs(path, *shape, state.size)
    kind = index_kind(shape[0] * shape[1], state.size)
    rows: NDArray[Any] = state.astype(kind)
    rows *= shape[1]
    rows += action.astype(kind, copy=False)
    return rows


def build_model(path: Path, outcomes: OutcomeList, pair_reward: Array | None, about: ModelFacts) -> MDP:
    """The model; ``pair_reward`` (S, A) or (S, 1) is paid beside the rewards of the outcomes."""
    found = merged_outcomes(about.shape, outcomes, pair_reward=pair_reward, per_outcome=about.per_outcome)
    stuck = ~found.allowed.any(axis=1)
    if stuck.any():
        state = int(stuck.argmax())
        name = state if about.state_names is None else repr(about.state_names[state])
        raise FileError(f"{path}: state {name} has no transition; a state where everything ends leads to itself")
    is_by_pair = found.rewards.shape == about.shape
    square = about.reward_square if is_by_pair and found.reward_square is None else found.reward_square
    with errors_of_file(path):
        return MDP(
            found.transitions,
            found.rewards,
            about.discount,
            about.start,
            allowed=found.allowed,
            reward_square=square,
            state_names=about.state_names,
            action_names=about.action_names,
            normalise=about.normalise,
            scene=about.scene,
        )


def require_pairs(path: Path, n_states: int, n_actions: int, n_outcomes: int) -> None:
    """Refuse tables (S, A) that a file with so many outcomes cannot be about."""
    if n_states * n_actions >= min(MOST_PAIRS, FREE_PAIRS + PAIRS_PER_OUTCOME * n_outcomes):
        raise FileError(
            f"{path}: {n_states} states times {n_actions} actions are too many pairs for {n_outcomes} outcomes"
        )


def require_probabilities(values: Array, refusal: Callable[[int, str], Exception]) -> None:
    """Refuse what is not a probability; ``refusal`` makes the error about an entry."""
    bad = ~((values >= 0) & (values <= 1 + SUM_TOLERANCE))
    if bad.any():
        entry = int(np.argmax(bad))
        raise refusal(entry, f"the probability is {values[entry]}; expected 0 to 1")


def initial_state(marked: Mask | None, source: str) -> tuple[Array | None, str | None]:
    """The start (S,) in the only state that is marked as initial; or None, and why there is none."""
    count = 0 if marked is None else int(marked.sum())
    if marked is None or count != 1:
        return None, f"{source} marks {count} states as initial, not one"
    return np.asarray(marked, dtype=np.float64), None
