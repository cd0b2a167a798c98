"""The labels of a log: what the states and actions of its model are called, and which label is meant."""

from collections.abc import Hashable

from cautious.errors import InputError
from cautious.models.added_states import free_name


def names_of(labels: tuple[Hashable, ...], extra: tuple[str, ...]) -> tuple[str, ...]:
    """Names for labels and added states: their texts; where two look the same, 1 and "1", as Python writes them."""
    names = tuple(str(label) for label in labels)
    if len(set(names)) < len(names):
        names = tuple(repr(label) for label in labels)
    for name in extra:
        names = (*names, free_name(name, names))
    return names


def as_written(labels: tuple[Hashable, ...], label: Hashable) -> Hashable:
    """The label, or where it is a text that is none, the only one that is written so."""
    alike = [known for known in labels if isinstance(label, str) and str(known) == label]
    return alike[0] if label not in labels and len(alike) == 1 else label


def number_of(kind: str, labels: tuple[Hashable, ...], label: Hashable) -> int:
    """The place of a label; ``kind`` says what of, for the message."""
    try:
        return labels.index(label)
    except ValueError:
        some = ", ".join(f"{known!r:.40}" for known in labels[:5])
        raise InputError(f"{kind} {label!r:.80} is not in the log; it has {len(labels)}, such as {some}") from None
