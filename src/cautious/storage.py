"""Our files: a zip of .npy arrays and a JSON header. Written atomically, read without pickle and without trust."""

import json
import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import psutil
from numpy.lib import format as npy
from numpy.typing import NDArray

from cautious.errors import FileError, InputError
from cautious.regular_files import as_path, opened, replacing, size_of

VERSION = 1
HEADER = "header.json"
LARGEST_RATIO = 200
LARGEST_HEADER = 64 * 2**20
# the zip epoch: equal contents give equal bytes
DATE = (1980, 1, 1, 0, 0, 0)
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
    LookupError,
)
# kinds of dtype: what we write ourselves, and what a caller's file may also hold
STORED_KINDS, GIVEN_KINDS = "biuf", "biufcUS"
KIND_WORDS = {STORED_KINDS: "numbers or booleans", GIVEN_KINDS: "numbers, booleans or texts"}


def write(path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a file of this kind, whole or not at all."""
    text = json.dumps({"format": f"cautious {kind}", "version": VERSION, **header}, indent=1)
    with replacing(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, DATE), text)
        for name, value in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", DATE), "w", force_zip64=True) as member:
                npy.write_array(member, np.ascontiguousarray(value), allow_pickle=False)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a file of this kind; anything else is refused with the reason."""
    source = as_path(path)
    with _archive(source, "cautious") as archive:
        infos = [info for info in archive.infolist() if info.filename != HEADER]
        for info in infos:
            if not info.filename.endswith(".npy"):
                raise FileError(f"{source}: unexpected member {info.filename!r}")
        header = _read_header(source, archive, kind)
        return header, {
            info.filename.removesuffix(".npy"): _read_array(source, archive, info, STORED_KINDS) for info in infos
        }


@contextmanager
def _archive(path: Path, kind: str) -> Iterator[zipfile.ZipFile]:
    """The archive in a file; what cannot be read of it is an error of the file."""
    with opened(path) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                yield archive
        except FileError:
            raise
        except DAMAGE as error:
            raise FileError(f"{path}: not a readable {kind} file, or damaged ({error})") from None


def is_ours(path: Path) -> bool:
    """Whether a file has our header; anything damaged counts as ours, so that reading it says what is wrong."""
    with opened(path) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                names = archive.namelist()
                return HEADER in names or "P.npy" not in names
        except DAMAGE:
            return True


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Arrays out of any file of ``np.savez``, those of these names that it has."""
    with _archive(path, "npz") as archive:
        infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return {name: _read_array(path, archive, infos[name], GIVEN_KINDS) for name in names if name in infos}


def read_npy(path: Path) -> NDArray[Any]:
    """The array in a file of ``np.save``."""
    with opened(path) as stream:
        try:
            return _array_of(path, path.name, stream, size_of(stream), GIVEN_KINDS)
        except OSError as error:
            raise FileError(f"{path}: cannot be read ({error.strerror})") from None


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
    except (ValueError, RecursionError) as error:
        raise FileError(f"{source}: the header is damaged ({error})") from None
    if not isinstance(header, dict) or header.get("format") != f"cautious {kind}":
        found = header.get("format") if isinstance(header, dict) else header
        raise FileError(f"{source}: expected a 'cautious {kind}' file, found {found!r:.200}")
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        found = f"file version {version!r:.80}, this one reads {VERSION}"
        raise FileError(f"{source}: written by a newer version ({found})")
    return header


def _read_array(source: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, kinds: str) -> NDArray[Any]:
    _check_ratio(source, info)
    with archive.open(info) as member:
        return _array_of(source, info.filename, member, info.file_size, kinds)


def _array_of(source: Path, name: str, stream: IO[bytes], n_bytes: int, kinds: str) -> NDArray[Any]:
    """An array of one of these kinds of dtype; its header is checked against the stored size before any allocation."""
    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = npy.read_array_header_2_0(stream)
        else:
            raise ValueError(f"npy format {version}")
    except OSError:
        raise
    # NumPy evaluates the header as a Python literal: on damaged ones it raises whatever its code meets
    except Exception as error:
        raise FileError(f"{source}: the array {name!r} is damaged ({error!s:.200})") from None
    if dtype.kind not in kinds or dtype.itemsize == 0:
        words = "holds Python objects" if dtype.hasobject else f"has dtype {dtype!s:.80}"
        raise FileError(f"{source}: the array {name!r} {words}; expected {KIND_WORDS[kinds]}")
    size = math.prod(shape) * dtype.itemsize
    if any(not 0 <= n < 2**62 for n in shape) or size > n_bytes:
        raise FileError(f"{source}: the array {name!r} of shape {shape} claims {size} bytes, the file has {n_bytes}")
    if size > psutil.virtual_memory().total:
        raise FileError(f"{source}: the array {name!r} has {size} bytes, more than the memory of this machine")
    # one more shows whether there is more than the header claims
    raw = stream.read(size + 1)
    if len(raw) != size:
        raise FileError(f"{source}: the array {name!r} does not have the {size} bytes that its header claims")
    return np.frombuffer(raw, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def part_of(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


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
