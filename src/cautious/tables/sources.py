"""What a table is to the reader: column names, and rows that come in chunks. Tables in memory are columns or rows."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cautious.errors import InputError, shown

CHUNK_ROWS = 8_192
# above this, doubles leave out whole numbers
WHOLE_LIMIT = 2.0**53


class Source(ABC):
    """A table that can be read once, in chunks. ``columns`` are the names as they stand in it."""

    name: str = "table"
    columns: list[Hashable]
    error: ClassVar[type[InputError]] = InputError
    is_text: ClassVar[bool] = False
    # whether numbers in texts may be written 1,5
    comma_decimals: bool = False

    @abstractmethod
    def chunks(self, places: list[int]) -> Iterator[list[Any]]:
        """All rows, some at a time: for each of these places the cells (n,) of its column, a sequence or an array."""

    def where(self, row: int) -> str:
        """What to call a row (counted from 0) in messages."""
        return f"{self.name}, row {row} (counted from 0)"


class ColumnTable(Source):
    """Anything with ``table[name]``: a mapping, a DataFrame, a structured array. One chunk, converted by columns."""

    def __init__(self, table: Any, columns: Sequence[Hashable]) -> None:
        self.table, self.columns = table, list(columns)

    def chunks(self, places: list[int]) -> Iterator[list[Any]]:
        """Everything at once; all columns must have the same length."""
        found = [self._cells(place) for place in places]
        for place, cells in zip(places, found, strict=True):
            if len(cells) != len(found[0]):
                first, other = self.columns[places[0]], self.columns[place]
                raise InputError(f"table: {first!r} has {len(found[0])} rows, {other!r} has {len(cells)}")
        if len(found[0]):
            yield found

    def _cells(self, place: int) -> Any:
        """Lists stay lists: NumPy would make texts of numbers that stand beside texts."""
        values = self.table[self.columns[place]]
        if isinstance(values, list | tuple):
            return values
        if isinstance(values, str | bytes) or np.ndim(values) != 1:
            raise InputError(f"table: {self.columns[place]!r} is {shown(values)}; expected one value per row")
        # what is under a mask becomes None
        return values.tolist() if np.ma.is_masked(values) else np.asarray(values)


class RowTable(Source):
    """A list of rows: mappings with the same keys, or tuples whose cells are ``order``."""

    def __init__(self, rows: Sequence[Any], order: Sequence[str]) -> None:
        self.rows = rows
        self.by_name = bool(rows) and isinstance(rows[0], Mapping)
        self.columns = list(rows[0]) if self.by_name else list(order)

    def chunks(self, places: list[int]) -> Iterator[list[Any]]:
        """Some rows at a time; every row must have the same cells."""
        kind = Mapping if self.by_name else Sequence | np.ndarray | np.void
        names, width = set(self.columns), len(self.columns)
        for number, row in enumerate(self.rows):
            if not isinstance(row, kind) or isinstance(row, str | bytes):
                raise self._refusal(number, f"is {shown(row)}")
            if len(row) != width or (self.by_name and set(row) != names):
                raise self._refusal(number, f"has {f'the cells {list(row)}' if self.by_name else f'{len(row)} cells'}")
        keys = [self.columns[place] if self.by_name else place for place in places]
        for first in range(0, len(self.rows), CHUNK_ROWS):
            part = self.rows[first : first + CHUNK_ROWS]
            yield [[row[key] for row in part] for key in keys]

    def _refusal(self, number: int, found: str) -> InputError:
        cells = ", ".join(map(str, self.columns))
        return InputError(f"{self.where(number)} {found}; expected {len(self.columns)} cells: {cells}")


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
