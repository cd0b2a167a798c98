"""csv files in UTF-8, with a header: separated by commas, semicolons, tabs or bars.

The header says which: what stands there most often. Where it is not the comma, numbers may have a decimal comma.

Python's csv module decides what is a row. Large files without quotation marks, for which pyarrow gives the same cells,
are read by pyarrow where it is installed, and the csv module takes over at the first row that pyarrow refuses. The line
of a row is looked up when a message needs it.
"""

import csv
import io
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, TextIO

from cautious.errors import FileError
from cautious.regular_files import opened, size_of
from cautious.tables.sources import Source

# more rows at a time are slower: 700 new lists that stay wake Python's garbage collector
CHUNK_ROWS = 600
# importing pyarrow takes as long as reading this much without it
ARROW_BYTES = 4 * 2**20
BLOCK_BYTES = 2**20
LONGEST_LINE = 16 * 2**20
SEPARATORS = (",", ";", "\t", "|")
QUOTED = re.compile(r'"[^"]*"')
OTHER_FILES = {
    b"\x1f\x8b": "; it is packed by gzip: unpack it first",
    b"\xff\xfe": "; it looks like UTF-16: save it as UTF-8",
    b"\xfe\xff": "; it looks like UTF-16: save it as UTF-8",
}
# of workbooks of today, which are zip archives, and of those before 2007
WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")


class CsvFile(Source):
    """A csv file. Quoted cells may hold commas and line ends; empty lines are skipped; a byte-order mark is allowed."""

    error = FileError
    is_text = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.name, self.separator = path, str(path), ","
        with self._opened() as reader:
            header: list[str] = next(filter(None, reader), [])
            self.header_line = reader.line_num
        self.columns = [cell.strip() for cell in header]
        if not self.columns:
            raise FileError(f"{path}: the file is empty; expected a header and rows")
        self.comma_decimals = self.separator != ","

    def where(self, row: int) -> str:
        """File and line; of a row over several lines, the last one."""
        try:
            with self._opened() as reader:
                # the header is a row as well
                next(islice(filter(None, reader), row + 1, None), None)
                return f"{self.path}, line {reader.line_num}"
        except FileError:
            # the file is gone or no longer the same
            return super().where(row)

    def chunks(self, places: list[int]) -> Iterator[list[Any]]:
        """Texts: as Arrow arrays or as tuples."""
        done, complete = yield from self._arrow_chunks(places)
        if complete:
            return
        width = len(self.columns)
        with self._opened() as reader:
            rows = islice(filter(None, reader), done + 1, None)
            while chunk := list(islice(rows, CHUNK_ROWS)):
                if set(map(len, chunk)) != {width}:
                    at = next(at for at, row in enumerate(chunk) if len(row) != width)
                    raise FileError(f"{self.where(done + at)}: {len(chunk[at])} cells; the header has {width}")
                columns = list(zip(*chunk, strict=True))
                yield [columns[place] for place in places]
                done += len(chunk)

    def _arrow_chunks(self, places: list[int]) -> Generator[list[Any], None, tuple[int, bool]]:
        """Rows as pyarrow reads them; gives how many it took, and whether that is all."""
        with opened(self.path) as file:
            if size_of(file) < ARROW_BYTES or _has_quotes(file):
                return 0, False
            file.seek(0)
            return (yield from self._arrow_rows(file, places))

    def _arrow_rows(self, file: BinaryIO, places: list[int]) -> Generator[list[Any], None, tuple[int, bool]]:
        try:
            import pyarrow as pa
            import pyarrow.csv as arrow_csv
        except ImportError:
            return 0, False
        names = [str(place) for place in range(len(self.columns))]
        wanted = [names[place] for place in places]
        done = 0
        try:
            for batch in arrow_csv.open_csv(
                file,
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=BLOCK_BYTES, skip_rows=self.header_line, column_names=names
                ),
                arrow_csv.ParseOptions(delimiter=self.separator, quote_char=False),
                arrow_csv.ConvertOptions(column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted),
            ):
                done += batch.num_rows
                yield batch.columns
                # pyarrow keeps what it has freed
                pa.default_memory_pool().release_unused()
        except (pa.ArrowInvalid, OSError):
            # the csv module says what is wrong, and with which line
            return done, False
        return done, True

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """A csv reader of the file; its exceptions become errors that name the file."""
        line = 0
        try:
            with io.TextIOWrapper(self._checked(), encoding="utf-8-sig", newline="") as file:
                lines = _lines(file)
                first = next((line for line in lines if line.strip()), "")
                self.separator = max(SEPARATORS, key=QUOTED.sub("", first).count)
                file.seek(0)
                reader = csv.reader(_lines(file), delimiter=self.separator, strict=True)
                try:
                    yield reader
                finally:
                    line = reader.line_num
        except csv.Error as error:
            raise FileError(f"{self.path}, line {max(1, line)}: {error}") from None
        except UnicodeDecodeError as error:
            known = next((what for mark, what in OTHER_FILES.items() if error.object.startswith(mark)), "")
            raise FileError(
                f"{self.path}, after line {line}: not a csv file in UTF-8 ({error.reason}){known}"
            ) from None
        except OSError as error:
            raise FileError(f"{self.path}: {error.strerror}") from None

    def _checked(self) -> BinaryIO:
        """The file, which is no workbook."""
        file = opened(self.path)
        if file.read(4) in WORKBOOKS:
            file.close()
            raise FileError(
                f"{self.path}: this is a workbook of Excel; save the sheet as csv (UTF-8), or pass the table that "
                "pandas.read_excel reads"
            )
        file.seek(0)
        return file


def _lines(file: TextIO) -> Iterator[str]:
    """The lines of a file; the csv module would first take a line of any length into memory."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise csv.Error(f"longer than {LONGEST_LINE} characters")
        yield line


def _has_quotes(file: BinaryIO) -> bool:
    return any(b'"' in piece for piece in iter(lambda: file.read(BLOCK_BYTES), b""))
