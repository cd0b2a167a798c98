"""Parquet and Arrow files, and pyarrow tables, by record batches; needs pyarrow (extra ``data``) for files."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol, runtime_checkable

from cautious.errors import FileError, MissingExtraError
from cautious.regular_files import opened
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
        with self._reading() as file:
            self.columns = list((_parquet(file).schema_arrow if parquet else _arrow(file).schema).names)

    def chunks(self, places: list[int]) -> Iterator[list[Any]]:
        """Batches; their buffers are checked, because a damaged file can point anywhere."""
        with self._reading() as file:
            for batch in self._batches(file, places):
                batch.validate(full=True)
                for first in range(0, batch.num_rows, CHUNK_ROWS):
                    yield batch.slice(first, CHUNK_ROWS).columns

    def _batches(self, file: BinaryIO, places: list[int]) -> Iterator[Any]:
        """The columns at these places, in this order."""
        if self.parquet:
            import pyarrow as pa

            names = [self.columns[place] for place in places]
            for batch in _parquet(file).iter_batches(batch_size=CHUNK_ROWS, columns=names, use_threads=False):
                # pyarrow keeps the order of the file
                yield batch.select(names)
                # pyarrow keeps what it has freed, as much again as the columns
                pa.default_memory_pool().release_unused()
            return
        reader = _arrow(file)
        # of its two forms only the file numbers its batches; a stream is read from the front
        numbered = getattr(reader, "get_batch", None)
        batches = reader if numbered is None else map(numbered, range(reader.num_record_batches))
        yield from (batch.select(places) for batch in batches)

    @contextmanager
    def _reading(self) -> Iterator[BinaryIO]:
        try:
            import pyarrow as pa
        except ImportError:
            raise MissingExtraError(
                f'{self.path}: Parquet and Arrow files need pyarrow; install it with: pip install "cautious[data]"'
            ) from None
        kind = "Parquet" if self.parquet else "Arrow"
        with opened(self.path) as file:
            try:
                yield file
            except FileError:
                raise
            except (pa.ArrowException, OSError, EOFError, ValueError) as error:
                raise FileError(f"{self.path}: not a readable {kind} file, or damaged ({error})") from None


def _parquet(file: BinaryIO) -> Any:
    import pyarrow.parquet as parquet

    # not mapped: the pages of the file would stay in memory beside what is read from them
    return parquet.ParquetFile(file, buffer_size=READ_BYTES, pre_buffer=False)


def _arrow(file: BinaryIO) -> Any:
    import pyarrow as pa

    mapped = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    stream = pa.BufferReader(mapped)
    return pa.ipc.open_file(stream) if mapped[:6].to_pybytes() == b"ARROW1" else pa.ipc.open_stream(stream)
