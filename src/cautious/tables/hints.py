"""Which column of a table may be meant by one that is not there: by another word for it, its letters, or what is left.

A column that is in use is never named, and where nothing speaks for one a question mark stands in its place.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from difflib import get_close_matches

from cautious.checks import did_you_mean

# what people call the columns of models and logs
OTHER_WORDS: Mapping[str, tuple[str, ...]] = {
    "state": ("s", "from", "from_state", "state_from", "current", "current_state", "obs", "observation", "condition"),
    "action": ("a", "act", "move", "decision", "choice", "control", "what_to_do"),
    "next_state": ("next", "to", "s2", "s_next", "next_s", "new_state", "to_state", "state_to", "becomes", "successor"),
    "probability": ("p", "pr", "prob", "probs", "chance", "chances", "likelihood"),
    "reward": ("r", "pay", "pays", "payoff", "gain", "profit", "income", "cost", "costs"),
}
COSTS = ("cost", "costs")
SHOWN = 20


def listed(there: Sequence[Hashable]) -> str:
    """The columns of a table, in words."""
    more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
    return (", ".join(repr(name) for name in there[:SHOWN]) or "none") + more


def column_near(word: Hashable, known: Iterable[Hashable]) -> str:
    """A question that names the nearest known column; nothing where none is near."""
    return did_you_mean(word, list(known), _letters)


def unused(names: Mapping[str, Hashable], wanted: Iterable[str], there: Sequence[Hashable]) -> list[Hashable]:
    """Columns of the table that are not yet any of the wanted ones."""
    taken = [names.get(column, column) for column in wanted]
    return [name for name in there if name not in taken]


def guesses(lacking: Iterable[str], free: Sequence[Hashable]) -> dict[str, Hashable]:
    """The free column that each of the lacking ones may be; those that cannot be guessed are left out."""
    missing, left, found = list(lacking), list(free), {}
    for by_letters in (False, True):
        for column in [one for one in missing if one not in found]:
            meant = _near(column, left) if by_letters else _called_otherwise(column, left)
            if meant is not None:
                found[column] = meant
                left.remove(meant)
    open_ends = [column for column in missing if column not in found]
    if len(open_ends) == len(left) == 1:
        found[open_ends[0]] = left[0]
    return found


def said(column_names: Mapping[str, Hashable]) -> str:
    """Names of columns as a problem file says them: ``columns = { state = "ward" }``."""
    pairs = ", ".join(f'{column} = "{name}"' for column, name in column_names.items())
    return f"columns = {{ {pairs} }}"


def advice(word: str, needed: Sequence[str], names: Mapping[str, Hashable], there: Sequence[Hashable]) -> str:
    """How to say which column is which, in Python, where the argument is called ``word``, and in a problem file."""
    lacking = [column for column in needed if names.get(column, column) not in there]
    filled = filled_in(needed, names, there)
    in_python = ", ".join(f"{column!r}: {filled[column]!r}" for column in lacking)
    sign = cost_note(filled.get("reward"))
    return f"say which is which, as in {word}={{{in_python}}}, or in a problem file {said(filled)}{sign}"


def filled_in(needed: Sequence[str], names: Mapping[str, Hashable], there: Sequence[Hashable]) -> dict[str, Hashable]:
    """What the needed columns are called where that is not their name: as was said, else a guess, else "?"."""
    lacking = [column for column in needed if names.get(column, column) not in there]
    free = unused(names, [*names, *needed], there)
    guessed = guesses(lacking, free)
    state = guessed.get("state", names.get("state", "state"))
    if "next_state" in lacking and "next_state" not in guessed:
        # next_condition beside condition
        words = _next_words(_letters(state))
        next_one = next((name for name in free if name not in guessed.values() and _letters(name) in words), None)
        guessed |= {} if next_one is None else {"next_state": next_one}
    called = {column: guessed.get(column, "?") if column in lacking else names.get(column, column) for column in needed}
    return {column: name for column, name in called.items() if name != column}


def cost_note(name: Hashable) -> str:
    """A reminder where costs may be taken for rewards."""
    return f" ({name!r} must then be negative: rewards are what one wants)" if _letters(name) in COSTS else ""


def _next_words(state: str) -> tuple[str, ...]:
    return tuple(word for other in ("next", "new", "after") for word in (f"{other}_{state}", f"{state}_{other}"))


def _called_otherwise(column: str, free: Sequence[Hashable]) -> Hashable | None:
    words = OTHER_WORDS.get(column, ())
    return next((name for name in free if _letters(name) in words), None)


def _near(column: str, free: Sequence[Hashable]) -> Hashable | None:
    by_letters = {_letters(name): name for name in free}
    close = get_close_matches(column, by_letters, 1, 0.75)
    return by_letters[close[0]] if close else None


def _letters(name: Hashable) -> str:
    return re.sub(r"\W+", "_", str(name).strip().lower())
