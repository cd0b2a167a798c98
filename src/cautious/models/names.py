"""Names of states and actions, which must be texts that a file can hold.

Importers add two states: "end", where episodes end, and "untried", where unknown pairs lead.
"""

import re
from collections.abc import Collection, Sequence
from itertools import count
from typing import Any

from cautious.checks import as_names
from cautious.errors import InputError

END, UNTRIED = "end", "untried"
SURROGATE = re.compile("[\ud800-\udfff]")


def free_name(wanted: str, taken: Collection[str]) -> str:
    """The name of an added state: as wanted, or "end 2", "end 3", ... where the model has a state called that."""
    if wanted not in taken:
        return wanted
    return next(name for number in count(2) if (name := f"{wanted} {number}") not in taken)


def model_names(name: str, value: Any, count: int) -> tuple[str, ...]:
    """``count`` different names that can be written."""
    names = as_names(name, value, count)
    check_texts(name, names)
    return names


def check_texts(name: str, texts: Sequence[str]) -> None:
    """Refuse texts that have no UTF-8: halves of characters, as broken decoders leave them."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        place = next(index for index, text in enumerate(texts) if SURROGATE.search(text))
        raise InputError(
            f"{name}[{place}] is {texts[place]!r:.80}, which holds half a character (a lone surrogate); names must be "
            "texts that can be written as UTF-8"
        ) from None
