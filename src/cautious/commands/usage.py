"""What is said about a line that was typed wrong, and how it should be typed."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

# options that take several values, separated by commas, and those whose one value may hold blanks
LISTS = ("--cautions", "--methods", "--reward-range")
TEXTS = ("--risk", "--start")
# what is said when a value was taken apart: a part is left over, or looks like an option
LEFT_OVER = re.compile(r"unexpected extra argument|No such option: -[0-9.]")


def usage(error: Any, arguments: Sequence[str]) -> str:
    """What is wrong with the line, and where to look."""
    place = "cautious" if error.ctx is None else error.ctx.command_path
    message = error.format_message().rstrip(".")
    hint = split_value(arguments) if LEFT_OVER.search(message) else ""
    return f"{message}{hint} ({place} --help shows how)"


def split_value(arguments: Sequence[str]) -> str:
    """How to write the value that the shell took apart, as in ``--cautions 0 1 10``; empty where none is."""
    for at, word in enumerate(arguments):
        if word not in (*LISTS, *TEXTS):
            continue
        parts = _parts(word, arguments[at + 1 :])
        if len(parts) > 1 and word in LISTS:
            return f"; separate values by commas, as in {word} {','.join(part.strip(',') for part in parts)}"
        if len(parts) > 1:
            return f"; a value with blanks needs quotes, as in {word} {shlex.quote(' '.join(parts))}"
    return ""


def _parts(option: str, rest: Sequence[str]) -> list[str]:
    """The words after an option that may all be its value: up to the next option, or to what is no number."""
    parts: list[str] = []
    for word in rest:
        number = _is_number(word)
        if (word.startswith("-") and not number) or (option in ("--cautions", "--reward-range") and not number):
            break
        parts.append(word)
    return parts


def _is_number(word: str) -> bool:
    try:
        return bool([float(part) for part in word.strip(",").split(",")])
    except ValueError:
        return False
