"""Our files: a zip of .npy arrays and a JSON header. Written atomically, read without pickle and without trust."""

import json
import math
import os
import secrets
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from cautious.errors import FileError, InputError

VERSION = 1
HEADER = "header.json"
LARGEST_RATIO = 200
LARGEST_HEADER = 64 * 2**20
# the zip epoch: equal contents give equal bytes
DATE = (1980, 1, 1, 0, 0, 0)
DAMAGE = (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, zlib.error)


def write(path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a file of this kind, whole or not at all."""
    text = json.dumps({"format": f"cautious {kind}", "version": VERSION, **header}, indent=1)
    with replacing(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, DATE), text)
        for name, value in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", DATE), "w", force_zip64=True) as member:
                npy.write_array(member, np.ascontiguousarray(value), allow_pickle=False)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream whose content replaces a file when all of it is on the disk; until then, the old file stays."""
    target = as_path(path)
    if not target.name or "\0" in target.name:
        raise FileError(f"cannot write {str(path)!r}: that is not the name of a file")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise FileError(f"cannot write {target}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a file of this kind; anything else is refused with the reason."""
    source = as_path(path)
    with _opened(source, "cautious") as archive:
        infos = [info for info in archive.infolist() if info.filename != HEADER]
        for info in infos:
            if not info.filename.endswith(".npy"):
                raise FileError(f"{source}: unexpected member {info.filename!r}")
        header = _read_header(source, archive, kind)
        return header, {info.filename.removesuffix(".npy"): _read_array(source, archive, info) for info in infos}


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[zipfile.ZipFile]:
    """The archive in a file; what cannot be read of it is an error of the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except DAMAGE as error:
        raise FileError(f"{path}: not a readable {kind} file, or damaged ({error})") from None


def is_ours(path: Path) -> bool:
    """Whether a file has our header; anything unreadable counts as ours, so that reading it says what is wrong."""
    try:
        with zipfile.ZipFile(path) as archive:
            return HEADER in archive.namelist() or "P.npy" not in archive.namelist()
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError):
        return True


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Arrays out of any file of ``np.savez``, those of these names that it has."""
    with _opened(path, "npz") as archive:
        infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return {name: _read_array(path, archive, infos[name]) for name in names if name in infos}


@contextmanager
def errors_of_file(path: Any, *damage: type[Exception]) -> Iterator[None]:
    """What is wrong with the content of a file is an error of the file; ``damage`` is what missing parts raise."""
    try:
        yield
    except FileError:
        raise
    except InputError as error:
        raise FileError(f"{path}: {error}") from None
    except damage as error:
        raise FileError(f"{path}: the header is incomplete or damaged ({error!r})") from None


def as_path(path: Any) -> Path:
    """A path, or an error that shows what was given."""
    try:
        return Path(path)
    except TypeError:
        raise FileError(f"expected the path of a file, found {path!r}") from None


def take(path: Any, arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """One array of the file, or an error that names it."""
    if name not in arrays:
        raise FileError(f"{path}: the array {name!r} is missing")
    return arrays[name]


def _check_ratio(source: Path, info: zipfile.ZipInfo) -> None:
    if info.file_size > LARGEST_RATIO * max(1, info.compress_size):
        raise FileError(
            f"{source}: {info.filename!r} would expand {info.compress_size} bytes to {info.file_size}; refused"
        )


def _read_header(source: Path, archive: zipfile.ZipFile, kind: str) -> dict[str, Any]:
    if HEADER not in archive.namelist() or archive.getinfo(HEADER).file_size > LARGEST_HEADER:
        raise FileError(f"{source}: not a cautious file (no usable {HEADER})")
    _check_ratio(source, archive.getinfo(HEADER))
    try:
        header = json.loads(archive.read(HEADER).decode("utf-8"))
    except ValueError as error:
        raise FileError(f"{source}: the header is damaged ({error})") from None
    if not isinstance(header, dict) or header.get("format") != f"cautious {kind}":
        found = header.get("format") if isinstance(header, dict) else header
        raise FileError(f"{source}: expected a 'cautious {kind}' file, found {found!r}")
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise FileError(f"{source}: written by a newer version (file version {version!r}, this one reads {VERSION})")
    return header


def _read_array(source: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Check the header against the stored size before allocating anything."""
    _check_ratio(source, info)
    with archive.open(info) as member:
        try:
            version = npy.read_magic(member)
            if version == (1, 0):
                shape, fortran, dtype = npy.read_array_header_1_0(member)
            elif version == (2, 0):
                shape, fortran, dtype = npy.read_array_header_2_0(member)
            else:
                raise ValueError(f"npy format {version}")
        except (ValueError, TypeError, SyntaxError) as error:
            raise FileError(f"{source}: the array {info.filename!r} is damaged ({error})") from None
        if dtype.hasobject:
            raise FileError(f"{source}: the array {info.filename!r} holds Python objects; refused")
        size = math.prod(shape) * dtype.itemsize
        if any(n < 0 for n in shape) or size > info.file_size:
            raise FileError(f"{source}: the array {info.filename!r} claims {size} bytes, the file has {info.file_size}")
        raw = member.read()
        if len(raw) != size:
            raise FileError(f"{source}: the array {info.filename!r} has {len(raw)} bytes, its header claims {size}")
        array = np.frombuffer(raw, dtype=dtype)
        return array.reshape(shape, order="F" if fortran else "C")


def plain(value: Any) -> Any:
    """JSON has no infinities and no NumPy numbers: say them as words, or as Python's own."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return {"number": repr(value)}
    return value


def unplain(value: Any) -> Any:
    """What ``plain`` was given, but for tuples, which are lists now."""
    if isinstance(value, dict):
        if set(value) == {"number"}:
            return float(value["number"])
        return {key: unplain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unplain(item) for item in value]
    return value
