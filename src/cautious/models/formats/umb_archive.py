"""The archive of a UMB file: a tar, perhaps compressed by gzip or xz, of an index in JSON and raw arrays.

Nothing is extracted to the disk, and the size of all members together is bounded.
"""

import gzip
import io
import json
import lzma
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cautious.errors import FileError
from cautious.regular_files import opened, size_of
from cautious.storage import LARGEST_RATIO

INDEX = "index.json"
LARGEST_INDEX = 64 * 2**20
FREE_BYTES = 2**24
PIECE_BYTES = 2**20
DAMAGE = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError, OverflowError)


class _Bounded(io.RawIOBase):
    """A stream that ends in an error after so many bytes."""

    def __init__(self, path: Path, stream: Any, limit: int) -> None:
        self.path, self.stream, self.left = path, stream, limit

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        piece: bytes = self.stream.read(min(size, PIECE_BYTES) if size >= 0 else PIECE_BYTES)
        self.left -= len(piece)
        if self.left < 0:
            raise FileError(f"{self.path}: unpacks to more than {LARGEST_RATIO} times its size; refused")
        return piece


@dataclass(frozen=True)
class Archive:
    """The index, and the bytes of the members that were wanted."""

    path: Path
    index: Mapping[str, Any]
    members: dict[str, bytearray]

    def array(self, name: str, dtype: str, count: int) -> NDArray[Any] | None:
        """A member as an array of so many numbers, or None if the archive does not have it; it can be taken once."""
        raw, size = self.members.pop(name, None), np.dtype(dtype).itemsize * count
        if raw is None:
            return None
        if len(raw) != size:
            raise FileError(f"{self.path}: {name} has {len(raw)} bytes; {count} entries take {size}")
        return np.frombuffer(raw, dtype)

    def bits(self, name: str, count: int) -> NDArray[np.bool_] | None:
        """A member as booleans, one bit each, padded to 8 bytes."""
        raw = self.array(name, "<u8", -(-count // 64))
        if raw is None:
            return None
        return np.unpackbits(raw.view(np.uint8), bitorder="little")[:count].astype(np.bool_)

    def pointer(self, name: str, count: int, total: int) -> NDArray[np.int64] | None:
        """A member that says where each of ``count`` intervals begins; together they cover ``total`` entries."""
        raw = self.array(name, "<u8", count + 1)
        if raw is None:
            return None
        if raw[0] != 0 or raw[-1] != total or np.any(raw[1:] < raw[:-1]):
            raise FileError(f"{self.path}: {name} does not divide {total} entries into {count} intervals")
        return raw.astype(np.int64)

    def strings(self, folder: str, count: int) -> tuple[str, ...] | None:
        """The strings of a folder."""
        if f"{folder}/string-mapping.bin" not in self.members:
            return None
        letters = bytes(self.members.pop(f"{folder}/strings.bin", b""))
        bounds = self.pointer(f"{folder}/string-mapping.bin", count, len(letters))
        assert bounds is not None
        try:
            ends = bounds.tolist()
            return tuple(letters[low:high].decode("utf-8") for low, high in pairwise(ends))
        except UnicodeDecodeError as error:
            raise FileError(f"{self.path}: {folder}/strings.bin is not UTF-8 text ({error.reason})") from None


def read(path: Path, wanted: Callable[[str], bool]) -> Archive:
    """The index and the wanted members of a UMB file."""
    members: dict[str, bytearray] = {}
    with opened(path) as raw:
        limit = FREE_BYTES + LARGEST_RATIO * size_of(raw)
        try:
            stream = _Bounded(path, _unpacked(raw), limit)
            with tarfile.open(fileobj=stream, mode="r|", errorlevel=2) as archive:
                for member in archive:
                    name = member.name.removeprefix("./").removeprefix("/")
                    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                        continue
                    if name == INDEX or wanted(name):
                        members[name] = _content(path, archive, member, limit, members)
        except FileError:
            raise
        except DAMAGE as error:
            raise FileError(f"{path}: not a readable UMB archive, or damaged ({error})") from None
    return Archive(path, _index(path, members), members)


def _unpacked(raw: BinaryIO) -> Any:
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b\x08"):
        return gzip.GzipFile(fileobj=raw)
    return lzma.LZMAFile(raw) if magic == b"\xfd7zXZ\x00" else raw


def _content(
    path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo, limit: int, have: Mapping[str, bytearray]
) -> bytearray:
    if member.name in have or member.size > limit:
        raise FileError(f"{path}: {member.name[:80]!r} comes twice, or claims {member.size} bytes")
    stream, content = archive.extractfile(member), bytearray()
    while stream is not None and (piece := stream.read(PIECE_BYTES)):
        content += piece
    if len(content) != member.size:
        raise FileError(f"{path}: {member.name[:80]!r} ends after {len(content)} of {member.size} bytes")
    return content


def _index(path: Path, members: dict[str, bytearray]) -> Mapping[str, Any]:
    if INDEX not in members or len(members[INDEX]) > LARGEST_INDEX:
        raise FileError(f"{path}: not a UMB file (no usable {INDEX})")
    try:
        index = json.loads(members.pop(INDEX).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: {INDEX} is damaged ({error})") from None
    if not isinstance(index, dict) or index.get("format-version") != 1:
        found = index.get("format-version") if isinstance(index, dict) else index
        raise FileError(f"{path}: UMB of version {found!r}; this one reads version 1")
    return index
