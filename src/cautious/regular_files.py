"""The one gate for paths and files: everything that is read from or written to the disk is opened here.

Only regular files are read, after links are followed: a pipe may block for ever and a device may never end. The kind is
looked at again on the open descriptor, which was opened without waiting, so that nothing can be exchanged in between.
Files are written beside their target under a temporary name, flushed and renamed. The writer holds a lock on the
temporary file; one without a lock was left by a process that is gone, and the next write to the target removes it.
"""

import glob
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from cautious.errors import FileError, shown

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

COMMON_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READ_FLAGS = os.O_RDONLY | COMMON_FLAGS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | COMMON_FLAGS
PIECE_BYTES = 2**20
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def as_path(path: Any) -> Path:
    """A path, or an error that shows what was given."""
    try:
        found = Path(path)
        encoded = os.fsencode(found)
    except (TypeError, ValueError):
        raise FileError(f"expected the path of a file, found {shown(path, 200)}") from None
    if b"\0" in encoded:
        raise FileError(f"{str(path)!r:.200} is not the name of a file: it has a null character")
    return found


def exists(path: Any) -> bool:
    """Whether there is anything at a path; where that may not be looked at, an error says why."""
    try:
        os.stat(as_path(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise FileError(f"{_short(path)}: {error.strerror}") from None
    return True


def opened(path: Any, largest: int | None = None) -> BinaryIO:
    """A regular file of at most ``largest`` bytes to read from; anything else is refused with the reason."""
    source = as_path(path)
    descriptor = -1
    try:
        _refuse_other_kinds(source, os.stat(source).st_mode)
        descriptor = os.open(source, READ_FLAGS)
        found = os.fstat(descriptor)
        _refuse_other_kinds(source, found.st_mode)
        if largest is not None and found.st_size > largest:
            raise FileError(f"{source}: has {found.st_size} bytes; at most {largest} are read")
        stream = os.fdopen(descriptor, "rb")
        descriptor = -1
        return stream
    except FileNotFoundError:
        raise FileError(f"{_short(source)}: no such file") from None
    except OSError as error:
        raise FileError(f"{_short(source)}: cannot be read ({error.strerror})") from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def content(path: Any, largest: int) -> bytes:
    """All bytes of a regular file of at most ``largest`` bytes."""
    found = bytearray()
    with opened(path, largest) as stream:
        try:
            while piece := stream.read(PIECE_BYTES):
                found += piece
                # some files of the system claim to be empty and go on for ever
                if len(found) > largest:
                    raise FileError(f"{path}: goes on after {largest} bytes; no more are read")
        except OSError as error:
            raise FileError(f"{path}: cannot be read ({error.strerror})") from None
    return bytes(found)


def size_of(stream: BinaryIO) -> int:
    """How many bytes an open file has."""
    return os.fstat(stream.fileno()).st_size


def check_writable(path: Any) -> None:
    """Refuse now, before any work, a file that could not be written: no such folder, or not allowed."""
    target = _target(path)
    try:
        if not target.parent.is_dir():
            raise FileError(f"cannot write {_short(target)}: there is no folder {_short(target.parent)}")
        _refuse_target(target)
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise FileError(f"cannot write {target}: files may not be made in the folder {target.parent}")
    except OSError as error:
        raise FileError(f"cannot write {_short(target)}: {error.strerror}") from None


def make_folder(path: Any) -> Path:
    """Make a folder for output, or say why that cannot be."""
    folder = as_path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {_short(folder)}: {error.strerror}") from None
    return folder


@contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """A stream whose content replaces a file when all of it is on the disk; until then, the old file stays."""
    target = _target(path)
    temporary: Path | None = None
    try:
        _refuse_target(target)
        _remove_abandoned(target)
        temporary, stream = _claimed(target)
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if fcntl is not None:
                # before the lock ends with the stream: a file without a lock counts as abandoned
                os.replace(temporary, target)
                temporary = None
        if temporary is not None:
            os.replace(temporary, target)
            temporary = None
    except OSError as error:
        raise FileError(f"cannot write {_short(target)}: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()


def _target(path: Any) -> Path:
    target = as_path(path)
    if not target.name:
        raise FileError(f"cannot write {str(path)!r}: that is not the name of a file")
    return target


def _refuse_other_kinds(source: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise FileError(f"{source}: {KINDS.get(stat.S_IFMT(mode), 'something else')}; expected a regular file")


def _refuse_target(target: Path) -> None:
    """Refuse to put a file in the place of a folder, a pipe or a device."""
    with suppress(FileNotFoundError):
        mode = os.stat(target).st_mode
        if not stat.S_ISREG(mode):
            raise FileError(f"cannot write {target}: it is {KINDS.get(stat.S_IFMT(mode), 'no regular file')}")


def _claimed(target: Path) -> tuple[Path, BinaryIO]:
    """A new temporary file beside the target, and its stream, which holds the lock."""
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
        stream = os.fdopen(os.open(temporary, WRITE_FLAGS, 0o666), "wb")
        try:
            _lock(stream)
        except BlockingIOError:
            # another process takes it for abandoned, and is about to remove it
            stream.close()
            continue
        except OSError:
            # a file system without locks, where nothing is taken for abandoned
            return temporary, stream
        if os.fstat(stream.fileno()).st_nlink > 0:
            return temporary, stream
        stream.close()


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of this target whose process is gone; what cannot be opened, locked or removed stays."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{16}\.part")
    for left in glob.glob(glob.escape(str(target.parent)) + "/.*.part"):
        if not pattern.fullmatch(os.path.basename(left)):
            continue
        with suppress(OSError, FileError):
            if fcntl is None:
                os.unlink(left)
            else:
                with opened(left) as stream:
                    _lock(stream)
                    os.unlink(left)


def _lock(stream: BinaryIO) -> None:
    """Lock the file of a stream; BlockingIOError if another stream holds the lock."""
    if fcntl is not None:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _short(path: Any) -> str:
    """A path for a message, where it may be longer than any file system allows."""
    text = str(path)
    return text if len(text) <= 400 else f"{text[:200]} and {len(text) - 200} more characters"
