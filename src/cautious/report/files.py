"""Writing text and pictures: under a temporary name in the same folder, flushed, then renamed."""

import os
import secrets
from pathlib import Path

from cautious.errors import FileError


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file by this content, or leave it as it was: never half a file."""
    target = Path(path)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(6)}.part"
    try:
        with open(temporary, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise FileError(f"cannot write {target}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
