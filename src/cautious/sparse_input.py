"""Sparse matrices of the caller, brought to rows that compiled loops may trust.

SciPy converts between its formats without looking at the index arrays, which a caller can replace or change. Indices
out of range then read or write foreign memory. Here the arrays of every format are checked first, and the rows are
built from these arrays alone: flags such as ``has_canonical_format`` are not believed.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import psutil
import scipy.sparse as sp
from numpy.typing import NDArray

from cautious.errors import InputError

REAL = "biuf"
# arrays with an entry of 8 bytes for each row while a matrix is converted and checked: two index pointers and a sum
ARRAYS_OF_ROWS = 3
MISSING_ENTRY = (TypeError, ValueError, OverflowError, AttributeError, KeyError)


def as_rows(name: str, matrix: Any) -> sp.csr_array:
    """A sparse matrix as float64 CSR with sorted indices and summed duplicates; it shares no memory with the caller's.

    The error names the datum and the index array that is wrong.
    """
    shape = _shape(name, matrix)
    builder = _BUILDERS.get(matrix.format)
    if builder is None:
        raise InputError(f"{name} is a sparse matrix of the format {matrix.format!r}; expected {', '.join(_BUILDERS)}")
    try:
        built = builder(name, matrix, shape)
    except MISSING_ENTRY as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}: the sparse matrix is damaged ({error})") from None
    rows = sp.csr_array(built)
    rows.sum_duplicates()
    return rows


def stored_dtype(matrix: Any) -> Any:
    """The dtype of the stored numbers; float64 if the matrix cannot tell, which ``as_rows`` then refuses."""
    try:
        return np.dtype(matrix.dtype)
    except (TypeError, AttributeError):
        return np.dtype(np.float64)


def _shape(name: str, matrix: Any) -> tuple[int, int]:
    shape = matrix.shape
    if len(shape) != 2 or min(shape) < 0:
        raise InputError(f"{name} is a sparse array of shape {shape}; expected two dimensions, neither negative")
    needed, memory = 8 * ARRAYS_OF_ROWS * (shape[0] + 1), psutil.virtual_memory().total
    if needed > memory:
        raise InputError(
            f"{name} has shape {shape}: checking so many rows takes {needed} bytes, and this machine has {memory}"
        )
    return int(shape[0]), int(shape[1])


def _from_compressed(name: str, matrix: Any, shape: tuple[int, int]) -> Any:
    """CSR and CSC."""
    major, minor = shape if matrix.format == "csr" else shape[::-1]
    pointer, indices = _indices(name, "indptr", matrix.indptr), _indices(name, "indices", matrix.indices)
    data = _numbers(name, matrix.data, 1)
    stored = _check_pointer(name, pointer, major, min(indices.size, data.shape[0]))
    _check_range(name, "indices", indices[:stored], 0, minor)
    kind = sp.csr_array if matrix.format == "csr" else sp.csc_array
    return kind((data[:stored], indices[:stored], pointer), shape=shape)


def _from_blocks(name: str, matrix: Any, shape: tuple[int, int]) -> Any:
    pointer, indices = _indices(name, "indptr", matrix.indptr), _indices(name, "indices", matrix.indices)
    blocks = _numbers(name, matrix.data, 3)
    high, wide = blocks.shape[1:]
    if high < 1 or wide < 1 or shape[0] % high or shape[1] % wide:
        raise InputError(f"{name}: blocks of {high} by {wide} do not divide the shape {shape} of the sparse matrix")
    stored = _check_pointer(name, pointer, shape[0] // high, min(indices.size, blocks.shape[0]))
    _check_range(name, "indices", indices[:stored], 0, shape[1] // wide)
    return sp.bsr_array((blocks[:stored], indices[:stored], pointer), shape=shape)


def _from_coordinates(name: str, matrix: Any, shape: tuple[int, int]) -> Any:
    row, column = (_indices(name, "coords", index) for index in matrix.coords)
    return _placed(name, _numbers(name, matrix.data, 1), row, column, shape)


def _from_keys(name: str, matrix: Any, shape: tuple[int, int]) -> Any:
    """DOK: a dictionary with keys (row, column)."""
    keys = np.array(list(matrix.keys())) if len(matrix) else np.empty((0, 2), np.int64)
    if keys.ndim != 2 or keys.shape[1] != 2:
        raise InputError(f"{name}: every key of the sparse matrix must be a pair (row, column)")
    row, column = (_indices(name, "keys", keys[:, axis]) for axis in (0, 1))
    return _placed(name, _numbers(name, np.array(list(matrix.values())), 1), row, column, shape)


def _from_lists(name: str, matrix: Any, shape: tuple[int, int]) -> Any:
    """LIL: for every row a list of columns, and a list of as many numbers."""
    if len(matrix.rows) != shape[0] or len(matrix.data) != shape[0]:
        raise InputError(
            f"{name}: the sparse matrix has {len(matrix.rows)} lists of columns and {len(matrix.data)} lists of "
            f"numbers; expected {shape[0]} of each"
        )
    for row, (columns, numbers) in enumerate(zip(matrix.rows, matrix.data, strict=True)):
        if not (isinstance(columns, list) and isinstance(numbers, list) and len(columns) == len(numbers)):
            raise InputError(
                f"{name}: row {row} of the sparse matrix has the columns {columns!r:.80} and the numbers "
                f"{numbers!r:.80}; expected two lists of equal lengths"
            )
    lengths = [len(columns) for columns in matrix.rows]
    line = np.repeat(np.arange(shape[0]), lengths)
    column = _indices(name, "rows", _flat(matrix.rows))
    return _placed(name, _numbers(name, _flat(matrix.data), 1), line, column, shape)


def _flat(lists: Sequence[list[Any]]) -> NDArray[Any]:
    return np.array(list(chain.from_iterable(lists)))


def _from_diagonals(name: str, matrix: Any, shape: tuple[int, int]) -> Any:
    offsets, diagonals = _indices(name, "offsets", matrix.offsets), _numbers(name, matrix.data, 2)
    if offsets.size != diagonals.shape[0]:
        raise InputError(
            f"{name}: the sparse matrix has {offsets.size} offsets and {diagonals.shape[0]} diagonals; expected as many"
        )
    if np.unique(offsets).size != offsets.size:
        raise InputError(f"{name}: an offset of the sparse matrix comes twice, in {offsets.tolist()!r:.80}")
    _check_range(name, "offsets", offsets, 1 - shape[0], shape[1])
    return sp.dia_array((diagonals, offsets), shape=shape)


_BUILDERS = {
    "csr": _from_compressed,
    "csc": _from_compressed,
    "coo": _from_coordinates,
    "bsr": _from_blocks,
    "dia": _from_diagonals,
    "dok": _from_keys,
    "lil": _from_lists,
}


def _placed(name: str, data: NDArray[Any], row: NDArray[Any], column: NDArray[Any], shape: tuple[int, int]) -> Any:
    """Numbers at rows and columns, as many of each."""
    if not data.size == row.size == column.size:
        raise InputError(
            f"{name}: the sparse matrix has {data.size} numbers, {row.size} rows and {column.size} columns of entries; "
            "expected as many of each"
        )
    _check_range(name, "rows", row, 0, shape[0])
    _check_range(name, "columns", column, 0, shape[1])
    return sp.coo_array((data, (row, column)), shape=shape)


def _indices(name: str, part: str, value: Any) -> NDArray[Any]:
    """An index array, copied: what is sorted later must not be the caller's, and copies are aligned."""
    array = np.array(value)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name}: {part} of the sparse matrix has shape {array.shape} and dtype {array.dtype}; expected whole "
            "numbers in one dimension"
        )
    # kinds of other sizes and byte orders are not known to compiled loops
    if array.dtype not in (np.int32, np.int64):
        _check_range(name, part, array, np.iinfo(np.int64).min, np.iinfo(np.int64).max)
        array = array.astype(np.int64)
    return array


def _numbers(name: str, value: Any, n_axes: int) -> NDArray[np.float64]:
    """The stored numbers, copied."""
    array = np.asarray(value)
    if array.size == 0 and array.dtype.kind == "O":
        array = array.astype(np.float64)
    if array.dtype.kind not in REAL:
        raise InputError(f"{name} must hold real numbers, found dtype {array.dtype}")
    if array.ndim != n_axes:
        raise InputError(f"{name}: the stored numbers have shape {array.shape}; expected {n_axes} dimensions")
    return np.array(array, dtype=np.float64, order="C")


def _check_pointer(name: str, pointer: NDArray[Any], n_major: int, available: int) -> int:
    """The number of stored entries; a pointer that does not divide them among ``n_major`` rows is refused."""
    if pointer.size != n_major + 1:
        raise InputError(
            f"{name}: the sparse matrix's index pointer has {pointer.size} entries; expected {n_major + 1}"
        )
    # compared and not subtracted, because a difference can overflow
    if pointer[0] != 0 or np.any(pointer[1:] < pointer[:-1]) or pointer[-1] > available:
        raise InputError(
            f"{name}: the sparse matrix's index pointer is inconsistent (it ends at {pointer[-1]}); it must begin at "
            f"0, never fall and end at most at {available}, the number of stored entries"
        )
    return int(pointer[-1])


def _check_range(name: str, part: str, indices: NDArray[Any], low: int, end: int) -> None:
    bad = (indices < low) | (indices >= end)
    if bad.any():
        found = indices[int(np.argmax(bad))]
        raise InputError(
            f"{name}: the sparse matrix has the index {found} among its {part}; expected {low} to {end - 1}"
        )
