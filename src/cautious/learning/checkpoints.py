"""Checkpoints: the whole of a run in one file, written whole or not at all, continued bit for bit."""

import hashlib
import json
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cautious import storage as _storage
from cautious.errors import FileError, shown

KIND = "checkpoint"
SEALED = ("question", "counters", "parts")


class Resumable:
    """Something that changes while a run goes on: the attributes that a checkpoint keeps, by their names."""

    stored_numbers: ClassVar[tuple[str, ...]] = ()
    stored_arrays: ClassVar[tuple[str, ...]] = ()

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """JSON numbers and arrays from which ``restore`` makes the same state."""
        numbers = {name: deepcopy(getattr(self, name)) for name in self.stored_numbers}
        return numbers, {name: getattr(self, name).copy() for name in self.stored_arrays}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Continue where ``storage`` was taken, bit for bit."""
        for name in self.stored_numbers:
            setattr(self, name, header[name])
        # copies: what is continued is also changed, and arrays read from a file may not be
        for name in self.stored_arrays:
            setattr(self, name, arrays[name].copy())


@dataclass(frozen=True)
class Checkpoint:
    """``question``: what was asked; a checkpoint answers only that. ``parts``: (header, arrays) by name."""

    question: dict[str, Any]
    counters: dict[str, Any]
    parts: dict[str, tuple[dict[str, Any], dict[str, Any]]]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write to a file; the previous file is replaced only when this one is on the disk."""
        header = {
            "question": self.question,
            "counters": self.counters,
            "parts": {name: part_header for name, (part_header, _) in self.parts.items()},
        }
        arrays = {f"{name}.{key}": a for name, (_, found) in self.parts.items() for key, a in found.items()}
        _storage.write(path, KIND, header | {"digest": _digest(header, arrays)}, arrays)


def _digest(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """One number for everything: what is continued goes into compiled loops, which trust sizes and indices."""
    found = hashlib.sha256(json.dumps({name: header[name] for name in SEALED}, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(array.tobytes())
    return found.hexdigest()


def read_checkpoint(path: str | os.PathLike[str], question: dict[str, Any]) -> Checkpoint:
    """A checkpoint of the same question; that of another one is refused, and the error names what differs."""
    header, arrays = _storage.read(path, KIND)
    try:
        stored = dict(header["question"])
        for key in question.keys() - stored.keys():
            raise FileError(
                f"{path}: this checkpoint is of an older version, which did not say {key}; delete it to begin again"
            )
        for key in question | stored:
            if stored.get(key) != question.get(key):
                raise FileError(
                    f"{path}: this checkpoint belongs to another run: its {key} is {shown(stored.get(key))}, "
                    f"asked for is {shown(question.get(key))}"
                )
        if header["digest"] != _digest(header, arrays):
            raise FileError(f"{path}: the checkpoint was changed after it was written; delete it to begin again")
        parts = {}
        for name, part_header in header["parts"].items():
            parts[name] = (dict(part_header), _storage.part_of(arrays, f"{name}."))
        return Checkpoint(stored, dict(header["counters"]), parts)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path}: the checkpoint is incomplete or damaged ({error!r})") from None
