"""Tables of a problem file: which keys they may have, and words to say what is wrong."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from cautious.errors import InputError


def allow(table: Any, where: str, keys: Iterable[str]) -> None:
    """Refuse what is not a table, and the first key that is not known."""
    if not isinstance(table, Mapping):
        raise InputError(f"{where} must be a table, found {table!r}")
    known = list(keys)
    for key in table:
        if key not in known:
            raise InputError(f"{where} has an unknown key {key!r}; {_nearest(key, known)}allowed: {', '.join(known)}")


def one_of(where: str, value: Any, choices: Iterable[str]) -> str:
    """One of some words."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{where} is {value!r}; {_nearest(str(value), known)}it can be {', '.join(known)}")
    return value


def text(where: str, value: Any) -> str:
    """A name that is not empty."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{where} must be a name, found {value!r}")
    return value


def _nearest(word: str, known: list[str]) -> str:
    lower = {one.lower(): one for one in known}
    close = get_close_matches(word.lower(), lower, 1)
    return f"did you mean {lower[close[0]]!r}? " if close else ""
