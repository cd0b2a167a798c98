"""Variables of MATLAB files of level 5, which ``save -v6`` and ``-v7`` write: arrays, sparse matrices, cells of these.

SciPy's reader does not check the tags of a file, and a damaged one ends the process. Here every tag, length and count
is checked before it is used, and nothing is unpacked beyond what the caller allows.

A file is a header of 128 bytes and elements; an element is a tag (type and length), its contents, and zeros up to a
multiple of eight bytes, or with contents of at most four bytes all of it in eight. An array is an element that holds
others: flags, sizes, name, and then numbers, cells, or the three arrays of a compressed sparse column matrix.
"""

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# of the header, and where it says which version it is and in which order bytes are
HEADER, VERSION, ORDER = 128, slice(124, 126), slice(126, 128)
TAG = 8
# numbers of types of contents, with NumPy's name for them; 15 is a compressed element and 14 an array
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
ARRAY, COMPRESSED = 14, 15
# classes of arrays
NUMBERS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
CELL, SPARSE = 1, 5
COMPLEX = 0x0800
# flags, sizes and name of a variable are among so many bytes of it
HEAD = 4096


class DamagedError(ValueError):
    """A file that is not what it says, or holds what is not read; the text says what."""


def variables(stream: BinaryIO, size: int, wanted: Sequence[str], limit: int) -> dict[str, Any]:
    """The ``wanted`` variables of a file of ``size`` bytes, of which none may take more than ``limit`` bytes."""
    header = stream.read(HEADER)
    orders = {b"IM": "<", b"MI": ">"}
    order = orders.get(header[ORDER])
    if len(header) < HEADER or order is None:
        raise DamagedError("it has no header of MATLAB")
    if struct.unpack(order + "H", header[VERSION])[0] >> 8 != 1:
        raise DamagedError("a MATLAB file of version 7.3, or a later one; save it with -v7")
    found, place = {}, HEADER
    while place < size:
        kind, length = struct.unpack(order + "II", _exactly(stream, TAG))
        place += TAG + length
        if place > size:
            raise DamagedError(f"an element of {length} bytes does not fit into the file")
        if kind == COMPRESSED:
            unpack = zlib.decompressobj()
            name = _name(order, _unpacked(unpack, _exactly(stream, length), HEAD))
            if name in wanted:
                stream.seek(place - length)
                found[name] = _variable(order, name, _whole(_exactly(stream, length), limit))
        elif kind == ARRAY:
            name = _name(order, struct.pack(order + "II", kind, length) + _exactly(stream, min(length, HEAD)))
            stream.seek(place - length)
            if name in wanted:
                if length > limit:
                    raise DamagedError(f"{name} takes {length} bytes, too many for a file of this size")
                found[name] = _variable(order, name, struct.pack(order + "II", kind, length) + _exactly(stream, length))
        # the next element begins here, whatever was read of this one
        stream.seek(place)
    return found


def _exactly(stream: BinaryIO, count: int) -> bytes:
    read = stream.read(count)
    if len(read) < count:
        raise DamagedError("it ends too early")
    return read


def _unpacked(unpack: Any, packed: bytes, most: int) -> bytes:
    try:
        return bytes(unpack.decompress(packed, most))
    except zlib.error as error:
        raise DamagedError(f"a compressed variable cannot be unpacked: {error}") from None


def _whole(packed: bytes, limit: int) -> bytes:
    unpack = zlib.decompressobj()
    whole = _unpacked(unpack, packed, limit)
    if not unpack.eof:
        more = "is too large for a file of this size" if unpack.unconsumed_tail else "ends too early"
        raise DamagedError(f"a compressed variable {more}")
    return whole


class _Elements:
    """The elements of some bytes, one after the other."""

    def __init__(self, order: str, content: memoryview) -> None:
        self.order, self.content, self.place = order, content, 0

    def tag(self) -> tuple[int, int, int, int]:
        """Type and length of the next element, where its contents begin, and where the element after it does."""
        if len(self.content) - self.place < TAG:
            raise DamagedError("an array ends too early")
        first, second = struct.unpack_from(self.order + "II", self.content, self.place)
        if first >> 16:
            return first & 0xFFFF, first >> 16, self.place + 4, self.place + TAG
        begin = self.place + TAG
        return first, second, begin, begin + -(-second // 8) * 8

    def next(self, part: str, most: int | None = None) -> tuple[int, memoryview]:
        """Type and contents of the next element."""
        kind, length, begin, after = self.tag()
        if begin + length > len(self.content) or (most is not None and length > most):
            raise DamagedError(f"its {part} of {length} bytes do not fit into the array")
        # the zeros after the last element may be missing
        self.place = min(after, len(self.content))
        return kind, self.content[begin : begin + length]

    def numbers(self, part: str) -> NDArray[Any]:
        """The next element as numbers, in the order of bytes of this machine."""
        kind, content = self.next(part)
        if kind not in STORED:
            raise DamagedError(f"its {part} are of the unknown type {kind}")
        stored = np.dtype(self.order + STORED[kind])
        if len(content) % stored.itemsize:
            raise DamagedError(f"its {part} of {len(content)} bytes are no whole count of numbers")
        return np.frombuffer(content, stored).astype(stored.newbyteorder("="))


def _opened(order: str, content: memoryview) -> tuple[int, bool, tuple[int, ...], str, _Elements]:
    """Class, whether complex, sizes and name of the array in an element, and its further elements."""
    kind, inside = _Elements(order, content).next("contents") if len(content) >= TAG else (0, content)
    if kind != ARRAY:
        raise DamagedError(f"an element of type {kind} where an array is expected")
    return _described(_Elements(order, inside))


def _described(elements: _Elements) -> tuple[int, bool, tuple[int, ...], str, _Elements]:
    flags, sizes = elements.numbers("flags"), elements.numbers("sizes")
    if flags.dtype != np.uint32 or flags.size != 2 or sizes.dtype.kind not in "iu" or sizes.size < 2 or sizes.min() < 0:
        raise DamagedError("an array without flags and sizes")
    _, name = elements.next("name")
    shape = tuple(int(size) for size in sizes)
    return int(flags[0]) & 0xFF, bool(int(flags[0]) & COMPLEX), shape, bytes(name).decode("latin-1"), elements


def _name(order: str, head: bytes) -> str:
    """The name of the variable that begins with these bytes, of which the end may be missing."""
    kind, _, begin, _ = _Elements(order, memoryview(head)).tag()
    if kind != ARRAY:
        return ""
    return _described(_Elements(order, memoryview(head)[begin:]))[3]


def _variable(order: str, name: str, content: bytes) -> Any:
    try:
        return _value(order, memoryview(content))
    except DamagedError as error:
        raise DamagedError(f"{name}: {error}") from None


def _value(order: str, content: memoryview, in_a_cell: bool = False) -> Any:
    """A dense array, a sparse matrix, or a list of the cells in MATLAB's order."""
    kind, is_complex, shape, _, elements = _opened(order, content)
    if is_complex:
        raise DamagedError("it is complex; expected matrices of numbers")
    if kind == CELL and not in_a_cell:
        return list(_cells(order, math.prod(shape), elements))
    if kind == SPARSE:
        return _sparse(shape, elements)
    if kind not in NUMBERS:
        raise DamagedError(f"it is of class {kind}; expected matrices of numbers")
    numbers = elements.numbers("numbers")
    if numbers.size != math.prod(shape):
        raise DamagedError(f"it has {numbers.size} numbers and the shape {shape}")
    return numbers.astype(NUMBERS[kind]).reshape(shape, order="F")


def _cells(order: str, count: int, elements: _Elements) -> Iterator[Any]:
    # an element takes eight bytes at least, so that no count makes this long
    for _ in range(count):
        begin = elements.place
        elements.next("cell")
        yield _value(order, elements.content[begin : elements.place], in_a_cell=True)


def _sparse(shape: tuple[int, ...], elements: _Elements) -> sp.csc_array:
    if len(shape) != 2:
        raise DamagedError(f"a sparse matrix of shape {shape}")
    rows, pointer = elements.numbers("row indices"), elements.numbers("column pointer")
    if rows.dtype.kind not in "iu" or pointer.dtype.kind not in "iu" or pointer.size != shape[1] + 1:
        raise DamagedError(f"a sparse matrix of shape {shape} with {pointer.size} column pointers")
    pointer, rows = pointer.astype(np.int64), rows.astype(np.int64)
    numbers = elements.numbers("numbers")
    stored = int(pointer[-1])
    if pointer[0] != 0 or np.any(pointer[1:] < pointer[:-1]) or stored > min(rows.size, numbers.size):
        raise DamagedError("a sparse matrix whose column pointer is inconsistent")
    if stored and not (rows[:stored].min() >= 0 and rows[:stored].max() < shape[0]):
        raise DamagedError(f"a sparse matrix with a row index beyond its shape {shape}")
    return sp.csc_array((numbers[:stored].astype(np.float64), rows[:stored], pointer), shape=shape)
