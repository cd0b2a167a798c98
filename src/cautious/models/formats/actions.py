"""From choices to actions: tools number the choices of each state, a model has the same actions everywhere.

If every choice has a word and no state uses a word twice, the words are the actions. Otherwise an action is the number
of a choice in its state; words then say nothing about the model.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.errors import FileError


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
