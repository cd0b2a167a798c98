"""Writing text and pictures, whole or not at all."""

import os

from cautious import _storage


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file by this content, or leave it as it was: never half a file."""
    with _storage.replacing(path) as stream:
        stream.write(content)
