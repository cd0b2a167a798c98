"""Names of the states that an importer adds: "end", where episodes end, and "untried", where unknown pairs lead."""

from collections.abc import Collection
from itertools import count

END, UNTRIED = "end", "untried"


def free_name(wanted: str, taken: Collection[str]) -> str:
    """The name of an added state: as wanted, or "end 2", "end 3", ... where the model has a state called that."""
    if wanted not in taken:
        return wanted
    return next(name for number in count(2) if (name := f"{wanted} {number}") not in taken)
