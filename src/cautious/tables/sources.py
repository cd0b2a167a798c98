"""What a table is to the reader: column names, and rows that come in chunks."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from typing import Any, ClassVar

from cautious.errors import InputError


class Chunk(ABC):
    """Some rows that follow each other."""

    n_rows: int

    @abstractmethod
    def column(self, place: int) -> Any:
        """Cells (n,) of the column at this place: a tuple of texts, a list, or a NumPy or Arrow array."""


class Source(ABC):
    """A table that can be read once, in chunks. ``columns`` are the names as they stand in it."""

    name: str = "table"
    columns: list[Hashable]
    error: ClassVar[type[InputError]] = InputError
    is_text: ClassVar[bool] = False

    @abstractmethod
    def chunks(self, places: list[int]) -> Iterator[Chunk]:
        """All rows; only the columns at these places are asked for."""

    def where(self, row: int) -> str:
        """What to call a row (counted from 0) in messages."""
        return f"{self.name}, row {row} (counted from 0)"
