"""Parquet and Arrow files, and pyarrow tables, by record batches; needs pyarrow (extra ``data``) for files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from cautious.errors import FileError, MissingExtraError
from cautious.tables.sources import CHUNK_ROWS, Source

READ_BYTES = 65_536
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".arr", ".feather", ".ipc")


@runtime_checkable
class ArrowTable(Protocol):
    """What we use of ``pyarrow.Table``."""

    column_names: list[str]

    def to_batches(self, max_chunksize: int | None = None) -> list[Any]:
        """Record batches that share the memory of the table."""
        ...


class ArrowMemory(Source):
    """A pyarrow Table."""

    def __init__(self, table: ArrowTable) -> None:
        self.table, self.columns = table, list(table.column_names)

    def chunks(self, places: list[int]) -> Iterator[list[Any]]:
        """Batches of the table."""
        for batch in self.table.to_batches(max_chunksize=CHUNK_ROWS):
            yield [batch.column(place) for place in places]


class ArrowFile(Source):
    """A Parquet file, or an Arrow file in either of its two forms."""

    error = FileError

    def __init__(self, path: str | os.PathLike[str], parquet: bool) -> None:
        self.path, self.name, self.parquet = path, str(path), parquet
        with self._reading():
            self.columns = list((self._parquet().schema_arrow if parquet else self._arrow().schema).names)

    def chunks(self, places: list[int]) -> Iterator[list[Any]]:
        """Batches; their buffers are checked, because a damaged file can point anywhere."""
        with self._reading():
            for batch in self._batches(places):
                batch.validate(full=True)
                for first in range(0, batch.num_rows, CHUNK_ROWS):
                    yield batch.slice(first, CHUNK_ROWS).columns

    def _batches(self, places: list[int]) -> Iterator[Any]:
        """The columns at these places, in this order."""
        if self.parquet:
            import pyarrow as pa

            names = [self.columns[place] for place in places]
            for batch in self._parquet().iter_batches(batch_size=CHUNK_ROWS, columns=names, use_threads=False):
                # pyarrow keeps the order of the file
                yield batch.select(names)
                # pyarrow keeps what it has freed, as much again as the columns
                pa.default_memory_pool().release_unused()
            return
        reader = self._arrow()
        # of its two forms only the file numbers its batches; a stream is read from the front
        numbered = getattr(reader, "get_batch", None)
        batches = reader if numbered is None else map(numbered, range(reader.num_record_batches))
        yield from (batch.select(places) for batch in batches)

    def _parquet(self) -> Any:
        import pyarrow.parquet as parquet

        # not mapped: the pages of the file would stay in memory beside what is read from them
        return parquet.ParquetFile(self.path, buffer_size=READ_BYTES, pre_buffer=False)

    def _arrow(self) -> Any:
        import pyarrow as pa

        stream = pa.memory_map(os.fspath(self.path))
        if stream.read(6) == b"ARROW1":
            return pa.ipc.open_file(stream)
        stream.seek(0)
        return pa.ipc.open_stream(stream)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            import pyarrow as pa
        except ImportError:
            raise MissingExtraError(
                f'{self.path}: Parquet and Arrow files need pyarrow; install it with: pip install "cautious[data]"'
            ) from None
        kind = "Parquet" if self.parquet else "Arrow"
        try:
            yield
        except FileNotFoundError:
            raise FileError(f"{self.path}: no such file") from None
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            raise FileError(f"{self.path}: not a readable {kind} file, or damaged ({error})") from None
