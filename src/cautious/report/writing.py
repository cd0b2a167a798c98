"""Writing text and pictures, whole or not at all."""

import os
from pathlib import Path

from cautious import storage as _storage
from cautious.errors import FileError


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file by this content, or leave it as it was: never half a file."""
    with _storage.replacing(path) as stream:
        stream.write(content)


def make_folder(path: Path) -> None:
    """Make a folder for output, or say why that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {path}: {error.strerror}") from None
