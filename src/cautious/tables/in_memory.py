"""Tables in memory: columns, or rows."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.errors import InputError
from cautious.tables.sources import Chunk, Source

# above this, doubles leave out whole numbers
WHOLE_LIMIT = 2.0**53


class ColumnTable(Source, Chunk):
    """Anything with ``table[name]``: a mapping, a DataFrame, a structured array. One chunk, converted by columns."""

    def __init__(self, table: Any, columns: Sequence[Hashable]) -> None:
        self.table, self.columns, self.n_rows = table, list(columns), 0

    def chunks(self, places: list[int]) -> Iterator[Chunk]:
        """Everything at once; all columns must have the same length."""
        lengths = {place: self._length(place) for place in places}
        self.n_rows = lengths[places[0]]
        for place, length in lengths.items():
            if length != self.n_rows:
                first, other = self.columns[places[0]], self.columns[place]
                raise InputError(f"table: {first!r} has {self.n_rows} rows, {other!r} has {length}")
        if self.n_rows:
            yield self

    def _length(self, place: int) -> int:
        values = self.table[self.columns[place]]
        shape = (len(values),) if isinstance(values, list | tuple) else np.shape(values)
        if len(shape) != 1 or isinstance(values, str | bytes):
            raise InputError(f"table: {self.columns[place]!r} is {values!r:.80}; expected one value per row")
        return int(shape[0])

    def column(self, place: int) -> Any:
        """Lists stay lists: NumPy would make texts of numbers that stand beside texts."""
        values = self.table[self.columns[place]]
        if np.ma.is_masked(values):
            # what is under a mask becomes None
            return values.tolist()
        return list(values) if isinstance(values, list | tuple) else np.asarray(values)


class RowTable(Source, Chunk):
    """A list of rows: mappings with the same keys, or tuples whose cells are ``order``."""

    def __init__(self, rows: Sequence[Any], order: Sequence[str]) -> None:
        self.rows, self.n_rows = rows, len(rows)
        self.by_name = bool(rows) and isinstance(rows[0], Mapping)
        self.columns = list(rows[0]) if self.by_name else list(order)

    def chunks(self, places: list[int]) -> Iterator[Chunk]:
        """Everything at once; every row must have the same cells."""
        kind = Mapping if self.by_name else Sequence | np.ndarray | np.void
        names, width = set(self.columns), len(self.columns)
        for number, row in enumerate(self.rows):
            if not isinstance(row, kind) or isinstance(row, str | bytes):
                raise self._refusal(number, f"is {row!r:.80}")
            if len(row) != width or (self.by_name and set(row) != names):
                raise self._refusal(number, f"has {f'the cells {list(row)}' if self.by_name else f'{len(row)} cells'}")
        if self.rows:
            yield self

    def _refusal(self, number: int, found: str) -> InputError:
        cells = ", ".join(map(str, self.columns))
        return InputError(f"{self.where(number)} {found}; expected {len(self.columns)} cells: {cells}")

    def column(self, place: int) -> Any:
        """The cells of one column."""
        key = self.columns[place] if self.by_name else place
        return [row[key] for row in self.rows]


def unnamed_columns(table: Any) -> list[NDArray[Any]] | None:
    """The columns of a tuple of arrays (n,) or of an array (n, k); None for anything else."""
    if isinstance(table, tuple) and table and all(isinstance(one, np.ndarray) and one.ndim == 1 for one in table):
        return list(table)
    if isinstance(table, np.ndarray) and table.ndim == 2 and table.dtype.names is None:
        return [_whole(column) for column in table.T]
    return None


def _whole(column: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers, where a column has nothing else: one array has one kind of numbers, so that labels came as 3.0."""
    if column.dtype.kind == "f" and np.all(np.isfinite(column)) and np.all(np.abs(column) < WHOLE_LIMIT):
        whole = column.astype(np.int64)
        return whole if np.array_equal(whole, column) else column
    return column
